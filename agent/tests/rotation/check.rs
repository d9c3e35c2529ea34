//! The invariants, read off what happened.

use rotate_agent::PodCache;
use rotate_shared::names;
use rotate_sim::RequestEntry;
use serde_json::Value;

use crate::world::World;

/// Invariant 1: at each eviction, room is held for the Pod and for every Pod evicted and not yet landed.
pub(crate) fn every_eviction_was_covered(world: &World) {
    assert_eq!(world.guard.violations(), Vec::<String>::new());
    if crate::POD_CACHE == PodCache::Scoped {
        assert_eq!(lists_of_every_pod(world), 0, "no list and no watch of every Pod");
    }
}

/// How often Pods of all nodes and namespaces were listed or watched.
fn lists_of_every_pod(world: &World) -> usize {
    let all = |request: &&RequestEntry| request.path == "/api/v1/pods" && !request.query.contains("fieldSelector");
    world.sim.requests().iter().filter(all).count()
}

/// Invariant 3: nothing of ours is left.
pub(crate) fn nothing_is_left(world: &World, cordoned: &[&str]) {
    assert_eq!(world.pods(names::ROOM_NAMESPACE), Vec::<Value>::new(), "no placeholder");
    for node in world.sim.list("nodes") {
        let name = node["metadata"]["name"].as_str().unwrap();
        let annotations = node["metadata"]["annotations"].as_object().cloned().unwrap_or_default();
        let ours = |key: &&String| {
            key.starts_with("kubectl-rotate.dev/")
                || [names::KARPENTER_DO_NOT_DISRUPT, names::SCALE_DOWN_DISABLED].contains(&key.as_str())
        };
        assert_eq!(annotations.keys().filter(ours).collect::<Vec<_>>(), Vec::<&String>::new(), "marks on {name}");
        let is_cordoned = node["spec"]["unschedulable"] == true;
        assert_eq!(is_cordoned, cordoned.contains(&name), "whether {name} is cordoned");
    }
}

/// Invariant 2: Pods of the workload left by the Eviction API only. Returns how many evictions were asked for and how
/// many were accepted.
pub(crate) fn evictions(world: &World) -> (usize, usize) {
    let requests = world.sim.requests();
    let deleted = requests
        .iter()
        .filter(|request| request.method == "DELETE" && request.path.starts_with("/api/v1/namespaces/shop/pods/"));
    assert_eq!(deleted.count(), 0, "no Pod was deleted past the Eviction API");
    let asked: Vec<_> = requests.iter().filter(|request| request.path.ends_with("/eviction")).collect();
    (asked.len(), asked.iter().filter(|request| request.status == 201).count())
}

/// How often the record was written.
pub(crate) fn record_writes(world: &World, id: &str) -> usize {
    let path = format!("/api/v1/namespaces/{}/configmaps/rotation-{id}", names::NAMESPACE);
    world.sim.requests().iter().filter(|request| request.path == path && request.method == "PATCH").count()
}
