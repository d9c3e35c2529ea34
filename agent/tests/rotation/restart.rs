//! The agent killed in each phase, and started again.

use rotate_shared::Phase;

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
