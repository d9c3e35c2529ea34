//! What is read, and for how long.

use std::collections::BTreeSet;
use std::time::Duration;

use axum::body::Body;
use http::{Request, StatusCode};
use http_body_util::BodyExt;
use rotate_agent::rotation::store::Wish;
use rotate_shared::{CacheInfo, Code, NodeList, Phase, PlanList, Problem, names};
use rotate_sim::{Settings, objects};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
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

/// What the agent answers.
async fn ask<T: DeserializeOwned>(world: &World, request: Request<Body>) -> (StatusCode, T) {
    let response = world.agent.as_ref().unwrap().router().oneshot(request).await.unwrap();
    let status = response.status();
    let body = response.into_body().collect().await.unwrap().to_bytes();
    (status, serde_json::from_slice(&body).unwrap())
}

async fn cache(world: &World) -> CacheInfo {
    ask(world, Request::get("/v1/cache").body(Body::empty()).unwrap()).await.1
}

/// What the agent answers to the wish for a plan of node `a`.
async fn plan<T: DeserializeOwned>(world: &World) -> (StatusCode, T) {
    let request = Request::post("/v1/plans").header("content-type", "application/json");
    ask(world, request.body(Body::from(r#"{"nodes":["a"]}"#)).unwrap()).await
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

    // Watches that nobody needs end soon after the rotation.
    world.pass(31_000).await;
    assert_eq!(cache(&world).await.pods, 0, "what was read for the rotation is forgotten");
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

#[tokio::test(start_paused = true)]
async fn an_agent_that_comes_back_in_the_middle_touches_nothing_before_it_has_read_what_it_works_on() {
    let mut world = four_nodes();
    world.deploy_on("a", "web", 3, "1").await;
    world.sim.create(objects::disruption_budget("web", "shop", "web", "maxUnavailable", json!(1)));
    world.pass(1_000).await;
    let id = world.rotate("a", options()).await;
    world.until(&id, |rotation| rotation.progress.evicted == 1).await;
    world.kill_agent();
    let (room, evictions) = (world.pods(names::ROOM_NAMESPACE), check::evictions(&world));
    assert!(!room.is_empty());
    // One part after another: first the placeholders are seen, long afterwards what they are for.
    for (path, seconds) in [("/namespaces/shop/pods", 40), ("/api/v1/pods", 30)] {
        world.sim.faults().delay("GET", path, Duration::from_secs(seconds), 1);
    }
    world.start_agent();
    let waiting = world.until(&id, |rotation| rotation.waiting.iter().any(|wait| wait.code == Code::NotReady)).await;
    assert_eq!(waiting.phase, Phase::Draining);
    // The lead of the dead agent has to run out first.
    world.pass(25_000).await;
    let still = world.view(&id).unwrap();
    assert_eq!((still.phase, still.waiting[0].code), (Phase::Draining, Code::NotReady), "{still:#?}");
    let uids = |pods: &[Value]| pods.iter().map(|pod| pod["metadata"]["uid"].clone()).collect::<Vec<_>>();
    assert_eq!(uids(&world.pods(names::ROOM_NAMESPACE)), uids(&room), "what was held is held");
    assert_eq!(check::evictions(&world), evictions);
    let ended = world.until_phase(&id, Phase::Succeeded).await;
    assert_eq!((ended.progress.evicted, ended.progress.landed), (3, 3));
    check::every_eviction_was_covered(&world);
    check::nothing_is_left(&world, &["a"]);
}

#[tokio::test(start_paused = true)]
async fn a_plan_reads_what_it_is_about_and_forgets_it() {
    let world = four_nodes();
    world.deploy_on("a", "web", 2, "1").await;
    world.agent.as_ref().unwrap().ready().await;
    let (status, plans) = plan::<PlanList>(&world).await;
    assert_eq!(status, StatusCode::OK);
    let plan = &plans.items[0];
    assert_eq!(plan.totals.pods, 2);
    assert_eq!(plan.warnings.iter().map(|warning| warning.code).collect::<Vec<_>>(), [Code::NotLookedAt]);
    assert_eq!(
        lists(&world, 0),
        ["namespace kubectl-rotate-room", "namespace shop", "node a"].map(str::to_owned).into()
    );
    world.pass(31_000).await;
    let cache = cache(&world).await;
    assert_eq!((cache.pods, cache.synced), (0, true));
    let scopes: Vec<_> = cache.feeds.into_iter().filter_map(|feed| feed.scope).collect();
    assert_eq!(scopes, ["namespace kubectl-rotate-room"]);
}

#[tokio::test(start_paused = true)]
async fn a_plan_of_pods_that_cannot_be_read_is_refused_in_time_with_the_reason() {
    let world = four_nodes();
    world.deploy_on("a", "web", 2, "1").await;
    world.agent.as_ref().unwrap().ready().await;
    world.sim.faults().fail("GET", "/api/v1/namespaces/shop/pods", 403, usize::MAX);
    let asked = world.now();
    let (status, problem) = plan::<Problem>(&world).await;
    assert_eq!((status, problem.code), (StatusCode::SERVICE_UNAVAILABLE, Code::NotReady));
    let told = "the Pods of namespace shop are still being read: failed to ";
    assert!(problem.detail.starts_with(told) && problem.detail.contains("403"), "{}", problem.detail);
    assert!(world.now().duration_since(asked).as_secs() <= 31);
    assert!(cache(&world).await.synced, "the agent itself is as ready as before");
}

#[tokio::test(start_paused = true)]
async fn figures_of_nodes_that_are_not_read_are_left_out() {
    let world = four_nodes();
    for node in ["e", "f", "g"] {
        world.node(node, "4");
    }
    world.deploy_on("a", "web", 2, "1").await;
    world.sim.create(objects::disruption_budget("web", "shop", "web", "maxUnavailable", json!(1)));
    world.pass(1_000).await;
    let id = world.rotate("a", options()).await;
    world.until(&id, |rotation| rotation.progress.evicted == 1).await;
    let (_, nodes) = ask::<NodeList>(&world, Request::get("/v1/nodes").body(Body::empty()).unwrap()).await;
    let known: Vec<_> = nodes.items.iter().filter(|node| node.pods.is_some()).map(|node| &*node.name).collect();
    assert!(known.contains(&"a") && known.len() < 7, "{known:?}");
    assert!(nodes.items.iter().all(|node| node.pods.is_some() == node.movable.is_some()));
}
