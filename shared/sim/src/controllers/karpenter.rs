//! Karpenter: brings nodes for Pods that find no room, as the NodePools in the cluster say, and takes nodes away.
//!
//! ```text
//! pending Pods ──▶ provision ──▶ NodeClaim ──▶ launch ──▶ Node
//! expiry, drift, consolidation ──▶ disrupt ──▶ NodeClaim deleted ──▶ terminate: tainted, drained, gone
//! ```

mod claim;
mod disrupt;
mod launch;
mod provision;
mod terminate;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use jiff::Timestamp;
use serde_json::{Value, json};

use self::claim::Choice;
use super::create;
use crate::{
    clock,
    kind::Kind,
    object,
    scheduler::world::Cache,
    settings::Karpenter,
    store::{Key, Store},
};

/// What it looks at.
pub(super) const KINDS: &[Kind] =
    &[Kind::Node, Kind::Pod, Kind::NodePool, Kind::NodeClaim, Kind::DaemonSet, Kind::PodDisruptionBudget];

const POOL: &str = "karpenter.sh/nodepool";
const FINALIZER: &str = "karpenter.sh/termination";
const DISRUPTED: &str = "karpenter.sh/disrupted";
const DO_NOT_DISRUPT: &str = "karpenter.sh/do-not-disrupt";
const INSTANCE_TYPE: &str = "node.kubernetes.io/instance-type";
const CAPACITY_TYPE: &str = "karpenter.sh/capacity-type";
const ZONE: &str = "topology.kubernetes.io/zone";

/// What this Karpenter has under way.
#[derive(Debug)]
pub(super) struct State {
    settings: Karpenter,
    cache: Cache,
    /// What each claim was made to become, and since when it is known. Timestamps of objects are whole seconds.
    choices: BTreeMap<String, (Choice, Timestamp)>,
    /// Since when Pods are waited for that come together.
    batch: Option<Timestamp>,
    /// The Pods that a batch has dealt with: they wait for a node that is on its way, or in vain.
    considered: BTreeSet<String>,
    told: HashMap<String, String>,
    /// When it last looked for nodes to take away.
    polled: Option<Timestamp>,
    /// Since when the Pods of a node are the same.
    quiet: BTreeMap<String, (Vec<String>, Timestamp)>,
    /// Since when a node that goes has nothing on it any more.
    drained: BTreeMap<String, Timestamp>,
    /// When the drain that is under way asks again.
    asked: Option<Timestamp>,
}

impl State {
    pub(super) fn new(settings: Karpenter) -> Self {
        Self {
            settings,
            cache: Cache::default(),
            choices: BTreeMap::new(),
            batch: None,
            considered: BTreeSet::new(),
            told: HashMap::new(),
            polled: None,
            quiet: BTreeMap::new(),
            drained: BTreeMap::new(),
            asked: None,
        }
    }

    pub(super) fn reconcile(&mut self, store: &mut Store) -> Option<Timestamp> {
        if store.iter(Kind::NodePool).next().is_none() && store.iter(Kind::NodeClaim).next().is_none() {
            return None;
        }
        let now = store.now();
        let wakes =
            [self.launch(store, now), self.provision(store, now), self.disrupt(store, now), self.terminate(store, now)];
        count(store, now);
        wakes.into_iter().flatten().min()
    }
}

/// Writes into each pool's status what its nodes add up to.
fn count(store: &mut Store, now: Timestamp) {
    let pools: Vec<Arc<Value>> = store.iter(Kind::NodePool).cloned().collect();
    for pool in pools {
        let claims = claims_of(store, object::name(&pool));
        let standing: Vec<_> = claims.iter().filter(|claim| !object::terminating(claim)).collect();
        let mut resources: BTreeMap<String, i64> =
            ["cpu", "memory", "ephemeral-storage", "pods"].map(|resource| (resource.to_owned(), 0)).into();
        for claim in &standing {
            crate::quantity::add(&mut resources, &crate::quantity::amounts(claim.pointer("/status/capacity")));
        }
        let mut written: BTreeMap<String, String> = BTreeMap::new();
        for (resource, amount) in resources {
            let text = if resource == "cpu" { format!("{amount}m") } else { amount.to_string() };
            written.insert(resource, text);
        }
        written.insert("nodes".to_owned(), standing.len().to_string());
        store.update(Kind::NodePool, &key_of(&pool), |pool| {
            pool["status"]["resources"] = json!(written);
            pool["status"]["nodes"] = json!(standing.len());
            if object::condition(pool, "Ready").is_none() {
                object::set_condition(pool, "Ready", "True", "Ready", "", now);
            }
        });
    }
}

fn key_of(object: &Value) -> Key {
    (String::new(), object::name(object).to_owned())
}

/// The claims of a pool.
fn claims_of(store: &Store, pool: &str) -> Vec<Arc<Value>> {
    store.iter(Kind::NodeClaim).filter(|claim| object::label(claim, POOL) == Some(pool)).cloned().collect()
}

/// The node behind which a claim stands.
fn node_of(store: &Store, claim: &Value) -> Option<Arc<Value>> {
    store.get(Kind::Node, "", object::text(claim, "/status/nodeName")).cloned()
}

fn is_daemon(pod: &Value) -> bool {
    object::controller(pod).is_some_and(|owner| owner["kind"] == "DaemonSet")
}

/// What Go calls a duration; `None` for `Never` and for what is none.
fn duration(text: &str) -> Option<std::time::Duration> {
    let mut rest = text;
    let mut seconds = 0.0;
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit() && c != '.')?;
        let number: f64 = rest[..digits].parse().ok()?;
        rest = &rest[digits..];
        let (unit, scale) = [("ms", 0.001), ("h", 3600.0), ("m", 60.0), ("s", 1.0)]
            .into_iter()
            .find(|(unit, _)| rest.starts_with(unit))?;
        seconds += number * scale;
        rest = &rest[unit.len()..];
    }
    (!text.is_empty()).then(|| std::time::Duration::from_secs_f64(seconds))
}

/// Says something on an object.
fn say(store: &mut Store, of: Kind, object: &Value, kind: &str, reason: &str, message: &str) {
    let now = clock::seconds(store.now());
    let namespace = object::namespace(object);
    let mut involved = json!({
        "apiVersion": of.api_version(), "kind": of.name(), "name": object::name(object), "uid": object::uid(object),
    });
    if !namespace.is_empty() {
        involved["namespace"] = json!(namespace);
    }
    let event = json!({
        "metadata": {
            "generateName": format!("{}.", object::name(object)),
            "namespace": if namespace.is_empty() { "default" } else { namespace },
        },
        "involvedObject": involved, "reason": reason, "type": kind, "count": 1, "firstTimestamp": now,
        "lastTimestamp": now, "message": message, "source": {"component": "karpenter"},
    });
    create(store, Kind::Event, event);
}
