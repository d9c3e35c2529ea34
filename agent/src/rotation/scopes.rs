//! Which Pods rotations have to see, where the cache does not read all of them.
//!
//! ```text
//! candidate ─┬─ its Pods ── their namespaces: siblings, replacements, those they keep off
//!            └─ our placeholders, the replacements ── their nodes: does the Pod fit there?
//! ```
//!
//! The first two are *essential*: without them nothing can be said of a rotation, and nothing is done. The nodes are not:
//! room on a node that is not read yet is not held yet.

use std::collections::BTreeSet;
use std::sync::Arc;

use rotate_shared::{Phase, names};

use super::memory::Memory;
use super::observe::placeholders;
use super::progress;
use super::record::Record;
use super::store::Entry;
use crate::cache::{Node, Partition, Pod, State};

/// What a rotation cannot be judged without.
pub(super) fn essential(record: &Record, state: &State) -> BTreeSet<Partition> {
    if !judges_pods(record) {
        return BTreeSet::new();
    }
    let mut scopes: BTreeSet<_> = record.moves().iter().map(|moved| Partition::namespace(&moved.namespace)).collect();
    scopes.insert(Partition::node(&record.node));
    scopes.extend(namespaces(&state.pods_on(&record.node)));
    scopes
}

/// The namespaces in which it has to be looked for what becomes of these Pods, and for those that they keep off.
pub(crate) fn namespaces(pods: &[Pod]) -> BTreeSet<Partition> {
    let stays = |pod: &Pod| pod.comes_with_its_node() || pod.phase.is_finished();
    let mut scopes = BTreeSet::new();
    for pod in pods.iter().filter(|pod| !stays(pod)) {
        scopes.insert(Partition::namespace(&pod.namespace));
        let terms = pod.shape.anti_affinity.iter().chain(&pod.shape.affinity);
        scopes.extend(terms.flat_map(|term| &term.namespaces).map(|name| Partition::namespace(name)));
    }
    scopes
}

/// Everything that a rotation needs to see.
pub(super) fn needed(entry: &Entry, state: &State, memory: Option<&Memory>) -> BTreeSet<Partition> {
    let record = &entry.record;
    let mut scopes = essential(record, state);
    let nothing = Memory::default();
    let memory = memory.unwrap_or(&nothing);
    if scopes.is_empty() {
        // Whether anything is on a node that came for it decides on whether that is given back.
        if record.phase() == Phase::RollingBack {
            scopes.extend(came_for(record, state, memory).iter().map(|node| Partition::node(node)));
        }
        return scopes;
    }
    let mut nodes = came_for(record, state, memory);
    let mut owners = BTreeSet::new();
    for moved in record.moves() {
        let Some(owner) = moved.owner.as_ref().filter(|owner| owners.insert(&owner.uid)) else { continue };
        let pods = progress::pods_of(state, memory, &moved.namespace, owner).into_iter();
        nodes.extend(pods.filter(|pod| pod.created >= entry.created).filter_map(|pod| pod.node));
    }
    scopes.extend(nodes.iter().map(|node| Partition::node(node)));
    scopes
}

/// Nodes on which there is or was room of this rotation.
fn came_for(record: &Record, state: &State, memory: &Memory) -> BTreeSet<Arc<str>> {
    let mut nodes = memory.held_on.clone();
    nodes.extend(placeholders(state, &record.id).into_iter().filter_map(|pod| pod.node));
    let ours = |node: &Node| {
        let owner = node.annotations.get(names::PROTECTED_BY).and_then(|value| value.split(':').next());
        owner == Some(&*record.id)
    };
    nodes.extend(state.nodes().filter(|node| ours(node)).map(|node| Arc::clone(&node.name)));
    nodes
}

/// What a rotation cannot be judged without and is not read yet, if anything.
pub(super) fn unread(record: &Record, state: &State) -> Option<Partition> {
    if state.covers_cluster() {
        return None;
    }
    essential(record, state).into_iter().find(|scope| !state.covers(scope))
}

/// Whether the Pods on the candidate, or what became of them, decide on what is next.
fn judges_pods(record: &Record) -> bool {
    record.is_live() && !matches!(record.phase(), Phase::Queued | Phase::RollingBack)
}

#[cfg(test)]
mod tests;
