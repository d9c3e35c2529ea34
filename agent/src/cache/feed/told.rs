//! What the log was told already: an object that cannot be read comes again with each of its changes.

use std::collections::BTreeSet;

/// Different troubles that are told of one feed. More than these are counted only.
const MOST: usize = 32;

/// Troubles that were logged once.
#[derive(Debug, Default)]
pub(super) struct Told(BTreeSet<(&'static str, Box<str>)>);

impl Told {
    /// Whether this kind of trouble with this object, or of this name, is to be told: the first time it is.
    pub(super) fn first(&mut self, trouble: &'static str, object: &str) -> bool {
        self.0.len() < MOST && self.0.insert((trouble, object.into()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_trouble_is_told_once_and_not_without_end() {
        let mut told = Told::default();
        assert!(told.first("unreadable", "shop/a"));
        assert!(!told.first("unreadable", "shop/a"));
        assert!(told.first("unknown", "shop/a"));
        assert_eq!((0..1000).filter(|number| told.first("unreadable", &number.to_string())).count(), MOST - 2);
    }
}
