//! How far the Pods of a rotation are, read off the cluster: nothing of this is written down, so that a restart loses
//! nothing.
//!
//! ```text
//! moves of an owner ─┬─ here
//!                    └─ gone ─┬─ came back to the candidate (a move of its own)
//!                             ├─ landed: a new Pod of the owner on another node
//!                             └─ pending, as far as the owner still wants it
//! ```

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};

use super::memory::{Memory, Missing};
use super::observation::OwnerSeen;
use super::record::{Move, Record};
use super::store::Entry;
use crate::cache::{Owner, Pod, PodPhase, State};

/// How long replacements may be missing before their owner is asked what it wants, and how often it is asked.
const ASK_AFTER: SignedDuration = SignedDuration::from_secs(2);

/// Where a Pod to move stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Whereabouts {
    /// On the candidate, running.
    Here,
    /// On the candidate, shutting down or about to.
    Leaving,
    /// Left.
    Gone,
    /// It finished by itself: nothing replaces it.
    Finished,
}

/// Where a Pod to move stands.
pub(super) fn whereabouts(moved: &Move, state: &State, memory: &Memory) -> Whereabouts {
    if memory.finished.contains(&moved.uid) {
        return Whereabouts::Finished;
    }
    match state.pod(&moved.uid) {
        None => Whereabouts::Gone,
        Some(pod) if pod.phase.is_finished() && pod.deleted.is_none() => Whereabouts::Finished,
        Some(pod) if pod.phase.is_finished() => Whereabouts::Gone,
        Some(pod) if pod.deleted.is_some() || memory.evicting.contains_key(&moved.uid) => Whereabouts::Leaving,
        Some(_) => Whereabouts::Here,
    }
}

/// An owner of Pods to move.
#[derive(Debug)]
pub(super) struct Group<'a> {
    pub(super) seen: OwnerSeen,
    /// The Pods that left or are leaving and whose replacements have not landed, as many as are pending.
    pub(super) pending: Vec<(&'a Move, Option<Pod>)>,
}

/// What a rotation is judged by.
#[derive(Clone, Copy, Debug)]
pub(super) struct Known<'a> {
    pub(super) entry: &'a Entry,
    pub(super) state: &'a State,
    pub(super) memory: &'a Memory,
    pub(super) now: Timestamp,
}

/// The owners of the Pods to move, each with what is pending.
pub(super) fn owners<'a>(known: &Known<'a>) -> Vec<Group<'a>> {
    let mut by_owner = BTreeMap::<(&str, Arc<str>), (&Owner, Vec<&Move>)>::new();
    for moved in known.entry.record.moves() {
        if let Some(owner) = &moved.owner {
            // Two ReplicaSets of one Deployment are one owner: either's Pod may be replaced by the other's.
            let top = known.memory.top_owner(&owner.uid).unwrap_or_else(|| Arc::clone(&owner.uid));
            by_owner.entry((&moved.namespace, top)).or_insert_with(|| (owner, Vec::new())).1.push(moved);
        }
    }
    by_owner.into_iter().map(|((namespace, _), (owner, moves))| group(known, namespace, owner, &moves)).collect()
}

/// Pods of an owner, or of all the `ReplicaSet`s of its `Deployment`: a rollout may be under way.
pub(super) fn pods_of(state: &State, memory: &Memory, namespace: &str, owner: &Owner) -> Vec<Pod> {
    let Some(deployment) = memory.top_owner(&owner.uid) else { return state.pods_of_owner(&owner.uid) };
    // A ReplicaSet of a Deployment is called `<deployment>-<hash>`, and the hash has no dash.
    let of_deployment = |owner: &Owner| {
        let hash = owner.name.strip_prefix(&*deployment).and_then(|rest| rest.strip_prefix('-'));
        &*owner.kind == "ReplicaSet" && hash.is_some_and(|hash| !hash.contains('-'))
    };
    let mut pods = state.pods_in(namespace);
    pods.retain(|pod| pod.owner.as_ref().is_some_and(|other| other.uid == owner.uid || of_deployment(other)));
    pods
}

/// Pods that may be replacements: created since the rotation was asked for and not known from before.
fn is_new(record: &Record, created: Timestamp, pod: &Pod) -> bool {
    let Some(surge) = &record.surge else { return false };
    pod.created >= created && !surge.known.iter().any(|uid| **uid == *pod.uid)
}

fn group<'a>(known: &Known<'a>, namespace: &str, owner: &Owner, moves: &[&'a Move]) -> Group<'a> {
    let Known { entry, state, memory, now } = *known;
    let record = &entry.record;
    let gone: Vec<&Move> = moves
        .iter()
        .copied()
        .filter(|moved| matches!(whereabouts(moved, state, memory), Whereabouts::Gone | Whereabouts::Leaving))
        .collect();
    let returns = moves.iter().filter(|moved| moved.returned).count();
    let to_replace = gone.len().saturating_sub(returns);

    let ours: BTreeSet<&str> = record.moves().iter().map(|moved| &*moved.uid).collect();
    let pods = pods_of(state, memory, namespace, owner);
    let lives = |pod: &&Pod| pod.deleted.is_none() && !pod.phase.is_finished();
    let new = |pod: &&Pod| !ours.contains(&*pod.uid) && is_new(record, entry.created, pod);
    // A replacement that finished well has done its work.
    let arrived = |pod: &&Pod| pod.deleted.is_none() && pod.phase != PodPhase::Failed;
    let elsewhere = |pod: &&Pod| pod.node.as_deref().is_some_and(|node| node != record.node);
    let landed_pods: Vec<&Pod> = pods.iter().filter(elsewhere).filter(arrived).filter(new).collect();
    let unbound: Vec<&Pod> = pods.iter().filter(|pod| pod.node.is_none()).filter(lives).filter(new).collect();
    let bound = pods.iter().filter(|pod| pod.node.is_some()).filter(lives);
    let bound = bound.filter(|pod| !memory.evicting.contains_key(&*pod.uid)).count();

    let landed = landed_pods.len().min(to_replace);
    let wants = memory.wants(&owner.uid).map(|wants| wants as usize);
    let mut pending = to_replace - landed;
    if let Some(wants) = wants {
        pending = pending.min(wants.saturating_sub(bound));
    }
    // Scaled up meanwhile, the owner may have landed Pods that replace nothing while the replacement is still on its
    // way. In doubt there is one more to come.
    let pending = pending.max(unbound.len().min(to_replace));

    let ready = |pod: &&&Pod| pod.ready || pod.phase == PodPhase::Succeeded;
    let ready_now = pods.iter().filter(elsewhere).filter(lives).filter(|pod| pod.ready).count();
    let since = memory.missing.get(&*owner.uid).map(|missing| missing.since).filter(|_| pending > 0);
    let timeout = i64::try_from(record.options.settle_timeout_seconds).unwrap_or(i64::MAX);
    let count = |count: usize| u32::try_from(count).unwrap_or(u32::MAX);
    let ready_landed = landed_pods.iter().filter(ready).count().min(to_replace);
    let seen = OwnerSeen {
        uid: owner.uid.to_string(),
        path: format!("{} {namespace}/{}", owner.kind, owner.name),
        gone: count(to_replace),
        landed: count(landed),
        ready: count(ready_landed),
        pending: count(pending),
        overdue: since.is_some_and(|since| now.duration_since(since) > SignedDuration::from_secs(timeout)),
        satisfied: wants.is_some_and(|wants| ready_now >= wants),
        ask: ask(known, namespace, owner, ready_landed < to_replace || pending > 0),
    };
    let pending = choose(&gone, &landed_pods, &unbound, returns + landed, pending);
    Group { seen, pending }
}

/// Which Pods to move stand for the pending replacements. A landed or unbound Pod of the same name (a `StatefulSet`'s)
/// belongs to its predecessor; the others are taken in the order of the record, so that the choice is stable.
fn choose<'a>(
    gone: &[&'a Move],
    landed_pods: &[&Pod],
    unbound: &[&Pod],
    done: usize,
    pending: usize,
) -> Vec<(&'a Move, Option<Pod>)> {
    let named = |pods: &[&Pod], moved: &Move| pods.iter().any(|pod| *pod.name == *moved.name);
    let mut order: Vec<&Move> = gone.to_vec();
    // Those that are done go to the front, those that are certainly not to the back.
    order.sort_by_key(|moved| match (named(landed_pods, moved), named(unbound, moved)) {
        (true, _) => 0,
        (false, false) => 1,
        (false, true) => 2,
    });
    let skip = done.min(order.len().saturating_sub(pending));
    let chosen: Vec<&Move> = order.into_iter().skip(skip).take(pending).collect();
    let mut waiting: Vec<&Pod> = unbound.to_vec();
    let mut take = |moved: &Move| {
        let at = waiting.iter().position(|pod| *pod.name == *moved.name);
        let any = || waiting.iter().position(|pod| !chosen.iter().any(|moved| *moved.name == *pod.name));
        at.or_else(any).map(|at| waiting.remove(at).clone())
    };
    chosen.iter().map(|moved| (*moved, take(moved))).collect()
}

/// Whether the owner is to be asked what it wants.
fn ask(known: &Known<'_>, namespace: &str, owner: &Owner, missing: bool) -> Option<(String, Owner)> {
    let Known { memory, now, .. } = known;
    let long = |since: Timestamp| now.duration_since(since) >= ASK_AFTER;
    let waited = memory.missing.get(&*owner.uid).is_some_and(|missing| long(missing.since));
    let stale = memory.owners.get(&*owner.uid).is_none_or(|(read, _)| long(*read));
    (missing && waited && stale && path(namespace, owner).is_some()).then(|| (namespace.to_owned(), owner.clone()))
}

/// Where the API server keeps an owner, for the kinds whose wishes can be read.
pub(super) fn path(namespace: &str, owner: &Owner) -> Option<String> {
    let plural = match (&*owner.api_version, &*owner.kind) {
        ("apps/v1", "ReplicaSet") => "replicasets",
        ("apps/v1", "StatefulSet") => "statefulsets",
        ("apps/v1", "Deployment") => "deployments",
        ("batch/v1", "Job") => "jobs",
        ("v1", "ReplicationController") => "replicationcontrollers",
        _ => return None,
    };
    let group = if &*owner.api_version == "v1" { "api/v1".to_owned() } else { format!("apis/{}", owner.api_version) };
    Some(format!("/{group}/namespaces/{namespace}/{plural}/{}", owner.name))
}

impl Memory {
    /// Notes since when replacements are missing. Owners that miss none are forgotten.
    pub(super) fn note_missing(&mut self, entry: &Entry, state: &State, now: Timestamp) {
        let known = Known { entry, state, memory: self, now };
        let owners: Vec<OwnerSeen> = owners(&known).into_iter().map(|group| group.seen).collect();
        let missing: Vec<_> = owners.iter().filter(|owner| owner.pending > 0 || owner.ready < owner.gone).collect();
        self.missing.retain(|uid, _| missing.iter().any(|owner| owner.uid == *uid));
        for owner in missing {
            let counts = (owner.gone, owner.landed, owner.ready);
            let known = self.missing.entry(owner.uid.clone()).or_insert(Missing { counts, since: now });
            // Something moved: the wait starts over.
            if known.counts != counts {
                *known = Missing { counts, since: now };
            }
        }
    }
}

#[cfg(test)]
mod tests;
