//! What is kept of one node, known or only mentioned by Pods.

use std::hash::BuildHasher;
use std::sync::Arc;

use foldhash::fast::RandomState;
use hashbrown::HashTable;

use super::Id;
use super::codec::Amounts;
use super::entry::Part;
use super::slab::Slab;
use super::total::Total;
use crate::cache::Node;
use crate::surge::classify::Blocked;

/// A node by name: the object once it was seen, its Pods, their sums.
#[derive(Debug, Default)]
pub(super) struct NodeSlot {
    pub(super) name: Arc<str>,
    pub(super) object: Option<Arc<Node>>,
    pub(super) pods: Pods,
    /// How many Pods are nominated here, bound ones too as long as they say so.
    pub(super) nominated: u32,
    pub(super) sums: Sums,
}

/// The Pods of a node.
#[derive(Debug, Default)]
pub(super) struct Pods(Vec<Id>);

/// The running sums of a node.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Sums {
    pub(super) usage: Total,
    pub(super) movable: Total,
    pub(super) real: u32,
    /// Pods that stand in the way, whatever the time.
    pub(super) blocked: u32,
    /// Pods that do for a while.
    pub(super) dated: u32,
}

/// All nodes, by name.
#[derive(Debug, Default)]
pub(super) struct Nodes {
    table: HashTable<Id>,
    slots: Slab<NodeSlot>,
    /// Those that have an object, by name.
    known: Vec<Id>,
    hasher: RandomState,
}

// === impl Sums ===

impl Sums {
    pub(super) fn add(&mut self, part: Part, requests: &Amounts<'_>) {
        if part.usage {
            self.usage.add(requests);
        }
        if part.movable {
            self.movable.add(requests);
        }
        self.real += u32::from(part.real);
        self.blocked += u32::from(part.blocked == Blocked::Yes);
        self.dated += u32::from(part.blocked == Blocked::Dated);
    }

    pub(super) fn subtract(&mut self, part: Part, requests: &Amounts<'_>) {
        if part.usage {
            self.usage.subtract(requests);
        }
        if part.movable {
            self.movable.subtract(requests);
        }
        self.real -= u32::from(part.real);
        self.blocked -= u32::from(part.blocked == Blocked::Yes);
        self.dated -= u32::from(part.blocked == Blocked::Dated);
    }
}

// === impl Pods ===

impl Pods {
    pub(super) fn all(&self) -> &[Id] {
        &self.0
    }

    fn join(&mut self, pod: Id) {
        if self.0.len() == self.0.capacity() {
            // In steps of a fifth: twice as many would be a third of these lists for nothing.
            self.0.reserve_exact((self.0.len() / 5).max(2));
        }
        self.0.push(pod);
    }

    /// A node has some hundred Pods at most: looking for one is cheaper than keeping where each is.
    fn leave(&mut self, pod: Id) {
        let at = self.0.iter().position(|found| *found == pod).expect("a bound Pod is on its node's list");
        self.0.swap_remove(at);
        if self.0.len() * 2 < self.0.capacity() {
            self.0.shrink_to(self.0.len() + self.0.len() / 5);
        }
    }
}

// === impl Nodes ===

impl Nodes {
    pub(super) fn id(&self, name: &str) -> Option<Id> {
        self.table.find(self.hasher.hash_one(name), |id| *self.slots.get(*id).name == *name).copied()
    }

    pub(super) fn find(&self, name: &str) -> Option<&NodeSlot> {
        self.id(name).map(|id| self.get(id))
    }

    pub(super) fn get(&self, id: Id) -> &NodeSlot {
        self.slots.get(id)
    }

    pub(super) fn get_mut(&mut self, id: Id) -> &mut NodeSlot {
        self.slots.get_mut(id)
    }

    /// The node of this name, made if need be.
    pub(super) fn mention(&mut self, name: &str) -> Id {
        if let Some(id) = self.id(name) {
            return id;
        }
        let id = self.slots.put(NodeSlot { name: name.into(), ..NodeSlot::default() });
        let Self { slots, hasher, .. } = self;
        self.table.insert_unique(hasher.hash_one(name), id, |id| hasher.hash_one(&*slots.get(*id).name));
        id
    }

    /// Puts a Pod on a node's list.
    pub(super) fn join(&mut self, id: Id, pod: Id) {
        self.get_mut(id).pods.join(pod);
    }

    /// Takes a Pod off a node's list. [`Nodes::tidy`] must follow.
    pub(super) fn leave(&mut self, id: Id, pod: Id) {
        self.get_mut(id).pods.leave(pod);
    }

    /// Sets or takes away the object. A node that is only known by it goes with it.
    pub(super) fn set_object(&mut self, id: Id, object: Option<Arc<Node>>) {
        let place = self.known.binary_search_by(|known| self.get(*known).name.cmp(&self.get(id).name));
        match (place, &object) {
            (Err(place), Some(_)) => self.known.insert(place, id),
            (Ok(place), None) => drop(self.known.remove(place)),
            _ => {}
        }
        let slot = self.get_mut(id);
        if let Some(object) = &object {
            // One allocation for a name that both hold.
            slot.name = Arc::clone(&object.name);
        }
        slot.object = object;
    }

    /// Forgets the slot if nothing mentions it any more.
    pub(super) fn tidy(&mut self, id: Id) {
        let slot = self.get(id);
        if slot.object.is_none() && slot.pods.0.is_empty() && slot.nominated == 0 {
            let hash = self.hasher.hash_one(&*slot.name);
            self.table.find_entry(hash, |found| *found == id).expect("a node is in the table").remove();
            self.slots.take(id);
        }
    }

    /// Those that have an object, by name.
    pub(super) fn known(&self) -> impl Iterator<Item = &Arc<Node>> {
        self.known.iter().filter_map(|id| self.get(*id).object.as_ref())
    }

    pub(super) fn known_len(&self) -> usize {
        self.known.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_takes_a_hundred_and_fifty_two_bytes_at_most() {
        assert!(size_of::<NodeSlot>() <= 152, "{}", size_of::<NodeSlot>());
    }

    #[test]
    fn a_list_of_pods_has_little_room_in_vain() {
        let mut pods = Pods::default();
        for pod in 0..1_000 {
            pods.join(pod);
            assert!(pods.0.capacity() <= pods.0.len() + (pods.0.len() / 5).max(2));
        }
        (0..1_000).for_each(|pod| pods.leave(pod));
        assert_eq!((pods.0.len(), pods.0.capacity()), (0, 0));
    }
}
