//! Figures about a run, computed from its log alone.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use jiff::Timestamp;

use crate::log::{Event, LogEntry};

/// Which Pods count as moved.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Select {
    /// Only in these namespaces; all where empty.
    pub namespaces: Vec<String>,
    /// A Pod that never got a node waited until then. Default: until the log's last entry.
    pub until: Option<Timestamp>,
}

/// How the workload fared.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Figures {
    /// The longest that one of them had no node.
    pub longest_unscheduled: Duration,
    /// How many of them found no node that would take them, not even by preemption, at some time.
    pub lacked_room: usize,
    /// How many there were: Pods made after `since` by a controller, of priority 0 or more, those of DaemonSets left
    /// out.
    pub moved: usize,
}

/// Looks at the Pods made from `since` on.
#[must_use]
pub fn figures(log: &[LogEntry], since: Timestamp, select: &Select) -> Figures {
    let end = select.until.or_else(|| log.last().map(|entry| entry.at)).unwrap_or(since);
    let mut waiting: BTreeMap<&str, Timestamp> = BTreeMap::new();
    let mut moved: BTreeSet<&str> = BTreeSet::new();
    let mut lacked: BTreeSet<&str> = BTreeSet::new();
    let mut longest = Duration::ZERO;
    let mut waited = |from: Timestamp, to: Timestamp| {
        longest = longest.max(Duration::try_from(to.duration_since(from)).unwrap_or_default());
    };
    for LogEntry { at, event } in log {
        match event {
            Event::PodCreated { namespace, uid, owner_kind: Some(owner), priority, .. }
                if *at >= since
                    && *priority >= 0
                    && owner != "DaemonSet"
                    && (select.namespaces.is_empty() || select.namespaces.contains(namespace)) =>
            {
                moved.insert(uid);
                waiting.insert(uid, *at);
            }
            Event::PodBound { uid, .. } | Event::PodDeleted { uid } => {
                if let Some(created) = waiting.remove(uid.as_str()) {
                    waited(created, *at);
                }
            }
            Event::PodUnschedulable { uid, .. } if moved.contains(uid.as_str()) => {
                lacked.insert(uid);
            }
            _ => {}
        }
    }
    for created in waiting.into_values() {
        waited(created, end.max(created));
    }
    Figures { longest_unscheduled: longest, lacked_room: lacked.len(), moved: moved.len() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: i64, event: Event) -> LogEntry {
        LogEntry { at: Timestamp::from_second(seconds).unwrap(), event }
    }

    fn created(uid: &str, owner: Option<&str>, priority: i32) -> Event {
        Event::PodCreated {
            namespace: "shop".to_owned(),
            name: uid.to_owned(),
            uid: uid.to_owned(),
            owner: owner.map(|_| "o".to_owned()),
            owner_kind: owner.map(str::to_owned),
            priority,
        }
    }

    fn bound(uid: &str) -> Event {
        Event::PodBound { uid: uid.to_owned(), node: "n".to_owned() }
    }

    #[test]
    fn only_pods_that_a_controller_made_since_then_count() {
        let log = [
            at(1, created("before", Some("ReplicaSet"), 0)),
            at(10, created("moved", Some("ReplicaSet"), 0)),
            at(10, created("bare", None, 0)),
            at(10, created("daemon", Some("DaemonSet"), 0)),
            at(10, created("placeholder", None, -10)),
            at(12, Event::PodUnschedulable { uid: "moved".to_owned(), message: String::new() }),
            at(14, bound("moved")),
            at(50, bound("before")),
        ];
        let figures = figures(&log, Timestamp::from_second(5).unwrap(), &Select::default());
        assert_eq!(figures, Figures { longest_unscheduled: Duration::from_secs(4), lacked_room: 1, moved: 1 });
    }

    #[test]
    fn a_pod_that_never_got_a_node_waited_until_the_end() {
        let log = [at(10, created("a", Some("Job"), 0))];
        let select = Select { until: Some(Timestamp::from_second(70).unwrap()), ..Select::default() };
        let figures = figures(&log, Timestamp::from_second(0).unwrap(), &select);
        assert_eq!(figures.longest_unscheduled, Duration::from_secs(60));
    }
}
