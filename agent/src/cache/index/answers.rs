//! What the state is asked.

use std::collections::HashMap;
use std::sync::Arc;

use jiff::Timestamp;

use super::entry::NONE;
use super::pool::Id;
use super::{Counts, State, Sum, told};
use crate::cache::selector::Labels;
use crate::cache::{Node, Pdb, Pod, Shape};

impl State {
    /// The node with this name.
    #[must_use]
    pub fn node(&self, name: &str) -> Option<&Arc<Node>> {
        self.nodes.find(name)?.object.as_ref()
    }

    /// All nodes, by name.
    pub fn nodes(&self) -> impl Iterator<Item = &Arc<Node>> {
        self.nodes.known()
    }

    /// The Pod with this UID.
    #[must_use]
    pub fn pod(&self, uid: &str) -> Option<Pod> {
        self.uids.get(uid).map(|id| self.build(*id))
    }

    /// All Pods, in no order. The only answer that takes longer the larger the cluster is.
    pub fn pods(&self) -> impl Iterator<Item = Pod> {
        self.uids.values().map(|id| self.build(*id))
    }

    /// Pods bound to a node, finished ones too, by namespace and name.
    #[must_use]
    pub fn pods_on(&self, node: &str) -> Vec<Pod> {
        self.nodes.find(node).map_or_else(Vec::new, |slot| self.build_all(&slot.pods))
    }

    /// Pods that the scheduler intends to put on a node (`status.nominatedNodeName`) and has not bound, by namespace
    /// and name.
    #[must_use]
    pub fn arriving_on(&self, node: &str) -> Vec<Pod> {
        let Some(slot) = self.nodes.find(node) else { return Vec::new() };
        let mut pods = self.build_all(&slot.nominated);
        pods.retain(|pod| pod.node.is_none() && !pod.phase.is_finished());
        pods
    }

    /// Pods whose controlling owner has this UID, by name.
    #[must_use]
    pub fn pods_of_owner(&self, owner_uid: &str) -> Vec<Pod> {
        self.build_all(self.siblings.members(owner_uid))
    }

    /// Pods of a namespace with labels and a shape that are wanted, by name. Asks once for Pods that are alike and builds
    /// only what is wanted: a namespace may have ten thousand.
    pub(crate) fn pods_where(&self, namespace: &str, wanted: impl Fn(&Labels, &Arc<Shape>) -> bool) -> Vec<Pod> {
        let mut answers = HashMap::new();
        let mut ids = self.namespaces.members(namespace).to_vec();
        ids.retain(|id| {
            let entry = self.entry(*id);
            let (labels, shape) = (self.labels.get(entry.labels), self.shapes.get(entry.shape));
            if entry.told != 0 {
                return wanted(&told::put_back(&entry.name, labels, entry.told), shape);
            }
            *answers.entry((entry.labels, entry.shape)).or_insert_with(|| wanted(labels, shape))
        });
        self.build_all(&ids)
    }

    /// Pods of a namespace, by name.
    #[must_use]
    pub fn pods_in(&self, namespace: &str) -> Vec<Pod> {
        self.build_all(self.namespaces.members(namespace))
    }

    /// Distinct (namespace, shape) of bound, unfinished Pods that have required anti-affinity terms, with how many Pods.
    #[must_use]
    pub fn anti_affine(&self) -> Vec<(Arc<str>, Arc<Shape>, u32)> {
        let named = |(&(namespace, shape), &pods): (&(Id, Id), &u32)| {
            (Arc::clone(self.namespaces.name(namespace)), Arc::clone(self.shapes.get(shape)), pods)
        };
        self.anti_affine.iter().map(named).collect()
    }

    /// Disruption budgets of the Pod's namespace that select it, by UID.
    #[must_use]
    pub fn pdbs_selecting(&self, pod: &Pod) -> Vec<&Pdb> {
        let selects = |pdb: &&Pdb| pdb.selector.as_ref().is_some_and(|selector| selector.matches(&pod.labels));
        self.budgets.of(&pod.namespace).filter(selects).collect()
    }

    /// All disruption budgets, by namespace.
    pub fn pdbs(&self) -> impl Iterator<Item = &Pdb> {
        self.budgets.all()
    }

    /// What the Pods bound to a node and not finished hold there: O(1).
    #[must_use]
    pub fn usage(&self, node: &str) -> Sum {
        self.nodes.find(node).map(|slot| slot.sums.usage.sum()).unwrap_or_default()
    }

    /// What would have to move off a node (candidate requests, [`crate::surge::classify::counts`]): O(1).
    #[must_use]
    pub fn movable(&self, node: &str) -> Sum {
        self.nodes.find(node).map(|slot| slot.sums.movable.sum()).unwrap_or_default()
    }

    /// Whether a node hosts anything but DaemonSet, mirror, finished Pods and placeholders (the absorb guard): O(1).
    /// A pinned Pod is real, and so is what may be on a node whose Pods are not read.
    #[must_use]
    pub fn hosts_real_pods(&self, node: &str) -> bool {
        self.nodes.find(node).is_some_and(|slot| slot.sums.real > 0) || !self.covers_node(node)
    }

    /// How much is kept.
    #[must_use]
    pub fn counts(&self) -> Counts {
        Counts {
            pods: self.uids.len(),
            nodes: self.nodes.known_len(),
            pdbs: self.budgets.len(),
            namespaces: self.namespaces.len(),
            owners: self.owners.len(),
            shapes: self.shapes.len(),
            label_sets: self.labels.len(),
        }
    }

    fn build_all(&self, ids: &[Id]) -> Vec<Pod> {
        let mut pods: Vec<_> = ids.iter().map(|id| self.build(*id)).collect();
        pods.sort_unstable_by(|a, b| (&a.namespace, &a.name, &a.uid).cmp(&(&b.namespace, &b.name, &b.uid)));
        pods
    }

    /// The Pod that an entry stands for.
    pub(super) fn build(&self, id: Id) -> Pod {
        let entry = self.entry(id);
        Pod {
            namespace: Arc::clone(self.namespaces.name(entry.namespace)),
            name: Arc::clone(&entry.name),
            uid: Arc::clone(&entry.uid),
            created: Timestamp::from_second(entry.created).unwrap_or(Timestamp::UNIX_EPOCH),
            deleted: self.deleted.get(&id).copied(),
            node: (entry.node != NONE).then(|| Arc::clone(&self.nodes.get(entry.node).name)),
            nominated: self.nominated.get(&id).map(|node| Arc::clone(&self.nodes.get(*node).name)),
            owner: (entry.owner != NONE).then(|| (**self.owners.get(entry.owner)).clone()),
            phase: entry.phase,
            ready: entry.ready,
            unschedulable: self.unschedulable.get(&id).map(Arc::clone),
            labels: told::put_back(&entry.name, self.labels.get(entry.labels), entry.told),
            claims: Arc::clone(self.claims.get(entry.claims)),
            shape: Arc::clone(self.shapes.get(entry.shape)),
        }
    }
}
