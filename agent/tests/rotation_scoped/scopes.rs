//! What is read, and for how long.

use std::collections::BTreeSet;
use std::time::Duration;

use axum::body::Body;
use http::Request;
use http_body_util::BodyExt;
use rotate_agent::rotation::store::Wish;
use rotate_shared::{CacheInfo, Code, Phase};
use rotate_sim::{Settings, objects};
use serde_json::json;
use tower::ServiceExt;

use crate::check;
use crate::world::{World, options};

/// What is listed of Pods since so many requests: namespaces and field selectors.
fn lists(world: &World, since: usize) -> BTreeSet<String> {
    let requests = world.sim.requests();
    let pods = requests[since..].iter().filter(|request| request.path.ends_with("/pods") && request.method == "GET");
    let what = |path: &str, query: &str| {
        let selector = query.split('&').find_map(|part| part.strip_prefix("fieldSelector=spec.nodeName%3D"));
        let namespace = path.strip_prefix("/api/v1/namespaces/").and_then(|rest| rest.split('/').next());
        let arriving = query.contains("fieldSelector=status.nominatedNodeName%3Da%2C").then(|| "arriving".to_owned());
        selector.map(|node| format!("node {node}")).or(arriving).or(namespace.map(|name| format!("namespace {name}")))
    };
    pods.map(|request| what(&request.path, &request.query).unwrap_or_else(|| "everything".to_owned())).collect()
}

/// How many Pods the agent holds.
async fn cached_pods(world: &World) -> u64 {
    let router = world.agent.as_ref().unwrap().router();
    let response = router.oneshot(Request::get("/v1/cache").body(Body::empty()).unwrap()).await.unwrap();
    let body = response.into_body().collect().await.unwrap().to_bytes();
    serde_json::from_slice::<CacheInfo>(&body).unwrap().pods
}

fn four_nodes() -> World {
    let world = World::start();
    for node in ["a", "b", "c", "d"] {
        world.node(node, "4");
    }
    world
}

#[tokio::test(start_paused = true)]
async fn only_what_the_rotation_is_about_is_read_and_only_while_it_lasts() {
    let world = four_nodes();
    world.deploy_on("a", "web", 2, "1").await;
    world.sim.create(objects::namespace("other", &json!({})));
    world.sim.create(objects::deployment("noise", "other", 2, objects::template("noise", "100m", "16Mi")));
    world.until_running("other", 2).await;
    world.pass(1_000).await;
    assert_eq!(lists(&world, 0), ["namespace kubectl-rotate-room".to_owned()].into());

    let id = world.rotate("a", options()).await;
    world.until_phase(&id, Phase::Succeeded).await;
    let read = lists(&world, 0);
    assert!(read.contains("node a") && read.contains("namespace shop"), "{read:?}");
    assert!(!read.contains("namespace other") && !read.contains("everything"), "{read:?}");
    check::every_eviction_was_covered(&world);

    // Watches that nobody needs end with the rotation: a change of a Pod there is not heard of any more.
    world.pass(2_000).await;
    assert_eq!(cached_pods(&world).await, 0, "what was read for the rotation is forgotten");
    let since = world.sim.requests().len();
    // A watch that began with a list lasts half an hour and more.
    world.pass(2_200_000).await;
    assert_eq!(lists(&world, since), ["namespace kubectl-rotate-room".to_owned()].into());
}

#[tokio::test(start_paused = true)]
async fn nodes_that_wait_for_their_turn_are_not_read() {
    let world = four_nodes();
    world.deploy_on("a", "web", 1, "1").await;
    world.deploy_on("b", "api", 1, "1").await;
    let id = world.rotate("a", options()).await;
    world.ask(&id, Wish::Pause).await;
    world.pass(5_000).await;
    assert!(!lists(&world, 0).contains("node a"), "{:?}", lists(&world, 0));
    world.ask(&id, Wish::Resume).await;
    world.until_phase(&id, Phase::Succeeded).await;
    assert!(!lists(&world, 0).contains("node b") || world.nodes_of("shop").contains(&"b".to_owned()));
}

#[tokio::test(start_paused = true)]
async fn a_pod_of_another_namespace_that_is_bound_after_the_cordon_is_moved_too() {
    let world = World::with(Settings { bind_delay: Duration::from_millis(300), ..Settings::default() });
    world.node("a", "8");
    world.deploy_on("a", "web", 2, "1").await;
    world.sim.create(objects::namespace("late", &json!({})));
    // The scheduler decides for `a`, the only node, and binds after the cordon.
    world.sim.create(objects::deployment("late", "late", 2, objects::template("late", "1", "64Mi")));
    world.pass(20).await;
    let id = world.rotate("a", options()).await;
    world.node("b", "8");
    let ended = world.until_phase(&id, Phase::Succeeded).await;
    assert!(ended.moved.iter().any(|pod| pod.starts_with("late/")), "{:?}", ended.moved);
    assert_eq!(world.nodes_of("late"), ["b", "b"]);
    check::every_eviction_was_covered(&world);
    check::nothing_is_left(&world, &["a"]);
}

#[tokio::test(start_paused = true)]
async fn what_may_not_be_read_is_named_and_the_node_is_given_back() {
    let world = four_nodes();
    world.deploy_on("a", "web", 2, "1").await;
    world.sim.faults().fail("GET", "/api/v1/namespaces/shop/pods", 403, usize::MAX);
    let id = world.rotate("a", options()).await;
    let waiting =
        world.until(&id, |rotation| rotation.waiting.iter().any(|wait| wait.message.contains("failed to"))).await;
    let wait = &waiting.waiting[0];
    assert_eq!(wait.code, Code::NotReady);
    assert!(
        wait.message.starts_with("the Pods of namespace shop are still being read: failed to "),
        "{}",
        wait.message
    );
    let ended = world.until_phase(&id, Phase::RolledBack).await;
    assert_eq!(ended.outcome.clone().unwrap().code, Some(Code::NotReady));
    check::nothing_is_left(&world, &[]);
    assert_eq!(check::evictions(&world), (0, 0));
}
