//! Reserving room by placeholders of priority -10: what holds, and what does not.

use super::*;

/// A placeholder in a namespace of its own, with no grace.
fn placeholder(name: &str, cpu: &str) -> Value {
    let mut pod = pod(name, "room", &template("placeholder", cpu, "64Mi"));
    pod["spec"]["priorityClassName"] = json!("placeholder");
    pod["spec"]["terminationGracePeriodSeconds"] = json!(0);
    pod
}

fn placeholders(sim: &Sim) -> usize {
    sim.list("pods").iter().filter(|pod| pod["metadata"]["namespace"] == "room").count()
}

fn of_app(sim: &Sim, app: &str) -> Vec<Value> {
    sim.list("pods").into_iter().filter(|pod| pod["metadata"]["labels"]["app"] == app).collect()
}

fn cordon(sim: &Sim, node: &str) {
    sim.edit("nodes", "", node, |node| node["spec"]["unschedulable"] = json!(true));
}

/// A candidate with this workload on it and no other node with room but one of placeholders.
async fn reserved(settings: Settings, sizes: &[(&str, &str)]) -> Sim {
    let sim = start_with(settings, vec![NodeSpec::new("old")]);
    for (name, cpu) in sizes {
        sim.create(replica_set(name, "default", 1, template(name, cpu, "64Mi")));
    }
    settle(&sim).await;
    cordon(&sim, "old");
    sim.add_node(NodeSpec::new("new"));
    for (name, cpu) in sizes {
        sim.create(placeholder(name, cpu));
    }
    settle(&sim).await;
    assert!(sim.list("pods").iter().all(ready));
    sim
}

fn evict(sim: &Sim, app: &str) {
    let pod = of_app(sim, app).remove(0);
    sim.delete("pods", "default", pod["metadata"]["name"].as_str().unwrap());
}

#[tokio::test(start_paused = true)]
async fn a_replacement_takes_a_placeholders_room_within_half_a_second() {
    let sim = reserved(Settings::default(), &[("a", "2"), ("b", "2")]).await;
    let since = sim.now();
    evict(&sim, "a");
    settle(&sim).await;
    let figures = figures(&sim.log(), since, &Select::default());
    assert_eq!((figures.moved, figures.lacked_room), (1, 0));
    assert!(figures.longest_unscheduled >= Duration::from_millis(70), "{figures:?}");
    assert!(figures.longest_unscheduled <= Duration::from_millis(410), "{figures:?}");
}

#[tokio::test(start_paused = true)]
async fn without_popping_from_backoff_a_replacement_waits_for_more_than_a_second() {
    let settings = Settings { pop_from_backoff: false, ..Settings::default() };
    let sim = reserved(settings, &[("a", "2"), ("b", "2")]).await;
    let since = sim.now();
    evict(&sim, "a");
    settle(&sim).await;
    let waited = figures(&sim.log(), since, &Select::default()).longest_unscheduled;
    assert!(waited >= Duration::from_secs(1) && waited <= Duration::from_millis(2100), "{waited:?}");
}

#[tokio::test(start_paused = true)]
async fn any_pod_of_more_importance_takes_a_placeholders_room() {
    let sim = reserved(Settings::default(), &[("a", "1"), ("b", "1"), ("c", "1")]).await;
    sim.create(replica_set("filler", "default", 1, template("filler", "1", "64Mi")));
    settle(&sim).await;
    evict(&sim, "a");
    settle(&sim).await;
    assert_eq!(placeholders(&sim), 2);
    sim.create(replica_set("foreign", "default", 2, template("foreign", "1", "64Mi")));
    settle(&sim).await;
    assert_eq!(placeholders(&sim), 0);
    assert!(of_app(&sim, "foreign").iter().all(ready));
    evict(&sim, "b");
    settle(&sim).await;
    let next = of_app(&sim, "b").remove(0);
    assert_eq!((node_name(&next), &next["status"]["phase"]), ("", &json!("Pending")));
}

const SMALL: [&str; 4] = ["s1", "s2", "s3", "s4"];

/// One Pod of 2 CPU and four of 500m, with room for the big one on one node and for each small one on its own. The big
/// one's placeholder is the youngest, and so the first that the scheduler takes.
async fn pieces() -> Sim {
    let sim = start(vec![NodeSpec::new("old")]);
    sim.create(replica_set("big", "default", 1, template("big", "2", "64Mi")));
    for app in SMALL {
        sim.create(replica_set(app, "default", 1, template(app, "500m", "64Mi")));
    }
    settle(&sim).await;
    cordon(&sim, "old");
    for app in SMALL {
        sim.add_node(NodeSpec::new(format!("for-{app}")).cpu("500m"));
        sim.create(placeholder(app, "500m"));
    }
    settle(&sim).await;
    sim.add_node(NodeSpec::new("for-big").cpu("2"));
    sim.create(placeholder("big", "2"));
    settle(&sim).await;
    assert!(sim.list("pods").iter().all(ready));
    sim
}

async fn evict_in_turn(sim: &Sim, apps: impl IntoIterator<Item = &str>) {
    for app in apps {
        evict(sim, app);
        sim.run_for(Duration::from_secs(5)).await;
    }
    settle(sim).await;
}

#[tokio::test(start_paused = true)]
async fn small_pods_evicted_first_strand_the_big_one() {
    let sim = pieces().await;
    evict_in_turn(&sim, SMALL.into_iter().chain(["big"])).await;
    for app in SMALL {
        assert_eq!(node_name(&of_app(&sim, app)[0]), "for-big", "{app}");
    }
    let stranded = of_app(&sim, "big").remove(0);
    assert_eq!((node_name(&stranded), &stranded["status"]["phase"]), ("", &json!("Pending")));
    assert_eq!(placeholders(&sim), 4, "room enough, in pieces");
}

#[tokio::test(start_paused = true)]
async fn the_big_pod_first_and_all_of_them_land() {
    let sim = pieces().await;
    evict_in_turn(&sim, ["big"].into_iter().chain(SMALL)).await;
    assert_eq!(node_name(&of_app(&sim, "big")[0]), "for-big");
    for app in SMALL {
        assert!(node_name(&of_app(&sim, app)[0]).starts_with("for-s"), "{app}");
    }
    assert_eq!(placeholders(&sim), 0);
}

#[tokio::test(start_paused = true)]
async fn a_spread_copied_to_another_namespace_counts_nothing_there() {
    let sim = start(vec![NodeSpec::new("a1").zone("a").cpu("2"), NodeSpec::new("b1").zone("b")]);
    let spread = json!([{
        "maxSkew": 1, "topologyKey": ZONE, "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": {"app": "web"}},
    }]);
    // One in a, two in b: the next of this workload may only go to a.
    for (name, zone) in [("w1", "a"), ("w2", "b"), ("w3", "b")] {
        let mut pod = pod(name, "default", &template("web", "100m", "64Mi"));
        pod["spec"]["nodeSelector"] = json!({ZONE: zone});
        sim.create(pod);
    }
    settle(&sim).await;
    let mut copied = placeholder("copied", "1");
    copied["metadata"]["labels"] = json!({"app": "web"});
    copied["spec"]["topologySpreadConstraints"] = spread.clone();
    sim.create(copied);
    let mut real = pod("real", "default", &template("web", "1", "64Mi"));
    real["spec"]["topologySpreadConstraints"] = spread;
    settle(&sim).await;
    assert_eq!(place(&sim, "room", "copied"), "b1", "the emptier node, as if nobody were anywhere");
    sim.create(real);
    settle(&sim).await;
    assert_eq!(place(&sim, "default", "real"), "a1");
}

#[tokio::test(start_paused = true)]
async fn zone_anti_affinity_to_itself_is_met_by_pinning_the_zone_and_by_nothing_else() {
    let sim = start(vec![NodeSpec::new("a1").zone("a"), NodeSpec::new("a2").zone("a")]);
    let mut original = template("db", "1", "64Mi");
    original["spec"]["affinity"] = apart("db", ZONE, &json!(["default"]));
    original["spec"]["nodeSelector"] = json!({HOST: "a1"});
    sim.create(pod("db", "default", &original));
    settle(&sim).await;
    let mut copied = placeholder("copied", "1");
    copied["spec"]["affinity"] = apart("db", ZONE, &json!(["default"]));
    sim.create(copied);
    let mut pinned = placeholder("pinned", "1");
    pinned["spec"]["affinity"] = required(ZONE, "a");
    sim.create(pinned);
    settle(&sim).await;
    assert!(complaint(&sim, "room", "copied").contains("2 node(s) didn't match pod anti-affinity rules"));
    assert!(place(&sim, "room", "pinned").starts_with('a'));
}

#[tokio::test(start_paused = true)]
async fn a_pod_that_repels_the_workload_does_not_repel_its_placeholder_unless_the_term_is_inverted() {
    let sim = start(vec![NodeSpec::new("n1")]);
    let mut guard = bare("guard", "100m");
    guard["spec"]["affinity"] = apart("web", HOST, &json!(["default"]));
    sim.create(guard);
    settle(&sim).await;
    let mut plain = placeholder("plain", "100m");
    plain["metadata"]["labels"] = json!({"app": "web"});
    let mut inverted = placeholder("inverted", "100m");
    inverted["spec"]["affinity"] = apart("guard", HOST, &json!(["default"]));
    sim.create(plain);
    sim.create(inverted);
    sim.create(pod("web", "default", &template("web", "100m", "64Mi")));
    settle(&sim).await;
    assert_eq!(place(&sim, "room", "plain"), "n1", "copied labels are looked for in another namespace");
    assert_eq!(place(&sim, "room", "inverted"), "");
    assert_eq!(place(&sim, "default", "web"), "");
}

#[tokio::test(start_paused = true)]
async fn a_replacement_that_never_preempts_waits_behind_our_placeholder_for_ever() {
    let sim = start(vec![NodeSpec::new("n1")]);
    sim.create(placeholder("held", "4"));
    settle(&sim).await;
    let mut polite = bare("polite", "2");
    polite["spec"]["priorityClassName"] = json!("polite");
    sim.create(polite);
    sim.run_for(Duration::from_secs(3600)).await;
    assert!(
        complaint(&sim, "default", "polite").ends_with("not eligible due to preemptionPolicy=Never."),
        "{}",
        complaint(&sim, "default", "polite")
    );
    sim.delete("pods", "room", "held");
    sim.run_for(Duration::from_millis(100)).await;
    assert_eq!(place(&sim, "default", "polite"), "n1");
}

#[tokio::test(start_paused = true)]
async fn a_placeholder_preempts_nobody() {
    let sim = start(vec![NodeSpec::new("n1")]);
    sim.create(priority_class("spare", -20, true));
    let mut spare = bare("spare", "4");
    spare["spec"]["priorityClassName"] = json!("spare");
    sim.create(spare);
    settle(&sim).await;
    sim.create(placeholder("late", "1"));
    settle(&sim).await;
    assert_eq!(place(&sim, "room", "late"), "");
    assert_eq!(place(&sim, "default", "spare"), "n1");
}
