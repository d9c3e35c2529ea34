//! How the feeds are doing.

use std::sync::Arc;

use jiff::Timestamp;

use crate::cache::index::Kind;

/// How the feed of one kind is doing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FeedHealth {
    /// A complete list was read once: what is answered is what the cluster held at some time.
    pub synced: bool,
    /// A watch is open and the server speaks.
    pub connected: bool,
    /// When the server last said anything: an event, a bookmark, a list.
    pub last_heard: Option<Timestamp>,
    /// How often a list or a watch failed.
    pub errors: u64,
    /// What the last of them was.
    pub last_error: Option<Arc<str>>,
    /// How often an open watch fell silent and was given up.
    pub stalls: u64,
    /// How often a complete list was read.
    pub lists: u64,
    /// How many objects could not be read since the start.
    pub unreadable: u64,
}

/// How all feeds are doing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Health {
    /// Pods.
    pub pods: FeedHealth,
    /// Nodes.
    pub nodes: FeedHealth,
    /// Disruption budgets.
    pub pdbs: FeedHealth,
}

impl Health {
    /// Whether every kind was read completely once.
    #[must_use]
    pub fn is_synced(&self) -> bool {
        self.kinds().all(|(_, feed)| feed.synced)
    }

    /// All kinds.
    pub fn kinds(&self) -> impl Iterator<Item = (Kind, &FeedHealth)> {
        [(Kind::Pods, &self.pods), (Kind::Nodes, &self.nodes), (Kind::Pdbs, &self.pdbs)].into_iter()
    }

    pub(in crate::cache) fn of_mut(&mut self, kind: Kind) -> &mut FeedHealth {
        match kind {
            Kind::Pods => &mut self.pods,
            Kind::Nodes => &mut self.nodes,
            Kind::Pdbs => &mut self.pdbs,
        }
    }
}
