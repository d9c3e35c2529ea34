//! Objects that are there and cannot be read: what they need is unknown, so nobody may act as if they needed nothing.

use std::collections::BTreeMap;

use super::{Held, Kind, State};
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
pub(super) struct Notes(BTreeMap<(Kind, Box<str>), Unreadable>);

impl Notes {
    pub(super) fn forget(&mut self, kind: Kind, uid: &str) {
        if !self.0.is_empty() {
            self.0.remove(&(kind, uid.into()));
        }
    }

    pub(super) fn has(&self, kind: Kind, uid: &str) -> bool {
        !self.0.is_empty() && self.0.contains_key(&(kind, uid.into()))
    }

    pub(super) fn retain(&mut self, keep: impl Fn(&Unreadable) -> bool) {
        self.0.retain(|_, note| keep(note));
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
    /// Notes an object that is there and cannot be read. What was read of it before stays.
    pub fn note_unreadable(&mut self, note: Unreadable) {
        self.unreadable.0.insert((note.kind, note.object.uid.clone()), note);
    }

    /// Objects that are there and cannot be read.
    pub fn unreadable(&self) -> impl Iterator<Item = &Unreadable> {
        self.unreadable.0.values()
    }

    /// Pods that are bound to this node and cannot be read: what they need is unknown, so the node must be left alone.
    pub fn unreadable_on(&self, node: &str) -> impl Iterator<Item = &Unreadable> {
        self.unreadable.0.values().filter(move |note| note.kind == Kind::Pods && note.node.as_deref() == Some(node))
    }
}
