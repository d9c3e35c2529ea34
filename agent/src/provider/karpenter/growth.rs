//! What each NodePool may still grow by, and with which machines.
//!
//! Why so: `docs/decisions/016-what-a-nodepool-may-bring.md`.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use rotate_shared::{Amounts, Quantity, names};

use super::kinds::{self, Kind, is_of_machines};
use super::{NodeClaim, NodePool, Objects, POOL, Requirement};
use crate::cache::State;
use crate::provider::headroom::unborn;
use crate::provider::{Headroom, Listing, NewNode};

/// The label of what an instance is paid as: spot, on demand, reserved.
const CAPACITY_TYPE: &str = "karpenter.sh/capacity-type";
/// The number of nodes among a pool's limits.
const NODES: &str = "nodes";
/// In how many ways one kind of machine is considered: several labels with several values each multiply.
const WAYS: usize = 256;

/// The headroom of every pool, in the order in which Karpenter tries them.
pub(super) fn headroom(objects: &Objects, state: &State) -> Vec<Headroom> {
    let unknown = |why: String| {
        let ours = state.nodes().any(|node| node.label(POOL).is_some());
        let none = Headroom {
            source: "Karpenter".to_owned(),
            nodes_left: Some(0),
            resources_left: Amounts::new(),
            limit: why,
            shapes: Vec::new(),
        };
        if ours { vec![none] } else { Vec::new() }
    };
    match &objects.pools {
        Listing::Absent => return unknown("karpenter.sh/v1 NodePools are not served here".to_owned()),
        Listing::Forbidden(message) => return unknown(format!("its NodePools may not be read: {message}")),
        Listing::Unconverted(message) => {
            return unknown(format!("its NodePools cannot be read as karpenter.sh/v1: {message}"));
        }
        Listing::Read { .. } => {}
    }
    let kinds = kinds::kinds(objects, state);
    let mut pools: Vec<_> = objects.pools.items().iter().collect();
    pools.sort_by_key(|pool| (Reverse(pool.weight), &pool.name));
    pools.into_iter().map(|pool| of_pool(pool, objects, &kinds, state)).collect()
}

/// Why a pool brings no node for Pods at all.
pub(super) fn stands_still(pool: &NodePool) -> Option<String> {
    if pool.deleting {
        return Some("it is being deleted".to_owned());
    }
    if let Some(replicas) = pool.replicas {
        return Some(format!("it is static: spec.replicas is {replicas}, whatever Pods wait"));
    }
    if !pool.ready.is_true() {
        let said = if pool.ready.message.is_empty() { &pool.ready.reason } else { &pool.ready.message };
        let because = if said.is_empty() { String::new() } else { format!(": {said}") };
        return Some(format!("it is not Ready{because}"));
    }
    None
}

fn of_pool(pool: &NodePool, objects: &Objects, kinds: &[Kind<'_>], state: &State) -> Headroom {
    let source = format!("NodePool {}", pool.name);
    if let Some(why) = stands_still(pool) {
        return Headroom {
            limit: format!("{source}: {why}"),
            source,
            nodes_left: Some(0),
            resources_left: Amounts::new(),
            shapes: Vec::new(),
        };
    }
    let used = used(pool, objects);
    let taken = |resource: &str| used.get(resource).copied().unwrap_or(Quantity::ZERO);
    let left = |(resource, limit): (&String, &Quantity)| (resource.clone(), *limit - taken(resource));
    let mut resources_left: Amounts = pool.limits.iter().map(left).collect();
    let nodes_left = resources_left.remove(NODES).map(|left| u32::try_from(left.value().max(0)).unwrap_or(u32::MAX));
    let limits = pool.limits.iter().map(|(resource, limit)| format!("{resource} {} of {limit}", taken(resource)));
    let limits: Vec<_> = limits.collect();
    Headroom {
        limit: format!("limits of {source}: {} in use, and a new node counts whole", limits.join(", ")),
        source,
        nodes_left,
        resources_left,
        shapes: shapes(pool, objects, kinds, state),
    }
}

/// What a pool's limits are charged with. Its status is up to 5 s old; claims that are there count before it says so.
fn used(pool: &NodePool, objects: &Objects) -> Amounts {
    let mut claimed = Amounts::new();
    let mut add = |resource: &str, amount: Quantity| {
        let sum = claimed.entry(resource.to_owned()).or_insert(Quantity::ZERO);
        *sum = *sum + amount;
    };
    for claim in objects.claims.items().iter().filter(|claim| claim.pool == pool.name && claim.deleted.is_none()) {
        add(NODES, Quantity::from_units(1));
        for (resource, amount) in &claim.capacity {
            add(resource, *amount);
        }
    }
    let mut used = pool.used.clone();
    for (resource, amount) in claimed {
        let said = used.entry(resource).or_insert(Quantity::ZERO);
        *said = (*said).max(amount);
    }
    used
}

/// The nodes that a pool may bring: of the kinds that it has brought, and of those that pools of the same class have
/// brought and that its requirements admit.
fn shapes(pool: &NodePool, objects: &Objects, kinds: &[Kind<'_>], state: &State) -> Vec<NewNode> {
    let (own, others): (Vec<_>, Vec<_>) =
        kinds.iter().filter(|kind| *kind.class == *pool.class).partition(|kind| *kind.pool == *pool.name);
    let of_pool: Vec<_> = own.iter().flat_map(|kind| &kind.nodes).collect();
    let choices = choices(pool, objects);
    let mut met = BTreeSet::new();
    let mut shapes = Vec::new();
    for kind in own.into_iter().chain(others) {
        if !admits(pool, kind) || !met.insert(kind.identity()) {
            continue;
        }
        let (daemons, daemon_pods) = if *kind.pool == *pool.name {
            kinds::daemons(state, kind.nodes.iter())
        } else {
            let (mut daemons, pods) = kinds::daemons(state, kind.nodes.iter());
            let (more, more_pods) = kinds::daemons(state, of_pool.iter().copied());
            daemons.maximum(&more);
            (daemons, pods.max(more_pods))
        };
        for (labels, uncertain) in ways(pool, kind, &choices) {
            shapes.push(NewNode {
                node: unborn(
                    labels.iter().map(|(key, value)| (&**key, &**value)),
                    &pool.taints,
                    kind.allocatable.clone(),
                    kind.max_pods,
                ),
                daemons: daemons.clone(),
                daemon_pods,
                charged: kind.capacity.clone(),
                uncertain,
            });
        }
    }
    shapes
}

/// Whether Karpenter decides which value the label gets, and may do so to suit a Pod.
fn is_choice(key: &str) -> bool {
    matches!(key, names::ZONE | CAPACITY_TYPE) || !is_of_machines(key)
}

fn demands<'a>(pool: &'a NodePool, key: &'a str) -> impl Iterator<Item = &'a Requirement> {
    pool.requirements.iter().filter(move |requirement| *requirement.key == *key)
}

/// Whether a pool's requirements allow machines of this kind, what Karpenter may choose aside.
fn admits(pool: &NodePool, kind: &Kind<'_>) -> bool {
    let fixed = pool.requirements.iter().filter(|requirement| !is_choice(&requirement.key));
    let value = |key: &str| pool.labels.get(key).or_else(|| kind.labels.get(key)).map(|value| &**value);
    fixed.into_iter().all(|requirement| requirement.admits(value(&requirement.key)))
}

type Labels = BTreeMap<Box<str>, Box<str>>;

/// The labels whose values Karpenter chooses for a pool's nodes, with those that it may choose from.
fn choices<'a>(pool: &'a NodePool, objects: &Objects) -> Vec<(&'a str, BTreeSet<Box<str>>)> {
    let custom = pool.requirements.iter().map(|requirement| &*requirement.key).filter(|key| !is_of_machines(key));
    let keys: BTreeSet<&str> = custom.chain([names::ZONE, CAPACITY_TYPE]).collect();
    let keys = keys.into_iter().filter(|key| !pool.labels.contains_key(*key));
    keys.map(|key| (key, values(pool, key, objects))).collect()
}

/// The labels that a node of this kind may join with, each with those of its labels that are not certain.
fn ways(pool: &NodePool, kind: &Kind<'_>, choices: &[(&str, BTreeSet<Box<str>>)]) -> Vec<(Labels, Vec<Box<str>>)> {
    let mut labels = kind.labels.clone();
    labels.extend(pool.labels.clone());
    let mut uncertain = Vec::new();
    let mut ways = vec![labels];
    for (key, values) in choices {
        let key = *key;
        if values.is_empty() || ways.len() * values.len() > WAYS {
            // Karpenter makes up a value where anything goes, and takes a Pod's where it names one.
            let demanded = demands(pool, key).any(|requirement| !requirement.admits(None));
            if demanded || !values.is_empty() {
                uncertain.push(key.into());
            }
            continue;
        }
        let more = ways.iter().flat_map(|labels| values.iter().map(move |value| with(labels, key, value)));
        ways = more.collect();
    }
    ways.into_iter().map(|labels| (labels, uncertain.clone())).collect()
}

/// The values that Karpenter may choose from: those that the pool lists, and those that were seen.
fn values(pool: &NodePool, key: &str, objects: &Objects) -> BTreeSet<Box<str>> {
    let alike = |claim: &&NodeClaim| {
        if is_of_machines(key) { claim.class == pool.class } else { claim.pool == pool.name }
    };
    let seen = objects.claims.items().iter().filter(alike).filter_map(|claim| claim.labels.get(key));
    let listed =
        demands(pool, key).filter(|requirement| requirement.lists()).flat_map(|requirement| &requirement.values);
    let admitted = |value: &str| demands(pool, key).all(|requirement| requirement.admits(Some(value)));
    seen.chain(listed).filter(|value| admitted(value)).cloned().collect()
}

/// The labels with one of them set; what follows from the zone with it.
fn with(labels: &Labels, key: &str, value: &str) -> Labels {
    let mut labels = labels.clone();
    let before = labels.insert(key.into(), value.into());
    if let Some(before) = before.filter(|before| key == names::ZONE && **before != *value) {
        for (_, zone) in labels.iter_mut().filter(|(key, zone)| key.ends_with("/zone") && **zone == before) {
            *zone = value.into();
        }
        labels.retain(|key, _| !key.ends_with("/zone-id"));
    }
    labels
}

#[cfg(test)]
mod tests;
