//! Pods that wait for a node: which is next, and which must wait for something to happen.

use std::{collections::BTreeMap, time::Duration};

use jiff::Timestamp;

use crate::clock;

/// Where a Pod waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    /// To be tried now.
    Active,
    /// To be tried at this time, or when nothing else is to be done.
    Backoff(Timestamp),
    /// Until something happens that may help.
    Unschedulable,
}

#[derive(Clone, Debug)]
struct Entry {
    priority: i32,
    /// Order of arrival.
    number: u64,
    attempts: u32,
    tried: Timestamp,
    place: Place,
    minds_neighbours: bool,
}

/// All Pods without a node, by UID.
#[derive(Debug, Default)]
pub(crate) struct Queue {
    entries: BTreeMap<String, Entry>,
    arrived: u64,
}

impl Queue {
    /// Takes a Pod up, if it is new.
    pub(crate) fn admit(&mut self, uid: &str, priority: i32, minds_neighbours: bool, now: Timestamp) {
        if !self.entries.contains_key(uid) {
            self.arrived += 1;
            let entry = Entry {
                priority,
                number: self.arrived,
                attempts: 0,
                tried: now,
                place: Place::Active,
                minds_neighbours,
            };
            self.entries.insert(uid.to_owned(), entry);
        }
    }

    /// Forgets Pods that are no longer waiting.
    pub(crate) fn retain(&mut self, keep: impl Fn(&str) -> bool) {
        self.entries.retain(|uid, _| keep(uid));
    }

    /// Forgets a Pod that has its node.
    pub(crate) fn remove(&mut self, uid: &str) {
        self.entries.remove(uid);
    }

    /// The most important Pod to try now, the first of its priority. `eager` takes Pods out of their backoff when no
    /// other is left.
    pub(crate) fn pop(&mut self, now: Timestamp, eager: bool) -> Option<String> {
        for entry in self.entries.values_mut() {
            if matches!(entry.place, Place::Backoff(until) if until <= now) {
                entry.place = Place::Active;
            }
        }
        let first = |accept: &dyn Fn(Place) -> bool| {
            let waiting = self.entries.iter().filter(|(_, entry)| accept(entry.place));
            waiting.min_by_key(|(_, entry)| (-i64::from(entry.priority), entry.number)).map(|(uid, _)| uid.clone())
        };
        let uid = first(&|place| place == Place::Active)
            .or_else(|| if eager { first(&|place| matches!(place, Place::Backoff(_))) } else { None })?;
        let entry = self.entries.get_mut(&uid).expect("it was just found");
        entry.attempts += 1;
        entry.tried = now;
        entry.place = Place::Unschedulable;
        Some(uid)
    }

    /// Something happened that may help Pods that found no node: each is tried again after its backoff.
    pub(crate) fn wake(&mut self, only_those_who_mind_neighbours: bool, now: Timestamp) {
        for entry in self.entries.values_mut() {
            if entry.place != Place::Unschedulable || (only_those_who_mind_neighbours && !entry.minds_neighbours) {
                continue;
            }
            let until = clock::after(entry.tried, backoff(entry.attempts));
            entry.place = if until <= now { Place::Active } else { Place::Backoff(until) };
        }
    }

    /// When the next backoff ends.
    pub(crate) fn next(&self) -> Option<Timestamp> {
        let until = self.entries.values().filter_map(|entry| match entry.place {
            Place::Backoff(until) => Some(until),
            _ => None,
        });
        until.min()
    }
}

/// 1 s, doubled at each attempt, at most 10 s.
fn backoff(attempts: u32) -> Duration {
    Duration::from_secs(1 << attempts.saturating_sub(1).min(4)).min(Duration::from_secs(10))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_second(seconds).unwrap()
    }

    #[test]
    fn the_most_important_pod_comes_first_then_the_oldest() {
        let mut queue = Queue::default();
        queue.admit("a", 0, false, at(0));
        queue.admit("b", 5, false, at(0));
        queue.admit("c", 0, false, at(0));
        let order: Vec<_> = std::iter::from_fn(|| queue.pop(at(0), true)).collect();
        assert_eq!(order, ["b", "a", "c"]);
    }

    #[test]
    fn backoff_doubles_up_to_ten_seconds_and_an_idle_eager_queue_skips_it() {
        let mut queue = Queue::default();
        queue.admit("a", 0, false, at(0));
        assert!(queue.pop(at(0), false).is_some());
        queue.wake(false, at(0));
        assert_eq!(queue.next(), Some(at(1)));
        assert_eq!(queue.pop(at(0), false), None);
        assert!(queue.pop(at(0), true).is_some());
        queue.wake(false, at(0));
        assert_eq!(queue.next(), Some(at(2)));
        let waits: Vec<_> = (1..=6).map(|n| backoff(n).as_secs()).collect();
        assert_eq!(waits, [1, 2, 4, 8, 10, 10]);
    }

    #[test]
    fn a_pod_without_terms_about_others_sleeps_while_others_arrive() {
        let mut queue = Queue::default();
        queue.admit("a", 0, false, at(0));
        queue.pop(at(0), true);
        queue.wake(true, at(60));
        assert_eq!(queue.pop(at(60), true), None);
        queue.wake(false, at(60));
        assert_eq!(queue.pop(at(60), true).as_deref(), Some("a"));
    }
}
