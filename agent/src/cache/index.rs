//! The state: interned entries, an index by node, running sums.

use std::sync::Arc;

use super::{Node, Pdb, Pod, Resources, Shape};

/// Everything the cache knows. Plain data: no lock, no I/O.
#[derive(Debug, Default)]
pub struct State {}

/// A count of Pods and the sum of their effective requests.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sum {
    /// How many.
    pub pods: u32,
    /// Their effective requests.
    pub requests: Resources,
}

impl State {
    /// Takes in a new or changed Pod.
    pub fn apply_pod(&mut self, _pod: Pod) {
        unimplemented!()
    }

    /// Forgets a Pod; unknown UIDs are ignored.
    pub fn remove_pod(&mut self, _uid: &str) {
        unimplemented!()
    }

    /// Takes in a new or changed node. Recounts its movable sum where its host name label changed.
    pub fn apply_node(&mut self, _node: Node) {
        unimplemented!()
    }

    /// Forgets the node with this name, if its UID is this one.
    pub fn remove_node(&mut self, _name: &str, _uid: &str) {
        unimplemented!()
    }

    /// Takes in a new or changed disruption budget.
    pub fn apply_pdb(&mut self, _pdb: Pdb) {
        unimplemented!()
    }

    /// Forgets a disruption budget.
    pub fn remove_pdb(&mut self, _uid: &str) {
        unimplemented!()
    }

    /// The node with this name.
    #[must_use]
    pub fn node(&self, _name: &str) -> Option<&Arc<Node>> {
        unimplemented!()
    }

    /// All nodes, by name.
    pub fn nodes(&self) -> impl Iterator<Item = &Arc<Node>> {
        std::iter::empty()
    }

    /// The Pod with this UID.
    #[must_use]
    pub fn pod(&self, _uid: &str) -> Option<Pod> {
        unimplemented!()
    }

    /// Pods bound to a node, finished ones too.
    #[must_use]
    pub fn pods_on(&self, _node: &str) -> Vec<Pod> {
        unimplemented!()
    }

    /// Pods that the scheduler intends to put on a node (`status.nominatedNodeName`) and has not bound.
    #[must_use]
    pub fn arriving_on(&self, _node: &str) -> Vec<Pod> {
        unimplemented!()
    }

    /// Pods whose controlling owner has this UID.
    #[must_use]
    pub fn pods_of_owner(&self, _owner_uid: &str) -> Vec<Pod> {
        unimplemented!()
    }

    /// Pods of a namespace.
    #[must_use]
    pub fn pods_in(&self, _namespace: &str) -> Vec<Pod> {
        unimplemented!()
    }

    /// Distinct (namespace, shape) of bound, unfinished Pods that have required anti-affinity terms, with how many Pods.
    #[must_use]
    pub fn anti_affine(&self) -> Vec<(Arc<str>, Arc<Shape>, u32)> {
        unimplemented!()
    }

    /// Disruption budgets of a namespace that select these labels.
    #[must_use]
    pub fn pdbs_selecting(&self, _pod: &Pod) -> Vec<&Pdb> {
        unimplemented!()
    }

    /// What the Pods bound to a node and not finished hold there: O(1).
    #[must_use]
    pub fn usage(&self, _node: &str) -> Sum {
        unimplemented!()
    }

    /// What would have to move off a node (candidate requests, [`crate::surge::classify::counts`]): O(1).
    #[must_use]
    pub fn movable(&self, _node: &str) -> Sum {
        unimplemented!()
    }

    /// Whether a node hosts anything but DaemonSet, mirror, finished Pods and placeholders (the absorb guard): O(1).
    /// A pinned Pod is real.
    #[must_use]
    pub fn hosts_real_pods(&self, _node: &str) -> bool {
        unimplemented!()
    }
}
