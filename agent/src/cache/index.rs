//! The state: what siblings share once, what is a Pod's own in 44 bytes, an index by node, running sums.
//!
//! ```text
//! UID ─▶ Entry ─┬─ template ─▶ namespace, owner, name prefix, labels, claims, shape; its Pods (`template`)
//!               └─ node ─────▶ NodeSlot { Node?, its Pods, sums: usage, movable, real, blocked } (`node`)
//! ```
//!
//! Everything that is shared is kept as bytes that are their own key (`blobs`, `codec`): a Pod is looked up and compared
//! without a copy of anything. A [`Pod`](super::Pod) is built when somebody asks (`build`). A Pod changes at most the sums
//! of the node it leaves and of the node it joins; debug builds recount both. Why so: `docs/decisions/008`.

mod answers;
mod blobs;
mod budgets;
mod build;
mod codec;
mod entry;
mod judge;
mod name;
mod node;
mod relist;
mod shape;
mod slab;
mod template;
mod told;
mod total;
mod uid;
mod unreadable;

#[cfg(test)]
mod property;
#[cfg(test)]
mod tests;

use std::collections::{BTreeSet, HashMap};
use std::hash::BuildHasher;
use std::sync::Arc;

use foldhash::fast::RandomState;
use hashbrown::HashTable;

pub use self::answers::{AntiAffine, ShapeId, Tally};
pub use self::relist::{Held, Partition, Relist, ShardRange, shard_hash};
pub use self::unreadable::Unreadable;

use self::budgets::Budgets;
use self::codec::Writer;
use self::entry::{Entry, Extras, NONE, Place};
use self::name::Prefix;
use self::node::Nodes;
use self::relist::Relists;
use self::slab::Slab;
use self::template::{Key, Templates};
use self::uid::{Uid, Uids};
use super::coverage::Coverage;
use super::pod::PodView;
use super::{Node, Pdb, Resources};

/// A small number that stands for a Pod, or for something that Pods share.
type Id = u32;

/// Everything the cache knows. Plain data: no lock, no I/O.
#[derive(Debug, Default)]
pub struct State {
    pods: Slab<Entry>,
    table: HashTable<Id>,
    hasher: RandomState,
    uids: Uids,
    templates: Templates,
    nodes: Nodes,
    budgets: Budgets,
    extras: HashMap<Id, Extras, RandomState>,
    /// The node and the Pod that is nominated there.
    nominated: BTreeSet<(Id, Id)>,
    /// How many bound, unfinished Pods have required anti-affinity, by namespace and shape.
    anti_affine: HashMap<(Id, Id), u32, RandomState>,
    revisions: [Option<Box<str>>; 3],
    relists: Relists,
    unreadable: unreadable::Notes,
    pub(super) coverage: Coverage,
    /// What is looked up is written here first.
    scratch: Vec<u8>,
    /// A test plants a fault, to see that it is found.
    #[cfg(test)]
    planted_fault: bool,
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
        self.unreadable.forget(Kind::Pods, &pod.uid);
        let uid = self.uids.mention(&pod.uid);
        let known = self.find(uid);
        let before = known.map(|id| *self.pods.get(id));
        let template = self.template(pod, before.map(|before| before.template));
        let node = match pod.node.as_deref() {
            None => NONE,
            Some(name) => match before.map(|before| before.node()) {
                Some(node) if node != NONE && *self.nodes.get(node).name == *name => node,
                _ => self.nodes.mention(name),
            },
        };
        let extras = self.extras_of(pod);
        let (_, tail) = name::split(&pod.name, pod.owner.as_ref().map(|owner| &*owner.name));
        let object = if node == NONE { None } else { self.nodes.get(node).object.as_deref() };
        let part = judge::incoming(pod, object);
        let place = Place::new(node, pod.phase, pod.ready, !extras.is_empty()).with_part(part);
        let created = u32::try_from(pod.created.as_second()).unwrap_or_default();
        let entry = Entry::new(uid, template, tail, place, created);
        match known {
            None => self.insert(entry, extras),
            Some(id) => self.replace(id, entry, extras),
        }
        self.check(node);
    }

    /// Forgets a Pod; unknown UIDs are ignored.
    pub fn remove_pod(&mut self, uid: &str) {
        self.unreadable.forget(Kind::Pods, uid);
        if let Some(id) = self.find_pod(uid) {
            self.remove(id);
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

    fn find(&self, uid: Uid) -> Option<Id> {
        self.table.find(self.hasher.hash_one(uid), |id| self.pods.get(*id).uid == uid).copied()
    }

    fn find_pod(&self, uid: &str) -> Option<Id> {
        self.find(self.uids.find(uid)?)
    }

    pub(super) fn has_pod(&self, uid: &str) -> bool {
        self.find_pod(uid).is_some()
    }

    /// The template of a Pod, made if need be. `before`: the one that it had so far, whose parts are compared first: most
    /// events change none of them, and looking a part up costs more than comparing it.
    fn template(&mut self, pod: &PodView<'_>, before: Option<Id>) -> Id {
        let key = self.key(pod, before);
        match before {
            Some(id) if self.templates.get(id).key == key => id,
            _ => self.templates.find(&key).unwrap_or_else(|| self.templates.add(key, &mut self.uids)),
        }
    }

    /// What a Pod shares with its siblings. Parts that nobody had before have no use yet.
    fn key(&mut self, pod: &PodView<'_>, before: Option<Id>) -> Key {
        let Self { templates, scratch, uids, .. } = self;
        let before = before.map(|id| templates.get(id).key);
        let likely = |part: fn(&Key) -> Id| before.as_ref().map_or(NONE, part);
        let namespace = templates.namespaces.mention(&pod.namespace);
        let mut key = Key { namespace, owner_kind: NONE, ..Key::default() };
        if let Some(owner) = &pod.owner {
            let mut to = Writer::new(scratch, None);
            to.text(&owner.api_version);
            to.text(&owner.kind);
            key.owner_kind = templates.kinds.mention(to.written());
            let (prefix, tail) = name::split_last(&owner.name);
            let likely = if likely(|key| key.owner_kind) == NONE { NONE } else { likely(|key| key.owner_prefix) };
            (key.owner_prefix, key.owner_tail) = (templates.texts.mention_likely(likely, prefix.as_bytes()), tail);
            key.owner_uid = uids.mention(&owner.uid);
        }
        let (prefix, _) = name::split(&pod.name, pod.owner.as_ref().map(|owner| &*owner.name));
        key.prefix = match prefix {
            Prefix::Owner => NONE,
            Prefix::Text(text) => templates.texts.mention_likely(likely(|key| key.prefix), text.as_bytes()),
        };
        let mut to = Writer::new(scratch, None);
        key.told = told::write_labels(&mut to, &pod.labels, &pod.name, pod.owner.as_ref());
        key.labels = templates.labels.mention_likely(likely(|key| key.labels), to.written());
        let mut to = Writer::new(scratch, None);
        told::write_claims(&mut to, &pod.claims, &pod.name);
        key.claims = templates.claims.mention_likely(likely(|key| key.claims), to.written());
        let mut to = Writer::new(scratch, pod.node.as_deref());
        shape::write(&mut to, &pod.shape);
        key.shape = templates.shapes.mention_likely(likely(|key| key.shape), to.written());
        key
    }

    fn extras_of(&mut self, pod: &PodView<'_>) -> Extras {
        let created = pod.created.as_second();
        Extras {
            deleted: pod.deleted,
            nominated: pod.nominated.as_deref().map(|name| self.nodes.mention(name)),
            unschedulable: pod.unschedulable.as_deref().map(Box::from),
            created: u32::try_from(created).is_err().then_some(created),
        }
    }

    fn insert(&mut self, entry: Entry, extras: Extras) {
        let id = self.pods.put(entry);
        let Self { pods, hasher, .. } = self;
        self.table.insert_unique(hasher.hash_one(entry.uid), id, |id| hasher.hash_one(pods.get(*id).uid));
        self.uids.retain(entry.uid);
        self.relists.forget_pod(id);
        self.templates.join(entry.template, id, &mut self.pods);
        if entry.node() != NONE {
            self.nodes.join(entry.node(), id);
        }
        self.swap_extras(id, &Entry::default(), extras);
        self.add_to_sums(&entry);
    }

    fn replace(&mut self, id: Id, mut entry: Entry, extras: Extras) {
        let before = *self.pods.get(id);
        let moved = before.node() != entry.node();
        let (same_template, same_place) = (before.template == entry.template, before.place() == entry.place());
        if !(same_template && same_place) {
            self.add_to_sums(&entry);
            self.take_from_sums(&before);
        }
        if moved && entry.node() != NONE {
            self.nodes.join(entry.node(), id);
        }
        if entry.place().has_extras() || before.place().has_extras() {
            self.swap_extras(id, &before, extras);
        }
        if moved && before.node() != NONE {
            self.nodes.leave(before.node(), id);
            self.check(before.node());
            self.nodes.tidy(before.node());
        }
        entry.link = before.link;
        *self.pods.get_mut(id) = entry;
        if !same_template {
            // The old template goes with its last Pod: what the new one shares with it has that one's use.
            self.templates.leave(before.template, id, &mut self.uids, &mut self.pods);
            self.templates.join(entry.template, id, &mut self.pods);
        }
    }

    fn remove(&mut self, id: Id) {
        let entry = *self.pods.get(id);
        self.take_from_sums(&entry);
        self.swap_extras(id, &entry, Extras::default());
        if entry.node() != NONE {
            self.nodes.leave(entry.node(), id);
            self.check(entry.node());
            self.nodes.tidy(entry.node());
        }
        self.templates.leave(entry.template, id, &mut self.uids, &mut self.pods);
        let hash = self.hasher.hash_one(entry.uid);
        self.table.find_entry(hash, |found| *found == id).expect("a Pod is in the table").remove();
        if self.table.is_empty() {
            self.table = HashTable::new();
        }
        self.uids.release(entry.uid);
        self.pods.take(id);
    }

    /// Keeps these extras in the place of those before.
    fn swap_extras(&mut self, id: Id, before: &Entry, extras: Extras) {
        let old =
            if before.place().has_extras() { self.extras.remove(&id).unwrap_or_default() } else { Extras::default() };
        if old.nominated != extras.nominated {
            // The new node first: the old one may be the same slot's last mention.
            if let Some(node) = extras.nominated {
                self.nominated.insert((node, id));
                self.nodes.get_mut(node).nominated += 1;
            }
            if let Some(node) = old.nominated {
                self.nominated.remove(&(node, id));
                self.nodes.get_mut(node).nominated -= 1;
                self.nodes.tidy(node);
            }
        }
        if !extras.is_empty() {
            self.extras.insert(id, extras);
        }
    }

    fn add_to_sums(&mut self, entry: &Entry) {
        let (part, key) = (entry.place().part(), self.templates.get(entry.template).key);
        let shape = self.templates.shapes.get(key.shape);
        if entry.node() != NONE {
            self.nodes.get_mut(entry.node()).sums.add(part, &shape::requests(shape));
        }
        if part.usage && shape::repels(shape) {
            *self.anti_affine.entry((key.namespace, key.shape)).or_insert(0) += 1;
        }
    }

    fn take_from_sums(&mut self, entry: &Entry) {
        let (part, key) = (entry.place().part(), self.templates.get(entry.template).key);
        let shape = self.templates.shapes.get(key.shape);
        if entry.node() != NONE {
            let sums = &mut self.nodes.get_mut(entry.node()).sums;
            sums.subtract(part, &shape::requests(shape));
            #[cfg(test)]
            if self.planted_fault && part.movable {
                sums.real += 1;
            }
        }
        if part.usage && shape::repels(shape) {
            let of = (key.namespace, key.shape);
            let count = self.anti_affine.get_mut(&of).expect("a Pod that repels others is counted");
            *count -= 1;
            if *count == 0 {
                self.anti_affine.remove(&of);
            }
        }
    }

    /// Judges all Pods of a node anew.
    fn judge_again(&mut self, node: Id) {
        let slot = self.nodes.get(node);
        let changed: Vec<_> = slot
            .pods
            .all()
            .iter()
            .filter_map(|id| {
                let part = self.judge(*id, slot);
                (part != self.pods.get(*id).place().part()).then_some((*id, part))
            })
            .collect();
        for (id, part) in changed {
            let before = *self.pods.get(id);
            let mut after = before;
            after.set_place(before.place().with_part(part));
            self.take_from_sums(&before);
            self.add_to_sums(&after);
            self.pods.get_mut(id).set_place(after.place());
        }
    }

    /// In debug builds: the running sums of a node are what counting its Pods says. Not on a node that has so many that
    /// counting them at each event would take minutes.
    fn check(&self, node: Id) {
        #[cfg(test)]
        if self.planted_fault {
            return;
        }
        if cfg!(debug_assertions) && node != NONE {
            let slot = self.nodes.get(node);
            if slot.pods.all().len() <= CHECKED {
                debug_assert_eq!(self.recount(slot), slot.sums, "the sums of node {}", slot.name);
            }
        }
    }
}

/// Pods on a node that are counted again at each event, in debug builds.
const CHECKED: usize = 500;
