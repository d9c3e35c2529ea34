//! Which Pods the cache has read completely: all of the cluster, or those of some scopes.
//!
//! ```text
//! Whole            one feed of all Pods
//! Scopes ─┬─ read:  scopes whose list was read to its end; what lies in none of them is not known
//!         └─ known: the resourceVersion of each Pod, since the feeds of scopes that overlap are not equally far
//! ```
//!
//! What a scoped cache sees, and what it says about the rest: `docs/decisions/009-scoped-cache.md`.

use std::collections::{BTreeSet, HashMap, HashSet, VecDeque};
use std::fmt;
use std::sync::Arc;

use rotate_shared::names;

use super::index::{Partition, Relist, ShardRange};
use super::{Kind, State};

/// Deleted Pods whose last resourceVersion is remembered. A feed that lags behind another by more deletions than this
/// may show a Pod again, until it too hears of its end.
const REMEMBERED: usize = 4096;

/// Which Pods are known completely.
#[derive(Debug, Default)]
pub(super) enum Coverage {
    /// All, once the list of all was read.
    #[default]
    Whole,
    /// Those of the scopes that were read.
    Scopes(Scopes),
}

/// The scopes that were read.
#[derive(Debug, Default)]
pub(super) struct Scopes {
    read: BTreeSet<Partition>,
    /// The newest resourceVersion by UID, of Pods that are there and of some that are gone.
    known: HashMap<Arc<str>, u64>,
    /// Those that are gone, the oldest first.
    gone: VecDeque<Arc<str>>,
}

// === impl Partition ===

impl Partition {
    /// The Pods bound to a node.
    #[must_use]
    pub fn node(name: &str) -> Self {
        Self::Node(name.into())
    }

    /// The Pods of a namespace.
    #[must_use]
    pub fn namespace(name: &str) -> Self {
        Self::Namespace(name.into())
    }

    /// The placeholders. Read always: who looks for what a crash left behind must see all of them.
    #[must_use]
    pub fn room() -> Self {
        Self::namespace(names::ROOM_NAMESPACE)
    }
}

impl fmt::Display for Partition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::All => f.write_str("all namespaces"),
            Self::Node(name) => write!(f, "node {name}"),
            Self::Namespace(name) => write!(f, "namespace {name}"),
            Self::Shard(ShardRange { first, last }) => write!(f, "shard {first:016x} to {last:016x}"),
        }
    }
}

// === impl State ===

impl State {
    /// A state that knows no Pod, and learns scope by scope.
    #[must_use]
    pub fn scoped() -> Self {
        let mut state = Self::default();
        state.coverage = Coverage::Scopes(Scopes::default());
        state
    }

    /// Whether nothing of the cluster is left out on purpose.
    #[must_use]
    pub fn covers_cluster(&self) -> bool {
        matches!(self.coverage, Coverage::Whole)
    }

    /// Whether all Pods of a scope are known.
    #[must_use]
    pub fn covers(&self, scope: &Partition) -> bool {
        match &self.coverage {
            Coverage::Whole => true,
            Coverage::Scopes(scopes) => scopes.read.contains(scope),
        }
    }

    /// Whether all Pods bound to a node are known. Where they are not, sums and lists of the node are too small.
    #[must_use]
    pub fn covers_node(&self, name: &str) -> bool {
        self.covers_cluster() || self.covers(&Partition::node(name))
    }

    /// Whether this kind was read as far as it is to be read.
    #[must_use]
    pub fn has_read(&self, kind: Kind) -> bool {
        match kind {
            Kind::Pods if !self.covers_cluster() => self.covers(&Partition::room()),
            kind => self.revision(kind).is_some(),
        }
    }

    /// The scopes that were read; none where everything is.
    pub fn scopes(&self) -> impl Iterator<Item = &Partition> {
        let scopes = match &self.coverage {
            Coverage::Whole => None,
            Coverage::Scopes(scopes) => Some(scopes.read.iter()),
        };
        scopes.into_iter().flatten()
    }

    /// Notes that a scope was read to the end of its list.
    pub(crate) fn cover(&mut self, scope: Partition) {
        if let Coverage::Scopes(scopes) = &mut self.coverage {
            scopes.read.insert(scope);
        }
    }

    /// Forgets a scope, and the Pods that none of the `others` holds.
    pub(super) fn uncover(&mut self, scope: &Partition, others: &[Partition]) -> usize {
        let dropped = self.drop_uncovered(others);
        // Taken out meanwhile, so that the Pods can be asked.
        let mut coverage = std::mem::take(&mut self.coverage);
        if let Coverage::Scopes(Scopes { read, known, gone }) = &mut coverage {
            read.remove(scope);
            let gone: HashSet<_> = gone.iter().collect();
            known.retain(|uid, _| self.has_pod(uid) || gone.contains(uid));
        }
        self.coverage = coverage;
        dropped
    }

    /// Marks as seen what is known to be younger than the list: the feed of another scope may be ahead of it.
    pub(super) fn mark_younger(&mut self, relist: &Relist, revision: &str) {
        let Coverage::Scopes(scopes) = &self.coverage else { return };
        let listed = revision.parse().unwrap_or(u64::MAX);
        let younger: Vec<_> =
            scopes.known.iter().filter(|(_, known)| **known > listed).map(|(uid, _)| Arc::clone(uid)).collect();
        younger.iter().for_each(|uid| self.mark_seen(relist, uid));
    }

    /// Whether what a feed says of a Pod is newer than what is known. Always, where there is one feed: it says things in
    /// their order.
    pub(super) fn is_news(&mut self, uid: &str, revision: Option<&str>) -> bool {
        let Coverage::Scopes(scopes) = &mut self.coverage else { return true };
        // The API server's are numbers that grow (KEP-5504); of any other nothing can be said.
        let Some(revision) = revision.and_then(|revision| revision.parse().ok()) else { return true };
        match scopes.known.get_mut(uid) {
            Some(known) if *known > revision => false,
            Some(known) => {
                *known = revision;
                true
            }
            None => {
                scopes.known.insert(uid.into(), revision);
                true
            }
        }
    }

    /// Notes that a Pod is gone, so that a feed that lags behind does not bring it back.
    pub(super) fn note_gone(&mut self, uid: &str, revision: Option<&str>) {
        let Coverage::Scopes(scopes) = &mut self.coverage else { return };
        let Some(revision) = revision.and_then(|revision| revision.parse::<u64>().ok()) else { return };
        let uid: Arc<str> = uid.into();
        let known = scopes.known.entry(Arc::clone(&uid)).or_insert(revision);
        *known = revision.max(*known);
        scopes.gone.push_back(uid);
        if scopes.gone.len() > REMEMBERED
            && let Some(oldest) = scopes.gone.pop_front()
        {
            scopes.known.remove(&oldest);
        }
    }
}

#[cfg(test)]
mod tests;
