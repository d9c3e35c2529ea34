//! Which Pods have to go for one that finds no room.

use std::{cmp::Reverse, collections::BTreeMap, sync::Arc};

use super::{decide, filters::Refusal, pod::PodInfo, world::World};

/// Why a Pod whose victims are still leaving chooses no others.
pub(crate) const TERMINATING: &str = "not eligible due to a terminating pod on the nominated node.";

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
        return Err("not eligible due to preemptionPolicy=Never.".to_owned());
    }
    if waits_for_victims(pod, world, refusals) {
        return Err(TERMINATING.to_owned());
    }
    let mut candidates = Vec::new();
    let mut reasons: BTreeMap<String, usize> = BTreeMap::new();
    for (at, refusal) in refusals {
        let why = if refusal.curable {
            match victims(pod, world, *at, nominated) {
                Ok(pods) => {
                    candidates.push((*at, pods));
                    continue;
                }
                Err(why) => why,
            }
        } else {
            vec!["Preemption is not helpful for scheduling".to_owned()]
        };
        for reason in why {
            *reasons.entry(reason).or_default() += 1;
        }
    }
    let best = candidates.into_iter().min_by_key(|(at, pods)| cost(*at, pods));
    best.map(|(at, pods)| Victims { node: world.nodes[at].name.clone(), pods })
        .ok_or_else(|| decide::unavailable(&reasons, world.nodes.len()))
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

/// The fewest Pods of lower priority without which the Pod fits; or why even without all of them it does not.
fn victims(
    pod: &PodInfo,
    world: &mut World,
    at: usize,
    nominated: &[Arc<PodInfo>],
) -> Result<Vec<Arc<PodInfo>>, Vec<String>> {
    let none = || vec!["No preemption victims found for incoming pod".to_owned()];
    let before = world.nodes[at].pods.clone();
    let mut lower: Vec<Arc<PodInfo>> = before.iter().filter(|other| other.priority < pod.priority).cloned().collect();
    if lower.is_empty() {
        return Err(none());
    }
    for other in &lower {
        world.remove(at, &other.uid);
    }
    let mut found = decide::fits(pod, world, at, nominated).map(|()| Vec::new()).map_err(|refusal| refusal.reasons);
    if let Ok(victims) = &mut found {
        // The most important first are given their place back.
        lower.sort_by(|a, b| b.priority.cmp(&a.priority).then_with(|| a.started.cmp(&b.started)));
        for other in lower {
            world.add(at, other.clone());
            if decide::fits(pod, world, at, nominated).is_err() {
                world.remove(at, &other.uid);
                victims.push(other);
            }
        }
    }
    world.put(at, before);
    found.and_then(|victims| if victims.is_empty() { Err(none()) } else { Ok(victims) })
}
