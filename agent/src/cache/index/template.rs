//! Templates: what Pods of one owner share, kept once.
//!
//! ```text
//! owner's UID ─▶ templates of that owner ─┐
//! namespace   ─▶ its templates ───────────┴─▶ Template { key, list of Pods }
//!                                                        └─ namespace, owner, name prefix, labels, claims, shape
//! ```
//!
//! Most owners have one; one more for each change that their Pods went through. A `CronJob` makes an owner, and so a
//! template, for each of its Pods: a template must be about as small as a Pod.

use std::hash::BuildHasher;
use std::sync::Arc;

use foldhash::fast::RandomState;
use hashbrown::HashTable;

use super::Id;
use super::blobs::Blobs;
use super::entry::{Entry, Link, List, NONE};
use super::name::Tail;
use super::slab::Slab;
use super::told::Told;
use super::uid::{Uid, Uids};

/// What Pods share: numbers of what is kept once.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Key {
    pub(super) owner_uid: Uid,
    /// Kind and API version; [`NONE`] where no owner controls the Pod.
    pub(super) owner_kind: Id,
    /// The owner's name is this text and the tail.
    pub(super) owner_prefix: Id,
    pub(super) owner_tail: Tail,
    pub(super) namespace: Id,
    /// What the names begin with; [`NONE`]: with the owner's name and a dash.
    pub(super) prefix: Id,
    pub(super) labels: Id,
    pub(super) claims: Id,
    pub(super) shape: Id,
    pub(super) told: Told,
}

/// Pods that share a [`Key`].
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Template {
    pub(super) key: Key,
    pub(super) pods: List,
    of_owner: Link,
    of_namespace: Link,
}

/// All of them, with what their keys are made of.
#[derive(Debug, Default)]
pub(super) struct Templates {
    slots: Slab<Template>,
    table: HashTable<Id>,
    /// The first template of each owner, by UID.
    owners: HashTable<Id>,
    hasher: RandomState,
    pub(super) namespaces: Namespaces,
    pub(super) kinds: Blobs,
    pub(super) texts: Blobs,
    pub(super) labels: Blobs,
    pub(super) claims: Blobs,
    pub(super) shapes: Blobs,
}

/// Namespaces that have Pods.
#[derive(Debug, Default)]
pub(super) struct Namespaces {
    slots: Slab<Namespace>,
    table: HashTable<Id>,
    hasher: RandomState,
}

#[derive(Debug, Default)]
struct Namespace {
    name: Arc<str>,
    templates: List,
}

// === impl Templates ===

impl Templates {
    pub(super) fn get(&self, id: Id) -> &Template {
        self.slots.get(id)
    }

    /// The template with this key.
    pub(super) fn find(&self, key: &Key) -> Option<Id> {
        self.table.find(self.hasher.hash_one(key), |id| self.slots.get(*id).key == *key).copied()
    }

    /// A new template: one use more of all that its key is made of.
    pub(super) fn add(&mut self, key: Key, uids: &mut Uids) -> Id {
        let template = Template { key, ..Template::default() };
        let id = self.slots.put(template);
        let Self { slots, hasher, .. } = self;
        self.table.insert_unique(hasher.hash_one(key), id, |id| hasher.hash_one(slots.get(*id).key));
        if key.owner_kind != NONE {
            uids.retain(key.owner_uid);
            self.kinds.retain(key.owner_kind);
            self.texts.retain(key.owner_prefix);
            let hash = self.hasher.hash_one(key.owner_uid);
            let same_owner = |id: &Id| self.slots.get(*id).key.owner_uid == key.owner_uid;
            let mut list = List { head: self.owners.find(hash, same_owner).copied().unwrap_or(NONE) };
            let is_first = list.head == NONE;
            if !is_first {
                *self.owners.find_mut(hash, same_owner).expect("just found") = id;
            }
            list.join(id, &mut self.slots, |slots, id| &mut slots.get_mut(id).of_owner);
            if is_first {
                let Self { slots, hasher, .. } = self;
                self.owners.insert_unique(hash, id, |id| hasher.hash_one(slots.get(*id).key.owner_uid));
            }
        }
        if key.prefix != NONE {
            self.texts.retain(key.prefix);
        }
        self.labels.retain(key.labels);
        self.claims.retain(key.claims);
        self.shapes.retain(key.shape);
        let templates = &mut self.namespaces.slots.get_mut(key.namespace).templates;
        templates.join(id, &mut self.slots, |slots, id| &mut slots.get_mut(id).of_namespace);
        id
    }

    /// Puts a Pod on the list of its template.
    pub(super) fn join(&mut self, id: Id, pod: Id, pods: &mut Slab<Entry>) {
        self.slots.get_mut(id).pods.join(pod, pods, Entry::link_of);
    }

    /// Takes a Pod off the list of its template, which goes with its last Pod.
    pub(super) fn leave(&mut self, id: Id, pod: Id, uids: &mut Uids, pods: &mut Slab<Entry>) {
        let list = &mut self.slots.get_mut(id).pods;
        list.leave(pod, pods, Entry::link_of);
        if list.head == NONE {
            self.remove(id, uids);
        }
    }

    fn remove(&mut self, id: Id, uids: &mut Uids) {
        let key = self.slots.get(id).key;
        let hash = self.hasher.hash_one(key);
        self.table.find_entry(hash, |found| *found == id).expect("a template is in the table").remove();
        if key.owner_kind != NONE {
            let hash = self.hasher.hash_one(key.owner_uid);
            let same_owner = |id: &Id| self.slots.get(*id).key.owner_uid == key.owner_uid;
            let head = *self.owners.find(hash, same_owner).expect("an owner has a template");
            let mut list = List { head };
            list.leave(id, &mut self.slots, |slots, id| &mut slots.get_mut(id).of_owner);
            let entry = self.owners.find_entry(hash, |found| *found == head).expect("just found");
            match list.head {
                NONE => drop(entry.remove()),
                next => *entry.into_mut() = next,
            }
            uids.release(key.owner_uid);
            self.kinds.release(key.owner_kind);
            self.texts.release(key.owner_prefix);
        }
        if key.prefix != NONE {
            self.texts.release(key.prefix);
        }
        self.labels.release(key.labels);
        self.claims.release(key.claims);
        self.shapes.release(key.shape);
        let templates = &mut self.namespaces.slots.get_mut(key.namespace).templates;
        templates.leave(id, &mut self.slots, |slots, id| &mut slots.get_mut(id).of_namespace);
        if templates.head == NONE {
            self.namespaces.forget(key.namespace);
        }
        self.slots.take(id);
        if self.table.is_empty() {
            (self.table, self.owners) = (HashTable::new(), HashTable::new());
        }
    }

    /// Templates of the owner with this UID.
    pub(super) fn of_owner(&self, uid: Uid) -> impl Iterator<Item = &Template> {
        let same_owner = |id: &Id| self.slots.get(*id).key.owner_uid == uid;
        let head = self.owners.find(self.hasher.hash_one(uid), same_owner).copied();
        self.list(head.unwrap_or(NONE), |template| template.of_owner.next)
    }

    /// Templates of a namespace.
    pub(super) fn of_namespace(&self, name: &str) -> impl Iterator<Item = &Template> {
        let head = self.namespaces.find(name).map(|id| self.namespaces.slots.get(id).templates.head);
        self.list(head.unwrap_or(NONE), |template| template.of_namespace.next)
    }

    fn list(&self, head: Id, next: fn(&Template) -> Id) -> impl Iterator<Item = &Template> {
        let from = move |id: Id| (id != NONE).then(|| self.slots.get(id));
        std::iter::successors(from(head), move |template| from(next(template)))
    }

    pub(super) fn owners(&self) -> usize {
        self.owners.len()
    }

    /// Writes the owner's name.
    pub(super) fn write_owner_name(&self, key: &Key, to: &mut String) {
        to.push_str(self.texts.text(key.owner_prefix));
        key.owner_tail.write(to);
    }

    /// The name of a Pod of this template.
    pub(super) fn name(&self, key: &Key, tail: Tail) -> String {
        let mut name = String::with_capacity(64);
        if key.prefix == NONE {
            self.write_owner_name(key, &mut name);
            name.push('-');
        } else {
            name.push_str(self.texts.text(key.prefix));
        }
        tail.write(&mut name);
        name
    }
}

// === impl Namespaces ===

impl Namespaces {
    pub(super) fn find(&self, name: &str) -> Option<Id> {
        self.table.find(self.hasher.hash_one(name), |id| *self.slots.get(*id).name == *name).copied()
    }

    /// The namespace with this name, without templates where it is new: [`Templates::add`] must follow.
    pub(super) fn mention(&mut self, name: &str) -> Id {
        if let Some(id) = self.find(name) {
            return id;
        }
        let id = self.slots.put(Namespace { name: name.into(), templates: List::default() });
        let Self { slots, hasher, .. } = self;
        self.table.insert_unique(hasher.hash_one(name), id, |id| hasher.hash_one(&*slots.get(*id).name));
        id
    }

    fn forget(&mut self, id: Id) {
        let hash = self.hasher.hash_one(&*self.slots.get(id).name);
        self.table.find_entry(hash, |found| *found == id).expect("a namespace is in the table").remove();
        self.slots.take(id);
    }

    pub(super) fn name(&self, id: Id) -> &Arc<str> {
        &self.slots.get(id).name
    }

    pub(super) fn names(&self) -> impl Iterator<Item = &str> {
        self.table.iter().map(|id| &**self.name(*id))
    }

    pub(super) fn len(&self) -> usize {
        self.table.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_template_takes_seventy_six_bytes() {
        assert_eq!(size_of::<Template>(), 76);
    }
}
