//! Ends other than the ordinary one: rolled back, cancelled, taken by other hands.

use jiff::SignedDuration;
use rotate_shared::rotation::Progress;
use rotate_shared::{Code, Phase};

use super::{Turn, seconds};
use crate::rotation::effect::Effect;
use crate::rotation::observation::{Need, NodeSeen};
use crate::rotation::record::Ending;

/// How long room is held for Pods that other hands evict: as long as a placeholder lives at least.
const TAKEN: SignedDuration = SignedDuration::from_hours(1);

impl Turn<'_> {
    pub(super) fn rolling_back(&mut self) {
        if self.clean(true) {
            self.finish(Phase::RolledBack);
        }
    }

    /// The node is not there any more, or another one has its name.
    pub(super) fn lose_node(&mut self) {
        self.record.conclude(Some(Code::NodeLeaving), "the node was taken away by other hands");
        if self.record.phase() == Phase::Queued {
            return self.finish(Phase::Superseded);
        }
        self.record.ending = Some(Ending { phase: Phase::Superseded, since: self.now, uncordon: false });
    }

    /// Who else takes the node away, before we asked for it ourselves.
    pub(super) fn taken(&self) -> Option<String> {
        let phase = self.record.phase();
        // A roll-back touches no Pod and leaves nothing behind: there is nothing to hand over.
        if !phase.is_active() || phase == Phase::RollingBack || self.is_removing() {
            return None;
        }
        let deleted = || format!("Node {} was deleted", self.record.node);
        self.seen.machine.taken.clone().or_else(|| self.is_deleting().then(deleted))
    }

    /// Other hands have begun to take the node away. Nothing is evicted by us any more, and what is held stays held for
    /// the Pods that they evict. For good, even if they should think better of it: two who drain one node by turns are
    /// harder to follow than a rotation that is begun again (`docs/decisions/014-taken-by-other-hands.md`).
    pub(super) fn supersede(&mut self, why: String) {
        self.record.conclude(Some(Code::NodeLeaving), format!("taken by other hands: {why}"));
        self.record.ending = Some(Ending { phase: Phase::Superseded, since: self.now, uncordon: false });
    }

    /// Cancelled after the first eviction.
    pub(super) fn stop(&mut self) {
        let uncordon = self.request.cancel.is_some_and(|cancel| cancel.uncordon);
        let cordon = match uncordon {
            true if self.seen.foreign_cordon => "the node stays cordoned, as it was found",
            true => "the cordon was lifted",
            false => "the node stays cordoned",
        };
        let after = match self.progress.evicted {
            0 => String::new(),
            1 => " after 1 Pod had moved".to_owned(),
            moved => format!(" after {moved} Pods had moved"),
        };
        self.record.conclude(None, format!("cancelled{after}; {cordon}"));
        self.record.ending = Some(Ending { phase: Phase::Stopped, since: self.now, uncordon });
    }

    /// Waits for the replacements that are on the way, then removes everything of ours.
    pub(super) fn wind_down(&mut self) {
        let Some(ending) = self.record.ending.clone() else { return };
        let superseded = ending.phase == Phase::Superseded;
        // A node that goes takes its Pods along, and their replacements need the room that is held.
        let lost = self.seen.node == NodeSeen::Gone;
        let taken = superseded && (self.is_deleting() || !self.seen.machine.known || self.seen.machine.taken.is_some());
        let settle = seconds(self.record.options.settle_timeout_seconds);
        let since = self.now.duration_since(ending.since);
        let wanted = |need: &Need| match &need.pending {
            Some(pending) if superseded => !pending.overdue && since <= TAKEN,
            None if taken && !lost => since <= TAKEN,
            Some(_) => since <= settle,
            None => lost && since <= settle,
        };
        if self.seen.needs.iter().any(wanted) {
            self.protect_surge_nodes();
            self.hold_room(wanted, true);
            let here = self.seen.needs.iter().filter(|need| wanted(need) && need.pending.is_none()).count();
            match here {
                0 => {}
                here if lost => {
                    self.wait(Code::NodeLeaving, &self.node(), format!("it is gone, and {here} Pods with it"));
                }
                here => {
                    let message =
                        format!("other hands take it away: room is held for {here} Pods that are on it still");
                    self.wait(Code::NodeLeaving, &self.node(), message);
                }
            }
            return self.wait_replacements();
        }
        // A person may have changed their mind about the cordon since; and whoever took the node may have given it up.
        let asked = self.request.cancel.is_some_and(|cancel| cancel.uncordon);
        if self.clean(ending.uncordon || asked || superseded && !taken) {
            self.finish(ending.phase);
        }
    }

    /// Removes every trace of ours. Whether there is none left.
    pub(super) fn clean(&mut self, uncordon: bool) -> bool {
        let released = self.release_all();
        let let_go = released && self.let_go();
        let settled = self.settle();
        match self.seen.node {
            NodeSeen::Here { traces: true, .. } => {
                self.effects.push(Effect::Unmark { uncordon });
                false
            }
            _ => let_go && settled,
        }
    }

    pub(super) fn finish(&mut self, phase: Phase) {
        if self.seen.unread.is_some() {
            return self.record.enter(phase, self.now);
        }
        let here = |uid: &str| self.seen.leaving.iter().any(|pod| pod.uid == uid && !pod.terminating);
        let touched = phase != Phase::RolledBack && phase != Phase::Cancelled;
        let moves = self.record.moves().iter().filter(|moved| touched && !here(&moved.uid));
        let moved: Vec<_> = moves.map(|moved| format!("{}/{}", moved.namespace, moved.name)).collect();
        self.record.moved = moved;
        self.record.progress = Some(Progress { reserved: 0, ..self.progress });
        self.record.enter(phase, self.now);
    }

    fn is_deleting(&self) -> bool {
        matches!(self.seen.node, NodeSeen::Here { deleting: true, .. })
    }
}
