//! DaemonSets: one Pod on each node that suits, cordoned or not.

use std::sync::Arc;

use jiff::Timestamp;
use serde_json::{Value, json};

use super::{count_ready, create, key, pod_of, pods_by_owner, report};
use crate::{
    kind::Kind,
    object,
    scheduler::{self, pod::PodInfo, world::NodeInfo},
    store::Store,
};

pub(super) fn reconcile(store: &mut Store) -> Option<Timestamp> {
    let sets: Vec<Arc<Value>> = store.iter(Kind::DaemonSet).cloned().collect();
    let nodes: Vec<NodeInfo> = store.iter(Kind::Node).map(|node| NodeInfo::of(node)).collect();
    let owned = pods_by_owner(store);
    for set in sets.iter().filter(|set| !object::terminating(set)) {
        let pods = owned.get(object::uid(set)).map_or(&[][..], Vec::as_slice);
        let template = daemon_pod(set, "");
        let mut unpinned = PodInfo::of(&template);
        // Where the template may go, before it is pinned to a node.
        unpinned.required = PodInfo::of(&pod_of(set)).required;
        let mut wanted = 0;
        for node in &nodes {
            let suits = scheduler::suits(&unpinned, node);
            let present: Vec<&Arc<Value>> = pods.iter().filter(|pod| node_of(pod) == node.name).collect();
            if !suits {
                for pod in present.iter().filter(|pod| object::active(pod)) {
                    store.delete(Kind::Pod, &key(pod), None);
                }
                continue;
            }
            wanted += 1;
            for failed in present.iter().filter(|pod| object::finished(pod) && !object::terminating(pod)) {
                store.delete(Kind::Pod, &key(failed), None);
            }
            // The old one has to be gone before the next one comes.
            if present.is_empty() {
                create(store, Kind::Pod, daemon_pod(set, &node.name));
            }
        }
        let ready = count_ready(pods);
        let status = json!({
            "desiredNumberScheduled": wanted, "currentNumberScheduled": pods.len(), "numberReady": ready,
            "numberAvailable": ready, "updatedNumberScheduled": pods.len(), "numberMisscheduled": 0,
        });
        report(store, Kind::DaemonSet, set, &status);
    }
    None
}

fn daemon_pod(set: &Value, node: &str) -> Value {
    let mut pod = pod_of(set);
    let pin = json!([{"key": "metadata.name", "operator": "In", "values": [node]}]);
    let required = &mut pod["spec"]["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"];
    match required["nodeSelectorTerms"].as_array_mut() {
        Some(terms) => {
            for term in terms {
                term["matchFields"] = pin.clone();
            }
        }
        None => required["nodeSelectorTerms"] = json!([{"matchFields": pin}]),
    }
    if !pod["spec"]["tolerations"].is_array() {
        pod["spec"]["tolerations"] = json!([]);
    }
    let tolerations = pod["spec"]["tolerations"].as_array_mut().expect("it was just made an array");
    for (condition, effect) in [
        ("not-ready", "NoExecute"),
        ("unreachable", "NoExecute"),
        ("not-ready", "NoSchedule"),
        ("unschedulable", "NoSchedule"),
        ("disk-pressure", "NoSchedule"),
        ("memory-pressure", "NoSchedule"),
        ("pid-pressure", "NoSchedule"),
    ] {
        let key = format!("node.kubernetes.io/{condition}");
        tolerations.push(json!({"key": key, "operator": "Exists", "effect": effect}));
    }
    pod
}

/// The node it is on, or is made for.
fn node_of(pod: &Value) -> &str {
    let bound = object::node_name(pod);
    if !bound.is_empty() {
        return bound;
    }
    let terms = "/spec/affinity/nodeAffinity/requiredDuringSchedulingIgnoredDuringExecution/nodeSelectorTerms";
    object::text(pod, &format!("{terms}/0/matchFields/0/values/0"))
}
