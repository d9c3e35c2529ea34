use serde_json::{Value, json};

use super::*;
use crate::provider::driver;
use crate::surge::testing::{self, merge};
use rotate_shared::plan::Provider;

/// A pool named `general` without limits, Ready, with what `over` says in its place.
pub(super) fn pool(over: &Value) -> NodePool {
    let mut object = json!({
        "metadata": { "name": "general" },
        "spec": { "template": { "spec": {
            "nodeClassRef": { "group": "karpenter.kwok.sh", "kind": "KWOKNodeClass", "name": "default" },
            "requirements": [],
        } } },
        "status": { "conditions": [{ "type": "Ready", "status": "True" }] },
    });
    merge(&mut object, over);
    serde_json::from_value(object).unwrap()
}

/// The claim of the node of the same name, of the pool `general`, a machine of 4 CPU in zone a, with what `over` says in
/// its place.
pub(super) fn claim(name: &str, over: &Value) -> NodeClaim {
    let mut object = json!({
        "metadata": { "name": name, "uid": format!("uid of {name}"), "creationTimestamp": testing::CREATED, "labels": {
            "karpenter.sh/nodepool": "general",
            "karpenter.sh/capacity-type": "on-demand",
            "kubernetes.io/arch": "amd64",
            "node.kubernetes.io/instance-type": "c-4x",
            "topology.kubernetes.io/zone": "a",
        } },
        "spec": { "nodeClassRef": { "group": "karpenter.kwok.sh", "kind": "KWOKNodeClass", "name": "default" } },
        "status": {
            "nodeName": name,
            "capacity": { "cpu": "4", "memory": "16Gi", "ephemeral-storage": "100Gi", "pods": "110" },
            "allocatable": { "cpu": "3900m", "memory": "15Gi", "ephemeral-storage": "90Gi", "pods": "110" },
            "conditions": [{ "type": "Initialized", "status": "True" }],
        },
    });
    merge(&mut object, over);
    serde_json::from_value(object).unwrap()
}

/// A node of the pool `general`.
pub(super) fn node(name: &str, over: &Value) -> Node {
    let mut object = json!({ "metadata": { "labels": { "karpenter.sh/nodepool": "general" } } });
    merge(&mut object, over);
    testing::node(name, &object)
}

pub(super) fn objects(pools: Vec<NodePool>, claims: Vec<NodeClaim>) -> Objects {
    Objects {
        pools: Listing::Read { items: pools, unreadable: Vec::new() },
        claims: Listing::Read { items: claims, unreadable: Vec::new() },
    }
}

fn known(claims: Vec<NodeClaim>) -> ProviderObjects {
    ProviderObjects { karpenter: objects(vec![pool(&json!({}))], claims), ..ProviderObjects::default() }
}

#[test]
fn a_node_goes_by_its_claim_and_is_kept_where_none_is_known() {
    let known = known(vec![claim("other", &json!({})), claim("cand", &json!({}))]);
    let cand = node("cand", &json!({}));
    let removal = Removal::NodeClaim { name: "cand".to_owned(), uid: "uid of cand".to_owned() };
    assert_eq!(Karpenter.remove(&cand, &known), removal);
    assert_eq!(Karpenter.default_then(&cand, &known), Then::Delete);

    let none = self::known(vec![claim("other", &json!({}))]);
    assert_eq!(Karpenter.remove(&cand, &none), Removal::NodeObject);
    assert_eq!(Karpenter.default_then(&cand, &none), Then::Keep);
}

#[test]
fn where_its_claim_may_be_among_what_is_not_read_the_node_is_left_to_karpenter() {
    let cand = node("cand", &json!({}));
    let remove = |claims: Listing<NodeClaim>| {
        let karpenter = Objects { claims, ..Objects::default() };
        Karpenter.remove(&cand, &ProviderObjects { karpenter, ..ProviderObjects::default() })
    };
    let left = |to: &str| Removal::Left { to: format!("Karpenter, whose NodeClaims {to}"), within: None };
    assert_eq!(remove(Listing::Absent), left("are not served"));
    assert_eq!(remove(Listing::Forbidden("forbidden".to_owned())), left("may not be read (forbidden)"));
    let unreadable = |items| Listing::Read { items, unreadable: vec!["x: it has no spec".to_owned()] };
    assert_eq!(remove(unreadable(Vec::new())), left("cannot all be read (x: it has no spec)"));
    let known = Removal::NodeClaim { name: "cand".to_owned(), uid: "uid of cand".to_owned() };
    assert_eq!(remove(unreadable(vec![claim("cand", &json!({}))])), known);
}

#[test]
fn a_claim_that_cannot_be_read_is_not_taken_for_gone() {
    let removal = Removal::NodeClaim { name: "cand".to_owned(), uid: "uid of cand".to_owned() };
    let gone = |claims: Listing<NodeClaim>| {
        let karpenter = Objects { claims, ..Objects::default() };
        Karpenter.is_gone(&removal, &ProviderObjects { karpenter, ..ProviderObjects::default() })
    };
    let read = |items, unreadable: &[&str]| Listing::Read {
        items,
        unreadable: unreadable.iter().map(|it| (*it).to_owned()).collect(),
    };
    assert!(gone(read(vec![claim("other", &json!({}))], &["cand-2: it has no spec"])));
    assert!(!gone(read(vec![claim("cand", &json!({}))], &[])));
    assert!(!gone(read(Vec::new(), &["cand: it has no spec"])));
    assert!(!gone(Listing::Forbidden("nodeclaims is forbidden".to_owned())));
    assert!(!gone(Listing::Unconverted("conversion webhook failed".to_owned())));
    assert!(!gone(Listing::Absent));
}

#[test]
fn a_claim_is_known_by_the_machine_before_the_name_and_two_of_them_are_none() {
    let cand = node("cand", &json!({ "spec": { "providerID": "kwok://cand" } }));
    let by_machine = claim("x", &json!({ "status": { "nodeName": "", "providerID": "kwok://cand" } }));
    // A node that another machine has registered under the same name.
    let by_name = claim("cand", &json!({ "status": { "providerID": "kwok://before" } }));
    let objects = objects(Vec::new(), vec![by_name, by_machine.clone()]);
    assert_eq!(objects.claim_of(&cand), Some(&by_machine));

    let twice = self::objects(Vec::new(), vec![by_machine.clone(), by_machine]);
    assert_eq!(twice.claim_of(&cand), None);
}

#[test]
fn a_node_that_others_take_is_said_to_be_taken_and_why() {
    let cand = node("cand", &json!({}));
    let taken = |node: &Node, over: Value| Karpenter.taken(node, &known(vec![claim("cand", &over)]));
    assert_eq!(taken(&cand, json!({})), None);

    let deleted = taken(&cand, json!({ "metadata": { "deletionTimestamp": testing::CREATED } })).unwrap();
    assert!(deleted.starts_with("NodeClaim cand was deleted at 2026-01-05T00:00:00Z"), "{deleted}");

    let condition = json!([{ "type": "DisruptionReason", "status": "True", "reason": "Underutilized" }]);
    let chosen = taken(&cand, json!({ "status": { "conditions": condition } })).unwrap();
    assert!(chosen.ends_with("to be disrupted: Underutilized"), "{chosen}");

    let disrupted = json!({ "spec": { "taints": [{ "key": "karpenter.sh/disrupted", "effect": "NoSchedule" }] } });
    let tainted = taken(&node("cand", &disrupted), json!({})).unwrap();
    assert!(tainted.contains("the taint karpenter.sh/disrupted"), "{tainted}");
    // Without the claim the taint still tells.
    assert!(Karpenter.taken(&node("cand", &disrupted), &ProviderObjects::default()).is_some());

    let deleting = node("cand", &json!({ "metadata": { "deletionTimestamp": testing::CREATED } }));
    assert!(taken(&deleting, json!({})).unwrap().starts_with("Node cand was deleted"));
}

#[test]
fn what_karpenter_has_begun_is_not_rotated() {
    let deleted = claim("cand", &json!({ "metadata": { "deletionTimestamp": testing::CREATED } }));
    let explain = |node: &Node| {
        let now = testing::CREATED.parse().unwrap();
        driver(Provider::Karpenter).explain(
            node,
            &State::default(),
            &known(vec![deleted.clone()]),
            &Options::default(),
            now,
        )
    };
    let explained = explain(&node("cand", &json!({})));
    assert_eq!(explained.blockers.iter().map(|notice| notice.code).collect::<Vec<_>>(), [Code::NodeDeleting]);
    // The plan says that of every node that is being deleted.
    let deleting = node("cand", &json!({ "metadata": { "deletionTimestamp": testing::CREATED } }));
    assert_eq!(explain(&deleting).blockers, []);
}
