use serde_json::{Value, json};

use super::*;
use crate::surge::testing;

const STATUS: &str = "time: 2026-07-26 10:00:00.09 +0000 UTC\nautoscalerStatus: Running\nnodeGroups:\n- name: eks-web-2c1f9d3b\n  \
                      health: {status: Healthy, cloudProviderTarget: 3, minSize: 1, maxSize: 10}\n  scaleUp: {status: NoActivity}\n";

/// What is known where these were saved beside a node with this label.
fn saved(label: &str, objects: &[Value]) -> ProviderObjects {
    let mut saved = Saved::default();
    for object in objects {
        saved.take(object["kind"].as_str().unwrap(), &object.to_string());
    }
    let node = testing::node("w1", &json!({"metadata": {"labels": {label: "web"}}}));
    saved.finish(&testing::state([node], []))
}

fn config_map(namespace: &str, name: &str, data: &Value) -> Value {
    json!({"kind": "ConfigMap", "metadata": {"namespace": namespace, "name": name}, "data": data})
}

#[test]
fn of_whose_nodes_nothing_was_saved_is_known() {
    for (label, unseen) in [
        ("karpenter.sh/nodepool", vec![Provider::Karpenter]),
        ("eks.amazonaws.com/nodegroup", vec![Provider::ClusterAutoscaler]),
        ("pool", vec![]),
    ] {
        assert_eq!(saved(label, &[]).unseen, unseen, "{label}");
    }
}

#[test]
fn a_pool_among_the_objects_is_all_the_pools_there_are() {
    let pool = json!({"kind": "NodePool", "metadata": {"name": "web", "uid": "u", "creationTimestamp": testing::CREATED},
        "spec": {"template": {"spec": {"requirements": []}}}, "status": {}});
    let objects = saved("karpenter.sh/nodepool", &[pool]);
    assert_eq!(objects.unseen, []);
    assert_eq!(objects.karpenter.pools.items().len(), 1, "{:?}", objects.karpenter.pools);
    assert!(objects.karpenter.pools.is_whole());
}

#[test]
fn a_pool_that_cannot_be_read_is_named_and_nothing_else_is_lost() {
    let pool = json!({"kind": "NodePool", "metadata": {"name": "web"}, "spec": 7});
    let objects = saved("karpenter.sh/nodepool", &[pool]);
    assert_eq!(objects.unseen, [], "it was looked at");
    assert!(!objects.karpenter.pools.is_whole(), "{:?}", objects.karpenter.pools);
}

#[test]
fn the_autoscalers_word_is_as_fresh_as_everything_that_was_saved_with_it() {
    let status = config_map("kube-system", "cluster-autoscaler-status", &json!({"status": STATUS}));
    let objects = saved("eks.amazonaws.com/nodegroup", &[status]);
    assert_eq!(objects.unseen, []);
    let told = objects.autoscaler.status.told("2027-01-01T00:00:00Z".parse().unwrap());
    assert_eq!(told.map(|told| told.groups.len()), Ok(1));
}

#[test]
fn config_maps_of_others_are_nothing_to_us() {
    let status = config_map("kube-public", "cluster-autoscaler-status", &json!({"status": STATUS}));
    let objects = saved("eks.amazonaws.com/nodegroup", &[status, config_map("x", "y", &Value::Null)]);
    assert_eq!(objects.unseen, [Provider::ClusterAutoscaler]);
}
