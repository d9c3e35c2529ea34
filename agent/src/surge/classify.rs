//! Which Pods on the candidate are evicted, and for which of them room is reserved.

use jiff::Timestamp;
use rotate_shared::Options;
use rotate_shared::plan::{Disposition, Notice, PodReason};

use crate::cache::{Node, Pod, State, Volumes};

/// What a Pod is judged against.
#[derive(Clone, Copy, Debug)]
pub struct Context<'a> {
    /// The candidate.
    pub node: &'a Node,
    /// The claims of the candidate's Pods.
    pub volumes: &'a Volumes,
    /// What the rotation was asked to do.
    pub options: &'a Options,
    /// Now.
    pub now: Timestamp,
}

/// What becomes of a Pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verdict {
    /// What happens to it.
    pub disposition: Disposition,
    /// Whether room is reserved for its replacement.
    pub reserved: bool,
    /// Why.
    pub reason: PodReason,
    /// Stands in the way (set exactly when the disposition is `Block`). Several may apply at once: a bare Pod with
    /// local storage is named for both.
    pub blockers: Vec<Notice>,
    /// Deserves a look.
    pub warnings: Vec<Notice>,
}

/// Judges a Pod bound to the candidate.
#[must_use]
pub fn classify(_pod: &Pod, _context: &Context<'_>) -> Verdict {
    unimplemented!()
}

/// Whether a Pod counts towards its node's movable sum, judged without options and volumes: everything that a
/// controller would create anew elsewhere. `node` is the node it is bound to, if known.
#[must_use]
pub fn counts(_pod: &Pod, _node: Option<&Node>) -> bool {
    unimplemented!()
}

/// Whether a Pod is a real one for the absorb guard: neither DaemonSet-owned, mirror, finished nor placeholder.
#[must_use]
pub fn is_real(_pod: &Pod) -> bool {
    unimplemented!()
}

/// Verdicts on all Pods of the candidate, by namespace and name.
#[must_use]
pub fn classify_node(_state: &State, _context: &Context<'_>) -> Vec<(Pod, Verdict)> {
    unimplemented!()
}
