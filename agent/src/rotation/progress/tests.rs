use serde_json::json;

use super::*;
use crate::cache::decode::Workload;
use crate::rotation::testing::{after, cluster, entry, landed, moved, old, owner, young};

/// The one owner, and the Pods that are pending with the replacement that belongs to them.
fn only(entry: &Entry, memory: &Memory, pods: Vec<Pod>) -> (OwnerSeen, Vec<(String, Option<String>)>) {
    let state = cluster(entry, &["b", "c"], pods);
    let known = Known { entry, state: &state, memory, now: after(60) };
    let mut groups = owners(&known);
    assert_eq!(groups.len(), 1);
    let Group { seen, pending } = groups.remove(0);
    let pending = pending.into_iter().map(|(moved, pod)| (moved.uid.clone(), pod.map(|pod| pod.name.to_string())));
    (seen, pending.collect())
}

fn counts(seen: &OwnerSeen) -> (u32, u32, u32, u32) {
    (seen.gone, seen.landed, seen.ready, seen.pending)
}

fn terminating(name: &str) -> Pod {
    let mut pod = old(name);
    pod.deleted = Some(after(30));
    pod
}

fn wanting(desired: Option<u32>, top: Option<Owner>) -> Memory {
    let mut memory = Memory::default();
    let workload = Workload { owner: top, desired, ready: 0 };
    memory.owners.insert("web".to_owned(), (after(0), Some(workload)));
    memory
}

#[test]
fn nothing_is_gone_while_all_pods_run() {
    let (seen, pending) = only(&entry(&["p1", "p2"]), &Memory::default(), vec![old("p1"), old("p2")]);
    assert_eq!(counts(&seen), (0, 0, 0, 0));
    assert_eq!(pending, []);
}

#[test]
fn a_pod_that_is_shutting_down_or_gone_is_pending_until_a_new_one_has_a_node() {
    let entry = entry(&["p1", "p2"]);
    let none = Memory::default();
    let (seen, pending) = only(&entry, &none, vec![terminating("p1"), old("p2")]);
    assert_eq!(counts(&seen), (1, 0, 0, 1));
    assert_eq!(pending, [("p1".to_owned(), None)]);

    let (seen, pending) = only(&entry, &none, vec![old("p2"), young("n1", &json!({}))]);
    assert_eq!(counts(&seen), (1, 0, 0, 1));
    assert_eq!(pending, [("p1".to_owned(), Some("n1".to_owned()))]);

    let starting = young("n1", &json!({ "spec": { "nodeName": "b" } }));
    let (seen, pending) = only(&entry, &none, vec![old("p2"), starting]);
    assert_eq!(counts(&seen), (1, 1, 0, 0));
    assert_eq!(pending, []);

    let (seen, _) = only(&entry, &none, vec![old("p2"), landed("n1", "b")]);
    assert_eq!(counts(&seen), (1, 1, 1, 0));
}

#[test]
fn an_eviction_on_its_way_counts_as_gone() {
    let mut memory = Memory::default();
    memory.evicting.insert("p1".to_owned(), crate::rotation::memory::Evicting::Sent);
    let (seen, _) = only(&entry(&["p1"]), &memory, vec![old("p1")]);
    assert_eq!(counts(&seen), (1, 0, 0, 1));
}

#[test]
fn pods_from_before_and_pods_known_from_the_surge_are_no_replacements() {
    let mut entry = entry(&["p1"]);
    entry.record.surge.as_mut().unwrap().known.push("n1".to_owned());
    let mut before = landed("n2", "b");
    before.created = after(-1);
    let (seen, _) = only(&entry, &Memory::default(), vec![before, landed("n1", "b")]);
    assert_eq!(counts(&seen), (1, 0, 0, 1));
}

#[test]
fn a_replacement_that_is_shutting_down_or_failed_has_not_landed_and_one_that_finished_has() {
    let entry = entry(&["p1"]);
    let mut ending = landed("n1", "b");
    ending.deleted = Some(after(30));
    assert_eq!(counts(&only(&entry, &Memory::default(), vec![ending]).0), (1, 0, 0, 1));
    let mut failed = landed("n1", "b");
    failed.phase = PodPhase::Failed;
    assert_eq!(counts(&only(&entry, &Memory::default(), vec![failed]).0), (1, 0, 0, 1));
    let mut done = landed("n1", "b");
    (done.phase, done.ready) = (PodPhase::Succeeded, false);
    assert_eq!(counts(&only(&entry, &Memory::default(), vec![done]).0), (1, 1, 1, 0));
}

#[test]
fn a_pod_that_finished_by_itself_is_not_replaced() {
    let mut done = old("p1");
    done.phase = PodPhase::Succeeded;
    assert_eq!(counts(&only(&entry(&["p1"]), &Memory::default(), vec![done]).0), (0, 0, 0, 0));
    // Nor once it was cleaned up.
    let mut memory = Memory::default();
    memory.finished.insert("p1".to_owned());
    assert_eq!(counts(&only(&entry(&["p1"]), &memory, vec![]).0), (0, 0, 0, 0));
}

#[test]
fn an_owner_that_wants_fewer_has_nothing_pending_and_is_satisfied() {
    let entry = entry(&["p1", "p2"]);
    let (seen, _) = only(&entry, &wanting(Some(1), None), vec![landed("n1", "b")]);
    assert_eq!(counts(&seen), (2, 1, 1, 0));
    assert!(seen.satisfied);
    let (seen, _) = only(&entry, &wanting(Some(2), None), vec![landed("n1", "b")]);
    assert_eq!((seen.pending, seen.satisfied), (1, false));
    let mut memory = Memory::default();
    memory.owners.insert("web".to_owned(), (after(0), None));
    let (seen, _) = only(&entry, &memory, vec![]);
    assert_eq!((seen.pending, seen.satisfied), (0, true), "an owner that is gone wants nothing");
}

#[test]
fn the_replacements_of_a_rollout_count_once_the_deployment_is_known() {
    let entry = entry(&["p1"]);
    let other = json!({ "metadata": { "ownerReferences": [{
        "apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "shop-abc", "uid": "other", "controller": true,
    }] } });
    let mut new = landed("n1", "b");
    new.owner = young("x", &other).owner;
    assert_eq!(counts(&only(&entry, &Memory::default(), vec![new.clone()]).0), (1, 0, 0, 1));
    let memory = wanting(Some(1), Some(owner("Deployment", "shop")));
    assert_eq!(counts(&only(&entry, &memory, vec![new.clone()]).0), (1, 1, 1, 0));
    // `shop-api-abc` belongs to another Deployment.
    let mut stranger = new;
    stranger.owner.as_mut().unwrap().name = "shop-api-abc".into();
    assert_eq!(counts(&only(&entry, &memory, vec![stranger]).0), (1, 0, 0, 1));
}

#[test]
fn two_replica_sets_of_one_deployment_do_not_share_a_replacement() {
    let mut entry = entry(&["p1"]);
    let surge = entry.record.surge.as_mut().unwrap();
    surge.moves[0].owner = Some(owner("ReplicaSet", "shop-a"));
    surge.moves.push(moved("p2", owner("ReplicaSet", "shop-b")));
    let mut memory = Memory::default();
    for uid in ["shop-a", "shop-b"] {
        let workload = Workload { owner: Some(owner("Deployment", "shop")), desired: Some(2), ready: 0 };
        memory.owners.insert(uid.to_owned(), (after(0), Some(workload)));
    }
    let mut new = landed("n1", "b");
    new.owner = Some(owner("ReplicaSet", "shop-b"));
    assert_eq!(counts(&only(&entry, &memory, vec![new]).0), (2, 1, 1, 1));
}

#[test]
fn a_scale_up_does_not_pass_for_a_replacement_while_one_is_without_a_node() {
    let (seen, pending) = only(&entry(&["p1"]), &Memory::default(), vec![landed("n1", "b"), young("n2", &json!({}))]);
    assert_eq!(seen.pending, 1);
    assert_eq!(pending, [("p1".to_owned(), Some("n2".to_owned()))]);
}

#[test]
fn a_pod_that_came_back_is_the_landing_of_its_predecessor() {
    let mut entry = entry(&["p1"]);
    let mut back = moved("back", owner("ReplicaSet", "web"));
    back.returned = true;
    entry.record.surge.as_mut().unwrap().moves.push(back);
    let here = young("back", &json!({ "spec": { "nodeName": "cand" }, "status": { "phase": "Running" } }));
    assert_eq!(counts(&only(&entry, &Memory::default(), vec![here]).0), (0, 0, 0, 0));
    let (seen, pending) = only(&entry, &Memory::default(), vec![young("n1", &json!({}))]);
    assert_eq!(counts(&seen), (1, 0, 0, 1), "evicted again, one replacement is to come and not two");
    assert_eq!(pending.len(), 1);
}

#[test]
fn a_replacement_belongs_to_the_pod_whose_name_it_has() {
    // A StatefulSet's Pods may need different rooms: their volumes are in different zones.
    let mut entry = entry(&[]);
    for (uid, name) in [("u0", "db-0"), ("u1", "db-1")] {
        let mut moved = moved(uid, owner("StatefulSet", "web"));
        moved.name = name.to_owned();
        entry.record.surge.as_mut().unwrap().moves.push(moved);
    }
    let named = |mut pod: Pod, name: &str| {
        pod.name = name.into();
        pod
    };
    let pods = vec![named(landed("n1", "b"), "db-1"), named(young("n0", &json!({})), "db-0")];
    let (seen, pending) = only(&entry, &Memory::default(), pods);
    assert_eq!(seen.landed, 1);
    assert_eq!(pending, [("u0".to_owned(), Some("db-0".to_owned()))]);
}

#[test]
fn an_owner_is_asked_only_after_a_while_and_not_all_the_time() {
    let entry = entry(&["p1"]);
    let mut memory = Memory::default();
    assert_eq!(only(&entry, &memory, vec![]).0.ask, None);
    let state = cluster(&entry, &["b"], vec![]);
    memory.note_missing(&entry, &state, after(57));
    assert_eq!(only(&entry, &memory, vec![]).0.ask, Some(("shop".to_owned(), owner("ReplicaSet", "web"))));
    memory.owners.insert("web".to_owned(), (after(59), Some(Workload { desired: Some(1), ..Workload::default() })));
    assert_eq!(only(&entry, &memory, vec![]).0.ask, None);
}

#[test]
fn a_wait_starts_over_when_something_moves() {
    let entry = entry(&["p1", "p2"]);
    let mut memory = Memory::default();
    memory.note_missing(&entry, &cluster(&entry, &["b"], vec![]), after(10));
    memory.note_missing(&entry, &cluster(&entry, &["b"], vec![]), after(20));
    assert_eq!(memory.missing["web"].since, after(10));
    memory.note_missing(&entry, &cluster(&entry, &["b"], vec![landed("n1", "b")]), after(30));
    assert_eq!(memory.missing["web"].since, after(30));
    let all = vec![landed("n1", "b"), landed("n2", "b")];
    memory.note_missing(&entry, &cluster(&entry, &["b"], all), after(40));
    assert!(memory.missing.is_empty());
}

#[test]
fn owners_are_asked_where_the_api_server_keeps_them() {
    let path =
        |api_version: &str, kind: &str| path("shop", &Owner { api_version: api_version.into(), ..owner(kind, "web") });
    assert_eq!(path("apps/v1", "ReplicaSet").unwrap(), "/apis/apps/v1/namespaces/shop/replicasets/web");
    assert_eq!(path("batch/v1", "Job").unwrap(), "/apis/batch/v1/namespaces/shop/jobs/web");
    assert_eq!(path("v1", "ReplicationController").unwrap(), "/api/v1/namespaces/shop/replicationcontrollers/web");
    assert_eq!(path("example.com/v1", "Thing"), None);
}
