//! The plan of one node, from the cache or from saved objects alike.

use jiff::Timestamp;
use rotate_shared::plan::{Class, Disposition, Estimate, Notice, PlannedPlaceholder, PlannedPod, Provider, Totals};
use rotate_shared::{API_VERSION, Code, Options, Plan, names};

use super::classify::Context;
use super::constraints;
use super::moves::{JudgedPod, Moves, RoomClass, is_kept_for_ever};
use super::promise::{Promise, promise};
use super::room::Preview;
use crate::cache::{Resources, State, Volumes};
use crate::drain::order::{self, Turn};
use crate::provider::cluster_autoscaler::outlook::Demand;
use crate::provider::{self, ProviderObjects};

/// From the placeholder that finds no room to a Ready node: clouds take one to three minutes.
const NODE_START_SECONDS: u64 = 120;
/// From the placeholder to room that is held where it exists already: one scheduling and one image that is there.
const HOLD_SECONDS: u64 = 5;
/// For one group of Pods to shut down and for their replacements to be bound: the default grace period.
const GROUP_SECONDS: u64 = 30;

/// A plan, with what its placeholders are made of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Planned {
    /// As shown.
    pub plan: Plan,
    /// The room of each of its classes.
    pub classes: Vec<RoomClass>,
}

/// Plans the rotation of a node. `None`: no such node.
#[must_use]
pub fn plan(
    state: &State,
    node: &str,
    volumes: &Volumes,
    objects: &ProviderObjects,
    options: &Options,
    now: Timestamp,
) -> Option<Plan> {
    planned(state, node, volumes, objects, options, now).map(|planned| planned.plan)
}

/// Plans the rotation of a node, for who goes on to ask what becomes of its placeholders. `None`: no such node.
#[must_use]
pub fn planned(
    state: &State,
    node: &str,
    volumes: &Volumes,
    objects: &ProviderObjects,
    options: &Options,
    now: Timestamp,
) -> Option<Planned> {
    let node = state.node(node)?;
    let provider = provider::detect(node, objects);
    let Promise { mut moves, preview } = promise(state, &Context::new(node, volumes, options, now), objects);

    let mut blockers = std::mem::take(&mut moves.blockers);
    let mut warnings = std::mem::take(&mut moves.warnings);
    let unseen = objects.unseen.contains(&provider);
    if !unseen {
        let explained = provider::driver(provider).explain(node, state, objects, options, now);
        blockers.extend(explained.blockers);
        warnings.extend(explained.warnings);
    }
    if !state.covers_cluster() && !moves.classes.is_empty() {
        warnings.push(not_looked_at(&node.name));
    } else if preview.open() > 0 {
        warnings.extend(objects.unseen.iter().map(|provider| not_saved(&node.name, *provider, preview.open())));
    }

    let then = provider::then(options, provider, node, objects);
    let requests: Vec<_> = moves.classes.iter().map(|class| &class.requests).collect();
    let demand = Demand { brought: &preview.brought, requests: &requests, then };
    let outlook = objects.autoscaler.outlook(node, state, &demand, now);
    warnings.extend(outlook.warnings);

    let plan = Plan {
        api_version: API_VERSION.to_owned(),
        kind: "Plan".to_owned(),
        node: node.name.to_string(),
        provider,
        // What stands behind it was not looked at.
        cordoned: node.unschedulable && !node.annotations.contains_key(names::CORDONED_BY),
        then: Some(then).filter(|_| !unseen || options.then.is_some() || options.pod_selector.is_some()),
        totals: totals(&moves),
        classes: classes(&moves, &preview),
        placeholders: placeholders(&moves),
        groups: outlook.groups,
        estimate: estimate(&moves, &preview),
        pods: moves.pods.iter().map(|judged| planned_pod(judged, state, options)).collect(),
        blockers,
        warnings,
    };
    Some(Planned { plan, classes: moves.classes })
}

impl Planned {
    /// Its placeholders, by class.
    #[must_use]
    pub fn rooms(&self) -> Vec<Rooms<'_>> {
        let count = |class: &RoomClass| {
            let placeholders = self.plan.placeholders.iter().filter(|placeholder| placeholder.class == class.id);
            u32::try_from(placeholders.count()).unwrap_or(u32::MAX)
        };
        let rooms = self.classes.iter().map(|class| Rooms { class, count: count(class) });
        rooms.collect()
    }
}

/// Placeholders of one class.
#[derive(Clone, Copy, Debug)]
pub struct Rooms<'a> {
    /// What each holds.
    pub class: &'a RoomClass,
    /// How many there are to be.
    pub count: u32,
}

/// Pods that room is reserved for.
fn reserved(moves: &Moves) -> impl Iterator<Item = (&JudgedPod, &str)> {
    moves.pods.iter().filter_map(|judged| Some((judged, judged.class.as_deref()?)))
}

fn totals(moves: &Moves) -> Totals {
    let mut totals = Totals::default();
    let mut sum = Resources::default();
    for (judged, _) in reserved(moves) {
        totals.pods += 1;
        sum.add(&judged.pod.shape.requests);
    }
    totals.reserved = sum.to_amounts();
    totals
}

fn planned_pod(judged: &JudgedPod, state: &State, options: &Options) -> PlannedPod {
    let disposition = match judged.disposition {
        Disposition::Evict if !options.disable_eviction && is_kept_for_ever(state, &judged.pod) => Disposition::Block,
        other => other,
    };
    PlannedPod {
        namespace: judged.pod.namespace.to_string(),
        name: judged.pod.name.to_string(),
        uid: judged.pod.uid.to_string(),
        disposition,
        reserved: judged.class.is_some(),
        reason: judged.reason,
        class: judged.class.clone(),
        requests: judged.pod.shape.requests.to_amounts(),
    }
}

/// One a Pod, or one for all Pods of a class that share it.
fn placeholders(moves: &Moves) -> Vec<PlannedPlaceholder> {
    let mut placeholders: Vec<PlannedPlaceholder> = Vec::new();
    for (judged, id) in reserved(moves) {
        let shared = moves.classes.iter().find(|class| class.id == id && class.shared);
        let Some(class) = shared else {
            placeholders.push(PlannedPlaceholder {
                class: id.to_owned(),
                pod: judged.pod.path(),
                requests: judged.pod.shape.requests.to_amounts(),
            });
            continue;
        };
        if placeholders.is_empty() {
            let pods = reserved(moves).map(|(judged, _)| judged.pod.path()).collect::<Vec<_>>().join(", ");
            placeholders.push(PlannedPlaceholder {
                class: id.to_owned(),
                pod: pods,
                requests: class.requests.to_amounts(),
            });
        }
    }
    placeholders
}

fn classes(moves: &Moves, preview: &Preview) -> Vec<Class> {
    let describe = |(class, room): (&RoomClass, &Vec<_>)| {
        let pods = reserved(moves).filter(|(_, id)| *id == class.id).count();
        Class {
            id: class.id.clone(),
            pods: u32::try_from(pods).unwrap_or(u32::MAX),
            requests: class.requests.to_amounts(),
            constraints: constraints::describe(&class.placement),
            room: room.clone(),
        }
    };
    moves.classes.iter().zip(&preview.rooms).map(describe).collect()
}

/// What a plan cannot tell where only the candidate's Pods and their namespaces are read.
fn not_looked_at(node: &str) -> Notice {
    Notice {
        code: Code::NotLookedAt,
        object: format!("Node {node}"),
        message:
            "only this node's Pods and their namespaces were read: whether other nodes have room, and whether Pods of \
                  other namespaces keep these off a zone by their anti-affinity, was not looked at"
                .to_owned(),
        remedy: "nothing is evicted before its room is held; --pod-cache=cluster looks at every Pod".to_owned(),
    }
}

/// What a plan cannot tell where saved objects are not all that it takes.
fn not_saved(node: &str, provider: Provider, pods: u32) -> Notice {
    let (what, save) = match provider {
        Provider::ClusterAutoscaler => (
            "the ConfigMap in which cluster-autoscaler tells of its groups",
            "kubectl -n kube-system get configmap cluster-autoscaler-status -o yaml",
        ),
        _ => ("NodePools and NodeClaims", "kubectl get nodepools,nodeclaims -o yaml"),
    };
    Notice {
        code: Code::NotLookedAt,
        object: format!("Node {node}"),
        message: format!(
            "no node has room for {pods} of the Pods, and the saved objects lack {what}: whether a new node would \
             come was not looked at"
        ),
        remedy: format!("save them too: {save}"),
    }
}

fn estimate(moves: &Moves, preview: &Preview) -> Estimate {
    let turns: Vec<_> = moves
        .pods
        .iter()
        .filter(|judged| !matches!(judged.disposition, Disposition::Stay | Disposition::Gone))
        .map(|judged| Turn::of(&judged.pod, judged.class.as_deref().unwrap_or_default()))
        .collect();
    let drain_seconds = GROUP_SECONDS * u64::try_from(order::groups(&turns).len()).unwrap_or(u64::MAX);
    let surge_seconds = match (moves.classes.is_empty(), preview.on_new_nodes) {
        (true, _) => 0,
        // Where it was not looked for room, the longer way is taken.
        _ if preview.open() > 0 => NODE_START_SECONDS,
        (false, 0) => HOLD_SECONDS,
        (false, _) => NODE_START_SECONDS,
    };
    let extra_node_seconds = u64::from(preview.new_nodes) * (surge_seconds + drain_seconds);
    Estimate { surge_seconds, drain_seconds, extra_node_seconds }
}

#[cfg(test)]
mod tests;
