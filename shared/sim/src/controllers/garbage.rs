//! What goes with something else: dependents with their owner, Pods with their node, everything with its namespace.

use std::collections::HashSet;

use jiff::Timestamp;

use super::key;
use crate::{
    kind::Kind,
    object,
    store::{Key, Store},
};

pub(super) const KINDS: &[Kind] = &[
    Kind::Node,
    Kind::Pod,
    Kind::Namespace,
    Kind::Deployment,
    Kind::ReplicaSet,
    Kind::StatefulSet,
    Kind::DaemonSet,
    Kind::Job,
];

const OWNERS: &[Kind] = &[Kind::Deployment, Kind::ReplicaSet, Kind::StatefulSet, Kind::DaemonSet, Kind::Job];

pub(super) fn reconcile(store: &mut Store) -> Option<Timestamp> {
    orphans(store);
    pods_without_node(store);
    namespaces(store);
    None
}

/// Dependents of a controller that is no more.
fn orphans(store: &mut Store) {
    let owners: HashSet<String> = OWNERS
        .iter()
        .flat_map(|kind| store.iter(*kind))
        .filter(|owner| !object::terminating(owner))
        .map(|owner| object::uid(owner).to_owned())
        .collect();
    for kind in [Kind::ReplicaSet, Kind::Pod] {
        let orphans: Vec<Key> = store
            .iter(kind)
            .filter(|object| !object::terminating(object))
            .filter(|object| {
                object::controller(object).is_some_and(|owner| {
                    let known = OWNERS.iter().any(|kind| kind.name() == owner["kind"]);
                    known && !owners.contains(object::text(owner, "/uid"))
                })
            })
            .map(|object| key(object))
            .collect();
        for orphan in orphans {
            store.delete(kind, &orphan, None);
        }
    }
}

/// Nobody is left to end them.
fn pods_without_node(store: &mut Store) {
    let nodes: HashSet<String> = store.iter(Kind::Node).map(|node| object::name(node).to_owned()).collect();
    let lost: Vec<Key> = store
        .iter(Kind::Pod)
        .filter(|pod| !object::node_name(pod).is_empty() && !nodes.contains(object::node_name(pod)))
        .map(|pod| key(pod))
        .collect();
    for pod in lost {
        store.delete(Kind::Pod, &pod, Some(0));
    }
}

/// Empties namespaces that are going, then lets them go.
fn namespaces(store: &mut Store) {
    let going: Vec<String> = store
        .iter(Kind::Namespace)
        .filter(|namespace| object::terminating(namespace))
        .map(|namespace| object::name(namespace).to_owned())
        .collect();
    for namespace in going {
        let mut empty = true;
        for kind in Kind::all().filter(|kind| kind.namespaced()) {
            let inside: Vec<Key> = store
                .iter(kind)
                .filter(|object| object::namespace(object) == namespace)
                .map(|object| key(object))
                .collect();
            for object in inside {
                store.delete(kind, &object, None);
                empty &= store.get(kind, &object.0, &object.1).is_none();
            }
        }
        if empty {
            store.remove(Kind::Namespace, &(String::new(), namespace));
        }
    }
}
