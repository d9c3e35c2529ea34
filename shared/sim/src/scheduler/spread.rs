//! Topology spread. Only Pods of the incoming Pod's own namespace count.

use std::collections::BTreeMap;

use super::{
    filters::{Refusal, selected, tolerated},
    pod::{PodInfo, Spread},
    world::{NodeInfo, World},
};

const UNBALANCED: &str = "node(s) didn't match pod topology spread constraints";
const NO_LABEL: &str = "node(s) didn't match pod topology spread constraints (missing required label)";

/// The hard constraints.
pub(crate) fn filter(pod: &PodInfo, world: &World, node: &NodeInfo) -> Result<(), Refusal> {
    let hard: Vec<&Spread> = pod.spread.iter().filter(|spread| spread.hard).collect();
    for spread in &hard {
        let Some(value) = node.label(&spread.key) else { return Err(Refusal::hopeless(NO_LABEL)) };
        let counts = counts(pod, world, spread, &hard);
        let fewest = if counts.len() < spread.min_domains { 0 } else { counts.values().copied().min().unwrap_or(0) };
        let itself = i64::from(spread.selector.matches(Some(&pod.labels)));
        let here = counts.get(value).copied().unwrap_or(0);
        if here + itself - fewest > spread.max_skew {
            return Err(Refusal::curable(UNBALANCED));
        }
    }
    Ok(())
}

/// Matching Pods in each domain that takes part.
fn counts<'a>(pod: &PodInfo, world: &'a World, spread: &Spread, all: &[&Spread]) -> BTreeMap<&'a str, i64> {
    let mut counts = BTreeMap::new();
    for node in &world.nodes {
        let takes_part = all.iter().all(|spread| node.label(&spread.key).is_some())
            && (!spread.honours_affinity || selected(pod, node))
            && (!spread.honours_taints || tolerated(pod, node));
        let Some(value) = node.label(&spread.key).filter(|_| takes_part) else { continue };
        *counts.entry(value).or_default() += matching(pod, node, spread);
    }
    counts
}

fn matching(pod: &PodInfo, node: &NodeInfo, spread: &Spread) -> i64 {
    let matching = node
        .pods
        .iter()
        .filter(|other| !other.terminating && other.key.0 == pod.key.0 && spread.selector.matches(Some(&other.labels)));
    i64::try_from(matching.count()).unwrap_or(i64::MAX)
}

/// How many Pods like this one share each node's domains; fewer is better. Without constraints of its own, a Pod keeps
/// away from others of its owner, by zone and node.
pub(crate) fn crowding(pod: &PodInfo, world: &World) -> Vec<i64> {
    let mut sums = vec![0; world.nodes.len()];
    for spread in pod.spread.iter().filter(|spread| !spread.hard) {
        add_by_domain(&mut sums, world, &spread.key, &|node| matching(pod, node, spread));
    }
    if pod.spread.is_empty() && !pod.owner.is_empty() {
        let siblings = |node: &NodeInfo| {
            let siblings = node.pods.iter().filter(|other| other.owner == pod.owner && !other.terminating);
            i64::try_from(siblings.count()).unwrap_or(i64::MAX)
        };
        add_by_domain(&mut sums, world, "topology.kubernetes.io/zone", &siblings);
        add_by_domain(&mut sums, world, "kubernetes.io/hostname", &siblings);
    }
    sums
}

/// Adds to each node the count of all nodes that share its value of `key`.
fn add_by_domain(sums: &mut [i64], world: &World, key: &str, count: &dyn Fn(&NodeInfo) -> i64) {
    let mut domains: BTreeMap<&str, i64> = BTreeMap::new();
    for node in &world.nodes {
        if let Some(value) = node.label(key) {
            *domains.entry(value).or_default() += count(node);
        }
    }
    for (sum, node) in sums.iter_mut().zip(&world.nodes) {
        *sum += node.label(key).and_then(|value| domains.get(value)).copied().unwrap_or(0);
    }
}
