use std::sync::Arc;

use serde_json::{Value, json};

use super::*;
use crate::provider::cluster_autoscaler::status::{GroupStatus, Status, Told};
use crate::provider::cluster_autoscaler::templates::Templates;
use crate::surge::testing::{self, CREATED};

fn now() -> Timestamp {
    CREATED.parse().unwrap()
}

fn member(name: &str, group: &str, over: &Value) -> Node {
    let mut object = json!({ "metadata": { "labels": { "eks.amazonaws.com/nodegroup": group } } });
    testing::merge(&mut object, over);
    testing::node(name, &object)
}

fn objects(groups: &[(&str, u32, u32)]) -> Objects {
    let groups = groups.iter().map(|(name, target, min)| GroupStatus {
        name: format!("eks-{name}-2c1f9d3b-a8e2-4f11-9c3e-8b7a6d5e4f30"),
        target: *target,
        min: *min,
        max: 10,
        ..GroupStatus::default()
    });
    let told = Told { at: now(), running: true, groups: groups.collect() };
    Objects { status: Status::Read(told), ..Objects::default() }
}

/// The outlook for `n1` of group web, which brings so many nodes of each group.
fn outlook(objects: &Objects, state: &State, brought: &[(&str, u32)], requests: &[&Resources], then: Then) -> Outlook {
    let brought = brought.iter().map(|(group, nodes)| (format!("group {group} (eks)"), *nodes)).collect();
    let demand = Demand { brought: &brought, requests, then };
    objects.outlook(state.node("n1").unwrap(), state, &demand, now())
}

fn sizes(outlook: &Outlook) -> Vec<(u32, u32, u32)> {
    outlook.groups.iter().map(|group| (group.nodes, group.during, group.after)).collect()
}

fn codes(outlook: &Outlook) -> Vec<Code> {
    outlook.warnings.iter().map(|warning| warning.code).collect()
}

fn three() -> State {
    testing::state(["n1", "n2", "n3"].map(|name| member(name, "web", &json!({}))), [])
}

#[test]
fn a_group_is_one_larger_while_rotating_and_then_as_before() {
    let found = outlook(&objects(&[("web", 3, 1)]), &three(), &[("web", 1)], &[], Then::Keep);
    assert_eq!((sizes(&found), codes(&found)), (vec![(3, 4, 3)], vec![]));
    assert_eq!((&*found.groups[0].name, found.groups[0].min, found.groups[0].max), ("group web (eks)", 1, 10));
    let none = outlook(&objects(&[("web", 3, 1)]), &three(), &[], &[], Then::Keep);
    assert_eq!((sizes(&none), codes(&none)), (vec![(3, 3, 2)], vec![]));
    let back = outlook(&objects(&[("web", 3, 1)]), &three(), &[], &[], Then::Uncordon);
    assert_eq!(sizes(&back), [(3, 3, 3)]);
}

#[test]
fn at_the_minimum_the_empty_node_stays_and_that_is_said() {
    let kept = outlook(&objects(&[("web", 3, 3)]), &three(), &[], &[], Then::Keep);
    assert_eq!((sizes(&kept), codes(&kept)), (vec![(3, 3, 3)], vec![Code::GroupAtMinimum]));
    let grown = outlook(&objects(&[("web", 3, 3)]), &three(), &[("web", 1)], &[], Then::Keep);
    assert_eq!((sizes(&grown), codes(&grown)), (vec![(3, 4, 3)], vec![]));
}

#[test]
fn another_group_that_brings_the_node_stays_larger() {
    let mut nodes: Vec<_> = ["n1", "n2"].map(|name| member(name, "web", &json!({}))).into();
    nodes.push(member("m1", "spot", &json!({})));
    let found = outlook(
        &objects(&[("web", 2, 0), ("spot", 1, 0)]),
        &testing::state(nodes, []),
        &[("spot", 1)],
        &[],
        Then::Keep,
    );
    assert_eq!(sizes(&found), [(1, 2, 2), (2, 2, 1)]);
}

#[test]
fn a_group_that_loses_its_last_node_is_told_of_with_what_a_template_lacks() {
    let gpu = json!({ "status": { "allocatable": { "nvidia.com/gpu": "1" } } });
    let state = testing::state([member("n1", "web", &gpu)], []);
    let found = outlook(&objects(&[("web", 1, 0)]), &state, &[], &[], Then::Keep);
    assert_eq!(codes(&found), [Code::GroupEmpty]);
    assert!(found.warnings[0].message.ends_with("may lack ephemeral-storage, nvidia.com/gpu"), "{found:?}");
}

#[test]
fn an_empty_group_is_warned_of_where_pods_need_what_its_cloud_may_not_say() {
    let before = testing::state([member("g1", "gpu", &json!({}))], []);
    let changes =
        Templates::default().changes(&before, &objects(&[]).settings, now() - SignedDuration::from_hours(24 * 9));
    let data = changes.into_iter().map(|(key, text)| (key, text.unwrap())).collect();
    let known = Objects { templates: Arc::new(Templates::read(&data)), ..objects(&[("web", 3, 1), ("gpu", 0, 0)]) };
    let plain = Resources { milli_cpu: 1000, ..Resources::default() };
    let found = outlook(&known, &three(), &[("gpu", 1)], &[&plain], Then::Keep);
    assert_eq!(codes(&found), [Code::StaleTemplate]);
    assert!(found.warnings[0].message.ends_with("node g1, last seen 9 days ago"), "{found:?}");
    let disk = Resources { ephemeral_storage: 1, ..plain };
    let found = outlook(&known, &three(), &[("gpu", 1)], &[&disk], Then::Keep);
    assert_eq!(codes(&found), [Code::GroupEmpty, Code::StaleTemplate]);
    assert_eq!(sizes(&found), [(0, 1, 1), (3, 3, 2)]);
}

#[test]
fn where_the_autoscaler_is_not_heard_no_size_is_told() {
    assert_eq!(outlook(&Objects::default(), &three(), &[], &[], Then::Keep), Outlook::default());
}
