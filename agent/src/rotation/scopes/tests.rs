use rotate_shared::{Phase, names};
use serde_json::json;

use super::*;
use crate::rotation::testing::{after, cluster, entry, landed, old, young};
use crate::surge::testing;

fn told(scopes: &BTreeSet<Partition>) -> Vec<String> {
    scopes.iter().map(ToString::to_string).collect()
}

fn placeholder(entry: &Entry, node: Option<&str>) -> Pod {
    let labels = json!({ names::ROTATION: entry.record.id, names::POD_UID: "p1", names::CLASS: "a" });
    let over = json!({ "metadata": { "labels": labels, "ownerReferences": null }, "spec": { "nodeName": node } });
    testing::pod(names::ROOM_NAMESPACE, "room-1", &over)
}

#[test]
fn a_rotation_that_waits_or_is_over_needs_nothing() {
    let mut entry = entry(&["p1"]);
    let state = cluster(&entry, &["b"], [old("p1")]);
    assert!(!needed(&entry, &state, None).is_empty());
    for phase in [Phase::Queued, Phase::RollingBack, Phase::Succeeded] {
        entry.record.enter(phase, after(1));
        assert!(needed(&entry, &state, None).is_empty(), "{phase}");
    }
}

#[test]
fn the_candidate_and_the_namespaces_of_what_must_move_are_needed() {
    let mut entry = entry(&[]);
    entry.record.surge = None;
    let daemon = json!({ "metadata": { "ownerReferences": [testing::owner("apps/v1", "DaemonSet", "logs")] } });
    let apart = json!({ "spec": { "affinity": { "podAntiAffinity": { "requiredDuringSchedulingIgnoredDuringExecution": [{
        "topologyKey": "kubernetes.io/hostname", "namespaces": ["rivals"], "labelSelector": {},
    }] } } } });
    let pods = [old("p1"), testing::pod("kube-system", "logs-1", &daemon), testing::pod("bank", "b1", &apart)];
    let state = cluster(&entry, &["b"], pods);
    assert_eq!(
        told(&essential(&entry.record, &state)),
        ["node cand", "namespace bank", "namespace rivals", "namespace shop"]
    );
}

#[test]
fn namespaces_of_pods_that_moved_stay_needed() {
    let entry = entry(&["p1"]);
    let state = cluster(&entry, &["b"], []);
    assert_eq!(told(&essential(&entry.record, &state)), ["node cand", "namespace shop"]);
}

#[test]
fn nodes_with_our_room_or_a_replacement_are_needed_for_as_long_as_the_rotation_lasts() {
    let entry = entry(&["p1", "p2", "p3"]);
    let pods = [old("p3"), placeholder(&entry, Some("b")), landed("n1", "c"), young("n2", &json!({}))];
    let state = cluster(&entry, &["b", "c", "d"], pods);
    let expected = ["node b", "node c", "node cand", "namespace shop"];
    assert_eq!(told(&needed(&entry, &state, None)), expected);
    let state = cluster(&entry, &["b", "c", "d"], [placeholder(&entry, None)]);
    let memory = Memory { held_on: ["d".into()].into(), ..Memory::default() };
    assert_eq!(told(&needed(&entry, &state, Some(&memory))), ["node cand", "node d", "namespace shop"]);
}

#[test]
fn a_rotation_is_unread_until_everything_essential_is() {
    let entry = entry(&["p1"]);
    let mut state = State::scoped();
    assert_eq!(unread(&entry.record, &state), Some(Partition::node("cand")));
    state.cover(Partition::node("cand"));
    assert_eq!(unread(&entry.record, &state), Some(Partition::namespace("shop")));
    state.cover(Partition::namespace("shop"));
    assert_eq!(unread(&entry.record, &state), None);
    state.apply_pod(&testing::pod("late", "l1", &json!({})).view());
    assert_eq!(unread(&entry.record, &state), Some(Partition::namespace("late")));
    assert_eq!(unread(&entry.record, &State::default()), None, "where every Pod is read, nothing is left out");
}
