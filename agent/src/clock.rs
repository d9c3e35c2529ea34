//! Time: the only place that asks for it.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use tokio::time::Instant;

/// Wall time that follows tokio's clock, so that a paused runtime pauses it too.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    epoch: Timestamp,
    started: Instant,
}

#[expect(clippy::disallowed_methods, reason = "this is the one place that the lint points to")]
impl Clock {
    /// The machine's wall time, then advancing with tokio's clock.
    #[must_use]
    pub fn system() -> Self {
        Self::starting_at(Timestamp::now())
    }

    /// A clock that shows `epoch` now. For tests, and for leaders that disagree about the time.
    #[must_use]
    pub fn starting_at(epoch: Timestamp) -> Self {
        Self { epoch, started: Instant::now() }
    }

    /// The time.
    #[must_use]
    pub fn now(&self) -> Timestamp {
        let elapsed = SignedDuration::try_from(self.started.elapsed()).unwrap_or(SignedDuration::MAX);
        self.epoch.saturating_add(elapsed).unwrap_or(Timestamp::MAX)
    }

    /// Waits.
    pub async fn sleep(&self, duration: Duration) {
        tokio::time::sleep(duration).await;
    }
}
