//! The event log as sentences.

use std::collections::BTreeMap;

use jiff::Timestamp;
use rotate_shared::names;
use rotate_sim::{Event, LogEntry};

use crate::output::fold;

/// Tells a log as it grows. Knows only what the log said before.
#[derive(Debug)]
pub(super) struct Story {
    started: Timestamp,
    candidate: String,
    /// Entries that were looked at.
    told: usize,
    pods: BTreeMap<String, Pod>,
    ordered: bool,
}

#[derive(Debug)]
struct Pod {
    path: String,
    placeholder: bool,
    created: Timestamp,
    node: Option<String>,
    lacked: bool,
    /// Created after the story began, and not by us: it replaces one that was evicted.
    replacement: bool,
    daemon: bool,
}

impl Story {
    /// Begins after what is in `log` already: that is known, and not told.
    pub(super) fn begin(candidate: &str, log: &[LogEntry], now: Timestamp) -> Self {
        let mut story =
            Self { started: now, candidate: candidate.to_owned(), told: 0, pods: BTreeMap::new(), ordered: false };
        story.tell(log);
        for pod in story.pods.values_mut() {
            pod.replacement = false;
        }
        story.ordered = false;
        story
    }

    /// When it began.
    pub(super) fn started(&self) -> Timestamp {
        self.started
    }

    /// Sentences for what is new in `log`, each with the seconds since the beginning.
    pub(super) fn tell(&mut self, log: &[LogEntry]) -> Vec<String> {
        let new = log.get(self.told..).unwrap_or_default();
        self.told += new.len();
        let mut lines = Vec::new();
        for entry in new {
            if let Some(sentence) = self.sentence(entry) {
                lines.push(self.stamped(entry.at, &sentence));
            }
        }
        lines
    }

    /// A line with its time, broken where a terminal of eighty columns ends.
    pub(super) fn stamped(&self, at: Timestamp, sentence: &str) -> String {
        let seconds = at.duration_since(self.started).as_secs_f64().max(0.0);
        format!("{seconds:5.1} s  {}", broken(sentence))
    }

    fn sentence(&mut self, entry: &LogEntry) -> Option<String> {
        match &entry.event {
            Event::PodCreated { namespace, name, uid, owner_kind, .. } => {
                let pod = Pod {
                    path: format!("{namespace}/{name}"),
                    placeholder: namespace == names::ROOM_NAMESPACE,
                    created: entry.at,
                    node: None,
                    lacked: false,
                    replacement: namespace != names::ROOM_NAMESPACE,
                    daemon: owner_kind.as_deref() == Some("DaemonSet"),
                };
                self.pods.insert(uid.clone(), pod);
                None
            }
            Event::PodUnschedulable { uid, .. } => {
                let pod = self.pods.get_mut(uid)?;
                let first = !std::mem::replace(&mut pod.lacked, true);
                if pod.placeholder {
                    let first = !std::mem::replace(&mut self.ordered, true);
                    return first.then(|| {
                        "No node has room for them, so the autoscaler orders a new one. All Pods go on serving meanwhile."
                            .to_owned()
                    });
                }
                first.then(|| format!("{} has no place to go: no node has room for it.", pod.path))
            }
            Event::PodBound { uid, node } => {
                let pod = self.pods.get_mut(uid)?;
                pod.node = Some(node.clone());
                if pod.daemon || !(pod.placeholder || pod.replacement) {
                    return None;
                }
                if pod.placeholder {
                    let all = self.pods.values().filter(|pod| pod.placeholder);
                    let hold = all.clone().filter(|pod| pod.node.is_some()).count();
                    return Some(format!("Placeholder {hold} of {} holds room on {node}.", all.count()));
                }
                let waited = entry.at.duration_since(pod.created).as_secs_f64();
                Some(format!("{} lands on {node}, {waited:.1} s after it was created.", pod.path))
            }
            Event::PodEvicted { uid } => {
                let pod = self.pods.get(uid)?;
                Some(format!("{} is evicted from {}.", pod.path, pod.node.as_deref().unwrap_or("nowhere")))
            }
            Event::PodReady { uid } => {
                let pod = self.pods.get(uid)?;
                (pod.replacement && !pod.daemon).then(|| format!("{} serves again.", pod.path))
            }
            Event::NodeRegistered { node } => Some(format!("{node} has joined the cluster and is starting up.")),
            Event::NodeReady { node } => Some(format!("{node} is ready.")),
            Event::NodeCordoned { node } if *node == self.candidate => {
                Some(format!("{node} is cordoned: nothing new is placed on it."))
            }
            Event::NodeUncordoned { node } => Some(format!("{node} is uncordoned.")),
            Event::NodeDeleted { node } => Some(format!("{node} is gone.")),
            _ => None,
        }
    }
}

/// The width of a terminal that nobody has made larger, less the column in which some wrap.
const WIDTH: usize = 79;
/// As wide as the time and its gap.
const INDENT: usize = 9;

/// A sentence in lines that fit, all but the first indented.
pub(super) fn broken(sentence: &str) -> String {
    fold::hang(sentence, WIDTH, INDENT, INDENT)
}
