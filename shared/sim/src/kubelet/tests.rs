//! A Pod's life on its node.

use std::time::Duration;

use serde_json::{Value, json};

use crate::{
    NEVER_STARTS, NodeSpec, READY_AFTER, RUNS_FOR, Settings, Sim, object,
    objects::{pod, template},
};

fn start(settings: Settings) -> Sim {
    let sim = Sim::start(settings);
    sim.add_node(NodeSpec::new("n1"));
    sim
}

fn annotated(key: &str, value: &str) -> Value {
    let mut pod = pod("a", "default", &template("a", "1", "1Gi"));
    pod["metadata"]["annotations"] = json!({key: value});
    pod
}

fn phase(sim: &Sim) -> String {
    sim.get("pods", "default", "a").map(|pod| object::text(&pod, "/status/phase").to_owned()).unwrap_or_default()
}

fn is_ready(sim: &Sim) -> bool {
    object::ready(&sim.get("pods", "default", "a").unwrap())
}

#[tokio::test(start_paused = true)]
async fn a_pod_starts_then_serves() {
    let settings =
        Settings { pod_start: Duration::from_secs(3), pod_ready: Duration::from_secs(2), ..Settings::default() };
    let sim = start(settings);
    sim.create(pod("a", "default", &template("a", "1", "1Gi")));
    sim.run_for(Duration::from_millis(2900)).await;
    assert_eq!(phase(&sim), "Pending");
    sim.run_for(Duration::from_millis(200)).await;
    assert_eq!((phase(&sim).as_str(), is_ready(&sim)), ("Running", false));
    sim.run_for(Duration::from_secs(2)).await;
    assert!(is_ready(&sim));
}

#[tokio::test(start_paused = true)]
async fn a_node_can_be_slower_than_others() {
    let sim = Sim::start(Settings::default());
    sim.add_node(NodeSpec::new("slow").annotation(crate::POD_START, "9"));
    sim.create(pod("a", "default", &template("a", "1", "1Gi")));
    sim.run_for(Duration::from_secs(8)).await;
    assert_eq!(phase(&sim), "Pending");
    sim.run_for(Duration::from_secs(2)).await;
    assert_eq!(phase(&sim), "Running");
}

#[tokio::test(start_paused = true)]
async fn a_node_that_joins_late_runs_nothing_before_it_is_ready() {
    let sim = Sim::start(Settings::default());
    sim.create(pod("a", "default", &template("a", "1", "1Gi")));
    sim.join_node(NodeSpec::new("late"), Duration::from_secs(20));
    sim.run_for(Duration::from_secs(19)).await;
    assert_eq!(phase(&sim), "Pending");
    sim.run_for(Duration::from_secs(3)).await;
    assert_eq!(phase(&sim), "Running");
}

#[tokio::test(start_paused = true)]
async fn annotations_make_a_pod_slow_to_serve_unable_to_start_or_short_lived() {
    let sim = start(Settings::default());
    sim.create(annotated(READY_AFTER, "20"));
    sim.run_for(Duration::from_secs(15)).await;
    assert!(!is_ready(&sim));
    sim.run_for(Duration::from_secs(10)).await;
    assert!(is_ready(&sim));

    let sim = start(Settings::default());
    sim.create(annotated(NEVER_STARTS, "ErrImagePull"));
    sim.run_for(Duration::from_secs(60)).await;
    let pod = sim.get("pods", "default", "a").unwrap();
    assert_eq!(object::text(&pod, "/status/containerStatuses/0/state/waiting/reason"), "ErrImagePull");
    assert_eq!(phase(&sim), "Pending");

    let sim = start(Settings::default());
    sim.create(annotated(RUNS_FOR, "10"));
    sim.run_for(Duration::from_secs(12)).await;
    assert_eq!((phase(&sim).as_str(), is_ready(&sim)), ("Succeeded", false));
}

#[tokio::test(start_paused = true)]
async fn a_pod_past_its_deadline_fails_and_frees_its_room() {
    let sim = start(Settings::default());
    let mut limited = pod("a", "default", &template("a", "4", "1Gi"));
    limited["spec"]["activeDeadlineSeconds"] = json!(60);
    sim.create(limited);
    sim.run_for(Duration::from_secs(59)).await;
    assert_eq!(phase(&sim), "Running");
    sim.create(pod("b", "default", &template("b", "4", "1Gi")));
    sim.run_for(Duration::from_secs(5)).await;
    assert_eq!(phase(&sim), "Failed");
    assert_eq!(sim.get("pods", "default", "a").unwrap()["status"]["reason"], "DeadlineExceeded");
    assert!(object::ready(&sim.get("pods", "default", "b").unwrap()));
}

#[tokio::test(start_paused = true)]
async fn a_pod_takes_its_share_of_the_grace_to_end_and_one_without_a_node_none() {
    let sim = start(Settings { termination: 0.5, ..Settings::default() });
    sim.create(pod("a", "default", &template("a", "1", "1Gi")));
    sim.create(pod("pending", "default", &template("a", "9", "1Gi")));
    sim.run_for(Duration::from_secs(5)).await;
    sim.delete("pods", "default", "pending");
    assert!(sim.get("pods", "default", "pending").is_none());
    sim.delete("pods", "default", "a");
    sim.run_for(Duration::from_secs(14)).await;
    assert!(object::terminating(&sim.get("pods", "default", "a").unwrap()));
    sim.run_for(Duration::from_secs(2)).await;
    assert!(sim.get("pods", "default", "a").is_none());
}

#[tokio::test(start_paused = true)]
async fn nothing_ends_on_a_node_whose_kubelet_is_gone_until_the_node_is() {
    let sim = start(Settings::default());
    sim.create(pod("a", "default", &template("a", "1", "1Gi")));
    sim.run_for(Duration::from_secs(5)).await;
    sim.edit("nodes", "", "n1", |node| node["status"]["conditions"][0]["status"] = json!("Unknown"));
    sim.delete("pods", "default", "a");
    sim.run_for(Duration::from_secs(600)).await;
    assert!(object::terminating(&sim.get("pods", "default", "a").unwrap()));
    sim.delete("nodes", "", "n1");
    sim.run_for(Duration::from_secs(1)).await;
    assert!(sim.get("pods", "default", "a").is_none());
}

#[tokio::test(start_paused = true)]
async fn a_finalizer_holds_a_pod_that_has_ended() {
    let sim = start(Settings::default());
    let mut held = pod("a", "default", &template("a", "1", "1Gi"));
    held["metadata"]["finalizers"] = json!(["example.com/hold"]);
    sim.create(held);
    sim.run_for(Duration::from_secs(5)).await;
    sim.delete("pods", "default", "a");
    sim.run_for(Duration::from_secs(60)).await;
    assert!(object::terminating(&sim.get("pods", "default", "a").unwrap()));
    sim.edit("pods", "default", "a", |pod| pod["metadata"]["finalizers"] = json!([]));
    sim.run_for(Duration::from_secs(1)).await;
    assert!(sim.get("pods", "default", "a").is_none());
}
