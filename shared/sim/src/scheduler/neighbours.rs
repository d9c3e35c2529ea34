//! Inter-Pod affinity and anti-affinity, both ways.

use super::{
    filters::Refusal,
    pod::{PodInfo, PodTerm},
    world::{NodeInfo, World},
};

/// Affinity, then its own anti-affinity, then that of the Pods already there.
pub(crate) fn filter(pod: &PodInfo, world: &World, node: &NodeInfo) -> Result<(), Refusal> {
    if !affinity(pod, world, node) {
        return Err(Refusal::hopeless("node(s) didn't match pod affinity rules"));
    }
    if pod.anti_affinity.iter().any(|term| present(term, world, node)) {
        return Err(Refusal::curable("node(s) didn't match pod anti-affinity rules"));
    }
    if repelled(pod, world, node) {
        return Err(Refusal::curable("node(s) didn't satisfy existing pods anti-affinity rules"));
    }
    Ok(())
}

fn is_about(term: &PodTerm, pod: &PodInfo, world: &World) -> bool {
    term.is_about(pod, world.namespace(&pod.key.0))
}

/// Whether the node shares a domain with another by this key.
fn same_domain(key: &str, node: &NodeInfo, other: &NodeInfo) -> bool {
    node.label(key).is_some_and(|value| other.label(key) == Some(value))
}

/// Whether a Pod that the term is about is in the node's domain.
fn present(term: &PodTerm, world: &World, node: &NodeInfo) -> bool {
    let domain = world.nodes.iter().filter(|other| same_domain(&term.key, node, other));
    domain.flat_map(|other| &other.pods).any(|other| is_about(term, other, world))
}

/// One Pod must meet all terms; the first of a group that is about itself may go anywhere.
fn affinity(pod: &PodInfo, world: &World, node: &NodeInfo) -> bool {
    let terms = &pod.affinity;
    if terms.is_empty() {
        return true;
    }
    if terms.iter().any(|term| node.label(&term.key).is_none()) {
        return false;
    }
    let meets_all = |other: &PodInfo| terms.iter().all(|term| is_about(term, other, world));
    let met = terms.iter().all(|term| {
        let domain = world.nodes.iter().filter(|other| same_domain(&term.key, node, other));
        domain.flat_map(|other| &other.pods).any(|other| meets_all(other))
    });
    met || (meets_all(pod) && !world.nodes.iter().flat_map(|other| &other.pods).any(|other| meets_all(other)))
}

/// Whether some Pod's anti-affinity keeps this one away.
fn repelled(pod: &PodInfo, world: &World, node: &NodeInfo) -> bool {
    world.repelling > 0
        && world.nodes.iter().any(|other| {
            let terms = other.pods.iter().flat_map(|present| &present.anti_affinity);
            terms.into_iter().any(|term| same_domain(&term.key, node, other) && is_about(term, pod, world))
        })
}

/// The sum of the preferred terms that the node meets.
pub(crate) fn preference(pod: &PodInfo, world: &World, node: &NodeInfo) -> i64 {
    let met = pod.preferred_neighbours.iter().filter(|(_, term)| present(term, world, node));
    met.map(|(weight, _)| weight).sum()
}
