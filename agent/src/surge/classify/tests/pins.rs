//! Which Pods can run only on the candidate.

use super::*;
use crate::cache::selector::{Expression, NodeTerm, Operator};
use crate::cache::volumes::Claim;

fn affinity(terms: &Value) -> Value {
    json!({ "spec": { "affinity": { "nodeAffinity": {
        "requiredDuringSchedulingIgnoredDuringExecution": { "nodeSelectorTerms": terms },
    } } } })
}

fn hostname(operator: &str, values: &[&str]) -> Value {
    json!({ "key": "kubernetes.io/hostname", "operator": operator, "values": values })
}

fn zone_a() -> Value {
    json!({ "key": "topology.kubernetes.io/zone", "operator": "In", "values": ["a"] })
}

#[track_caller]
fn assert_pinned(over: &Value) {
    assert_eq!(cpu_reserved_for(over), 0);
    let verdict = by_default(over);
    assert_eq!(blocked_by(&verdict), [Code::PinnedPod]);
    assert_eq!(verdict.reason, PodReason::Pinned);
}

#[track_caller]
fn assert_counted(over: &Value) {
    assert_eq!(cpu_reserved_for(over), 1000);
    assert_eq!(by_default(over).reason, PodReason::Replicated);
}

#[test]
fn required_hostname_affinity_to_the_candidate_pins() {
    assert_pinned(&affinity(&json!([{ "matchExpressions": [hostname("In", &["cand"])] }])));
}

#[test]
fn required_hostname_affinity_anded_with_a_zone_pins() {
    assert_pinned(&affinity(&json!([{ "matchExpressions": [hostname("In", &["cand"]), zone_a()] }])));
}

#[test]
fn two_ored_terms_that_both_name_the_candidate_pin() {
    let term = json!({ "matchExpressions": [hostname("In", &["cand"])] });
    assert_pinned(&affinity(&json!([term, term])));
}

#[test]
fn a_hostname_other_than_another_does_not_pin() {
    assert_counted(&affinity(&json!([{ "matchExpressions": [hostname("NotIn", &["other"])] }])));
}

#[test]
fn any_hostname_does_not_pin() {
    let exists = json!({ "key": "kubernetes.io/hostname", "operator": "Exists" });
    assert_counted(&affinity(&json!([{ "matchExpressions": [exists] }])));
}

#[test]
fn one_of_two_hostnames_does_not_pin() {
    assert_counted(&affinity(&json!([{ "matchExpressions": [hostname("In", &["cand", "other"])] }])));
}

#[test]
fn the_candidate_ored_with_a_zone_does_not_pin() {
    let terms = json!([{ "matchExpressions": [hostname("In", &["cand"])] }, { "matchExpressions": [zone_a()] }]);
    assert_counted(&affinity(&terms));
}

#[test]
fn a_pin_to_another_node_does_not_pin_here() {
    assert_counted(&affinity(&json!([{ "matchExpressions": [hostname("In", &["other"])] }])));
}

#[test]
fn anded_hostnames_pin_where_they_have_only_the_candidate_in_common() {
    let both = json!([{ "matchExpressions": [hostname("In", &["cand"]), hostname("In", &["cand", "other"])] }]);
    assert_pinned(&affinity(&both));
    let but = json!([{ "matchExpressions": [hostname("In", &["cand", "other"]), hostname("NotIn", &["other"])] }]);
    assert_pinned(&affinity(&but));
}

#[test]
fn a_term_that_nothing_satisfies_does_not_unpin() {
    let nowhere = json!({ "matchExpressions": [hostname("In", &["cand"]), hostname("In", &["other"])] });
    assert_pinned(&affinity(&json!([nowhere, { "matchExpressions": [hostname("In", &["cand"])] }])));
    assert_counted(&affinity(&json!([nowhere])));
}

#[test]
fn match_fields_with_the_nodes_name_pin() {
    let field = |values: &[&str]| json!({ "key": "metadata.name", "operator": "In", "values": values });
    assert_pinned(&affinity(&json!([{ "matchFields": [field(&["cand"])] }])));
    assert_counted(&affinity(&json!([{ "matchFields": [field(&["other"])] }])));
}

#[test]
fn a_node_selector_pins_by_the_candidates_hostname_only() {
    let selector = |value: &str| json!({ "spec": { "nodeSelector": { "kubernetes.io/hostname": value } } });
    assert_pinned(&selector("cand"));
    assert_counted(&selector("other"));
}

#[test]
fn a_node_selector_and_an_affinity_are_anded() {
    let mut both = affinity(&json!([{ "matchExpressions": [hostname("In", &["cand", "other"])] }]));
    merge(&mut both, &json!({ "spec": { "nodeSelector": { "kubernetes.io/hostname": "cand" } } }));
    assert_pinned(&both);
}

#[test]
fn pins_compare_with_the_hostname_label_and_not_with_the_nodes_name() {
    let node = testing::node("cand", &json!({ "metadata": { "labels": { "kubernetes.io/hostname": "ip-10-0-0-1" } } }));
    let pinned_to = |value: &str| {
        let over = one_cpu(&json!({ "spec": { "nodeSelector": { "kubernetes.io/hostname": value } } }));
        let state = testing::state([node.clone()], [pod("shop", "web-1", &over)]);
        state.movable("cand").pods == 0
    };
    assert!(pinned_to("ip-10-0-0-1"));
    assert!(!pinned_to("cand"));
}

#[test]
fn preferred_affinity_and_a_requirement_of_no_terms_do_not_pin() {
    assert_counted(&json!({ "spec": { "affinity": { "nodeAffinity": {
        "preferredDuringSchedulingIgnoredDuringExecution":
            [{ "weight": 1, "preference": { "matchExpressions": [hostname("In", &["cand"])] } }],
    } } } }));
    assert_counted(&affinity(&json!([])));
}

fn claim_bound_to(expression: Expression) -> Verdict {
    let node = testing::node("cand", &json!({ "metadata": { "labels": { "topology.topolvm.io/node": "cand" } } }));
    let terms = Some(vec![NodeTerm { expressions: vec![expression], fields: Vec::new() }]);
    let claim = Claim::Bound { volume: "pv-1".into(), terms, local: true, driver: None };
    let volumes = Volumes { claims: [(("shop".into(), "data".into()), claim)].into(), ..Volumes::default() };
    let options = Options::default();
    let over = json!({ "spec": { "volumes": [{ "name": "data", "persistentVolumeClaim": { "claimName": "data" } }] } });
    classify(&pod("shop", "web-1", &over), &Context::new(&node, &volumes, &options, now()))
}

fn label_in(key: &str, values: &[&str]) -> Expression {
    Expression { key: key.into(), operator: Operator::In, values: values.iter().map(|value| (*value).into()).collect() }
}

#[test]
fn a_local_volume_on_the_candidate_pins() {
    let verdict = claim_bound_to(label_in("kubernetes.io/hostname", &["cand"]));
    assert_eq!(blocked_by(&verdict), [Code::PinnedPod]);
    assert!(!verdict.reserved);
    assert!(verdict.blockers[0].message.contains("PersistentVolume pv-1 of its claim data"));
    assert_eq!(blocked_by(&claim_bound_to(label_in("topology.topolvm.io/node", &["cand"]))), [Code::PinnedPod]);
}

#[test]
fn a_volume_of_the_zone_or_of_several_nodes_does_not_pin() {
    assert_eq!(blocked_by(&claim_bound_to(label_in("topology.kubernetes.io/zone", &["a"]))), []);
    assert_eq!(blocked_by(&claim_bound_to(label_in("kubernetes.io/hostname", &["cand", "other"]))), []);
}
