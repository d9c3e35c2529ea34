//! Waiting with a deadline, the only way in which these tests wait.

use std::time::Duration;

use anyhow::{Result, bail};
use tokio::time::{MissedTickBehavior, interval, timeout};

/// Often enough that a wait adds little to what is measured, seldom enough to leave two cores alone.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// Looks again and again until there is an answer. An error ends the wait; so does the deadline, with an error that says
/// what was waited for.
pub(crate) async fn eventually<T>(
    what: &str,
    within: Duration,
    mut look: impl AsyncFnMut() -> Result<Option<T>>,
) -> Result<T> {
    let mut tick = interval(LOOK_EVERY);
    tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let waited = timeout(within, async {
        loop {
            tick.tick().await;
            if let Some(answer) = look().await? {
                return Ok(answer);
            }
        }
    });
    match waited.await {
        Ok(answer) => answer,
        Err(_) => bail!("gave up after {within:?} waiting for {what}"),
    }
}
