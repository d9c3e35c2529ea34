use serde_json::json;

use super::status::{GroupStatus, Told};
use super::*;
use crate::surge::testing::{self, CREATED};

fn now() -> Timestamp {
    CREATED.parse().unwrap()
}

fn node() -> Node {
    let labels = json!({ "metadata": { "labels": { "eks.amazonaws.com/nodegroup": "web" } } });
    let mut node = testing::node("n1", &labels);
    node.provider_id = Some("aws:///i-1".into());
    node
}

fn objects(target: u32, min: u32) -> ProviderObjects {
    let name = "eks-web-2c1f9d3b-a8e2-4f11-9c3e-8b7a6d5e4f30".to_owned();
    let group = GroupStatus { name, target, min, max: 9, ..GroupStatus::default() };
    let status = Status::Read(Told { at: now(), running: true, groups: vec![group] });
    ProviderObjects { autoscaler: Objects { status, ..Objects::default() }, ..ProviderObjects::default() }
}

fn explained(objects: &ProviderObjects, then: Option<Then>) -> Vec<Notice> {
    let options = Options { then, ..Options::default() };
    let state = testing::state([node()], []);
    let explained = ClusterAutoscaler.explain(&node(), &state, objects, &options, now());
    assert!(explained.blockers.is_empty());
    explained.warnings
}

#[test]
fn an_autoscaler_that_is_heard_needs_no_explanation() {
    assert_eq!(explained(&objects(3, 1), None), []);
}

#[test]
fn who_is_not_heard_is_named_with_what_to_do() {
    let [warning] = &*explained(&ProviderObjects::default(), None) else { panic!() };
    assert_eq!((warning.code, &*warning.object), (Code::AutoscalerUnseen, "group web (eks)"));
    assert!(warning.message.starts_with("ConfigMap kube-system/cluster-autoscaler-status"), "{warning:?}");
    assert!(warning.remedy.contains("--autoscaler-status"), "{warning:?}");

    let mut other = objects(3, 1);
    if let Status::Read(told) = &mut other.autoscaler.status {
        told.groups[0].name = "asg-of-mine".to_owned();
    }
    let [warning] = &*explained(&other, None) else { panic!() };
    assert!(warning.message.contains("1 groups and of none that it could be (asg-of-mine)"), "{warning:?}");
    assert!(warning.remedy.contains("--node-group-label"), "{warning:?}");
}

#[test]
fn deleting_the_node_object_says_that_the_machine_runs_on_unless_a_hook_ends_it() {
    let mut objects = objects(3, 1);
    assert_eq!(explained(&objects, Some(Then::Delete))[0].code, Code::MachineRunsOn);
    assert_eq!(ClusterAutoscaler.default_then(&node(), &objects), Then::Keep);
    objects.autoscaler.settings = Arc::new(Settings { hook: true, ..Settings::default() });
    assert_eq!(explained(&objects, Some(Then::Delete)), []);
    assert_eq!(ClusterAutoscaler.default_then(&node(), &objects), Then::Delete);
    assert_eq!(ClusterAutoscaler.remove(&node(), &objects), Removal::Hook { provider_id: "aws:///i-1".to_owned() });
}

#[test]
fn a_node_left_to_the_autoscaler_is_expected_to_go_but_not_at_the_minimum() {
    let state = testing::state([node()], []);
    let left = |objects: &ProviderObjects| match objects.autoscaler.left(&node(), &state, now()) {
        Removal::Left { to, within } => (to, within),
        other => panic!("{other:?}"),
    };
    let (to, within) = left(&objects(3, 1));
    assert!(to.contains("group web (eks)") && within == Some(UNNEEDED), "{to}");
    let (to, within) = left(&objects(3, 3));
    assert!(to.contains("minimum of 3 nodes") && within.is_none(), "{to}");
    let (to, within) = left(&ProviderObjects::default());
    assert!(to.starts_with("nobody") && within.is_none(), "{to}");
}

#[test]
fn a_node_that_the_autoscaler_takes_away_is_seen() {
    let mut taken = node();
    assert_eq!(ClusterAutoscaler.taken(&taken, &ProviderObjects::default()), None);
    let taint = json!({ "spec": { "taints": [{ "key": TO_BE_DELETED, "effect": "NoSchedule" }] } });
    taken.taints = testing::node("n", &taint).taints;
    assert!(ClusterAutoscaler.taken(&taken, &ProviderObjects::default()).is_some());
}
