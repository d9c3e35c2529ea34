//! Nodes that came for a rotation's placeholders.

use std::collections::BTreeSet;

use rotate_shared::names;

use super::machine::ending;
use crate::cache::{Node, Pod};
use crate::provider;
use crate::rotation::effect::Effect;
use crate::rotation::observation::SurgeNode;
use crate::rotation::progress::Known;

/// Nodes that carry this rotation's protection, and those created since the record was first stored on which one of its
/// placeholders is, or was seen by this process. By name.
///
/// Read off the cluster: which nodes came for us outlives whoever leads. Both times are the API server's.
pub(super) fn surge_nodes(known: &Known<'_>, ours: &[Pod]) -> Vec<SurgeNode> {
    let Known { entry, state, memory, .. } = *known;
    let record = &entry.record;
    let holding: BTreeSet<&str> =
        ours.iter().filter(|pod| pod.deleted.is_none()).filter_map(|pod| pod.node.as_deref()).collect();
    let came = |node: &Node| {
        node.created >= entry.created && (holding.contains(&*node.name) || memory.held_on.contains(&*node.name))
    };
    let ending = ending(record);
    let read = memory.provider.as_ref().map(|(_, read)| *read);
    let nodes = state.nodes().filter(|node| *node.name != *record.node);
    let nodes = nodes.filter(|node| protected_by(node) == Some(&*record.id) || came(node));
    let surge_nodes = nodes.map(|node| {
        let believed = memory.protections.get(&*node.uid).map(|(protected, _)| *protected);
        let marked = protected_by(node) == Some(&*record.id);
        let objects = memory.provider.as_ref().map(|(objects, _)| objects);
        let driver = objects.map(|objects| (provider::driver(provider::detect(node, objects)), objects));
        let failed = |effect: &Effect| memory.failures.contains_key(&effect.key());
        let name = node.name.to_string();
        SurgeNode {
            uid: node.uid.to_string(),
            holds: holding.contains(&*node.name),
            protected: believed.unwrap_or(marked),
            others: protected_by(node).is_some_and(|id| id != record.id),
            unused: is_unused(known, node),
            leaving: node.deleting || driver.is_some_and(|(driver, objects)| driver.taken(node, objects).is_some()),
            removal: driver
                .filter(|_| node.created >= entry.created)
                .map(|(driver, objects)| driver.remove(node, objects)),
            stale: node.created >= entry.created && ending.is_some_and(|since| read.is_none_or(|read| read <= since)),
            given_back: memory.given_back.contains(&*node.uid),
            failed: failed(&Effect::Protect { node: name.clone(), uid: String::new() })
                || failed(&Effect::GiveBack {
                    node: name.clone(),
                    uid: String::new(),
                    removal: provider::Removal::NodeObject,
                }),
            name,
        }
    });
    surge_nodes.collect()
}

/// Whose protection a node carries.
fn protected_by(node: &Node) -> Option<&str> {
    node.annotations.get(names::PROTECTED_BY)?.split(':').next()
}

/// Whether nothing real is on the node or about to be, and nothing that holds room for another rotation; `None`: its Pods are not read.
fn is_unused(known: &Known<'_>, node: &Node) -> Option<bool> {
    let Known { entry, state, .. } = *known;
    if !state.covers_node(&node.name) {
        return None;
    }
    let of_others = state.pods_on(&node.name).into_iter().any(|pod| {
        let rotation = pod.labels.get(names::ROTATION).map(|id| id.to_string());
        pod.is_placeholder() && rotation.is_some_and(|id| id != entry.record.id)
    });
    let arriving = state.arriving_on(&node.name).iter().any(|pod| !pod.is_placeholder());
    Some(!state.hosts_real_pods(&node.name) && !of_others && !arriving)
}
