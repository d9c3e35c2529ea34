//! Whole rotations.

use rotate_shared::Phase;

use crate::check;
use crate::world::{World, options};

#[tokio::test(start_paused = true)]
async fn a_node_is_emptied_into_room_that_was_held() {
    let world = World::start();
    for node in ["a", "b", "c"] {
        world.node(node, "4");
    }
    world.deploy_on("a", "web", 3, "1").await;

    let id = world.rotate("a", options()).await;
    let ended = world.until_phase(&id, Phase::Succeeded).await;

    assert_eq!((ended.progress.to_move, ended.progress.evicted, ended.progress.landed), (3, 3, 3));
    assert_eq!(ended.moved.len(), 3);
    assert!(ended.warnings.is_empty(), "{:?}", ended.warnings);
    assert!(!world.nodes_of("shop").contains(&"a".to_owned()));
    check::every_eviction_was_covered(&world.sim.log(), "a");
    check::nothing_is_left(&world, &["a"]);
    assert_eq!(check::evictions(&world), (3, 3));
    assert!(check::record_writes(&world, &id) <= 10, "{}", check::record_writes(&world, &id));
}
