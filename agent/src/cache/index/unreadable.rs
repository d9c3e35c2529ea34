//! Objects that are there and cannot be read: what they need is unknown, so nobody may act as if they needed nothing.

use std::collections::BTreeMap;

use super::{Kind, State};
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

/// All of them, each with when it was last seen.
#[derive(Debug, Default)]
pub(super) struct Notes(BTreeMap<(Kind, Box<str>), (Unreadable, u32)>);

impl Notes {
    pub(super) fn forget(&mut self, kind: Kind, uid: &str) {
        if !self.0.is_empty() {
            self.0.remove(&(kind, uid.into()));
        }
    }

    pub(super) fn sweep(&mut self, kind: Kind, epoch: u32) {
        self.0.retain(|(noted, _), (_, seen)| *noted != kind || *seen == epoch);
    }

    fn all(&self) -> impl Iterator<Item = &Unreadable> {
        self.0.values().map(|(note, _)| note)
    }
}

impl State {
    /// Notes an object that is there and cannot be read. What was read of it before stays.
    pub fn note_unreadable(&mut self, note: Unreadable) {
        let epoch = self.epoch(note.kind);
        match note.kind {
            Kind::Pods => {
                if let Some(id) = self.uids.get(&*note.object.uid).copied() {
                    self.entry_mut(id).epoch = epoch;
                }
            }
            Kind::Nodes => {
                if let Some(id) = self.nodes.id(&note.object.name) {
                    self.nodes.get_mut(id).epoch = epoch;
                }
            }
            Kind::Pdbs => self.budgets.touch(&note.object.uid, epoch),
        }
        self.unreadable.0.insert((note.kind, note.object.uid.clone()), (note, epoch));
    }

    /// Objects that are there and cannot be read.
    pub fn unreadable(&self) -> impl Iterator<Item = &Unreadable> {
        self.unreadable.all()
    }

    /// Pods that are bound to this node and cannot be read: what they need is unknown, so the node must be left alone.
    pub fn unreadable_on(&self, node: &str) -> impl Iterator<Item = &Unreadable> {
        self.unreadable.all().filter(move |note| note.kind == Kind::Pods && note.node.as_deref() == Some(node))
    }
}
