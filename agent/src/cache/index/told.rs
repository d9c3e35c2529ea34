//! Labels that only repeat the Pod's name: told by it again instead of kept.
//!
//! A `StatefulSet` or an indexed `Job` gives each Pod a label of its own. Kept, no two of their Pods would share a set of
//! labels. Nothing is lost: a label whose value the name does not tell stays in the set.

use std::sync::Arc;

use crate::cache::selector::Labels;

/// Which labels the name tells: one bit for each of [`TOLD`].
pub(super) type Told = u8;

/// How a label's value follows from the Pod's name.
type FromName = fn(&str) -> Option<&str>;

const TOLD: [(&str, FromName); 3] = [
    ("statefulset.kubernetes.io/pod-name", |name| Some(name)),
    ("apps.kubernetes.io/pod-index", |name| name.rsplit('-').next()),
    ("batch.kubernetes.io/job-completion-index", |name| name.rsplit('-').nth(1)),
];

/// Takes out what the name tells.
pub(super) fn take_out(name: &str, labels: &Arc<Labels>) -> (Arc<Labels>, Told) {
    let is_told =
        |(key, from_name): &(&str, FromName)| labels.get(key).is_some_and(|value| from_name(name) == Some(value));
    let mut told = 0;
    for (bit, rule) in TOLD.iter().enumerate() {
        told |= u8::from(is_told(rule)) << bit;
    }
    if told == 0 {
        return (Arc::clone(labels), 0);
    }
    let kept = labels.filtered(|key, _| !chosen(told).any(|(told, _)| *told == key));
    (Arc::new(kept), told)
}

/// Puts back what the name tells.
pub(super) fn put_back(name: &str, labels: &Arc<Labels>, told: Told) -> Arc<Labels> {
    if told == 0 {
        return Arc::clone(labels);
    }
    let told = chosen(told).filter_map(|(key, from_name)| Some((*key, from_name(name)?)));
    Arc::new(labels.iter().chain(told).collect())
}

fn chosen(told: Told) -> impl Iterator<Item = &'static (&'static str, FromName)> {
    TOLD.iter().enumerate().filter(move |(bit, _)| told & (1 << bit) != 0).map(|(_, rule)| rule)
}
