//! Kubernetes quantities, exactly as `k8s.io/apimachinery` reads and writes them.

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

/// Amounts by resource name (`cpu`, `memory`, `nvidia.com/gpu`), as canonical Kubernetes strings on the wire.
pub type Amounts = BTreeMap<String, Quantity>;

const NANO: i128 = 1_000_000_000;
/// `apimachinery` caps at the largest signed 64-bit number of whole units.
const LARGEST: i128 = i64::MAX as i128 * NANO;

/// How a quantity is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Format {
    /// `1500m`, `2k`.
    DecimalSi,
    /// `2560Mi`.
    BinarySi,
    /// `12e6`.
    DecimalExponent,
}

/// A fixed-point number with nine decimals that remembers how it was written. Compares by value only.
#[derive(Clone, Copy, Debug)]
pub struct Quantity {
    nano: i128,
    format: Format,
}

/// Why a text is no quantity.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ParseQuantityError {
    /// Not a number with a known suffix.
    #[error(
        "quantity {0:?} is not a number with one of the suffixes n u m k M G T P E Ki Mi Gi Ti Pi Ei or an exponent"
    )]
    Malformed(String),
    /// More than 2⁶³−1 whole units.
    #[error("quantity {0:?} is larger than 9223372036854775807")]
    TooLarge(String),
}

impl Quantity {
    /// Zero.
    pub const ZERO: Self = Self { nano: 0, format: Format::DecimalSi };

    /// A number of thousandths, as of CPU.
    #[must_use]
    pub fn from_milli(milli: i64) -> Self {
        Self { nano: i128::from(milli) * 1_000_000, format: Format::DecimalSi }
    }

    /// A number of whole units, written with decimal suffixes.
    #[must_use]
    pub fn from_units(units: i64) -> Self {
        Self { nano: i128::from(units) * NANO, format: Format::DecimalSi }
    }

    /// A number of bytes, written with binary suffixes.
    #[must_use]
    pub fn from_bytes(bytes: i64) -> Self {
        Self { nano: i128::from(bytes) * NANO, format: Format::BinarySi }
    }

    /// A whole number of at most fifteen digits with a suffix that cannot make it too large: nearly all that are met,
    /// read at a fraction of the cost.
    fn usual(text: &str) -> Option<Self> {
        let bytes = text.as_bytes();
        let digits = bytes.iter().take_while(|byte| byte.is_ascii_digit()).count();
        if !(1..=15).contains(&digits) {
            return None;
        }
        let (format, nano) = match &bytes[digits..] {
            b"" => (Format::DecimalSi, NANO),
            b"m" => (Format::DecimalSi, 1_000_000),
            b"Ki" if digits <= 12 => (Format::BinarySi, NANO << 10),
            b"Mi" if digits <= 9 => (Format::BinarySi, NANO << 20),
            b"Gi" if digits <= 6 => (Format::BinarySi, NANO << 30),
            _ => return None,
        };
        let number = bytes[..digits].iter().fold(0_u64, |number, digit| number * 10 + u64::from(digit - b'0'));
        Some(Self { nano: i128::from(number) * nano, format })
    }

    /// Whole units, rounded away from zero.
    #[must_use]
    pub fn value(&self) -> i64 {
        // Parsing caps at `LARGEST`, and sums saturate there.
        i64::try_from(divide_away(self.nano, NANO)).unwrap_or(i64::MAX)
    }

    /// Thousandths, rounded away from zero; `None` where they do not fit.
    #[must_use]
    pub fn milli(&self) -> Option<i64> {
        i64::try_from(divide_away(self.nano, 1_000_000)).ok()
    }
}

/// Divides, rounding away from zero, as the scheduler does when it turns quantities into its own units.
fn divide_away(number: i128, by: i128) -> i128 {
    let quotient = number / by;
    if quotient * by == number { quotient } else { quotient + number.signum() }
}

impl PartialEq for Quantity {
    fn eq(&self, other: &Self) -> bool {
        self.nano == other.nano
    }
}

impl Eq for Quantity {}

impl PartialOrd for Quantity {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Quantity {
    fn cmp(&self, other: &Self) -> Ordering {
        self.nano.cmp(&other.nano)
    }
}

impl FromStr for Quantity {
    type Err = ParseQuantityError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let malformed = || ParseQuantityError::Malformed(shown(text));
        let too_large = || ParseQuantityError::TooLarge(shown(text));
        if let Some(quantity) = Self::usual(text) {
            return Ok(quantity);
        }
        if text.is_empty() {
            return Err(malformed());
        }
        let (negative, rest) = match text.as_bytes()[0] {
            b'-' => (true, &text[1..]),
            b'+' => (false, &text[1..]),
            _ => (false, text),
        };
        let digits_end = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
        let (whole, rest) = rest.split_at(digits_end);
        let (fraction, suffix) = match rest.strip_prefix('.') {
            Some(rest) => rest.split_at(rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len())),
            None => ("", rest),
        };
        let (format, scale) = Scale::of(suffix).ok_or_else(malformed)?;
        // Upstream reads `m` as zero, but takes another way for very small and large units, on which a number without
        // digits is none.
        let unusual = matches!(scale, Scale::Decimal(..-9) | Scale::Binary(50..));
        if whole.is_empty() && fraction.is_empty() && unusual {
            return Err(malformed());
        }
        let digits = || whole.bytes().chain(fraction.bytes()).map(|digit| i128::from(digit - b'0'));
        let nano = match scaled(digits(), fraction.len(), scale) {
            Some(nano) if nano <= LARGEST => nano,
            // Upstream caps binary quantities (`8Ei`) and only those. Larger decimal ones mean nothing that a cluster
            // could hold.
            _ if matches!(scale, Scale::Binary(_)) => LARGEST,
            _ => return Err(too_large()),
        };
        Ok(Self { nano: if negative { -nano } else { nano }, format })
    }
}

/// A text for an error message: bounded, so that a hostile object cannot fill a terminal.
fn shown(text: &str) -> String {
    text.chars().take(40).collect()
}

/// What a suffix multiplies by.
#[derive(Clone, Copy, Debug)]
enum Scale {
    /// A power of ten.
    Decimal(i32),
    /// A power of two.
    Binary(u32),
}

impl Scale {
    fn of(suffix: &str) -> Option<(Format, Self)> {
        let decimal = |power| Some((Format::DecimalSi, Self::Decimal(power)));
        let binary = |power| Some((Format::BinarySi, Self::Binary(power)));
        match suffix {
            "n" => decimal(-9),
            "u" => decimal(-6),
            "m" => decimal(-3),
            "" => decimal(0),
            "k" => decimal(3),
            "M" => decimal(6),
            "G" => decimal(9),
            "T" => decimal(12),
            "P" => decimal(15),
            "E" => decimal(18),
            "Ki" => binary(10),
            "Mi" => binary(20),
            "Gi" => binary(30),
            "Ti" => binary(40),
            "Pi" => binary(50),
            "Ei" => binary(60),
            _ => {
                let power = suffix.strip_prefix(['e', 'E'])?;
                Some((Format::DecimalExponent, Self::Decimal(power.parse().ok()?)))
            }
        }
    }
}

/// The digits as a number with `decimals` decimals, scaled, in nano units, rounded away from zero. `None` where it
/// leaves the range of an `i128`.
fn scaled(digits: impl Iterator<Item = i128>, decimals: usize, scale: Scale) -> Option<i128> {
    let mut number: i128 = 0;
    let mut dropped = false;
    let mut decimals = i32::try_from(decimals).ok()?;
    let mut left = i32::try_from(digits.size_hint().0).unwrap_or(0);
    for digit in digits {
        left -= 1;
        // Beyond twenty decimals a digit can only decide whether to round.
        if decimals - left > 20 {
            dropped |= digit != 0;
            continue;
        }
        number = number.checked_mul(10)?.checked_add(digit)?;
    }
    decimals = decimals.min(20);
    let (number, power) = match scale {
        Scale::Decimal(power) => (number, power.checked_add(9)?.checked_sub(decimals)?),
        Scale::Binary(power) => (number.checked_mul(1 << power)?, 9 - decimals),
    };
    if number == 0 {
        return Some(i128::from(dropped));
    }
    if power >= 0 {
        number.checked_mul(10_i128.checked_pow(power.unsigned_abs())?)
    } else {
        match 10_i128.checked_pow(power.unsigned_abs()) {
            Some(divisor) => {
                let rounded = divide_away(number, divisor);
                Some(if dropped && number % divisor == 0 { rounded + 1 } else { rounded })
            }
            None => Some(1),
        }
    }
}

impl fmt::Display for Quantity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.nano == 0 {
            return f.write_str("0");
        }
        // Upstream writes small and fractional binary quantities with decimal suffixes, so that nothing is lost.
        if self.format == Format::BinarySi && self.nano.abs() >= 1024 * NANO && self.nano % NANO == 0 {
            let mut number = self.nano / NANO;
            let mut steps = 0;
            while number % 1024 == 0 && steps < 6 {
                number /= 1024;
                steps += 1;
            }
            return write!(f, "{number}{}", ["", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"][steps]);
        }
        let mut number = self.nano;
        let mut steps = 0;
        while number % 1000 == 0 && steps < 9 {
            number /= 1000;
            steps += 1;
        }
        if self.format == Format::DecimalExponent {
            let exponent = i32::try_from(steps).unwrap_or(0) * 3 - 9;
            return if exponent == 0 { write!(f, "{number}") } else { write!(f, "{number}e{exponent}") };
        }
        write!(f, "{number}{}", ["n", "u", "m", "", "k", "M", "G", "T", "P", "E"][steps])
    }
}

impl std::ops::Add for Quantity {
    type Output = Self;

    /// The sum, capped at the largest quantity; keeps the left side's way of writing, unless that side is zero.
    fn add(self, other: Self) -> Self {
        let format = if self.nano == 0 { other.format } else { self.format };
        Self { nano: (self.nano + other.nano).clamp(-LARGEST, LARGEST), format }
    }
}

impl std::ops::Sub for Quantity {
    type Output = Self;

    /// The difference, which may be negative; written as sums are.
    fn sub(self, other: Self) -> Self {
        self + Self { nano: -other.nano, ..other }
    }
}

impl Serialize for Quantity {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Quantity {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visitor;
        impl de::Visitor<'_> for Visitor {
            type Value = Quantity;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a Kubernetes quantity")
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<Quantity, E> {
                text.parse().map_err(E::custom)
            }

            // YAML files written by hand say `cpu: 1`, and the API server accepts it.
            fn visit_u64<E: de::Error>(self, number: u64) -> Result<Quantity, E> {
                self.visit_str(&number.to_string())
            }

            fn visit_i64<E: de::Error>(self, number: i64) -> Result<Quantity, E> {
                self.visit_str(&number.to_string())
            }

            fn visit_f64<E: de::Error>(self, number: f64) -> Result<Quantity, E> {
                self.visit_str(&number.to_string())
            }
        }
        deserializer.deserialize_any(Visitor)
    }
}

#[cfg(feature = "openapi")]
mod schema;
#[cfg(test)]
mod tests;
