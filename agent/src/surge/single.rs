//! One placeholder for all Pods of a node: their sum, where all of them may be.
//!
//! ```text
//! node selectors, affinities, host ports, terms ──▶ of all Pods together
//! tolerations ──▶ those that all Pods have
//! requests ──▶ the sum, at most what a node like this offers after its DaemonSets
//! what cannot share a node with the Pods before it ──▶ is named
//! ```

use super::constraints::{self, Placement, apart};
use super::terms;
use crate::cache::{Node, Pod, Resources, State};
use crate::provider::headroom;

/// The room of one placeholder for several Pods.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Lump {
    /// What it requests.
    pub(super) requests: Resources,
    /// Where it may be.
    pub(super) placement: Placement,
    /// By which resources the sum exceeds what a node like this offers, and by how much.
    pub(super) shortfall: Resources,
    /// Pods that cannot share a node with the others, by their place, and why.
    pub(super) apart: Vec<(usize, String)>,
}

/// Unites the rooms of Pods that stand on `candidate`.
pub(super) fn unite(rooms: &[(&Pod, &Resources, &Placement)], candidate: &Node, state: &State) -> Lump {
    let mut lump = Lump::default();
    let mut joined: Vec<&Pod> = Vec::new();
    for (place, (pod, requests, placement)) in rooms.iter().enumerate() {
        match join(&lump.placement, &joined, pod, placement) {
            Ok(placement) => {
                lump.placement = placement;
                lump.requests.add(requests);
                joined.push(pod);
            }
            Err(why) => lump.apart.push((place, why)),
        }
    }
    let offer = offer(candidate, state);
    lump.shortfall = beyond(&lump.requests, &offer);
    lump.requests.subtract(&lump.shortfall);
    lump
}

/// The placement of those who have joined already and of one more.
fn join(united: &Placement, joined: &[&Pod], pod: &Pod, more: &Placement) -> Result<Placement, String> {
    if joined.is_empty() {
        return Ok(more.clone());
    }
    let mut placement = united.clone();
    for expression in &more.node_selector {
        let known = placement.node_selector.iter().find(|known| known.key == expression.key);
        match known {
            Some(known) if known != expression => return Err(format!("needs {expression}, others {known}")),
            Some(_) => {}
            None => placement.node_selector.push(expression.clone()),
        }
    }
    placement.node_selector.sort();
    if let Some(terms) = &more.node_affinity {
        let terms = constraints::join(placement.node_affinity.take(), terms);
        if terms.len() > constraints::MOST_TERMS {
            return Err(format!("has, with the others, more than {} node affinity terms", constraints::MOST_TERMS));
        }
        placement.node_affinity = Some(terms);
    }
    placement.tolerations.retain(|toleration| more.tolerations.contains(toleration));
    for port in &more.host_ports {
        if placement.host_ports.iter().any(|taken| taken.conflicts(port)) {
            return Err(format!("claims host port {}/{}, as another does", port.port, port.protocol));
        }
        placement.host_ports.push(port.clone());
    }
    let on_a_host = |placement: &Placement, pod: &Pod| {
        let means = |term: &&crate::cache::shape::PodTerm| {
            terms::selects(term, &pod.namespace, &pod.namespace, &pod.labels) != terms::Selected::No
        };
        placement.anti_affinity.iter().find(means).is_some()
    };
    if let Some(other) = joined.iter().find(|other| on_a_host(more, other)) {
        return Err(format!("keeps off Pod {}", other.path()));
    }
    if on_a_host(united, pod) {
        return Err("is kept off by another".to_owned());
    }
    placement.affinity.extend(more.affinity.iter().cloned());
    placement.affinity.sort();
    placement.affinity.dedup();
    placement.anti_affinity.extend(more.anti_affinity.iter().cloned());
    let mut refused = Vec::new();
    for pod in joined.iter().copied().chain([pod]) {
        apart::all_or_none(&mut placement, pod, &mut refused);
    }
    if let Some(why) = refused.pop() {
        return Err(why);
    }
    placement.anti_affinity.sort();
    placement.anti_affinity.dedup();
    // Of two values of a label it can carry one.
    for (key, value) in &more.labels {
        if !placement.labels.contains_key(key) {
            placement.labels.insert(key, value);
        }
    }
    Ok(placement)
}

/// What a node like the candidate offers after its DaemonSets.
fn offer(candidate: &Node, state: &State) -> Resources {
    let mut offer = candidate.allocatable.clone();
    offer.subtract(&headroom::daemons(state, [&*candidate.name]).0);
    offer
}

/// By how much each resource exceeds what there is.
fn beyond(sum: &Resources, there: &Resources) -> Resources {
    let mut beyond = sum.clone();
    let mut there = there.clone();
    there.maximum(&Resources::default());
    beyond.subtract(&there);
    beyond.other.retain(|name, amount| sum.other.contains_key(name) && *amount > 0);
    beyond.milli_cpu = beyond.milli_cpu.max(0);
    beyond.memory = beyond.memory.max(0);
    beyond.ephemeral_storage = beyond.ephemeral_storage.max(0);
    beyond
}

#[cfg(test)]
mod tests;
