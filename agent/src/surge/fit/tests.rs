use serde_json::{Value, json};

use super::*;
use crate::cache::Partition;
use crate::surge::testing::{self, merge};

const ZONE: &str = "topology.kubernetes.io/zone";

fn node(name: &str, over: &Value) -> Node {
    testing::node(name, over)
}

fn in_zone(name: &str, zone: &str) -> Node {
    node(name, &json!({ "metadata": { "labels": { ZONE: zone } } }))
}

/// A Pod of the workload `app`, on a node or without one.
fn of(app: &str, name: &str, on: Option<&str>, over: &Value) -> Pod {
    let mut object = json!({ "metadata": { "labels": { "app": app } }, "spec": { "nodeName": on } });
    merge(&mut object, over);
    testing::pod("shop", name, &object)
}

fn wants(over: &Value) -> Pod {
    of("web", "web-new", None, over)
}

fn cpu(amount: &str) -> Value {
    testing::requesting(&json!({ "cpu": amount }))
}

/// Whether the Pod fits on the first of these nodes; what forbids it.
fn on_first(pod: &Pod, nodes: Vec<Node>, pods: Vec<Pod>) -> Result<(), String> {
    with_gone(pod, nodes, pods, &[])
}

fn with_gone(pod: &Pod, nodes: Vec<Node>, pods: Vec<Pod>, gone: &[&str]) -> Result<(), String> {
    let first = nodes[0].clone();
    let state = testing::state(nodes, pods);
    fits(pod, &first, &state, &gone.iter().copied().collect()).map_err(|misfit| misfit.to_string())
}

#[track_caller]
fn assert_misfit(result: Result<(), String>, words: &str) {
    let message = result.expect_err("does not fit");
    assert!(message.contains(words), "{message:?} does not say {words:?}");
}

#[test]
fn an_empty_ready_node_takes_a_pod() {
    assert_eq!(on_first(&wants(&cpu("4")), vec![node("n", &json!({}))], vec![]), Ok(()));
}

#[test]
fn a_node_with_a_pod_that_cannot_be_read_takes_none() {
    let nodes = [node("n", &json!({})), node("other", &json!({}))];
    let mut state = testing::state(nodes.clone(), vec![]);
    state.note_unreadable(testing::unreadable("x", "n"));
    let [first, other] = nodes.map(|node| fits(&wants(&json!({})), &node, &state, &BTreeSet::new()));
    assert_misfit(first.map_err(|misfit| misfit.to_string()), "a Pod of the node cannot be read");
    assert_eq!(other, Ok(()));
}

#[test]
fn cordoned_unready_and_leaving_nodes_take_none() {
    let of = |over: &Value| on_first(&wants(&json!({})), vec![node("n", over)], vec![]);
    assert_misfit(of(&json!({ "spec": { "unschedulable": true } })), "cordoned");
    assert_misfit(of(&json!({ "status": { "conditions": [{ "type": "Ready", "status": "Unknown" }] } })), "not Ready");
    assert_misfit(of(&json!({ "status": { "conditions": [] } })), "not Ready");
    assert_misfit(of(&json!({ "metadata": { "deletionTimestamp": testing::CREATED } })), "being deleted");
}

#[test]
fn a_cordoned_node_takes_none_even_where_the_cordon_is_tolerated() {
    let tolerant = wants(&json!({ "spec": { "tolerations": [{ "operator": "Exists" }] } }));
    assert_misfit(
        on_first(&tolerant, vec![node("n", &json!({ "spec": { "unschedulable": true } }))], vec![]),
        "cordoned",
    );
}

#[test]
fn amounts_that_do_not_suffice_are_said_in_the_schedulers_words_with_numbers() {
    let held = of("db", "db-1", Some("n"), &cpu("3800m"));
    let result = on_first(&wants(&cpu("500m")), vec![node("n", &json!({}))], vec![held]);
    assert_eq!(result, Err("Insufficient cpu: needs 500m, 200m free".to_owned()));
    let memory = wants(&testing::requesting(&json!({ "memory": "17Gi" })));
    let result = on_first(&memory, vec![node("n", &json!({}))], vec![]);
    assert_eq!(result, Err("Insufficient memory: needs 17Gi, 16Gi free".to_owned()));
    let gpu = wants(&testing::requesting(&json!({ "nvidia.com/gpu": "2" })));
    let result = on_first(&gpu, vec![node("n", &json!({}))], vec![]);
    assert_eq!(result, Err("Insufficient nvidia.com/gpu: needs 2, 0 free".to_owned()));
}

#[test]
fn finished_pods_hold_no_room_and_terminating_ones_do() {
    let finished = of("db", "db-1", Some("n"), &{
        let mut over = cpu("4");
        merge(&mut over, &json!({ "status": { "phase": "Succeeded" } }));
        over
    });
    assert_eq!(on_first(&wants(&cpu("4")), vec![node("n", &json!({}))], vec![finished]), Ok(()));
    let terminating = of("db", "db-1", Some("n"), &{
        let mut over = cpu("4");
        merge(&mut over, &json!({ "metadata": { "deletionTimestamp": testing::CREATED } }));
        over
    });
    assert_misfit(on_first(&wants(&cpu("4")), vec![node("n", &json!({}))], vec![terminating]), "Insufficient cpu");
}

#[test]
fn what_a_gone_pod_holds_is_free() {
    let placeholder = of("db", "room-1", Some("n"), &cpu("4"));
    let nodes = vec![node("n", &json!({}))];
    assert_misfit(on_first(&wants(&cpu("4")), nodes.clone(), vec![placeholder.clone()]), "Insufficient cpu");
    assert_eq!(with_gone(&wants(&cpu("4")), nodes, vec![placeholder], &["room-1"]), Ok(()));
}

#[test]
fn gone_pods_of_other_nodes_and_unknown_ones_free_nothing() {
    let full = of("db", "db-1", Some("n"), &cpu("4"));
    let elsewhere = of("db", "db-2", Some("m"), &cpu("4"));
    let nodes = vec![node("n", &json!({})), node("m", &json!({}))];
    let result = with_gone(&wants(&cpu("1")), nodes, vec![full, elsewhere], &["db-2", "nobody"]);
    assert_misfit(result, "Insufficient cpu: needs 1, 0 free");
}

#[test]
fn an_overcommitted_node_takes_a_pod_that_does_not_need_what_is_short() {
    let over = of("db", "db-1", Some("n"), &cpu("5"));
    let memory = wants(&testing::requesting(&json!({ "memory": "1Gi" })));
    assert_eq!(on_first(&memory, vec![node("n", &json!({}))], vec![over]), Ok(()));
}

#[test]
fn a_node_takes_no_more_pods_than_it_has_slots() {
    let small = node("n", &json!({ "status": { "allocatable": { "pods": "1" } } }));
    let there = of("db", "db-1", Some("n"), &json!({}));
    assert_misfit(on_first(&wants(&json!({})), vec![small.clone()], vec![there.clone()]), "Too many pods: 1 of 1");
    assert_eq!(with_gone(&wants(&json!({})), vec![small], vec![there], &["db-1"]), Ok(()));
}

#[test]
fn node_selector_and_affinity_must_match() {
    let selects = wants(&json!({ "spec": { "nodeSelector": { "pool": "gpu" } } }));
    assert_misfit(on_first(&selects, vec![node("n", &json!({}))], vec![]), "pool=gpu");
    let affinity = wants(&json!({ "spec": { "affinity": { "nodeAffinity": {
        "requiredDuringSchedulingIgnoredDuringExecution": { "nodeSelectorTerms": [
            { "matchExpressions": [{ "key": "pool", "operator": "In", "values": ["gpu"] }] },
            { "matchExpressions": [{ "key": ZONE, "operator": "In", "values": ["b"] }] },
        ] },
    } } } }));
    assert_misfit(on_first(&affinity, vec![node("n", &json!({}))], vec![]), "node affinity");
    assert_eq!(on_first(&affinity, vec![in_zone("n", "b")], vec![]), Ok(()));
}

#[test]
fn taints_must_be_tolerated() {
    let tainted =
        |effect: &str| node("n", &json!({ "spec": { "taints": [{ "key": "gpu", "value": "x", "effect": effect }] } }));
    let plain = wants(&json!({}));
    assert_misfit(on_first(&plain, vec![tainted("NoSchedule")], vec![]), "gpu=x");
    assert_misfit(on_first(&plain, vec![tainted("NoExecute")], vec![]), "gpu=x");
    assert_eq!(on_first(&plain, vec![tainted("PreferNoSchedule")], vec![]), Ok(()));
    let tolerant =
        wants(&json!({ "spec": { "tolerations": [{ "key": "gpu", "value": "x", "effect": "NoSchedule" }] } }));
    assert_eq!(on_first(&tolerant, vec![tainted("NoSchedule")], vec![]), Ok(()));
    assert_misfit(on_first(&tolerant, vec![tainted("NoExecute")], vec![]), "gpu=x");
}

fn listening(ip: Option<&str>, port: u16, protocol: &str) -> Value {
    let mut claimed = json!({ "containerPort": port, "hostPort": port, "protocol": protocol });
    if let Some(ip) = ip {
        claimed["hostIP"] = json!(ip);
    }
    json!({ "spec": { "containers": [{ "name": "app", "ports": [claimed] }] } })
}

#[test]
fn host_ports_must_be_free() {
    let try_beside = |there: &Value, wanted: &Value| {
        on_first(&wants(wanted), vec![node("n", &json!({}))], vec![of("db", "db-1", Some("n"), there)])
    };
    let tcp = listening(None, 80, "TCP");
    assert_misfit(try_beside(&tcp, &tcp), "host port 80/TCP is taken by Pod shop/db-1");
    assert_eq!(try_beside(&tcp, &listening(None, 81, "TCP")), Ok(()));
    assert_eq!(try_beside(&tcp, &listening(None, 80, "UDP")), Ok(()));
    assert_misfit(try_beside(&tcp, &listening(Some("10.0.0.1"), 80, "TCP")), "80/TCP");
    let [one, other] = ["10.0.0.1", "10.0.0.2"].map(|ip| listening(Some(ip), 80, "TCP"));
    assert_eq!(try_beside(&one, &other), Ok(()));
}

fn pod_term(kind: &str, key: &str, app: &str) -> Value {
    json!({ "spec": { "affinity": { kind: { "requiredDuringSchedulingIgnoredDuringExecution":
        [{ "topologyKey": key, "labelSelector": { "matchLabels": { "app": app } } }],
    } } } })
}

const APART: &str = "podAntiAffinity";
const TOGETHER: &str = "podAffinity";
const HOST: &str = "kubernetes.io/hostname";

#[test]
fn the_pods_own_anti_affinity_keeps_it_off_hosts_and_zones() {
    let nodes = || vec![in_zone("n", "a"), in_zone("m", "a"), in_zone("o", "b")];
    let db = |on| vec![of("db", "db-1", Some(on), &json!({}))];
    let host = wants(&pod_term(APART, HOST, "db"));
    assert_misfit(on_first(&host, nodes(), db("n")), "Pod shop/db-1 is in kubernetes.io/hostname=n");
    assert_eq!(on_first(&host, nodes(), db("m")), Ok(()));
    let zone = wants(&pod_term(APART, ZONE, "db"));
    assert_misfit(on_first(&zone, nodes(), db("m")), "topology.kubernetes.io/zone=a");
    assert_eq!(on_first(&zone, nodes(), db("o")), Ok(()));
    assert_eq!(with_gone(&zone, nodes(), db("m"), &["db-1"]), Ok(()));
}

#[test]
fn anti_affinity_of_those_that_are_there_keeps_it_off_too() {
    let nodes = || vec![in_zone("n", "a"), in_zone("m", "a"), in_zone("o", "b")];
    let guard = |on, key| vec![of("db", "db-1", Some(on), &pod_term(APART, key, "web"))];
    assert_misfit(on_first(&wants(&json!({})), nodes(), guard("m", ZONE)), "anti-affinity of Pod shop/db-1");
    assert_eq!(on_first(&wants(&json!({})), nodes(), guard("m", HOST)), Ok(()));
    assert_eq!(on_first(&wants(&json!({})), nodes(), guard("o", ZONE)), Ok(()));
    assert_eq!(with_gone(&wants(&json!({})), nodes(), guard("m", ZONE), &["db-1"]), Ok(()));
}

#[test]
fn anti_affinity_to_pods_of_other_namespaces_does_not_count_unless_it_says_so() {
    let mut elsewhere = json!({ "metadata": { "labels": { "app": "db" } }, "spec": { "nodeName": "n" } });
    merge(&mut elsewhere, &json!({}));
    let other = testing::pod("bank", "db-1", &elsewhere);
    let nodes = || vec![node("n", &json!({}))];
    assert_eq!(on_first(&wants(&pod_term(APART, HOST, "db")), nodes(), vec![other.clone()]), Ok(()));
    let everywhere = json!({ "spec": { "affinity": { APART: { "requiredDuringSchedulingIgnoredDuringExecution":
        [{ "topologyKey": HOST, "labelSelector": { "matchLabels": { "app": "db" } }, "namespaceSelector": {} }],
    } } } });
    assert_misfit(on_first(&wants(&everywhere), nodes(), vec![other]), "Pod bank/db-1");
}

#[test]
fn required_affinity_needs_company_in_the_domain() {
    let nodes = || vec![in_zone("n", "a"), in_zone("m", "a"), in_zone("o", "b")];
    let lonely = wants(&pod_term(TOGETHER, ZONE, "db"));
    assert_misfit(on_first(&lonely, nodes(), vec![]), "affinity: no matching Pod in topology.kubernetes.io/zone=a");
    assert_eq!(on_first(&lonely, nodes(), vec![of("db", "db-1", Some("m"), &json!({}))]), Ok(()));
    assert_misfit(on_first(&lonely, nodes(), vec![of("db", "db-1", Some("o"), &json!({}))]), "zone=a");
}

#[test]
fn the_first_pod_of_a_group_that_asks_for_its_own_kind_is_let_in() {
    let group = wants(&pod_term(TOGETHER, ZONE, "web"));
    assert_eq!(on_first(&group, vec![in_zone("n", "a")], vec![]), Ok(()));
    let elsewhere = of("web", "web-1", Some("o"), &json!({}));
    assert_misfit(on_first(&group, vec![in_zone("n", "a"), in_zone("o", "b")], vec![elsewhere]), "zone=a");
}

fn spread_over(key: &str, over: &Value) -> Value {
    let mut constraint = json!({
        "maxSkew": 1,
        "topologyKey": key,
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": { "matchLabels": { "app": "web" } },
    });
    merge(&mut constraint, over);
    json!({ "spec": { "topologySpreadConstraints": [constraint] } })
}

fn zones() -> Vec<Node> {
    vec![in_zone("n", "a"), in_zone("o", "b")]
}

#[test]
fn topology_spread_compares_with_the_emptiest_domain() {
    let spread = wants(&spread_over(ZONE, &json!({})));
    let web = |name, on| of("web", name, Some(on), &json!({}));
    assert_eq!(on_first(&spread, zones(), vec![]), Ok(()));
    assert_misfit(
        on_first(&spread, zones(), vec![web("web-1", "n")]),
        "zone=a has 1 matching Pods, the least 0, maxSkew is 1",
    );
    assert_eq!(on_first(&spread, zones(), vec![web("web-1", "n"), web("web-2", "o")]), Ok(()));
    let wider = wants(&spread_over(ZONE, &json!({ "maxSkew": 2 })));
    assert_eq!(on_first(&wider, zones(), vec![web("web-1", "n")]), Ok(()));
    assert_eq!(with_gone(&spread, zones(), vec![web("web-1", "n")], &["web-1"]), Ok(()));
}

#[test]
fn pods_that_are_shutting_down_are_not_counted_by_a_spread() {
    let leaving = of("web", "web-1", Some("n"), &json!({ "metadata": { "deletionTimestamp": testing::CREATED } }));
    assert_eq!(on_first(&wants(&spread_over(ZONE, &json!({}))), zones(), vec![leaving]), Ok(()));
}

#[test]
fn a_node_without_the_label_of_a_spread_takes_none() {
    assert_misfit(on_first(&wants(&spread_over("rack", &json!({}))), zones(), vec![]), "no label rack");
}

#[test]
fn domains_that_the_pod_may_not_enter_do_not_count_unless_the_constraint_says_so() {
    let mut only_a = spread_over(ZONE, &json!({}));
    merge(&mut only_a, &json!({ "spec": { "nodeSelector": { ZONE: "a" } } }));
    let there = || vec![of("web", "web-1", Some("n"), &json!({}))];
    assert_eq!(on_first(&wants(&only_a), zones(), there()), Ok(()), "a is the only domain");
    let mut ignoring = spread_over(ZONE, &json!({ "nodeAffinityPolicy": "Ignore" }));
    merge(&mut ignoring, &json!({ "spec": { "nodeSelector": { ZONE: "a" } } }));
    assert_misfit(on_first(&wants(&ignoring), zones(), there()), "the least 0");
}

#[test]
fn tainted_domains_count_unless_the_constraint_honours_taints() {
    let nodes = || {
        let taint = json!({ "spec": { "taints": [{ "key": "gpu", "effect": "NoSchedule" }] } });
        let mut other = node("o", &taint);
        let labels = std::sync::Arc::make_mut(&mut other.labels);
        labels.insert(ZONE, "b");
        vec![in_zone("n", "a"), other]
    };
    let there = || vec![of("web", "web-1", Some("n"), &json!({}))];
    assert_misfit(on_first(&wants(&spread_over(ZONE, &json!({}))), nodes(), there()), "the least 0");
    let honouring = spread_over(ZONE, &json!({ "nodeTaintsPolicy": "Honor" }));
    assert_eq!(on_first(&wants(&honouring), nodes(), there()), Ok(()));
}

#[test]
fn with_fewer_domains_than_wanted_the_least_is_taken_as_none() {
    let three = wants(&spread_over(ZONE, &json!({ "minDomains": 3 })));
    let everywhere = ["n", "o"].map(|on| of("web", &format!("web-{on}"), Some(on), &json!({}))).to_vec();
    assert_misfit(on_first(&three, zones(), everywhere), "the least 0");
}

#[test]
fn pods_placed_in_thought_count_for_everything() {
    let state = testing::state([in_zone("n", "a"), in_zone("o", "b")], []);
    let placed = [of("web", "web-1", Some("n"), &cpu("3"))];
    let gone = BTreeSet::new();
    let node = state.node("n").unwrap();
    let ask = |pod: &Pod| {
        let cluster = Cluster { state: &state, gone: &gone, placed: &placed, joined: &[] };
        cluster.ask(pod).fits(node).map_err(|misfit| misfit.to_string())
    };
    assert_misfit(ask(&wants(&cpu("2"))), "Insufficient cpu: needs 2, 1 free");
    assert_misfit(ask(&wants(&pod_term(APART, HOST, "web"))), "Pod shop/web-1");
    assert_misfit(ask(&wants(&spread_over(ZONE, &json!({})))), "maxSkew");
    assert_eq!(ask(&wants(&cpu("1"))), Ok(()));
}

#[test]
fn no_pod_fits_on_a_node_whose_pods_are_not_read() {
    let mut state = State::scoped();
    state.apply_node(node("n1", &json!({})));
    let fits = |state: &State| fits(&wants(&cpu("1")), state.node("n1").unwrap(), state, &BTreeSet::new());
    assert_eq!(fits(&state).unwrap_err().to_string(), "the Pods of the node are not read");
    state.cover(Partition::node("n1"));
    assert_eq!(fits(&state), Ok(()));
}
