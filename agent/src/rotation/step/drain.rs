//! Which Pods are evicted now.

use std::collections::{BTreeMap, BTreeSet};

use rotate_shared::plan::Notice;

use super::Turn;
use super::room::Cover;
use crate::drain::evict::Eviction;
use crate::rotation::effect::Effect;
use crate::rotation::observation::Leaving;

impl Turn<'_> {
    /// Evicts, group by group, what is covered and what its disruption budget allows.
    ///
    /// The next group waits until no replacement of another one is on the way: placeholders are interchangeable to the
    /// scheduler, and a small Pod would take the room of a big one. Groups that a budget holds up are skipped over.
    pub(super) fn evict(&mut self, cover: &Cover) {
        self.wait_re_reserving(cover);
        if !cover.exposed.is_empty() {
            return;
        }
        let mut groups: BTreeMap<usize, Vec<&Leaving>> = BTreeMap::new();
        for pod in &self.seen.leaving {
            groups.entry(pod.rank).or_default().push(pod);
        }
        let on_the_way: BTreeSet<&str> = self
            .seen
            .needs
            .iter()
            .filter(|need| need.pending.as_ref().is_some_and(|pending| !pending.overdue))
            .map(|need| &*need.class)
            .collect();
        let mut allowed: Vec<i32> = self.seen.budgets.iter().map(|budget| budget.allowed).collect();
        let mut shown = BTreeSet::new();
        for group in groups.into_values() {
            let classes: BTreeSet<&str> = group.iter().filter_map(|pod| pod.class.as_deref()).collect();
            if self.reserves() && !on_the_way.is_subset(&classes) {
                return;
            }
            let mut evicted = false;
            let mut uncovered = false;
            for pod in group.into_iter().filter(|pod| !pod.terminating) {
                if pod.class.is_some() && !cover.covered.contains(&pod.uid) {
                    uncovered = true;
                    continue;
                }
                if self.is_held_up(pod, &mut allowed, &mut shown) {
                    continue;
                }
                evicted = true;
                let grace = self.record.options.grace_period_seconds;
                self.effects.push(Effect::Evict(Eviction {
                    namespace: pod.namespace.clone(),
                    name: pod.name.clone(),
                    uid: pod.uid.clone(),
                    grace_period_seconds: (grace >= 0).then_some(grace),
                    bypass: self.record.options.disable_eviction,
                }));
            }
            if (evicted || uncovered) && self.reserves() {
                return;
            }
        }
    }

    /// Whether something other than missing room forbids this eviction now; if so, says what.
    fn is_held_up(&mut self, pod: &Leaving, allowed: &mut [i32], shown: &mut BTreeSet<String>) -> bool {
        if !pod.blocked.is_empty() {
            self.waiting.extend(pod.blocked.iter().cloned());
            return true;
        }
        if let Some(notice) = pod.several_budgets.as_ref().filter(|_| !self.record.options.disable_eviction) {
            self.waiting.push(notice.clone());
            return true;
        }
        if let Some(refused) = pod.refused.as_ref().filter(|refused| refused.until > self.now) {
            self.show_once(refused.notice.clone(), shown);
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
        self.show_once(budget.closed.clone(), shown);
        // One Pod asks for all.
        let poll = budget.poll_at.is_some_and(|time| time <= self.now) && shown.insert(format!("poll {index}"));
        !poll
    }

    fn show_once(&mut self, notice: Notice, shown: &mut BTreeSet<String>) {
        if shown.insert(format!("{} {}", notice.code, notice.object)) {
            self.waiting.push(notice);
        }
    }
}
