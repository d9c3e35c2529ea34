//! The controllers that act on objects: each a decision over the store, made again at each change of what it looks at.

use std::{collections::HashMap, sync::Arc};

use jiff::Timestamp;
use serde_json::Value;
use tokio::task::{AbortHandle, JoinSet};

use crate::{
    admission,
    cluster::Cluster,
    kind::Kind,
    object,
    settings::Karpenter,
    store::{Key, Store},
};

mod daemon_set;
mod deployment;
mod disruption;
mod garbage;
mod job;
mod karpenter;
mod node_lifecycle;
mod provisioner;
mod replica_set;
mod stateful_set;
#[cfg(test)]
mod tests;

/// Starts them all.
pub(crate) fn spawn(tasks: &mut JoinSet<()>, cluster: &Arc<Cluster>) {
    let mut add = |kinds: &'static [Kind], reconcile: fn(&mut Store) -> Option<Timestamp>| {
        tasks.spawn(drive(cluster.clone(), kinds, move |cluster: &Cluster| reconcile(&mut cluster.store())));
    };
    add(&[Kind::Deployment, Kind::ReplicaSet], deployment::reconcile);
    add(&[Kind::ReplicaSet, Kind::Pod, Kind::Namespace], replica_set::reconcile);
    add(&[Kind::StatefulSet, Kind::Pod, Kind::Namespace], stateful_set::reconcile);
    add(&[Kind::Job, Kind::Pod, Kind::Namespace], job::reconcile);
    add(&[Kind::DaemonSet, Kind::Pod, Kind::Node, Kind::Namespace], daemon_set::reconcile);
    add(&[Kind::PodDisruptionBudget, Kind::Pod, Kind::ReplicaSet, Kind::StatefulSet, Kind::Job], disruption::reconcile);
    add(&[Kind::Node], node_lifecycle::taint);
    add(garbage::KINDS, garbage::reconcile);
    let mut evictor = node_lifecycle::Evictor::default();
    tasks.spawn(drive(cluster.clone(), &[Kind::Node, Kind::Pod], move |cluster: &Cluster| {
        evictor.reconcile(&mut cluster.store())
    }));
    for provisioner in &cluster.settings.provisioners {
        let mut provisioner = provisioner::State::new(provisioner.clone());
        tasks.spawn(drive(cluster.clone(), &[Kind::Node, Kind::Pod], move |cluster: &Cluster| {
            provisioner.reconcile(&mut cluster.store())
        }));
    }
}

/// Starts a Karpenter.
pub(crate) fn spawn_karpenter(tasks: &mut JoinSet<()>, cluster: &Arc<Cluster>, settings: Karpenter) -> AbortHandle {
    let mut karpenter = karpenter::State::new(settings);
    tasks.spawn(drive(cluster.clone(), karpenter::KINDS, move |cluster: &Cluster| {
        karpenter.reconcile(&mut cluster.store())
    }))
}

/// Calls `reconcile` at each change of these kinds, and at the time it asks for.
async fn drive(
    cluster: Arc<Cluster>,
    kinds: &'static [Kind],
    mut reconcile: impl FnMut(&Cluster) -> Option<Timestamp>,
) {
    let mut changes = cluster.store().subscribe();
    let mut seen = None;
    let mut wake = None;
    loop {
        changes.mark_unchanged();
        let version = cluster.store().version_of(kinds);
        if seen != Some(version) || wake.is_some_and(|at| at <= cluster.clock.now()) {
            seen = Some(version);
            wake = reconcile(&cluster);
        }
        tokio::select! {
            changed = changes.changed() => if changed.is_err() { return },
            () = cluster.clock.sleep_until(wake) => {}
        }
    }
}

fn key(object: &Value) -> Key {
    (object::namespace(object).to_owned(), object::name(object).to_owned())
}

/// Pods by the UID of their controller.
fn pods_by_owner(store: &Store) -> HashMap<String, Vec<Arc<Value>>> {
    let mut pods: HashMap<String, Vec<Arc<Value>>> = HashMap::new();
    for pod in store.iter(Kind::Pod) {
        let owner = object::controller_uid(pod);
        if !owner.is_empty() {
            pods.entry(owner.to_owned()).or_default().push(pod.clone());
        }
    }
    pods
}

/// A Pod of a workload's template.
fn pod_of(owner: &Value) -> Value {
    let template = &owner["spec"]["template"];
    let mut metadata = serde_json::json!({
        "namespace": object::namespace(owner),
        "generateName": format!("{}-", object::name(owner)),
        "ownerReferences": [object::owner_reference(owner)],
    });
    for key in ["labels", "annotations"] {
        if !template["metadata"][key].is_null() {
            metadata[key] = template["metadata"][key].clone();
        }
    }
    serde_json::json!({"metadata": metadata, "spec": template["spec"]})
}

/// As through the API; what it refuses is tried again at the next change.
fn create(store: &mut Store, kind: Kind, mut object: Value) {
    let admitted = admission::admit(store, kind, &mut object);
    let created = admitted.and_then(|()| store.create(kind, object).map(|_| ()));
    if let Err(failure) = created {
        tracing::debug!(kind = kind.name(), error = failure.message, "a controller could not create an object");
    }
}

/// Writes what a controller observed, with the generation it saw.
fn report(store: &mut Store, kind: Kind, owner: &Value, status: &Value) {
    let map = status.as_object().expect("a status is an object");
    let generation = &owner["metadata"]["generation"];
    let known = owner["status"]["observedGeneration"] == *generation
        && map.iter().all(|(key, value)| owner["status"][key] == *value);
    if known {
        return;
    }
    store.update(kind, &key(owner), |object| {
        for (key, value) in map {
            object["status"][key] = value.clone();
        }
        object["status"]["observedGeneration"] = generation.clone();
    });
}

/// How many a workload wants.
fn replicas(owner: &Value) -> usize {
    object::number(owner, "/spec/replicas").and_then(|n| usize::try_from(n).ok()).unwrap_or(1)
}

fn count_ready(pods: &[Arc<Value>]) -> usize {
    pods.iter().filter(|pod| object::active(pod) && object::ready(pod)).count()
}
