//! Durations as Go writes them: `15m`, `1h30m`, `1.5s`, `300ms`, `0`.

use std::str::FromStr;
use std::time::Duration;

/// A length of time from the command line.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct GoDuration(pub(crate) Duration);

/// Why a text is no duration, worded as Go does.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum DurationError {
    /// Not a sequence of numbers with units.
    #[error("time: invalid duration {0:?}")]
    Invalid(String),
    /// A number without a unit.
    #[error("time: missing unit in duration {0:?}")]
    MissingUnit(String),
    /// A unit that does not exist.
    #[error("time: unknown unit {unit:?} in duration {text:?}")]
    UnknownUnit {
        /// The unit.
        unit: String,
        /// All of it.
        text: String,
    },
    /// Below zero, which no flag of ours takes.
    #[error("duration {0:?} is negative")]
    Negative(String),
}

impl GoDuration {
    /// A number alone is one of seconds, as kubectl takes it for `--request-timeout`.
    pub(super) fn or_seconds(text: &str) -> Result<Self, DurationError> {
        match text.parse::<u32>() {
            Ok(seconds) => Ok(Self(Duration::from_secs(seconds.into()))),
            Err(_) => text.parse(),
        }
    }
}

/// Go's own limit: the nanoseconds fit a signed 64-bit number.
const LARGEST_NANOS: u128 = i64::MAX as u128;

impl FromStr for GoDuration {
    type Err = DurationError;

    fn from_str(text: &str) -> Result<Self, DurationError> {
        let invalid = || DurationError::Invalid(text.to_owned());
        let mut rest = text.strip_prefix('+').unwrap_or(text);
        if rest.starts_with('-') {
            return Err(DurationError::Negative(text.to_owned()));
        }
        if rest == "0" {
            return Ok(Self::default());
        }
        if rest.is_empty() {
            return Err(invalid());
        }
        let mut nanos: u128 = 0;
        while !rest.is_empty() {
            let end = rest.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(rest.len());
            let (number, tail) = rest.split_at(end);
            let unit_end = tail.find(|c: char| c.is_ascii_digit() || c == '.').unwrap_or(tail.len());
            let (unit, tail) = tail.split_at(unit_end);
            rest = tail;
            let scale: u128 = match unit {
                _ if number.is_empty() || number == "." => return Err(invalid()),
                "" => return Err(DurationError::MissingUnit(text.to_owned())),
                "ns" => 1,
                "us" | "µs" | "μs" => 1_000,
                "ms" => 1_000_000,
                "s" => 1_000_000_000,
                "m" => 60_000_000_000,
                "h" => 3_600_000_000_000,
                _ => return Err(DurationError::UnknownUnit { unit: unit.to_owned(), text: text.to_owned() }),
            };
            let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
            if fraction.contains('.') {
                return Err(invalid());
            }
            let digits = |digits: &str| if digits.is_empty() { Some(0) } else { digits.parse::<u128>().ok() };
            // Digits beyond a nanosecond of an hour cannot matter.
            let fraction = &fraction[..fraction.len().min(16)];
            let part = digits(whole).and_then(|whole| whole.checked_mul(scale)).ok_or_else(invalid)?;
            let decimals = digits(fraction).ok_or_else(invalid)? * scale
                / 10_u128.pow(u32::try_from(fraction.len()).expect("at most sixteen digits are left"));
            nanos = nanos.saturating_add(part).saturating_add(decimals);
            if nanos > LARGEST_NANOS {
                return Err(invalid());
            }
        }
        let nanos = u64::try_from(nanos).map_err(|_| invalid())?;
        Ok(Self(Duration::from_nanos(nanos)))
    }
}

impl GoDuration {
    /// Whole seconds, rounded up, so that a tenth of a second is not taken for "none".
    pub(crate) fn whole_seconds(self) -> u64 {
        self.0.as_secs() + u64::from(self.0.subsec_nanos() > 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_read_as_go_reads_them() {
        for (text, millis) in [
            ("0", 0),
            ("0s", 0),
            ("15m", 900_000),
            ("1h30m", 5_400_000),
            ("1.5s", 1_500),
            (".5s", 500),
            ("300ms", 300),
            ("1h0m0.25s", 3_600_250),
            ("+2s", 2_000),
        ] {
            assert_eq!(text.parse::<GoDuration>(), Ok(GoDuration(Duration::from_millis(millis))), "{text}");
        }
    }

    #[test]
    fn what_is_no_duration_is_refused_in_gos_words() {
        for (text, message) in [
            ("", r#"time: invalid duration """#),
            ("5", r#"time: missing unit in duration "5""#),
            ("5x", r#"time: unknown unit "x" in duration "5x""#),
            ("m", r#"time: invalid duration "m""#),
            ("1..5s", r#"time: invalid duration "1..5s""#),
            ("-5s", r#"duration "-5s" is negative"#),
            ("9999999999h", r#"time: invalid duration "9999999999h""#),
            ("1d", r#"time: unknown unit "d" in duration "1d""#),
        ] {
            assert_eq!(text.parse::<GoDuration>().map_err(|error| error.to_string()), Err(message.to_owned()));
        }
    }

    #[test]
    fn a_fraction_of_a_second_is_not_rounded_to_none() {
        assert_eq!("100ms".parse::<GoDuration>().map(GoDuration::whole_seconds), Ok(1));
    }
}
