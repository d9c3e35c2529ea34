//! The command line as typed: the clap surface and nothing else. [`crate::args`] says what is meant by it.

mod again;
mod connection;
mod duration;
pub(crate) mod install;
mod switch;

use std::path::PathBuf;

use clap::builder::ValueParser;
use clap::{Args, Parser, Subcommand, ValueEnum};

pub(crate) use again::quoted;
pub(crate) use connection::{AgentFlags, ConnectionFlags};
pub(crate) use duration::GoDuration;
use switch::{Switch, SwitchArg as _};

/// Replace a Kubernetes node without the workload losing capacity.
///
/// Before a Pod is evicted, room for it is held on another node: placeholder Pods bring up a new node, or take spare
/// room, first. Every eviction respects its PodDisruptionBudget, and any failure before the first eviction leaves the
/// cluster as it was found.
#[derive(Clone, Debug, Parser)]
#[command(
    name = "kubectl-rotate",
    bin_name = "kubectl rotate",
    display_name = "kubectl rotate",
    disable_version_flag = true,
    infer_subcommands = false,
    max_term_width = 110,
    args_override_self = true,
    after_help = "Examples:
  kubectl rotate demo                                # watch it work on a simulated cluster; needs nothing
  kubectl rotate plan node worker-1                  # what would move, where the room comes from, what blocks
  kubectl rotate node worker-1                       # rotate one node and wait
  kubectl rotate node -l pool=web --max-concurrent 2 # rotate a pool, two nodes at a time
  kubectl rotate status                              # what is going on"
)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) verb: Option<Verb>,
    #[command(flatten)]
    pub(crate) agent: AgentFlags,
    #[command(flatten)]
    pub(crate) connection: ConnectionFlags,
}

/// What to do.
#[derive(Clone, Debug, Subcommand)]
pub(crate) enum Verb {
    /// Show what rotating a node would do; changes nothing.
    ///
    /// Lists the Pods by what happens to them, the room that is needed and where it would come from, and what stands
    /// in the way, with the flag or command that lifts it.
    #[command(after_help = "Examples:
  kubectl rotate plan node worker-1
  kubectl rotate plan node -l pool=web -o wide
  kubectl rotate plan node worker-1 --exit-code      # 10 where there is something to do, 3 where it is blocked

  # Without a cluster, from saved objects; with Karpenter add ,nodepools,nodeclaims:
  kubectl get nodes,pods,pdb,pvc,pv -A -o yaml > cluster.yaml
  kubectl rotate plan node worker-1 --from cluster.yaml")]
    Plan(PlanArgs),
    /// Rotate nodes: reserve room, evict, wait for the replacements.
    ///
    /// Shows the plan's summary and asks first; without a terminal --yes is needed. Waits until it is done unless
    /// --wait=false. Ctrl-C ends only the waiting, the agent goes on; with --embedded it pauses, and ends with the command.
    #[command(
        visible_alias = "nodes",
        after_help = "Examples:
  kubectl rotate node worker-1
  kubectl rotate node worker-1 worker-2 --yes --reason 'kernel update'
  kubectl rotate node -l pool=web --max-concurrent 2 --max-failures 1
  kubectl rotate node worker-1 --embedded            # no agent installed: run one here, with your kubeconfig
  kubectl rotate node worker-1 --pod-selector app=web # only these Pods; the node is kept for the others
  kubectl rotate node worker-1 --dry-run=server      # plan, and ask whether each Pod would be evicted now
  kubectl rotate node worker-1 --yes -o json         # each change of state as a line of JSON

Exit codes:
  0 done   1 error   2 usage   3 blocked, nothing was touched   4 no room came, rolled back
  5 timed out, goes on in the agent   6 some nodes failed   7 not authorised   8 no agent   130 interrupted"
    )]
    Node(NodeArgs),
    /// Show rotations, or one of them in detail.
    #[command(after_help = "Examples:
  kubectl rotate status
  kubectl rotate status 4f0c2a9b1e
  kubectl rotate status node/worker-1 -w             # exits as `kubectl rotate node` would
  kubectl rotate status batch/f9b09ffcf2 -w -o json  # one object a line")]
    Status(StatusArgs),
    /// End a rotation.
    ///
    /// As long as nothing was evicted the cluster goes back to as it was found. Later it stops: no more evictions, the
    /// node stays cordoned unless --uncordon, and what moved is listed.
    #[command(after_help = "Examples:
  kubectl rotate cancel 4f0c2a9b1e
  kubectl rotate cancel node/worker-1 --uncordon")]
    Cancel(CancelArgs),
    /// Hold a rotation: nothing new is begun until it is resumed.
    ///
    /// Evictions that were asked for already are not taken back, and room that is held stays held.
    #[command(after_help = "Examples:
  kubectl rotate pause 4f0c2a9b1e
  kubectl rotate pause batch/f9b09ffcf2              # every rotation of a batch that is not over")]
    Pause(IdArgs),
    /// Let a paused rotation go on.
    #[command(after_help = "Examples:
  kubectl rotate resume 4f0c2a9b1e
  kubectl rotate resume node/worker-1")]
    Resume(IdArgs),
    /// List nodes with what would have to move off them.
    ///
    /// BLOCKERS counts Pods that stand in the way by themselves, with default options. Whether there is room for the others is
    /// not looked at here: kubectl rotate plan does, and may find more.
    #[command(after_help = "Examples:
  kubectl rotate fleet
  kubectl rotate fleet -l pool=web -o wide")]
    Fleet(FleetArgs),
    /// Print what belongs into a cluster, or apply it.
    ///
    /// Prints the manifests unless --apply is given: the namespaces, the agent's Deployment with its rights, the admission
    /// policies that hold it to them. --apply asks the API server about every object first, then applies them (server-side, as
    /// field manager kubectl-rotate), removes what an earlier version had and this one has not, and waits until the agents are
    /// ready. It is also how to upgrade.
    #[command(after_help = "Examples:
  kubectl rotate install                             # read it first
  kubectl rotate install --apply
  kubectl rotate install --with ha,network-policy | kubectl apply --server-side -f -
  kubectl rotate install --apply --image registry.example.com/mirror/rotate-agent:0.1.0
  kubectl rotate install --apply --dry-run=server    # would it be allowed?

Exit codes:
  0 done   1 error   2 usage   3 refused, nothing was changed   5 not ready in time   7 not authorised   130 interrupted")]
    Install(install::InstallArgs),
    /// Remove everything that was installed.
    ///
    /// Refuses while rotations are live. Deletes the agent first, then both namespaces with all records, then the rights and
    /// policies; takes marks that a dead rotation left off the nodes; says which nodes stay cordoned. Shows what goes and asks;
    /// without a terminal --yes is needed.
    #[command(after_help = "Examples:
  kubectl rotate uninstall
  kubectl rotate uninstall --dry-run                 # what would go
  kubectl rotate uninstall --yes

Exit codes:
  0 done, or nothing was installed   1 error   2 usage   3 rotations are live, nothing was changed   5 not gone in time
  7 not authorised   130 interrupted")]
    Uninstall(install::UninstallArgs),
    /// Watch the whole system rotate a node of a simulated cluster; needs no cluster.
    #[command(after_help = "Examples:
  kubectl rotate demo")]
    Demo(DemoArgs),
    /// Print the versions of this program and of the agent.
    #[command(after_help = "Examples:
  kubectl rotate version
  kubectl rotate version --client -o json")]
    Version(VersionArgs),
    /// Print a script that completes kubectl-rotate in a shell, or install completion for `kubectl rotate`.
    ///
    /// kubectl (1.26 and newer) completes what follows `kubectl rotate` by asking a program called
    /// kubectl_complete-rotate, which --install puts beside this one: verbs, flags, and names of nodes and rotations in
    /// your cluster. kubectl's own completion has to be set up, see kubectl completion --help.
    #[command(after_help = "Examples:
  kubectl rotate completion --install                # completes kubectl rotate wherever kubectl is completed
  source <(kubectl rotate completion bash)           # completes kubectl-rotate, typed by itself
  kubectl rotate completion fish > ~/.config/fish/completions/kubectl-rotate.fish")]
    Completion(CompletionArgs),
    /// Print names for completion; the flags of the connection say whose.
    #[command(name = crate::complete::NAMES, hide = true)]
    Names(NamesArgs),
}

/// `plan`.
#[derive(Args, Clone, Debug)]
pub(crate) struct PlanArgs {
    /// `node NAME…` or `node/NAME…`
    #[arg(value_name = "node NAME", required_unless_present = "selector")]
    pub(crate) target: Vec<String>,
    #[command(flatten)]
    pub(crate) select: Select,
    /// Read saved objects (YAML or JSON, as kubectl get -o prints them) instead of a cluster; - for stdin
    #[arg(long, value_name = "FILE")]
    pub(crate) from: Option<PathBuf>,
    /// Exit 10 where there is something to do and 3 where it is blocked
    #[arg(long, switch(Switch::Off))]
    pub(crate) exit_code: bool,
    #[command(flatten)]
    pub(crate) rotation: RotationFlags,
    #[command(flatten)]
    pub(crate) output: OutputFlags,
}

/// `node`.
#[derive(Args, Clone, Debug)]
pub(crate) struct NodeArgs {
    /// Names of nodes; node/NAME is accepted too
    #[arg(value_name = "NAME")]
    pub(crate) names: Vec<String>,
    #[command(flatten)]
    pub(crate) select: Select,
    #[command(flatten)]
    pub(crate) rotation: RotationFlags,
    /// Change nothing. client: show the plan; server: also ask the API server whether it would evict each Pod
    #[arg(long, value_enum, default_value = "none", value_name = "none|client|server", hide_possible_values = true, num_args = 0..=1, require_equals = true, default_missing_value = "client")]
    pub(crate) dry_run: DryRun,
    /// How long to wait before giving up waiting, 0 for ever; the agent goes on, with --embedded it ends too
    #[arg(long, default_value = "0s", value_name = "DURATION", value_parser = duration())]
    pub(crate) timeout: GoDuration,
    /// Wait until it is over and show progress
    #[arg(long, switch(Switch::On))]
    pub(crate) wait: bool,
    /// Do not ask
    #[arg(long, short = 'y', switch(Switch::Off))]
    pub(crate) yes: bool,
    #[command(flatten)]
    pub(crate) output: OutputFlags,
}

/// `status`.
#[derive(Args, Clone, Debug)]
pub(crate) struct StatusArgs {
    /// ID, rotation/ID, batch/ID or node/NAME; all rotations without it
    #[arg(value_name = "ID")]
    pub(crate) id: Option<String>,
    /// Follow until it is over and exit as `kubectl rotate node` would
    #[arg(long, short = 'w', switch(Switch::Off))]
    pub(crate) watch: bool,
    #[command(flatten)]
    pub(crate) output: OutputFlags,
}

/// `cancel`.
#[derive(Args, Clone, Debug)]
pub(crate) struct CancelArgs {
    /// ID, rotation/ID, batch/ID or node/NAME
    #[arg(value_name = "ID")]
    pub(crate) id: String,
    /// Lift our cordon even where Pods were evicted already
    #[arg(long, switch(Switch::Off))]
    pub(crate) uncordon: bool,
    #[command(flatten)]
    pub(crate) output: OutputFlags,
}

/// `pause`, `resume`.
#[derive(Args, Clone, Debug)]
pub(crate) struct IdArgs {
    /// ID, rotation/ID, batch/ID or node/NAME
    #[arg(value_name = "ID")]
    pub(crate) id: String,
    #[command(flatten)]
    pub(crate) output: OutputFlags,
}

/// `fleet`.
#[derive(Args, Clone, Debug)]
pub(crate) struct FleetArgs {
    #[command(flatten)]
    pub(crate) select: Select,
    #[command(flatten)]
    pub(crate) output: OutputFlags,
}

/// `demo`.
#[derive(Args, Clone, Debug)]
pub(crate) struct DemoArgs {}

/// `version`.
#[derive(Args, Clone, Debug)]
pub(crate) struct VersionArgs {
    /// Only this program; asks nobody
    #[arg(long, switch(Switch::Off))]
    pub(crate) client: bool,
    #[command(flatten)]
    pub(crate) output: OutputFlags,
}

/// `completion`.
#[derive(Args, Clone, Debug)]
pub(crate) struct CompletionArgs {
    /// The shell to print a script for
    #[arg(value_enum, value_name = "SHELL", required_unless_present = "install")]
    pub(crate) shell: Option<clap_complete::Shell>,
    /// Put kubectl_complete-rotate beside this program, where kubectl finds it
    #[arg(long, switch(Switch::Off))]
    pub(crate) install: bool,
}

/// The hidden verb of completion.
#[derive(Args, Clone, Debug)]
pub(crate) struct NamesArgs {
    /// Whose names
    #[arg(value_enum)]
    pub(crate) what: NamesOf,
}

/// What is named for completion.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum NamesOf {
    /// The cluster's nodes.
    Nodes,
    /// The kubeconfig's contexts.
    Contexts,
    /// The kubeconfig's clusters.
    Clusters,
    /// The kubeconfig's users.
    Users,
}

/// Which nodes.
#[derive(Args, Clone, Debug)]
pub(crate) struct Select {
    /// Nodes with these labels, as kubectl -l: pool=web,zone!=a,arch in (arm64)
    #[arg(long, short = 'l', value_name = "SELECTOR")]
    pub(crate) selector: Option<String>,
}

/// What a rotation is asked to do. What is not given is left out of the request, so that an older agent fails only on
/// what it cannot do.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Rotation")]
pub(crate) struct RotationFlags {
    /// Leave DaemonSet Pods where they are [default: true]
    #[arg(long, switch(Switch::Ungiven))]
    pub(crate) ignore_daemonsets: Option<bool>,
    /// Evict Pods with emptyDir data on disk too; the data is lost
    #[arg(long, switch(Switch::Ungiven))]
    pub(crate) delete_emptydir_data: Option<bool>,
    /// Evict Pods that nothing creates anew, and Pods of other schedulers, too
    #[arg(long, switch(Switch::Ungiven))]
    pub(crate) force: Option<bool>,
    /// Seconds a Pod gets to shut down; -1 takes the Pod's own [default: -1]
    #[arg(long, value_name = "SECONDS", allow_negative_numbers = true)]
    pub(crate) grace_period: Option<i64>,
    /// Move only Pods with these labels, as kubectl -l; the others stay, and the node is kept for them
    #[arg(long, value_name = "SELECTOR")]
    pub(crate) pod_selector: Option<String>,
    /// Go on without Pods that should have been gone for longer than this, 0 waits for all [default: 0]
    #[arg(long, value_name = "SECONDS")]
    pub(crate) skip_wait_for_delete_timeout: Option<u64>,
    /// Delete Pods instead of evicting them; bypasses PodDisruptionBudgets, and takes rights that the installed agent does not have by itself
    #[arg(long, switch(Switch::Ungiven))]
    pub(crate) disable_eviction: Option<bool>,
    /// How room is reserved: per-pod holds room for each Pod before it is evicted, single holds it for all in one place, none is a plain drain [default: per-pod]
    #[arg(long, value_enum, value_name = "per-pod|single|none", hide_possible_values = true)]
    pub(crate) surge: Option<Surge>,
    /// Give up, and put everything back, where the room has not come by then [default: 15m]
    #[arg(long, value_name = "DURATION", value_parser = duration())]
    pub(crate) surge_timeout: Option<GoDuration>,
    /// Go on with a warning where replacements are not Ready by then [default: 5m]
    #[arg(long, value_name = "DURATION", value_parser = duration())]
    pub(crate) settle_timeout: Option<GoDuration>,
    /// What becomes of the empty node [default: delete where Karpenter or Cluster API takes the machine away, else keep]
    #[arg(long, value_enum, value_name = "delete|keep|uncordon", hide_possible_values = true)]
    pub(crate) then: Option<Then>,
    /// With --then=uncordon: how long the empty node is waited for to be rebooted, 0 not at all [default: 15m]
    #[arg(long, value_name = "DURATION", value_parser = duration())]
    pub(crate) reboot_timeout: Option<GoDuration>,
    /// How many nodes may be in work at once [default: 1]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) max_concurrent: Option<u32>,
    /// How many failed nodes end the batch [default: 1]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) max_failures: Option<u32>,
    /// Evict Pods that can run only on this node; they stay Pending
    #[arg(long, switch(Switch::Ungiven))]
    pub(crate) evict_pinned: Option<bool>,
    /// Evict Pods, and rotate a node, marked as not to be disrupted
    #[arg(long, switch(Switch::Ungiven))]
    pub(crate) ignore_do_not_disrupt: Option<bool>,
    /// Allow a control-plane node
    #[arg(long, switch(Switch::Ungiven))]
    pub(crate) allow_control_plane: Option<bool>,
    /// Why; kept with the rotation
    #[arg(long, value_name = "TEXT")]
    pub(crate) reason: Option<String>,
}

/// How to print.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Output")]
pub(crate) struct OutputFlags {
    /// One of: json, name, wide, yaml
    #[arg(long, short = 'o', value_name = "FORMAT")]
    pub(crate) output: Option<String>,
    /// Leave out the table's header
    #[arg(long, switch(Switch::Off))]
    pub(crate) no_headers: bool,
}

/// `--dry-run`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum DryRun {
    /// Really do it.
    None,
    /// Show the plan.
    Client,
    /// Show the plan, and what the API server would refuse to evict.
    Server,
}

/// `--surge`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Surge {
    /// One placeholder for each Pod to move.
    PerPod,
    /// One placeholder for all of them.
    Single,
    /// No room is reserved.
    None,
}

/// `--then`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Then {
    /// The Node object is deleted.
    Delete,
    /// The node stays, cordoned.
    Keep,
    /// The node stays and is uncordoned.
    Uncordon,
}

fn duration() -> ValueParser {
    ValueParser::new(|text: &str| text.parse::<GoDuration>())
}

#[cfg(test)]
mod tests;
