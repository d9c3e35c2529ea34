//! What the engine remembers of its own calls, until the cache shows their results.
//!
//! Nothing in here is needed after a crash: at worst something is asked once more.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use rotate_shared::plan::Notice;
use rotate_shared::{Phase, Then};

use super::effect::Reservation;
use super::execute::gate::Gate;
use super::observation::{Asked, Refused};
use super::observe::{self, Marks};
use super::record::Record;
use crate::cache::decode::Workload;
use crate::cache::{Kind, Pod, Resources, State, Volumes};
use crate::provider::ProviderObjects;
use crate::surge::told::AllTold;

/// How long an answer of the API server is believed against a cache that does not show it.
const LAG: SignedDuration = SignedDuration::from_secs(10);

/// A call that is not tried again for so long after it might be is not wanted any more.
const UNWANTED: SignedDuration = SignedDuration::from_secs(15);

/// One rotation's memory. Only the engine's task writes it.
#[derive(Debug, Default)]
pub(super) struct Memory {
    /// The phase that the barrier belongs to.
    pub(super) phase: Option<Phase>,
    /// UIDs of the Pods of the last consistent list of this phase, and when it was read. One from before the cordon is
    /// no barrier, and neither is an old one.
    pub(super) listed: Option<(BTreeSet<String>, Timestamp)>,
    /// Pods that the scheduler intended to put on the candidate when it was listed, and that the cache may not see:
    /// `namespace/name`.
    pub(super) arriving: Vec<String>,
    /// Claims that were read.
    pub(super) volumes: Volumes,
    /// The Pods to move as they were, so that room can be judged for replacements that do not exist yet.
    pub(super) originals: BTreeMap<String, Pod>,
    /// Pods to move that finished on the candidate: nothing replaces them.
    pub(super) finished: BTreeSet<String>,
    /// Evictions that are on their way or were accepted, by UID.
    pub(super) evicting: BTreeMap<String, Evicting>,
    /// What evictions pass on their way.
    pub(super) gate: Gate,
    /// Evictions that were refused, by UID.
    pub(super) refused: BTreeMap<String, Refused>,
    /// When an eviction was refused last.
    pub(super) refused_at: Option<Timestamp>,
    /// How often an eviction was refused in a row, by UID.
    pub(super) refusals: BTreeMap<String, u32>,
    /// Placeholders that were created and are not in the cache yet, by name.
    pub(super) created: BTreeMap<String, Created>,
    /// Placeholders that were deleted and are in the cache still, by UID.
    pub(super) released: BTreeMap<String, Timestamp>,
    /// The highest number of a placeholder for a Pod, and when it was created.
    pub(super) attempts: BTreeMap<String, (u32, Timestamp)>,
    /// What owners want, by UID; `None`: there is no such owner.
    pub(super) owners: BTreeMap<String, (Timestamp, Option<Workload>)>,
    /// Since when replacements are missing, by the owner's UID.
    pub(super) missing: BTreeMap<String, Missing>,
    /// Since when a disruption budget is closed, or when one of its Pods was last asked for, by UID.
    pub(super) closed_since: BTreeMap<String, Timestamp>,
    /// Whether our marks were put on the node or taken off, until the cache shows it.
    pub(super) marks: Option<(bool, Timestamp)>,
    /// Placeholders on their way to the API server, by name.
    pub(super) reserving: BTreeMap<String, Reservation>,
    /// Nodes that a placeholder was ever seen on: whoever took its room may have been forgotten there.
    pub(super) held_on: BTreeSet<Arc<str>>,
    /// The Pod that is being created and deleted to wake the scheduler.
    pub(super) waking: Option<String>,
    /// How often the scheduler was woken for a Pod, and when last, by UID.
    pub(super) woken: BTreeMap<String, (u32, Timestamp)>,
    /// Whether our protection was put on a node that came for us or taken off, by the node's UID, until the cache shows it.
    pub(super) protections: BTreeMap<String, (bool, Timestamp)>,
    /// UIDs of nodes that were given back.
    pub(super) given_back: BTreeSet<String>,
    /// What providers keep, as last read, and when that was asked for.
    pub(super) provider: Option<(Arc<ProviderObjects>, Timestamp)>,
    /// When providers were asked last.
    pub(super) provider_asked: Option<Timestamp>,
    /// Something was ordered by this process: not again, even if what notes it should be taken off by others.
    pub(super) ordered: Option<Ordered>,
    /// The removal that was asked for.
    pub(super) asked: Option<Asked>,
    /// What is said of placeholders that do not run, and when it was read.
    pub(super) told: Option<(AllTold, Timestamp)>,
    /// Why the removal is refused for good.
    pub(super) will_not: Option<String>,
    /// Calls that failed, by the effect's key.
    pub(super) failures: BTreeMap<String, Failure>,
}

/// An eviction that is on its way or was accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Evicting {
    /// No answer yet.
    Sent,
    /// Accepted at this time.
    Accepted(Timestamp),
}

/// How far an order has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ordered {
    /// No answer yet.
    Sent,
    /// Answered, or given up, at this time.
    Ended(Timestamp),
}

/// Replacements that are missing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Missing {
    /// How many Pods of the owner are gone, how many landed, how many of those are Ready.
    pub(super) counts: (u32, u32, u32),
    /// Since when the counts are these.
    pub(super) since: Timestamp,
}

/// A placeholder that was created.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Created {
    pub(super) uid: String,
    pub(super) pod_uid: String,
    pub(super) class: String,
    pub(super) offers: Resources,
    pub(super) at: Timestamp,
}

/// A call that failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Failure {
    /// How often in a row.
    pub(super) count: u32,
    /// Not to be tried again before.
    pub(super) until: Timestamp,
    /// What to show.
    pub(super) notice: Notice,
}

/// Whether the candidate is going or gone by our own removal.
fn is_going(record: &Record, state: &State) -> bool {
    let removes = record.phase() == Phase::Removing && record.options.then == Some(Then::Delete);
    let node = state.node(&record.node).filter(|node| *node.uid == *record.node_uid);
    removes && record.removal.is_some() && state.has_read(Kind::Nodes) && node.is_none_or(|node| node.deleting)
}

impl Memory {
    /// Forgets what the cache shows by now, and what belongs to an earlier phase.
    pub(super) fn refresh(&mut self, record: &Record, state: &State, now: Timestamp) {
        if self.phase != Some(record.phase()) {
            self.phase = Some(record.phase());
            self.listed = None;
        }
        let fresh = |at: Timestamp| now.duration_since(at) < LAG;
        self.listed = self.listed.take().filter(|(_, at)| fresh(*at));
        if self.listed.is_none() {
            self.arriving.clear();
        }
        for moved in record.moves() {
            if let Some(pod) = state.pod(&moved.uid) {
                if pod.phase.is_finished() && pod.deleted.is_none() {
                    self.finished.insert(moved.uid.clone());
                }
                self.originals.insert(moved.uid.clone(), pod);
            }
        }
        self.held_on.extend(observe::placeholders(state, &record.id).into_iter().filter_map(|pod| pod.node));
        self.evicting.retain(|uid, evicting| match evicting {
            Evicting::Sent => true,
            Evicting::Accepted(at) => fresh(*at) && state.pod(uid).is_some_and(|pod| pod.deleted.is_none()),
        });
        self.created.retain(|_, created| fresh(created.at) && state.pod(&created.uid).is_none());
        self.released.retain(|uid, at| {
            fresh(*at) && (state.pod(uid).is_some() || self.created.values().any(|created| created.uid == *uid))
        });
        let shown = state.node(&record.node).map(|node| observe::marks(record, node));
        self.marks = self.marks.filter(|(marked, at)| {
            fresh(*at) && shown.is_none_or(|shown| shown != Marks { marked: *marked, traces: *marked })
        });
        self.protections.retain(|_, (_, at)| fresh(*at));
        if is_going(record, state) {
            // Whoever led before has asked for it: its time runs from here on.
            self.asked.get_or_insert(Asked { since: now, accepted: None });
        }
        self.failures.retain(|_, failure| now.duration_since(failure.until) < UNWANTED);
        self.woken.retain(|uid, _| state.pod(uid).is_some());
        self.refused.retain(|uid, _| state.pod(uid).is_some());
        self.refusals.retain(|uid, _| state.pod(uid).is_some());
    }

    /// How many Pods are asked to leave that may stay yet: there is no answer.
    pub(super) fn asked_to_leave(&self, state: &State) -> u32 {
        let stays = |uid: &str| state.pod(uid).is_some_and(|pod| pod.deleted.is_none() && !pod.phase.is_finished());
        let sent = self.evicting.iter().filter(|(uid, evicting)| **evicting == Evicting::Sent && stays(uid));
        u32::try_from(sent.count()).unwrap_or(u32::MAX)
    }

    /// The Pod as it was, if it was ever seen by this process.
    pub(super) fn original(&self, uid: &str) -> Option<&Pod> {
        self.originals.get(uid)
    }

    /// What the owner with this UID wants, as last read.
    pub(super) fn wants(&self, owner_uid: &str) -> Option<u32> {
        match &self.owners.get(owner_uid)?.1 {
            Some(workload) => workload.desired,
            None => Some(0),
        }
    }

    /// The name of the owner's own controller, as last read.
    pub(super) fn top_owner(&self, owner_uid: &str) -> Option<Arc<str>> {
        let top = self.owners.get(owner_uid)?.1.as_ref()?.owner.as_ref()?;
        (&*top.kind == "Deployment").then(|| Arc::clone(&top.name))
    }
}
