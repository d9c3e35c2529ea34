//! Holding room: which needs are covered, which placeholders are missing, which are not needed any more.

use std::cmp::Reverse;
use std::collections::BTreeSet;

use rotate_shared::{Code, SurgeMode, names};

use super::{Turn, notice};
use crate::cache::Resources;
use crate::drain::order;
use crate::rotation::effect::{Effect, Reservation};
use crate::rotation::observation::{Need, Pending, Room, RoomState};
use crate::rotation::record::RoomClass;
use crate::surge::matching;

/// For whom room is held.
#[derive(Debug)]
pub(super) struct Cover {
    /// UIDs of Pods whose room is held.
    pub(super) covered: BTreeSet<String>,
    /// How many need it.
    pub(super) needs: usize,
    /// `namespace/name` of Pods that left and whose replacements have no room.
    pub(super) exposed: Vec<String>,
}

impl Cover {
    pub(super) fn is_complete(&self) -> bool {
        self.covered.len() == self.needs
    }
}

impl Turn<'_> {
    /// Creates the placeholders that are missing (if `create`), deletes those that nobody needs, and tells who is
    /// covered. Several needs are never covered by the same placeholder, so that all that are covered may be evicted at
    /// once.
    pub(super) fn hold_room(&mut self, wanted: impl Fn(&Need) -> bool, create: bool) -> Cover {
        if self.record.options.surge == SurgeMode::Single {
            return self.hold_lumps(wanted, create);
        }
        // Replacements that are on the way come first: they win the placeholders over Pods that still run.
        // Then those whose own placeholder exists: whoever is left over is one for whom none was made yet.
        let room = &self.seen.room;
        let own: BTreeSet<&str> = room.iter().map(|room| &*room.pod_uid).collect();
        let mut needs: Vec<&Need> = self.seen.needs.iter().filter(|need| wanted(need)).collect();
        needs.sort_by_key(|need| (need.pending.is_none(), !own.contains(&*need.uid)));
        let held: Vec<&Room> = room.iter().filter(|room| matches!(room.state, RoomState::Held { .. })).collect();
        let serving =
            matching::maximum(needs.len(), held.len(), |need, room| needs[need].serves.contains(&held[room].uid));

        let mut cover = Cover { covered: BTreeSet::new(), needs: needs.len(), exposed: Vec::new() };
        let mut kept: BTreeSet<&str> = BTreeSet::new();
        // Those for whom a placeholder is held or has to come.
        let mut reserved = Vec::new();
        for (need, serving) in needs.iter().zip(serving) {
            if let Some(serving) = serving.map(|index| held[index]) {
                kept.insert(&serving.uid);
                reserved.push(*need);
                if waits_for_release(need) {
                    self.release(serving);
                } else {
                    cover.covered.insert(need.uid.clone());
                    continue;
                }
            } else if need.pending.as_ref().is_some_and(|pending| pending.nominated) {
                // The scheduler has made the room and holds it.
                cover.covered.insert(need.uid.clone());
                continue;
            } else if !waits_for_release(need) {
                reserved.push(*need);
            }
            if need.pending.is_some() {
                cover.exposed.push(need.path.clone());
            }
        }
        // Who is covered now may be served by one that is still coming, and leave its own to a Pod that no other serves.
        let coming =
            |room: &Room| matches!(room.state, RoomState::Coming { .. } | RoomState::Creating | RoomState::Ending);
        let all: Vec<&Room> = held.iter().copied().chain(room.iter().filter(|room| coming(room))).collect();
        let serving = matching::maximum(reserved.len(), all.len(), |need, room| {
            let (need, room) = (reserved[need], all[room]);
            need.serves.contains(&room.uid) || (coming(room) && need.coming.contains(&room.uid))
        });
        let mut nowhere = Vec::new();
        for (need, serving) in reserved.iter().zip(serving) {
            match serving {
                Some(index) => {
                    kept.insert(&all[index].uid);
                }
                None => nowhere.push(*need),
            }
        }
        // Between the end of the placeholder that it preempts and its bind a replacement has no room that we know of.
        let is_landing = |need: &&&Need| need.pending.as_ref().is_some_and(|it| it.landing && !it.nominated);
        let landing = needs.iter().filter(is_landing).count();
        if create && nowhere.len() > landing {
            self.reserve_largest(&nowhere);
        }
        for room in room {
            if is_there(room) && !kept.contains(&*room.uid) {
                self.release(room);
            }
        }
        self.effects.extend(self.seen.passed_over.first().cloned().map(Effect::Wake));
        if !self.seen.unheard.is_empty() {
            self.effects.push(Effect::Listen(self.seen.unheard.clone()));
        }
        self.progress.reserved = u32::try_from(cover.covered.len()).unwrap_or(u32::MAX);
        cover
    }

    /// Creates the placeholders of the largest class that lacks any; the next class follows once these exist. The
    /// scheduler takes Pods of equal priority in the order of their creation: small ones first would be spread over all
    /// nodes, and leave room for a big one on none.
    fn reserve_largest(&mut self, needs: &[&Need]) {
        let due = needs.iter().filter(|need| need.not_before.is_none_or(|time| time <= self.now));
        let due: Vec<_> = due.filter_map(|need| Some((*need, self.record.class(&need.class)?))).collect();
        let requests = |class: &RoomClass| Resources::from(&class.requests);
        let mut largest = Resources::default();
        for (_, class) in &due {
            largest.maximum(&requests(class));
        }
        let size = |class: &RoomClass| order::size(&requests(class), &largest);
        let Some((_, first)) = due.iter().max_by_key(|(_, class)| (size(class), Reverse(&class.id))) else { return };
        let reservations = due.iter().filter(|(_, class)| class.id == first.id).map(|(need, class)| {
            Effect::Reserve(Reservation {
                name: names::placeholder_name(&self.record.id, &need.uid, need.attempt),
                pod_uid: need.uid.clone(),
                class: (*class).clone(),
            })
        });
        let reservations: Vec<_> = reservations.collect();
        self.effects.extend(reservations);
    }

    pub(super) fn release(&mut self, room: &Room) {
        self.effects.push(Effect::Release { name: room.name.clone(), uid: room.uid.clone() });
    }

    /// Deletes every placeholder. Whether there is none left.
    pub(super) fn release_all(&mut self) -> bool {
        for room in self.seen.room.iter().filter(|room| is_there(room)) {
            self.release(room);
        }
        self.seen.room.is_empty()
    }

    /// Says what keeps the room from being held.
    pub(super) fn wait_reserving(&mut self, cover: &Cover) {
        let (covered, needs) = (cover.covered.len(), cover.needs);
        if covered == needs {
            return;
        }
        let mut message = format!("{covered} of {needs} placeholders are running");
        let why = self.seen.room.iter().find_map(|room| match &room.state {
            RoomState::Coming { message: Some(message) } => Some((room, message.clone())),
            RoomState::Held { node, misfit: Some(misfit) } => {
                Some((room, format!("it runs on node {node}, where its Pod would not: {misfit}")))
            }
            RoomState::Lost { why } => Some((room, why.clone())),
            _ => None,
        });
        if let Some((room, why)) = why {
            message = format!("{message}; {}: {why}", room.name);
        }
        let node = self.node();
        self.waiting.push(notice(Code::Reserving, &node, message));
    }

    /// Says that room was lost and is being reserved anew.
    pub(super) fn wait_re_reserving(&mut self, cover: &Cover) {
        let missing = cover.needs - cover.covered.len();
        if missing == 0 {
            return;
        }
        let mut message = format!("re-reserving {missing} of {}", cover.needs);
        if let Some(pod) = cover.exposed.first() {
            message = format!("{message}; the replacement of {pod} has no room held");
        }
        let scheduler = self.seen.room.iter().find_map(|room| match &room.state {
            RoomState::Coming { message: Some(message) } => Some(format!("; {}: {message}", room.name)),
            _ => None,
        });
        message.push_str(&scheduler.unwrap_or_default());
        let node = self.node();
        self.waiting.push(notice(Code::ReReserving, &node, message));
    }
}

/// Whether a replacement exists that does not take a placeholder's room by itself.
pub(super) fn waits_for_release(need: &Need) -> bool {
    let Some(Pending { pod: Some(_), nominated: false, cannot_preempt, stuck, .. }) = &need.pending else {
        return false;
    };
    *cannot_preempt || *stuck
}

/// Whether there is a placeholder that could be deleted.
pub(super) fn is_there(room: &Room) -> bool {
    !matches!(room.state, RoomState::Creating | RoomState::Ending)
}
