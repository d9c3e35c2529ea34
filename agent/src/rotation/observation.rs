//! What a step decides on: plain values, so that a test can write down any situation by hand.

use std::collections::BTreeSet;
use std::sync::Arc;

use jiff::Timestamp;
use rotate_shared::Amounts;
use rotate_shared::plan::Notice;

use crate::cache::volumes::ClaimKey;
use crate::cache::{Owner, Partition, Resources};
use crate::provider::{Loan, Order, Removal};
use crate::surge::constraints::Placement;

/// The cluster as one rotation sees it at one moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Observation {
    /// Whether the cache has seen the whole cluster.
    pub synced: bool,
    /// Pods that this rotation cannot be judged without and that are not read yet. While there are some, only the node,
    /// the placeholders and what failed are told.
    pub unread: Option<Unread>,
    /// Whether it may leave the queue.
    pub slot: Slot,
    /// The candidate.
    pub node: NodeSeen,
    /// What its provider says of it.
    pub machine: Machine,
    /// Somebody else cordoned it: that cordon is not ours to lift.
    pub foreign_cordon: bool,
    /// Whether a consistent list of this phase and the cache agree on the candidate's Pods.
    pub barrier: Barrier,
    /// The verdicts on the candidate's Pods.
    pub verdicts: Verdicts,
    /// Pods to move that are still on the candidate, in any order.
    pub leaving: Vec<Leaving>,
    /// Pods that are shutting down on the candidate and that nothing is reserved for: `namespace/name`.
    pub shutting_down: Vec<String>,
    /// Pods that the scheduler intends to put on the candidate: `namespace/name`.
    pub arriving: Vec<String>,
    /// When evictions may go on: one was refused a moment ago.
    pub refused_until: Option<Timestamp>,
    /// Disruption budgets that [`Leaving::budget`] points to.
    pub budgets: Vec<Budget>,
    /// The owners of the Pods to move.
    pub owners: Vec<OwnerSeen>,
    /// What room must be held for.
    pub needs: Vec<Need>,
    /// Placeholders of this rotation.
    pub room: Vec<Room>,
    /// UIDs of placeholders that do not run for some time, where it is due to read what is said of them.
    pub unheard: Vec<String>,
    /// Nodes that came for these placeholders, by name.
    pub surge_nodes: Vec<SurgeNode>,
    /// Pods that wait for nothing on a node where we hold or held room.
    pub passed_over: Vec<PassedOver>,
    /// Calls that failed and are tried again.
    pub failures: Vec<Notice>,
}

/// Pods that are not read yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unread {
    /// Which.
    pub scope: Partition,
    /// Why the last try to read them failed.
    pub error: Option<Arc<str>>,
}

/// Whether a rotation may leave the queue.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Slot {
    /// Yes.
    #[default]
    Free,
    /// Not yet, because of this.
    Wait(Notice),
    /// Never: its batch ended.
    Closed(Notice),
}

/// The candidate.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum NodeSeen {
    /// There is no node of this name and UID.
    #[default]
    Gone,
    /// It is there.
    Here {
        /// Cordoned, and marked as this rotation's.
        marked: bool,
        /// Carries anything of ours.
        traces: bool,
        /// It has a deletion timestamp.
        deleting: bool,
    },
}

/// What the candidate's provider says of it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Machine {
    /// Whether its objects were read. While they were not, nothing else is known.
    pub known: bool,
    /// They are to be read anew.
    pub stale: bool,
    /// What may be ordered, because no placeholder brings it.
    pub order: Option<Order>,
    /// The scheduler has found no room for a placeholder.
    pub no_room: bool,
    /// What there is to settle of [`super::record::Record::order`].
    pub loan: Loan,
    /// How the node would be taken away now; `None`: not known, or it is not there.
    pub removal: Option<Removal>,
    /// Who takes it away, other than us.
    pub taken: Option<String>,
    /// What [`super::record::Record::removal`] takes away is gone, as far as the Node object is.
    pub gone: bool,
    /// When its removal was asked for first, or seen under way, by this process.
    pub asked: Option<Asked>,
    /// Why it is refused for good.
    pub refused: Option<String>,
    /// `status.nodeInfo.bootID`.
    pub boot_id: Option<String>,
    /// Its Ready condition is True.
    pub ready: bool,
}

/// A removal that was asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Asked {
    /// When first.
    pub since: Timestamp,
    /// When it was accepted last; `None`: it never was.
    pub accepted: Option<Timestamp>,
}

/// A node that came for this rotation's placeholders.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SurgeNode {
    /// Its name.
    pub name: String,
    /// Its UID.
    pub uid: String,
    /// A placeholder of this rotation is on it.
    pub holds: bool,
    /// It carries this rotation's protection.
    pub protected: bool,
    /// It carries that of another rotation.
    pub others: bool,
    /// Nothing real is on it or about to be, and no placeholder of another rotation; `None`: its Pods are not read.
    pub unused: Option<bool>,
    /// It is going already.
    pub leaving: bool,
    /// How it would be given back; `None`: not known, or it was there before this rotation.
    pub removal: Option<Removal>,
    /// What its provider says of it is from before the end began: what stands behind a young node may not have been
    /// there yet.
    pub stale: bool,
    /// It was given back by this process.
    pub given_back: bool,
    /// A call for it has failed.
    pub failed: bool,
}

/// Whether the cache can be believed about the candidate's Pods.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Barrier {
    /// No list in this phase yet, or the cache has not caught up with the last one.
    #[default]
    Open,
    /// Everything listed is in the cache.
    Passed,
}

/// The verdicts on the candidate's Pods that are not in the record.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Verdicts {
    /// Claims that have to be read before anything can be said. While there are some, the rest is empty.
    pub unknown_claims: Vec<ClaimKey>,
    /// Pods to move.
    pub fresh: Vec<Fresh>,
    /// What stands in the way.
    pub blockers: Vec<Notice>,
    /// What deserves a look.
    pub warnings: Vec<Notice>,
}

/// A Pod to move that is not in the record yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fresh {
    /// Its UID.
    pub uid: String,
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// Its controlling owner.
    pub owner: Option<Owner>,
    /// The room to hold for it; `None`: nothing is reserved.
    pub room: Option<(Amounts, Placement)>,
    /// UIDs of young Pods of its owner that stand elsewhere, or nowhere, already.
    pub siblings: Vec<String>,
}

/// A Pod to move that is still on the candidate.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Leaving {
    /// Its UID.
    pub uid: String,
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// The class of its room.
    pub class: Option<String>,
    /// The group it is evicted with, see [`crate::drain::order`].
    pub rank: usize,
    /// Shutting down, or its eviction is on the way.
    pub terminating: bool,
    /// Its eviction was asked for and is not answered yet.
    pub asked: bool,
    /// Which of [`Observation::budgets`] must allow its eviction.
    pub budget: Option<usize>,
    /// Several budgets select it: it can never be evicted.
    pub several_budgets: Option<Notice>,
    /// It must not be evicted now, although it was to be once: its verdict changed.
    pub blocked: Vec<Notice>,
    /// The last answer to its eviction was a refusal.
    pub refused: Option<Refused>,
}

/// A refused eviction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refused {
    /// Not to be asked again before.
    pub until: Timestamp,
    /// What to show.
    pub notice: Notice,
}

/// A disruption budget.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Budget {
    /// How many evictions it allows, less those of ours that it has not counted yet.
    pub allowed: i32,
    /// What to show while it allows none.
    pub closed: Notice,
    /// When one of its Pods is to be asked for all the same: our reading of the budget might be wrong.
    pub poll_at: Option<Timestamp>,
}

/// An owner of Pods to move.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OwnerSeen {
    /// Its UID.
    pub uid: String,
    /// `Kind namespace/name`.
    pub path: String,
    /// Its Pods that left the candidate or are on the way out and that it replaces.
    pub gone: u32,
    /// Replacements bound to another node.
    pub landed: u32,
    /// Of those: Ready, or finished well.
    pub ready: u32,
    /// Replacements that are still to land.
    pub pending: u32,
    /// Waited for longer than the settle timeout.
    pub overdue: bool,
    /// All that it wants is Ready, or it wants nothing any more.
    pub satisfied: bool,
    /// To be read anew: what it wants would settle a wait.
    pub ask: Option<(String, Owner)>,
}

/// A Pod that room must be held for: on the candidate still, or its replacement that has not landed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Need {
    /// The UID of the Pod to move.
    pub uid: String,
    /// `namespace/name` of the Pod to move.
    pub path: String,
    /// The class of its room.
    pub class: String,
    /// How much room it needs.
    pub requests: Resources,
    /// The Pod left or is leaving, and its replacement has not landed.
    pub pending: Option<Pending>,
    /// UIDs of held placeholders in whose place it would run.
    pub serves: BTreeSet<String>,
    /// UIDs of placeholders that will do so once they run; being preempted counts.
    pub coming: BTreeSet<String>,
    /// The number of the next placeholder for it.
    pub attempt: u32,
    /// No placeholder is created for it before.
    pub not_before: Option<Timestamp>,
}

/// A replacement that has not landed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Pending {
    /// `namespace/name` once it exists.
    pub pod: Option<String>,
    /// The scheduler has cleared a place for it and is about to bind it.
    pub nominated: bool,
    /// It has only just appeared and can preempt: it is likely to be taking a placeholder at this moment, and to hold its
    /// room as soon as the watch tells.
    pub landing: bool,
    /// It cannot preempt a placeholder: we have to release one.
    pub cannot_preempt: bool,
    /// It could, and has not done so for long: the scheduler looks again at some Pods only every five minutes, unless
    /// another Pod is deleted (`docs/decisions/002-one-pod-after-another.md`).
    pub stuck: bool,
    /// Waited for longer than the settle timeout.
    pub overdue: bool,
}

/// A Pod that the scheduler has made room for and then forgotten.
///
/// Two Pods that preempt on one node at the same time may share a victim. Where it is gone before the second one's
/// preemption has ended, nothing wakes that Pod any more until the scheduler looks at all of them, after five minutes;
/// the deletion of any bound Pod does (measured on 1.36.3, `docs/decisions/002-one-pod-after-another.md`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PassedOver {
    /// Its UID.
    pub uid: String,
    /// `namespace/name`.
    pub path: String,
    /// How often it was to be woken before.
    pub attempt: u32,
}

/// A placeholder of this rotation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Room {
    /// Its name.
    pub name: String,
    /// Its UID; while it is being created, its name.
    pub uid: String,
    /// The UID of the Pod it was made for.
    pub pod_uid: String,
    /// How much it holds.
    pub offers: Resources,
    /// Whether it holds room.
    pub state: RoomState,
}

/// Whether a placeholder holds room.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RoomState {
    /// On its way to the API server: there is nothing yet that could be deleted, and its UID is not known.
    Creating,
    /// Running on a node that takes Pods.
    Held {
        /// Which node.
        node: String,
        /// Why the Pod that it was made for would not run there in its place.
        misfit: Option<String>,
    },
    /// Not running yet.
    Coming {
        /// What the scheduler says.
        message: Option<String>,
    },
    /// It will never hold room: it ended, or its node does not take Pods.
    Lost {
        /// Why.
        why: String,
    },
    /// Being deleted: preempted, or released by us.
    Ending,
}
