//! Which Pods have to go for one that finds no room.

use std::{cmp::Reverse, sync::Arc};

use super::{decide, filters::Refusal, pod::PodInfo, world::World};

/// A node, and the Pods that must leave it.
#[derive(Clone, Debug)]
pub(crate) struct Victims {
    pub(crate) node: String,
    pub(crate) pods: Vec<Arc<PodInfo>>,
}

/// Finds the node that loses least. `nominated` are Pods that were promised room and are not there yet. The refusals
/// are those of the filters, one for each node; those that preemption can't cure are passed over.
pub(crate) fn preempt(
    pod: &PodInfo,
    world: &mut World,
    refusals: &[(usize, Refusal)],
    nominated: &[Arc<PodInfo>],
) -> Result<Victims, String> {
    if pod.never_preempts {
        let total = world.nodes.len();
        return Err(format!("0/{total} nodes are available: not eligible due to preemptionPolicy=Never."));
    }
    if waits_for_victims(pod, world, refusals) {
        let total = world.nodes.len();
        return Err(format!(
            "0/{total} nodes are available: not eligible due to a terminating pod on the nominated node."
        ));
    }
    let mut candidates = Vec::new();
    let (mut without, mut hopeless) = (0, 0);
    for (at, refusal) in refusals {
        if !refusal.curable {
            hopeless += 1;
            continue;
        }
        match victims(pod, world, *at, nominated) {
            Some(pods) => candidates.push((*at, pods)),
            None => without += 1,
        }
    }
    let best = candidates.into_iter().min_by_key(|(at, pods)| cost(*at, pods));
    match best {
        Some((at, pods)) => Ok(Victims { node: world.nodes[at].name.clone(), pods }),
        None => {
            let mut reasons = Vec::new();
            if without > 0 {
                reasons.push(format!("{without} No preemption victims found for incoming pod"));
            }
            if hopeless > 0 {
                reasons.push(format!("{hopeless} Preemption is not helpful for scheduling"));
            }
            reasons.sort();
            Err(format!("0/{} nodes are available: {}.", world.nodes.len(), reasons.join(", ")))
        }
    }
}

/// Its victims are still leaving the node it was promised.
fn waits_for_victims(pod: &PodInfo, world: &World, refusals: &[(usize, Refusal)]) -> bool {
    let Some(at) = world.nodes.iter().position(|node| node.name == pod.nominated) else { return false };
    if refusals.iter().any(|(other, refusal)| *other == at && !refusal.curable) {
        return false;
    }
    world.nodes[at].pods.iter().any(|other| other.priority < pod.priority && other.terminating && other.preempted)
}

/// The highest victim decides, then their sum, then their number; at last the name of the node.
fn cost(at: usize, pods: &[Arc<PodInfo>]) -> (i64, i64, usize, Reverse<String>, usize) {
    let highest = pods.iter().map(|pod| i64::from(pod.priority)).max().unwrap_or(i64::MIN);
    // As the scheduler sums: shifted, so that more victims of negative priority don't look cheaper.
    let sum = pods.iter().map(|pod| i64::from(pod.priority) + i64::from(i32::MAX) + 1).sum();
    let earliest = pods.iter().filter(|pod| i64::from(pod.priority) == highest).map(|pod| pod.started.clone()).min();
    (highest, sum, pods.len(), Reverse(earliest.unwrap_or_default()), at)
}

/// The fewest Pods of lower priority without which the Pod fits; `None` where even all of them would not do.
fn victims(pod: &PodInfo, world: &mut World, at: usize, nominated: &[Arc<PodInfo>]) -> Option<Vec<Arc<PodInfo>>> {
    let before = world.nodes[at].pods.clone();
    let mut lower: Vec<Arc<PodInfo>> = before.iter().filter(|other| other.priority < pod.priority).cloned().collect();
    if lower.is_empty() {
        return None;
    }
    for other in &lower {
        world.remove(at, &other.uid);
    }
    let mut found = None;
    if decide::fits(pod, world, at, nominated).is_ok() {
        // The most important first are given their place back.
        lower.sort_by(|a, b| b.priority.cmp(&a.priority).then_with(|| a.started.cmp(&b.started)));
        let mut victims = Vec::new();
        for other in lower {
            world.add(at, other.clone());
            if decide::fits(pod, world, at, nominated).is_err() {
                world.remove(at, &other.uid);
                victims.push(other);
            }
        }
        found = Some(victims).filter(|victims| !victims.is_empty());
    }
    world.put(at, before);
    found
}
