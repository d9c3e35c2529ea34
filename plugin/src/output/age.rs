//! Lengths of time as kubectl prints them: `12s`, `2m10s`, `5d3h`.

use std::time::Duration;

use jiff::Timestamp;

/// The time since then.
pub(crate) fn since(then: Timestamp, now: Timestamp) -> String {
    seconds(now.as_second() - then.as_second())
}

/// A length of time.
pub(crate) fn of(time: Duration) -> String {
    seconds(i64::try_from(time.as_secs()).unwrap_or(i64::MAX))
}

/// Seconds in kubectl's words (`duration.HumanDuration` of apimachinery): two units at most, the smaller one only
/// where it still matters.
pub(crate) fn seconds(seconds: i64) -> String {
    let two = |large: i64, unit: char, small: i64, smaller: char| match small {
        0 => format!("{large}{unit}"),
        _ => format!("{large}{unit}{small}{smaller}"),
    };
    let (minutes, hours, days) = (seconds / 60, seconds / 3600, seconds / 86_400);
    match seconds {
        // A little clock skew is not worth a word.
        ..-1 => "<invalid>".to_owned(),
        -1..0 => "0s".to_owned(),
        _ if seconds < 120 => format!("{seconds}s"),
        _ if minutes < 10 => two(minutes, 'm', seconds % 60, 's'),
        _ if minutes < 180 => format!("{minutes}m"),
        _ if hours < 8 => two(hours, 'h', minutes % 60, 'm'),
        _ if hours < 48 => format!("{hours}h"),
        _ if days < 8 => two(days, 'd', hours % 24, 'h'),
        _ if days < 2 * 365 => format!("{days}d"),
        _ if days < 8 * 365 => two(days / 365, 'y', days % 365, 'd'),
        _ => format!("{}y", days / 365),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ages_are_those_of_kubectl() {
        for (age, text) in [
            (-5, "<invalid>"),
            (-1, "0s"),
            (0, "0s"),
            (119, "119s"),
            (120, "2m"),
            (130, "2m10s"),
            (600, "10m"),
            (10_799, "179m"),
            (10_800, "3h"),
            (11_160, "3h6m"),
            (8 * 3600, "8h"),
            (47 * 3600 + 59, "47h"),
            (48 * 3600, "2d"),
            (5 * 86_400 + 3 * 3600, "5d3h"),
            (100 * 86_400, "100d"),
            (800 * 86_400, "2y70d"),
            (9 * 365 * 86_400, "9y"),
        ] {
            assert_eq!(seconds(age), text, "{age} s");
        }
    }
}
