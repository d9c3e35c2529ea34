//! Waiting between tries.

use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;
use std::time::Duration;

/// The first wait. kube-runtime and client-go start at about the same.
const FIRST: Duration = Duration::from_millis(800);
/// The longest wait: an API server that is back is used again within half a minute.
const LONGEST: Duration = Duration::from_secs(30);

/// Waits that double up to a limit, each between half and all of its length, so that agents that lost the same server
/// do not come back together.
#[derive(Debug, Default)]
pub(super) struct Backoff {
    failures: u32,
}

impl Backoff {
    /// How long to wait after one more failure.
    pub(super) fn failed(&mut self) -> Duration {
        let wait = FIRST.saturating_mul(1 << self.failures.min(16)).min(LONGEST);
        self.failures += 1;
        between(wait / 2, wait)
    }

    /// Something worked: the next wait is a first one.
    pub(super) fn reset(&mut self) {
        self.failures = 0;
    }
}

/// A random duration between two.
pub(super) fn between(least: Duration, most: Duration) -> Duration {
    // Randomly keyed for each value made: enough for jitter, without a random number crate.
    let random = RandomState::new().hash_one(0) >> 32;
    let share = f64::from(u32::try_from(random).unwrap_or(u32::MAX)) / f64::from(u32::MAX);
    least + most.saturating_sub(least).mul_f64(share)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_double_up_to_half_a_minute_and_start_again_after_a_success() {
        let mut backoff = Backoff::default();
        for expected in [800, 1600, 3200, 6400, 12_800, 25_600, 30_000, 30_000] {
            let expected = Duration::from_millis(expected);
            let wait = backoff.failed();
            assert!(expected / 2 <= wait && wait <= expected, "{wait:?}");
        }
        backoff.reset();
        assert!(backoff.failed() <= FIRST);
    }
}
