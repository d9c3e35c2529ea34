use serde_json::{Value, json};

use super::super::tests::{claim, node, objects, pool};
use super::*;
use crate::surge::testing;

fn amounts(pairs: &[(&str, &str)]) -> Amounts {
    pairs.iter().map(|(name, amount)| ((*name).to_owned(), amount.parse().unwrap())).collect()
}

/// The headroom of the one pool.
fn of(over: &Value, claims: Vec<NodeClaim>) -> Headroom {
    let state = testing::state(claims.iter().map(|claim| node(&claim.node, &json!({}))), []);
    let mut found = headroom(&objects(vec![pool(over)], claims), &state);
    assert_eq!(found.len(), 1);
    found.remove(0)
}

fn requiring(requirements: &Value) -> Value {
    json!({ "spec": { "template": { "spec": { "requirements": requirements } } } })
}

/// The values of a label over all shapes.
fn values(headroom: &Headroom, key: &str) -> Vec<String> {
    headroom.shapes.iter().map(|shape| shape.node.label(key).unwrap_or("-").to_owned()).collect()
}

fn instance(name: &str) -> Value {
    json!({ "metadata": { "labels": { "node.kubernetes.io/instance-type": name } } })
}

#[test]
fn a_pool_without_limits_is_unlimited() {
    let found = of(&json!({}), vec![claim("one", &json!({}))]);
    assert_eq!((found.nodes_left, found.resources_left.len()), (None, 0));
    assert_eq!(found.shapes.len(), 1);
}

#[test]
fn numbers_that_no_cluster_reaches_are_taken_as_they_are_meant() {
    for (nodes, left) in [("5000000000", u32::MAX), ("9223372036854775807", u32::MAX), ("-3", 0), ("1m", 0)] {
        let found = of(&json!({ "spec": { "limits": { "nodes": nodes } } }), vec![claim("one", &json!({}))]);
        assert_eq!(found.nodes_left, Some(left), "{nodes}");
    }
    let found = of(&json!({ "spec": { "weight": i32::MIN, "limits": { "cpu": "-1" } } }), Vec::new());
    assert_eq!(found.resources_left, amounts(&[("cpu", "-1")]));
}

#[test]
fn limits_are_charged_with_whole_machines() {
    let limits = json!({ "spec": { "limits": { "cpu": "10", "memory": "100Gi", "nodes": "3" } },
        "status": { "resources": { "cpu": "4", "memory": "16Gi", "nodes": "1", "pods": "110" } } });
    let found = of(&limits, vec![claim("one", &json!({}))]);
    assert_eq!(found.nodes_left, Some(2));
    assert_eq!(found.resources_left, amounts(&[("cpu", "6"), ("memory", "84Gi")]));
    assert_eq!(found.shapes[0].charged["cpu"], "4".parse().unwrap());
    assert_eq!(
        found.limit,
        "limits of NodePool general: cpu 4 of 10, memory 16Gi of 100Gi, nodes 1 of 3 in use, and a new node counts whole"
    );
}

#[test]
fn claims_count_before_the_pools_status_says_so_and_no_longer_once_they_are_deleted() {
    let limits = json!({ "spec": { "limits": { "cpu": "10", "nodes": "3" } } });
    let deleted = claim("gone", &json!({ "metadata": { "deletionTimestamp": testing::CREATED } }));
    let claims = vec![claim("one", &json!({})), claim("two", &json!({})), deleted];
    let found = of(&limits, claims);
    assert_eq!((found.nodes_left, found.resources_left["cpu"]), (Some(1), "2".parse().unwrap()));
}

#[test]
fn a_pool_beyond_its_limits_has_nothing_left() {
    let limits = json!({ "spec": { "limits": { "cpu": "4", "nodes": "1" } } });
    let found = of(&limits, vec![claim("one", &json!({})), claim("two", &json!({}))]);
    assert_eq!(found.nodes_left, Some(0));
    assert_eq!(found.resources_left["cpu"].value(), -4);
}

#[test]
fn pools_that_bring_nothing_say_why() {
    let limit = |over: Value| {
        let found = of(&over, vec![claim("one", &json!({}))]);
        assert_eq!((found.nodes_left, found.shapes.len()), (Some(0), 0));
        found.limit
    };
    assert_eq!(
        limit(json!({ "spec": { "replicas": 2 } })),
        "NodePool general: it is static: spec.replicas is 2, whatever Pods wait"
    );
    let not_ready =
        json!([{ "type": "Ready", "status": "False", "reason": "NodeClassReady", "message": "no subnets" }]);
    assert_eq!(
        limit(json!({ "status": { "conditions": not_ready } })),
        "NodePool general: it is not Ready: no subnets"
    );
    assert_eq!(limit(json!({ "status": { "conditions": [] } })), "NodePool general: it is not Ready");
    let deleting = json!({ "metadata": { "deletionTimestamp": testing::CREATED } });
    assert_eq!(limit(deleting), "NodePool general: it is being deleted");
}

#[test]
fn a_new_node_offers_the_least_that_was_seen_and_carries_what_the_pool_gives() {
    let over = json!({ "spec": { "template": {
        "metadata": { "labels": { "team": "shop" } },
        "spec": { "taints": [{ "key": "shop", "effect": "NoSchedule" }] },
    } } });
    let gpus = json!({ "status": { "allocatable": { "nvidia.com/gpu": "1" }, "capacity": { "nvidia.com/gpu": "1" } } });
    let claims = vec![claim("one", &gpus)];
    // The kubelet leaves less memory than Karpenter reckons with, and shows no GPU yet.
    let one = node(
        "one",
        &json!({
            "metadata": { "labels": { "by-hand": "yes", "kubernetes.io/os": "linux" } },
            "status": { "allocatable": { "memory": "14Gi", "pods": "58" } },
        }),
    );
    let found = headroom(&objects(vec![pool(&over)], claims), &testing::state([one], []));
    let shape = &found[0].shapes[0];
    let offered = shape.node.allocatable.to_amounts();
    assert_eq!(offered, amounts(&[("cpu", "3900m"), ("memory", "14Gi"), ("ephemeral-storage", "90Gi")]));
    assert_eq!(shape.node.max_pods, 58);
    assert_eq!(shape.charged["nvidia.com/gpu"], "1".parse().unwrap());
    for (key, value) in [
        ("team", Some("shop")),
        ("karpenter.sh/nodepool", Some("general")),
        ("karpenter.kwok.sh/kwoknodeclass", Some("default")),
        ("kubernetes.io/os", Some("linux")),
        // What somebody put on the one node is not on the next.
        ("by-hand", None),
        ("kubernetes.io/hostname", None),
    ] {
        assert_eq!(shape.node.label(key), value, "{key}");
    }
    assert_eq!(shape.node.taints.iter().map(|taint| &*taint.key).collect::<Vec<_>>(), ["shop"]);
    assert!(shape.node.takes_pods());
}

#[test]
fn daemons_are_those_of_the_node_that_has_most() {
    let daemon = |name: &str, node: &str, cpu: &str| {
        let mut over = testing::requesting(&json!({ "cpu": cpu }));
        let owner = testing::owner("apps/v1", "DaemonSet", "logs");
        testing::merge(&mut over, &json!({ "metadata": { "ownerReferences": [owner] }, "spec": { "nodeName": node } }));
        testing::pod("kube-system", name, &over)
    };
    let nodes = ["one", "two"].map(|name| node(name, &json!({})));
    let pods = [daemon("a", "two", "100m"), daemon("b", "two", "50m"), testing::pod("shop", "web", &json!({}))];
    let claims = vec![claim("one", &json!({})), claim("two", &json!({}))];
    let found = headroom(&objects(vec![pool(&json!({}))], claims), &testing::state(nodes, pods));
    let shape = &found[0].shapes[0];
    assert_eq!((shape.daemons.milli_cpu, shape.daemon_pods), (150, 2));
}

#[test]
fn karpenter_chooses_among_the_zones_that_the_pool_lists_and_those_that_were_seen() {
    let zone = |name: &str, zone: &str| {
        claim(
            name,
            &json!({ "metadata": { "labels": { "topology.kubernetes.io/zone": zone,
        "topology.ebs.csi.aws.com/zone": zone, "topology.k8s.aws/zone-id": format!("id of {zone}") } } }),
        )
    };
    let claims = || vec![zone("one", "a"), zone("two", "b")];
    assert_eq!(values(&of(&json!({}), claims()), names::ZONE), ["a", "b"]);

    let listed = requiring(&json!([{ "key": names::ZONE, "operator": "In", "values": ["a", "c"] }]));
    let found = of(&listed, claims());
    assert_eq!(values(&found, names::ZONE), ["a", "c"]);
    // What else says the zone goes with it; what cannot be known of another zone is left out.
    assert_eq!(values(&found, "topology.ebs.csi.aws.com/zone"), ["a", "c"]);
    assert_eq!(values(&found, "topology.k8s.aws/zone-id"), ["id of a", "-"]);

    let without = requiring(&json!([{ "key": names::ZONE, "operator": "NotIn", "values": ["a"] }]));
    assert_eq!(values(&of(&without, claims()), names::ZONE), ["b"]);
}

#[test]
fn kinds_that_the_requirements_no_longer_admit_do_not_come() {
    let only = requiring(&json!([{ "key": INSTANCE, "operator": "NotIn", "values": ["c-4x"] }]));
    let claims = vec![claim("one", &json!({})), claim("two", &instance("c-8x"))];
    assert_eq!(values(&of(&only, claims), INSTANCE), ["c-8x"]);
    let generation = requiring(&json!([{ "key": "karpenter.kwok.sh/generation", "operator": "Gt", "values": ["4"] }]));
    let newer = json!({ "metadata": { "labels": { "karpenter.kwok.sh/generation": "5" } } });
    assert_eq!(of(&generation, vec![claim("one", &newer)]).shapes.len(), 1);
    assert_eq!(of(&generation, vec![claim("one", &json!({}))]).shapes.len(), 0);
}

const INSTANCE: &str = "node.kubernetes.io/instance-type";

#[test]
fn a_pool_that_has_no_nodes_borrows_the_kinds_of_pools_of_its_class() {
    let other = json!({ "metadata": { "labels": { "karpenter.sh/nodepool": "other", "tier": "gold" } } });
    let odd = json!({ "metadata": { "labels": { "karpenter.sh/nodepool": "odd", INSTANCE: "c-8x" } },
        "spec": { "nodeClassRef": { "name": "odd" } } });
    let found = of(&json!({}), vec![claim("one", &other), claim("two", &odd)]);
    assert_eq!(values(&found, INSTANCE), ["c-4x"]);
    assert_eq!(values(&found, POOL), ["general"]);
    // A label of the other pool's own does not come along.
    assert_eq!(values(&found, "tier"), ["-"]);
}

#[test]
fn a_pool_of_which_nothing_was_seen_promises_nothing() {
    let found = of(&json!({}), Vec::new());
    assert_eq!((found.nodes_left, found.shapes.len()), (None, 0));
    // Nor does a claim that is not launched tell what it will be.
    let bare = claim("one", &json!({ "status": { "nodeName": "", "capacity": null, "allocatable": null } }));
    let state = State::default();
    assert_eq!(headroom(&objects(vec![pool(&json!({}))], vec![bare]), &state)[0].shapes.len(), 0);
}

#[test]
fn labels_that_pods_may_choose_come_in_each_way() {
    let tiers = requiring(&json!([{ "key": "tier", "operator": "In", "values": ["gold", "silver"] }]));
    let found = of(&tiers, vec![claim("one", &json!({}))]);
    assert_eq!(values(&found, "tier"), ["gold", "silver"]);
    let any = requiring(&json!([{ "key": "tier", "operator": "Exists" }]));
    let seen = of(&any, vec![claim("one", &json!({ "metadata": { "labels": { "tier": "lead" } } }))]);
    assert_eq!(values(&seen, "tier"), ["lead"]);
    let unseen = of(&any, vec![claim("one", &json!({}))]);
    assert_eq!(
        (values(&unseen, "tier"), unseen.shapes[0].uncertain.clone()),
        (vec!["-".to_owned()], vec!["tier".into()])
    );
}

#[test]
fn what_varies_in_too_many_ways_is_uncertain() {
    let many: Vec<_> = (0..20).map(|number| number.to_string()).collect();
    let both = requiring(&json!([
        { "key": "one", "operator": "In", "values": many }, { "key": "two", "operator": "In", "values": many },
    ]));
    let found = of(&both, vec![claim("one", &json!({}))]);
    assert_eq!(found.shapes.len(), 20);
    assert!(found.shapes.iter().all(|shape| shape.uncertain == ["two".into()]));
}

#[test]
fn pools_of_more_weight_come_first() {
    let weighed =
        |name: &str, weight: i32| pool(&json!({ "metadata": { "name": name }, "spec": { "weight": weight } }));
    let pools = vec![weighed("a", 1), weighed("b", 50), weighed("c", 50)];
    let found = headroom(&objects(pools, Vec::new()), &State::default());
    let sources: Vec<_> = found.iter().map(|headroom| &*headroom.source).collect();
    assert_eq!(sources, ["NodePool b", "NodePool c", "NodePool a"]);
}

#[test]
fn nodes_of_a_karpenter_whose_pools_cannot_be_read_are_no_reason_to_hope() {
    let state = testing::state([node("one", &json!({}))], []);
    let absent = headroom(&Objects::default(), &state);
    assert_eq!((absent[0].nodes_left, &*absent[0].limit), (Some(0), "karpenter.sh/v1 NodePools are not served here"));
    let forbidden = Objects { pools: Listing::Forbidden("no".to_owned()), ..Objects::default() };
    assert_eq!(headroom(&forbidden, &state)[0].limit, "its NodePools may not be read: no");
    let unconverted = Objects { pools: Listing::Unconverted("no".to_owned()), ..Objects::default() };
    assert_eq!(headroom(&unconverted, &state)[0].limit, "its NodePools cannot be read as karpenter.sh/v1: no");
    // Elsewhere there is no Karpenter.
    assert_eq!(headroom(&Objects::default(), &State::default()), []);
}
