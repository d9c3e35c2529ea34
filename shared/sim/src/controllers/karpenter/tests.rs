use std::time::Duration;

use serde_json::{Value, json};

use super::*;
use crate::{
    Event, NodeSpec, Settings, Sim,
    object::node_name,
    objects::{daemon_set, deployment, disruption_budget, priority_class, template},
};

/// A pool named `general` of what is allowed, that disrupts nothing by itself, with what `over` says in its place.
fn pool(over: &Value) -> Value {
    let mut pool = json!({
        "apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": {"name": "general"},
        "spec": {
            "template": {"spec": {
                "nodeClassRef": {"group": "karpenter.kwok.sh", "kind": "KWOKNodeClass", "name": "default"},
                "expireAfter": "Never", "requirements": [],
            }},
            "disruption": {"consolidateAfter": "Never"},
        },
    });
    merge(&mut pool, over);
    pool
}

fn merge(into: &mut Value, over: &Value) {
    match (into, over) {
        (Value::Object(into), Value::Object(over)) => {
            for (key, value) in over {
                merge(into.entry(key.clone()).or_insert(Value::Null), value);
            }
        }
        (into, over) => *into = over.clone(),
    }
}

fn only(instance_type: &str) -> Value {
    json!({"spec": {"template": {"spec": {"requirements": [
        {"key": INSTANCE_TYPE, "operator": "In", "values": [instance_type]},
    ]}}}})
}

fn cluster(pool: Value) -> Sim {
    let sim = Sim::start(Settings::default());
    sim.start_karpenter(Karpenter::default());
    sim.create(pool);
    sim
}

async fn settle(sim: &Sim) {
    sim.run_for(Duration::from_secs(60)).await;
}

fn web(replicas: u32, cpu: &str) -> Value {
    deployment("web", "default", replicas, template("web", cpu, "1Gi"))
}

fn running(sim: &Sim) -> Vec<Value> {
    sim.list("pods").into_iter().filter(object::ready).collect()
}

fn nodes(sim: &Sim) -> Vec<String> {
    sim.list("nodes").iter().map(|node| object::name(node).to_owned()).collect()
}

/// The instance types of all claims.
fn types(sim: &Sim) -> Vec<String> {
    let kind = |claim: &Value| object::label(claim, INSTANCE_TYPE).unwrap_or_default().to_owned();
    sim.list("nodeclaims").iter().map(kind).collect()
}

/// What Karpenter said of why it can do nothing.
fn told(sim: &Sim) -> Vec<String> {
    let events = sim.list("events").into_iter().filter(|event| event["reason"] == "FailedScheduling");
    events.map(|event| object::text(&event, "/message").to_owned()).collect()
}

/// A cluster with four Pods on the only node of the pool.
async fn full(pool: Value) -> (Sim, String) {
    let sim = cluster(pool);
    sim.create(web(4, "900m"));
    settle(&sim).await;
    assert_eq!((running(&sim).len(), nodes(&sim).len()), (4, 1));
    let node = nodes(&sim).remove(0);
    (sim, node)
}

#[tokio::test(start_paused = true)]
async fn pods_without_room_bring_the_cheapest_node_that_takes_them_all() {
    let sim = cluster(pool(&json!({})));
    sim.create(web(4, "900m"));
    settle(&sim).await;
    assert_eq!((running(&sim).len(), types(&sim)), (4, vec!["c-4".to_owned()]));
    let claim = sim.list("nodeclaims").remove(0);
    assert_eq!(claim["status"]["nodeName"], sim.list("nodes")[0]["metadata"]["name"]);
    for condition in ["Launched", "Registered", "Initialized"] {
        assert_eq!(object::condition(&claim, condition), Some("True"), "{condition}");
    }
    let pool = sim.get("nodepools", "", "general").unwrap();
    assert_eq!((&pool["status"]["resources"]["cpu"], &pool["status"]["nodes"]), (&json!("4000m"), &json!(1)));
    assert!(object::ready(&pool));
}

#[tokio::test(start_paused = true)]
async fn placeholders_bring_nodes_like_any_other_pod() {
    let sim = cluster(pool(&json!({})));
    sim.create(priority_class("room", -10, false));
    let mut template = template("room", "1", "1Gi");
    template["spec"]["priorityClassName"] = json!("room");
    sim.create(deployment("room", "default", 1, template));
    settle(&sim).await;
    assert_eq!(running(&sim).len(), 1);
}

#[tokio::test(start_paused = true)]
async fn daemons_take_their_share_of_a_new_node() {
    let sim = cluster(pool(&json!({})));
    sim.create(daemon_set("logs", "default", template("logs", "500m", "1Gi")));
    sim.create(web(4, "900m"));
    settle(&sim).await;
    assert_eq!((running(&sim).len(), types(&sim)), (5, vec!["c-8".to_owned()]));
}

#[tokio::test(start_paused = true)]
async fn limits_are_charged_with_whole_machines_and_what_is_missing_is_said() {
    let limited = |limits: Value| async move {
        let mut only = only("c-4");
        merge(&mut only, &json!({"spec": {"limits": limits}}));
        let (sim, _) = full(pool(&only)).await;
        sim.create(deployment("more", "default", 1, template("more", "100m", "1Gi")));
        sim.create(deployment("most", "default", 1, template("most", "900m", "1Gi")));
        settle(&sim).await;
        assert_eq!(nodes(&sim).len(), 1);
        told(&sim)
    };
    let exceeded = "Failed to schedule pod, all available instance types exceed limits for nodepool (NodePool=general)";
    assert_eq!(limited(json!({"cpu": "7"})).await, [exceeded]);
    let exhausted = "Failed to schedule pod, node limits have been exhausted for nodepool (NodePool=general)";
    assert_eq!(limited(json!({"nodes": "1"})).await, [exhausted]);
}

#[tokio::test(start_paused = true)]
async fn the_zone_is_the_one_that_a_pod_asks_for() {
    let sim = cluster(pool(&json!({})));
    let mut template = template("web", "1", "1Gi");
    template["spec"]["nodeSelector"] = json!({ ZONE: "c" });
    sim.create(deployment("web", "default", 1, template));
    settle(&sim).await;
    assert_eq!(object::label(&sim.list("nodes")[0], ZONE), Some("c"));
}

#[tokio::test(start_paused = true)]
async fn a_spread_counts_zones_that_no_node_is_in_yet() {
    let sim = cluster(pool(&only("c-4")));
    let mut template = template("web", "900m", "1Gi");
    template["spec"]["topologySpreadConstraints"] = json!([{
        "maxSkew": 1, "topologyKey": ZONE, "whenUnsatisfiable": "DoNotSchedule", "labelSelector": {"matchLabels": {"app": "web"}},
    }]);
    sim.create(deployment("web", "default", 6, template));
    settle(&sim).await;
    assert_eq!(running(&sim).len(), 6);
    let mut zones: Vec<_> = sim.list("nodes").iter().map(|node| object::label(node, ZONE).map(str::to_owned)).collect();
    zones.sort();
    assert_eq!(zones, ["a", "b", "c"].map(|zone| Some(zone.to_owned())));
}

#[tokio::test(start_paused = true)]
async fn pools_of_more_weight_are_asked_first() {
    let sim = cluster(pool(&only("c-8")));
    sim.create(pool(&json!({"metadata": {"name": "heavy"}, "spec": {"weight": 5}})));
    sim.create(web(1, "1"));
    settle(&sim).await;
    assert_eq!(object::label(&sim.list("nodes")[0], POOL), Some("heavy"));
}

#[tokio::test(start_paused = true)]
async fn a_pod_that_names_a_host_is_refused() {
    let sim = cluster(pool(&json!({})));
    let mut template = template("web", "1", "1Gi");
    template["spec"]["nodeSelector"] = json!({"kubernetes.io/hostname": "n1"});
    sim.create(deployment("web", "default", 1, template));
    settle(&sim).await;
    assert_eq!(nodes(&sim).len(), 0);
    assert!(told(&sim)[0].contains("label kubernetes.io/hostname is restricted"), "{:?}", told(&sim));
}

#[tokio::test(start_paused = true)]
async fn a_static_pool_has_the_nodes_it_says_and_none_for_pods() {
    let sim = cluster(pool(&json!({"spec": {"replicas": 2}})));
    settle(&sim).await;
    assert_eq!(types(&sim), ["c-2", "c-2"]);
    sim.create(web(4, "1500m"));
    settle(&sim).await;
    assert_eq!((types(&sim).len(), running(&sim).len()), (2, 2));
    let claim = sim.list("nodeclaims").remove(0);
    sim.delete("nodeclaims", "", object::name(&claim));
    settle(&sim).await;
    assert_eq!(types(&sim).len(), 2, "what goes is replaced");
}

#[tokio::test(start_paused = true)]
async fn deleting_a_claim_drains_its_node_within_the_budgets_and_ends_both() {
    let (sim, node) = full(pool(&only("c-4"))).await;
    sim.create(disruption_budget("web", "default", "web", "maxUnavailable", json!(1)));
    sim.run_for(Duration::from_secs(1)).await;
    sim.delete("nodeclaims", "", &node);
    sim.run_for(Duration::from_millis(100)).await;
    let tainted = sim.get("nodes", "", &node).unwrap();
    assert!(object::list(&tainted, "/spec/taints").iter().any(|taint| taint["key"] == DISRUPTED));
    assert!(object::terminating(&tainted));
    settle(&sim).await;
    settle(&sim).await;
    assert_eq!(running(&sim).len(), 4);
    assert!(sim.get("nodes", "", &node).is_none() && sim.get("nodeclaims", "", &node).is_none());
    let evicted = sim.log().iter().filter(|entry| matches!(entry.event, Event::PodEvicted { .. })).count();
    assert_eq!(evicted, 4);
}

#[tokio::test(start_paused = true)]
async fn deleting_a_node_takes_its_claim_along() {
    let (sim, node) = full(pool(&only("c-4"))).await;
    sim.delete("nodes", "", &node);
    settle(&sim).await;
    assert!(sim.get("nodes", "", &node).is_none() && sim.get("nodeclaims", "", &node).is_none());
    assert_eq!(running(&sim).len(), 4);
}

#[tokio::test(start_paused = true)]
async fn a_closed_budget_holds_a_drain_until_the_termination_grace_is_over() {
    let graced = json!({"spec": {"template": {"spec": {"terminationGracePeriod": "5m0s"}}}});
    let (sim, node) = full(pool(&graced)).await;
    sim.create(disruption_budget("web", "default", "web", "maxUnavailable", json!(0)));
    sim.run_for(Duration::from_secs(1)).await;
    sim.delete("nodeclaims", "", &node);
    sim.run_for(Duration::from_secs(280)).await;
    assert!(sim.get("nodes", "", &node).is_some());
    sim.run_for(Duration::from_secs(30)).await;
    assert!(sim.get("nodes", "", &node).is_none());
}

/// The same pool, whose unneeded nodes go at once.
fn consolidating() -> Value {
    let mut only = only("c-4");
    merge(&mut only, &json!({"spec": {"disruption": {"consolidateAfter": "30s"}}}));
    only
}

#[tokio::test(start_paused = true)]
async fn an_empty_node_goes_unless_it_is_protected() {
    let (sim, node) = full(pool(&consolidating())).await;
    sim.edit("nodes", "", &node, |node| node["metadata"]["annotations"][DO_NOT_DISRUPT] = json!("true"));
    sim.edit("deployments", "default", "web", |web| web["spec"]["replicas"] = json!(0));
    settle(&sim).await;
    assert_eq!(nodes(&sim), std::slice::from_ref(&node));
    sim.edit("nodes", "", &node, |node| node["metadata"]["annotations"] = json!({}));
    settle(&sim).await;
    assert_eq!((nodes(&sim).len(), sim.list("nodeclaims").len()), (0, 0));
}

#[tokio::test(start_paused = true)]
async fn a_node_whose_pods_have_room_elsewhere_goes_unless_one_of_them_is_protected() {
    for (mark, stays) in [("true", true), ("10m", true), ("1s", false), ("soon", false)] {
        let sim = cluster(pool(&consolidating()));
        let mut marked = template("web", "900m", "1Gi");
        marked["metadata"]["annotations"] = json!({ DO_NOT_DISRUPT: mark });
        sim.create(deployment("web", "default", 1, marked));
        sim.run_for(Duration::from_secs(25)).await;
        sim.add_node(NodeSpec::new("spare"));
        settle(&sim).await;
        settle(&sim).await;
        assert_eq!(node_name(&running(&sim)[0]) != "spare", stays, "{mark}");
        assert_eq!(sim.list("nodeclaims").len(), usize::from(stays), "{mark}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_claim_expires_whatever_protects_its_node() {
    let expiring = json!({"spec": {"template": {"spec": {"expireAfter": "10m"}}}});
    let (sim, node) = full(pool(&expiring)).await;
    sim.edit("nodes", "", &node, |node| node["metadata"]["annotations"][DO_NOT_DISRUPT] = json!("true"));
    sim.run_for(Duration::from_secs(500)).await;
    assert_eq!(nodes(&sim), std::slice::from_ref(&node));
    sim.run_for(Duration::from_secs(120)).await;
    assert!(sim.get("nodes", "", &node).is_none());
    assert_eq!(running(&sim).len(), 4);
}

#[tokio::test(start_paused = true)]
async fn a_drifted_node_is_replaced_unless_it_is_protected() {
    let (sim, node) = full(pool(&only("c-4"))).await;
    sim.edit("nodes", "", &node, |node| node["metadata"]["annotations"][DO_NOT_DISRUPT] = json!("true"));
    let now = sim.now();
    sim.edit("nodeclaims", "", &node, |claim| {
        object::set_condition(claim, "Drifted", "True", "NodePoolDrifted", "", now);
    });
    settle(&sim).await;
    assert_eq!(nodes(&sim), std::slice::from_ref(&node));
    sim.edit("nodes", "", &node, |node| node["metadata"]["annotations"] = json!({}));
    settle(&sim).await;
    assert!(sim.get("nodes", "", &node).is_none());
    assert_eq!(running(&sim).len(), 4);
}

#[tokio::test(start_paused = true)]
async fn nodes_drift_when_their_pool_is_changed() {
    for (change, drifted) in [
        (json!({"metadata": {"labels": {"team": "shop"}}}), Some("NodePoolDrifted")),
        (only("c-8")["spec"]["template"].clone(), Some("RequirementsDrifted")),
        (json!({}), None),
    ] {
        let (sim, node) = full(pool(&only("c-4"))).await;
        sim.edit("nodes", "", &node, |node| node["metadata"]["annotations"][DO_NOT_DISRUPT] = json!("true"));
        sim.edit("nodepools", "", "general", |pool| merge(&mut pool["spec"]["template"], &change));
        settle(&sim).await;
        let claim = sim.get("nodeclaims", "", &node).unwrap();
        let conditions = object::list(&claim, "/status/conditions");
        let reason = conditions.iter().find(|it| it["type"] == "Drifted").map(|it| object::text(it, "/reason"));
        assert_eq!(reason, drifted);
    }
}

#[tokio::test(start_paused = true)]
async fn where_nothing_is_to_be_had_claims_come_and_go() {
    let fails = json!({"metadata": {"annotations": {Karpenter::LAUNCH_FAILS: "no capacity in any zone"}}});
    let sim = cluster(pool(&fails));
    sim.create(web(1, "1"));
    settle(&sim).await;
    assert_eq!(nodes(&sim).len(), 0);
    let events = sim.list("events");
    assert!(events.iter().any(|event| event["message"] == "no capacity in any zone"));
    sim.edit("nodepools", "", "general", |pool| pool["metadata"]["annotations"] = json!({}));
    settle(&sim).await;
    assert_eq!(running(&sim).len(), 1);
}

#[tokio::test(start_paused = true)]
async fn what_was_under_way_goes_on_after_a_restart() {
    let sim = cluster(pool(&json!({})));
    sim.create(web(1, "1"));
    sim.run_for(Duration::from_secs(1)).await;
    assert_eq!((sim.list("nodeclaims").len(), nodes(&sim).len()), (1, 0));
    sim.stop_karpenter();
    settle(&sim).await;
    assert_eq!(nodes(&sim).len(), 0);
    sim.start_karpenter(Karpenter::default());
    settle(&sim).await;
    assert_eq!((running(&sim).len(), nodes(&sim).len()), (1, 1));
}

#[test]
fn durations_are_read_as_go_writes_them() {
    for (text, seconds) in [("0s", Some(0)), ("1h30m5s", Some(5405)), ("1.5m", Some(90)), ("Never", None), ("", None)] {
        assert_eq!(duration(text), seconds.map(Duration::from_secs), "{text}");
    }
}
