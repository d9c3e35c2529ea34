//! What a Pod's labels and claims repeat of its name or its owner: told again instead of kept.
//!
//! A `StatefulSet` or a `Job` gives each of its Pods labels of its own, and each Pod of a `StatefulSet` has claims of its
//! own. Kept, no two of their Pods would share anything. Nothing is lost: a label whose value is not what the name or the
//! owner tells stays in the set.

use std::borrow::Cow;

use super::codec::{Reader, Text, Writer};
use crate::cache::Owner;
use crate::cache::selector::Labels;

/// Which labels are told: one bit for each of [`TOLD`].
pub(super) type Told = u8;

/// Who tells a label's value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Teller {
    /// The Pod's name.
    Name,
    /// The last part of the Pod's name.
    LastPart,
    /// The last part but one of the Pod's name.
    LastPartButOne,
    /// The owner's name.
    OwnerName,
    /// The owner's UID.
    OwnerUid,
}

/// By key.
const TOLD: [(&str, Teller); 7] = [
    ("apps.kubernetes.io/pod-index", Teller::LastPart),
    ("batch.kubernetes.io/controller-uid", Teller::OwnerUid),
    ("batch.kubernetes.io/job-completion-index", Teller::LastPartButOne),
    ("batch.kubernetes.io/job-name", Teller::OwnerName),
    ("controller-uid", Teller::OwnerUid),
    ("job-name", Teller::OwnerName),
    ("statefulset.kubernetes.io/pod-name", Teller::Name),
];
/// Those that the name tells: Pods of one owner differ in them.
const BY_NAME: Told = 1 | 1 << 2 | 1 << 6;

/// How a claim's name follows from the Pod's.
const AS_IT_IS: u64 = 0;
const BEFORE_NAME: u64 = 1;
const BEHIND_NAME: u64 = 2;

fn value<'a, S: Text>(teller: Teller, name: &'a str, owner: Option<&'a Owner<S>>) -> Option<&'a str> {
    match teller {
        Teller::Name => Some(name),
        Teller::LastPart => name.rsplit('-').next(),
        Teller::LastPartButOne => name.rsplit('-').nth(1),
        Teller::OwnerName => owner.map(|owner| &*owner.name),
        Teller::OwnerUid => owner.map(|owner| &*owner.uid),
    }
}

/// Writes the labels that nothing tells. Answers which are told.
pub(super) fn write_labels<S: Text>(
    to: &mut Writer<'_>,
    labels: &[(Cow<'_, str>, Cow<'_, str>)],
    name: &str,
    owner: Option<&Owner<S>>,
) -> Told {
    let mut told = 0;
    for (key, label) in labels {
        let rule = TOLD.iter().position(|(told, _)| told == key);
        match rule.filter(|rule| value(TOLD[*rule].1, name, owner) == Some(label)) {
            Some(rule) => told |= 1 << rule,
            None => {
                to.text(key);
                to.text(label);
            }
        }
    }
    told
}

/// Reads labels, those that are told too.
pub(super) fn read_labels<S: Text>(bytes: &[u8], told: Told, name: &str, owner: Option<&Owner<S>>) -> Labels {
    if told == 0 {
        return Labels::from_sorted(kept(bytes));
    }
    let rules = TOLD.iter().enumerate().filter(|(bit, _)| told & (1 << bit) != 0).map(|(_, rule)| rule);
    kept(bytes).chain(rules.filter_map(|(key, teller)| Some((*key, value(*teller, name, owner)?)))).collect()
}

/// The labels that nothing tells, by key.
pub(super) fn kept(bytes: &[u8]) -> impl Iterator<Item = (&str, &str)> + Clone {
    let mut from = Reader::new(bytes, "");
    std::iter::from_fn(move || (!from.is_at_end()).then(|| (from.text(), from.text())))
}

/// Whether the Pod's own name tells some of them.
pub(super) fn by_name(told: Told) -> bool {
    told & BY_NAME != 0
}

/// Writes the names of claims, with the Pod's name taken out. Answers whether it was.
pub(super) fn write_claims(to: &mut Writer<'_>, claims: &[Cow<'_, str>], name: &str) {
    for claim in claims {
        let (how, rest) = match (claim.strip_suffix(name), claim.strip_prefix(name)) {
            _ if name.is_empty() => (AS_IT_IS, &**claim),
            (Some(before), _) => (BEFORE_NAME, before),
            (None, Some(behind)) => (BEHIND_NAME, behind),
            (None, None) => (AS_IT_IS, &**claim),
        };
        to.number(how);
        to.text(rest);
    }
}

/// Reads the names of claims.
pub(super) fn read_claims<T: FromIterator<Box<str>>>(bytes: &[u8], name: &str) -> T {
    let mut from = Reader::new(bytes, "");
    let next = move || {
        if from.is_at_end() {
            return None;
        }
        let (how, text) = (from.number(), from.text());
        Some(match how {
            BEFORE_NAME => [text, name].concat().into(),
            BEHIND_NAME => [name, text].concat().into(),
            _ => Box::from(text),
        })
    };
    std::iter::from_fn(next).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn owner(name: &'static str) -> Owner<&'static str> {
        Owner { api_version: "batch/v1", kind: "Job", name, uid: "4f1c2a7e-0123-4567-89ab-cdef01234567" }
    }

    fn write(labels: &[(&'static str, &'static str)], name: &str, owner: Option<&Owner<&str>>) -> (Vec<u8>, Told) {
        let labels: Vec<_> = labels.iter().map(|(key, value)| (Cow::from(*key), Cow::from(*value))).collect();
        let mut bytes = Vec::new();
        let told = write_labels(&mut Writer::new(&mut bytes, None), &labels, name, owner);
        (bytes, told)
    }

    #[test]
    fn the_labels_of_a_job_are_told_by_its_name_and_uid() {
        let uid = "4f1c2a7e-0123-4567-89ab-cdef01234567";
        let labels = [
            ("app", "report"),
            ("batch.kubernetes.io/controller-uid", uid),
            ("batch.kubernetes.io/job-completion-index", "3"),
            ("batch.kubernetes.io/job-name", "report"),
            ("controller-uid", uid),
            ("job-name", "report"),
        ];
        let (bytes, told) = write(&labels, "report-3-x7k2p", Some(&owner("report")));
        assert!(kept(&bytes).eq([("app", "report")]));
        assert!(by_name(told));
        assert_eq!(read_labels(&bytes, told, "report-3-x7k2p", Some(&owner("report"))), Labels::from(labels));
        let (_, told) = write(&labels[3..], "report-3-x7k2p", Some(&owner("report")));
        assert!(!by_name(told), "all Pods of the Job share these");
    }

    #[test]
    fn what_is_not_as_told_is_kept() {
        let labels = [("apps.kubernetes.io/pod-index", "7"), ("job-name", "other")];
        for owner in [None, Some(&owner("report"))] {
            let (bytes, told) = write(&labels, "web-0", owner);
            assert_eq!(told, 0);
            assert_eq!(read_labels(&bytes, told, "web-0", owner), Labels::from(labels));
        }
    }

    #[test]
    fn claims_of_a_stateful_sets_pods_are_alike() {
        let write = |name: &str, claims: &[&'static str]| {
            let claims: Vec<_> = claims.iter().map(|claim| Cow::from(*claim)).collect();
            let mut bytes = Vec::new();
            write_claims(&mut Writer::new(&mut bytes, None), &claims, name);
            let read: Vec<Box<str>> = read_claims(&bytes, name);
            assert!(read.iter().map(|claim| &**claim).eq(claims.iter().map(|claim| &**claim)));
            bytes
        };
        assert_eq!(
            write("web-0", &["data-web-0", "shared", "web-0-scratch"]),
            write("web-10", &["data-web-10", "shared", "web-10-scratch"])
        );
        write("", &["a", ""]);
        write("a", &["a", "", "aa", "aaa"]);
    }
}
