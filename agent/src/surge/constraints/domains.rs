//! The zones and the like that other Pods hold a Pod to.

use std::collections::BTreeSet;

use super::{Placement, Reach, join};
use crate::cache::selector::{Expression, NodeTerm, Operator};
use crate::cache::{Node, Pod, State};
use crate::surge::fit::Cluster;

/// Holds the placeholder to domains of each of these keys: the candidate's own, or all that would admit the Pod.
pub(super) fn hold(
    placement: &mut Placement,
    pod: &Pod,
    candidate: &Node,
    state: &State,
    reach: Reach,
    keys: Vec<(Box<str>, &str)>,
    refused: &mut Vec<String>,
) {
    for (key, why) in keys {
        let admitting = match reach {
            Reach::Own => BTreeSet::new(),
            Reach::Admitting => admitting(pod, candidate, state, &key),
        };
        if !admitting.is_empty() {
            require(placement, &key, admitting);
        } else if let Some(own) = candidate.label(&key) {
            stay(placement, &key, own, why, refused);
        } else {
            refused.push(format!("has a constraint on {key} ({why}), a label that this node does not have"));
        }
    }
}

/// Requires this value of `key`, the candidate's.
pub(super) fn stay(placement: &mut Placement, key: &str, own: &str, why: &str, refused: &mut Vec<String>) {
    let elsewhere =
        placement.node_selector.iter().any(|expression| &*expression.key == key && !expression.matches(Some(own)));
    if elsewhere {
        refused.push(format!("selects another {key} than this node's {own}, and has a constraint on it ({why})"));
    } else {
        placement.node_selector.push(Expression { key: key.into(), operator: Operator::In, values: vec![own.into()] });
    }
}

/// Requires one of these values of `key`.
pub(super) fn require(placement: &mut Placement, key: &str, values: BTreeSet<Box<str>>) {
    let values: Vec<_> = values.into_iter().collect();
    let expression = Expression { key: key.into(), operator: Operator::In, values };
    let one_of = NodeTerm { expressions: vec![expression], fields: Vec::new() };
    placement.node_affinity = Some(join(placement.node_affinity.take(), &[one_of]));
}

/// The values of `key` that would admit the Pod, even if all Pods of the candidate that its spread counts went there:
/// who of them goes where is not ours to say.
fn admitting(pod: &Pod, candidate: &Node, state: &State, key: &str) -> BTreeSet<Box<str>> {
    let on_candidate = state.pods_on(&candidate.name);
    let own = BTreeSet::from([&*pod.uid]);
    let question = Cluster { gone: &own, ..Cluster::alone(state) }.ask(pod);
    let repelled = question.repelled_from(key);
    let values: BTreeSet<&str> = state.nodes().filter_map(|node| node.label(key)).collect();
    let mut admitting: BTreeSet<Box<str>> =
        values.into_iter().filter(|value| !repelled.contains(value)).map(Box::from).collect();
    for (place, spread) in pod.shape.spread.iter().enumerate().filter(|(_, spread)| &*spread.topology_key == key) {
        let counted = |other: &&Pod| {
            let selected = spread.selector.as_ref().is_some_and(|selector| selector.matches(&other.labels));
            selected && other.namespace == pod.namespace && other.deleted.is_none() && other.holds_room()
        };
        let moving: Vec<&Pod> = on_candidate.iter().filter(counted).collect();
        let gone: BTreeSet<&str> = moving.iter().map(|pod| &*pod.uid).chain([&*pod.uid]).collect();
        let more = i64::try_from(moving.len()).unwrap_or(i64::MAX);
        let question = Cluster { gone: &gone, ..Cluster::alone(state) }.ask(pod);
        admitting.retain(|value| question.spread_admits(place, value, more));
    }
    admitting
}
