//! Objects that are there and cannot be read: what they need is unknown, so nobody may act as if they needed nothing.

use std::collections::{BTreeMap, BTreeSet};

use super::{Held, Kind, NONE, State};
use crate::cache::decode::Identity;

/// An object that cannot be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unreadable {
    /// Which kind.
    pub kind: Kind,
    /// Which object.
    pub object: Identity,
    /// For a Pod: the node it is bound to, as far as that can be read.
    pub node: Option<Box<str>>,
    /// Why it cannot be read.
    pub message: String,
}

/// All of them.
#[derive(Debug, Default)]
pub(super) struct Notes {
    all: BTreeMap<(Kind, Box<str>), Unreadable>,
    by_node: ByNode,
}

/// UIDs of Pods, by the node that they are bound to.
type ByNode = BTreeMap<Box<str>, BTreeSet<Box<str>>>;

impl Notes {
    fn insert(&mut self, note: Unreadable) {
        let uid = &note.object.uid;
        self.forget(note.kind, uid);
        if let Some(node) = note.node.as_ref().filter(|_| note.kind == Kind::Pods) {
            self.by_node.entry(node.clone()).or_default().insert(uid.clone());
        }
        self.all.insert((note.kind, uid.clone()), note);
    }

    pub(super) fn forget(&mut self, kind: Kind, uid: &str) {
        if self.all.is_empty() {
            return;
        }
        if let Some(note) = self.all.remove(&(kind, uid.into())) {
            leave(&mut self.by_node, &note);
        }
    }

    pub(super) fn has(&self, kind: Kind, uid: &str) -> bool {
        !self.all.is_empty() && self.all.contains_key(&(kind, uid.into()))
    }

    pub(super) fn retain(&mut self, keep: impl Fn(&Unreadable) -> bool) {
        let Self { all, by_node } = self;
        all.retain(|_, note| {
            let kept = keep(note);
            if !kept {
                leave(by_node, note);
            }
            kept
        });
    }
}

fn leave(by_node: &mut ByNode, note: &Unreadable) {
    let Some(node) = note.node.as_deref().filter(|_| note.kind == Kind::Pods) else { return };
    if let Some(uids) = by_node.get_mut(node) {
        uids.remove(&note.object.uid);
        if uids.is_empty() {
            by_node.remove(node);
        }
    }
}

impl Unreadable {
    /// What partitions look at.
    pub(super) fn held(&self) -> Held<'_> {
        let node = if self.kind == Kind::Nodes { Some(&*self.object.name) } else { self.node.as_deref() };
        Held { namespace: self.object.namespace.as_deref().unwrap_or_default(), node, uid: &self.object.uid }
    }
}

impl State {
    /// Notes an object that is there and cannot be read. What was read of it before stays: where its node cannot be read any
    /// more, too, a Pod is on the one where it was.
    pub fn note_unreadable(&mut self, mut note: Unreadable) {
        if note.kind == Kind::Pods && note.node.is_none() {
            let noted = self.unreadable.all.get(&(note.kind, note.object.uid.clone()));
            note.node = noted.and_then(|note| note.node.clone()).or_else(|| self.node_of(&note.object.uid));
        }
        self.unreadable.insert(note);
    }

    fn node_of(&self, pod: &str) -> Option<Box<str>> {
        let node = self.pods.get(self.find_pod(pod)?).node();
        (node != NONE).then(|| Box::from(&*self.nodes.get(node).name))
    }

    /// Objects that are there and cannot be read.
    pub fn unreadable(&self) -> impl Iterator<Item = &Unreadable> {
        self.unreadable.all.values()
    }

    /// Pods that are bound to this node and cannot be read: what they need is unknown, so the node must be left alone.
    pub fn unreadable_on(&self, node: &str) -> impl Iterator<Item = &Unreadable> {
        let uids = self.unreadable.by_node.get(node).into_iter().flatten();
        uids.filter_map(|uid| self.unreadable.all.get(&(Kind::Pods, uid.clone())))
    }

    /// Whether there are such Pods: sums of the node are too small.
    #[must_use]
    pub fn has_unreadable(&self, node: &str) -> bool {
        self.unreadable.by_node.contains_key(node)
    }
}
