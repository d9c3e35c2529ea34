use jiff::Timestamp;
use rotate_shared::plan::Disposition;
use rotate_shared::{Amounts, Options};
use serde_json::{Value, json};

use super::*;
use crate::cache::{Node, Pod, Resources, Volumes};
use crate::provider::NewNode;
use crate::surge::classify::Context;
use crate::surge::promise::{Promise, promise_within};
use crate::surge::testing::{self, merge};

const ZONE: &str = "topology.kubernetes.io/zone";

fn amounts(written: &[(&str, &str)]) -> Amounts {
    written.iter().map(|(name, amount)| ((*name).to_owned(), amount.parse().unwrap())).collect()
}

/// A kind of node with so many CPU, all of them charged.
fn kind(cpu: &str, over: &Value) -> NewNode {
    let mut object = json!({ "status": { "allocatable": { "cpu": cpu } } });
    merge(&mut object, over);
    NewNode {
        node: testing::node("any", &object),
        daemons: Resources::default(),
        daemon_pods: 0,
        charged: amounts(&[("cpu", cpu)]),
        uncertain: Vec::new(),
    }
}

fn pool(shapes: Vec<NewNode>) -> Headroom {
    Headroom {
        source: "NodePool web".to_owned(),
        nodes_left: None,
        resources_left: Amounts::new(),
        limit: "limits.cpu is 16, 12 are used".to_owned(),
        shapes,
    }
}

fn web(name: &str, cpu: &str, over: &Value) -> Pod {
    let mut object = testing::requesting(&json!({ "cpu": cpu }));
    merge(&mut object, &json!({ "metadata": { "labels": { "app": "web" } } }));
    merge(&mut object, over);
    testing::pod("shop", name, &object)
}

/// The candidate holds these Pods; there are these other nodes.
fn judged(pods: Vec<Pod>, others: Vec<Node>, headroom: &[Headroom], options: &Options) -> Promise {
    with_volumes(pods, others, headroom, options, &Volumes::default())
}

fn with_volumes(
    pods: Vec<Pod>,
    others: Vec<Node>,
    headroom: &[Headroom],
    options: &Options,
    volumes: &Volumes,
) -> Promise {
    let node = testing::node("cand", &json!({ "spec": { "unschedulable": true } }));
    let state = testing::state(others.into_iter().chain([node.clone()]), pods);
    let now: Timestamp = testing::CREATED.parse().unwrap();
    promise_within(&state, &Context::new(&node, volumes, options, now), headroom)
}

fn with(pods: Vec<Pod>, headroom: &[Headroom]) -> Promise {
    judged(pods, vec![], headroom, &Options::default())
}

fn new_nodes(promise: &Promise) -> Vec<(&str, u32)> {
    let rooms = promise.preview.rooms.iter().flatten();
    rooms.filter_map(|room| Some((room.new_node.as_deref()?, room.count))).collect()
}

#[track_caller]
fn assert_no_room(promise: &Promise, words: &str) {
    let [blocker] = &promise.moves.blockers[..] else { panic!("one blocker: {:?}", promise.moves.blockers) };
    assert_eq!(blocker.code, rotate_shared::Code::NoRoom);
    assert!(blocker.message.contains(words), "{:?} does not say {words:?}", blocker.message);
}

#[test]
fn a_pool_that_may_grow_has_room_and_is_named() {
    let promise = with(vec![web("web", "2", &json!({}))], &[pool(vec![kind("4", &json!({}))])]);
    assert!(promise.moves.blockers.is_empty());
    assert_eq!(
        new_nodes(&promise),
        [("NodePool web: cpu 4, ephemeral-storage 100Gi, memory 16Gi after its DaemonSets", 1)]
    );
    assert_eq!((promise.preview.on_new_nodes, promise.preview.new_nodes), (1, 1));
}

#[test]
fn where_nothing_may_grow_and_no_node_has_room_that_blocks() {
    let full = testing::node("n1", &json!({ "status": { "allocatable": { "cpu": "1500m" } } }));
    let promise = judged(vec![web("web", "2", &json!({}))], vec![full], &[], &Options::default());
    assert_no_room(
        &promise,
        "no room for 1 of 1 Pods of its class (cpu 2): node n1: Insufficient cpu: needs 2, 1500m free",
    );
    assert!(promise.moves.blockers[0].remedy.contains("add a node"));
}

#[test]
fn a_limit_is_compared_with_whole_nodes() {
    let left = Headroom { resources_left: amounts(&[("cpu", "4")]), ..pool(vec![kind("4", &json!({}))]) };
    let pods = |cpu| vec![web("web-1", cpu, &json!({})), web("web-2", cpu, &json!({}))];
    assert_eq!(with(pods("2"), std::slice::from_ref(&left)).moves.blockers, []);
    // Five CPU are asked for, and the pool has four left; but that is not what counts: a second node would be charged whole.
    assert_no_room(&with(pods("2500m"), &[left]), "NodePool web: limits.cpu is 16, 12 are used");
}

#[test]
fn the_cheapest_kind_that_does_is_counted() {
    let left = Headroom {
        resources_left: amounts(&[("cpu", "12")]),
        ..pool(vec![kind("8", &json!({})), kind("4", &json!({}))])
    };
    let pods = (0..3).map(|number| web(&format!("web-{number}"), "3", &json!({}))).collect();
    let promise = with(pods, &[left]);
    assert_eq!((promise.moves.blockers.len(), promise.preview.new_nodes), (0, 3));
}

#[test]
fn classes_share_the_nodes_that_are_left() {
    let left = Headroom { nodes_left: Some(1), ..pool(vec![kind("4", &json!({}))]) };
    let pods = |small| vec![web("big", "3", &json!({})), web("small", small, &json!({}))];
    assert_eq!(with(pods("1"), std::slice::from_ref(&left)).moves.blockers, []);
    let promise = with(pods("1500m"), &[left]);
    assert_no_room(&promise, "limits.cpu is 16");
    assert_eq!(promise.moves.blockers[0].object, "Pod shop/small");
    let blocked = |name: &str| {
        let judged = promise.moves.pods.iter().find(|judged| &*judged.pod.name == name);
        judged.map(|judged| judged.disposition)
    };
    assert_eq!((blocked("big"), blocked("small")), (Some(Disposition::Evict), Some(Disposition::Block)));
}

#[test]
fn labels_and_taints_of_a_kind_decide() {
    let gpu = json!({
        "metadata": { "labels": { "gpu": "true" } },
        "spec": { "taints": [{ "key": "gpu", "effect": "NoSchedule" }] },
        "status": { "allocatable": { "nvidia.com/gpu": "1" } },
    });
    let pools = [pool(vec![kind("4", &json!({})), kind("8", &gpu)])];
    let selecting = json!({ "spec": { "nodeSelector": { "gpu": "true" } } });
    assert_no_room(&with(vec![web("web", "1", &selecting)], &pools), "taint gpu");
    let mut tolerating = selecting;
    merge(&mut tolerating, &json!({ "spec": { "tolerations": [{ "key": "gpu", "operator": "Exists" }] } }));
    assert_eq!(with(vec![web("web", "1", &tolerating)], &pools).moves.blockers, []);
}

#[test]
fn what_daemon_sets_take_of_a_new_node_is_not_offered() {
    let busy = NewNode {
        daemons: Resources { milli_cpu: 500, ..Resources::default() },
        daemon_pods: 109,
        ..kind("4", &json!({}))
    };
    let pools = [pool(vec![busy])];
    assert_no_room(&with(vec![web("web", "4", &json!({}))], &pools), "needs 4, 3500m free");
    let two = with(vec![web("web-1", "1", &json!({})), web("web-2", "1", &json!({}))], &pools);
    assert_eq!(two.preview.new_nodes, 2, "one slot is left on each");
}

#[test]
fn a_label_of_which_the_value_is_not_known_serves_nobody_who_looks_at_it() {
    let somewhere = NewNode { uncertain: vec![ZONE.into()], ..kind("4", &json!({})) };
    let pools = [pool(vec![somewhere])];
    assert_eq!(with(vec![web("web", "1", &json!({}))], &pools).moves.blockers, []);
    let spread = json!({ "spec": { "topologySpreadConstraints": [{
        "maxSkew": 1, "topologyKey": ZONE, "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": { "matchLabels": { "app": "web" } },
    }] } });
    let promise = with(vec![web("web", "1", &spread)], &pools);
    assert_no_room(&promise, &format!("which {ZONE} a new node gets is not known"));
}

#[test]
fn a_pool_of_which_no_node_was_seen_promises_nothing() {
    assert_no_room(&with(vec![web("web", "1", &json!({}))], &[pool(vec![])]), "no node of it was seen");
}

#[test]
fn pods_that_keep_off_each_other_need_a_new_node_each() {
    let apart = json!({ "spec": { "affinity": { "podAntiAffinity": { "requiredDuringSchedulingIgnoredDuringExecution":
        [{ "topologyKey": "kubernetes.io/hostname", "labelSelector": { "matchLabels": { "app": "web" } } }],
    } } } });
    let one = Headroom { nodes_left: Some(1), ..pool(vec![kind("4", &json!({}))]) };
    let pods = || vec![web("web-1", "1", &apart), web("web-2", "1", &apart)];
    assert_eq!(with(pods(), &[pool(vec![kind("4", &json!({}))])]).preview.new_nodes, 2);
    assert_no_room(&with(pods(), &[one]), "no room for 1 of 2");
}

#[test]
fn with_force_what_has_no_room_is_not_reserved_and_the_rest_is() {
    let roomy = testing::node("n1", &json!({}));
    let options = Options { force: true, ..Options::default() };
    let pods = vec![web("big", "8", &json!({})), web("small", "1", &json!({}))];
    let promise = judged(pods, vec![roomy], &[], &options);
    assert_eq!(promise.moves.blockers, []);
    let [warning] = &promise.moves.warnings[..] else { panic!("one warning: {:?}", promise.moves.warnings) };
    assert_eq!((warning.code, &*warning.object), (rotate_shared::Code::NotReserved, "Pod shop/big"));
    let classes: Vec<_> = promise.moves.pods.iter().map(|judged| judged.class.as_deref()).collect();
    assert_eq!(classes, [None, Some("a")]);
}

#[test]
fn a_pod_on_its_way_out_is_not_reserved_for_where_there_is_no_room_and_does_not_block() {
    let leaving = json!({ "metadata": { "deletionTimestamp": testing::CREATED } });
    let promise = with(vec![web("web", "8", &leaving)], &[]);
    assert_eq!(promise.moves.blockers, []);
    assert_eq!(promise.moves.pods[0].class, None);
    assert_eq!(promise.moves.warnings[0].code, rotate_shared::Code::NotReserved);
}

#[test]
fn room_that_is_there_only_if_the_scheduler_is_lucky_is_not_promised() {
    // One of 2 CPU and two of 1 500m on nodes of 3 and 2 CPU: there is room for all if the big one takes the small
    // node, which the scheduler does not do by itself.
    let node = |name: &str, cpu: &str| testing::node(name, &json!({ "status": { "allocatable": { "cpu": cpu } } }));
    let pods = || vec![web("big", "2", &json!({})), web("s-1", "1500m", &json!({})), web("s-2", "1500m", &json!({}))];
    let lucky = judged(pods(), vec![node("a", "2"), node("b", "3")], &[], &Options::default());
    assert_no_room(&lucky, "it suffices only if the scheduler happens to choose well; else node");
    let ample = judged(pods(), vec![node("a", "3500m"), node("b", "3500m")], &[], &Options::default());
    assert_eq!(ample.moves.blockers, []);
}

fn in_zone(name: &str, zone: &str, cpu: &str) -> Node {
    let labels = json!({ "metadata": { "labels": { ZONE: zone } }, "status": { "allocatable": { "cpu": cpu } } });
    testing::node(name, &labels)
}

#[test]
fn only_if_the_candidates_zone_has_no_room_another_that_would_admit_the_pod_is_taken() {
    let spread = json!({ "spec": { "topologySpreadConstraints": [{
        "maxSkew": 1, "topologyKey": ZONE, "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": { "matchLabels": { "app": "web" } },
    }] } });
    let rooms = |in_a| {
        let others = vec![in_zone("in-a", "a", in_a), in_zone("in-b", "b", "4")];
        let promise = judged(vec![web("web", "1", &spread)], others, &[], &Options::default());
        assert_eq!(promise.moves.blockers, []);
        promise.preview.rooms.iter().flatten().filter_map(|room| room.node.clone()).collect::<Vec<_>>()
    };
    assert_eq!(rooms("4"), ["in-a"]);
    assert_eq!(rooms("500m"), ["in-b"]);
}

#[test]
fn one_placeholder_for_all_needs_one_node_with_room_for_all() {
    let options = Options { surge: rotate_shared::SurgeMode::Single, ..Options::default() };
    let pods = || vec![web("web-1", "1", &json!({})), web("web-2", "1", &json!({}))];
    let node = |name: &str, cpu: &str| testing::node(name, &json!({ "status": { "allocatable": { "cpu": cpu } } }));
    let apart = judged(pods(), vec![node("n1", "1"), node("n2", "1")], &[], &options);
    assert_no_room(&apart, "no room for 2 of 2 Pods of its class (cpu 2): node n1: Insufficient cpu: needs 2, 1 free");
    let together = judged(pods(), vec![node("n1", "1"), node("n2", "2")], &[], &options);
    assert_eq!(together.moves.blockers, []);
    assert_eq!(together.preview.rooms, [vec![Room { node: Some("n2".to_owned()), new_node: None, count: 2 }]]);
}

fn mounting(name: &str, on: &str) -> Pod {
    let volume = json!({ "name": "data", "persistentVolumeClaim": { "claimName": name } });
    web(name, "100m", &json!({ "spec": { "nodeName": on, "volumes": [volume] } }))
}

#[test]
fn a_node_takes_no_more_volumes_than_its_driver_allows_whoever_mounts_them() {
    let claim = |name: &str| ((Box::from("shop"), Box::from(name)), bound_by("ebs.example.com"));
    let limit = |node: &str, count| (Box::from(node), [(Box::from("ebs.example.com"), count)].into());
    let volumes =
        |count| Volumes { claims: [claim("web-1"), claim("web-2")].into(), limits: [limit("n1", count)].into() };
    let pods = || vec![mounting("web-1", "cand"), mounting("web-2", "cand"), mounting("other", "n1")];
    let with_limit = |count| {
        let nodes = vec![testing::node("n1", &json!({}))];
        with_volumes(pods(), nodes, &[], &Options::default(), &volumes(count))
    };
    assert_eq!(with_limit(3).moves.blockers, []);
    let full = with_limit(2);
    assert_no_room(&full, "no room for 1 of 2");
    assert_no_room(&full, "node n1: too many volumes: 2 claims are mounted there, ebs.example.com takes 2");
}

fn bound_by(driver: &str) -> crate::cache::volumes::Claim {
    crate::cache::volumes::Claim::Bound { volume: "pv".into(), terms: None, local: false, driver: Some(driver.into()) }
}

#[test]
fn a_node_takes_no_more_pods_than_its_range_of_addresses_has_room_for() {
    // 8 addresses, of which three are nobody's.
    let small = testing::node("n1", &json!({ "spec": { "podCIDRs": ["10.0.0.0/29"] } }));
    let pods = |count| (0..count).map(|number| web(&format!("web-{number}"), "100m", &json!({}))).collect();
    assert_eq!(judged(pods(5), vec![small.clone()], &[], &Options::default()).moves.blockers, []);
    assert_no_room(&judged(pods(6), vec![small], &[], &Options::default()), "too few addresses: 5 Pods, room for 5");
}

#[test]
fn daemon_sets_that_alone_exceed_a_kind_of_node_are_told() {
    let daemons = Resources { memory: 17 << 30, ..Resources::default() };
    let pools = [pool(vec![NewNode { daemons, ..kind("4", &json!({})) }])];
    let words = "its DaemonSets alone do not fit: Insufficient memory: needs 17Gi, 16Gi free";
    assert_no_room(&with(vec![web("web", "1", &json!({}))], &pools), words);
}
