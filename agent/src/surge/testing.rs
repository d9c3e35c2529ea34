//! Objects for tests, read through the cache's own decoder.

use serde_json::{Value, json};

use crate::cache::index::Unreadable;
use crate::cache::{Kind, Node, Pdb, Pod, State, decode};

/// When every test object was created.
pub(crate) const CREATED: &str = "2026-01-05T00:00:00Z";

/// Puts `over` into `into`: objects are merged, everything else is replaced.
pub(crate) fn merge(into: &mut Value, over: &Value) {
    match (into, over) {
        (Value::Object(into), Value::Object(over)) => {
            for (key, value) in over {
                merge(into.entry(key.clone()).or_insert(Value::Null), value);
            }
        }
        (into, over) => *into = over.clone(),
    }
}

/// A running Pod of a ReplicaSet on the node `cand`, with what `over` says in its place. Its UID is its name.
pub(crate) fn pod(namespace: &str, name: &str, over: &Value) -> Pod {
    let mut object = json!({
        "metadata": {
            "namespace": namespace,
            "name": name,
            "uid": name,
            "creationTimestamp": CREATED,
            "ownerReferences": [owner("apps/v1", "ReplicaSet", "web")],
        },
        "spec": { "nodeName": "cand", "containers": [{ "name": "app" }] },
        "status": { "phase": "Running", "conditions": [{ "type": "Ready", "status": "True" }] },
    });
    merge(&mut object, over);
    decode::pod(&object.to_string()).unwrap().to_pod()
}

/// A Pod on a node that cannot be read. Its UID is its name.
pub(crate) fn unreadable(name: &str, node: &str) -> Unreadable {
    Unreadable {
        kind: Kind::Pods,
        object: decode::Identity { uid: name.into(), name: name.into(), ..Default::default() },
        node: Some(node.into()),
        message: "read Pod x: quantity".to_owned(),
    }
}

/// A controlling owner reference.
pub(crate) fn owner(api_version: &str, kind: &str, name: &str) -> Value {
    json!({ "apiVersion": api_version, "kind": kind, "name": name, "uid": name, "controller": true })
}

/// A list of one container that requests this.
pub(crate) fn requesting(requests: &Value) -> Value {
    json!({ "spec": { "containers": [{ "name": "app", "resources": { "requests": requests } }] } })
}

/// A Ready node with its name as host name label, 4 CPU, 16Gi and 110 Pods, with what `over` says in its place.
pub(crate) fn node(name: &str, over: &Value) -> Node {
    let mut object = json!({
        "metadata": {
            "name": name,
            "uid": name,
            "creationTimestamp": CREATED,
            "labels": { "kubernetes.io/hostname": name, "topology.kubernetes.io/zone": "a" },
        },
        "status": {
            "allocatable": { "cpu": "4", "memory": "16Gi", "ephemeral-storage": "100Gi", "pods": "110" },
            "conditions": [{ "type": "Ready", "status": "True" }],
        },
    });
    merge(&mut object, over);
    decode::node(&object.to_string()).unwrap()
}

/// A state with these nodes and Pods.
pub(crate) fn state(nodes: impl IntoIterator<Item = Node>, pods: impl IntoIterator<Item = Pod>) -> State {
    let mut state = State::default();
    for node in nodes {
        state.apply_node(node);
    }
    for pod in pods {
        state.apply_pod(&pod.view());
    }
    state
}

/// A disruption budget, from its whole JSON.
pub(crate) fn pdb(object: &Value) -> Pdb {
    decode::pdb(&object.to_string()).unwrap()
}
