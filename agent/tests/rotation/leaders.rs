//! Several agents, many rotations, limits.

use rotate_agent::rotation::record::NewRotation;
use rotate_agent::{Agent, Config};
use rotate_shared::{Options, Phase};
use rotate_sim::objects;
use serde_json::json;

use crate::check;
use crate::world::{World, options};

async fn shop(nodes: &[&str]) -> World {
    let world = World::start();
    for node in nodes {
        world.node(node, "4");
    }
    world.node("spare-1", "4");
    world.node("spare-2", "4");
    for (index, node) in nodes.iter().enumerate() {
        world.deploy_on(node, &format!("app-{index}"), 2, "500m").await;
    }
    world
}

async fn rotate(world: &World, node: &str, batch: Option<&str>, options: Options) -> String {
    let new = NewRotation { batch: batch.map(str::to_owned), ..world.new_rotation(node, options) };
    world.begin(new).await
}

#[tokio::test(start_paused = true)]
async fn of_two_agents_one_acts_and_the_other_goes_on_when_it_dies() {
    let mut world = shop(&["a"]).await;
    world.sim.create(objects::disruption_budget("app", "shop", "app-0", "maxUnavailable", json!(1)));
    let second = Agent::start(World::config(), world.watched_client(), world.clock());
    world.pass(1_000).await;
    let id = world.rotate("a", options()).await;
    world.until(&id, |rotation| rotation.progress.evicted == 1).await;
    assert_eq!(second.views().get(&id).unwrap().phase, Phase::Draining, "the other one shows it, too");
    world.kill_agent();
    for _ in 0..600 {
        world.pass(100).await;
        if second.views().get(&id).unwrap().phase.is_terminal() {
            break;
        }
    }
    let ended = second.views().get(&id).unwrap();
    assert_eq!((ended.phase, ended.progress.landed), (Phase::Succeeded, 2));
    check::every_eviction_was_covered(&world);
    assert_eq!(check::evictions(&world).1, 2);
    check::nothing_is_left(&world, &["a"]);
}

#[tokio::test(start_paused = true)]
async fn a_batch_keeps_to_its_limit() {
    let world = shop(&["a", "b", "c"]).await;
    let mut ids = Vec::new();
    for node in ["a", "b", "c"] {
        ids.push(rotate(&world, node, Some("x"), options()).await);
    }
    let mut most = 0;
    for _ in 0..20_000 {
        let views: Vec<_> = ids.iter().filter_map(|id| world.view(id)).collect();
        most = most.max(views.iter().filter(|rotation| rotation.phase.is_active()).count());
        if views.iter().filter(|rotation| rotation.phase.is_terminal()).count() == 3 {
            break;
        }
        world.pass(10).await;
    }
    assert_eq!(most, 1, "one at a time by default");
    for id in &ids {
        assert_eq!(world.view(id).unwrap().phase, Phase::Succeeded);
    }
    check::nothing_is_left(&world, &["a", "b", "c"]);
}

#[tokio::test(start_paused = true)]
async fn a_failed_node_ends_its_batch_before_the_next_one_is_touched() {
    let world = shop(&["a", "b"]).await;
    let mut bare = objects::pod("bare", "shop", &objects::template("bare", "100m", "16Mi"));
    bare["spec"]["nodeName"] = json!("a");
    world.sim.create(bare);
    world.pass(3_000).await;
    let (one, two) = (rotate(&world, "a", Some("x"), options()).await, rotate(&world, "b", Some("x"), options()).await);
    world.until_phase(&one, Phase::RolledBack).await;
    let ended = world.until_phase(&two, Phase::Cancelled).await;
    let told = "not begun: 1 node of the batch failed, which ends it (--max-failures 1)";
    assert_eq!(ended.outcome.clone().unwrap().message, told);
    check::nothing_is_left(&world, &[]);
}

#[tokio::test(start_paused = true)]
async fn old_records_are_forgotten_and_live_ones_never() {
    let mut world = shop(&["a"]).await;
    world.kill_agent();
    world.start_agent_with(Config { history_limit: 2, ..World::config() });
    world.pass(30_000).await;
    let mut ids = Vec::new();
    for _ in 0..4 {
        let then = Some(rotate_shared::options::Then::Uncordon);
        let id = rotate(&world, "a", None, Options { then, ..options() }).await;
        world.until_phase(&id, Phase::Succeeded).await;
        ids.push(id);
    }
    world.pass(2_000).await;
    let mut left: Vec<_> = world.store.list().await.unwrap().into_iter().map(|entry| entry.record.id).collect();
    left.sort();
    let mut newest = ids.split_off(2);
    newest.sort();
    assert_eq!(left, newest);
}
