//! What is kept of one Pod.

use std::sync::Arc;

use jiff::Timestamp;

use super::Id;
use super::name::Tail;
use super::slab::Slab;
use super::uid::Uid;
use crate::cache::PodPhase;
use crate::surge::classify::Blocked;

/// Stands for "none" where an [`Id`] is optional.
pub(super) const NONE: Id = Id::MAX;

/// One Pod: what is its own. What it shares with its siblings is in its template; what few Pods have is in [`Extras`].
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Entry {
    pub(super) uid: Uid,
    pub(super) template: Id,
    pub(super) tail: Tail,
    place: Place,
    /// Seconds since the epoch.
    pub(super) created: u32,
    /// The next and the previous Pod of the template.
    pub(super) link: Link,
}

/// Neighbours in a list, [`NONE`] at its ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Link {
    pub(super) previous: Id,
    pub(super) next: Id,
}

/// The node in the lower 24 bits, all of them set where there is none; what changes with the Pod's life in the others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Place(u32);

/// Which sums of its node a Pod is in. Kept, so that taking it out never depends on judging it the same way twice.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Part {
    pub(super) usage: bool,
    pub(super) movable: bool,
    pub(super) real: bool,
    pub(super) blocked: Blocked,
}

/// What few Pods have.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Extras {
    pub(super) deleted: Option<Timestamp>,
    /// The node that the scheduler means it for.
    pub(super) nominated: Option<Id>,
    pub(super) unschedulable: Option<Box<str>>,
    /// Where it does not fit the entry.
    pub(super) created: Option<i64>,
}

/// One list through the links of its members.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct List {
    pub(super) head: Id,
}

const NODE: u32 = 0x00ff_ffff;
const READY: u32 = 1 << 24;
const EXTRAS: u32 = 1 << 25;
const PART: u32 = 26;
const PHASE: u32 = 29;
/// Only what has not finished is real, and only what is real has to move or stands in the way: three bits.
const PARTS: [Part; 8] = [
    part(false, false, false, Blocked::No),
    part(true, false, false, Blocked::No),
    part(true, true, false, Blocked::No),
    part(true, true, false, Blocked::Dated),
    part(true, true, false, Blocked::Yes),
    part(true, true, true, Blocked::No),
    part(true, true, true, Blocked::Dated),
    part(true, true, true, Blocked::Yes),
];
const PHASES: [PodPhase; 5] =
    [PodPhase::Pending, PodPhase::Running, PodPhase::Succeeded, PodPhase::Failed, PodPhase::Unknown];

const fn part(usage: bool, real: bool, movable: bool, blocked: Blocked) -> Part {
    Part { usage, movable, real, blocked }
}

// === impl Entry ===

impl Entry {
    pub(super) fn new(uid: Uid, template: Id, tail: Tail, place: Place, created: u32) -> Self {
        Self { uid, template, tail, place, created, link: Link::default() }
    }

    pub(super) fn link_of(pods: &mut Slab<Self>, id: Id) -> &mut Link {
        &mut pods.get_mut(id).link
    }

    pub(super) fn place(&self) -> Place {
        self.place
    }

    pub(super) fn set_place(&mut self, place: Place) {
        self.place = place;
    }

    pub(super) fn node(&self) -> Id {
        self.place.node()
    }
}

// === impl Place ===

impl Place {
    pub(super) fn new(node: Id, phase: PodPhase, ready: bool, extras: bool) -> Self {
        assert!(node < NODE || node == NONE, "fewer than sixteen million nodes");
        let phase = PHASES.iter().position(|found| *found == phase).expect("every phase is listed") as u32;
        let flag = |set, flag| if set { flag } else { 0 };
        Self((node & NODE) | phase << PHASE | flag(ready, READY) | flag(extras, EXTRAS))
    }

    pub(super) fn with_part(self, part: Part) -> Self {
        let part = PARTS.iter().position(|found| *found == part).expect("every part is listed") as u32;
        Self(self.0 & !(7 << PART) | part << PART)
    }

    pub(super) fn node(self) -> Id {
        if self.0 & NODE == NODE { NONE } else { self.0 & NODE }
    }

    pub(super) fn phase(self) -> PodPhase {
        PHASES[(self.0 >> PHASE) as usize]
    }

    pub(super) fn ready(self) -> bool {
        self.0 & READY != 0
    }

    pub(super) fn has_extras(self) -> bool {
        self.0 & EXTRAS != 0
    }

    pub(super) fn part(self) -> Part {
        PARTS[(self.0 >> PART & 7) as usize]
    }
}

impl Default for Place {
    fn default() -> Self {
        Self::new(NONE, PodPhase::Pending, false, false)
    }
}

// === impl Link, List ===

impl Default for Link {
    fn default() -> Self {
        Self { previous: NONE, next: NONE }
    }
}

impl Default for List {
    fn default() -> Self {
        Self { head: NONE }
    }
}

impl List {
    /// Puts a member at the front. `link` finds the links of a member.
    pub(super) fn join<T>(&mut self, id: Id, all: &mut T, link: impl Fn(&mut T, Id) -> &mut Link) {
        *link(all, id) = Link { previous: NONE, next: self.head };
        if self.head != NONE {
            link(all, self.head).previous = id;
        }
        self.head = id;
    }

    /// Takes a member out.
    pub(super) fn leave<T>(&mut self, id: Id, all: &mut T, link: impl Fn(&mut T, Id) -> &mut Link) {
        let Link { previous, next } = std::mem::take(link(all, id));
        match previous {
            NONE => self.head = next,
            previous => link(all, previous).next = next,
        }
        if next != NONE {
            link(all, next).previous = previous;
        }
    }
}

// === impl Extras ===

impl Extras {
    pub(super) fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    pub(super) fn message(&self) -> Option<Arc<str>> {
        self.unschedulable.as_deref().map(Arc::from)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pod_takes_forty_four_bytes() {
        assert_eq!(size_of::<Entry>(), 44);
    }

    #[test]
    fn a_place_tells_what_it_was_made_of() {
        for node in [0, 1, NODE - 1, NONE] {
            for phase in PHASES {
                for (flags, part) in (0..4).flat_map(|flags| PARTS.map(|part| (flags, part))) {
                    let (ready, extras) = (flags & 1 != 0, flags & 2 != 0);
                    let place = Place::new(node, phase, ready, extras).with_part(part);
                    assert_eq!(
                        (place.node(), place.phase(), place.ready(), place.has_extras(), place.part()),
                        (node, phase, ready, extras, part)
                    );
                    assert_eq!(place.with_part(Part::default()), Place::new(node, phase, ready, extras));
                }
            }
        }
    }
}
