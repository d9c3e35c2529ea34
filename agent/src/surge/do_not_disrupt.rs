//! Karpenter's mark on Pods and nodes that are not to be disrupted: for good, or for a while.

use std::borrow::Cow;

use jiff::{SignedDuration, Timestamp};
use rotate_shared::names::KARPENTER_DO_NOT_DISRUPT as KEY;

use super::classify::Blocked;

/// The mark's value with a duration turned into the time at which it ends. As for Karpenter, one of a Pod that has not
/// started has not begun, and stays as it is.
pub(crate) fn dated(value: Cow<'_, str>, start: Option<Timestamp>) -> Cow<'_, str> {
    // By far the most, and asked for at each event of such a Pod: to fail to read a duration would allocate.
    if matches!(&*value, "true" | "false") {
        return value;
    }
    let lasts = value.parse::<SignedDuration>().ok().filter(|lasts| lasts.is_positive());
    match start.zip(lasts) {
        Some((start, lasts)) => Cow::Owned(start.saturating_add(lasts).unwrap_or(Timestamp::MAX).to_string()),
        None => value,
    }
}

/// What a mark that still holds says. What is neither `true`, a time nor a duration was meant for something: it holds, and
/// is shown.
pub(crate) fn holds(value: &str, now: Timestamp) -> Option<String> {
    let left = value.parse::<Timestamp>().map(|until| until.duration_since(now));
    match (value, left) {
        ("true", _) => Some(format!("has the annotation {KEY}: \"true\"")),
        ("false", _) => None,
        (_, Ok(left)) => (left > SignedDuration::ZERO)
            .then(|| format!("has the annotation {KEY}, which ends in {} s, at {value}", left.as_secs().max(1))),
        _ if value.parse::<SignedDuration>().is_ok_and(|lasts| lasts.is_positive()) => {
            Some(format!("has the annotation {KEY}: {value:?}, which counts from its start"))
        }
        _ => Some(format!("has the annotation {KEY}: {value:?}, neither \"true\" nor a duration")),
    }
}

/// Whether a mark holds, as far as that can be said without a look at the clock.
pub(crate) fn blocked(value: &str) -> Blocked {
    match value {
        "true" => Blocked::Yes,
        "false" => Blocked::No,
        _ if value.parse::<Timestamp>().is_ok() => Blocked::Dated,
        _ => Blocked::Yes,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn after(seconds: i64) -> Timestamp {
        Timestamp::UNIX_EPOCH + SignedDuration::from_secs(seconds)
    }

    #[test]
    fn a_duration_ends_that_long_after_the_start() {
        let dated = |value: &'static str| dated(value.into(), Some(after(10)));
        assert_eq!(dated("1h30m"), "1970-01-01T01:30:10Z");
        for other in ["true", "false", "soon", "0s", "-5m", ""] {
            assert_eq!(dated(other), other);
        }
        assert_eq!(super::dated("5m".into(), None), "5m");
    }

    #[test]
    fn a_mark_holds_until_its_time_is_over_and_what_cannot_be_read_holds() {
        let until = "1970-01-01T00:01:00Z";
        let said = holds(until, after(50)).unwrap();
        assert!(said.ends_with("which ends in 10 s, at 1970-01-01T00:01:00Z"), "{said}");
        assert_eq!(holds(until, after(60)), None);
        assert_eq!(holds("false", after(0)), None);
        for held in ["true", "5m", "soon"] {
            assert!(holds(held, after(0)).is_some_and(|said| said.contains(&format!("{held:?}"))), "{held}");
            assert_eq!(blocked(held), Blocked::Yes, "{held}");
        }
        assert_eq!((blocked(until), blocked("false")), (Blocked::Dated, Blocked::No));
    }
}
