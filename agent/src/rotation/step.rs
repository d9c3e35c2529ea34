//! The next step of a rotation: pure and total.
//!
//! ```text
//! Queued ─▶ Surging ─▶ Draining ⇄ Settling ─▶ Removing ─▶ Succeeded
//!    │         │           │          │           │
//!    ▼         ▼           └──────────┴───────────┴──▶ Record::ending ─▶ Stopped | Superseded | Failed
//! Cancelled  RollingBack ─▶ RolledBack
//! ```
//!
//! A step either changes the record or asks for effects, never both: what is intended is written down before it is done,
//! and the next step finds it written.

mod drain;
mod ending;
mod lumps;
mod ordering;
mod removing;
mod room;
mod surge_nodes;
mod unread;
mod verdicts;
mod wait;

use jiff::{SignedDuration, Timestamp};
use rotate_shared::options::Then;
use rotate_shared::plan::Notice;
use rotate_shared::rotation::Progress;
use rotate_shared::{Code, Phase, SurgeMode};

use super::effect::Effect;
use super::observation::{Barrier, NodeSeen, Observation, OwnerSeen, Slot};
use super::record::{Record, Request};

/// What follows from an observation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    /// The record to write; `None`: it stays as it is.
    pub record: Option<Record>,
    /// What to do. Empty where the record changes.
    pub effects: Vec<Effect>,
    /// What is waited for, the most important first.
    pub waiting: Vec<Notice>,
    /// How far it is.
    pub progress: Progress,
}

/// Decides.
#[must_use]
pub fn step(record: &Record, request: &Request, seen: &Observation, now: Timestamp) -> Step {
    let mut turn = Turn {
        record: record.clone(),
        request,
        seen,
        now,
        effects: Vec::new(),
        waiting: Vec::new(),
        progress: progress(record, seen),
    };
    if record.is_live() {
        turn.run();
    }
    turn.waiting.extend(seen.failures.iter().cloned());
    let changed = turn.record != *record;
    Step {
        effects: if changed { Vec::new() } else { turn.effects },
        record: changed.then_some(turn.record),
        waiting: turn.waiting,
        progress: turn.progress,
    }
}

fn progress(record: &Record, seen: &Observation) -> Progress {
    let count = |count: usize| u32::try_from(count).unwrap_or(u32::MAX);
    let to_move = count(record.moves().len());
    // What is rolled back has evicted nothing, and does not look at the Pods any more.
    if record.phase() == Phase::RollingBack {
        return Progress { to_move, ..Progress::default() };
    }
    if !seen.synced || seen.unread.is_some() {
        return Progress { to_move, uncounted: true, ..Progress::default() };
    }
    let here = seen.leaving.iter().filter(|leaving| !leaving.terminating).count();
    Progress {
        to_move,
        reserved: 0,
        evicted: count(record.moves().len().saturating_sub(here)),
        landed: seen.owners.iter().map(|owner| owner.landed).sum(),
        uncounted: false,
    }
}

/// One step being decided.
struct Turn<'a> {
    record: Record,
    request: &'a Request,
    seen: &'a Observation,
    now: Timestamp,
    effects: Vec<Effect>,
    waiting: Vec<Notice>,
    progress: Progress,
}

impl Turn<'_> {
    fn run(&mut self) {
        if !self.seen.synced {
            return self.wait(Code::NotReady, "the agent's cache", "the agent is still reading the cluster");
        }
        if let Some(unread) = &self.seen.unread {
            return self.unread(unread);
        }
        if self.record.ending.is_some() {
            if self.seen.machine.stale {
                self.effects.push(Effect::ReadProvider);
            }
            return self.wind_down();
        }
        let phase = self.record.phase();
        if phase.is_active() && self.seen.machine.stale {
            self.effects.push(Effect::ReadProvider);
        }
        if self.seen.node == NodeSeen::Gone && phase != Phase::RollingBack && !self.is_removing() {
            return self.lose_node();
        }
        if let Some(why) = self.taken() {
            return self.supersede(why);
        }
        if matches!(phase, Phase::Surging | Phase::Draining | Phase::Settling) {
            self.protect_surge_nodes();
        }
        match phase {
            Phase::Queued => self.queued(),
            Phase::Surging => self.surging(),
            Phase::Draining => self.draining(),
            Phase::Settling => self.settling(),
            Phase::Removing => self.removing(),
            Phase::RollingBack => self.rolling_back(),
            _ => {}
        }
    }

    fn queued(&mut self) {
        if self.request.cancel.is_some() {
            self.record.conclude(None, "cancelled before anything was touched");
            return self.finish(Phase::Cancelled);
        }
        if self.request.paused {
            return self.wait_paused();
        }
        match &self.seen.slot {
            Slot::Free => self.record.enter(Phase::Surging, self.now),
            Slot::Wait(notice) => self.waiting.push(notice.clone()),
            Slot::Closed(notice) => {
                self.record.conclude(Some(notice.code), notice.message.clone());
                self.finish(Phase::Cancelled);
            }
        }
    }

    fn surging(&mut self) {
        if self.request.cancel.is_some() {
            self.record.conclude(None, "cancelled before anything was evicted");
            return self.record.enter(Phase::RollingBack, self.now);
        }
        if self.request.paused {
            return self.wait_paused();
        }
        let timeout = self.record.options.surge_timeout_seconds;
        if self.waited() > seconds(timeout) {
            return self.give_up(timeout);
        }
        if !self.marked() {
            return self.effects.push(Effect::Mark);
        }
        if self.record.surge.is_none() && self.seen.barrier == Barrier::Open {
            return self.effects.push(Effect::List);
        }
        if self.record.surge.is_none() && !self.seen.machine.known {
            return self.wait_provider();
        }
        if !self.take_in_verdicts() {
            return;
        }
        if let Some(blocker) = self.seen.verdicts.blockers.first() {
            let more = match self.seen.verdicts.blockers.len() - 1 {
                0 => String::new(),
                more => format!(" (and {more} more)"),
            };
            self.record.conclude(Some(blocker.code), format!("{}: {}{more}", blocker.object, blocker.message));
            self.record.warnings.extend(self.seen.verdicts.blockers.iter().cloned());
            return self.record.enter(Phase::RollingBack, self.now);
        }
        let cover = self.hold_room(|_| true, true);
        if cover.is_complete() {
            return self.record.enter(Phase::Draining, self.now);
        }
        self.wait_reserving(&cover);
        self.order(&cover);
    }

    /// The room did not come in time: what was waited for becomes the outcome.
    fn give_up(&mut self, timeout: u64) {
        let cover = self.hold_room(|_| true, false);
        self.wait_reserving(&cover);
        let (code, why) = match (self.seen.failures.first(), self.waiting.first()) {
            (Some(failure), _) => (failure.code, failure.message.clone()),
            (None, Some(waiting)) => (waiting.code, waiting.message.clone()),
            (None, None) => (Code::Reserving, "the node could not be prepared".to_owned()),
        };
        self.record.conclude(Some(code), format!("no room within {}: {why}", duration(timeout)));
        self.record.enter(Phase::RollingBack, self.now);
    }

    fn draining(&mut self) {
        if self.request.cancel.is_some() {
            if self.progress.evicted == 0 {
                self.record.conclude(None, "cancelled before anything was evicted");
                return self.record.enter(Phase::RollingBack, self.now);
            }
            return self.stop();
        }
        if !self.request.paused {
            if !self.marked() {
                return self.effects.push(Effect::Mark);
            }
            self.take_in_verdicts();
        }
        let cover = self.hold_room(|_| true, true);
        if self.request.paused {
            return self.wait_paused();
        }
        self.waiting.extend(self.seen.verdicts.blockers.iter().cloned());
        self.order(&cover);
        self.evict(&cover);
        self.wait_replacements();
        self.wait_shutting_down();
        if self.is_empty() {
            if self.record.boot_id.is_none() {
                self.record.boot_id = self.seen.machine.boot_id.clone();
            }
            self.record.enter(Phase::Settling, self.now);
        }
    }

    fn settling(&mut self) {
        if self.request.cancel.is_some() {
            return self.stop();
        }
        self.hold_room(|_| true, true);
        if !self.goes_on_empty() {
            return;
        }
        let timeout = self.record.options.settle_timeout_seconds;
        let late = self.waited() > seconds(timeout);
        let mut settled = true;
        for owner in &self.seen.owners {
            if owner.satisfied || owner.ready >= owner.gone {
                continue;
            }
            let message = format!("{} of {} replacements are Ready", owner.ready, owner.gone);
            if late {
                let message = format!("{message} after {}", duration(timeout));
                self.record.warn(notice(Code::SettleTimedOut, &owner.path, message));
                continue;
            }
            settled = false;
            self.ask_owner(owner);
            self.waiting.push(notice(Code::WaitingForReplacement, &owner.path, message));
        }
        if settled {
            self.begin_removing();
        }
    }

    /// Whether nothing is left to move off the candidate.
    fn is_empty(&self) -> bool {
        let verdicts = &self.seen.verdicts;
        let known = verdicts.unknown_claims.is_empty() && verdicts.fresh.is_empty() && verdicts.blockers.is_empty();
        known && self.seen.leaving.is_empty() && self.seen.shutting_down.is_empty()
    }

    /// Whether the drained candidate may be gone on with: not paused, cordoned by us, and as empty as it was when Draining
    /// ended. If not empty, goes back there.
    fn goes_on_empty(&mut self) -> bool {
        if self.request.paused {
            self.wait_paused();
            return false;
        }
        // A list says nothing about a node that Pods may still be placed on.
        if !self.marked() {
            self.effects.push(Effect::Mark);
            return false;
        }
        if !self.seen.verdicts.unknown_claims.is_empty() {
            self.effects.push(Effect::ReadVolumes(self.seen.verdicts.unknown_claims.clone()));
            return false;
        }
        if self.is_empty() {
            return true;
        }
        self.record.enter(Phase::Draining, self.now);
        false
    }

    fn marked(&self) -> bool {
        matches!(self.seen.node, NodeSeen::Here { marked: true, .. })
    }

    /// What becomes of the empty node. Settled when the rotation was begun; records of earlier versions may say nothing.
    fn then(&self) -> Then {
        self.record.options.then.unwrap_or(Then::Keep)
    }

    fn reserves(&self) -> bool {
        self.record.options.surge != SurgeMode::None
    }

    /// How long this phase has waited; a pause starts it over.
    fn waited(&self) -> SignedDuration {
        let since = self.record.phase_since().max(self.request.resumed_at.unwrap_or(Timestamp::MIN));
        self.now.duration_since(since)
    }

    fn node(&self) -> String {
        format!("Node {}", self.record.node)
    }

    fn ask_owner(&mut self, owner: &OwnerSeen) {
        if let Some((namespace, owner)) = &owner.ask {
            self.effects.push(Effect::ReadOwner { namespace: namespace.clone(), owner: owner.clone() });
        }
    }
}

fn notice(code: Code, object: &str, message: impl Into<String>) -> Notice {
    Notice { code, object: object.to_owned(), message: message.into(), remedy: String::new() }
}

fn seconds(seconds: u64) -> SignedDuration {
    SignedDuration::from_secs(i64::try_from(seconds).unwrap_or(i64::MAX))
}

/// As kubectl writes durations: `45s`, `2m10s`, `1h5m`.
fn duration(seconds: u64) -> String {
    match (seconds / 3600, seconds / 60 % 60, seconds % 60) {
        (0, 0, seconds) => format!("{seconds}s"),
        (0, minutes, 0) => format!("{minutes}m"),
        (0, minutes, seconds) => format!("{minutes}m{seconds}s"),
        (hours, 0, _) => format!("{hours}h"),
        (hours, minutes, _) => format!("{hours}h{minutes}m"),
    }
}

#[cfg(test)]
mod tests;
