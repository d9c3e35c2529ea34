//! Reserving, and giving up.

use rotate_agent::rotation::store::Wish;
use rotate_shared::{CancelRequest, Code, Phase};

use crate::check;
use crate::world::{World, options};

#[tokio::test(start_paused = true)]
async fn a_surge_without_room_is_rolled_back_and_leaves_the_cluster_as_it_was() {
    let world = World::start();
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
async fn a_cancel_while_surging_leaves_the_cluster_as_it_was() {
    let world = World::start();
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
