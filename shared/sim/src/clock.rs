//! The cluster's time: an epoch plus tokio's clock, so that a paused runtime pauses the cluster too.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use tokio::time::Instant;

/// The one place in this crate that asks for the time.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Clock {
    epoch: Timestamp,
    started: Instant,
}

#[expect(clippy::disallowed_methods, reason = "the simulated cluster has one clock, and this is it")]
impl Clock {
    /// Shows `epoch` now, or the machine's wall time where there is none.
    pub(crate) fn new(epoch: Option<Timestamp>) -> Self {
        Self { epoch: epoch.unwrap_or_else(Timestamp::now), started: Instant::now() }
    }

    pub(crate) fn now(&self) -> Timestamp {
        let elapsed = SignedDuration::try_from(self.started.elapsed()).unwrap_or(SignedDuration::MAX);
        self.epoch.saturating_add(elapsed).unwrap_or(Timestamp::MAX)
    }

    pub(crate) async fn sleep(&self, duration: Duration) {
        tokio::time::sleep(duration).await;
    }

    /// Waits until the clock shows `at`; for ever where there is no such time.
    pub(crate) async fn sleep_until(&self, at: Option<Timestamp>) {
        match at {
            Some(at) => {
                let left = at.duration_since(self.now());
                self.sleep(Duration::try_from(left).unwrap_or_default()).await;
            }
            None => std::future::pending().await,
        }
    }
}

/// As Kubernetes writes `metav1.Time`: whole seconds, rounded down.
pub(crate) fn seconds(at: Timestamp) -> String {
    at.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

/// Reads what [`seconds`] writes, and any other RFC 3339 time.
pub(crate) fn parse(text: &str) -> Option<Timestamp> {
    text.parse().ok()
}

/// `at` plus a duration, saturating.
pub(crate) fn after(at: Timestamp, duration: Duration) -> Timestamp {
    let duration = SignedDuration::try_from(duration).unwrap_or(SignedDuration::MAX);
    at.saturating_add(duration).unwrap_or(Timestamp::MAX)
}
