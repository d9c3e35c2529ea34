use rotate_shared::plan::Room;
use serde_json::{Value, json};

use super::*;
use crate::cache::{Node, Partition, Pod};
use crate::provider::{Listing, karpenter};
use crate::surge::testing::{self, merge, owner};

fn plan_of(nodes: Vec<Node>, pods: Vec<Pod>) -> Plan {
    plan_with(nodes, pods, &Options::default())
}

fn plan_with(nodes: Vec<Node>, pods: Vec<Pod>, options: &Options) -> Plan {
    let state = testing::state(nodes, pods);
    plan(&state, "cand", &Volumes::default(), &ProviderObjects::default(), options, testing::CREATED.parse().unwrap())
        .unwrap()
}

fn node(name: &str) -> Node {
    testing::node(name, &json!({}))
}

fn pod(name: &str, on: &str, requests: &Value, over: &Value) -> Pod {
    let mut object = testing::requesting(requests);
    merge(&mut object, &json!({ "metadata": { "labels": { "app": "web" } }, "spec": { "nodeName": on } }));
    merge(&mut object, over);
    testing::pod("shop", name, &object)
}

fn web(name: &str, on: &str, cpu: &str) -> Pod {
    pod(name, on, &json!({ "cpu": cpu }), &json!({}))
}

fn daemon(name: &str, on: &str, requests: &Value) -> Pod {
    pod(name, on, requests, &json!({ "metadata": { "ownerReferences": [owner("apps/v1", "DaemonSet", "logs")] } }))
}

fn existing(node: &str, count: u32) -> Room {
    Room { node: Some(node.to_owned()), new_node: None, count }
}

fn codes(notices: &[Notice]) -> Vec<Code> {
    notices.iter().map(|notice| notice.code).collect()
}

fn rooms(plan: &Plan) -> Vec<(&str, &[Room])> {
    plan.classes.iter().map(|class| (&*class.id, &*class.room)).collect()
}

#[test]
fn an_unknown_node_has_no_plan() {
    let state = testing::state([node("cand")], []);
    let now = testing::CREATED.parse().unwrap();
    assert_eq!(
        plan(&state, "nobody", &Volumes::default(), &ProviderObjects::default(), &Options::default(), now),
        None
    );
}

#[test]
fn an_empty_node_needs_nothing() {
    let plan = plan_of(vec![node("cand"), node("n1")], vec![]);
    assert_eq!(plan.totals, Totals::default());
    assert!(plan.classes.is_empty() && plan.blockers.is_empty() && plan.warnings.is_empty());
    assert_eq!(plan.estimate, Estimate::default());
}

#[test]
fn room_is_taken_from_existing_nodes_largest_first_and_each_counts_against_the_next() {
    let pods = vec![
        web("big", "cand", "2"),
        web("small-1", "cand", "1"),
        web("small-2", "cand", "1"),
        web("other", "n1", "1"),
        web("another", "n2", "2500m"),
    ];
    let plan = plan_of(vec![node("cand"), node("n1"), node("n2")], pods);
    assert_eq!(rooms(&plan), [("a", &[existing("n1", 1)][..]), ("b", &[existing("n1", 1), existing("n2", 1)][..])]);
    assert_eq!(plan.totals.pods, 3);
    assert_eq!(plan.totals.reserved["cpu"].to_string(), "4");
    assert!(plan.blockers.is_empty() && plan.warnings.is_empty());
    assert_eq!(plan.estimate.extra_node_seconds, 0);
}

#[test]
fn the_candidate_and_cordoned_nodes_offer_no_room() {
    let cordoned = testing::node("n1", &json!({ "spec": { "unschedulable": true } }));
    let plan = plan_of(vec![node("cand"), cordoned], vec![web("web", "cand", "1")]);
    assert_eq!((rooms(&plan), codes(&plan.blockers)), (vec![("a", &[][..])], vec![Code::NoRoom]));
}

#[test]
fn pods_that_their_budget_never_lets_go_block_unless_they_are_deleted() {
    let mut state = testing::state(vec![node("cand"), node("n1")], vec![web("web-1", "cand", "1")]);
    state.apply_pdb(testing::pdb(&json!({
        "metadata": { "namespace": "shop", "name": "web", "uid": "web", "generation": 1 },
        "spec": { "selector": { "matchLabels": { "app": "web" } }, "maxUnavailable": 0 },
        "status": { "observedGeneration": 1, "disruptionsAllowed": 0, "currentHealthy": 1, "desiredHealthy": 1, "expectedPods": 1 },
    })));
    let planned = |options: Options| {
        let now = testing::CREATED.parse().unwrap();
        let (volumes, objects) = (Volumes::default(), ProviderObjects::default());
        plan(&state, "cand", &volumes, &objects, &options, now).unwrap().pods[0].disposition
    };
    assert_eq!(planned(Options::default()), Disposition::Block);
    assert_eq!(planned(Options { disable_eviction: true, ..Options::default() }), Disposition::Evict);
}

#[test]
fn where_nobody_brings_nodes_and_none_has_room_that_blocks_and_is_told_what_helps() {
    let pods = vec![web("web-1", "cand", "1"), web("web-2", "cand", "1"), web("db", "n1", "4")];
    let plan = plan_of(vec![node("cand"), node("n1")], pods);
    assert_eq!(codes(&plan.blockers), [Code::NoRoom]);
    assert_eq!(
        plan.blockers[0].message,
        "no room for 2 of 2 Pods of its class (cpu 1): node n1: Insufficient cpu: needs 1, 0 free"
    );
    assert!(plan.blockers[0].remedy.starts_with("add a node"), "{}", plan.blockers[0].remedy);
    assert!(plan.pods.iter().all(|pod| pod.disposition == Disposition::Block));
    assert_eq!(plan.estimate.extra_node_seconds, 0);
}

#[test]
fn providers_that_make_nodes_are_not_warned_about() {
    let karpenter = testing::node("cand", &json!({ "metadata": { "labels": { "karpenter.sh/nodepool": "web" } } }));
    let pool = json!({ "metadata": { "name": "web" }, "spec": { "template": { "spec": {} } },
        "status": { "conditions": [{ "type": "Ready", "status": "True" }] } });
    let amounts = json!({ "cpu": "4", "memory": "16Gi", "ephemeral-storage": "100Gi", "pods": "110" });
    let claim = json!({ "metadata": { "name": "web-1", "labels": { "karpenter.sh/nodepool": "web" } }, "spec": {},
        "status": { "nodeName": "cand", "capacity": amounts, "allocatable": amounts } });
    let objects = ProviderObjects {
        karpenter: karpenter::Objects { pools: read(&pool), claims: read(&claim) },
        ..ProviderObjects::default()
    };
    let state = testing::state([karpenter], [web("web-1", "cand", "1")]);
    let now = testing::CREATED.parse().unwrap();
    let plan = plan(&state, "cand", &Volumes::default(), &objects, &Options::default(), now).unwrap();
    assert_eq!(plan.provider, Provider::Karpenter);
    assert_eq!((codes(&plan.blockers), codes(&plan.warnings)), (vec![], vec![]));
    assert_eq!(plan.estimate.surge_seconds, NODE_START_SECONDS);
    assert_eq!(plan.estimate.extra_node_seconds, NODE_START_SECONDS + GROUP_SECONDS);
}

fn read<T: serde::de::DeserializeOwned>(object: &Value) -> Listing<T> {
    Listing::Read { items: vec![serde_json::from_value(object.clone()).unwrap()], unreadable: Vec::new() }
}

#[test]
fn pods_that_keep_off_each_others_hosts_need_a_node_each() {
    let apart = json!({ "spec": { "affinity": { "podAntiAffinity": {
        "requiredDuringSchedulingIgnoredDuringExecution":
            [{ "topologyKey": "kubernetes.io/hostname", "labelSelector": { "matchLabels": { "app": "web" } } }],
    } } } });
    let pods = vec![
        pod("web-1", "cand", &json!({ "cpu": "100m" }), &apart),
        pod("web-2", "cand", &json!({ "cpu": "100m" }), &apart),
        pod("web-3", "n1", &json!({ "cpu": "100m" }), &apart),
    ];
    let plan = plan_of(vec![node("cand"), node("n1"), node("n2")], pods);
    assert_eq!(rooms(&plan), [("a", &[existing("n2", 1)][..])]);
    assert!(plan.blockers[0].message.contains("no room for 1 of 2"), "{}", plan.blockers[0].message);
}

#[test]
fn room_is_looked_for_in_the_candidates_zone_only_where_the_pod_is_held_to_it() {
    let spread = json!({ "spec": { "topologySpreadConstraints": [{
        "maxSkew": 1, "topologyKey": "topology.kubernetes.io/zone", "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": { "matchLabels": { "app": "web" } },
    }] } });
    let elsewhere = testing::node("n1", &json!({ "metadata": { "labels": { "topology.kubernetes.io/zone": "b" } } }));
    let subject = pod("web-1", "cand", &json!({ "cpu": "1" }), &spread);
    let plan = plan_of(vec![node("cand"), elsewhere, node("n2")], vec![subject]);
    assert_eq!(rooms(&plan), [("a", &[existing("n2", 1)][..])]);
    assert_eq!(plan.classes[0].constraints, ["topology.kubernetes.io/zone=a"]);
}

#[test]
fn a_pod_too_large_for_a_node_like_this_moves_where_a_larger_one_has_room() {
    let large = testing::node("n1", &json!({ "status": { "allocatable": { "cpu": "64" } } }));
    let plan = plan_of(vec![node("cand"), large], vec![web("web", "cand", "8")]);
    assert!(plan.blockers.is_empty());
    assert_eq!(rooms(&plan), [("a", &[existing("n1", 1)][..])]);
}

#[test]
fn a_node_without_a_free_slot_offers_no_room() {
    let full = testing::node("n1", &json!({ "status": { "allocatable": { "pods": "1" } } }));
    let pods = vec![web("web", "cand", "1"), web("other", "n1", "1")];
    let plan = plan_of(vec![node("cand"), full], pods);
    assert_eq!(codes(&plan.blockers), [Code::NoRoom]);
    assert!(plan.blockers[0].message.contains("Too many pods: 1 of 1"), "{}", plan.blockers[0].message);
}

#[test]
fn blocked_pods_show_the_room_that_they_would_need() {
    let scratch = json!({ "spec": { "volumes": [{ "name": "scratch", "emptyDir": {} }] } });
    let plan = plan_of(vec![node("cand"), node("n1")], vec![pod("web", "cand", &json!({ "cpu": "1" }), &scratch)]);
    assert_eq!(codes(&plan.blockers), [Code::LocalStorage]);
    assert_eq!(plan.pods[0].disposition, Disposition::Block);
    assert_eq!(rooms(&plan), [("a", &[existing("n1", 1)][..])]);
    assert_eq!(plan.placeholders.len(), 1);
}

#[test]
fn without_surge_nothing_is_reserved_and_nothing_is_created() {
    let options = Options { surge: rotate_shared::SurgeMode::None, ..Options::default() };
    let plan = plan_with(vec![node("cand")], vec![web("web", "cand", "1")], &options);
    assert_eq!((plan.totals.pods, plan.placeholders.len()), (0, 0));
    assert_eq!(codes(&plan.warnings), [Code::NotReserved]);
    assert_eq!((plan.estimate.surge_seconds, plan.estimate.drain_seconds), (0, GROUP_SECONDS));
}

#[test]
fn a_plan_has_the_documented_json() {
    let pods = vec![web("web-1", "cand", "500m"), daemon("logs", "cand", &json!({ "cpu": "100m" }))];
    let plan = plan_of(vec![node("cand"), node("n1")], pods);
    assert_eq!(
        serde_json::to_value(&plan).unwrap(),
        json!({
            "apiVersion": "kubectl-rotate.dev/v1",
            "kind": "Plan",
            "node": "cand",
            "provider": "unmanaged",
            "then": "keep",
            "totals": { "pods": 1, "reserved": { "cpu": "500m" } },
            "pods": [
                {
                    "namespace": "shop", "name": "logs", "uid": "logs", "disposition": "stay",
                    "reserved": false, "reason": "daemonset", "requests": { "cpu": "100m" },
                },
                {
                    "namespace": "shop", "name": "web-1", "uid": "web-1", "disposition": "evict",
                    "reserved": true, "reason": "replicated", "class": "a", "requests": { "cpu": "500m" },
                },
            ],
            "classes": [{
                "id": "a", "pods": 1, "requests": { "cpu": "500m" }, "constraints": [],
                "room": [{ "node": "n1", "count": 1 }],
            }],
            "placeholders": [{ "class": "a", "pod": "shop/web-1", "requests": { "cpu": "500m" } }],
            "blockers": [],
            "warnings": [],
            "estimate": { "surgeSeconds": 5, "drainSeconds": 30, "extraNodeSeconds": 0 },
        })
    );
}

#[test]
fn where_only_the_candidate_is_read_a_plan_says_what_was_not_looked_at_and_blocks_nothing_for_it() {
    let mut state = State::scoped();
    for name in ["cand", "n1"] {
        state.apply_node(node(name));
    }
    // More than any of the nodes that are seen would take.
    for pod in [web("w1", "cand", "3"), web("w2", "cand", "3"), web("big", "cand", "64")] {
        state.apply_pod(&pod.view());
    }
    state.cover(Partition::node("cand"));
    let now = testing::CREATED.parse().unwrap();
    let plan =
        plan(&state, "cand", &Volumes::default(), &ProviderObjects::default(), &Options::default(), now).unwrap();
    assert_eq!(codes(&plan.blockers), []);
    assert_eq!(codes(&plan.warnings), [Code::NotLookedAt]);
    let anywhere = |count| [Room { node: None, new_node: None, count }];
    assert_eq!(rooms(&plan), [("a", &anywhere(1)[..]), ("b", &anywhere(2)[..])]);
    assert_eq!(plan.estimate.surge_seconds, NODE_START_SECONDS);
}
