//! Reserving, and giving up.

use rotate_agent::rotation::store::Wish;
use rotate_shared::{CancelRequest, Code, Phase, Rotation, names};
use serde_json::json;

use crate::check;
use crate::world::{NEVER, World, options};

#[tokio::test(start_paused = true)]
async fn a_surge_without_room_is_rolled_back_and_leaves_the_cluster_as_it_was() {
    let world = World::autoscaled(NEVER);
    world.node("a", "4");
    world.deploy_on("a", "web", 3, "1").await;

    let id = world.rotate("a", options()).await;
    let waiting = world.until(&id, |rotation| rotation.waiting.iter().any(|wait| wait.code == Code::Reserving)).await;
    let wait = waiting.waiting.iter().find(|wait| wait.code == Code::Reserving).unwrap();
    assert!(wait.message.starts_with("0 of 3 placeholders are running"), "{}", wait.message);

    let ended = world.until_phase(&id, Phase::RolledBack).await;
    let outcome = ended.outcome.clone().unwrap();
    assert_eq!(outcome.code, Some(Code::Reserving));
    assert!(
        outcome.message.starts_with("no room within 2m: 0 of 3 placeholders are running; room-"),
        "{}",
        outcome.message
    );
    check::nothing_is_left(&world, &[]);
    assert_eq!(check::evictions(&world), (0, 0));
    assert_eq!(world.nodes_of("shop"), ["a", "a", "a"]);
}

#[tokio::test(start_paused = true)]
async fn what_an_autoscaler_says_of_a_placeholder_is_shown_at_once() {
    let world = World::autoscaled(NEVER);
    world.node("a", "4");
    world.deploy_on("a", "web", 1, "1").await;
    let id = world.rotate("a", options()).await;
    world.until(&id, |rotation| rotation.waiting.iter().any(|wait| wait.code == Code::Reserving)).await;
    let placeholder =
        world.sim.list("pods").into_iter().find(|pod| pod["metadata"]["namespace"] == names::ROOM_NAMESPACE);
    let placeholder = placeholder.unwrap()["metadata"].clone();
    let told = "pod didn't trigger scale-up: 1 Insufficient ephemeral-storage";
    world.sim.create(json!({
        "apiVersion": "v1", "kind": "Event",
        "metadata": { "name": "told", "namespace": names::ROOM_NAMESPACE },
        "involvedObject": { "kind": "Pod", "name": placeholder["name"], "uid": placeholder["uid"] },
        "reason": "NotTriggerScaleUp", "message": told, "source": { "component": "cluster-autoscaler" },
    }));
    let said_at = world.clock().now();

    let why = "cluster-autoscaler brings no node: 1 Insufficient ephemeral-storage";
    let waits = |rotation: &Rotation| rotation.waiting.iter().any(|wait| wait.message.contains(why));
    world.until(&id, waits).await;
    assert!(world.clock().now().duration_since(said_at).as_secs() <= 8, "it took until {}", world.clock().now());
    let listed = world.sim.requests().iter().filter(|request| request.path.ends_with("/events")).count();
    assert!(listed <= 3, "{listed} times");

    let ended = world.until_phase(&id, Phase::RolledBack).await;
    let outcome = ended.outcome.clone().unwrap().message;
    assert!(outcome.contains(why), "{outcome}");
}

#[tokio::test(start_paused = true)]
async fn nobody_is_asked_about_placeholders_that_run_at_once() {
    let world = World::start();
    world.node("a", "4");
    world.node("b", "4");
    world.deploy_on("a", "web", 3, "1").await;
    let id = world.rotate("a", options()).await;
    world.until_phase(&id, Phase::Succeeded).await;
    assert!(world.sim.requests().iter().all(|request| !request.path.ends_with("/events")));
}

#[tokio::test(start_paused = true)]
async fn a_cancel_while_surging_leaves_the_cluster_as_it_was() {
    let world = World::autoscaled(NEVER);
    world.node("a", "4");
    world.deploy_on("a", "web", 3, "1").await;
    let id = world.rotate("a", options()).await;
    world.until_phase(&id, Phase::Surging).await;
    world.pass(5_000).await;
    world.ask(&id, Wish::Cancel(CancelRequest::default())).await;
    let ended = world.until_phase(&id, Phase::RolledBack).await;
    assert_eq!(ended.outcome.clone().unwrap().code, None);
    assert!(ended.moved.is_empty());
    check::nothing_is_left(&world, &[]);
    assert_eq!(check::evictions(&world), (0, 0));
}
