//! ReplicaSets: as many active Pods as wanted. One that is terminating no longer counts.

use std::sync::Arc;

use jiff::Timestamp;
use serde_json::{Value, json};

use super::{count_ready, create, key, pod_of, pods_by_owner, replicas, report};
use crate::{
    kind::Kind,
    object,
    store::{Key, Store, selector::LabelSelector},
};

pub(super) fn reconcile(store: &mut Store) -> Option<Timestamp> {
    let sets: Vec<Arc<Value>> = store.iter(Kind::ReplicaSet).cloned().collect();
    sets.iter().filter(|set| !object::terminating(set)).for_each(|set| adopt(store, set));
    let owned = pods_by_owner(store);
    for set in sets.iter().filter(|set| !object::terminating(set)) {
        let pods = owned.get(object::uid(set)).map_or(&[][..], Vec::as_slice);
        let active: Vec<Arc<Value>> = pods.iter().filter(|pod| object::active(pod)).cloned().collect();
        let wanted = replicas(set);
        for _ in active.len()..wanted {
            create(store, Kind::Pod, pod_of(set));
        }
        for pod in surplus(&active, wanted) {
            store.delete(Kind::Pod, &key(&pod), None);
        }
        let ready = count_ready(pods);
        let status = json!({"replicas": active.len(), "readyReplicas": ready, "availableReplicas": ready});
        report(store, Kind::ReplicaSet, set, &status);
    }
    None
}

/// Pods that nobody owns and that it selects become its own.
fn adopt(store: &mut Store, set: &Value) {
    let selector = LabelSelector::of(set.pointer("/spec/selector"));
    let orphaned = |pod: &&Arc<Value>| {
        let alike = object::namespace(pod) == object::namespace(set) && selector.selects(pod);
        alike && object::active(pod) && object::controller(pod).is_none()
    };
    let orphans: Vec<Key> = store.iter(Kind::Pod).filter(orphaned).map(|pod| key(pod)).collect();
    for orphan in orphans {
        store.update(Kind::Pod, &orphan, |pod| {
            pod["metadata"]["ownerReferences"] = json!([object::owner_reference(set)]);
        });
    }
}

/// Those to delete: unscheduled before pending before running, the youngest first.
fn surplus(active: &[Arc<Value>], wanted: usize) -> Vec<Arc<Value>> {
    let mut pods = active.to_vec();
    pods.sort_by_key(|pod| {
        let version: u64 = object::version(pod).parse().unwrap_or(0);
        (!object::node_name(pod).is_empty(), object::ready(pod), std::cmp::Reverse(version))
    });
    pods.truncate(active.len().saturating_sub(wanted));
    pods
}
