//! Which Pods room must be held for, and which placeholders would do.

use std::collections::{BTreeMap, BTreeSet};

use jiff::{SignedDuration, Timestamp};
use rotate_shared::names;

use super::room::RoomKnown;
use crate::cache::{Pod, Resources, State};
use crate::rotation::observation::{Need, Pending, RoomState};
use crate::rotation::progress::{Group, Known, Whereabouts, whereabouts};
use crate::rotation::record::{Move, RoomClass};
use crate::surge::{fit, moves};

/// How long a replacement may leave the room that is held for it untaken: preemption takes 0.1 to 2 s (measured).
const STUCK: SignedDuration = SignedDuration::from_secs(10);

/// How old a replacement may be and still be taken for one that is landing: preemption takes 0.1 to 0.4 s (measured), and a
/// creationTimestamp may be up to a second too early.
const LANDING: SignedDuration = SignedDuration::from_millis(1500);

/// What room must be held for, and which placeholders serve it.
pub(super) fn needs(known: &Known<'_>, groups: &[Group<'_>], rooms: &[RoomKnown<'_>]) -> Vec<Need> {
    let Known { entry, state, memory, now } = *known;
    let mut wanted: Vec<(&Move, Option<Pending>, Option<Pod>)> = Vec::new();
    for group in groups {
        for (moved, replacement) in &group.pending {
            let pending = Pending {
                pod: replacement.as_ref().map(Pod::path),
                nominated: replacement.as_ref().is_some_and(|pod| is_nominated(pod, &entry.record.node, state)),
                landing: replacement.as_ref().is_some_and(|pod| is_landing(pod, now)),
                cannot_preempt: replacement.as_ref().is_some_and(moves::cannot_preempt),
                stuck: memory
                    .missing
                    .get(&group.seen.uid)
                    .is_some_and(|missing| now.duration_since(missing.since) > STUCK),
                overdue: group.seen.overdue,
            };
            let pod = replacement.clone().or_else(|| memory.original(&moved.uid).cloned());
            wanted.push((moved, Some(pending), pod));
        }
    }
    for moved in entry.record.moves() {
        if whereabouts(moved, state, memory) == Whereabouts::Here {
            wanted.push((moved, None, state.pod(&moved.uid)));
        }
    }
    let mut judge = Judge { known, answers: BTreeMap::new() };
    let needs = wanted.into_iter().filter_map(|(moved, pending, pod)| {
        let class = entry.record.class(moved.class.as_ref()?)?;
        let pod = pod.as_ref();
        let exists = pending.as_ref().is_none_or(|pending| pending.pod.is_some());
        let serves = rooms.iter().filter(|room| judge.serves(moved, class, pod, room));
        let serves: BTreeSet<String> = serves.map(|room| room.seen.uid.clone()).collect();
        let coming = rooms.iter().filter(|room| will_serve(class, exists && pending.is_some(), room));
        let (attempt, not_before) = next_attempt(known, moved, rooms);
        Some(Need {
            uid: moved.uid.clone(),
            path: format!("{}/{}", moved.namespace, moved.name),
            class: class.id.clone(),
            // Where neither it nor its original was ever seen, it may need all of the class.
            requests: pod.map_or_else(|| Resources::from(&class.requests), |pod| pod.shape.requests.clone()),
            coming: coming.map(|room| room.seen.uid.clone()).collect(),
            serves,
            attempt,
            not_before,
            pending,
        })
    });
    needs.collect()
}

/// Whether the scheduler has cleared a place for it.
fn is_nominated(pod: &Pod, candidate: &str, state: &State) -> bool {
    pod.nominated
        .as_ref()
        .is_some_and(|node| **node != *candidate && state.node(node).is_some_and(|node| node.takes_pods()))
}

/// Whether it has only just been created. Compared with another clock, so that a large difference says nothing.
fn is_landing(pod: &Pod, now: Timestamp) -> bool {
    now.duration_since(pod.created).abs() < LANDING && !moves::cannot_preempt(pod)
}

/// Whether a placeholder that does not run yet, or is being preempted for a replacement, will do.
fn will_serve(class: &RoomClass, being_replaced: bool, room: &RoomKnown<'_>) -> bool {
    let state = match room.seen.state {
        RoomState::Coming { .. } | RoomState::Creating => true,
        RoomState::Ending => being_replaced && !room.released,
        _ => false,
    };
    state
        && room.class.is_some_and(|offered| {
            offered.id == class.id || (offered.placement == class.placement && fits_in(class, offered))
        })
}

fn fits_in(need: &RoomClass, offered: &RoomClass) -> bool {
    Resources::from(&need.requests).fits_in(&Resources::from(&offered.requests)).is_ok()
}

/// Answers whether a Pod would run in a placeholder's place, asking only once for Pods that are alike.
struct Judge<'a> {
    known: &'a Known<'a>,
    answers: BTreeMap<(String, String, String), bool>,
}

impl Judge<'_> {
    fn serves(&mut self, moved: &Move, class: &RoomClass, pod: Option<&Pod>, room: &RoomKnown<'_>) -> bool {
        let RoomState::Held { node, .. } = &room.seen.state else { return false };
        let Some(offered) = room.class else { return false };
        let Some(pod) = pod else { return offered.id == class.id };
        let Some(placeholder) = &room.pod else { return false };
        if pod.shape.requests.fits_in(&placeholder.shape.requests).is_err() {
            return false;
        }
        // Pods of one class and owner differ in nothing that decides where they may run.
        let owner = pod.owner.as_ref().map_or(&*pod.uid, |owner| &*owner.uid);
        let kind = format!("{}/{owner}/{}/{:p}", pod.namespace, class.id, pod.shape);
        let key = (kind, node.clone(), offered.id.clone());
        if let Some(answer) = self.answers.get(&key) {
            return *answer;
        }
        let gone = BTreeSet::from([&*room.seen.uid, &*moved.uid]);
        let state = self.known.state;
        // The predicate knows nothing of volumes; the class does.
        let answer = state
            .node(node)
            .is_some_and(|node| class.placement.admits(node) && fit::fits(pod, node, state, &gone).is_ok());
        self.answers.insert(key, answer);
        answer
    }
}

/// The number of the next placeholder for a Pod, and when it may be created: the first few at once, then more slowly.
fn next_attempt(known: &Known<'_>, moved: &Move, rooms: &[RoomKnown<'_>]) -> (u32, Option<Timestamp>) {
    let prefix = names::placeholder_name(&known.entry.record.id, &moved.uid, 0);
    let prefix = prefix.trim_end_matches('0');
    let number = |room: &RoomKnown<'_>| room.seen.name.strip_prefix(prefix)?.parse::<u32>().ok();
    let seen = rooms.iter().filter_map(number).max();
    let remembered = known.memory.attempts.get(&moved.uid);
    let last = seen.max(remembered.map(|(attempt, _)| *attempt));
    let attempt = last.map_or(0, |last| last + 1);
    let wait = SignedDuration::from_secs(1 << attempt.saturating_sub(3).min(5));
    let not_before = remembered.filter(|_| attempt > 2).and_then(|(_, at)| at.checked_add(wait).ok());
    (attempt, not_before)
}
