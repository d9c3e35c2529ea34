//! StatefulSets: Pods by ordinal, each only once the one before is Ready and its predecessor of that name is gone.

use std::sync::Arc;

use jiff::Timestamp;
use serde_json::{Value, json};

use super::{count_ready, create, pod_of, pods_by_owner, replicas, report};
use crate::{kind::Kind, object, store::Store};

pub(super) fn reconcile(store: &mut Store) -> Option<Timestamp> {
    let sets: Vec<Arc<Value>> = store.iter(Kind::StatefulSet).cloned().collect();
    let owned = pods_by_owner(store);
    for set in sets.iter().filter(|set| !object::terminating(set)) {
        let pods = owned.get(object::uid(set)).map_or(&[][..], Vec::as_slice);
        let namespace = object::namespace(set).to_owned();
        for step in steps(set, pods) {
            match step {
                Step::Create(ordinal) => {
                    for claim in claims(set, ordinal) {
                        if store.get(Kind::PersistentVolumeClaim, &namespace, object::name(&claim)).is_none() {
                            create(store, Kind::PersistentVolumeClaim, claim);
                        }
                    }
                    create(store, Kind::Pod, ordinal_pod(set, ordinal));
                }
                Step::Delete(name) => {
                    store.delete(Kind::Pod, &(namespace.clone(), name), None);
                }
            }
        }
        let active = pods.iter().filter(|pod| object::active(pod)).count();
        let ready = count_ready(pods);
        let status = json!({
            "replicas": active, "readyReplicas": ready, "availableReplicas": ready, "currentReplicas": active,
        });
        report(store, Kind::StatefulSet, set, &status);
    }
    None
}

#[derive(Debug, PartialEq, Eq)]
enum Step {
    Create(usize),
    Delete(String),
}

/// What may be done now.
fn steps(set: &Value, pods: &[Arc<Value>]) -> Vec<Step> {
    let wanted = replicas(set);
    let parallel = object::text(set, "/spec/podManagementPolicy") == "Parallel";
    let name = |ordinal: usize| format!("{}-{ordinal}", object::name(set));
    let mut steps = Vec::new();
    for ordinal in 0..wanted {
        let pod = pods.iter().find(|pod| object::name(pod) == name(ordinal));
        match pod {
            None => steps.push(Step::Create(ordinal)),
            Some(pod) if object::finished(pod) && !object::terminating(pod) => steps.push(Step::Delete(name(ordinal))),
            Some(pod) if object::active(pod) && object::ready(pod) => continue,
            Some(_) => {}
        }
        if !parallel {
            return steps;
        }
    }
    let ordinal = |pod: &Value| object::name(pod).rsplit_once('-').and_then(|(_, n)| n.parse::<usize>().ok());
    let surplus = pods.iter().filter(|pod| ordinal(pod).is_some_and(|n| n >= wanted));
    if let Some(last) = surplus.max_by_key(|pod| ordinal(pod))
        && !object::terminating(last)
    {
        steps.push(Step::Delete(object::name(last).to_owned()));
    }
    steps
}

/// The claims of one ordinal; they outlive its Pods.
fn claims(set: &Value, ordinal: usize) -> Vec<Value> {
    let templates = object::list(set, "/spec/volumeClaimTemplates").iter();
    templates
        .map(|template| {
            let mut claim = template.clone();
            claim["metadata"]["name"] = json!(format!("{}-{}-{ordinal}", object::name(template), object::name(set)));
            claim["metadata"]["namespace"] = set["metadata"]["namespace"].clone();
            claim
        })
        .collect()
}

fn ordinal_pod(set: &Value, ordinal: usize) -> Value {
    let mut pod = pod_of(set);
    let name = format!("{}-{ordinal}", object::name(set));
    object::remove(&mut pod, "/metadata", "generateName");
    pod["metadata"]["labels"]["statefulset.kubernetes.io/pod-name"] = json!(name);
    pod["metadata"]["labels"]["apps.kubernetes.io/pod-index"] = json!(ordinal.to_string());
    pod["metadata"]["name"] = json!(name);
    for template in object::list(set, "/spec/volumeClaimTemplates") {
        let claim = format!("{}-{name}", object::name(template));
        if !pod["spec"]["volumes"].is_array() {
            pod["spec"]["volumes"] = json!([]);
        }
        let volumes = pod["spec"]["volumes"].as_array_mut().expect("it was just made an array");
        volumes.push(json!({"name": object::name(template), "persistentVolumeClaim": {"claimName": claim}}));
    }
    pod
}
