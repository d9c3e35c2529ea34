//! Which Pods are evicted now.

use std::collections::BTreeSet;

use rotate_shared::plan::Notice;
use rotate_shared::{Code, SurgeMode};

use super::Turn;
use super::room::Cover;
use crate::drain::evict::Eviction;
use crate::rotation::effect::Effect;
use crate::rotation::observation::{Leaving, Need, Refused};

impl Turn<'_> {
    /// Evicts what is covered and what its disruption budget allows, in order. Pods that a budget holds up are skipped over.
    ///
    /// Where room is held, the next Pod waits until no replacement is on the way. Placeholders are interchangeable to the
    /// scheduler, and a small Pod would take the room of a big one. And two replacements that preempt on one node at the
    /// same time can leave the second without a node until the scheduler looks again, after five minutes: seen on 1.36.3
    /// (`docs/decisions/002-one-pod-after-another.md`).
    pub(super) fn evict(&mut self, cover: &Cover) {
        self.wait_re_reserving(cover);
        self.wait_refused();
        if !cover.exposed.is_empty() {
            return;
        }
        let on_the_way = |need: &Need| need.pending.as_ref().is_some_and(|pending| !pending.overdue);
        // One placeholder for all: whoever lands first takes it from the others, so that all leave at once.
        let one_by_one = self.record.options.surge == SurgeMode::PerPod;
        // At most one refusal in a while. Those that go at once pass a gate one by one (`execute::gate`).
        let too_soon = self.seen.refused_until.is_some_and(|until| until > self.now);
        if one_by_one && self.seen.needs.iter().any(on_the_way) {
            return;
        }
        let mut leaving: Vec<&Leaving> = self.seen.leaving.iter().filter(|pod| !pod.terminating).collect();
        leaving.sort_by_key(|pod| pod.rank);
        let mut allowed: Vec<i32> = self.seen.budgets.iter().map(|budget| budget.allowed).collect();
        let mut polled = BTreeSet::new();
        for pod in leaving {
            if pod.class.is_some() && !cover.covered.contains(&pod.uid) {
                // Its room is on the way; a smaller Pod that went first might take it.
                return;
            }
            if self.is_held_up(pod, &mut allowed, &mut polled) {
                continue;
            }
            if too_soon {
                continue;
            }
            let grace = self.record.options.grace_period_seconds;
            self.effects.push(Effect::Evict(Eviction {
                namespace: pod.namespace.clone(),
                name: pod.name.clone(),
                uid: pod.uid.clone(),
                grace_period_seconds: (grace >= 0).then_some(grace),
                bypass: self.record.options.disable_eviction,
            }));
            if one_by_one && pod.class.is_some() {
                return;
            }
        }
    }

    /// Whether something other than missing room forbids this eviction now; if so, says what.
    fn is_held_up(&mut self, pod: &Leaving, allowed: &mut [i32], polled: &mut BTreeSet<usize>) -> bool {
        if !pod.blocked.is_empty() {
            self.waiting.extend(pod.blocked.iter().cloned());
            return true;
        }
        if let Some(notice) = pod.several_budgets.as_ref().filter(|_| !self.record.options.disable_eviction) {
            self.waiting.push(notice.clone());
            return true;
        }
        if pod.refused.as_ref().is_some_and(|refused| refused.until > self.now) {
            return true;
        }
        if self.record.options.disable_eviction {
            return false;
        }
        let Some(index) = pod.budget.filter(|index| *index < allowed.len()) else { return false };
        let budget = &self.seen.budgets[index];
        if allowed[index] > 0 {
            allowed[index] -= 1;
            return false;
        }
        self.show_once(budget.closed.clone());
        // One Pod asks for all.
        let poll = budget.poll_at.is_some_and(|time| time <= self.now) && polled.insert(index);
        !poll
    }

    /// Says which evictions were refused, until they are asked for again and answered. What refuses one for good is said while
    /// others go first, too; that the API server was busy, or a budget closed, is old news by then.
    fn wait_refused(&mut self) {
        for pod in self.seen.leaving.iter().filter(|pod| pod.blocked.is_empty()) {
            let lasts = |refused: &&Refused| {
                let for_good =
                    matches!(refused.notice.code, Code::EvictionRefused | Code::MultiplePodDisruptionBudgets);
                !pod.terminating && (for_good || refused.until > self.now)
            };
            let refused = pod.refused.as_ref().filter(lasts).map(|refused| refused.notice.clone());
            if let Some(notice) = refused.or_else(|| self.holds_up_still(pod)) {
                self.show_once(notice);
            }
        }
    }

    /// What held the Pod up before its eviction was asked for once more; `None`: it was not, or is answered.
    pub(super) fn holds_up_still(&self, pod: &Leaving) -> Option<Notice> {
        if !pod.asked {
            return None;
        }
        let refused = pod.refused.as_ref().map(|refused| refused.notice.clone());
        let budget = pod.budget.and_then(|index| self.seen.budgets.get(index));
        // It is one more than the budget allows: a poll.
        refused.or_else(|| budget.filter(|budget| budget.allowed < 0).map(|budget| budget.closed.clone()))
    }

    fn show_once(&mut self, notice: Notice) {
        let is_shown = |known: &Notice| known.code == notice.code && known.object == notice.object;
        if !self.waiting.iter().any(is_shown) {
            self.waiting.push(notice);
        }
    }
}
