//! The empty candidate: taken away, left to whoever takes it, kept, or uncordoned once it was rebooted.

use jiff::SignedDuration;
use rotate_shared::options::Then;
use rotate_shared::plan::{Notice, Provider};
use rotate_shared::{Code, Phase};

use super::{Turn, duration, notice, seconds};
use crate::provider::Removal;
use crate::rotation::effect::Effect;
use crate::rotation::observation::{Asked, Barrier, NodeSeen};
use crate::rotation::record::Ending;

/// How long a removal may take once it was asked for: clouds take up to some minutes to end a machine.
const PATIENCE: SignedDuration = SignedDuration::from_mins(15);
/// How soon a removal that was accepted and shows nowhere is asked for again.
const ASK_AGAIN: SignedDuration = SignedDuration::from_mins(1);
/// From this many seconds on a time alone would not say which day it is of.
const A_DAY: u64 = 24 * 60 * 60;

impl Turn<'_> {
    /// Goes over to Removing, with what has to be known there written down.
    pub(super) fn begin_removing(&mut self) {
        if self.then() == Then::Delete && !self.seen.machine.known {
            return self.wait_provider();
        }
        if self.waits_for_removal() {
            return;
        }
        self.record.removal = self.seen.machine.removal.clone();
        self.record.enter(Phase::Removing, self.now);
    }

    /// Whether the node is to be deleted and nobody says yet how: what could not be read once decides on nothing.
    fn waits_for_removal(&mut self) -> bool {
        let (Then::Delete, Some(Removal::Left { to, .. })) = (self.then(), &self.seen.machine.removal) else {
            return false;
        };
        if self.waited() > PATIENCE {
            return false;
        }
        let message = format!("it is empty and to be deleted, and as yet it is left to {to}");
        self.wait(Code::ProviderUnreadable, &self.node(), message);
        true
    }

    pub(super) fn wait_provider(&mut self) {
        self.wait(Code::NotReady, &self.node(), "what its provider says of it is being read");
    }

    /// What takes the node away, by our own call.
    fn removal(&self) -> Option<&Removal> {
        let asked_of_us = self.then() == Then::Delete;
        self.record.removal.as_ref().filter(|removal| asked_of_us && !matches!(removal, Removal::Left { .. }))
    }

    /// Whether the node is going, or will be gone, by our own hand.
    pub(super) fn is_removing(&self) -> bool {
        self.record.phase() == Phase::Removing && self.then() == Then::Delete
    }

    pub(super) fn removing(&mut self) {
        if self.then() == Then::Delete && self.record.removal.is_none() {
            if !self.seen.machine.known {
                return self.wait_provider();
            }
            if self.waits_for_removal() {
                return;
            }
            // Written by an earlier version of us, which could only delete the Node object.
            self.record.removal = Some(self.seen.machine.removal.clone().unwrap_or(Removal::NodeObject));
            return;
        }
        let NodeSeen::Here { traces, deleting, .. } = self.seen.node else { return self.node_is_gone() };
        let removal = self.removal().cloned();
        if let Some(removal) = removal.as_ref().filter(|_| deleting || self.was_accepted()) {
            self.release_all();
            if self.is_overdue() {
                return self.fail_removal(removal);
            }
            self.wait_removal(removal, deleting);
            if !deleting && self.is_to_be_asked_again(removal) {
                self.effects.push(Effect::Remove(removal.clone()));
            }
            return;
        }
        // Once our marks are off, Pods may come here again: nothing is left to check.
        if !traces && removal.is_none() {
            return self.succeed();
        }
        if self.request.cancel.is_some() {
            return self.stop();
        }
        if !self.goes_on_empty() {
            return;
        }
        if self.then() == Then::Uncordon && !self.is_rebooted() {
            return;
        }
        for pod in &self.seen.arriving {
            self.waiting.push(notice(
                Code::ArrivingPod,
                &format!("Pod {pod}"),
                format!("the scheduler is about to place it on node {}", self.record.node),
            ));
        }
        if !self.seen.arriving.is_empty() {
            return;
        }
        if self.seen.barrier == Barrier::Open {
            return self.effects.push(Effect::List);
        }
        let Some(removal) = removal else { return self.succeed() };
        if self.is_overdue() || self.seen.machine.refused.is_some() {
            return self.fail_removal(&removal);
        }
        if self.release_all() {
            self.effects.push(Effect::Remove(removal));
        }
    }

    /// Not taken away by us: what is said of it at the end.
    fn succeed(&mut self) {
        let uncordon = self.then() == Then::Uncordon;
        if !self.clean(uncordon) {
            return;
        }
        let drained = match &self.record.options.pod_selector {
            Some(selector) => format!("drained of the Pods that match {selector:?}; the others stay"),
            None => "drained".to_owned(),
        };
        let message = match (self.then(), &self.record.removal) {
            (Then::Uncordon, _) if self.seen.foreign_cordon => {
                format!("{drained}; the node stays cordoned, as it was found")
            }
            (Then::Uncordon, _) if self.waits_for_reboot() => format!("{drained}, rebooted and uncordoned"),
            (Then::Uncordon, _) => format!("{drained} and uncordoned"),
            (_, Some(Removal::Left { to, within: Some(within) })) => {
                let by = self.now.saturating_add(*within).unwrap_or(self.now);
                format!("{drained}, and left to {to}; expected to be gone by {by:.0}")
            }
            (_, Some(Removal::Left { to, within: None })) => {
                format!("{drained}; the node stays, cordoned, left to {to}")
            }
            _ => format!(
                "{drained}; the node stays, cordoned; kubectl uncordon {} takes it back into service",
                self.record.node
            ),
        };
        self.record.conclude(None, message);
        self.finish(Phase::Succeeded);
    }

    // === taken away ===

    /// The Node object is gone, as it was meant to be: is what stood behind it?
    fn node_is_gone(&mut self) {
        let clean = self.clean(false);
        let Some(removal) = self.removal().cloned() else {
            if clean {
                self.record.conclude(None, "drained, and taken away");
                self.finish(Phase::Succeeded);
            }
            return;
        };
        if matches!(removal, Removal::NodeClaim { .. } | Removal::Machine { .. }) {
            if !self.seen.machine.known {
                return self.wait_provider();
            }
            if !self.seen.machine.gone {
                if self.is_overdue() {
                    return self.fail_removal(&removal);
                }
                let message = format!("the Node is gone, {} is not yet", behind(&removal));
                return self.wait(Code::NodeLeaving, &self.node(), message);
            }
        }
        if !clean {
            return;
        }
        let message = match &removal {
            Removal::NodeObject if self.record.provider == Provider::Karpenter => {
                "drained and deleted; Karpenter ends the instance".to_owned()
            }
            Removal::NodeObject => {
                self.machine_runs_on();
                "drained and deleted".to_owned()
            }
            other => format!("drained and deleted; {} is gone", behind(other)),
        };
        self.record.conclude(None, message);
        self.finish(Phase::Succeeded);
    }

    fn machine_runs_on(&mut self) {
        let message = "only the Node object was deleted: the machine behind it runs on";
        self.record.warn(Notice {
            remedy: "shut the machine down where it came from".to_owned(),
            ..notice(Code::MachineRunsOn, &self.node(), message)
        });
    }

    fn was_accepted(&self) -> bool {
        self.seen.machine.asked.is_some_and(|asked| asked.accepted.is_some())
    }

    /// A hook may begin something with each call; the others are the same call again.
    fn is_to_be_asked_again(&self, removal: &Removal) -> bool {
        let accepted = self.seen.machine.asked.and_then(|asked| asked.accepted);
        let long_ago = accepted.is_some_and(|at| self.now.duration_since(at) >= ASK_AGAIN);
        long_ago && !matches!(removal, Removal::Hook { .. })
    }

    fn is_overdue(&self) -> bool {
        self.seen.machine.asked.is_some_and(|asked| self.now.duration_since(asked.since) > PATIENCE)
    }

    fn wait_removal(&mut self, removal: &Removal, deleting: bool) {
        let message = match removal {
            Removal::NodeObject if deleting => "the node object is being deleted".to_owned(),
            Removal::Hook { .. } => "the hook has accepted to end its machine; the node is there still".to_owned(),
            _ if self.seen.machine.gone => format!("{} is gone; the node is there still", behind(removal)),
            other => format!("{} is being deleted, and the node with it", behind(other)),
        };
        self.wait(Code::NodeLeaving, &self.node(), message);
    }

    /// The node stays although its removal was asked for long ago.
    fn fail_removal(&mut self, removal: &Removal) {
        let node = self.record.node.clone();
        let (what, help) = (behind(removal), remedy(removal, &node));
        let patience = duration(PATIENCE.as_secs().unsigned_abs());
        let refusal =
            self.seen.failures.iter().find(|failure| failure.message.contains(&what)).or(self.seen.failures.first());
        let message = match (self.seen.machine.asked, refusal) {
            _ if self.seen.machine.refused.is_some() => {
                format!("drained, but {}", self.seen.machine.refused.as_deref().unwrap_or_default())
            }
            (Some(Asked { accepted: None, .. }), Some(refusal)) => {
                format!("drained, but {}, for {patience}", refusal.message)
            }
            _ if self.seen.node == NodeSeen::Gone => {
                format!("drained, and the Node is gone, but {what} is not after {patience}: its machine may run on")
            }
            (Some(Asked { accepted: None, .. }), None) => {
                format!("drained, but {what} could not be taken away within {patience}")
            }
            _ => format!(
                "drained, and the removal of {what} was accepted, but node {node} is there still after {patience}"
            ),
        };
        self.record.warn(Notice {
            remedy: help.clone(),
            ..notice(Code::RemovalFailed, &self.node(), "it was drained and is not taken away")
        });
        self.record.conclude(Some(Code::RemovalFailed), format!("{message}; {help}"));
        self.record.ending = Some(Ending { phase: Phase::Failed, since: self.now, uncordon: false });
    }

    // === rebooted ===

    pub(super) fn waits_for_reboot(&self) -> bool {
        self.record.options.reboot_timeout_seconds > 0
    }

    /// Whether the empty node was rebooted, where that is waited for; says what is waited for.
    fn is_rebooted(&mut self) -> bool {
        if !self.waits_for_reboot() {
            return true;
        }
        let machine = &self.seen.machine;
        let rebooted = machine.boot_id.is_some() && machine.boot_id != self.record.boot_id;
        if rebooted && machine.ready {
            return true;
        }
        let node = self.record.node.clone();
        let timeout = self.record.options.reboot_timeout_seconds;
        let waited = self.waited();
        if waited > seconds(timeout) {
            let what = if rebooted { "was rebooted and is not Ready" } else { "was not rebooted" };
            let message = format!(
                "drained, but node {node} {what} after {}; it stays cordoned: kubectl uncordon {node}",
                duration(timeout)
            );
            self.record.conclude(Some(Code::WaitingForReboot), message);
            self.record.ending = Some(Ending { phase: Phase::Failed, since: self.now, uncordon: false });
            return false;
        }
        // A time and no countdown: each change of the words is told anew.
        let until = self.now.saturating_add(seconds(timeout) - waited).unwrap_or(self.now);
        let until = until.strftime(if timeout < A_DAY { "%H:%M:%SZ" } else { "%Y-%m-%dT%H:%M:%SZ" });
        let message = match (rebooted, &self.record.boot_id) {
            (true, _) => format!("it was rebooted and is not Ready yet; it has until {until}"),
            (false, None) => format!("it is empty and waits until {until} for its reboot (it tells no boot ID yet)"),
            (false, Some(boot)) => format!("it is empty and waits until {until} for its reboot (boot ID {boot})"),
        };
        let remedy = format!("reboot node {node}; --reboot-timeout=0 does not wait");
        self.waiting.push(Notice { remedy, ..notice(Code::WaitingForReboot, &self.node(), message) });
        false
    }
}

/// What a removal takes away.
fn behind(removal: &Removal) -> String {
    match removal {
        Removal::Left { .. } | Removal::NodeObject => "the node object".to_owned(),
        Removal::NodeClaim { name, .. } => format!("NodeClaim {name}"),
        Removal::Machine { namespace, name, .. } => format!("Machine {namespace}/{name}"),
        Removal::Hook { provider_id } => format!("machine {provider_id}"),
    }
}

/// What a person can do where a removal does not come about.
fn remedy(removal: &Removal, node: &str) -> String {
    match removal {
        Removal::NodeClaim { name, .. } => {
            format!("see kubectl describe nodeclaim {name}, and whether Karpenter runs; the node stays cordoned")
        }
        Removal::Machine { namespace, name, .. } => {
            format!("see kubectl describe machine -n {namespace} {name} in the management cluster")
        }
        Removal::Hook { .. } => format!("see what the hook says; end the machine of node {node} by hand"),
        Removal::Left { .. } | Removal::NodeObject => format!("see the finalizers in kubectl get node {node} -o yaml"),
    }
}
