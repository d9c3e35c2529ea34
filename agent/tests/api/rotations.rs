//! One rotation: planned, begun, followed, paused, cancelled.

use rotate_shared::{CacheInfo, Code, NodeList, Phase, PlanList, Rotation, RotationList, Then};
use rotate_sim::objects;
use serde_json::json;

use crate::world::{World, problem, success};

#[tokio::test(start_paused = true)]
async fn a_plan_counts_what_would_move_and_touches_nothing() {
    let world = World::start().await;
    let writes = |world: &World| world.sim.requests().iter().filter(|request| request.writes()).count();
    let nodes: NodeList = world.get("/v1/nodes?selector=pool%3Dweb").await;
    let before = writes(&world);
    let (_, plans) = success::<PlanList>(world.post("/v1/plans", &json!({ "selector": "pool=web" })).await).await;
    assert_eq!(writes(&world), before);
    assert_eq!(plans.items.len(), 3);
    for (plan, node) in plans.items.iter().zip(&nodes.items) {
        assert_eq!((plan.node.as_str(), Some(plan.totals.pods)), (node.name.as_str(), node.movable_pods));
        assert_eq!(plan.blockers, []);
    }
    assert_eq!(plans.items.iter().map(|plan| plan.totals.pods).sum::<u32>(), 4);
}

#[tokio::test(start_paused = true)]
async fn a_rotation_is_followed_from_its_beginning_to_its_end() {
    let world = World::start().await;
    let begun = world.rotate(&json!({ "nodes": ["a"], "claimedUser": "ada", "options": { "reason": "kernel" } })).await;
    assert_eq!(begun.len(), 1);
    let id = &begun[0].id;
    assert_eq!((begun[0].batch.as_ref(), begun[0].node.as_str()), (None, "a"));
    assert_eq!(begun[0].requested_by.claimed.as_deref(), Some("ada"));

    let states = world.follow(id).await;
    let mut phases: Vec<_> = states.iter().map(|state| state.phase).collect();
    phases.dedup();
    let expected = [Phase::Surging, Phase::Draining, Phase::Settling, Phase::Removing, Phase::Succeeded];
    assert_eq!(phases.iter().filter(|phase| **phase != Phase::Queued).copied().collect::<Vec<_>>(), expected);
    assert!(states.windows(2).all(|pair| pair[0].revision < pair[1].revision));

    let end: Rotation = world.get(&format!("/v1/rotations/{id}")).await;
    assert_eq!(Some(&end), states.last());
    assert_eq!(end.options.reason.as_deref(), Some("kernel"));
}

#[tokio::test(start_paused = true)]
async fn a_rotation_just_begun_is_found_at_once() {
    let world = World::start().await;
    for node in ["a", "b", "c"] {
        let id = world.rotate(&json!({ "nodes": [node] })).await[0].id.clone();
        assert_eq!(world.get::<Rotation>(&format!("/v1/rotations/{id}")).await.node, node);
        let list: RotationList = world.get(&format!("/v1/rotations?node={node}")).await;
        assert_eq!(list.items[0].id, id);
    }
}

#[tokio::test(start_paused = true)]
async fn a_node_that_is_being_rotated_is_refused_with_the_id() {
    let world = World::start().await;
    let id = world.rotate(&json!({ "nodes": ["a"] })).await[0].id.clone();
    let problem = problem(world.post("/v1/rotations", &json!({ "nodes": ["a"] })).await).await;
    assert_eq!((problem.status, problem.code), (409, Code::AlreadyRotating));
    assert!(problem.detail.contains("; follow it with: kubectl rotate status "), "{}", problem.detail);
    assert_eq!(problem.rotation, Some(id));
    assert_eq!(world.records().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_node_can_be_rotated_again_once_it_was() {
    let world = World::start().await;
    let body = json!({ "nodes": ["a"], "options": { "then": "uncordon", "rebootTimeoutSeconds": 0 } });
    let first = world.rotate(&body).await[0].id.clone();
    world.until_phase(&first, Phase::Succeeded).await;
    let second = world.rotate(&body).await[0].id.clone();
    assert_ne!(first, second);
    world.until_phase(&second, Phase::Succeeded).await;
}

#[tokio::test(start_paused = true)]
async fn what_becomes_of_the_node_is_settled_when_the_rotation_is_begun() {
    let world = World::start().await;
    let begun = world.rotate(&json!({ "nodes": ["a"] })).await;
    assert_eq!(begun[0].options.then, Some(Then::Keep), "as an unmanaged node's provider is used to");
    let begun = world.rotate(&json!({ "nodes": ["b"], "options": { "then": "delete" } })).await;
    assert_eq!(begun[0].options.then, Some(Then::Delete));
}

#[tokio::test(start_paused = true)]
async fn blockers_are_listed_and_nothing_is_begun() {
    let world = World::start().await;
    world.bare_pod("b").await;
    let problem = problem(world.post("/v1/rotations", &json!({ "nodes": ["a", "b"] })).await).await;
    assert_eq!((problem.status, problem.code), (422, Code::Blocked));
    assert_eq!(problem.blockers.len(), 1);
    assert_eq!((problem.blockers[0].code, problem.blockers[0].object.as_str()), (Code::BarePod, "Pod shop/bare"));
    assert!(problem.detail.starts_with("node b cannot be rotated: Pod shop/bare"), "{}", problem.detail);
    assert!(world.records().is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_paused_rotation_waits_and_goes_on_when_resumed() {
    let world = World::start().await;
    let id = world.rotate(&json!({ "nodes": ["a"] })).await[0].id.clone();
    let paused = success::<Rotation>(world.post(&format!("/v1/rotations/{id}/pause"), &json!({})).await).await.1;
    assert!(paused.paused);
    world.pass(1000).await;
    let before: Rotation = world.get(&format!("/v1/rotations/{id}")).await;
    world.pass(60_000).await;
    let after: Rotation = world.get(&format!("/v1/rotations/{id}")).await;
    assert!(after.paused);
    assert_eq!(after.phase, before.phase);
    assert!(after.waiting.iter().any(|waiting| waiting.code == Code::Paused), "{:?}", after.waiting);
    let resumed = success::<Rotation>(world.post(&format!("/v1/rotations/{id}/resume"), &json!({})).await).await.1;
    assert!(!resumed.paused);
    world.until_phase(&id, Phase::Succeeded).await;
}

#[tokio::test(start_paused = true)]
async fn a_rotation_that_is_over_cannot_be_cancelled() {
    let world = World::start().await;
    let id = world.rotate(&json!({ "nodes": ["a"] })).await[0].id.clone();
    world.until_phase(&id, Phase::Succeeded).await;
    for verb in ["cancel", "pause", "resume"] {
        let problem = problem(world.post(&format!("/v1/rotations/{id}/{verb}"), &json!({})).await).await;
        assert_eq!((problem.status, problem.code), (409, Code::WrongPhase), "{verb}");
    }
}

#[tokio::test(start_paused = true)]
async fn what_cancel_says_is_checked_before_it_is_done() {
    let world = World::start().await;
    let id = world.rotate(&json!({ "nodes": ["a"] })).await[0].id.clone();
    let problem = problem(world.post(&format!("/v1/rotations/{id}/cancel"), &json!({ "uncordn": true })).await).await;
    assert!(problem.detail.contains("`uncordn`"), "{}", problem.detail);
    let unknown = world.post("/v1/rotations/0123456789/cancel", &json!({})).await;
    assert_eq!(crate::world::problem(unknown).await.code, Code::NotFound);
}

#[tokio::test(start_paused = true)]
async fn the_cache_tells_how_much_it_holds_and_how_fresh_it_is() {
    let world = World::start().await;
    let cache: CacheInfo = world.get("/v1/cache").await;
    assert!(cache.synced);
    assert_eq!((cache.nodes, cache.pods), (3, 4));
    assert!(cache.feeds.iter().all(|feed| feed.age_seconds.is_some_and(|age| age < 120)), "{:?}", cache.feeds);
}

#[tokio::test(start_paused = true)]
async fn what_the_api_server_would_refuse_to_evict_is_asked_without_touching_anything() {
    let world = World::start().await;
    world.sim.create(objects::disruption_budget("cart", "shop", "cart", "minAvailable", json!(4)));
    world.pass(1000).await;
    let body = json!({ "selector": "pool=web", "askEvictions": true });
    let (_, plans) = success::<PlanList>(world.post("/v1/plans", &body).await).await;
    let refused =
        "its eviction would be refused now: The disruption budget cart needs 4 healthy pods and has 4 currently";
    let told = plans.items.iter().flat_map(|plan| &plan.warnings).filter(|warning| warning.message == refused);
    assert_eq!(told.filter(|warning| warning.code == Code::PodDisruptionBudget).count(), 4);
    let asked: Vec<_> = world.sim.requests().into_iter().filter(|it| it.path.ends_with("/eviction")).collect();
    assert!(asked.len() == 4 && asked.iter().all(|request| request.query == "dryRun=All"), "{asked:?}");
    assert!(world.sim.list("pods").iter().all(|pod| pod["metadata"]["deletionTimestamp"].is_null()));
}

#[tokio::test(start_paused = true)]
async fn a_selector_of_pods_that_cannot_be_meant_is_refused() {
    let world = World::start().await;
    for (options, said) in [
        (json!({ "podSelector": " " }), "podSelector must not be empty"),
        (json!({ "podSelector": "app in" }), "failed to read podSelector"),
        (json!({ "podSelector": "app=cart", "then": "delete" }), "then must be keep or uncordon"),
    ] {
        for path in ["/v1/plans", "/v1/rotations"] {
            let refused = problem(world.post(path, &json!({ "nodes": ["a"], "options": options })).await).await;
            assert_eq!((refused.status, refused.code), (400, Code::BadRequest), "{options}");
            assert!(refused.detail.contains(said), "{}", refused.detail);
        }
    }
    let body = json!({ "nodes": ["a"], "options": { "podSelector": "app=cart" } });
    let (_, plans) = success::<PlanList>(world.post("/v1/plans", &body).await).await;
    assert_eq!(plans.items[0].then, Some(Then::Keep));
}
