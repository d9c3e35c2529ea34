use std::sync::Arc;

use serde_json::{Value, json};

use super::*;
use crate::provider::cluster_autoscaler::status::Status;
use crate::provider::cluster_autoscaler::templates::Templates;
use crate::surge::testing::{self, CREATED};

const GKE: &str = "https://www.googleapis.com/compute/v1/projects/p/zones/";

fn now() -> Timestamp {
    CREATED.parse().unwrap()
}

fn node(name: &str, labels: &Value, over: &Value) -> Node {
    let mut object = json!({ "metadata": { "labels": labels } });
    testing::merge(&mut object, over);
    testing::node(name, &object)
}

fn web(name: &str, over: &Value) -> Node {
    node(name, &json!({ "eks.amazonaws.com/nodegroup": "web" }), over)
}

/// A status of groups `(name, target, min, max)`.
fn objects(groups: &[(&str, u32, u32, u32)]) -> Objects {
    let groups = groups.iter().map(|(name, target, min, max)| GroupStatus {
        name: (*name).to_owned(),
        ready: *target,
        target: *target,
        min: *min,
        max: *max,
        held_up: None,
    });
    let told = Told { at: now(), running: true, groups: groups.collect() };
    Objects { status: Status::Read(told), ..Objects::default() }
}

const EKS_WEB: &str = "eks-web-2c1f9d3b-a8e2-4f11-9c3e-8b7a6d5e4f30";

fn left(headroom: &[Headroom]) -> Vec<(&str, Option<u32>)> {
    headroom.iter().map(|headroom| (&*headroom.source, headroom.nodes_left)).collect()
}

#[test]
fn a_group_grows_up_to_its_maximum_by_nodes_like_those_it_has() {
    let taint = json!({ "spec": { "taints": [
        { "key": "team", "value": "web", "effect": "NoSchedule" },
        { "key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule" },
    ] } });
    let small = json!({ "status": { "allocatable": { "cpu": "3", "nvidia.com/gpu": "1" } } });
    let mut larger = taint.clone();
    testing::merge(&mut larger, &json!({ "metadata": { "labels": { "odd": "one" } } }));
    let mut smaller = taint.clone();
    testing::merge(&mut smaller, &small);
    let state = testing::state([web("n1", &larger), web("n2", &smaller)], []);
    let headroom = headroom(&objects(&[(EKS_WEB, 2, 1, 5)]), &state, now());
    assert_eq!(left(&headroom), [("group web (eks)", Some(3))]);
    assert_eq!(headroom[0].limit, "group web (eks) has 2 of at most 5 nodes");
    let [shape] = &*headroom[0].shapes else { panic!("{headroom:#?}") };
    assert_eq!((shape.node.allocatable.milli_cpu, shape.node.allocatable.other.len()), (3000, 0));
    assert_eq!(shape.node.taints.iter().map(|taint| &*taint.key).collect::<Vec<_>>(), ["team"]);
    assert_eq!(shape.node.label("eks.amazonaws.com/nodegroup"), Some("web"));
    assert_eq!(shape.node.label(names::HOSTNAME), None);
    assert_eq!(shape.uncertain, ["odd".into()]);
    assert!(shape.node.ready && !shape.node.unschedulable);
}

#[test]
fn the_zone_of_a_group_over_two_zones_is_not_certain() {
    let b = json!({ "metadata": { "labels": { "topology.kubernetes.io/zone": "b" } } });
    let state = testing::state([web("n1", &json!({})), web("n2", &b)], []);
    let headroom = headroom(&objects(&[(EKS_WEB, 2, 1, 5)]), &state, now());
    assert_eq!(headroom[0].shapes[0].uncertain, [names::ZONE.into()]);
}

#[test]
fn a_node_pool_of_gke_is_a_group_a_zone() {
    let pool = |name: &str, zone: &str| {
        node(name, &json!({ "cloud.google.com/gke-nodepool": "p", "topology.kubernetes.io/zone": zone }), &json!({}))
    };
    let state = testing::state([pool("gke-c-p-aaaaaaaa-x", "z-a"), pool("gke-c-p-bbbbbbbb-y", "z-b")], []);
    let (a, b) = (
        format!("{GKE}z-a/instanceGroups/gke-c-p-aaaaaaaa-grp"),
        format!("{GKE}z-b/instanceGroups/gke-c-p-bbbbbbbb-grp"),
    );
    let headroom = headroom(&objects(&[(&a, 1, 0, 1), (&b, 1, 0, 3)]), &state, now());
    assert_eq!(left(&headroom), [("group p (gke) in z-a", Some(0)), ("group p (gke) in z-b", Some(2))]);
    let shape = &headroom[1].shapes[0];
    assert_eq!((shape.node.label(names::ZONE), shape.uncertain.is_empty()), (Some("z-b"), true));
}

#[test]
fn of_two_groups_that_a_name_may_mean_the_longer_is_meant() {
    let pool = |name: &str, pool: &str| node(name, &json!({ "cloud.google.com/gke-nodepool": pool }), &json!({}));
    let state = testing::state([pool("n1", "a"), pool("n2", "spot-a")], []);
    let name = format!("{GKE}z/instanceGroups/gke-c-spot-a-bbbbbbbb-grp");
    let headroom = headroom(&objects(&[(&name, 1, 0, 3)]), &state, now());
    assert_eq!(left(&headroom), [("group a (gke)", Some(0)), ("group spot-a (gke) in z", Some(2))]);
}

#[test]
fn where_the_autoscaler_is_not_heard_no_node_is_promised_and_it_is_said_why() {
    let state = testing::state([web("n1", &json!({}))], []);
    for (objects, why) in [
        (Objects::default(), "the autoscaler's status is not there"),
        (objects(&[("eks-other-2c1f9d3b-a8e2-4f11-9c3e-8b7a6d5e4f30", 1, 0, 9)]), "the autoscaler does not tell of it"),
    ] {
        let headroom = headroom(&objects, &state, now());
        assert_eq!(left(&headroom), [("group web (eks)", Some(0))]);
        assert_eq!(headroom[0].limit, why);
        assert_eq!(headroom[0].shapes.len(), 1);
    }
    assert_eq!(headroom(&Objects::default(), &testing::state([testing::node("n", &json!({}))], []), now()), []);
}

#[test]
fn a_group_that_failed_to_grow_is_not_counted_on() {
    let mut objects = objects(&[(EKS_WEB, 2, 1, 5)]);
    if let Status::Read(told) = &mut objects.status {
        told.groups[0].held_up = Some("it does not grow for a while".to_owned());
    }
    let headroom = headroom(&objects, &testing::state([web("n1", &json!({}))], []), now());
    assert_eq!(headroom[0].nodes_left, Some(0));
    assert_eq!(headroom[0].limit, "group web (eks) has 2 of at most 5 nodes, and it does not grow for a while");
}

#[test]
fn an_empty_group_grows_by_what_is_remembered_with_the_daemons_of_other_nodes() {
    let state = testing::state([web("n1", &json!({}))], []);
    let changes = Templates::default().changes(&state, &objects(&[]).settings, now());
    let data = changes.into_iter().map(|(key, text)| (key, text.unwrap())).collect();
    let objects = Objects { templates: Arc::new(Templates::read(&data)), ..objects(&[(EKS_WEB, 0, 0, 5)]) };
    let daemon = json!({
        "metadata": { "ownerReferences": [testing::owner("apps/v1", "DaemonSet", "logs")] },
        "spec": { "nodeName": "other", "containers": [{ "name": "app", "resources": { "requests": { "cpu": "1" } } }] },
    });
    let other = testing::state([testing::node("other", &json!({}))], [testing::pod("kube-system", "logs", &daemon)]);
    let headroom = headroom(&objects, &other, now());
    assert_eq!(left(&headroom), [("group web (eks)", Some(5))]);
    let shape = &headroom[0].shapes[0];
    assert_eq!((shape.node.allocatable.milli_cpu, shape.daemons.milli_cpu, shape.daemon_pods), (4000, 1000, 1));
}
