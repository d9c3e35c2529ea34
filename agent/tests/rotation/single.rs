//! One placeholder for all Pods of a node.

use rotate_shared::{Options, Phase, SurgeMode, names};
use rotate_sim::objects;
use serde_json::json;

use crate::check;
use crate::world::{World, options};

fn single() -> Options {
    Options { surge: SurgeMode::Single, ..options() }
}

fn world() -> World {
    let world = World::start();
    for node in ["a", "b", "c"] {
        world.node(node, "8");
    }
    world.guard.share();
    world
}

/// Calls that changed something, but for Leases, reviews, and what is not the agent's.
fn writes(world: &World) -> usize {
    let ours = |path: &str| {
        let room = path.contains(&format!("/namespaces/{}/", names::ROOM_NAMESPACE));
        room || path.ends_with("/eviction")
            || path.contains("/configmaps/rotation-")
            || path.starts_with("/api/v1/nodes/")
    };
    let requests = world.sim.requests();
    let changed = requests.iter().filter(|request| request.method != "GET" && request.status < 300);
    changed.filter(|request| ours(&request.path)).count()
}

#[tokio::test(start_paused = true)]
async fn a_node_is_emptied_into_one_placeholder_with_few_writes() {
    let world = world();
    world.deploy_on("a", "web", 4, "1").await;
    world.deploy_on("a", "api", 3, "500m").await;
    let before = writes(&world);
    let id = world.rotate("a", single()).await;
    let ended = world.until_phase(&id, Phase::Succeeded).await;
    assert_eq!((ended.progress.evicted, ended.progress.landed), (7, 7));
    let created = world.sim.requests().into_iter().filter(|request| {
        request.method == "POST" && request.path.ends_with(&format!("/namespaces/{}/pods", names::ROOM_NAMESPACE))
    });
    assert_eq!(created.filter(|request| request.status == 201).count(), 1, "one placeholder");
    let written = writes(&world) - before;
    assert!(written <= 7 + 15, "{written} writes for 7 Pods");
    check::every_eviction_was_covered(&world);
    check::nothing_is_left(&world, &["a"]);
    assert_eq!(check::evictions(&world), (7, 7));
    world.until_running("shop", 7).await;
}

#[tokio::test(start_paused = true)]
async fn pods_that_a_budget_holds_back_get_a_placeholder_of_their_own_once_the_first_is_taken() {
    let world = world();
    world.deploy_on("a", "web", 3, "1").await;
    world.sim.create(objects::disruption_budget("web", "shop", "web", "maxUnavailable", json!(1)));
    world.pass(2_000).await;
    let id = world.rotate("a", single()).await;
    let ended = world.until_phase(&id, Phase::Succeeded).await;
    assert_eq!(ended.progress.landed, 3);
    check::every_eviction_was_covered(&world);
    check::nothing_is_left(&world, &["a"]);
}

#[tokio::test(start_paused = true)]
async fn a_pod_with_a_host_port_shares_the_placeholder_of_the_others() {
    let world = world();
    let mut template = objects::template("db", "1", "64Mi");
    template["spec"]["containers"][0]["ports"] = json!([{ "containerPort": 80, "hostPort": 8080, "protocol": "TCP" }]);
    world.deploy_template_on("a", "db", 1, template).await;
    world.deploy_on("a", "web", 2, "1").await;
    let id = world.rotate("a", single()).await;
    let ended = world.until_phase(&id, Phase::Succeeded).await;
    assert_eq!(ended.progress.landed, 3);
    check::every_eviction_was_covered(&world);
}

#[tokio::test(start_paused = true)]
async fn an_agent_killed_with_the_placeholder_held_goes_on() {
    let mut world = world();
    world.deploy_on("a", "web", 4, "1").await;
    let id = world.rotate("a", single()).await;
    world.until(&id, |rotation| rotation.phase == Phase::Draining).await;
    world.kill_agent();
    world.pass(40_000).await;
    world.start_agent();
    let ended = world.until_phase(&id, Phase::Succeeded).await;
    assert_eq!(ended.progress.landed, 4);
    check::every_eviction_was_covered(&world);
    check::nothing_is_left(&world, &["a"]);
}

#[tokio::test(start_paused = true)]
async fn refused_evictions_are_asked_for_at_most_once_in_five_seconds() {
    for surge in [SurgeMode::PerPod, SurgeMode::Single, SurgeMode::None] {
        refused_at_most_once_in_five_seconds(surge).await;
    }
}

async fn refused_at_most_once_in_five_seconds(surge: SurgeMode) {
    let world = world();
    world.deploy_on("a", "web", 3, "1").await;
    world.deploy_on("a", "api", 3, "500m").await;
    world.sim.faults().deny("POST", "/eviction", "not now", 6);
    let id = world.rotate("a", Options { surge, ..options() }).await;
    world.until_phase(&id, Phase::Succeeded).await;
    let requests = world.sim.requests();
    let refused: Vec<_> = requests
        .iter()
        .filter(|request| request.path.ends_with("/eviction") && request.status >= 400)
        .map(|request| request.at)
        .collect();
    assert_eq!(refused.len(), 6);
    for pair in refused.windows(2) {
        assert!(pair[1].duration_since(pair[0]).as_secs() >= 5, "{surge:?}: {refused:?}");
    }
}
