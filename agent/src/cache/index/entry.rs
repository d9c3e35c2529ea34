//! What is kept of one Pod.

use std::sync::Arc;

use super::pool::Id;
use super::told::Told;
use crate::cache::PodPhase;

/// Stands for "none" where an [`Id`] is optional.
pub(super) const NONE: Id = Id::MAX;

/// One Pod: what is its own, and where in the pools and lists the rest is. What few Pods have (a deletion time, a
/// nomination, a message) is in maps of the state.
#[derive(Debug)]
pub(super) struct Entry {
    pub(super) uid: Arc<str>,
    pub(super) name: Arc<str>,
    /// Seconds since the epoch.
    pub(super) created: i64,
    pub(super) namespace: Id,
    /// Its place on the list of its namespace.
    pub(super) namespace_at: u32,
    pub(super) owner: Id,
    /// The list of Pods of its owner's UID.
    pub(super) siblings: Id,
    pub(super) siblings_at: u32,
    pub(super) node: Id,
    pub(super) node_at: u32,
    pub(super) shape: Id,
    pub(super) labels: Id,
    pub(super) claims: Id,
    pub(super) told: Told,
    pub(super) phase: PodPhase,
    pub(super) ready: bool,
    /// Which sums of its node it is in.
    pub(super) part: Part,
}

/// Which sums of its node a Pod is in. Kept, so that taking it out never depends on judging it the same way twice.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Part {
    pub(super) usage: bool,
    pub(super) movable: bool,
    pub(super) real: bool,
}
