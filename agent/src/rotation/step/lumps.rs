//! Holding room for several Pods in one placeholder (`--surge=single`).

use std::collections::{BTreeMap, BTreeSet};

use rotate_shared::names;

use super::Turn;
use super::room::{Cover, is_there, waits_for_release};
use crate::cache::Resources;
use crate::rotation::effect::{Effect, Reservation};
use crate::rotation::observation::{Need, Room, RoomState};
use crate::rotation::record::RoomClass;

impl Turn<'_> {
    /// As [`Turn::hold_room`], where a placeholder holds the room of all Pods of a class. The first of them that lands
    /// preempts it whole. For those that have left with it nothing is held anew: they are about to land, and a new
    /// placeholder would only be in their way. It is for Pods that are still to leave, with what has not landed.
    pub(super) fn hold_lumps(&mut self, wanted: impl Fn(&Need) -> bool, create: bool) -> Cover {
        let mut cover = Cover { covered: BTreeSet::new(), needs: 0, exposed: Vec::new() };
        let mut kept: BTreeSet<&str> = BTreeSet::new();
        let mut classes: BTreeMap<&str, Vec<&Need>> = BTreeMap::new();
        for need in self.seen.needs.iter().filter(|need| wanted(need)) {
            classes.entry(&need.class).or_default().push(need);
        }
        for (id, mut open) in classes {
            let Some(class) = self.record.class(id).cloned() else { continue };
            let planned = Resources::from(&class.requests);
            cover.needs += open.len();
            let stays = open.iter().any(|need| need.pending.is_none());
            // Replacements that are on the way come first: they win the room over Pods that still run.
            open.sort_by_key(|need| need.pending.is_none());
            open.retain(|need| {
                let nominated = need.pending.as_ref().is_some_and(|pending| pending.nominated);
                if nominated {
                    cover.covered.insert(need.uid.clone());
                }
                !nominated
            });
            let (held, coming) = rooms(&self.seen.room);
            for room in held {
                let taken = take(room, &planned, &mut open, &kept, |need| &need.serves);
                if taken.is_empty() {
                    continue;
                }
                kept.insert(&room.uid);
                if taken.iter().any(|need| waits_for_release(need)) {
                    self.release(room);
                } else {
                    cover.covered.extend(taken.iter().map(|need| need.uid.clone()));
                }
            }
            open.retain(|need| !waits_for_release(need));
            if stays {
                let left = open.iter().filter(|need| need.pending.is_some());
                cover.exposed.extend(left.map(|need| need.path.clone()));
            } else {
                cover.needs -= open.len();
            }
            for room in coming {
                if !take(room, &planned, &mut open, &kept, |need| &need.coming).is_empty() {
                    kept.insert(&room.uid);
                }
            }
            let landing = |need: &&Need| need.pending.as_ref().is_some_and(|pending| pending.landing);
            if create && stays && !open.iter().any(landing) {
                self.reserve_lump(class, &open);
            }
        }
        for room in self.seen.room.iter().filter(|room| is_there(room) && !kept.contains(&*room.uid)) {
            self.release(room);
        }
        self.effects.extend(self.seen.passed_over.first().cloned().map(Effect::Wake));
        self.progress.reserved = u32::try_from(cover.covered.len()).unwrap_or(u32::MAX);
        cover
    }

    /// One placeholder for all of these, in the name of the first of them that is still to leave.
    fn reserve_lump(&mut self, class: RoomClass, needs: &[&Need]) {
        let Some(first) = needs.iter().find(|need| need.pending.is_none()).or(needs.first()) else { return };
        if first.not_before.is_some_and(|time| time > self.now) {
            return;
        }
        let mut sum = Resources::default();
        for need in needs {
            sum.add(&need.requests);
        }
        // What was planned is all that a node like the candidate offers: the shortfall was said.
        let most = Resources::from(&class.requests);
        let requests = if sum.fits_in(&most).is_ok() { sum.to_amounts() } else { class.requests };
        self.effects.push(Effect::Reserve(Reservation {
            name: names::placeholder_name(&self.record.id, &first.uid, first.attempt),
            pod_uid: first.uid.clone(),
            class: RoomClass { requests, ..class },
        }));
    }
}

/// The rooms that are held, and those that are on their way, the largest first.
fn rooms(room: &[Room]) -> (Vec<&Room>, Vec<&Room>) {
    let mut all: Vec<&Room> = room.iter().collect();
    all.sort_by(|one, other| other.offers.cmp(&one.offers));
    let is_coming =
        |room: &&Room| matches!(room.state, RoomState::Coming { .. } | RoomState::Creating | RoomState::Ending);
    let held = all.iter().copied().filter(|room| matches!(room.state, RoomState::Held { .. })).collect();
    (held, all.into_iter().filter(is_coming).collect())
}

/// Takes those that the room serves, as many as go into it; all where it is as large as was planned.
fn take<'n>(
    room: &Room,
    planned: &Resources,
    open: &mut Vec<&'n Need>,
    kept: &BTreeSet<&str>,
    serves: impl Fn(&Need) -> &BTreeSet<String>,
) -> Vec<&'n Need> {
    let mut taken = Vec::new();
    if kept.contains(&*room.uid) {
        return taken;
    }
    let mut left = room.offers.clone();
    let whole = !planned.is_zero() && planned.fits_in(&left).is_ok();
    open.retain(|need| {
        let goes = serves(need).contains(&room.uid) && (whole || need.requests.fits_in(&left).is_ok());
        if goes {
            left.subtract(&need.requests);
            taken.push(*need);
        }
        !goes
    });
    taken
}
