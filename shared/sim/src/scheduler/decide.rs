//! One Pod, one decision: a pure function of the world.

use std::{collections::BTreeMap, sync::Arc};

use super::{
    filters::{self, Refusal},
    pod::PodInfo,
    preemption::{self, Victims},
    score,
    world::World,
};
use crate::random::Random;

/// What becomes of a Pod.
#[derive(Clone, Debug)]
pub(crate) enum Decision {
    /// On the node at this position.
    Bind(usize),
    /// There, once these Pods are gone. The message is what its condition says meanwhile.
    Preempt(Victims, String),
    /// Nowhere, for these reasons; `promised` while victims on its nominated node are still leaving.
    Nowhere { message: String, promised: bool },
}

/// Filters, then scores, then preempts.
pub(crate) fn decide(pod: &PodInfo, world: &mut World, nominated: &[Arc<PodInfo>], random: &mut Random) -> Decision {
    if let Err(why) = filters::before(pod, world) {
        // Upstream's own words: what is not found is its record of the nodes.
        let message = format!("0/{} nodes are available: {why}. not found", world.nodes.len());
        return Decision::Nowhere { message, promised: false };
    }
    let mut feasible = Vec::new();
    let mut refusals = Vec::new();
    for at in 0..world.nodes.len() {
        match fits(pod, world, at, nominated) {
            Ok(()) => feasible.push(at),
            Err(refusal) => refusals.push((at, refusal)),
        }
    }
    // The node it was promised comes first, as long as it will do.
    if let Some(&at) = feasible.iter().find(|&&at| world.nodes[at].name == pod.nominated) {
        return Decision::Bind(at);
    }
    if !feasible.is_empty() {
        return Decision::Bind(score::best(pod, world, &feasible, random));
    }
    let mut message = summary(&refusals, world.nodes.len());
    match preemption::preempt(pod, world, &refusals, nominated) {
        Ok(victims) => Decision::Preempt(victims, message),
        Err(why) => {
            let promised = why == preemption::TERMINATING;
            // The first half is of the plugin for dynamic resources, which never has any here.
            message.push_str(&format!(" no new claims to deallocate, preemption: {why}"));
            Decision::Nowhere { message, promised }
        }
    }
}

/// Fits beside what is there, and beside those that were promised room there and matter at least as much.
pub(crate) fn fits(pod: &PodInfo, world: &mut World, at: usize, nominated: &[Arc<PodInfo>]) -> Result<(), Refusal> {
    let guests: Vec<&Arc<PodInfo>> = nominated
        .iter()
        .filter(|other| {
            other.uid != pod.uid && other.priority >= pod.priority && other.nominated == world.nodes[at].name
        })
        .collect();
    if !guests.is_empty() {
        for guest in &guests {
            world.add(at, (*guest).clone());
        }
        let verdict = filters::filter(pod, world, at);
        for guest in &guests {
            world.remove(at, &guest.uid);
        }
        verdict?;
    }
    filters::filter(pod, world, at)
}

fn summary(refusals: &[(usize, Refusal)], total: usize) -> String {
    if total == 0 {
        return "no nodes available to schedule pods".to_owned();
    }
    let mut counts = BTreeMap::new();
    for reason in refusals.iter().flat_map(|(_, refusal)| &refusal.reasons) {
        *counts.entry(reason.clone()).or_default() += 1;
    }
    unavailable(&counts, total)
}

/// `0/3 nodes are available: 1 Insufficient cpu, 2 node(s) were unschedulable.`
pub(crate) fn unavailable(counts: &BTreeMap<String, usize>, total: usize) -> String {
    let mut reasons: Vec<String> = counts.iter().map(|(reason, count)| format!("{count} {reason}")).collect();
    reasons.sort();
    format!("0/{total} nodes are available: {}.", reasons.join(", "))
}
