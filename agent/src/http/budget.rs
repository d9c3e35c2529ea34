//! How much a credential may ask for: a bucket that fills at a steady rate.

use jiff::{SignedDuration, Timestamp};

use super::limits;

/// What a request costs of its credential's [`limits::UNITS`] a second.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Weight {
    /// Looked up: 2,500 a second.
    Light,
    /// One rotation: as above where this agent has heard of it, else a look at the API server: 100 a second.
    Look,
    /// Of the size of the fleet: 100 a second.
    Heavy,
    /// A change to one rotation: 100 a second. It takes no place that others could have taken.
    Change,
    /// A stream begun: 100 a second. How many are open is bounded elsewhere.
    Stream,
    /// A whole plan, which also asks the API server: 10 a second.
    Work,
}

impl Weight {
    pub(super) const fn units(self) -> u32 {
        match self {
            Self::Light | Self::Look => 1,
            Self::Heavy | Self::Change | Self::Stream => 25,
            Self::Work => 250,
        }
    }
}

/// How fast a bucket fills and how much it holds.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rate {
    pub(super) per_second: u32,
    pub(super) at_once: u32,
}

impl Rate {
    /// Of one credential.
    pub(super) const CREDENTIAL: Self = Self { per_second: limits::UNITS, at_once: limits::UNITS_AT_ONCE };
    /// Of all callers that are not known.
    pub(super) const STRANGERS: Self = Self { per_second: limits::STRANGERS, at_once: limits::STRANGERS_AT_ONCE };

    fn time(self, units: u32) -> SignedDuration {
        SignedDuration::from_nanos(i64::from(units) * 1_000_000_000 / i64::from(self.per_second))
    }
}

/// The time at which the bucket is full again; nothing else needs to be kept (GCRA).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Bucket(Option<Timestamp>);

impl Bucket {
    /// Takes units out, or says how long to wait until they are there. What is refused costs nothing.
    pub(super) fn take(&mut self, rate: Rate, units: u32, now: Timestamp) -> Result<(), SignedDuration> {
        let full = self.0.map_or(now, |full| full.max(now));
        let full = full.saturating_add(rate.time(units)).unwrap_or(Timestamp::MAX);
        let short = full.duration_since(now) - rate.time(rate.at_once);
        if short > SignedDuration::ZERO {
            return Err(short);
        }
        self.0 = Some(full);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEN: Rate = Rate { per_second: 10, at_once: 20 };

    fn at(millis: i64) -> Timestamp {
        Timestamp::from_millisecond(millis).unwrap()
    }

    #[test]
    fn after_a_burst_the_rate_is_steady() {
        let mut bucket = Bucket::default();
        for _ in 0..20 {
            assert_eq!(bucket.take(TEN, 1, at(0)), Ok(()));
        }
        let mut taken = 0;
        for millis in 0..10_000 {
            taken += u32::from(bucket.take(TEN, 1, at(millis)).is_ok());
        }
        assert_eq!(taken, 99, "10 a second, the first after 100 ms");
    }

    #[test]
    fn a_refusal_says_when_to_come_back_and_costs_nothing() {
        let mut bucket = Bucket::default();
        assert_eq!(bucket.take(TEN, 15, at(0)), Ok(()));
        for _ in 0..100 {
            assert_eq!(bucket.take(TEN, 10, at(0)), Err(SignedDuration::from_millis(500)));
        }
        assert_eq!(bucket.take(TEN, 10, at(500)), Ok(()));
    }

    #[test]
    fn a_pause_saves_up_no_more_than_the_burst() {
        let mut bucket = Bucket::default();
        assert_eq!(bucket.take(TEN, 20, at(0)), Ok(()));
        assert_eq!(bucket.take(TEN, 20, at(3_600_000)), Ok(()));
        assert!(bucket.take(TEN, 1, at(3_600_000)).is_err());
    }

    #[test]
    fn what_never_fits_is_never_let_through() {
        assert!(Bucket::default().take(TEN, 21, at(0)).is_err());
        let dearest = Weight::Work.units();
        assert!(Bucket::default().take(Rate::CREDENTIAL, dearest, at(0)).is_ok());
    }
}
