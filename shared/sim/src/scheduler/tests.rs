//! What the real scheduler was seen to do, the simulated one does too.

use std::time::Duration;

use jiff::Timestamp;
use serde_json::{Value, json};

use crate::{
    Event, NodeSpec, Select, Settings, Sim, figures,
    object::{node_name, ready},
    objects::{namespace, pod, priority_class, replica_set, template},
};

mod placeholders;

fn start(nodes: Vec<NodeSpec>) -> Sim {
    start_with(Settings::default(), nodes)
}

fn start_with(settings: Settings, nodes: Vec<NodeSpec>) -> Sim {
    let sim = Sim::start(settings);
    for node in nodes {
        sim.add_node(node);
    }
    sim.create(namespace("room", &json!({})));
    sim.create(priority_class("placeholder", -10, false));
    sim.create(priority_class("high", 1000, true));
    sim.create(priority_class("polite", 1000, false));
    sim
}

async fn settle(sim: &Sim) {
    sim.run_for(Duration::from_secs(30)).await;
}

fn bare(name: &str, cpu: &str) -> Value {
    pod(name, "default", &template(name, cpu, "64Mi"))
}

/// Where a Pod is; empty while it is nowhere.
fn place(sim: &Sim, namespace: &str, name: &str) -> String {
    sim.get("pods", namespace, name).map(|pod| node_name(&pod).to_owned()).unwrap_or_default()
}

/// What the scheduler says of a Pod it found no node for.
fn complaint(sim: &Sim, namespace: &str, name: &str) -> String {
    let pod = sim.get("pods", namespace, name).unwrap();
    let conditions = pod["status"]["conditions"].as_array().unwrap();
    let scheduled = conditions.iter().find(|c| c["type"] == "PodScheduled").unwrap();
    assert_eq!((&scheduled["status"], &scheduled["reason"]), (&json!("False"), &json!("Unschedulable")));
    scheduled["message"].as_str().unwrap().to_owned()
}

fn required(key: &str, value: &str) -> Value {
    json!({"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [
        {"matchExpressions": [{"key": key, "operator": "In", "values": [value]}]},
    ]}}})
}

fn apart(app: &str, key: &str, namespaces: &Value) -> Value {
    json!({"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [{
        "topologyKey": key, "namespaces": namespaces, "labelSelector": {"matchLabels": {"app": app}},
    }]}})
}

const ZONE: &str = "topology.kubernetes.io/zone";
const HOST: &str = "kubernetes.io/hostname";

#[tokio::test(start_paused = true)]
async fn refusals_are_counted_in_the_schedulers_own_words() {
    let sim = start(vec![
        NodeSpec::new("small").cpu("1"),
        NodeSpec::new("tainted").taint("team", "a", "NoSchedule"),
        NodeSpec::new("cordoned"),
        NodeSpec::new("full").resource("pods", "0"),
    ]);
    sim.edit("nodes", "", "cordoned", |node| node["spec"]["unschedulable"] = json!(true));
    sim.create(bare("a", "2"));
    settle(&sim).await;
    assert_eq!(
        complaint(&sim, "default", "a"),
        "0/4 nodes are available: 1 Insufficient cpu, 1 Too many pods, 1 node(s) had untolerated taint(s), \
         1 node(s) were unschedulable. no new claims to deallocate, preemption: 0/4 nodes are available: \
         1 No preemption victims found for incoming pod, 3 Preemption is not helpful for scheduling."
    );
}

#[tokio::test(start_paused = true)]
async fn a_pod_without_any_node_says_so() {
    let sim = start(Vec::new());
    sim.create(bare("a", "1"));
    settle(&sim).await;
    assert!(complaint(&sim, "default", "a").starts_with("no nodes available to schedule pods"));
    let lacked = sim.log().iter().filter(|entry| matches!(entry.event, Event::PodUnschedulable { .. })).count();
    assert_eq!(lacked, 1, "once for each new message");
}

#[tokio::test(start_paused = true)]
async fn a_node_that_is_not_ready_takes_no_pods_until_it_is() {
    let sim = start(Vec::new());
    sim.create(NodeSpec::new("n1").booting());
    sim.create(bare("a", "1"));
    settle(&sim).await;
    assert_eq!(place(&sim, "default", "a"), "");
    sim.edit("nodes", "", "n1", |node| node["status"]["conditions"][0]["status"] = json!("True"));
    settle(&sim).await;
    assert_eq!(place(&sim, "default", "a"), "n1");
}

#[tokio::test(start_paused = true)]
async fn selectors_affinity_and_tolerations_decide_where_a_pod_may_go() {
    let sim = start(vec![
        NodeSpec::new("a1").zone("a"),
        NodeSpec::new("b1").zone("b"),
        NodeSpec::new("gpu").zone("c").taint("gpu", "yes", "NoSchedule"),
    ]);
    let mut selected = bare("selected", "1");
    selected["spec"]["nodeSelector"] = json!({ZONE: "b"});
    let mut pinned = bare("pinned", "1");
    pinned["spec"]["affinity"] = required(HOST, "a1");
    let mut tolerant = bare("tolerant", "1");
    tolerant["spec"]["nodeSelector"] = json!({ZONE: "c"});
    tolerant["spec"]["tolerations"] = json!([{"key": "gpu", "operator": "Equal", "value": "yes"}]);
    let mut lost = bare("lost", "1");
    lost["spec"]["nodeSelector"] = json!({ZONE: "d"});
    for pod in [selected, pinned, tolerant, lost] {
        sim.create(pod);
    }
    settle(&sim).await;
    let places = ["selected", "pinned", "tolerant", "lost"].map(|name| place(&sim, "default", name));
    assert_eq!(places, ["b1", "a1", "gpu", ""]);
    assert!(complaint(&sim, "default", "lost").contains("2 node(s) didn't match Pod's node affinity/selector"));
}

#[tokio::test(start_paused = true)]
async fn host_ports_are_taken_once_a_node() {
    let sim = start(vec![NodeSpec::new("n1")]);
    for name in ["a", "b"] {
        let mut pod = bare(name, "100m");
        pod["spec"]["containers"][0]["ports"] = json!([{"containerPort": 80, "hostPort": 8080}]);
        sim.create(pod);
    }
    settle(&sim).await;
    assert_eq!(place(&sim, "default", "a"), "n1");
    assert!(complaint(&sim, "default", "b").contains("1 node(s) didn't have free ports for the requested pod ports"));
}

#[tokio::test(start_paused = true)]
async fn a_bound_volume_holds_its_pod_where_it_is() {
    let sim = start(vec![NodeSpec::new("n1"), NodeSpec::new("n2")]);
    sim.create(json!({
        "apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": "pv"},
        "spec": {"local": {"path": "/d"}, "nodeAffinity": {"required": {"nodeSelectorTerms": [
            {"matchExpressions": [{"key": HOST, "operator": "In", "values": ["n2"]}]},
        ]}}},
    }));
    let claim = json!({
        "apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "data"},
        "spec": {"volumeName": "pv"}, "status": {"phase": "Bound"},
    });
    let mut pod = bare("a", "1");
    pod["spec"]["volumes"] = json!([{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}]);
    sim.create(pod);
    settle(&sim).await;
    assert_eq!(place(&sim, "default", "a"), "");
    sim.create(claim);
    settle(&sim).await;
    assert_eq!(place(&sim, "default", "a"), "n2");
}

#[tokio::test(start_paused = true)]
async fn anti_affinity_holds_both_ways() {
    let sim = start(vec![NodeSpec::new("n1"), NodeSpec::new("n2")]);
    let mut first = bare("first", "1");
    first["spec"]["affinity"] = apart("second", HOST, &json!(["default"]));
    first["spec"]["nodeSelector"] = json!({HOST: "n1"});
    sim.create(first);
    settle(&sim).await;
    let mut second = bare("second", "1");
    second["spec"]["nodeSelector"] = json!({HOST: "n1"});
    sim.create(second);
    settle(&sim).await;
    assert!(
        complaint(&sim, "default", "second").contains("1 node(s) didn't satisfy existing pods anti-affinity rules")
    );
    let mut third = bare("third", "1");
    third["spec"]["affinity"] = apart("first", HOST, &json!(["default"]));
    sim.create(third);
    settle(&sim).await;
    assert_eq!(place(&sim, "default", "third"), "n2");
    let third = sim.get("pods", "default", "third").unwrap();
    assert_eq!(crate::object::condition(&third, "PodScheduled"), Some("True"), "it does not repel itself");
}

#[tokio::test(start_paused = true)]
async fn affinity_follows_its_pod_and_the_first_of_a_group_may_start_anywhere() {
    let sim = start(vec![NodeSpec::new("a1").zone("a"), NodeSpec::new("b1").zone("b"), NodeSpec::new("b2").zone("b")]);
    let together = |app: &str| {
        json!({"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [
            {"topologyKey": ZONE, "labelSelector": {"matchLabels": {"app": app}}},
        ]}})
    };
    let mut lonely = bare("lonely", "1");
    lonely["spec"]["affinity"] = together("nobody");
    sim.create(lonely);
    let mut group = template("group", "3", "64Mi");
    group["spec"]["affinity"] = together("group");
    sim.create(replica_set("group", "default", 2, group));
    settle(&sim).await;
    assert!(complaint(&sim, "default", "lonely").contains("3 node(s) didn't match pod affinity rules"));
    let pods = sim.list("pods");
    let zones: Vec<_> = pods.iter().filter(|pod| ready(pod)).map(|pod| node_name(pod)[..1].to_owned()).collect();
    // In zone a there is room for one only: the other waits, or both are in b.
    assert!(zones == ["b", "b"] || zones == ["a"], "{zones:?}");
}

#[tokio::test(start_paused = true)]
async fn spread_is_kept_within_its_skew() {
    let sim = start(vec![NodeSpec::new("a1").zone("a").cpu("1"), NodeSpec::new("b1").zone("b")]);
    let mut spread = template("web", "500m", "64Mi");
    spread["spec"]["topologySpreadConstraints"] = json!([{
        "maxSkew": 1, "topologyKey": ZONE, "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": {"app": "web"}},
    }]);
    sim.create(replica_set("web", "default", 6, spread));
    settle(&sim).await;
    let pods = sim.list("pods");
    let on = |node: &str| pods.iter().filter(|pod| node_name(pod) == node).count();
    assert_eq!((on("a1"), on("b1")), (2, 3), "zone a is full, and b may have one more than a");
}

#[tokio::test(start_paused = true)]
async fn a_soft_taint_is_avoided_while_there_is_elsewhere_to_go() {
    let sim = start(vec![
        NodeSpec::new("next").taint("kubectl-rotate.dev/next", "", "PreferNoSchedule"),
        NodeSpec::new("other"),
    ]);
    sim.create(replica_set("web", "default", 5, template("web", "1", "64Mi")));
    settle(&sim).await;
    let pods = sim.list("pods");
    let on = |node: &str| pods.iter().filter(|pod| node_name(pod) == node).count();
    assert_eq!((on("other"), on("next")), (4, 1));
}

#[tokio::test(start_paused = true)]
async fn gated_pods_and_those_of_other_schedulers_are_left_alone() {
    let sim = start(vec![NodeSpec::new("n1")]);
    let mut gated = bare("gated", "1");
    gated["spec"]["schedulingGates"] = json!([{"name": "later"}]);
    let mut foreign = bare("foreign", "1");
    foreign["spec"]["schedulerName"] = json!("other");
    sim.create(gated);
    sim.create(foreign);
    settle(&sim).await;
    assert_eq!((place(&sim, "default", "gated"), place(&sim, "default", "foreign")), (String::new(), String::new()));
    sim.edit("pods", "default", "gated", |pod| pod["spec"]["schedulingGates"] = json!([]));
    settle(&sim).await;
    assert_eq!(place(&sim, "default", "gated"), "n1");
}

#[tokio::test(start_paused = true)]
async fn preemption_takes_the_least_important_and_the_fewest() {
    let sim = start(vec![NodeSpec::new("many"), NodeSpec::new("few"), NodeSpec::new("dear")]);
    sim.create(priority_class("dear", 500, true));
    for (name, node, cpu, class) in
        [("m1", "many", "2", ""), ("m2", "many", "2", ""), ("f1", "few", "4", ""), ("d1", "dear", "4", "dear")]
    {
        let mut pod = bare(name, cpu);
        pod["spec"]["nodeSelector"] = json!({HOST: node});
        if !class.is_empty() {
            pod["spec"]["priorityClassName"] = json!(class);
        }
        sim.create(pod);
    }
    settle(&sim).await;
    let mut high = bare("high", "3");
    high["spec"]["priorityClassName"] = json!("high");
    sim.create(high);
    sim.run_for(Duration::from_millis(500)).await;
    let promised = sim.get("pods", "default", "high").unwrap();
    assert_eq!(promised["status"]["nominatedNodeName"], "few");
    let victim = sim.get("pods", "default", "f1").unwrap();
    assert_eq!(victim["metadata"]["deletionGracePeriodSeconds"], 30, "victims have their grace");
    settle(&sim).await;
    assert_eq!(place(&sim, "default", "high"), "few");
    let log = sim.log();
    assert_eq!(log.iter().filter(|entry| matches!(entry.event, Event::Preempted { .. })).count(), 1);
    let lacked = log.iter().any(
        |entry| matches!(&entry.event, Event::PodUnschedulable { uid, .. } if promised["metadata"]["uid"] == **uid),
    );
    assert!(!lacked, "one that preempts never lacked room");
}

#[tokio::test(start_paused = true)]
async fn preemption_gives_back_what_is_not_needed() {
    let sim = start(vec![NodeSpec::new("n1")]);
    for name in ["a", "b", "c", "d"] {
        sim.create(bare(name, "1"));
    }
    settle(&sim).await;
    let mut high = bare("high", "2");
    high["spec"]["priorityClassName"] = json!("high");
    sim.create(high);
    settle(&sim).await;
    assert_eq!(sim.list("pods").len(), 3);
    assert_eq!(place(&sim, "default", "high"), "n1");
}

#[tokio::test(start_paused = true)]
async fn room_made_for_one_is_not_taken_by_another_of_less_importance() {
    let sim = start_with(Settings { termination: 1.0, ..Settings::default() }, vec![NodeSpec::new("n1")]);
    sim.create(bare("old", "4"));
    settle(&sim).await;
    let mut high = bare("high", "3");
    high["spec"]["priorityClassName"] = json!("high");
    sim.create(high);
    sim.run_for(Duration::from_secs(1)).await;
    sim.create(bare("late", "2"));
    sim.run_for(Duration::from_secs(40)).await;
    assert_eq!(place(&sim, "default", "high"), "n1");
    assert_eq!(place(&sim, "default", "late"), "");
}

#[tokio::test(start_paused = true)]
async fn what_was_decided_before_a_cordon_binds_after_it() {
    let settings = Settings { bind_delay: Duration::from_millis(260), ..Settings::default() };
    let sim = start_with(settings, vec![NodeSpec::new("n1")]);
    sim.create(replica_set("web", "default", 3, template("web", "1", "64Mi")));
    sim.run_for(Duration::from_millis(100)).await;
    sim.edit("nodes", "", "n1", |node| node["spec"]["unschedulable"] = json!(true));
    assert!(sim.list("pods").iter().all(|pod| pod["status"]["nominatedNodeName"] == "n1" && node_name(pod).is_empty()));
    sim.create(bare("later", "500m"));
    settle(&sim).await;
    let log = sim.log();
    let position = |wanted: &dyn Fn(&Event) -> bool| log.iter().rposition(|entry| wanted(&entry.event)).unwrap();
    let cordoned = position(&|event| matches!(event, Event::NodeCordoned { .. }));
    let bound = log.iter().skip(cordoned).filter(|entry| matches!(entry.event, Event::PodBound { .. })).count();
    assert_eq!(bound, 3);
    assert_eq!(place(&sim, "default", "later"), "");
}

#[tokio::test(start_paused = true)]
async fn a_volume_that_waits_for_its_pod_delays_the_binding_and_holds_it_in_its_zone_from_then_on() {
    let settings = Settings { volume_delay: Duration::from_secs(31), ..Settings::default() };
    let sim = start_with(settings, vec![NodeSpec::new("a1").zone("a")]);
    sim.create(crate::objects::storage_class("late"));
    let mut set = crate::objects::stateful_set("db", "default", 1, template("db", "1", "64Mi"));
    set["spec"]["volumeClaimTemplates"] = json!([{"metadata": {"name": "data"}, "spec": {"storageClassName": "late"}}]);
    sim.create(set);
    sim.run_for(Duration::from_secs(1)).await;
    let claim = || sim.get("persistentvolumeclaims", "default", "data-db-0").unwrap();
    assert_eq!(claim()["metadata"]["annotations"]["volume.kubernetes.io/selected-node"], "a1");
    assert_eq!(sim.get("pods", "default", "db-0").unwrap()["status"]["nominatedNodeName"], "a1");
    sim.edit("nodes", "", "a1", |node| node["spec"]["unschedulable"] = json!(true));
    sim.run_for(Duration::from_secs(29)).await;
    assert_eq!(place(&sim, "default", "db-0"), "");
    sim.run_for(Duration::from_secs(2)).await;
    assert_eq!(place(&sim, "default", "db-0"), "a1", "long after the cordon");
    assert_eq!(claim()["status"]["phase"], "Bound");
    sim.add_node(NodeSpec::new("b1").zone("b"));
    sim.delete("pods", "default", "db-0");
    sim.run_for(Duration::from_secs(60)).await;
    assert!(complaint(&sim, "default", "db-0").contains("1 node(s) didn't match PersistentVolume's node affinity"));
}

#[tokio::test(start_paused = true)]
async fn one_can_ask_whether_a_pod_would_fit_were_others_gone() {
    let sim = start(vec![NodeSpec::new("n1")]);
    sim.create(bare("a", "3"));
    settle(&sim).await;
    let present = sim.get("pods", "default", "a").unwrap();
    assert_eq!(sim.fits(&bare("b", "2"), "n1", &[]), Err(vec!["Insufficient cpu".to_owned()]));
    assert_eq!(sim.fits(&bare("b", "2"), "n1", &[present["metadata"]["uid"].as_str().unwrap()]), Ok(()));
    assert!(sim.fits(&bare("b", "2"), "n2", &[]).is_err());
}

/// Nodes and workloads come and go as a seed has it; returns how much was ever on the fullest node, in percent.
async fn storm(seed: u64) -> i64 {
    let group = crate::Provisioner::new(NodeSpec::new("group").booting(), 4).boot(Duration::from_secs(7));
    let settings = Settings {
        seed,
        provisioners: vec![group],
        bind_delay: Duration::from_millis(seed % 3 * 40),
        ..Settings::default()
    };
    let sim = start_with(settings, (0..3).map(|n| NodeSpec::new(format!("n{n}"))).collect());
    let mut random = crate::random::Random::new(seed);
    let mut fullest = 0;
    for round in 0..40 {
        match random.below(5) {
            0 => {
                let mut set = template(&format!("w{round}"), &format!("{}m", 100 + 100 * random.below(20)), "64Mi");
                set["spec"]["priorityClassName"] = json!(["placeholder", "high", "polite"][random.below(3)]);
                let size = 1 + u32::try_from(random.below(4)).unwrap();
                sim.create(replica_set(&format!("w{round}"), "default", size, set));
            }
            1 => {
                let sets = sim.list("replicasets");
                if !sets.is_empty() {
                    let set = &sets[random.below(sets.len())];
                    sim.delete("replicasets", "default", set["metadata"]["name"].as_str().unwrap());
                }
            }
            2 => {
                let flag = random.below(2) == 0;
                let node = format!("n{}", random.below(3));
                sim.edit("nodes", "", &node, |node| node["spec"]["unschedulable"] = json!(flag));
            }
            _ => {
                let pods = sim.list("pods");
                if !pods.is_empty() {
                    let pod = &pods[random.below(pods.len())];
                    sim.delete("pods", "default", pod["metadata"]["name"].as_str().unwrap());
                }
            }
        }
        for _ in 0..random.below(20) {
            sim.run_for(Duration::from_millis(200)).await;
            for node in sim.list("nodes") {
                let name = node["metadata"]["name"].as_str().unwrap();
                let pods = sim.list("pods");
                let on = pods.iter().filter(|pod| node_name(pod) == name && !crate::object::finished(pod));
                let used: i64 = on.map(|pod| crate::pod_requests(pod)["cpu"]).sum();
                fullest = fullest.max(used * 100 / 4000);
            }
        }
    }
    fullest
}

#[tokio::test(start_paused = true)]
async fn no_node_ever_holds_more_than_it_has() {
    let mut ever = 0;
    for seed in 0..8 {
        let fullest = storm(seed).await;
        assert!(fullest <= 100, "seed {seed}: {fullest} %");
        ever = ever.max(fullest);
    }
    assert!(ever > 90, "the storms filled nothing: {ever} %");
}

#[tokio::test(start_paused = true)]
async fn the_same_seed_gives_the_same_run() {
    async fn run(seed: u64) -> Vec<crate::LogEntry> {
        let epoch = Some(Timestamp::from_second(1_700_000_000).unwrap());
        let nodes = (0..6).map(|n| NodeSpec::new(format!("n{n}"))).collect();
        let sim = start_with(Settings { seed, epoch, ..Settings::default() }, nodes);
        sim.create(replica_set("web", "default", 9, template("web", "1", "64Mi")));
        settle(&sim).await;
        sim.log()
    }
    let first = run(7).await;
    assert_eq!(first, run(7).await);
    assert_ne!(first, run(8).await);
}
