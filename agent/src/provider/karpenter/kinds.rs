//! The kinds of machine that Karpenter was seen to bring: nothing else tells what an instance type offers.

use std::collections::BTreeMap;
use std::sync::Arc;

use rotate_shared::{Amounts, Quantity, names};

use super::{NodeClaim, Objects};
use crate::cache::{Resources, State};
use crate::provider::headroom;

/// The label of the instance type.
const INSTANCE_TYPE: &str = "node.kubernetes.io/instance-type";
/// Labels of the kubelet and of the cloud that new nodes get without Karpenter's doing.
const OF_EVERY_NODE: [&str; 2] = ["kubernetes.io/arch", "kubernetes.io/os"];
/// Nodes of a kind that are looked at for their DaemonSets: one may be so new that they are not there yet.
const LOOKED_AT: usize = 4;

/// Machines of one instance type that one pool has brought.
#[derive(Clone, Debug)]
pub(super) struct Kind<'a> {
    /// Whose.
    pub(super) pool: &'a str,
    /// Of which node class.
    pub(super) class: &'a str,
    /// Labels that the machine has by itself: of its type, its place and the like.
    pub(super) labels: BTreeMap<Box<str>, Box<str>>,
    /// What it offers: of what Karpenter reckons with and what its nodes have shown, the least.
    pub(super) allocatable: Resources,
    /// How many Pods, likewise.
    pub(super) max_pods: i64,
    /// Its whole capacity: what limits are charged with.
    pub(super) capacity: Amounts,
    /// Its nodes.
    pub(super) nodes: Vec<Arc<str>>,
}

impl Kind<'_> {
    /// What tells its machines from others.
    pub(super) fn identity(&self) -> (&str, &str) {
        let label = |key: &str| self.labels.get(key).map_or("", |value| &**value);
        (label(INSTANCE_TYPE), label(OF_EVERY_NODE[0]))
    }
}

/// All kinds of which a machine is there, by pool and instance type.
pub(super) fn kinds<'a>(objects: &'a Objects, state: &State) -> Vec<Kind<'a>> {
    let mut kinds: BTreeMap<(&str, &str, Box<str>), Kind<'a>> = BTreeMap::new();
    for claim in objects.claims.items().iter().filter(|claim| !claim.capacity.is_empty()) {
        let kind = kind(claim, state);
        // Without an instance type, by its size.
        let of = claim.labels.get(INSTANCE_TYPE).cloned();
        let of = of.unwrap_or_else(|| format!("{:?}", claim.capacity).into());
        match kinds.get_mut(&(&*claim.pool, &*claim.class, of.clone())) {
            Some(seen) => {
                seen.allocatable.minimum(&kind.allocatable);
                seen.max_pods = seen.max_pods.min(kind.max_pods);
                most(&mut seen.capacity, &kind.capacity);
                seen.nodes.extend(kind.nodes);
            }
            None => _ = kinds.insert((&claim.pool, &claim.class, of), kind),
        }
    }
    kinds.into_values().collect()
}

fn kind<'a>(claim: &'a NodeClaim, state: &State) -> Kind<'a> {
    let mut labels = claim.labels.clone();
    let mut allocatable = Resources::from(&claim.allocatable);
    let mut max_pods = claim.allocatable.get("pods").map_or(i64::MAX, Quantity::value);
    let node = state.node(&claim.node);
    if let Some(node) = node {
        let of_the_machine = |key: &str| OF_EVERY_NODE.contains(&key) || is_place(key);
        for (key, value) in node.labels.iter().filter(|(key, _)| of_the_machine(key)) {
            labels.entry(key.into()).or_insert_with(|| value.into());
        }
        if claim.initialized {
            allocatable.minimum(&node.allocatable);
            max_pods = max_pods.min(node.max_pods);
        }
    }
    labels.retain(|key, _| is_of_machines(key));
    Kind {
        pool: &claim.pool,
        class: &claim.class,
        labels,
        allocatable,
        max_pods,
        capacity: claim.capacity.clone(),
        nodes: node.map(|node| Arc::clone(&node.name)).into_iter().collect(),
    }
}

/// Whether a label says where a machine is.
pub(super) fn is_place(key: &str) -> bool {
    key == names::ZONE || key.ends_with("/zone") || key.ends_with("/region")
}

/// Whether machines have the label by themselves; others come from the pool, or from people.
pub(super) fn is_of_machines(key: &str) -> bool {
    const DOMAINS: [&str; 6] =
        ["kubernetes.io", ".kubernetes.io", ".k8s.io", ".k8s.aws", ".amazonaws.com", ".azure.com"];
    const PEOPLES: [&str; 2] = ["node-role.kubernetes.io", "node-restriction.kubernetes.io"];
    let Some((domain, _)) = key.split_once('/') else { return false };
    let known = domain.contains("karpenter") || DOMAINS.iter().any(|known| domain.ends_with(known)) || is_place(key);
    known && key != names::HOSTNAME && !PEOPLES.contains(&domain)
}

/// What DaemonSets and mirror Pods take of one of these nodes, and how many they are.
pub(super) fn daemons<'a>(state: &State, nodes: impl Iterator<Item = &'a Arc<str>>) -> (Resources, i64) {
    headroom::daemons(state, nodes.take(LOOKED_AT).map(|node| &**node))
}

/// Keeps the larger, resource by resource.
fn most(of: &mut Amounts, other: &Amounts) {
    for (name, amount) in other {
        let kept = of.entry(name.clone()).or_insert(*amount);
        *kept = (*kept).max(*amount);
    }
}
