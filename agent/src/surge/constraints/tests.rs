use rotate_shared::names::ROOM_NAMESPACE;
use serde_json::{Value, json};

use super::apart::means;
use super::*;
use crate::cache::selector::{Operator, Selector};
use crate::surge::testing::{self, merge, pod};

fn cand() -> Node {
    testing::node("cand", &json!({}))
}

fn translated(over: &Value) -> Result<Placement, Vec<Notice>> {
    translated_among(over, [])
}

fn translated_among(over: &Value, others: impl IntoIterator<Item = Pod>) -> Result<Placement, Vec<Notice>> {
    let subject = labelled(over);
    let state =
        testing::state([cand(), testing::node("other", &json!({}))], others.into_iter().chain([subject.clone()]));
    translate(&subject, &cand(), &state, &Volumes::default(), Reach::Own)
}

/// A Pod of the workload `web`.
fn labelled(over: &Value) -> Pod {
    let mut object = json!({ "metadata": { "labels": { "app": "web" } } });
    merge(&mut object, over);
    pod("shop", "web-1", &object)
}

#[track_caller]
fn refused(result: Result<Placement, Vec<Notice>>) -> String {
    let notices = result.expect_err("cannot be promised");
    for notice in &notices {
        assert_eq!((notice.code, &*notice.object), (Code::ConstraintUnsupported, "Pod shop/web-1"));
        assert!(notice.remedy.contains("--force"));
    }
    notices.into_iter().map(|notice| notice.message).collect::<Vec<_>>().join("\n")
}

fn within(key: &str, value: &str) -> Expression {
    Expression { key: key.into(), operator: Operator::In, values: vec![value.into()] }
}

fn anti_affinity(key: &str, term: &Value) -> Value {
    let mut full = json!({ "topologyKey": key, "labelSelector": { "matchLabels": { "app": "web" } } });
    merge(&mut full, term);
    json!({ "spec": { "affinity": { "podAntiAffinity": {
        "requiredDuringSchedulingIgnoredDuringExecution": [full],
    } } } })
}

fn spread(key: &str, when: &str) -> Value {
    json!({ "spec": { "topologySpreadConstraints": [{
        "maxSkew": 1,
        "topologyKey": key,
        "whenUnsatisfiable": when,
        "labelSelector": { "matchLabels": { "app": "web" } },
    }] } })
}

const ZONE: &str = "topology.kubernetes.io/zone";

#[test]
fn a_pod_without_constraints_may_be_anywhere() {
    assert_eq!(translated(&json!({})).unwrap(), Placement::default());
}

#[test]
fn node_selector_node_affinity_tolerations_and_host_ports_are_kept() {
    let over = json!({ "spec": {
        "nodeSelector": { "pool": "gpu" },
        "affinity": { "nodeAffinity": { "requiredDuringSchedulingIgnoredDuringExecution": { "nodeSelectorTerms": [
            { "matchExpressions": [{ "key": "arch", "operator": "In", "values": ["arm64"] }] },
        ] } } },
        "tolerations": [{ "key": "gpu", "operator": "Exists", "effect": "NoSchedule" }],
        "containers": [{ "name": "app", "ports": [{ "containerPort": 80, "hostPort": 8080 }] }],
    } });
    let placement = translated(&over).unwrap();
    assert_eq!(placement.node_selector, [within("pool", "gpu")]);
    assert_eq!(placement.node_affinity.as_ref().map(Vec::len), Some(1));
    assert_eq!(placement.tolerations.len(), 1);
    assert_eq!(placement.host_ports[0].port, 8080);
    assert_eq!(describe(&placement), ["pool=gpu", "arch=arm64", "host port 8080/TCP"]);
}

#[test]
fn a_zone_spread_becomes_the_candidates_zone() {
    assert_eq!(translated(&spread(ZONE, "DoNotSchedule")).unwrap().node_selector, [within(ZONE, "a")]);
}

#[test]
fn a_spread_that_need_not_hold_is_dropped() {
    assert_eq!(translated(&spread(ZONE, "ScheduleAnyway")).unwrap(), Placement::default());
}

#[test]
fn zone_anti_affinity_to_itself_becomes_the_candidates_zone() {
    let placement = translated(&anti_affinity(ZONE, &json!({}))).unwrap();
    assert_eq!(placement.node_selector, [within(ZONE, "a")]);
    assert!(placement.anti_affinity.is_empty(), "it could not be met while the original stands");
}

#[test]
fn a_zone_that_the_pod_selects_itself_is_not_said_twice() {
    let mut over = spread(ZONE, "DoNotSchedule");
    merge(&mut over, &json!({ "spec": { "nodeSelector": { ZONE: "a" } } }));
    assert_eq!(translated(&over).unwrap().node_selector, [within(ZONE, "a")]);
}

#[test]
fn a_constraint_on_a_label_that_the_candidate_lacks_blocks() {
    assert!(refused(translated(&spread("rack", "DoNotSchedule"))).contains("rack"));
}

#[test]
fn a_constraint_on_a_domain_other_than_the_selected_one_blocks() {
    let mut over = spread(ZONE, "DoNotSchedule");
    merge(&mut over, &json!({ "spec": { "nodeSelector": { ZONE: "b" } } }));
    assert!(refused(translated(&over)).contains(ZONE));
}

#[test]
fn hostname_anti_affinity_to_itself_repels_the_workload_and_its_placeholders() {
    let placement = translated(&anti_affinity(HOSTNAME, &json!({}))).unwrap();
    assert_eq!(placement.node_selector, [], "never a host name: Karpenter refuses those");
    let [term] = &placement.anti_affinity[..] else { panic!("one term: a second would keep replacements waiting") };
    assert_eq!(term.namespaces, [Box::from(ROOM_NAMESPACE), Box::from("shop")]);
    assert_eq!(placement.labels, Labels::from([("app", "web")]));
    let meant = |namespace: &str, labels: &Labels| terms::selects(term, ROOM_NAMESPACE, namespace, labels);
    assert_eq!(meant(ROOM_NAMESPACE, &placement.labels), terms::Selected::Yes, "siblings' placeholders");
    assert_eq!(meant("shop", &placement.labels), terms::Selected::Yes, "siblings");
    assert_eq!(meant("bank", &placement.labels), terms::Selected::No);
}

#[test]
fn only_labels_that_are_selected_by_are_copied() {
    let mut over = anti_affinity(HOSTNAME, &json!({}));
    merge(&mut over, &json!({ "metadata": { "labels": { "version": "7" } } }));
    assert_eq!(translated(&over).unwrap().labels.len(), 1);
}

fn two_terms(other: &Value) -> Value {
    let own = json!({ "topologyKey": HOSTNAME, "labelSelector": { "matchLabels": { "app": "web" } } });
    json!({ "spec": { "affinity": { "podAntiAffinity": {
        "requiredDuringSchedulingIgnoredDuringExecution": [own, other],
    } } } })
}

#[test]
fn terms_for_others_are_widened_so_that_the_replacement_matches_all_of_them() {
    let other = json!({ "topologyKey": HOSTNAME, "labelSelector": { "matchLabels": { "app": "db" } } });
    let placement = translated(&two_terms(&other)).unwrap();
    let words = describe(&placement);
    assert_eq!(words, ["not on a host with Pods app in (db,web) of shop", "not on a host with Pods app=web of shop"]);
    let subject = labelled(&json!({}));
    assert!(placement.anti_affinity.iter().all(|term| means(term, &subject)));
}

#[test]
fn terms_for_others_that_cannot_be_widened_block_beside_those_for_itself() {
    let by_another_label = json!({ "topologyKey": HOSTNAME, "labelSelector": { "matchLabels": { "tier": "db" } } });
    assert!(refused(translated(&two_terms(&by_another_label))).contains("cannot be joined"));
    let elsewhere = json!({
        "topologyKey": HOSTNAME, "namespaces": ["bank"], "labelSelector": { "matchLabels": { "app": "db" } },
    });
    assert!(refused(translated(&two_terms(&elsewhere))).contains("cannot be joined"));
}

#[test]
fn hostname_anti_affinity_to_others_needs_no_labels() {
    let others = json!({ "labelSelector": { "matchLabels": { "app": "db" } } });
    let placement = translated(&anti_affinity(HOSTNAME, &others)).unwrap();
    assert!(placement.labels.is_empty());
    assert_eq!(placement.anti_affinity.len(), 1);
    assert_eq!(describe(&placement), ["not on a host with Pods app=db of shop"]);
}

#[test]
fn namespaces_of_a_term_are_kept() {
    let elsewhere = json!({ "namespaces": ["bank"], "labelSelector": { "matchLabels": { "app": "web" } } });
    let placement = translated(&anti_affinity(HOSTNAME, &elsewhere)).unwrap();
    assert_eq!(placement.anti_affinity[0].namespaces, [Box::from("bank")]);
    assert!(placement.labels.is_empty(), "the term does not mean Pods of its own namespace");

    let everywhere = json!({ "namespaceSelector": {} });
    let placement = translated(&anti_affinity(HOSTNAME, &everywhere)).unwrap();
    assert_eq!(placement.labels.len(), 1);
    assert!(placement.anti_affinity.iter().any(|term| term.namespace_selector == Some(Selector::default())));
}

#[test]
fn a_hostname_spread_becomes_anti_affinity_to_the_workload() {
    let placement = translated(&spread(HOSTNAME, "DoNotSchedule")).unwrap();
    assert_eq!(placement, translated(&anti_affinity(HOSTNAME, &json!({}))).unwrap());
}

#[test]
fn resource_claims_block() {
    let claims = json!({ "spec": { "resourceClaims": [{ "name": "gpu" }] } });
    assert!(refused(translated(&claims)).contains("resource claims"));
}

fn affinity(key: &str, app: &str) -> Value {
    json!({ "spec": { "affinity": { "podAffinity": { "requiredDuringSchedulingIgnoredDuringExecution":
        [{ "topologyKey": key, "labelSelector": { "matchLabels": { "app": app } } }],
    } } } })
}

/// A Pod of a workload on a node.
fn of(app: &str, name: &str, on: &str, over: &Value) -> Pod {
    let mut object = json!({ "metadata": { "labels": { "app": app } }, "spec": { "nodeName": on } });
    merge(&mut object, over);
    pod("shop", name, &object)
}

#[test]
fn required_affinity_to_pods_elsewhere_is_kept_with_the_namespace_spelled_out() {
    let placement = translated_among(&affinity(HOSTNAME, "db"), [of("db", "db-1", "other", &json!({}))]).unwrap();
    let [term] = &placement.affinity[..] else { panic!("one term") };
    assert_eq!(term.namespaces, [Box::from("shop")]);
    assert_eq!(describe(&placement), ["on a host with Pods app=db of shop"]);
    let zonal = translated_among(&affinity(ZONE, "db"), [of("db", "db-1", "other", &json!({}))]).unwrap();
    assert_eq!(
        describe(&zonal),
        ["topology.kubernetes.io/zone=a", "in a topology.kubernetes.io/zone with Pods app=db of shop"],
        "and held to where they are: others of them may leave this node"
    );
}

#[test]
fn required_affinity_to_pods_of_this_node_alone_holds_both_to_its_zone() {
    let db = of("db", "db-1", "cand", &json!({}));
    let placement = translated_among(&affinity(ZONE, "db"), [db.clone()]).unwrap();
    assert_eq!((&placement.node_selector[..], placement.affinity.len()), (&[within(ZONE, "a")][..], 0));

    let state = testing::state([cand()], [db.clone(), labelled(&affinity(ZONE, "db"))]);
    let company = translate(&db, &cand(), &state, &Volumes::default(), Reach::Admitting).unwrap();
    assert_eq!(company.node_selector, [within(ZONE, "a")], "whoever leaves first has to come back to the zone");
}

#[test]
fn required_affinity_to_pods_of_this_host_alone_blocks() {
    let message = refused(translated_among(&affinity(HOSTNAME, "db"), [of("db", "db-1", "cand", &json!({}))]));
    assert!(message.contains("cannot move one after another"), "{message}");
    let sibling = of("web", "web-2", "cand", &affinity(HOSTNAME, "web"));
    assert!(refused(translated_among(&affinity(HOSTNAME, "web"), [sibling])).contains("one after another"));
}

#[test]
fn required_affinity_to_its_own_kind_alone_is_dropped() {
    for key in [HOSTNAME, ZONE] {
        assert_eq!(translated(&affinity(key, "web")).unwrap(), Placement::default(), "{key}");
    }
}

#[test]
fn required_affinity_to_pods_that_there_are_none_of_blocks() {
    assert!(refused(translated(&affinity(ZONE, "db"))).contains("of which there are none"));
}

#[test]
fn required_affinity_to_namespaces_whose_labels_are_not_known_blocks() {
    let mut over = affinity(ZONE, "db");
    over["spec"]["affinity"]["podAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"][0]["namespaceSelector"] =
        json!({ "matchLabels": { "team": "a" } });
    let message = refused(translated_among(&over, [of("db", "db-1", "other", &json!({}))]));
    assert!(message.contains("labels are not known"), "{message}");
}

/// The same in any zone that would admit it, among nodes of the zones a (the candidate), b and c.
fn anywhere(over: &Value, others: impl IntoIterator<Item = Pod>) -> Placement {
    let subject = labelled(over);
    let zone = |name: &str, zone: &str| testing::node(name, &json!({ "metadata": { "labels": { ZONE: zone } } }));
    let nodes = [cand(), zone("in-b", "b"), zone("in-c", "c")];
    let state = testing::state(nodes, others.into_iter().chain([subject.clone()]));
    translate(&subject, &cand(), &state, &Volumes::default(), Reach::Admitting).unwrap()
}

fn zones(placement: &Placement) -> Vec<String> {
    placement.node_affinity.iter().flatten().map(ToString::to_string).collect()
}

#[test]
fn another_zone_is_one_that_the_spread_admits_with_all_that_leave() {
    let over = spread(ZONE, "DoNotSchedule");
    assert_eq!(zones(&anywhere(&over, [])), ["topology.kubernetes.io/zone in (a,b,c)"]);
    // a has this one, b one and c none: only a and c would do.
    let other = || of("web", "web-2", "in-b", &json!({}));
    assert_eq!(zones(&anywhere(&over, [other()])), ["topology.kubernetes.io/zone in (a,c)"]);
    // Two leave: both could go to c, which would then have two, and a none.
    let sibling = of("web", "web-3", "cand", &over);
    let placement = anywhere(&over, [other(), sibling]);
    assert_eq!((zones(&placement), placement.node_selector), (vec![], vec![within(ZONE, "a")]));
}

#[test]
fn another_zone_is_one_without_those_that_it_keeps_off() {
    let over = anti_affinity(ZONE, &json!({}));
    assert_eq!(zones(&anywhere(&over, [of("web", "web-2", "in-b", &over)])), ["topology.kubernetes.io/zone in (a,c)"]);
}

fn repelling(namespace: &str, key: &str, term: &Value) -> Pod {
    let mut object = json!({ "metadata": { "labels": { "app": "db" } }, "spec": { "nodeName": "other" } });
    merge(&mut object, &anti_affinity(key, term));
    pod(namespace, "db-1", &object)
}

#[test]
fn another_workloads_hostname_anti_affinity_becomes_the_inverse_term() {
    let mut guard = repelling("shop", HOSTNAME, &json!({}));
    std::sync::Arc::make_mut(&mut guard.labels).insert("pod-template-hash", "7f");
    std::sync::Arc::make_mut(&mut guard.labels).insert("topology.kubernetes.io/zone", "a");
    let placement = translated_among(&json!({}), [guard]).unwrap();
    assert_eq!(describe(&placement), ["not on a host with Pods app=db of shop"]);
    assert!(placement.labels.is_empty());
}

#[test]
fn another_workload_with_the_same_term_is_no_sibling() {
    // Both keep off `web`, which only one of them is: `db` keeps `web` off, and `web` does not mind `db`.
    let own = anti_affinity(HOSTNAME, &json!({}));
    let placement = translated_among(&own, [repelling("shop", HOSTNAME, &json!({}))]).unwrap();
    let words = describe(&placement);
    assert_eq!(words, ["not on a host with Pods app in (db,web) of shop", "not on a host with Pods app=web of shop"]);
}

#[test]
fn another_workloads_hostname_anti_affinity_blocks_where_nothing_tells_its_pods() {
    let mut one = repelling("shop", HOSTNAME, &json!({}));
    let mut other = repelling("shop", HOSTNAME, &json!({}));
    (other.name, other.uid) = ("db-2".into(), "db-2".into());
    std::sync::Arc::make_mut(&mut one.labels).insert("app", "db-one");
    std::sync::Arc::make_mut(&mut other.labels).insert("app", "db-two");
    let message = refused(translated_among(&json!({}), [one, other]));
    assert!(message.contains("Pods of namespace shop"), "{message}");
}

#[test]
fn another_workloads_zone_anti_affinity_becomes_the_inverse_term_too() {
    let placement = translated_among(&json!({}), [repelling("shop", ZONE, &json!({}))]).unwrap();
    assert_eq!(describe(&placement), ["not in a topology.kubernetes.io/zone with Pods app=db of shop"]);
    assert!(placement.node_selector.is_empty());
}

#[test]
fn beside_a_term_for_itself_anothers_zone_anti_affinity_keeps_the_candidates_zone() {
    let own = anti_affinity(HOSTNAME, &json!({}));
    let placement = translated_among(&own, [repelling("shop", ZONE, &json!({}))]).unwrap();
    assert_eq!(placement.node_selector, [within(ZONE, "a")]);
    assert_eq!(placement.anti_affinity.len(), 1, "a second term would keep replacements waiting");
}

#[test]
fn anti_affinity_that_does_not_mean_the_pod_changes_nothing() {
    let others = [
        repelling("bank", HOSTNAME, &json!({})),
        repelling("shop", HOSTNAME, &json!({ "labelSelector": { "matchLabels": { "app": "queue" } } })),
    ];
    // Two Pods of the same name live in different namespaces only.
    let [bank, shop] = others;
    assert_eq!(translated_among(&json!({}), [bank]).unwrap(), Placement::default());
    assert_eq!(translated_among(&json!({}), [shop]).unwrap(), Placement::default());
}

#[test]
fn anti_affinity_of_namespaces_whose_labels_are_not_known_counts_as_meant() {
    let team = json!({ "namespaceSelector": { "matchLabels": { "team": "a" } } });
    let repelled_by = |term: &Value| {
        let placement = translated_among(&json!({}), [repelling("bank", HOSTNAME, term)]).unwrap();
        placement.anti_affinity.len() == 1
    };
    assert!(repelled_by(&team));
    let named = |name: &str| json!({ "namespaceSelector": { "matchLabels": { "kubernetes.io/metadata.name": name } } });
    assert!(repelled_by(&named("shop")));
    assert!(!repelled_by(&named("lab")));
}

#[test]
fn a_siblings_anti_affinity_is_translated_as_the_pods_own() {
    let own = anti_affinity(HOSTNAME, &json!({}));
    let mut sibling = own.clone();
    merge(&mut sibling, &json!({ "metadata": { "labels": { "app": "web" } }, "spec": { "nodeName": "other" } }));
    assert_eq!(translated_among(&own, [pod("shop", "web-2", &sibling)]).unwrap(), translated(&own).unwrap());
}

fn with_claims(over: &Value, claims: &[(&str, Claim)]) -> Result<Placement, Vec<Notice>> {
    let volumes: Vec<_> = claims
        .iter()
        .map(|(name, _)| json!({ "name": name, "persistentVolumeClaim": { "claimName": name } }))
        .collect();
    let mut object = json!({ "spec": { "volumes": volumes } });
    merge(&mut object, over);
    let subject = labelled(&object);
    let state = testing::state([cand()], [subject.clone()]);
    let claims = claims.iter().map(|(name, claim)| (("shop".into(), Box::from(*name)), claim.clone())).collect();
    translate(&subject, &cand(), &state, &Volumes { claims, ..Volumes::default() }, Reach::Own)
}

fn bound(terms: Option<Vec<NodeTerm>>) -> Claim {
    Claim::Bound { volume: "pv".into(), terms, local: false, driver: None }
}

fn term(key: &str, value: &str) -> NodeTerm {
    NodeTerm { expressions: vec![within(key, value)], fields: Vec::new() }
}

#[test]
fn the_volumes_zone_is_required() {
    let placement = with_claims(&json!({}), &[("data", bound(Some(vec![term(ZONE, "a")])))]).unwrap();
    assert_eq!(placement.node_affinity, Some(vec![term(ZONE, "a")]));
}

#[test]
fn alternatives_of_the_pod_and_of_its_volumes_are_combined() {
    let over = json!({ "spec": { "affinity": { "nodeAffinity": {
        "requiredDuringSchedulingIgnoredDuringExecution": { "nodeSelectorTerms": [
            { "matchExpressions": [{ "key": "arch", "operator": "In", "values": ["amd64"] }] },
            { "matchExpressions": [{ "key": "arch", "operator": "In", "values": ["arm64"] }] },
        ] },
    } } } });
    let zones = bound(Some(vec![term(ZONE, "a"), term(ZONE, "b")]));
    let terms = with_claims(&over, &[("data", zones)]).unwrap().node_affinity.unwrap();
    let words: Vec<_> = terms.iter().map(ToString::to_string).collect();
    assert_eq!(
        words,
        [
            "arch=amd64,topology.kubernetes.io/zone=a",
            "arch=amd64,topology.kubernetes.io/zone=b",
            "arch=arm64,topology.kubernetes.io/zone=a",
            "arch=arm64,topology.kubernetes.io/zone=b",
        ]
    );
}

#[test]
fn too_many_combinations_block() {
    let many = |key: &str| bound(Some((0..9).map(|value| term(key, &value.to_string())).collect()));
    assert!(refused(with_claims(&json!({}), &[("one", many("x")), ("two", many("y"))])).contains("more than 64"));
}

#[test]
fn volumes_that_go_anywhere_or_are_not_made_yet_demand_nothing() {
    let placement = with_claims(&json!({}), &[("one", bound(None)), ("two", Claim::Unbound)]).unwrap();
    assert_eq!(placement, Placement::default());
}

#[test]
fn a_claim_of_which_nothing_is_known_blocks() {
    let over = json!({ "spec": { "volumes": [{ "name": "data", "persistentVolumeClaim": { "claimName": "data" } }] } });
    assert!(refused(translated(&over)).contains("the claim data"));
}

#[test]
fn the_runtime_class_is_left_to_the_requests() {
    let over = json!({ "spec": { "runtimeClassName": "gvisor", "overhead": { "cpu": "50m" } } });
    assert_eq!(labelled(&over).shape.requests.milli_cpu, 50);
    assert_eq!(translated(&over).unwrap(), Placement::default());
}

#[test]
fn tolerations_of_the_cordon_are_left_out() {
    let cordon = json!({ "key": "node.kubernetes.io/unschedulable", "operator": "Exists", "effect": "NoSchedule" });
    let over = json!({ "spec": { "tolerations": [cordon] } });
    assert!(translated(&over).unwrap().tolerations.is_empty());
}

#[test]
fn a_toleration_of_everything_becomes_one_for_each_taint_there_is() {
    let everything = json!({ "spec": { "tolerations": [{ "operator": "Exists" }] } });
    let subject = labelled(&everything);
    let taint = |key: &str, effect: &str| json!({ "key": key, "effect": effect });
    let tainted = testing::node("gpu-1", &json!({ "spec": { "taints": [taint("gpu", "NoSchedule")] } }));
    let cordoned = testing::node(
        "cand",
        &json!({ "spec": {
        "unschedulable": true,
        "taints": [taint("node.kubernetes.io/unschedulable", "NoSchedule")],
    } }),
    );
    let state = testing::state([tainted, cordoned.clone()], [subject.clone()]);
    let tolerations = translate(&subject, &cordoned, &state, &Volumes::default(), Reach::Own).unwrap().tolerations;
    let keys: Vec<_> = tolerations.iter().map(|toleration| &*toleration.key).collect();
    assert_eq!(keys, ["gpu"]);
    assert!(!tolerations.iter().any(|toleration| toleration.tolerates(&classify::cordon_taint())));
}

#[test]
fn everything_that_cannot_be_promised_is_named_at_once() {
    let mut over = spread("rack", "DoNotSchedule");
    merge(&mut over, &json!({ "spec": { "resourceClaims": [{ "name": "gpu" }] } }));
    assert_eq!(refused(translated(&over)).lines().count(), 2);
}
