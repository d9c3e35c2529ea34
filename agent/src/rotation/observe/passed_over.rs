//! Pods that the scheduler has passed over on nodes of ours.

use std::collections::BTreeSet;
use std::sync::Arc;

use jiff::SignedDuration;

use crate::cache::Pod;
use crate::rotation::observation::PassedOver;
use crate::rotation::progress::Known;
use crate::surge::fit;

/// How long a Pod waits before the scheduler is woken; creation times are whole seconds, a preemption takes 0.07–0.4 s.
/// Doubles each time.
const PATIENCE: SignedDuration = SignedDuration::from_secs(2);

/// Unbound Pods that the scheduler means to put on a node where this rotation held room, or where its Pods landed, and
/// that fit there as it is: nothing is left to wait for.
pub(super) fn passed_over(known: &Known<'_>) -> Vec<PassedOver> {
    let Known { entry, state, memory, now } = *known;
    // Mostly nobody is: the Pods of all owners are not built for nothing at each pass.
    if !state.nominates() {
        return Vec::new();
    }
    let record = &entry.record;
    let owners = record.moves().iter().filter_map(|moved| moved.owner.as_ref());
    let owners: BTreeSet<&str> = owners.map(|owner| &*owner.uid).collect();
    let landed = owners.into_iter().flat_map(|owner| state.pods_of_owner(owner));
    let mut nodes: BTreeSet<Arc<str>> = landed.filter_map(|pod| pod.node).collect();
    nodes.extend(memory.held_on.iter().cloned());

    let is_due = |pod: &Pod| {
        let (attempt, last) = memory.woken.get(&*pod.uid).copied().unwrap_or((0, pod.created));
        let patience = PATIENCE.saturating_mul(1 << attempt.min(8));
        (now.duration_since(last) >= patience).then_some(attempt)
    };
    let mut pods = Vec::new();
    for node in nodes.iter().filter_map(|name| state.node(name)) {
        for pod in state.arriving_on(&node.name) {
            let waits = pod.deleted.is_none() && !pod.is_placeholder();
            let Some(attempt) = is_due(&pod).filter(|_| waits) else { continue };
            if fit::fits(&pod, node, state, &BTreeSet::new()).is_ok() {
                pods.push(PassedOver { uid: pod.uid.to_string(), path: pod.path(), attempt });
            }
        }
    }
    pods
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::cache::State;
    use crate::rotation::memory::Memory;
    use crate::rotation::store::Entry;
    use crate::rotation::testing::{after, cluster, entry, landed, young};

    /// A landed Pod on node `b`, and one of this size that the scheduler means to put there.
    fn waiting(entry: &Entry, cpu: &str) -> State {
        let over = json!({
            "spec": { "containers": [{ "name": "app", "resources": { "requests": { "cpu": cpu } } }] },
            "status": { "nominatedNodeName": "b" },
        });
        cluster(entry, &["b"], [landed("p2", "b"), young("p3", &over)])
    }

    fn seen(entry: &Entry, state: &State, memory: &Memory, second: i64) -> Vec<PassedOver> {
        passed_over(&Known { entry, state, memory, now: after(second) })
    }

    #[test]
    fn a_pod_that_fits_where_it_is_meant_to_go_is_passed_over_after_two_seconds() {
        let entry = entry(&["p1"]);
        let state = waiting(&entry, "1");
        assert!(seen(&entry, &state, &Memory::default(), 11).is_empty());
        let path = "shop/p3".to_owned();
        let expected = PassedOver { uid: "p3".to_owned(), path, attempt: 0 };
        assert_eq!(seen(&entry, &state, &Memory::default(), 12), [expected]);
    }

    #[test]
    fn a_pod_whose_room_is_still_taken_waits_for_it() {
        let entry = entry(&["p1"]);
        assert!(seen(&entry, &waiting(&entry, "8"), &Memory::default(), 60).is_empty());
    }

    #[test]
    fn a_pod_that_waking_did_not_help_is_left_alone_for_longer_each_time() {
        let entry = entry(&["p1"]);
        let state = waiting(&entry, "1");
        let woken =
            |times, second| Memory { woken: [("p3".to_owned(), (times, after(second)))].into(), ..Memory::default() };
        assert!(seen(&entry, &state, &woken(1, 12), 15).is_empty());
        assert_eq!(seen(&entry, &state, &woken(1, 12), 16)[0].attempt, 1);
        assert!(seen(&entry, &state, &woken(3, 20), 35).is_empty());
    }

    #[test]
    fn pods_on_nodes_that_have_nothing_to_do_with_the_rotation_are_not_our_business() {
        let entry = entry(&["p1"]);
        let elsewhere = young("p3", &json!({ "status": { "nominatedNodeName": "c" } }));
        let state = cluster(&entry, &["b", "c"], [landed("p2", "b"), elsewhere]);
        assert!(seen(&entry, &state, &Memory::default(), 60).is_empty());
        let memory = Memory { held_on: ["c".into()].into(), ..Memory::default() };
        assert_eq!(seen(&entry, &state, &memory, 60).len(), 1, "but where we held room, they are");
    }
}
