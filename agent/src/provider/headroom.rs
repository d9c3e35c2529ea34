//! Nodes that may be had: of which pool or group, how many, and what one offers.

use std::sync::Arc;

use jiff::Timestamp;
use rotate_shared::{Amounts, names};

use crate::cache::selector::Taint;
use crate::cache::{Node, Resources, State};

/// What somebody hangs on a node for a while, and the next node will not have: by the beginnings of their keys.
const PASSING_TAINTS: [&str; 7] = [
    "node.kubernetes.io/",
    "node.cloudprovider.kubernetes.io/",
    "node.cluster.x-k8s.io/",
    "karpenter.sh/",
    "kubectl-rotate.dev/",
    "ToBeDeletedByClusterAutoscaler",
    "DeletionCandidateOfClusterAutoscaler",
];

/// One pool or group that may grow.
#[derive(Clone, Debug, PartialEq)]
pub struct Headroom {
    /// What it is called in a plan: `NodePool general`, `group web (eks)`.
    pub source: String,
    /// How many nodes it may grow by; `None`: nothing limits their number.
    pub nodes_left: Option<u32>,
    /// What may be added up to its limits, by resource, where it has any; a new node is charged whole
    /// ([`NewNode::charged`]). Resources that are not listed have no limit.
    pub resources_left: Amounts,
    /// Why it cannot grow further, in words, for whoever is refused: `limits.cpu is 16, 12 are used`.
    pub limit: String,
    /// The kinds of node that it is known to bring; empty: none was seen, so that nothing can be promised.
    pub shapes: Vec<NewNode>,
}

/// A node as it would join.
#[derive(Clone, Debug, PartialEq)]
pub struct NewNode {
    /// Its labels, taints and allocatable; Ready and without name.
    pub node: Node,
    /// What its DaemonSets and mirror Pods will take of it.
    pub daemons: Resources,
    /// How many Pods those are.
    pub daemon_pods: i64,
    /// What it counts against the limits: its whole capacity.
    pub charged: Amounts,
    /// Labels that a node of this kind may have with other values than here, as the zone of a group over several zones:
    /// which one the next node gets is not known.
    pub uncertain: Vec<Box<str>>,
}

impl NewNode {
    /// The node under this name, once its DaemonSets run.
    pub(crate) fn joined_as(&self, name: &str) -> Node {
        let mut node = Node { name: name.into(), ..self.node.clone() };
        node.allocatable.subtract(&self.daemons);
        node.max_pods -= self.daemon_pods;
        Arc::make_mut(&mut node.labels).insert(names::HOSTNAME, name);
        node
    }

    /// One more like these, which are of one kind: as the newest of them that takes Pods, or else the newest. Labels in
    /// which they differ are uncertain. `None`: there are none.
    #[must_use]
    pub fn like(nodes: &[&Node], state: &State) -> Option<Self> {
        let model = nodes.iter().max_by_key(|node| (node.ready && !node.deleting, node.created, &node.name))?;
        let differs =
            |key: &str, value: &str| key != names::HOSTNAME && nodes.iter().any(|node| node.label(key) != Some(value));
        let uncertain = model.labels.iter().filter(|(key, value)| differs(key, value)).map(|(key, _)| key.into());
        let (daemons, daemon_pods) = daemons(state, [&*model.name]);
        let node = Node {
            name: "".into(),
            uid: "".into(),
            deleting: false,
            labels: Arc::new(model.labels.filtered(|key, _| key != names::HOSTNAME)),
            annotations: Default::default(),
            taints: model.taints.iter().filter(|taint| lasts(taint)).cloned().collect(),
            unschedulable: false,
            ready: true,
            provider_id: None,
            ..Node::clone(model)
        };
        Some(Self {
            charged: node.allocatable.to_amounts(),
            uncertain: uncertain.collect(),
            node,
            daemons,
            daemon_pods,
        })
    }
}

/// Whether the next node of the same kind will have this taint too.
pub(super) fn lasts(taint: &Taint) -> bool {
    !PASSING_TAINTS.iter().any(|beginning| taint.key.starts_with(beginning))
}

/// What DaemonSets and mirror Pods take of a node, and how many they are: the most that is seen on these.
pub(crate) fn daemons<'a>(state: &State, nodes: impl IntoIterator<Item = &'a str>) -> (Resources, i64) {
    let (mut most, mut count) = (Resources::default(), 0);
    for node in nodes {
        let (mut sum, mut pods) = (Resources::default(), 0);
        for pod in state.pods_on(node).iter().filter(|pod| pod.holds_room() && pod.comes_with_its_node()) {
            sum.add(&pod.shape.requests);
            pods += 1;
        }
        most.maximum(&sum);
        count = count.max(pods);
    }
    (most, count)
}

/// A node that has not joined: without name, and Ready.
pub(super) fn unborn<'a>(
    labels: impl IntoIterator<Item = (&'a str, &'a str)>,
    taints: &[Taint],
    allocatable: Resources,
    max_pods: i64,
) -> Node {
    Node {
        name: "".into(),
        uid: "".into(),
        created: Timestamp::UNIX_EPOCH,
        deleting: false,
        labels: Arc::new(labels.into_iter().collect()),
        annotations: Default::default(),
        taints: taints.to_vec(),
        unschedulable: false,
        ready: true,
        allocatable,
        max_pods,
        pod_addresses: None,
        provider_id: None,
        boot_id: None,
    }
}
