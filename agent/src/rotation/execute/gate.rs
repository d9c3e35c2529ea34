//! Lets the evictions of one rotation through to the API server, one after another.
//!
//! Any of them may be refused, whatever was seen of its budget before. Of those that are on their way together several
//! would be, so that each waits for the answer to the one before it; after a refusal all others are turned back.

use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use tokio::sync::{Mutex, MutexGuard};

use crate::clock::Clock;

/// How long after a refused eviction none is asked for: refusals cost the API server as much as evictions do.
pub(in crate::rotation) const BETWEEN_REFUSALS: SignedDuration = SignedDuration::from_secs(5);

/// How long an eviction may wait for others: what it was decided on does not hold for ever. Some twenty answers take so long.
const PATIENCE: SignedDuration = SignedDuration::from_millis(250);

/// The gate of one rotation. Clones are the same gate.
#[derive(Clone, Debug, Default)]
pub(in crate::rotation) struct Gate(Arc<Mutex<Option<Timestamp>>>);

/// The right to ask for one eviction; given back when it is dropped.
#[derive(Debug)]
pub(super) struct Pass<'a>(MutexGuard<'a, Option<Timestamp>>);

impl Gate {
    /// Waits for its turn; `None`: it came too late, or another was refused a moment ago.
    pub(super) async fn enter(&self, clock: Clock) -> Option<Pass<'_>> {
        let came = clock.now();
        let refused_at = self.0.lock().await;
        let now = clock.now();
        let refused = refused_at.is_some_and(|at| now.duration_since(at) < BETWEEN_REFUSALS);
        (!refused && now.duration_since(came) <= PATIENCE).then_some(Pass(refused_at))
    }
}

impl Pass<'_> {
    /// Notes that the eviction was refused.
    pub(super) fn refused(mut self, now: Timestamp) {
        *self.0 = Some(now);
    }
}
