//! Chance that is the same each time, and the texts made of it.

use std::fmt::Write as _;

/// Letters of Kubernetes' random names.
const LETTERS: &[u8; 27] = b"bcdfghjklmnpqrstvwxz2456789";

/// A number that looks random, from what identifies a thing.
#[must_use]
pub fn mix(parts: [u64; 3]) -> u64 {
    parts.into_iter().fold(0x9E37_79B9_7F4A_7C15, |state, part| {
        let mut mixed = (state ^ part).wrapping_add(0x9E37_79B9_7F4A_7C15);
        mixed = (mixed ^ mixed >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ mixed >> 31
    })
}

/// Five letters: different ones for the numbers below fourteen million of one seed.
#[must_use]
pub(super) fn suffix(seed: u64, number: u64) -> [u8; 5] {
    const ALL: u64 = 27 * 27 * 27 * 27 * 27;
    // 7,368,787 is no multiple of three: its multiples modulo 27⁵ meet every number once.
    let mut place = (seed % ALL + number % ALL * 7_368_787) % ALL;
    std::array::from_fn(|_| {
        let letter = LETTERS[(place % 27) as usize];
        place /= 27;
        letter
    })
}

/// A UUID of version 4.
#[must_use]
pub(super) fn uuid(high: u64, low: u64) -> [u8; 36] {
    let digits = hex([high & !0xF000 | 0x4000, low & !(0xC << 60) | 0x8 << 60]);
    let mut uuid = [b'-'; 36];
    for (to, from) in [(0..8, 0..8), (9..13, 8..12), (14..18, 12..16), (19..23, 16..20), (24..36, 20..32)] {
        uuid[to].copy_from_slice(&digits[from]);
    }
    uuid
}

/// 64 bits are sixteen digits.
fn hex(numbers: [u64; 2]) -> [u8; 32] {
    std::array::from_fn(|at| {
        let number = numbers[at / 16];
        b"0123456789abcdef"[(number >> (60 - at % 16 * 4) & 0xF) as usize]
    })
}

/// The sha256 of something.
#[must_use]
pub(super) fn digest(seed: u64) -> [u8; 64] {
    let mut digits = [0; 64];
    for (half, place) in digits.chunks_exact_mut(32).zip(0_u64..) {
        half.copy_from_slice(&hex([mix([seed, 2 * place, 7]), mix([seed, 2 * place + 1, 7])]));
    }
    digits
}

/// The same as text.
#[must_use]
pub(super) fn digest_text(seed: u64) -> String {
    text(&digest(seed)).to_owned()
}

/// ASCII as text.
#[must_use]
pub(super) fn text(ascii: &[u8]) -> &str {
    std::str::from_utf8(ascii).expect("what is made here is ASCII")
}

/// An address in `10.0.0.0/8`, always of the same length.
#[must_use]
pub(super) fn address(seed: u64) -> [u8; 14] {
    let mut address = String::with_capacity(14);
    let part = |shift: u64| 100 + (seed >> shift) % 100;
    write!(address, "10.{}.{}.{}", part(0), part(8), part(16)).expect("a String takes everything");
    address.into_bytes().try_into().expect("each part has three digits")
}

/// A time as the API server writes it.
#[must_use]
pub(super) fn time(seconds: u64) -> [u8; 20] {
    let seconds = i64::try_from(seconds).expect("a time that can be");
    let time = jiff::Timestamp::from_second(seconds).expect("a time that can be").to_string();
    time.into_bytes().try_into().expect("years have four digits")
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn suffixes_of_siblings_are_all_different() {
        let all: HashSet<_> = (0..100_000).map(|number| suffix(42, number)).collect();
        assert_eq!(all.len(), 100_000);
    }

    #[test]
    fn texts_have_their_form() {
        assert_eq!(text(&uuid(0, u64::MAX)), "00000000-0000-4000-bfff-ffffffffffff");
        assert_eq!(text(&time(1_790_000_000)), "2026-09-21T14:13:20Z");
        assert_eq!(digest_text(1).len(), 64);
    }
}
