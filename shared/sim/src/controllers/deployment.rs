//! Deployments: one ReplicaSet a template; an older one shrinks as the newer gets Ready.

use std::sync::Arc;

use jiff::Timestamp;
use serde_json::{Value, json};

use super::{create, key, replicas, report};
use crate::{kind::Kind, object, store::Store};

const HASH: &str = "pod-template-hash";

pub(super) fn reconcile(store: &mut Store) -> Option<Timestamp> {
    let deployments: Vec<Arc<Value>> = store.iter(Kind::Deployment).cloned().collect();
    for deployment in deployments.iter().filter(|deployment| !object::terminating(deployment)) {
        let hash = hash(&deployment["spec"]["template"]);
        let uid = object::uid(deployment);
        let sets: Vec<Arc<Value>> =
            store.iter(Kind::ReplicaSet).filter(|set| object::controller_uid(set) == uid).cloned().collect();
        let wanted = replicas(deployment);
        let ready = |set: &Value| object::number(set, "/status/readyReplicas").unwrap_or(0);
        let (current, older): (Vec<_>, Vec<_>) =
            sets.iter().partition(|set| object::label(set, HASH) == Some(hash.as_str()));
        match current.first() {
            None => create(store, Kind::ReplicaSet, set_of(deployment, &hash, wanted)),
            Some(set) => scale(store, set, wanted),
        }
        let new_ready = current.first().map_or(0, |set| usize::try_from(ready(set)).unwrap_or(0));
        let mut keep = wanted.saturating_sub(new_ready);
        for set in older {
            let size = replicas(set).min(keep);
            keep -= size;
            scale(store, set, size);
        }
        let sum = |value: &dyn Fn(&Value) -> i64| sets.iter().map(|set| value(set)).sum::<i64>();
        let all_ready = sum(&ready);
        let status = json!({
            "replicas": sum(&|set| object::number(set, "/status/replicas").unwrap_or(0)),
            "readyReplicas": all_ready, "availableReplicas": all_ready,
            "updatedReplicas": current.first().and_then(|set| object::number(set, "/status/replicas")).unwrap_or(0),
        });
        report(store, Kind::Deployment, deployment, &status);
    }
    None
}

fn scale(store: &mut Store, set: &Value, size: usize) {
    store.update(Kind::ReplicaSet, &key(set), |set| set["spec"]["replicas"] = json!(size));
}

fn set_of(deployment: &Value, hash: &str, size: usize) -> Value {
    let mut spec = json!({
        "replicas": size, "selector": deployment["spec"]["selector"], "template": deployment["spec"]["template"],
    });
    spec["selector"]["matchLabels"][HASH] = json!(hash);
    spec["template"]["metadata"]["labels"][HASH] = json!(hash);
    json!({
        "metadata": {
            "name": format!("{}-{hash}", object::name(deployment)), "namespace": object::namespace(deployment),
            "labels": spec["template"]["metadata"]["labels"], "ownerReferences": [object::owner_reference(deployment)],
        },
        "spec": spec,
    })
}

/// FNV-1a of the template.
fn hash(template: &Value) -> String {
    let text = template.to_string();
    let hash = text
        .bytes()
        .fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3));
    format!("{:010x}", hash & 0xff_ffff_ffff)
}
