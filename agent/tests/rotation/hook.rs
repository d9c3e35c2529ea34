//! A hook that ends machines, and what becomes of a rotation where it does not.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use axum::Router;
use axum::extract::State;
use http::{StatusCode, Uri};
use rotate_agent::Config;
use rotate_agent::provider::cluster_autoscaler::hook::Hook;
use rotate_agent::rotation::record::NewRotation;
use rotate_shared::options::Then;
use rotate_shared::plan::Provider;
use rotate_shared::{Code, Options, Phase, Rotation};
use rotate_sim::{NodeSpec, Provisioner};

use crate::check;
use crate::world::{World, options};

type Asked = Arc<AtomicUsize>;

async fn answer(State((status, asked)): State<(StatusCode, Asked)>) -> (StatusCode, &'static str) {
    asked.fetch_add(1, Ordering::SeqCst);
    (status, "as the test says")
}

/// Rotates a node of a group by an agent whose hook always answers this; the end, and how often the hook was asked.
async fn rotated(status: u16) -> (World, Arc<Rotation>, usize) {
    let mut world = World::start();
    for name in ["a", "b"] {
        world.sim.add_node(NodeSpec::new(name).label(Provisioner::GROUP_LABEL, "web"));
    }
    world.deploy_on("a", "web", 2, "1").await;
    world.kill_agent();
    let asked = Asked::default();
    let router = Router::new().fallback(answer).with_state((StatusCode::from_u16(status).unwrap(), Arc::clone(&asked)));
    let hook = Hook::through(router, Uri::from_static("https://hook.example/"), None).unwrap();
    world.start_agent_with(Config { hook: Some(hook), ..World::config() });
    let options = Options { then: Some(Then::Delete), ..options() };
    let new = NewRotation { provider: Provider::ClusterAutoscaler, ..world.new_rotation("a", options) };
    let id = world.begin(new).await;
    let ended = world.until(&id, |rotation| rotation.phase.is_terminal()).await;
    let times = asked.load(Ordering::SeqCst);
    (world, ended, times)
}

/// Failed, and nothing lost: everything landed, the node is there, empty and cordoned.
fn failed_without_loss(world: &World, ended: &Rotation) -> String {
    assert_eq!(ended.phase, Phase::Failed, "{ended:#?}");
    assert_eq!(ended.progress.landed, 2);
    assert_eq!(world.nodes_of("shop"), ["b", "b"]);
    check::every_eviction_was_covered(world);
    check::nothing_is_left(world, &["a"]);
    let outcome = ended.outcome.clone().unwrap();
    assert_eq!(outcome.code, Some(Code::RemovalFailed));
    outcome.message
}

#[tokio::test(start_paused = true)]
async fn a_hook_that_answers_500_is_asked_again_and_again_and_then_the_rotation_fails_with_its_words() {
    let (world, ended, asked) = rotated(500).await;
    let message = failed_without_loss(&world, &ended);
    assert!(message.contains("the hook answered 500 Internal Server Error: as the test says"), "{message}");
    assert!((5..200).contains(&asked), "asked {asked} times");
}

#[tokio::test(start_paused = true)]
async fn a_hook_that_refuses_is_asked_once() {
    let (world, ended, asked) = rotated(404).await;
    let message = failed_without_loss(&world, &ended);
    assert!(message.contains("the hook answered 404 Not Found: as the test says; it is not asked again"), "{message}");
    assert_eq!(asked, 1);
}

#[tokio::test(start_paused = true)]
async fn a_hook_that_lies_is_believed_for_a_quarter_of_an_hour() {
    let (world, ended, asked) = rotated(202).await;
    let message = failed_without_loss(&world, &ended);
    assert!(message.contains("was accepted, but node a is there still after 15m"), "{message}");
    assert!(message.contains("sim://a"), "{message}");
    assert_eq!(asked, 1);
}
