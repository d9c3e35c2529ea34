//! What the controllers bring about together.

use std::time::Duration;

use serde_json::{Value, json};

use crate::{
    NodeSpec, Provisioner, Settings, Sim,
    object::{node_name, ready},
    objects::{deployment, disruption_budget, job, namespace, replica_set, stateful_set, template},
};

fn with_nodes(settings: Settings, names: &[&str]) -> Sim {
    let sim = Sim::start(settings);
    for name in names {
        sim.add_node(NodeSpec::new(*name));
    }
    sim
}

async fn settle(sim: &Sim) {
    sim.run_for(Duration::from_secs(60)).await;
}

fn running(sim: &Sim) -> Vec<Value> {
    sim.list("pods").into_iter().filter(ready).collect()
}

#[tokio::test(start_paused = true)]
async fn a_replica_set_gets_its_pods_running_on_nodes() {
    let sim = with_nodes(Settings::default(), &["n1", "n2"]);
    sim.create(replica_set("web", "default", 4, template("web", "1", "1Gi")));
    settle(&sim).await;
    let pods = running(&sim);
    assert_eq!(pods.len(), 4);
    assert_eq!(pods.iter().filter(|pod| node_name(pod) == "n1").count(), 2, "the emptier node comes first");
    let set = sim.get("replicasets", "default", "web").unwrap();
    assert_eq!(set["status"]["readyReplicas"], 4);
}

#[tokio::test(start_paused = true)]
async fn a_terminating_pod_is_replaced_at_once() {
    let sim = with_nodes(Settings { termination: 1.0, ..Settings::default() }, &["n1"]);
    sim.create(replica_set("web", "default", 1, template("web", "1", "1Gi")));
    settle(&sim).await;
    let old = running(&sim).remove(0);
    sim.delete("pods", "default", old["metadata"]["name"].as_str().unwrap());
    sim.run_for(Duration::from_secs(2)).await;
    assert_eq!(running(&sim).len(), 2, "the old one still runs out its grace of 30 s");
    settle(&sim).await;
    assert_eq!(sim.list("pods").len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_stateful_set_waits_until_the_old_pod_is_gone() {
    let sim = with_nodes(Settings { termination: 1.0, ..Settings::default() }, &["n1"]);
    sim.create(stateful_set("db", "default", 2, template("db", "1", "1Gi")));
    settle(&sim).await;
    let names: Vec<_> = sim.list("pods").iter().map(|pod| pod["metadata"]["name"].clone()).collect();
    assert_eq!(names, ["db-0", "db-1"]);
    let before = sim.get("pods", "default", "db-0").unwrap();
    sim.delete("pods", "default", "db-0");
    sim.run_for(Duration::from_secs(20)).await;
    let during = sim.get("pods", "default", "db-0").unwrap();
    assert_eq!(during["metadata"]["uid"], before["metadata"]["uid"]);
    settle(&sim).await;
    let after = sim.get("pods", "default", "db-0").unwrap();
    assert_ne!(after["metadata"]["uid"], before["metadata"]["uid"]);
    assert!(ready(&after));
}

#[tokio::test(start_paused = true)]
async fn a_deployment_owns_one_replica_set_a_template() {
    let sim = with_nodes(Settings::default(), &["n1", "n2"]);
    sim.create(deployment("web", "default", 3, template("web", "500m", "1Gi")));
    settle(&sim).await;
    assert_eq!(sim.list("replicasets").len(), 1);
    assert_eq!(running(&sim).len(), 3);
    sim.edit("deployments", "default", "web", |web| {
        web["spec"]["template"]["spec"]["containers"][0]["image"] = json!("registry.example/app:2");
    });
    settle(&sim).await;
    let sizes: Vec<_> = sim.list("replicasets").iter().map(|set| set["spec"]["replicas"].as_i64().unwrap()).collect();
    assert_eq!((sizes.len(), sizes.iter().sum::<i64>()), (2, 3));
    assert!(running(&sim).iter().all(|pod| pod["spec"]["containers"][0]["image"] == "registry.example/app:2"));
}

#[tokio::test(start_paused = true)]
async fn a_job_completes() {
    let sim = with_nodes(Settings::default(), &["n1"]);
    sim.create(job("batch", "default", 2, 30, template("batch", "1", "1Gi")));
    settle(&sim).await;
    let job = sim.get("jobs", "default", "batch").unwrap();
    assert_eq!(job["status"]["succeeded"], 2);
    assert_eq!(job["status"]["conditions"][0]["type"], "Complete");
}

#[tokio::test(start_paused = true)]
async fn a_daemon_set_runs_on_cordoned_nodes_too() {
    let sim = with_nodes(Settings::default(), &["n1", "n2"]);
    sim.edit("nodes", "", "n1", |node| node["spec"]["unschedulable"] = json!(true));
    sim.create(crate::objects::daemon_set("agent", "kube-system", template("agent", "100m", "100Mi")));
    settle(&sim).await;
    let mut nodes: Vec<_> = running(&sim).iter().map(|pod| node_name(pod).to_owned()).collect();
    nodes.sort();
    assert_eq!(nodes, ["n1", "n2"]);
}

#[tokio::test(start_paused = true)]
async fn deleting_a_node_takes_its_pods_and_their_owner_replaces_them() {
    let sim = with_nodes(Settings::default(), &["n1", "n2"]);
    sim.create(replica_set("web", "default", 4, template("web", "500m", "1Gi")));
    settle(&sim).await;
    sim.delete("nodes", "", "n1");
    settle(&sim).await;
    let pods = running(&sim);
    assert_eq!(pods.len(), 4);
    assert!(pods.iter().all(|pod| node_name(pod) == "n2"));
}

#[tokio::test(start_paused = true)]
async fn budgets_count_by_their_owners_replicas() {
    let sim = with_nodes(Settings::default(), &["n1", "n2"]);
    sim.create(replica_set("web", "default", 4, template("web", "500m", "1Gi")));
    sim.create(disruption_budget("half", "default", "web", "minAvailable", json!("50%")));
    sim.create(disruption_budget("one", "default", "web", "maxUnavailable", json!(1)));
    sim.create(disruption_budget("none", "default", "web", "minAvailable", json!(9)));
    settle(&sim).await;
    let status = |name: &str| {
        let budget = sim.get("poddisruptionbudgets", "default", name).unwrap();
        let number = |key: &str| budget["status"][key].as_i64().unwrap();
        (number("expectedPods"), number("desiredHealthy"), number("currentHealthy"), number("disruptionsAllowed"))
    };
    assert_eq!(status("half"), (4, 2, 4, 2));
    assert_eq!(status("one"), (4, 3, 4, 1));
    assert_eq!(status("none"), (4, 9, 4, 0));
}

#[tokio::test(start_paused = true)]
async fn a_provisioner_brings_a_node_that_is_not_ready_at_first() {
    let group = Provisioner::new(NodeSpec::new("template").booting(), 3).boot(Duration::from_secs(20));
    let sim = Sim::start(Settings { provisioners: vec![group], ..Settings::default() });
    sim.create(replica_set("web", "default", 5, template("web", "1", "1Gi")));
    sim.run_for(Duration::from_secs(5)).await;
    let nodes = sim.list("nodes");
    assert_eq!(nodes.len(), 2, "five CPUs on nodes of four");
    assert!(nodes.iter().all(|node| !ready(node)));
    assert_eq!(running(&sim).len(), 0);
    settle(&sim).await;
    assert_eq!(running(&sim).len(), 5);
    assert_eq!(sim.list("nodes").len(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_provisioner_says_on_the_pod_why_no_node_comes() {
    let group = Provisioner::new(NodeSpec::new("template").booting(), 3);
    let sim = Sim::start(Settings { provisioners: vec![group], ..Settings::default() });
    sim.create(replica_set("big", "default", 1, template("big", "8", "1Gi")));
    settle(&sim).await;
    assert!(sim.list("nodes").is_empty());
    let events = sim.list("events");
    assert_eq!(events[0]["reason"], "NotTriggerScaleUp");
    assert_eq!(events[0]["message"], "pod didn't trigger scale-up: 1 Insufficient cpu");
}

fn status_of_groups(sim: &Sim) -> serde_json::Value {
    let map = sim.get("configmaps", "kube-system", "cluster-autoscaler-status").unwrap();
    serde_json::from_str(map["data"]["status"].as_str().unwrap()).unwrap()
}

#[tokio::test(start_paused = true)]
async fn groups_with_names_tell_of_themselves_in_one_status() {
    let group = |name: &str| Provisioner::new(NodeSpec::new("template").booting(), 3).min(1).group(name);
    let sim = Sim::start(Settings {
        epoch: Some("2026-01-05T00:00:30Z".parse().unwrap()),
        provisioners: vec![group("a"), group("b")],
        ..Settings::default()
    });
    sim.add_node(NodeSpec::new("n1").label(Provisioner::GROUP_LABEL, "b"));
    sim.run_for(Duration::from_secs(60)).await;
    let status = status_of_groups(&sim);
    let sizes = status["nodeGroups"].as_array().unwrap().iter().map(|group| {
        let health = &group["health"];
        (health["cloudProviderTarget"].as_i64(), health["minSize"].as_i64(), health["maxSize"].as_i64())
    });
    assert_eq!(sizes.collect::<Vec<_>>(), [(Some(0), Some(1), Some(3)), (Some(1), Some(1), Some(3))]);
    let time = status["time"].as_str().unwrap();
    assert!(*sim.now().strftime("%Y-%m-%d %H:%M").to_string() <= *time, "{time} is old");
}

#[tokio::test(start_paused = true)]
async fn a_group_grows_to_its_maximum_and_counts_the_nodes_that_were_there() {
    let group = Provisioner::new(NodeSpec::new("template").booting(), 2).group("web");
    let sim = Sim::start(Settings { provisioners: vec![group], ..Settings::default() });
    sim.add_node(NodeSpec::new("n1").label(Provisioner::GROUP_LABEL, "web"));
    sim.create(replica_set("web", "default", 12, template("web", "1", "1Gi")));
    settle(&sim).await;
    assert_eq!(sim.list("nodes").len(), 2);
    let events = sim.list("events");
    assert!(
        events.iter().all(|event| event["message"] == "pod didn't trigger scale-up: 1 max node group size reached")
    );
    assert_eq!(events.len(), 4);
}

#[tokio::test(start_paused = true)]
async fn a_group_loses_unneeded_nodes_but_not_protected_ones_and_not_below_its_minimum() {
    let group = Provisioner::new(NodeSpec::new("template").booting(), 9).min(1).group("web");
    let group = group.unneeded(Duration::from_secs(600));
    let sim = Sim::start(Settings { provisioners: vec![group], ..Settings::default() });
    let node = |name: &str| NodeSpec::new(name).label(Provisioner::GROUP_LABEL, "web");
    sim.add_node(node("n1").annotation("cluster-autoscaler.kubernetes.io/scale-down-disabled", "true"));
    sim.add_node(node("n2"));
    sim.add_node(node("n3"));
    sim.run_for(Duration::from_secs(599)).await;
    assert_eq!(sim.list("nodes").len(), 3);
    sim.run_for(Duration::from_secs(2)).await;
    assert!(sim.get("nodes", "", "n1").is_some());
    assert_eq!(sim.list("nodes").len(), 1);
    sim.edit("nodes", "", "n1", |node| node["metadata"]["annotations"] = json!({}));
    sim.run_for(Duration::from_secs(1200)).await;
    assert_eq!(sim.list("nodes").len(), 1, "the minimum");
}

#[tokio::test(start_paused = true)]
async fn an_empty_group_is_what_its_cloud_says_until_a_node_was_seen() {
    let mut described = NodeSpec::new("described").booting();
    described["status"]["allocatable"].as_object_mut().unwrap().remove("ephemeral-storage");
    let group = Provisioner::new(NodeSpec::new("template").booting(), 3).from_zero(described).group("web");
    let sim = Sim::start(Settings { provisioners: vec![group], ..Settings::default() });
    let mut wanting = template("web", "1", "1Gi");
    wanting["spec"]["containers"][0]["resources"]["requests"]["ephemeral-storage"] = json!("1Gi");
    sim.create(replica_set("web", "default", 5, wanting));
    settle(&sim).await;
    assert!(sim.list("nodes").is_empty());
    let events = sim.list("events");
    assert_eq!(events[0]["message"], "pod didn't trigger scale-up: 1 Insufficient ephemeral-storage");
    sim.add_node(NodeSpec::new("n1").label(Provisioner::GROUP_LABEL, "web"));
    settle(&sim).await;
    assert_eq!(sim.list("nodes").len(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_namespace_goes_with_all_that_is_in_it() {
    let sim = with_nodes(Settings::default(), &["n1"]);
    sim.create(namespace("shop", &json!({})));
    sim.create(replica_set("web", "shop", 2, template("web", "500m", "1Gi")));
    settle(&sim).await;
    sim.delete("namespaces", "", "shop");
    settle(&sim).await;
    assert!(sim.list("pods").is_empty());
    assert!(sim.get("namespaces", "", "shop").is_none());
}

#[tokio::test(start_paused = true)]
async fn pods_leave_a_node_that_stays_not_ready_after_five_minutes() {
    let sim = with_nodes(Settings::default(), &["n1", "n2"]);
    sim.create(replica_set("web", "default", 2, template("web", "500m", "1Gi")));
    settle(&sim).await;
    sim.edit("nodes", "", "n1", |node| node["status"]["conditions"][0]["status"] = json!("False"));
    sim.run_for(Duration::from_secs(290)).await;
    assert_eq!(sim.list("pods").len(), 2);
    sim.run_for(Duration::from_secs(20)).await;
    let live: Vec<_> = sim.list("pods").into_iter().filter(crate::object::active).collect();
    assert!(live.iter().all(|pod| node_name(pod) == "n2"));
}
