//! Names in two parts: what siblings share, and the few characters of one's own as a number.
//!
//! ```text
//! checkout-api-7d9c5b8f6d-x7k2p, owned by checkout-api-7d9c5b8f6d ─▶ the owner's name and "-" │ x7k2p
//! kube-proxy-4xq2m,              owned by kube-proxy              ─▶ the owner's name and "-" │ 4xq2m
//! etcd-master-0,                 owned by the node master-0       ─▶ "etcd-master-"           │ 0
//! ```

/// A name's own part as a number, [`Tail::NONE`] where it has none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Tail([u32; 2]);

/// What a name shares with others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Prefix<'a> {
    /// The owner's name and a dash.
    Owner,
    /// A text of its own.
    Text(&'a str),
}

/// How many characters a number can hold: 39^12 < 2^64.
const LONGEST: usize = 12;
/// Digits 1 to 38; 0 would not tell "a" from "0a".
const ALPHABET: &[u8; 38] = b"abcdefghijklmnopqrstuvwxyz0123456789-.";
const BASE: u64 = ALPHABET.len() as u64 + 1;

impl Tail {
    pub(super) const NONE: Self = Self([0; 2]);

    fn new(text: &str) -> Option<Self> {
        if text.len() > LONGEST {
            return None;
        }
        let mut number = 0_u64;
        for byte in text.bytes() {
            let digit = match byte {
                b'a'..=b'z' => byte - b'a' + 1,
                b'0'..=b'9' => byte - b'0' + 27,
                b'-' => 37,
                b'.' => 38,
                _ => return None,
            };
            number = number * BASE + u64::from(digit);
        }
        Some(Self([(number >> 32) as u32, number as u32]))
    }

    /// Writes the characters behind a text.
    pub(super) fn write(self, text: &mut String) {
        let [high, low] = self.0.map(u64::from);
        let mut number = (high << 32) | low;
        let mut characters = [0; LONGEST];
        let mut at = LONGEST;
        while number > 0 {
            at -= 1;
            characters[at] = ALPHABET[(number % BASE) as usize - 1];
            number /= BASE;
        }
        text.push_str(str::from_utf8(&characters[at..]).expect("of the alphabet"));
    }
}

/// Splits a name so that siblings share as much as can be.
pub(super) fn split<'a>(name: &'a str, owner: Option<&str>) -> (Prefix<'a>, Tail) {
    let of_owner = || name.strip_prefix(owner?)?.strip_prefix('-');
    if let Some(tail) = of_owner().and_then(Tail::new) {
        return (Prefix::Owner, tail);
    }
    let (prefix, tail) = split_last(name);
    (Prefix::Text(prefix), tail)
}

/// Splits a name behind its last dash, where the rest can be a number.
pub(super) fn split_last(name: &str) -> (&str, Tail) {
    let (prefix, tail) = name.split_at(name.rfind('-').map_or(0, |dash| dash + 1));
    Tail::new(tail).map_or((name, Tail::NONE), |tail| (prefix, tail))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn joined(name: &str, owner: Option<&str>) -> String {
        let (prefix, tail) = split(name, owner);
        let mut text = match prefix {
            Prefix::Owner => format!("{}-", owner.unwrap()),
            Prefix::Text(text) => text.to_owned(),
        };
        tail.write(&mut text);
        text
    }

    #[test]
    fn names_come_back_as_they_were() {
        let long = "x".repeat(253);
        for name in ["web-7d9c-x7k2p", "web-0", "web", "", "-", "web-", "WEB-Ä", "a.b-ip-10-0-1-17.internal", &long] {
            for owner in [None, Some("web"), Some("web-7d9c"), Some(""), Some("other")] {
                assert_eq!(joined(name, owner), name, "{owner:?}");
            }
        }
        for tail in ["............", "zzzzzzzzzzzz", "a", "0", "000", ""] {
            let mut text = String::new();
            Tail::new(tail).unwrap().write(&mut text);
            assert_eq!(text, tail);
        }
        assert_eq!(Tail::new("a-thirteenth."), None);
    }

    #[test]
    fn siblings_share_their_prefix() {
        assert_eq!(split("web-7d9c-x7k2p", Some("web-7d9c")).0, Prefix::Owner);
        assert_eq!(split("etcd-master-0", Some("master-0")).0, Prefix::Text("etcd-master-"));
        assert_eq!(split("web-and-a-long-rest-x7k2p", Some("web")).0, Prefix::Text("web-and-a-long-rest-"));
        assert_eq!(split("no dash", None).0, Prefix::Text("no dash"));
        assert_ne!(split("web-1", Some("web")).1, split("web-2", Some("web")).1);
    }
}
