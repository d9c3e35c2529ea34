//! What a workload's Pods have in common: drawn once, from its number.

use super::random::{mix, suffix, text};

/// What controls the Pods of a workload.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Control {
    /// A `Deployment`, by way of its `ReplicaSet`.
    Deployment,
    /// A `StatefulSet`.
    StatefulSet,
    /// A Job with a completion index for each Pod.
    IndexedJob,
    /// A `CronJob`: each Pod has a Job of its own.
    CronJob,
    /// A `DaemonSet`.
    DaemonSet,
    /// A workflow engine that gives each Pod labels of its own and controls it directly.
    Workflow,
    /// Nothing.
    Bare,
}

/// A workload.
#[derive(Clone, Debug)]
pub struct Workload {
    /// What controls it.
    pub control: Control,
    /// Its number among all of them.
    pub number: u64,
    /// Its namespace.
    pub namespace: String,
    /// What it is, without number: its image's name too.
    pub app: String,
    /// Its name.
    pub name: String,
    /// Number of the first Pod.
    pub first: usize,
    /// How many Pods.
    pub pods: usize,
}

const NAMESPACES: u64 = 200;
const TEAMS: [&str; 20] = [
    "payments",
    "checkout",
    "search",
    "catalog",
    "identity",
    "logistics",
    "billing",
    "ml-platform",
    "data",
    "growth",
    "support",
    "risk",
    "mobile",
    "web",
    "messaging",
    "media",
    "pricing",
    "inventory",
    "partners",
    "observability",
];
const STAGES: [&str; 10] =
    ["prod", "staging", "canary", "prod-eu", "prod-us", "preview", "batch", "internal", "shared", "perf"];
const SERVICES: [&str; 16] = [
    "api",
    "worker",
    "gateway",
    "frontend",
    "consumer",
    "scheduler",
    "indexer",
    "notifier",
    "sync",
    "proxy",
    "webhook",
    "exporter",
    "backend",
    "ingest",
    "resolver",
    "bff",
];
const STORES: [&str; 8] = ["postgres", "redis", "kafka", "elasticsearch", "mysql", "mongodb", "rabbitmq", "clickhouse"];
const REPORTS: [&str; 6] = ["nightly-report", "cleanup", "backup", "rebalance", "invoice-run", "export-metrics"];
const AGENTS: [&str; 6] = ["node-exporter", "fluent-bit", "cilium", "csi-node", "kube-proxy", "datadog-agent"];

impl Workload {
    pub(super) fn new(control: Control, number: u64, pods: usize) -> Self {
        let pick = |from: &[&str], what: u64| {
            from[(mix([number, what, control as u64]) % from.len() as u64) as usize].to_owned()
        };
        let team = pick(&TEAMS, 1);
        let app = match control {
            Control::Deployment => format!("{team}-{}", pick(&SERVICES, 2)),
            Control::StatefulSet => format!("{}-{team}", pick(&STORES, 2)),
            Control::IndexedJob => format!("train-{team}"),
            Control::CronJob => format!("{}-{team}", pick(&REPORTS, 2)),
            Control::DaemonSet => pick(&AGENTS, 2),
            Control::Workflow => format!("etl-{team}"),
            Control::Bare => format!("debug-{team}"),
        };
        let name = match control {
            Control::DaemonSet => format!("{app}-{}", text(&suffix(number, 1)[..2])),
            _ => format!("{app}-{number}"),
        };
        let place = mix([number, 3, control as u64]) % NAMESPACES;
        let namespace = if control == Control::DaemonSet {
            "kube-system".to_owned()
        } else {
            let (team, stage) = (TEAMS[(place % 20) as usize], STAGES[(place / 20) as usize]);
            format!("{team}-{stage}")
        };
        Self { control, number, namespace, app, name, first: 0, pods }
    }

    /// A number of its own for each question.
    #[must_use]
    pub fn draw(&self, what: u64) -> u64 {
        mix([self.number, 1_000 + what, self.control as u64])
    }

    /// True for this share of all workloads, in percent.
    #[must_use]
    pub fn in_share(&self, what: u64, percent: u64) -> bool {
        self.draw(what) % 100 < percent
    }

    /// Ten letters that name its `ReplicaSet`.
    #[must_use]
    pub fn template_hash(&self) -> String {
        let (one, two) = (suffix(self.draw(0), 1), suffix(self.draw(0), 2));
        format!("{}{}", text(&one), text(&two))
    }
}

/// Workloads with this many Pods in all: 60 % of Deployments, 15 % of StatefulSets, 15 % of Jobs (half of them one
/// by one, by CronJobs), 10 % of DaemonSets.
pub(super) fn of_cluster(pods: usize, nodes: usize) -> Vec<Workload> {
    let (stateful, indexed, cron, daemon) = (pods * 15 / 100, pods * 75 / 1_000, pods * 75 / 1_000, pods / 10);
    let deployed = pods - stateful - indexed - cron - daemon;
    let mut workloads = Vec::new();
    let mut add = |control, pods: usize, count: usize| {
        let count = count.clamp(1, pods.max(1));
        workloads.extend(sizes(pods, count).zip(0..).map(|(pods, number)| Workload::new(control, number, pods)));
    };
    add(Control::Deployment, deployed, (pods / 10).min(1_000));
    add(Control::StatefulSet, stateful, (stateful / 8).min(1_000));
    add(Control::IndexedJob, indexed, (indexed / 40).min(1_000));
    add(Control::CronJob, cron, (cron / 6).min(1_000));
    workloads
        .extend(sizes_of(daemon, nodes).zip(0..).map(|(pods, number)| Workload::new(Control::DaemonSet, number, pods)));
    numbered(workloads)
}

/// Workloads of which nothing can be shared: each Pod of a workflow has labels of its own, each bare Pod nothing but
/// itself.
pub(super) fn hostile(pods: usize) -> Vec<Workload> {
    let bare = pods / 4;
    let workflows = sizes(pods - bare, (pods / 100).max(1));
    let workflows = workflows.zip(0..).map(|(pods, number)| Workload::new(Control::Workflow, number, pods));
    let bare = (0..bare as u64).map(|number| Workload::new(Control::Bare, number, 1));
    numbered(workflows.chain(bare).collect())
}

/// In the order in which the API server lists them: by namespace and name.
fn numbered(mut workloads: Vec<Workload>) -> Vec<Workload> {
    workloads.retain(|workload| workload.pods > 0);
    workloads.sort_by(|one, other| (&one.namespace, &one.name).cmp(&(&other.namespace, &other.name)));
    let mut first = 0;
    for workload in &mut workloads {
        workload.first = first;
        first += workload.pods;
    }
    workloads
}

/// So many sizes with this sum, from small to twenty times that.
fn sizes(sum: usize, count: usize) -> impl Iterator<Item = usize> {
    let weight = |place: usize| 1 + place % 20;
    let upto = move |places: usize| places / 20 * 210 + (0..places % 20).map(weight).sum::<usize>();
    let share = move |places: usize| sum * upto(places) / upto(count);
    (0..count).map(move |place| share(place + 1) - share(place))
}

/// Sizes of at most `most` with this sum.
fn sizes_of(sum: usize, most: usize) -> impl Iterator<Item = usize> {
    (0..sum.div_ceil(most)).map(move |place| most.min(sum - place * most))
}
