//! What is kept of one node, known or only mentioned by Pods.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use super::entry::Part;
use super::pool::{Id, put};
use super::total::Total;
use crate::cache::{Node, Resources};

/// A node by name: the object once it was seen, its Pods, their sums.
#[derive(Debug)]
pub(super) struct NodeSlot {
    pub(super) name: Arc<str>,
    pub(super) object: Option<Arc<Node>>,
    pub(super) pods: Vec<Id>,
    /// Pods nominated here, bound ones too as long as they say so.
    pub(super) nominated: Vec<Id>,
    pub(super) sums: Sums,
}

/// The running sums of a node.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Sums {
    pub(super) usage: Total,
    pub(super) movable: Total,
    pub(super) real: u32,
}

/// All nodes, by name.
#[derive(Debug, Default)]
pub(super) struct Nodes {
    ids: HashMap<Arc<str>, Id>,
    slots: Vec<Option<NodeSlot>>,
    free: Vec<Id>,
    /// Those that have an object, in order.
    known: BTreeMap<Arc<str>, Id>,
}

impl Sums {
    pub(super) fn add(&mut self, part: Part, requests: &Resources) {
        if part.usage {
            self.usage.add(requests);
        }
        if part.movable {
            self.movable.add(requests);
        }
        self.real += u32::from(part.real);
    }

    pub(super) fn subtract(&mut self, part: Part, requests: &Resources) {
        if part.usage {
            self.usage.subtract(requests);
        }
        if part.movable {
            self.movable.subtract(requests);
        }
        self.real -= u32::from(part.real);
    }
}

// === impl Nodes ===

impl Nodes {
    pub(super) fn id(&self, name: &str) -> Option<Id> {
        self.ids.get(name).copied()
    }

    pub(super) fn find(&self, name: &str) -> Option<&NodeSlot> {
        self.id(name).map(|id| self.get(id))
    }

    pub(super) fn get(&self, id: Id) -> &NodeSlot {
        self.slots[id as usize].as_ref().expect("an id in use has a node")
    }

    pub(super) fn get_mut(&mut self, id: Id) -> &mut NodeSlot {
        self.slots[id as usize].as_mut().expect("an id in use has a node")
    }

    /// The node of this name, made if need be.
    pub(super) fn mention(&mut self, name: &Arc<str>) -> Id {
        if let Some(id) = self.ids.get(name) {
            return *id;
        }
        let slot = NodeSlot {
            name: Arc::clone(name),
            object: None,
            pods: Vec::new(),
            nominated: Vec::new(),
            sums: Sums::default(),
        };
        let id = put(&mut self.slots, &mut self.free, slot);
        self.ids.insert(Arc::clone(name), id);
        id
    }

    /// Sets or takes away the object.
    pub(super) fn set_object(&mut self, id: Id, object: Option<Arc<Node>>) {
        let name = Arc::clone(&self.get(id).name);
        match object {
            Some(_) => self.known.insert(name, id),
            None => self.known.remove(&name),
        };
        self.get_mut(id).object = object;
    }

    /// Forgets the slot if nothing mentions it any more.
    pub(super) fn tidy(&mut self, id: Id) {
        let slot = self.get(id);
        if slot.object.is_none() && slot.pods.is_empty() && slot.nominated.is_empty() {
            let name = Arc::clone(&slot.name);
            self.ids.remove(&name);
            self.slots[id as usize] = None;
            self.free.push(id);
        }
    }

    /// Those that have an object, by name.
    pub(super) fn known(&self) -> impl Iterator<Item = &Arc<Node>> {
        self.known.values().filter_map(|id| self.get(*id).object.as_ref())
    }

    pub(super) fn known_len(&self) -> usize {
        self.known.len()
    }
}
