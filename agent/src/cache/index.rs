//! The state: interned entries, an index by node, running sums.
//!
//! ```text
//!            ┌─ namespaces, owners: name ─▶ list of Pods
//! uid ─▶ Entry ─ shape, labels, claims, owner ─▶ Pool (one allocation for equal values, counted)
//!            └─ node ─▶ NodeSlot { Node?, list of Pods, sums: usage, movable, real }
//! ```
//!
//! A Pod changes at most the sums of the node it leaves and of the node it joins; debug builds recount both.

mod answers;
mod budgets;
mod entry;
mod node;
mod pool;
mod relist;
mod told;
mod total;
mod unreadable;

#[cfg(test)]
mod property;
#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::sync::Arc;

use jiff::Timestamp;

pub use self::relist::{Held, Partition, Relist, ShardRange, shard_hash};
pub use self::unreadable::Unreadable;

use self::budgets::Budgets;
use self::entry::{Entry, NONE, Part};
use self::node::{Nodes, Sums};
use self::pool::{Groups, Id, Pool, place};
use self::relist::Relists;
use super::coverage::Coverage;
use super::pod::PodView;
use super::selector::Labels;
use super::{Node, Owner, Pdb, Pod, Resources, Shape};
use crate::surge::classify;

/// Everything the cache knows. Plain data: no lock, no I/O.
#[derive(Debug, Default)]
pub struct State {
    uids: HashMap<Arc<str>, Id>,
    pods: Vec<Option<Entry>>,
    free: Vec<Id>,
    nodes: Nodes,
    budgets: Budgets,
    namespaces: Groups,
    siblings: Groups,
    owners: Pool<Owner>,
    shapes: Pool<Shape>,
    labels: Pool<Labels>,
    claims: Pool<[Box<str>]>,
    /// Bound, unfinished Pods with required anti-affinity, by namespace and shape.
    anti_affine: HashMap<(Id, Id), u32>,
    deleted: HashMap<Id, Timestamp>,
    nominated: HashMap<Id, Id>,
    unschedulable: HashMap<Id, Arc<str>>,
    revisions: [Option<Box<str>>; 3],
    relists: Relists,
    unreadable: unreadable::Notes,
    pub(super) coverage: Coverage,
}

/// A count of Pods and the sum of their effective requests.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sum {
    /// How many.
    pub pods: u32,
    /// Their effective requests.
    pub requests: Resources,
}

/// The kinds that are watched.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// Pods.
    Pods,
    /// Nodes.
    Nodes,
    /// Disruption budgets.
    Pdbs,
}

/// How much is kept.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Pods.
    pub pods: usize,
    /// Nodes.
    pub nodes: usize,
    /// Disruption budgets.
    pub pdbs: usize,
    /// Namespaces that have Pods.
    pub namespaces: usize,
    /// Different owners of Pods.
    pub owners: usize,
    /// Different shapes of Pods.
    pub shapes: usize,
    /// Different sets of labels of Pods.
    pub label_sets: usize,
}

impl State {
    /// Takes in a new or changed Pod, unless something newer is known of it.
    pub fn apply_pod(&mut self, pod: &PodView<'_>) {
        if !self.is_news(&pod.uid, pod.revision.as_deref()) {
            return;
        }
        let pod = pod.to_pod();
        let id = match self.uids.get(&*pod.uid) {
            Some(id) => {
                let id = *id;
                self.unlink(id);
                id
            }
            None => {
                let id = self.free.pop().unwrap_or_else(|| {
                    self.pods.push(None);
                    place(self.pods.len() - 1)
                });
                self.relists.forget_pod(id);
                self.uids.insert(Arc::clone(&pod.uid), id);
                id
            }
        };
        self.unreadable.forget(Kind::Pods, &pod.uid);
        self.link(id, pod);
    }

    /// Forgets a Pod; unknown UIDs are ignored.
    pub fn remove_pod(&mut self, uid: &str) {
        self.unreadable.forget(Kind::Pods, uid);
        if let Some(id) = self.uids.remove(uid) {
            self.unlink(id);
            self.free.push(id);
        }
    }

    /// Takes in a new or changed node. Judges its Pods anew where its labels changed: pins compare with its host name.
    pub fn apply_node(&mut self, node: Node) {
        let id = self.nodes.mention(&node.name);
        let before = self.nodes.get(id).object.as_ref();
        let same = before.is_some_and(|before| before.labels == node.labels);
        self.unreadable.forget(Kind::Nodes, &node.uid);
        self.nodes.set_object(id, Some(Arc::new(node)));
        if !same {
            self.judge_again(id);
        }
    }

    /// Forgets the node with this name, if its UID is this one.
    pub fn remove_node(&mut self, name: &str, uid: &str) {
        self.unreadable.forget(Kind::Nodes, uid);
        let Some(id) = self.nodes.id(name) else { return };
        if self.nodes.get(id).object.as_ref().is_some_and(|node| &*node.uid == uid) {
            self.nodes.set_object(id, None);
            self.judge_again(id);
            self.nodes.tidy(id);
        }
    }

    /// Takes in a new or changed disruption budget.
    pub fn apply_pdb(&mut self, pdb: Pdb) {
        self.unreadable.forget(Kind::Pdbs, &pdb.uid);
        self.budgets.apply(pdb);
    }

    /// Forgets a disruption budget.
    pub fn remove_pdb(&mut self, uid: &str) {
        self.unreadable.forget(Kind::Pdbs, uid);
        self.budgets.remove(uid);
    }

    /// Notes up to which resourceVersion this kind was read.
    pub fn set_revision(&mut self, kind: Kind, revision: &str) {
        let kept = &mut self.revisions[kind as usize];
        if kept.as_deref() != Some(revision) {
            *kept = Some(revision.into());
        }
    }

    /// The resourceVersion that the answers about this kind reflect.
    #[must_use]
    pub fn revision(&self, kind: Kind) -> Option<&str> {
        self.revisions[kind as usize].as_deref()
    }

    fn entry(&self, id: Id) -> &Entry {
        self.pods[id as usize].as_ref().expect("an id in use has a Pod")
    }

    fn entry_mut(&mut self, id: Id) -> &mut Entry {
        self.pods[id as usize].as_mut().expect("an id in use has a Pod")
    }

    /// Puts a Pod into all pools, lists and sums.
    fn link(&mut self, id: Id, pod: Pod) {
        let node = pod.node.as_ref().map_or(NONE, |name| self.nodes.mention(name));
        let (namespace, namespace_at) = self.namespaces.join(&pod.namespace, id);
        let (owner, (siblings, siblings_at)) = match &pod.owner {
            Some(owner) => (self.owners.intern(&Arc::new(owner.clone())), self.siblings.join(&owner.uid, id)),
            None => (NONE, (NONE, 0)),
        };
        let (labels, told) = told::take_out(&pod.name, &pod.labels);
        let shape = self.shapes.intern(&pod.shape);
        let mut entry = Entry {
            created: pod.created.as_second(),
            namespace,
            namespace_at,
            owner,
            siblings,
            siblings_at,
            node,
            node_at: 0,
            shape,
            labels: self.labels.intern(&labels),
            claims: self.claims.intern(&pod.claims),
            told,
            phase: pod.phase,
            ready: pod.ready,
            part: Part::default(),
            uid: Arc::clone(&pod.uid),
            name: Arc::clone(&pod.name),
        };
        if node != NONE {
            let slot = self.nodes.get_mut(node);
            entry.node_at = place(slot.pods.len());
            slot.pods.push(id);
            entry.part = judge(&pod, slot.object.as_deref());
            slot.sums.add(entry.part, &pod.shape.requests);
        }
        if entry.part.usage && !pod.shape.anti_affinity.is_empty() {
            *self.anti_affine.entry((namespace, shape)).or_insert(0) += 1;
        }
        if let Some(name) = &pod.nominated {
            let nominated = self.nodes.mention(name);
            self.nodes.get_mut(nominated).nominated.push(id);
            self.nominated.insert(id, nominated);
        }
        if let Some(deleted) = pod.deleted {
            self.deleted.insert(id, deleted);
        }
        if let Some(message) = pod.unschedulable {
            self.unschedulable.insert(id, message);
        }
        self.pods[id as usize] = Some(entry);
        self.check(node);
    }

    /// Takes a Pod out of all pools, lists and sums. Its slot is empty afterwards.
    fn unlink(&mut self, id: Id) {
        let entry = self.pods[id as usize].take().expect("an id in use has a Pod");
        if entry.node != NONE {
            let requests = &self.shapes.get(entry.shape).requests;
            let slot = self.nodes.get_mut(entry.node);
            slot.sums.subtract(entry.part, requests);
            slot.pods.swap_remove(entry.node_at as usize);
            if let Some(moved) = slot.pods.get(entry.node_at as usize).copied() {
                self.entry_mut(moved).node_at = entry.node_at;
            }
            self.check(entry.node);
            self.nodes.tidy(entry.node);
        }
        if let Some(nominated) = self.nominated.remove(&id) {
            let list = &mut self.nodes.get_mut(nominated).nominated;
            list.retain(|pod| *pod != id);
            self.nodes.tidy(nominated);
        }
        if entry.part.usage
            && let Some(count) = self.anti_affine.get_mut(&(entry.namespace, entry.shape))
        {
            *count -= 1;
            if *count == 0 {
                self.anti_affine.remove(&(entry.namespace, entry.shape));
            }
        }
        if let Some(moved) = self.namespaces.leave(entry.namespace, entry.namespace_at) {
            self.entry_mut(moved).namespace_at = entry.namespace_at;
        }
        if entry.owner != NONE {
            self.owners.release(entry.owner);
            if let Some(moved) = self.siblings.leave(entry.siblings, entry.siblings_at) {
                self.entry_mut(moved).siblings_at = entry.siblings_at;
            }
        }
        self.shapes.release(entry.shape);
        self.labels.release(entry.labels);
        self.claims.release(entry.claims);
        self.deleted.remove(&id);
        self.unschedulable.remove(&id);
    }

    /// Judges all Pods of a node anew.
    fn judge_again(&mut self, node: Id) {
        let slot = self.nodes.get(node);
        let mut sums = Sums::default();
        let mut parts = Vec::with_capacity(slot.pods.len());
        for id in &slot.pods {
            let pod = self.build(*id);
            let part = judge(&pod, slot.object.as_deref());
            sums.add(part, &pod.shape.requests);
            parts.push((*id, part));
        }
        self.nodes.get_mut(node).sums = sums;
        for (id, part) in parts {
            self.entry_mut(id).part = part;
        }
    }

    /// In debug builds: the running sums of a node are what counting its Pods says.
    fn check(&self, node: Id) {
        if cfg!(debug_assertions) && node != NONE {
            let slot = self.nodes.get(node);
            let mut sums = Sums::default();
            for (at, id) in slot.pods.iter().enumerate() {
                let entry = self.entry(*id);
                debug_assert_eq!(entry.node_at as usize, at, "a Pod knows its place on its node");
                sums.add(entry.part, &self.shapes.get(entry.shape).requests);
            }
            debug_assert_eq!(sums, slot.sums, "the sums of node {}", slot.name);
        }
    }
}

/// Which sums of its node a bound Pod is in.
fn judge(pod: &Pod, node: Option<&Node>) -> Part {
    Part { usage: pod.holds_room(), movable: classify::counts(pod, node), real: classify::is_real(pod) }
}
