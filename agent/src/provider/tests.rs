use serde_json::json;

use super::cluster_autoscaler::groups::LABELS;
use super::*;
use crate::surge::testing;

fn labelled(label: &str) -> Node {
    testing::node("cand", &json!({ "metadata": { "labels": { label: "pool" } } }))
}

fn machine() -> Node {
    testing::node("cand", &json!({ "metadata": { "annotations": { "cluster.x-k8s.io/machine": "web-7f" } } }))
}

#[test]
fn providers_are_known_by_what_they_leave_on_their_nodes() {
    assert_eq!(detect(&labelled("karpenter.sh/nodepool"), &ProviderObjects::default()), Provider::Karpenter);
    for (label, _) in LABELS {
        assert_eq!(detect(&labelled(label), &ProviderObjects::default()), Provider::ClusterAutoscaler, "{label}");
    }
    assert_eq!(detect(&machine(), &ProviderObjects::default()), Provider::ClusterApi);
    assert_eq!(detect(&testing::node("cand", &json!({})), &ProviderObjects::default()), Provider::Unmanaged);
}

#[test]
fn every_provider_has_a_driver() {
    for (provider, found) in DRIVERS {
        assert!(std::ptr::addr_eq(driver(provider), found), "{provider:?}");
    }
}

#[test]
fn deleting_a_plain_node_warns_that_its_machine_runs_on() {
    let node = testing::node("cand", &json!({}));
    let options = Options { then: Some(Then::Delete), ..Options::default() };
    let codes = |options| {
        let explained = driver(Provider::Unmanaged).explain(
            &node,
            &State::default(),
            &ProviderObjects::default(),
            options,
            testing::CREATED.parse().unwrap(),
        );
        explained.warnings.iter().map(|notice| notice.code).collect::<Vec<_>>()
    };
    assert_eq!(codes(&options), [Code::MachineRunsOn]);
    assert_eq!(codes(&Options::default()), []);
}
