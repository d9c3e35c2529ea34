//! Several rotations at once: all or none, and asked for once though asked for twice.

use std::collections::HashSet;
use std::time::Duration;

use axum::response::Response;
use http::StatusCode;
use rotate_agent::Config;
use rotate_shared::{Code, Phase, Rotation, RotationList, names};
use serde_json::{Value, json};
use tower::ServiceExt as _;

use crate::world::{NAMESPACE, World, problem, success, with_key};

/// Where records are listed and written.
const RECORDS: &str = "/namespaces/kubectl-rotate/configmaps";

fn ids(rotations: &[Rotation]) -> Vec<String> {
    rotations.iter().map(|rotation| rotation.id.clone()).collect()
}

#[tokio::test(start_paused = true)]
async fn a_selector_makes_one_rotation_a_node_in_one_batch() {
    let world = World::start().await;
    let begun = world.rotate(&json!({ "selector": "pool in (web),!special", "options": { "then": "uncordon", "rebootTimeoutSeconds": 0 } })).await;
    assert_eq!(begun.iter().map(|rotation| rotation.node.as_str()).collect::<Vec<_>>(), ["a", "b", "c"]);
    let batch = begun[0].batch.clone().unwrap();
    assert!(begun.iter().all(|rotation| rotation.batch.as_ref() == Some(&batch)));
    for id in ids(&begun) {
        world.until_phase(&id, Phase::Succeeded).await;
    }
    let list: RotationList = world.get(&format!("/v1/rotations?batch={batch}")).await;
    assert_eq!(list.items.len(), 3);
}

#[tokio::test(start_paused = true)]
async fn a_node_named_twice_is_rotated_once() {
    let world = World::start().await;
    assert_eq!(world.rotate(&json!({ "nodes": ["b", "a", "b"] })).await.len(), 2);
    assert_eq!(world.records().len(), 2);
}

#[tokio::test(start_paused = true)]
async fn one_of_a_batch_waits_for_its_turn_and_can_be_cancelled_untouched() {
    let world = World::start().await;
    let begun = world.rotate(&json!({ "nodes": ["a", "b"] })).await;
    let second = &begun[1].id;
    world.until_phase(&begun[0].id, Phase::Surging).await;
    let waiting: Rotation = world.get(&format!("/v1/rotations/{second}")).await;
    assert_eq!(waiting.phase, Phase::Queued);
    success::<Rotation>(world.post(&format!("/v1/rotations/{second}/cancel"), &json!({})).await).await;
    world.until_phase(second, Phase::Cancelled).await;
    assert_eq!(world.sim.get("nodes", "", "b").unwrap()["spec"]["unschedulable"], json!(null));
}

#[tokio::test(start_paused = true)]
async fn the_same_request_with_the_same_key_is_answered_with_the_same_rotations() {
    let world = World::start().await;
    let body = json!({ "nodes": ["a", "b"] });
    let (status, first) = success::<RotationList>(world.rotate_with_key("k1", &body).await).await;
    assert_eq!(status, StatusCode::CREATED);
    let (status, second) = success::<RotationList>(world.rotate_with_key("k1", &body).await).await;
    assert_eq!(status, StatusCode::OK);
    assert_eq!(ids(&first.items), ids(&second.items));
    for id in ids(&first.items) {
        world.until_phase(&id, Phase::Succeeded).await;
    }
    let (_, third) = success::<RotationList>(world.rotate_with_key("k1", &body).await).await;
    assert_eq!(ids(&first.items), ids(&third.items), "although they are over");
    assert_eq!(world.records().len(), 2);
}

/// A world with two agents, in which the next records take so many milliseconds each to be written, and whoever lists them
/// first is first by 50 ms.
async fn slow(writes: &[u64]) -> (World, rotate_agent::Agent) {
    let world = World::start().await;
    let other = world.start_agent();
    other.ready().await;
    for milliseconds in [1, 50] {
        world.sim.faults().delay("GET", RECORDS, Duration::from_millis(milliseconds), 1);
    }
    for milliseconds in writes {
        world.sim.faults().delay("POST", RECORDS, Duration::from_millis(*milliseconds), 1);
    }
    (world, other)
}

/// The same request at one agent, and a little later at another.
async fn twice(world: &World, other: &rotate_agent::Agent, body: &Value) -> (Response, Response) {
    let again = async {
        world.pass(5).await;
        let Ok(response) = other.router().oneshot(with_key("k1", body)).await;
        response
    };
    tokio::join!(world.rotate_with_key("k1", body), again)
}

/// Whether both were answered with the same rotations of one batch, and no others are there.
async fn both_have_begun_one_batch(world: &World, first: Response, second: Response) {
    let (first, second) = (success::<RotationList>(first).await.1, success::<RotationList>(second).await.1);
    assert_eq!(ids(&first.items), ids(&second.items));
    assert_eq!((first.items.len(), world.records().len()), (3, 3));
    let batches: HashSet<_> = first.items.iter().map(|rotation| rotation.batch.clone()).collect();
    assert_eq!(batches.len(), 1, "{batches:?}");
}

#[tokio::test(start_paused = true)]
async fn who_asks_again_while_the_first_request_is_at_work_is_answered_with_the_whole_of_one_batch() {
    for writes in [&[10, 200][..], &[100, 100, 100], &[30_000, 10, 29_000]] {
        let (world, other) = slow(writes).await;
        let (first, second) = twice(&world, &other, &json!({ "nodes": ["a", "b", "c"] })).await;
        both_have_begun_one_batch(&world, first, second).await;
    }
}

#[tokio::test(start_paused = true)]
async fn what_the_first_request_has_begun_does_not_stand_in_the_way_of_the_same_request() {
    let (world, other) = slow(&[200, 200, 200]).await;
    // The plans of the second take so long that the first begins meanwhile.
    let path = "/configmaps/cluster-autoscaler-status";
    world.sim.faults().delay("GET", path, Duration::ZERO, 1);
    world.sim.faults().delay("GET", path, Duration::from_millis(500), 1);
    let blocked = async {
        // What has come in the way since the first looked is not the second's business either.
        world.pass(100).await;
        world.bare_pod("c").await;
    };
    let body = json!({ "nodes": ["a", "b", "c"] });
    let ((first, second), ()) = tokio::join!(twice(&world, &other, &body), blocked);
    assert_eq!(second.status(), StatusCode::OK);
    both_have_begun_one_batch(&world, first, second).await;
}

#[tokio::test(start_paused = true)]
async fn where_the_first_request_takes_back_what_it_wrote_the_same_request_begins_all_of_it() {
    let (world, other) = slow(&[10, 200]).await;
    world.sim.faults().fail("POST", RECORDS, 500, 1);
    let (first, second) = twice(&world, &other, &json!({ "nodes": ["a", "b", "c"] })).await;
    assert_eq!(problem(first).await.code, Code::UpstreamFailed);
    let (status, second) = success::<RotationList>(second).await;
    assert_eq!((status, second.items.len()), (StatusCode::CREATED, 3));
    assert!(second.items.iter().all(|rotation| !rotation.phase.is_terminal() && !rotation.cancelling), "{second:#?}");
}

#[tokio::test(start_paused = true)]
async fn what_an_agent_that_died_has_not_begun_the_same_request_begins_in_the_same_batch() {
    let world = World::start().await;
    let body = json!({ "nodes": ["a", "b", "c"] });
    let (_, first) = success::<RotationList>(world.rotate_with_key("k1", &body).await).await;
    let left = &first.items[1..];
    for rotation in left {
        world.sim.delete("configmaps", NAMESPACE, &format!("{}{}", names::RECORD_PREFIX, rotation.id));
    }
    world.pass(1000).await;
    let asked = world.clock.now();
    let (status, second) = success::<RotationList>(world.rotate_with_key("k1", &body).await).await;
    assert_eq!((status, second.items.len()), (StatusCode::CREATED, 3));
    assert_eq!(second.items[0].id, first.items[0].id);
    assert!(second.items.iter().all(|rotation| rotation.batch == first.items[0].batch));
    // Longer than a write that is at work may take.
    assert!(world.clock.now().duration_since(asked).as_secs() >= 30);
}

#[tokio::test(start_paused = true)]
async fn a_record_is_not_lost_with_the_answer_that_told_of_it() {
    for looks_that_fail in 0..3 {
        let world = World::start().await;
        world.sim.faults().delay("POST", RECORDS, Duration::from_millis(1), 1);
        world.sim.faults().lose_answers("POST", RECORDS, 1);
        // The list is read before; then the record is looked for.
        world.sim.faults().delay("GET", RECORDS, Duration::from_millis(1), 1);
        world.sim.faults().fail("GET", RECORDS, 503, looks_that_fail);
        let body = json!({ "nodes": ["a", "b", "c"] });
        let (status, list) = success::<RotationList>(world.post("/v1/rotations", &body).await).await;
        assert_eq!((status, list.items.len()), (StatusCode::CREATED, 3));
        assert_eq!(world.records().len(), 3);
    }
}

#[tokio::test(start_paused = true)]
async fn a_key_that_was_used_for_other_nodes_is_refused() {
    let world = World::start().await;
    success::<RotationList>(world.rotate_with_key("k1", &json!({ "nodes": ["a"] })).await).await;
    let problem = problem(world.rotate_with_key("k1", &json!({ "nodes": ["b"] })).await).await;
    assert_eq!((problem.status, problem.code), (422, Code::BadRequest));
    assert_eq!(world.records().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_key_that_was_used_for_another_request_is_refused_at_once() {
    let world = World::start().await;
    success::<RotationList>(world.rotate_with_key("k1", &json!({ "nodes": ["a"] })).await).await;
    let asked = world.clock.now();
    for (body, status, told) in [
        (json!({ "nodes": ["a", "b"] }), 422, "was used for 1 node before"),
        (json!({ "nodes": ["a"], "options": { "then": "delete" } }), 422, "with other options before"),
        (json!({ "nodes": ["a"], "options": { "force": true } }), 422, "with other options before"),
        (json!({ "nodes": ["a"], "selector": "pool=web" }), 400, "named or selected, not both"),
        (json!({ "selector": "(((" }), 400, "failed to read the selector"),
    ] {
        let problem = problem(world.rotate_with_key("k1", &body).await).await;
        assert_eq!(problem.status, status, "{body}: {}", problem.detail);
        assert!(problem.detail.contains(told), "{body}: {}", problem.detail);
    }
    assert!(world.clock.now().duration_since(asked).as_secs() < 1);
    assert_eq!(world.records().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn what_a_batch_has_finished_is_not_begun_again_although_few_records_are_kept() {
    let world = World::start_with(Config { history_limit: 0, ..Config::default() }).await;
    let body = json!({ "nodes": ["a", "b", "c"], "options": { "then": "uncordon", "rebootTimeoutSeconds": 0 } });
    let (_, first) = success::<RotationList>(world.rotate_with_key("k1", &body).await).await;
    world.until_phase(&first.items[0].id, Phase::Succeeded).await;
    world.pass(5000).await;
    let (status, second) = success::<RotationList>(world.rotate_with_key("k1", &body).await).await;
    assert_eq!((status, ids(&second.items)), (StatusCode::OK, ids(&first.items)));
    // Once all are over, their records go together.
    world.until(|world| world.records().is_empty()).await;
}

#[tokio::test(start_paused = true)]
async fn a_selector_is_answered_with_all_that_it_meant_or_not_at_all() {
    let (world, other) = slow(&[100, 100, 100]).await;
    let body = json!({ "selector": "pool=web" });
    let (first, second) = twice(&world, &other, &body).await;
    both_have_begun_one_batch(&world, first, second).await;
    let list: RotationList = world.get("/v1/rotations").await;
    world.sim.delete("configmaps", NAMESPACE, &format!("{}{}", names::RECORD_PREFIX, list.items[1].id));
    world.pass(1000).await;
    let problem = problem(world.rotate_with_key("k1", &body).await).await;
    assert!(problem.status == 422 && problem.detail.contains("by name, with another key"), "{}", problem.detail);
}

#[tokio::test(start_paused = true)]
async fn a_batch_that_was_taken_back_can_be_asked_for_again_under_its_key() {
    let world = World::start().await;
    world.sim.faults().delay("POST", RECORDS, Duration::from_millis(10), 1);
    world.sim.faults().fail("POST", RECORDS, 500, 1);
    // What is written is cancelled, where it may not be deleted.
    world.sim.faults().fail("DELETE", RECORDS, 403, 100);
    let body = json!({ "nodes": ["a", "b", "c"] });
    assert_eq!(problem(world.rotate_with_key("k1", &body).await).await.code, Code::UpstreamFailed);
    assert_eq!(world.records().len(), 1);
    world.pass(10_000).await;
    let begun = world.rotate_with_key("k1", &body).await;
    let (status, list) = success::<RotationList>(begun).await;
    assert_eq!((status, list.items.len()), (StatusCode::CREATED, 3));
    assert!(list.items.iter().all(|rotation| !rotation.phase.is_terminal() && !rotation.cancelling), "{list:#?}");
}

#[tokio::test(start_paused = true)]
async fn a_repeated_selector_does_not_take_in_nodes_that_came_since() {
    let world = World::start().await;
    let body = json!({ "selector": "pool=web", "options": { "then": "uncordon", "rebootTimeoutSeconds": 0 } });
    let (_, first) = success::<RotationList>(world.rotate_with_key("k1", &body).await).await;
    world.sim.add_node(rotate_sim::NodeSpec::new("d").label("pool", "web"));
    world.pass(1000).await;
    let (status, second) = success::<RotationList>(world.rotate_with_key("k1", &body).await).await;
    assert_eq!(status, StatusCode::OK);
    assert_eq!(ids(&first.items).len(), ids(&second.items).len());
    assert_eq!(world.records().len(), 3);
}

#[tokio::test(start_paused = true)]
async fn the_same_rotations_are_answered_although_the_nodes_are_gone() {
    let world = World::start().await;
    let body = json!({ "nodes": ["a"], "options": { "then": "delete" } });
    let (_, first) = success::<RotationList>(world.rotate_with_key("k1", &body).await).await;
    world.until_phase(&first.items[0].id, Phase::Succeeded).await;
    assert!(world.sim.get("nodes", "", "a").is_none());
    let (status, second) = success::<RotationList>(world.rotate_with_key("k1", &body).await).await;
    assert_eq!((status, ids(&second.items)), (StatusCode::OK, ids(&first.items)));
}

#[tokio::test(start_paused = true)]
async fn a_batch_that_cannot_be_written_whole_is_taken_back_and_can_be_asked_for_again() {
    let world = World::start().await;
    // The first rule takes one request and no more: it is the second record that cannot be written.
    world.sim.faults().delay("POST", RECORDS, Duration::from_millis(10), 1);
    world.sim.faults().fail("POST", RECORDS, 500, 1);
    let body = json!({ "nodes": ["a", "b", "c"] });
    let response = world.rotate_with_key("k1", &body).await;
    assert_eq!(problem(response).await.code, Code::UpstreamFailed);
    assert!(world.records().is_empty());
    for node in ["a", "b", "c"] {
        assert_eq!(world.sim.get("nodes", "", node).unwrap()["spec"]["unschedulable"], json!(null), "{node}");
    }
    let (status, list) = success::<RotationList>(world.rotate_with_key("k1", &body).await).await;
    assert_eq!((status, list.items.len()), (StatusCode::CREATED, 3));
}

#[tokio::test(start_paused = true)]
async fn of_a_batch_that_fails_nothing_goes_on_although_its_records_may_not_be_deleted() {
    for status in [403, 500] {
        let world = World::start().await;
        world.sim.faults().delay("POST", RECORDS, Duration::from_millis(10), 1);
        world.sim.faults().fail("POST", RECORDS, 500, 1);
        // As the admission policies have it for an agent inside kubectl.
        world.sim.faults().fail("DELETE", RECORDS, status, 100);
        let response = world.post("/v1/rotations", &json!({ "nodes": ["a", "b", "c"] })).await;
        assert_eq!(problem(response).await.code, Code::UpstreamFailed);
        let over = |rotation: &std::sync::Arc<Rotation>| rotation.phase.is_terminal();
        world.until(|world| world.agent.views().list().first().is_some_and(over)).await;
        let list: RotationList = world.get("/v1/rotations").await;
        let phases: Vec<_> = list.items.iter().map(|rotation| rotation.phase).collect();
        assert!(matches!(phases[..], [Phase::Cancelled | Phase::RolledBack]), "{status}: {phases:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn what_the_engine_has_begun_of_a_batch_that_fails_is_rolled_back() {
    let world = World::start().await;
    world.sim.faults().delay("POST", RECORDS, Duration::from_millis(10), 1);
    // By then the first one is under way.
    world.sim.faults().delay("POST", RECORDS, Duration::from_secs(3), 1);
    world.sim.faults().fail("POST", RECORDS, 500, 1);
    let body = json!({ "nodes": ["a", "b", "c"], "options": { "maxConcurrent": 1 } });
    assert_eq!(problem(world.post("/v1/rotations", &body).await).await.code, Code::UpstreamFailed);
    world.until(|world| world.agent.views().list().iter().all(|rotation| rotation.phase.is_terminal())).await;
    assert_eq!(world.records().len(), 1, "the second was still untouched");
}

#[tokio::test(start_paused = true)]
async fn a_batch_is_begun_whole_although_the_caller_hangs_up() {
    let world = World::start().await;
    world.sim.faults().delay("POST", "/configmaps", Duration::from_secs(1), 3);
    let body = json!({ "nodes": ["a", "b", "c"] });
    let hung_up = tokio::time::timeout(Duration::from_millis(1500), world.post("/v1/rotations", &body)).await;
    assert!(hung_up.is_err());
    world.until(|world| world.records().len() == 3).await;
}

#[tokio::test(start_paused = true)]
async fn a_batch_costs_one_list_and_one_write_a_node() {
    let world = World::start().await;
    let before = world.sim.requests().len();
    world.rotate(&json!({ "nodes": ["a", "b", "c"] })).await;
    let requests = world.sim.requests();
    let of = |method: &str| {
        let records =
            requests[before..].iter().filter(|request| request.path.contains("/namespaces/kubectl-rotate/configmaps"));
        records.filter(|request| request.method == method && !request.query.contains("watch=")).count()
    };
    assert_eq!(of("GET"), 1);
    assert_eq!(of("POST"), 3);
}

#[tokio::test(start_paused = true)]
async fn an_agent_that_does_not_lead_answers_too() {
    let mut world = World::start().await;
    let other = world.start_agent();
    other.ready().await;
    assert!(other.leads(Duration::from_secs(5)).await.is_err());
    let leader = std::mem::replace(&mut world.agent, other);
    let begun = world.rotate(&json!({ "nodes": ["a"] })).await;
    assert_eq!(world.get::<Rotation>(&format!("/v1/rotations/{}", begun[0].id)).await.node, "a");
    let moving =
        |rotation: std::sync::Arc<Rotation>| rotation.phase == Phase::Draining && rotation.progress.evicted > 0;
    let counts = async { world.until(|_| world.agent.views().get(&begun[0].id).is_some_and(moving)).await };
    tokio::time::timeout(Duration::from_secs(300), counts).await.expect("it counts by itself how far the Pods are");
    let done = |rotation: std::sync::Arc<Rotation>| rotation.phase == Phase::Succeeded;
    world.until(|_| leader.views().get(&begun[0].id).is_some_and(done)).await;
}
