//! Which placeholders there are, and whether they hold room.

use std::collections::BTreeSet;

use jiff::SignedDuration;
use rotate_shared::names;

use crate::cache::{Pod, PodPhase, Resources, State};
use crate::provider;
use crate::rotation::observation::{Need, Room, RoomState};
use crate::rotation::progress::Known;
use crate::rotation::record::RoomClass;
use crate::surge::{fit, told};

/// How long a placeholder has to run before anybody is asked: where there is room it does so in some tenths of a second. Its
/// time of creation is in whole seconds.
const LATE: SignedDuration = SignedDuration::from_secs(2);
/// How often it is read what is said of those that do not.
const LISTEN_EVERY: SignedDuration = SignedDuration::from_secs(4);

/// A placeholder with what it offers.
#[derive(Debug)]
pub(super) struct RoomKnown<'a> {
    pub(super) seen: Room,
    /// Its class; `None`: it is not one that the record knows.
    pub(super) class: Option<&'a RoomClass>,
    /// It is ending because we deleted it.
    pub(super) released: bool,
    pub(super) pod: Option<Pod>,
}

/// What the placeholders of a rotation hold: `ours` that are in the cache, and those on their way there.
pub(super) fn rooms<'a>(known: &Known<'a>, ours: &[Pod]) -> Vec<RoomKnown<'a>> {
    let Known { entry, memory, .. } = *known;
    let record = &entry.record;
    let mut rooms = Vec::new();
    let waking = |pod: &Pod| memory.waking.as_deref() == Some(&*pod.name);
    for pod in ours.iter().filter(|pod| !waking(pod)) {
        let label = |key: &str| pod.labels.get(key).map(|value| value.to_string()).unwrap_or_default();
        let released = memory.released.contains_key(&*pod.uid);
        let mut state = if released { RoomState::Ending } else { room_state(pod, known) };
        if let RoomState::Coming { message } = &mut state
            && let Some(told) = memory.told.as_ref().and_then(|(told, _)| told.of(&pod.uid))
        {
            *message = Some(told.words.clone());
        }
        rooms.push(RoomKnown {
            seen: Room {
                name: pod.name.to_string(),
                uid: pod.uid.to_string(),
                pod_uid: label(names::POD_UID),
                offers: pod.shape.requests.clone(),
                state,
            },
            class: record.class(&label(names::CLASS)),
            released,
            pod: Some(pod.clone()),
        });
    }
    for (name, created) in &memory.created {
        let released = memory.released.contains_key(&created.uid);
        let state = if released { RoomState::Ending } else { RoomState::Coming { message: None } };
        rooms.push(RoomKnown {
            seen: Room {
                name: name.clone(),
                uid: created.uid.clone(),
                pod_uid: created.pod_uid.clone(),
                offers: created.offers.clone(),
                state,
            },
            class: record.class(&created.class),
            released,
            pod: None,
        });
    }
    for (name, reservation) in &memory.reserving {
        // The watch may be faster than the answer.
        if !rooms.iter().any(|room| room.seen.name == *name) {
            rooms.push(RoomKnown {
                seen: Room {
                    name: name.clone(),
                    uid: name.clone(),
                    pod_uid: reservation.pod_uid.clone(),
                    offers: Resources::from(&reservation.class.requests),
                    state: RoomState::Creating,
                },
                class: record.class(&reservation.class.id),
                released: false,
                pod: None,
            });
        }
    }
    rooms
}

/// UIDs of the placeholders that do not run for some time, where what is said of them was not read just now.
pub(super) fn unheard(known: &Known<'_>, rooms: &[RoomKnown<'_>]) -> Vec<String> {
    let Known { memory, now, .. } = *known;
    if memory.told.as_ref().is_some_and(|(_, read)| now.duration_since(*read) < LISTEN_EVERY) {
        return Vec::new();
    }
    let coming = rooms.iter().filter(|room| matches!(room.seen.state, RoomState::Coming { .. }));
    let late = coming.filter_map(|room| room.pod.as_ref()).filter(|pod| now.duration_since(pod.created) >= LATE);
    late.map(|pod| pod.uid.to_string()).collect()
}

/// Placeholders of a rotation, by name.
pub(in crate::rotation) fn placeholders(state: &State, rotation: &str) -> Vec<Pod> {
    let mut pods = state.pods_in(names::ROOM_NAMESPACE);
    pods.retain(|pod| pod.labels.get(names::ROTATION).is_some_and(|label| label == &*rotation));
    pods
}

fn room_state(pod: &Pod, known: &Known<'_>) -> RoomState {
    let (candidate, state) = (&*known.entry.record.node, known.state);
    let lost = |why: String| RoomState::Lost { why };
    if pod.deleted.is_some() {
        return RoomState::Ending;
    }
    if pod.phase.is_finished() {
        return lost("it ended before it was needed".to_owned());
    }
    // Admission may have changed its mind since the plan, or take a dry run for less than it is.
    let (priority, ours) = (pod.shape.priority, names::PLACEHOLDER_PRIORITY);
    if priority > ours {
        return lost(format!("it was given priority {priority} instead of {ours}, and would not give way to its Pod"));
    }
    let Some(name) = &pod.node else {
        return RoomState::Coming { message: pod.unschedulable.as_deref().map(told::scheduling) };
    };
    if **name == *candidate {
        return lost("it was placed on the candidate itself".to_owned());
    }
    let node = state.node(name);
    let objects = known.memory.provider.as_ref().map(|(objects, _)| objects);
    let taken = node
        .zip(objects)
        .and_then(|(node, objects)| provider::driver(provider::detect(node, objects)).taken(node, objects));
    if let Some(why) = taken {
        return lost(why);
    }
    match (pod.phase, node) {
        (_, Some(node)) if node.deleting => lost(format!("node {name} is being deleted")),
        (_, Some(node)) if node.unschedulable => lost(format!("node {name} is cordoned")),
        // It is there; whether its Pod would run in its place shows once the node's Pods are read.
        (PodPhase::Running, Some(node)) if node.ready && !state.covers_node(name) => {
            RoomState::Coming { message: Some(format!("the Pods of node {name} are being read")) }
        }
        (PodPhase::Running, Some(node)) if node.ready => RoomState::Held { node: name.to_string(), misfit: None },
        // A node that is still joining: the kubelet starts the Pod once it is Ready.
        (PodPhase::Pending, _) => RoomState::Coming { message: Some(format!("node {name} has not started it yet")) },
        (_, Some(_)) => lost(format!("node {name} is not Ready")),
        (_, None) => lost(format!("node {name} is gone")),
    }
}

/// Says why a held placeholder does not serve the Pod that it was made for.
pub(super) fn explain(known: &Known<'_>, needs: &[Need], rooms: &mut [RoomKnown<'_>]) {
    for RoomKnown { seen: Room { uid, pod_uid, state, .. }, .. } in rooms {
        let RoomState::Held { node, misfit } = state else { continue };
        let its = needs.iter().find(|need| need.uid == *pod_uid);
        if its.is_none_or(|need| need.serves.contains(uid)) {
            continue;
        }
        let (original, node) = (known.memory.original(pod_uid), known.state.node(node));
        if let (Some(original), Some(node)) = (original, node) {
            let gone = BTreeSet::from([&**uid, &**pod_uid]);
            *misfit = fit::fits(original, node, known.state, &gone).err().map(|misfit| misfit.0);
        }
    }
}
