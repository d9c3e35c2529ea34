//! Labels of an object in one piece of memory.

use std::cmp::Ordering;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::iter::FusedIterator;

use serde::de::{MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Labels of an object, sorted by key: one allocation, none if there are no labels. Looking one up is a scan, which for
/// the few labels that objects have is as fast as any search.
///
/// The text holds, for each label, the lengths of key and value (in base 64, the lowest digit first, with 64 added to all
/// digits but the last) and then both.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Labels {
    text: Box<str>,
}

impl Labels {
    /// None.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// From pairs that are sorted by key and have each key once.
    pub(in crate::cache) fn from_sorted<'a>(pairs: impl Iterator<Item = (&'a str, &'a str)> + Clone) -> Self {
        let length =
            pairs.clone().map(|(key, value)| digits(key.len()) + digits(value.len()) + key.len() + value.len()).sum();
        let mut text = String::with_capacity(length);
        for (key, value) in pairs {
            put_length(&mut text, key.len());
            put_length(&mut text, value.len());
            text.push_str(key);
            text.push_str(value);
        }
        Self { text: text.into_boxed_str() }
    }

    /// The value of a label.
    #[must_use]
    pub fn get(&self, key: &str) -> Option<&str> {
        self.iter().find(|(found, _)| *found == key).map(|(_, value)| value)
    }

    /// Whether there is a label with this key.
    #[must_use]
    pub fn contains_key(&self, key: &str) -> bool {
        self.get(key).is_some()
    }

    /// All, by key.
    #[must_use]
    pub fn iter(&self) -> Iter<'_> {
        Iter { rest: &self.text }
    }

    /// How many.
    #[must_use]
    pub fn len(&self) -> usize {
        self.iter().count()
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.text.is_empty()
    }

    /// How many bytes are allocated.
    #[must_use]
    pub fn allocated(&self) -> usize {
        self.text.len()
    }

    /// Adds a label, or replaces its value.
    pub fn insert(&mut self, key: &str, value: &str) {
        *self = self.iter().chain([(key, value)]).collect();
    }

    /// Those that are to be kept.
    #[must_use]
    pub fn filtered(&self, mut keep: impl FnMut(&str, &str) -> bool) -> Self {
        let kept: Vec<_> = self.iter().filter(|(key, value)| keep(key, value)).collect();
        Self::from_sorted(kept.iter().copied())
    }
}

fn digits(length: usize) -> usize {
    (usize::BITS - length.leading_zeros()).max(1).div_ceil(6) as usize
}

fn put_length(text: &mut String, mut length: usize) {
    while length >= 64 {
        text.push(char::from(64 | (length % 64) as u8));
        length /= 64;
    }
    text.push(char::from(length as u8));
}

/// Splits a length off.
fn take_length(text: &str) -> (usize, &str) {
    let mut length = 0;
    for (at, byte) in text.bytes().enumerate() {
        length |= usize::from(byte % 64) << (6 * at);
        if byte < 64 {
            return (length, &text[at + 1..]);
        }
    }
    (0, "")
}

/// The labels of an object, by key.
#[derive(Clone, Debug)]
pub struct Iter<'a> {
    rest: &'a str,
}

impl<'a> Iterator for Iter<'a> {
    type Item = (&'a str, &'a str);

    fn next(&mut self) -> Option<Self::Item> {
        if self.rest.is_empty() {
            return None;
        }
        let (key, rest) = take_length(self.rest);
        let (value, rest) = take_length(rest);
        let (key, rest) = rest.split_at(key);
        let (value, rest) = rest.split_at(value);
        self.rest = rest;
        Some((key, value))
    }
}

impl FusedIterator for Iter<'_> {}

impl<'a> IntoIterator for &'a Labels {
    type Item = (&'a str, &'a str);
    type IntoIter = Iter<'a>;

    fn into_iter(self) -> Iter<'a> {
        self.iter()
    }
}

/// Of several values for one key, the last.
impl<K: AsRef<str>, V: AsRef<str>> FromIterator<(K, V)> for Labels {
    fn from_iter<I: IntoIterator<Item = (K, V)>>(pairs: I) -> Self {
        let mut pairs: Vec<_> = pairs.into_iter().collect();
        sort_pairs(&mut pairs);
        Self::from_sorted(pairs.iter().map(|(key, value)| (key.as_ref(), value.as_ref())))
    }
}

/// Sorts by key and keeps the last of several values for one key.
pub(in crate::cache) fn sort_pairs<K: AsRef<str>, V>(pairs: &mut Vec<(K, V)>) {
    let ordered = pairs.is_sorted_by(|(one, _), (next, _)| one.as_ref() < next.as_ref());
    if !ordered {
        pairs.sort_by(|(one, _), (other, _)| one.as_ref().cmp(other.as_ref()));
        pairs.dedup_by(|later, earlier| {
            let same = later.0.as_ref() == earlier.0.as_ref();
            if same {
                std::mem::swap(&mut later.1, &mut earlier.1);
            }
            same
        });
    }
}

impl<K: AsRef<str>, V: AsRef<str>, const N: usize> From<[(K, V); N]> for Labels {
    fn from(pairs: [(K, V); N]) -> Self {
        pairs.into_iter().collect()
    }
}

impl Ord for Labels {
    fn cmp(&self, other: &Self) -> Ordering {
        self.iter().cmp(other.iter())
    }
}

impl PartialOrd for Labels {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Hash for Labels {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.text.hash(state);
    }
}

impl Serialize for Labels {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self)
    }
}

impl<'de> Deserialize<'de> for Labels {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Pairs;
        impl<'de> Visitor<'de> for Pairs {
            type Value = Labels;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("labels")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Labels, A::Error> {
                let mut pairs = Vec::<(String, String)>::new();
                while let Some(pair) = map.next_entry()? {
                    pairs.push(pair);
                }
                Ok(pairs.into_iter().collect())
            }
        }
        deserializer.deserialize_map(Pairs)
    }
}

impl fmt::Debug for Labels {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.iter()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_are_sorted_and_the_last_of_a_key_counts() {
        let labels = Labels::from([("b", "2"), ("a", "1"), ("b", "3"), ("", "")]);
        assert!(labels.iter().eq([("", ""), ("a", "1"), ("b", "3")]));
        assert_eq!((labels.get("b"), labels.get("c"), labels.get("")), (Some("3"), None, Some("")));
        assert_eq!((labels.len(), labels.is_empty(), Labels::new().is_empty()), (3, false, true));
        assert_eq!(labels, Labels::from([("a", "1"), ("", ""), ("b", "3")]));
        assert_eq!(format!("{labels:?}"), r#"{"": "", "a": "1", "b": "3"}"#);
    }

    #[test]
    fn texts_of_any_length_come_back() {
        for length in [0, 1, 63, 64, 65, 4095, 4096, 300_000] {
            let (key, value) = ("ü".repeat(length), "x".repeat(length));
            let labels = Labels::from([(&*key, &*value), ("~", "after")]);
            assert_eq!(labels.get(&key), Some(&*value));
            let overhead = 2 * digits(2 * length).max(1);
            assert!(labels.allocated() <= 3 * length + overhead + 8, "{}", labels.allocated());
        }
    }

    #[test]
    fn one_label_can_be_added_replaced_or_left_out() {
        let mut labels = Labels::new();
        labels.insert("b", "1");
        labels.insert("a", "1");
        labels.insert("b", "2");
        assert_eq!(labels, Labels::from([("a", "1"), ("b", "2")]));
        assert_eq!(labels.filtered(|key, _| key != "a"), Labels::from([("b", "2")]));
    }

    #[test]
    fn labels_compare_as_sorted_pairs_do() {
        let (short, long) = (Labels::from([("a", "z")]), Labels::from([("aa", "a")]));
        assert!(short < long && Labels::new() < short);
        assert!(Labels::from([("a", "1")]) < Labels::from([("a", "1"), ("b", "")]));
    }
}
