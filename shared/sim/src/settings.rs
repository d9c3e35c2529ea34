//! How a simulated cluster behaves.

mod karpenter;

use std::{collections::BTreeMap, time::Duration};

use jiff::Timestamp;
use serde_json::Value;

pub use karpenter::{InstanceType, Karpenter};

/// Everything that can be chosen about a cluster before it starts.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Decides UIDs, generated names and ties between nodes. Default 1.
    pub seed: u64,
    /// What the cluster's clock shows at the start. Default: the machine's wall time.
    pub epoch: Option<Timestamp>,
    /// From a Pod's binding to Running. Default 1 s.
    pub pod_start: Duration,
    /// From Running to Ready. Default none.
    pub pod_ready: Duration,
    /// How much of its grace a Pod takes to end, 0 to 1. Default 0.1.
    pub termination: f64,
    /// From the scheduler's decision to the binding; what is decided before a cordon binds after it. Default none.
    pub bind_delay: Duration,
    /// From the decision to the binding of a Pod with a claim that waits for its first consumer. Default 2 s.
    pub volume_delay: Duration,
    /// From the scheduler's choice of victims to their deletion. Default 100 ms: with the binding that follows, the
    /// lower end of what a real scheduler takes.
    pub preemption: Duration,
    /// Whether the scheduler takes Pods out of their backoff when it has nothing else to do, as it does since 1.33.
    /// Default true.
    pub pop_from_backoff: bool,
    /// What brings new nodes, one entry a group. Default: nothing does.
    pub provisioners: Vec<Provisioner>,
    /// Between two bookmarks of a watch. Default 60 s.
    pub bookmarks: Duration,
    /// Changes kept for watches, for each kind; older ones answer 410. Default 100,000.
    pub history: usize,
    /// Who calls, and what they may. Default: anybody, anything.
    pub access: Access,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            seed: 1,
            epoch: None,
            pod_start: Duration::from_secs(1),
            pod_ready: Duration::ZERO,
            termination: 0.1,
            bind_delay: Duration::ZERO,
            volume_delay: Duration::from_secs(2),
            preemption: Duration::from_millis(100),
            pop_from_backoff: true,
            provisioners: Vec::new(),
            bookmarks: Duration::from_secs(60),
            history: 100_000,
            access: Access::default(),
        }
    }
}

/// An autoscaler's group: new nodes for Pods that find no room.
#[derive(Clone, Debug)]
pub struct Provisioner {
    /// A Node, of which each new one is a copy under a name of its own.
    pub template: Value,
    /// The names of its nodes are this, a dash and a number.
    pub prefix: String,
    /// Its nodes at most: those it brings, or, where it has a name, all that carry its label.
    pub max: usize,
    /// Its nodes at least: at the minimum none is taken away. Default 0.
    pub min: usize,
    /// Its name, the value of [`Self::GROUP_LABEL`] on its nodes. With one, the ConfigMap
    /// `kube-system/cluster-autoscaler-status` tells of it. Default none.
    pub group: Option<String>,
    /// What it takes an empty group's next node to be for as long as it has seen none of its nodes: a cloud's description
    /// of it, which may be out of date. Default: what it will be.
    pub from_zero: Option<Value>,
    /// How long a node without Pods, other than daemons', is left before it is taken away. Default: for ever.
    pub unneeded: Option<Duration>,
    /// From seeing an unschedulable Pod to the registered node, which is not Ready yet.
    pub register: Duration,
    /// From registered to Ready.
    pub boot: Duration,
    /// Pods below this priority bring no node, as cluster-autoscaler's `--expendable-pods-priority-cutoff`.
    pub cutoff: i32,
}

impl Provisioner {
    /// The label that nodes of a group with a name carry: as EKS does it.
    pub const GROUP_LABEL: &str = "eks.amazonaws.com/nodegroup";

    /// Nodes like `template`, at most `max`: registered after 1 s, Ready 20 s later.
    #[must_use]
    pub fn new(template: Value, max: usize) -> Self {
        Self {
            template,
            prefix: "surge".to_owned(),
            max,
            min: 0,
            group: None,
            from_zero: None,
            unneeded: None,
            register: Duration::from_secs(1),
            boot: Duration::from_secs(20),
            cutoff: -10,
        }
    }

    /// Another boot time.
    #[must_use]
    pub fn boot(mut self, boot: Duration) -> Self {
        self.boot = boot;
        self
    }

    /// A group with a name, and with its label on the template.
    #[must_use]
    pub fn group(mut self, name: &str) -> Self {
        self.template["metadata"]["labels"][Self::GROUP_LABEL] = name.into();
        self.group = Some(name.to_owned());
        self
    }

    /// A group that has at least so many nodes.
    #[must_use]
    pub fn min(mut self, min: usize) -> Self {
        self.min = min;
        self
    }

    /// A group that is described like this where it is empty.
    #[must_use]
    pub fn from_zero(mut self, described: Value) -> Self {
        self.from_zero = Some(described);
        self
    }

    /// A group whose empty nodes are taken away after this time.
    #[must_use]
    pub fn unneeded(mut self, after: Duration) -> Self {
        self.unneeded = Some(after);
        self
    }
}

/// Who may do what.
#[derive(Clone, Debug, Default)]
pub struct Access {
    /// Bearer tokens and whose they are. Requests without a token are the administrator's, unless
    /// [`Self::token_required`].
    pub tokens: BTreeMap<String, Identity>,
    /// What is allowed. Without any rule everything is; with one, only what some rule names.
    pub rules: Vec<Rule>,
    /// Whether a request needs a known token. Default false.
    pub token_required: bool,
}

/// Who a token speaks for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Identity {
    /// User name.
    pub user: String,
    /// Groups.
    pub groups: Vec<String>,
    /// What the token is good for; empty for the API server itself.
    pub audiences: Vec<String>,
}

/// A user or group may do these verbs on these resources. `*` stands for anything.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rule {
    /// User name or group.
    pub subject: String,
    /// `get`, `list`, `watch`, `create`, `update`, `patch`, `delete`.
    pub verbs: Vec<String>,
    /// `group/resource` or, in the core group, `resource`; with a subresource `pods/eviction`.
    pub resources: Vec<String>,
    /// Namespaces; empty for all of them.
    pub namespaces: Vec<String>,
}

impl Rule {
    /// Everything, everywhere.
    #[must_use]
    pub fn all(subject: &str) -> Self {
        Self::new(subject, &["*"], &["*"])
    }

    /// In all namespaces.
    #[must_use]
    pub fn new(subject: &str, verbs: &[&str], resources: &[&str]) -> Self {
        let owned = |texts: &[&str]| texts.iter().map(|&text| text.to_owned()).collect();
        Self { subject: subject.to_owned(), verbs: owned(verbs), resources: owned(resources), namespaces: Vec::new() }
    }
}
