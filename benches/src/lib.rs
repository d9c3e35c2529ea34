//! Synthetic clusters for the benchmarks of kubectl-rotate.

pub mod alloc;
pub mod footprint;
pub mod realistic;
pub mod server;
pub mod wire;

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::Timestamp;
use rotate_agent::cache::selector::{Expression, Labels, Operator};
use rotate_agent::cache::{Node, Owner, Pod, PodPhase, Resources, Shape, State};
use rotate_agent::surge::classify;
use rotate_shared::names::HOSTNAME;

/// The node that is asked about.
pub const CANDIDATE: &str = "candidate";
/// Pods on the candidate: three of a `DaemonSet`, three completed, three pinned, the rest to move.
pub const ON_CANDIDATE: usize = 30;
/// What the 21 Pods to move request, 100m and 128Mi each, in thousandths of a CPU.
pub const MOVABLE_MILLI_CPU: i64 = 2100;
/// The same in bytes: 2688Mi.
pub const MOVABLE_MEMORY: i64 = 2688 << 20;

const NAMESPACES: usize = 200;
const OTHER_NODES: usize = 500;
/// Pods of one controller: with 50,000 Pods this makes 1,000 of them.
const REPLICAS: usize = 50;

/// A cluster with this many Pods over 200 namespaces, 500 nodes and the candidate.
#[derive(Debug)]
pub struct Cluster {
    /// As the agent keeps it.
    pub state: State,
    /// The candidate's object.
    pub candidate: Node,
    /// The same Pods as a plain list.
    pub pods: Vec<Pod>,
}

impl Cluster {
    /// Makes one.
    ///
    /// # Panics
    ///
    /// If there is no room for the candidate's Pods in that number.
    #[must_use]
    pub fn new(pods: usize) -> Self {
        assert!(pods >= ON_CANDIDATE, "the candidate alone has {ON_CANDIDATE} Pods");
        let candidate = node(CANDIDATE);
        let others = (0..pods - ON_CANDIDATE).map(|number| {
            let on = format!("node-{}", number % OTHER_NODES);
            pod(number, &on, number / REPLICAS, Role::Replica)
        });
        let here = (0..ON_CANDIDATE).map(|number| {
            let role = match number {
                0..3 => Role::Daemon,
                3..6 => Role::Completed,
                6..9 => Role::Pinned,
                _ => Role::Replica,
            };
            pod(pods + number, CANDIDATE, number / 3, role)
        });
        let pods: Vec<Pod> = others.chain(here).collect();
        let mut state = State::default();
        state.apply_node(candidate.clone());
        (0..OTHER_NODES).for_each(|number| state.apply_node(node(&format!("node-{number}"))));
        pods.iter().for_each(|pod| state.apply_pod(&pod.view()));
        Self { state, candidate, pods }
    }

    /// The candidate requests as a cache without an index finds them: by looking at every Pod.
    #[must_use]
    pub fn full_scan(&self) -> Resources {
        let mut sum = Resources::default();
        let here = self.pods.iter().filter(|pod| pod.node.as_deref() == Some(CANDIDATE));
        here.filter(|pod| classify::counts(pod, Some(&self.candidate))).for_each(|pod| sum.add(&pod.shape.requests));
        sum
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Role {
    Replica,
    Daemon,
    Completed,
    Pinned,
}

fn node(name: &str) -> Node {
    Node {
        name: name.into(),
        uid: format!("uid-{name}").into(),
        created: Timestamp::UNIX_EPOCH,
        deleting: false,
        labels: Arc::new(Labels::from([(HOSTNAME, name)])),
        annotations: BTreeMap::new(),
        taints: Vec::new(),
        unschedulable: false,
        ready: true,
        allocatable: Resources { milli_cpu: 16_000, memory: 64 << 30, ..Resources::default() },
        max_pods: 110,
        pod_addresses: None,
        boot_id: None,
        provider_id: None,
    }
}

fn pod(number: usize, on: &str, controller: usize, role: Role) -> Pod {
    let mut shape = Shape::default();
    shape.requests.milli_cpu = 100;
    shape.requests.memory = 128 << 20;
    if role == Role::Pinned {
        let here = Expression { key: HOSTNAME.into(), operator: Operator::In, values: vec![on.into()] };
        shape.node_selector = vec![here];
    }
    let name = format!("workload-{controller}-7d9c5b8f6d-{number:05x}");
    let kind = if role == Role::Daemon { "DaemonSet" } else { "ReplicaSet" };
    Pod {
        namespace: format!("namespace-{}", controller % NAMESPACES).into(),
        uid: format!("4f1c2a7e-0000-4000-8000-{number:012x}").into(),
        name: name.into(),
        created: Timestamp::UNIX_EPOCH,
        deleted: None,
        node: Some(on.into()),
        nominated: None,
        owner: Some(Owner {
            api_version: "apps/v1".into(),
            kind: kind.into(),
            name: format!("workload-{controller}").into(),
            uid: format!("{kind}-{controller}").into(),
        }),
        phase: if role == Role::Completed { PodPhase::Succeeded } else { PodPhase::Running },
        ready: role != Role::Completed,
        unschedulable: None,
        labels: Arc::new(Labels::from([("app", format!("workload-{controller}"))])),
        claims: [].into(),
        shape: Arc::new(shape),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_candidate_has_thirty_pods_of_which_those_to_move_request_2100m_and_2688mi() {
        let cluster = Cluster::new(1_000);
        assert_eq!(cluster.state.counts().pods, 1_000);
        assert_eq!(cluster.state.pods_on(CANDIDATE).len(), ON_CANDIDATE);
        let movable = cluster.state.movable(CANDIDATE);
        assert_eq!(movable.pods, 21);
        assert_eq!(movable.requests.to_amounts()["cpu"].to_string(), "2100m");
        assert_eq!(movable.requests.to_amounts()["memory"].to_string(), "2688Mi");
        assert_eq!(cluster.full_scan(), movable.requests);
    }
}
