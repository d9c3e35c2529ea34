//! Values kept once and counted by reference, and lists of Pods by a name.

use std::borrow::Borrow;
use std::collections::HashMap;
use std::hash::Hash;
use std::sync::Arc;

/// A small number that stands for an interned value, a list or a Pod.
pub(super) type Id = u32;

/// Equal values are one allocation, freed with its last use.
#[derive(Debug)]
pub(super) struct Pool<T: ?Sized> {
    ids: HashMap<Arc<T>, Id>,
    slots: Vec<Option<(Arc<T>, u32)>>,
    free: Vec<Id>,
}

/// Lists of Pods by a name: in and out in constant time, gone with the last member.
#[derive(Debug, Default)]
pub(super) struct Groups {
    ids: HashMap<Arc<str>, Id>,
    slots: Vec<Option<Group>>,
    free: Vec<Id>,
}

#[derive(Debug)]
struct Group {
    name: Arc<str>,
    members: Vec<Id>,
}

// === impl Pool ===

impl<T: ?Sized> Default for Pool<T> {
    fn default() -> Self {
        Self { ids: HashMap::new(), slots: Vec::new(), free: Vec::new() }
    }
}

impl<T: ?Sized + Eq + Hash> Pool<T> {
    /// One use more of this value.
    pub(super) fn intern(&mut self, value: &Arc<T>) -> Id {
        if let Some(id) = self.ids.get(value.borrow() as &T) {
            let (_, uses) = self.slots[*id as usize].as_mut().expect("an interned value has a slot");
            *uses += 1;
            return *id;
        }
        let id = put(&mut self.slots, &mut self.free, (Arc::clone(value), 1));
        self.ids.insert(Arc::clone(value), id);
        id
    }

    /// One use less.
    pub(super) fn release(&mut self, id: Id) {
        let slot = &mut self.slots[id as usize];
        let (_, uses) = slot.as_mut().expect("what is released was interned");
        *uses -= 1;
        if *uses == 0 {
            let (value, _) = slot.take().expect("just seen");
            self.ids.remove(value.borrow() as &T);
            self.free.push(id);
        }
    }

    pub(super) fn get(&self, id: Id) -> &Arc<T> {
        &self.slots[id as usize].as_ref().expect("an id in use has a value").0
    }

    pub(super) fn len(&self) -> usize {
        self.ids.len()
    }
}

// === impl Groups ===

impl Groups {
    /// Puts a Pod on the list of this name. Answers the list and the Pod's place on it.
    pub(super) fn join(&mut self, name: &Arc<str>, pod: Id) -> (Id, u32) {
        let id = match self.ids.get(&**name) {
            Some(id) => *id,
            None => {
                let group = Group { name: Arc::clone(name), members: Vec::new() };
                let id = put(&mut self.slots, &mut self.free, group);
                self.ids.insert(Arc::clone(name), id);
                id
            }
        };
        let members = &mut self.slots[id as usize].as_mut().expect("a named list has a slot").members;
        members.push(pod);
        (id, place(members.len() - 1))
    }

    /// Takes the Pod at this place off the list. Answers which Pod now has that place, if any.
    pub(super) fn leave(&mut self, id: Id, at: u32) -> Option<Id> {
        let slot = &mut self.slots[id as usize];
        let members = &mut slot.as_mut().expect("a list with members has a slot").members;
        members.swap_remove(at as usize);
        let moved = members.get(at as usize).copied();
        if members.is_empty() {
            let group = slot.take().expect("just seen");
            self.ids.remove(&*group.name);
            self.free.push(id);
        }
        moved
    }

    pub(super) fn name(&self, id: Id) -> &Arc<str> {
        &self.slots[id as usize].as_ref().expect("an id in use has a list").name
    }

    pub(super) fn members(&self, name: &str) -> &[Id] {
        let group = self.ids.get(name).and_then(|id| self.slots[*id as usize].as_ref());
        group.map_or(&[], |group| &group.members)
    }

    pub(super) fn len(&self) -> usize {
        self.ids.len()
    }
}

/// Puts a value into a free slot, or a new one.
pub(super) fn put<T>(slots: &mut Vec<Option<T>>, free: &mut Vec<Id>, value: T) -> Id {
    match free.pop() {
        Some(id) => {
            slots[id as usize] = Some(value);
            id
        }
        None => {
            slots.push(Some(value));
            place(slots.len() - 1)
        }
    }
}

/// A place in a list as a small number.
pub(super) fn place(at: usize) -> u32 {
    u32::try_from(at).expect("fewer than four billion Pods")
}
