//! Nodes' taints by their condition, and the Pods that must leave for them.

use std::{collections::HashMap, sync::Arc, time::Duration};

use jiff::Timestamp;
use serde_json::{Value, json};

use super::key;
use crate::{clock, kind::Kind, object, store::Store};

const NOT_READY: &str = "node.kubernetes.io/not-ready";
const UNREACHABLE: &str = "node.kubernetes.io/unreachable";
const UNSCHEDULABLE: &str = "node.kubernetes.io/unschedulable";

/// Sets the taints that follow from what each node says of itself.
pub(super) fn taint(store: &mut Store) -> Option<Timestamp> {
    let nodes: Vec<Arc<Value>> = store.iter(Kind::Node).cloned().collect();
    for node in nodes {
        let taints = taints(&node);
        if taints != object::list(&node, "/spec/taints") {
            store.update(Kind::Node, &key(&node), |node| {
                if taints.is_empty() {
                    object::remove(node, "/spec", "taints");
                } else {
                    node["spec"]["taints"] = json!(taints);
                }
            });
        }
    }
    None
}

/// Those of others, and ours.
fn taints(node: &Value) -> Vec<Value> {
    let ours = |taint: &&Value| {
        let key = object::text(taint, "/key");
        key == NOT_READY || key == UNREACHABLE || (key == UNSCHEDULABLE && taint["effect"] == "NoSchedule")
    };
    let mut wanted: Vec<(&str, &str)> = Vec::new();
    match object::condition(node, "Ready") {
        Some("False") => wanted.extend([(NOT_READY, "NoSchedule"), (NOT_READY, "NoExecute")]),
        Some("Unknown") => wanted.extend([(UNREACHABLE, "NoSchedule"), (UNREACHABLE, "NoExecute")]),
        // No condition at all lifts the taint too: upstream looks only at conditions that are there.
        _ => {}
    }
    if node["spec"]["unschedulable"] == true {
        wanted.push((UNSCHEDULABLE, "NoSchedule"));
    }
    let present = object::list(node, "/spec/taints");
    let mut taints: Vec<Value> = present.iter().filter(|taint| !ours(taint)).cloned().collect();
    for (key, effect) in wanted {
        let kept = present.iter().find(|taint| taint["key"] == key && taint["effect"] == effect);
        taints.push(kept.cloned().unwrap_or_else(|| json!({"key": key, "effect": effect})));
    }
    taints
}

/// Deletes Pods from nodes with a `NoExecute` taint that they do not tolerate, or no longer.
#[derive(Debug, Default)]
pub(super) struct Evictor {
    since: HashMap<String, Timestamp>,
}

impl Evictor {
    pub(super) fn reconcile(&mut self, store: &mut Store) -> Option<Timestamp> {
        let now = store.now();
        let tainted: HashMap<String, Vec<Value>> = store
            .iter(Kind::Node)
            .map(|node| {
                let all = object::list(node, "/spec/taints").iter();
                let taints = all.filter(|taint| taint["effect"] == "NoExecute").cloned().collect();
                (object::name(node).to_owned(), taints)
            })
            .filter(|(_, taints): &(String, Vec<Value>)| !taints.is_empty())
            .collect();
        if tainted.is_empty() {
            self.since.clear();
            return None;
        }
        let pods: Vec<Arc<Value>> =
            store.iter(Kind::Pod).filter(|pod| tainted.contains_key(object::node_name(pod))).cloned().collect();
        let mut wake: Option<Timestamp> = None;
        let before = std::mem::take(&mut self.since);
        for pod in pods.iter().filter(|pod| object::active(pod)) {
            let uid = object::uid(pod).to_owned();
            let since = before.get(&uid).copied().unwrap_or(now);
            self.since.insert(uid, since);
            let Some(stay) = tolerated_for(pod, &tainted[object::node_name(pod)]) else { continue };
            let end = clock::after(since, stay);
            if end <= now {
                store.delete(Kind::Pod, &key(pod), None);
            } else {
                wake = Some(wake.map_or(end, |at| at.min(end)));
            }
        }
        wake
    }
}

/// How long a Pod may stay; `None` for ever.
fn tolerated_for(pod: &Value, taints: &[Value]) -> Option<Duration> {
    let limit = |taint: &Value| {
        let matching = object::list(pod, "/spec/tolerations").iter().filter(|toleration| {
            let key = object::text(toleration, "/key");
            (key.is_empty() || taint["key"] == key)
                && matches!(object::text(toleration, "/effect"), "" | "NoExecute")
                && (toleration["operator"] == "Exists" || toleration["value"] == taint["value"])
        });
        let limits: Vec<Option<i64>> = matching.map(|t| object::number(t, "/tolerationSeconds")).collect();
        if limits.is_empty() { Some(0) } else { limits.into_iter().flatten().min() }
    };
    let shortest = taints.iter().filter_map(limit).min()?;
    Some(Duration::from_secs(u64::try_from(shortest).unwrap_or(0)))
}
