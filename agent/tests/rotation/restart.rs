//! The agent killed in each phase, and started again.

use rotate_agent::rotation::store::Wish;
use rotate_shared::options::Then;
use rotate_shared::{Code, Options, Phase, Rotation};

use crate::check;
use crate::world::{World, options};

async fn killed_in(phase: Phase) {
    let mut world = World::start();
    for node in ["a", "b", "c"] {
        world.node(node, "4");
    }
    world.deploy_on("a", "web", 3, "1").await;
    let id = world.rotate("a", options()).await;
    world.until(&id, |rotation| rotation.phase == phase).await;
    world.kill_agent();
    world.pass(40_000).await;
    world.start_agent();

    let ended = world.until_phase(&id, Phase::Succeeded).await;
    assert_eq!((ended.progress.to_move, ended.progress.evicted, ended.progress.landed), (3, 3, 3));
    check::every_eviction_was_covered(&world);
    check::nothing_is_left(&world, &["a"]);
    assert_eq!(check::evictions(&world).1, 3);
}

#[tokio::test(start_paused = true)]
async fn an_agent_killed_while_surging_goes_on_where_it_was() {
    killed_in(Phase::Surging).await;
}

#[tokio::test(start_paused = true)]
async fn an_agent_killed_while_draining_goes_on_where_it_was() {
    killed_in(Phase::Draining).await;
}

#[tokio::test(start_paused = true)]
async fn an_agent_killed_while_settling_goes_on_where_it_was() {
    killed_in(Phase::Settling).await;
}

#[tokio::test(start_paused = true)]
async fn an_agent_killed_while_removing_goes_on_where_it_was() {
    killed_in(Phase::Removing).await;
}

#[tokio::test(start_paused = true)]
async fn what_is_waited_for_is_as_old_as_before_the_restart() {
    let mut world = World::start();
    for node in ["a", "b", "c"] {
        world.node(node, "4");
    }
    world.deploy_on("a", "web", 3, "1").await;
    let rebooted = Options { then: Some(Then::Uncordon), reboot_timeout_seconds: 3600, ..options() };
    let id = world.rotate("a", rebooted).await;
    let since =
        |rotation: &Rotation, code| rotation.waiting.iter().find(|wait| wait.code == code).map(|wait| wait.since);
    let rotation = world.until(&id, |rotation| since(rotation, Code::WaitingForReboot).is_some()).await;
    let began = rotation.phases.last().unwrap().started_at;
    world.pass(60_000).await;
    world.kill_agent();
    world.pass(40_000).await;
    world.start_agent();
    let rotation = world.until(&id, |rotation| since(rotation, Code::WaitingForReboot).is_some()).await;
    assert_eq!(since(&rotation, Code::WaitingForReboot), Some(began));
    world.pass(60_000).await;
    assert_eq!(since(&world.view(&id).unwrap(), Code::WaitingForReboot), Some(began), "nor while it takes the lead");

    world.ask(&id, Wish::Pause).await;
    let paused = world.now();
    let rotation = world.until(&id, |rotation| since(rotation, Code::Paused).is_some()).await;
    let before = since(&rotation, Code::Paused).unwrap();
    assert!(paused.duration_since(before).as_millis().abs() < 500, "{before}, paused at {paused}");
    world.kill_agent();
    world.pass(40_000).await;
    world.start_agent();
    let rotation = world.until(&id, |rotation| since(rotation, Code::Paused).is_some()).await;
    assert_eq!(since(&rotation, Code::Paused), Some(before));
}
