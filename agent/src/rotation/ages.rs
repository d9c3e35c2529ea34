//! Since when each thing that a rotation waits for has been the case.
//!
//! A step says what is waited for and not for how long. A wait is the same one for as long as its code and its object
//! are: what is tried again meanwhile, or not looked at for a moment, does not begin it anew. What began before this
//! agent did is dated by the record, where that tells.

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};
use rotate_shared::plan::Notice;
use rotate_shared::rotation::{Progress, Waiting};
use rotate_shared::{Code, Phase};

use super::record::{Record, Request};

/// A wait that is not said for less than this is the same when it is said again, unless something has moved: twice as
/// long as one call may take.
const LAPSE: SignedDuration = SignedDuration::from_secs(10);
/// How long an agent may take from its first look at a rotation until it says all that is waited for: volumes and
/// providers are read first.
const CATCH_UP: SignedDuration = SignedDuration::from_secs(10);

/// The waits of one rotation. Only the engine's task writes them.
#[derive(Debug, Default)]
pub(super) struct Ages {
    known: BTreeMap<(Code, String), Age>,
    /// When the last look was.
    looked: Option<Timestamp>,
    /// When the Pods were first read, in this term.
    read: Option<Timestamp>,
}

/// One wait.
#[derive(Clone, Copy, Debug)]
struct Age {
    since: Timestamp,
    /// When it was said last.
    said: Timestamp,
    /// How many Pods had left and landed by then.
    moved: (u32, u32),
}

/// A look at a rotation.
#[derive(Clone, Copy, Debug)]
pub(super) struct Look<'a> {
    pub(super) record: &'a Record,
    pub(super) request: &'a Request,
    pub(super) progress: Progress,
    /// The Pods that it is judged by are read.
    pub(super) read: bool,
    pub(super) now: Timestamp,
}

// === impl Ages ===

impl Ages {
    /// What is waited for, with the time since when.
    pub(super) fn date(&mut self, look: &Look<'_>, notices: Vec<Notice>) -> Vec<Waiting> {
        let now = look.now;
        let moved = (look.progress.evicted, look.progress.landed);
        let last = self.looked.replace(now);
        if look.read {
            self.read.get_or_insert(now);
        }
        let catches_up = self.read.is_some_and(|read| now.duration_since(read) < CATCH_UP);
        self.known
            .retain(|_, age| Some(age.said) == last || (age.moved == moved && now.duration_since(age.said) < LAPSE));
        let dated = notices.into_iter().map(|Notice { code, object, message, remedy }| {
            let known = self.known.get(&(code, object.clone())).map(|age| age.since);
            let begun = || look.begun(code).filter(|_| catches_up);
            // Whoever wrote it may have had another clock.
            let since = look.asked(code).or(known).or_else(begun).map_or(now, |since| since.min(now));
            self.known.insert((code, object.clone()), Age { since, said: now, moved });
            Waiting { code, object, message, since, remedy }
        });
        dated.collect()
    }

    /// Begins to look anew, as the leader or after it: what was read for the rotation is forgotten, how long it has
    /// waited is not.
    pub(super) fn begin_term(&mut self) {
        self.read = None;
    }
}

// === impl Look ===

impl Look<'_> {
    /// When a person asked for what is waited for.
    fn asked(&self, code: Code) -> Option<Timestamp> {
        self.request.paused_at.filter(|_| code == Code::Paused)
    }

    /// When a wait began that lasts as long as its phase does, or its ending.
    fn begun(&self, code: Code) -> Option<Timestamp> {
        if let Some(ending) = &self.record.ending {
            // Other hands may evict at any time; what we evicted was missing when the end began.
            let ours = ending.phase != Phase::Superseded;
            let lasts = code == Code::NodeLeaving || code == Code::WaitingForReplacement && ours;
            return lasts.then_some(ending.since);
        }
        let lasts = matches!(
            (self.record.phase(), code),
            (Phase::Queued, Code::WaitingForSlot)
                | (Phase::Surging, Code::Reserving)
                | (Phase::Settling, Code::WaitingForReplacement)
                | (Phase::Removing, Code::WaitingForReboot | Code::NodeLeaving)
        );
        // What was waited for before a pause is waited for anew after it.
        let since = self.record.phase_since();
        lasts.then(|| self.request.resumed_at.map_or(since, |resumed| resumed.max(since)))
    }
}

#[cfg(test)]
mod tests;
