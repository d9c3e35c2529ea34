//! What the log was told already: an object that cannot be read comes again with each of its changes, a server that fails
//! with each try.

use std::collections::BTreeSet;

/// Different troubles that are told of one feed. More than these are counted only.
const MOST: usize = 32;
/// Characters of a message that are kept: a name has 253 at most, and the path of a request about as many.
const LONGEST: usize = 800;

/// Troubles that were logged once.
#[derive(Debug, Default)]
pub(super) struct Told {
    troubles: BTreeSet<(&'static str, Box<str>)>,
    /// Failures since a watch last worked.
    failures: BTreeSet<Box<str>>,
}

impl Told {
    /// Whether this kind of trouble with this object, or of this name, is to be told: the first time it is.
    pub(super) fn first(&mut self, trouble: &'static str, object: &str) -> bool {
        self.troubles.len() < MOST && self.troubles.insert((trouble, object.into()))
    }

    /// Whether this failure is to be told: once, until something works.
    pub(super) fn fails(&mut self, message: &str) -> bool {
        self.failures.len() < MOST && self.failures.insert(unasked(message).into())
    }

    /// What fails from now on is news.
    pub(super) fn worked(&mut self) {
        self.failures.clear();
    }
}

/// A message as it goes into a log, a note or an answer: in one line, and not as long as an object that it quotes.
pub(super) fn brief(message: &str) -> String {
    let mut brief = String::new();
    for (at, char) in message.chars().enumerate() {
        if at == LONGEST {
            brief.push('…');
            break;
        }
        if char.is_control() { brief.extend(char.escape_default()) } else { brief.push(char) }
    }
    brief
}

/// Without what differs from one request to the next: how long a watch shall last, and from where.
fn unasked(message: &str) -> String {
    let Some((path, rest)) = message.split_once('?') else { return message.to_owned() };
    let query = rest.find([':', ' ']).unwrap_or(rest.len());
    format!("{path}{}", &rest[query..])
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

    #[test]
    fn a_failure_is_told_once_whatever_was_asked_from_until_something_works() {
        let mut told = Told::default();
        assert!(told.fails("read /api/v1/pods?watch=true&timeoutSeconds=241: 500 no"));
        assert!(!told.fails("read /api/v1/pods?watch=true&timeoutSeconds=300: 500 no"));
        assert!(told.fails("read /api/v1/pods?watch=true&timeoutSeconds=300: 403 no"));
        assert!(!told.fails("read /api/v1/pods?watch=true&timeoutSeconds=250: 500 no"));
        told.worked();
        assert!(told.fails("read /api/v1/pods?watch=true&timeoutSeconds=250: 500 no"));
    }

    #[test]
    fn what_is_told_is_brief() {
        assert_eq!(brief("Pod \"ü\"\nERROR"), "Pod \"ü\"\\nERROR");
        assert_eq!(brief(&"ü".repeat(1 << 20)).chars().count(), LONGEST + 1);
    }
}
