//! Answers that fail, come late or get lost; leaders that change.

use std::time::Duration;

use rotate_agent::rotation::store::Wish;
use rotate_shared::{CancelRequest, Code, Phase, Rotation, names};
use rotate_sim::{Fault, objects};
use serde_json::json;

use crate::check;
use crate::world::{World, options};

/// Long enough to be seen while it is on its way.
const SLOW: Duration = Duration::from_millis(400);

async fn world() -> World {
    let world = World::start();
    for node in ["a", "b", "c"] {
        world.node(node, "4");
    }
    world.deploy_on("a", "web", 3, "1").await;
    world
}

#[tokio::test(start_paused = true)]
async fn failing_and_lost_answers_change_nothing_but_the_time_it_takes() {
    let world = world().await;
    let faults = world.sim.faults();
    faults.fail("PATCH", "/nodes/a", 500, 2);
    faults.lose_answers("PATCH", "/nodes/a", 1);
    faults.fail("POST", names::ROOM_NAMESPACE, 503, 2);
    faults.lose_answers("POST", names::ROOM_NAMESPACE, 2);
    faults.lose_answers("PATCH", "/configmaps/rotation-", 2);
    faults.fail("POST", "/eviction", 500, 1);
    faults.lose_answers("POST", "/eviction", 1);
    faults.fail("DELETE", names::ROOM_NAMESPACE, 500, 2);
    let id = world.rotate("a", options()).await;
    let ended = world.until_phase(&id, Phase::Succeeded).await;
    assert_eq!((ended.progress.evicted, ended.progress.landed), (3, 3));
    check::every_eviction_was_covered(&world);
    check::nothing_is_left(&world, &["a"]);
}

#[tokio::test(start_paused = true)]
async fn a_record_that_cannot_be_written_is_tried_ever_more_slowly_and_said() {
    let world = world().await;
    world.sim.faults().fail("PATCH", "/configmaps/rotation-", 500, 1_000_000);
    let id = world.rotate("a", options()).await;
    world.pass(60_000).await;
    let writes = check::record_writes(&world, &id);
    assert!(writes < 15, "{writes} in a minute");
    let rotation = world.view(&id).unwrap();
    assert!(rotation.waiting.iter().any(|wait| wait.message.contains("failed to write the record")), "{rotation:#?}");
    world.sim.faults().clear();
    world.until_phase(&id, Phase::Succeeded).await;
}

#[tokio::test(start_paused = true)]
async fn throttling_is_waited_out_and_not_taken_for_a_budget() {
    let world = world().await;
    world.sim.faults().add(Fault {
        method: "POST".to_owned(),
        path: "/eviction".to_owned(),
        times: 3,
        effect: rotate_sim::Effect::Status { code: 429, retry_after: Some(7) },
    });
    let id = world.rotate("a", options()).await;
    let waiting = world.until(&id, |rotation| rotation.waiting.iter().any(|wait| wait.code == Code::Throttled)).await;
    assert!(waiting.waiting.iter().all(|wait| wait.code != Code::PodDisruptionBudget));
    world.until_phase(&id, Phase::Succeeded).await;
    assert_eq!(check::evictions(&world), (6, 3));
}

#[tokio::test(start_paused = true)]
async fn a_webhook_that_refuses_an_eviction_is_quoted_and_asked_again() {
    let world = world().await;
    world.sim.faults().deny("POST", "/eviction", "the operator is moving it", 4);
    let id = world.rotate("a", options()).await;
    let waiting = world.until(&id, |rotation| rotation.waiting.iter().any(|wait| wait.code == Code::EvictionRefused));
    let waiting = waiting.await;
    let wait = waiting.waiting.iter().find(|wait| wait.code == Code::EvictionRefused).unwrap();
    assert!(wait.message.contains("the operator is moving it"), "{}", wait.message);
    world.until_phase(&id, Phase::Succeeded).await;
}

/// A rotation of a node with one Pod whose eviction is never allowed: looked at often for 90 s, it waits for this alone,
/// since it was met first.
async fn held_up_all_along(world: &World, code: Code) {
    let id = world.rotate("a", options()).await;
    let is_held_up = |rotation: &Rotation| rotation.waiting.iter().any(|wait| wait.code == code);
    world.until(&id, is_held_up).await;
    let (first, before) = (world.now(), check::evictions(world).0);
    for _ in 0..9_000 {
        world.pass(10).await;
        let rotation = world.view(&id).unwrap();
        let [wait] = &rotation.waiting[..] else { panic!("{:#?}", rotation.waiting) };
        assert_eq!(wait.code, code);
        let late = wait.since.duration_since(first).as_secs_f64();
        assert!(late.abs() < 0.1, "since {late} s after it was met first, at {}", world.now());
    }
    assert!(check::evictions(world).0 > before, "it was asked for again meanwhile");
    world.sim.faults().clear();
}

async fn world_of_one_pod() -> World {
    let world = World::start();
    for node in ["a", "b"] {
        world.node(node, "4");
    }
    world.deploy_on("a", "web", 1, "1").await;
    world
}

#[tokio::test(start_paused = true)]
async fn a_refused_eviction_is_waited_for_since_it_was_refused_first() {
    let world = world_of_one_pod().await;
    world.sim.faults().deny_late("POST", "/eviction", "not while the shop is open", 1_000_000, SLOW);
    held_up_all_along(&world, Code::EvictionRefused).await;
}

#[tokio::test(start_paused = true)]
async fn a_closed_budget_is_waited_for_since_it_was_met_first() {
    let world = world_of_one_pod().await;
    world.sim.create(objects::disruption_budget("web", "shop", "web", "minAvailable", json!(1)));
    // Of two Pods one may go, once this one runs.
    world.sim.create(objects::pod("unplaced", "shop", &objects::template("web", "100", "64Mi")));
    world.pass(1_000).await;
    world.sim.faults().delay("POST", "/eviction", SLOW, 1_000_000);
    held_up_all_along(&world, Code::PodDisruptionBudget).await;
}

#[tokio::test(start_paused = true)]
async fn broken_watches_and_a_compacted_history_are_survived() {
    let world = world().await;
    let id = world.rotate("a", options()).await;
    for _ in 0..20 {
        world.sim.faults().drop_watches();
        world.sim.faults().compact();
        world.pass(300).await;
    }
    world.until_phase(&id, Phase::Succeeded).await;
    check::every_eviction_was_covered(&world);
    check::nothing_is_left(&world, &["a"]);
}

#[tokio::test(start_paused = true)]
async fn an_api_server_that_is_away_for_a_minute_is_waited_for() {
    let world = world().await;
    let id = world.rotate("a", options()).await;
    world.until(&id, |rotation| rotation.phase == Phase::Draining).await;
    world.sim.faults().refuse(true);
    world.pass(60_000).await;
    world.sim.faults().refuse(false);
    world.until_phase(&id, Phase::Succeeded).await;
    check::every_eviction_was_covered(&world);
    check::nothing_is_left(&world, &["a"]);
}

#[tokio::test(start_paused = true)]
async fn leftovers_of_a_rotation_that_nobody_knows_are_removed() {
    let mut world = world().await;
    world.kill_agent();
    let pod = objects::pod("room-left-behind", names::ROOM_NAMESPACE, &objects::template("room", "1", "64Mi"));
    let mut pod = pod;
    pod["metadata"]["labels"] = json!({ "kubectl-rotate.dev/rotation": "0123456789" });
    world.sim.create(pod);
    world.sim.edit("nodes", "", "a", |node| {
        node["spec"]["unschedulable"] = json!(true);
        node["metadata"]["annotations"] = json!({
            "kubectl-rotate.dev/rotation": "0123456789",
            "kubectl-rotate.dev/cordoned-by": "0123456789",
            "kubectl-rotate.dev/protected-by": "0123456789:karpenter.sh/do-not-disrupt",
            "karpenter.sh/do-not-disrupt": "true",
        });
    });
    // What a later version wrote may be live.
    let record = json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {
            "namespace": names::NAMESPACE, "name": "rotation-0123456789",
            "labels": { "kubectl-rotate.dev/rotation": "0123456789" },
        },
        "data": { "record": "{\"phases\":\"of a later version\"}" },
    });
    world.sim.create(record);
    world.start_agent();
    world.pass(30_000).await;
    assert_eq!(world.pods(names::ROOM_NAMESPACE).len(), 1);
    assert_eq!(world.sim.get("nodes", "", "a").unwrap()["spec"]["unschedulable"], true);

    world.sim.delete("configmaps", names::NAMESPACE, "rotation-0123456789");
    world.kill_agent();
    world.start_agent();
    world.pass(30_000).await;
    check::nothing_is_left(&world, &[]);
}

#[tokio::test(start_paused = true)]
async fn an_agent_killed_at_any_moment_ends_in_the_same_place() {
    for milliseconds in (0..2_600).step_by(200) {
        let mut world = world().await;
        world.sim.create(objects::disruption_budget("web", "shop", "web", "maxUnavailable", json!(1)));
        world.pass(1_000).await;
        let id = world.rotate("a", options()).await;
        world.pass(milliseconds).await;
        world.kill_agent();
        world.pass(3_000).await;
        world.start_agent();
        let ended = world.until_phase(&id, Phase::Succeeded).await;
        assert_eq!((ended.progress.evicted, ended.progress.landed), (3, 3), "killed after {milliseconds} ms");
        check::every_eviction_was_covered(&world);
        check::nothing_is_left(&world, &["a"]);
        assert_eq!(check::evictions(&world).1, 3);
    }
}

#[tokio::test(start_paused = true)]
async fn a_cancel_at_any_moment_ends_clean() {
    for milliseconds in (0..4_000).step_by(250) {
        let world = world().await;
        world.sim.create(objects::disruption_budget("web", "shop", "web", "maxUnavailable", json!(1)));
        world.pass(1_000).await;
        let id = world.rotate("a", options()).await;
        world.pass(milliseconds).await;
        if world.store.request(&id, Wish::Cancel(CancelRequest::default()), world.now()).await.is_err() {
            break;
        }
        let ended = world.until(&id, |rotation| rotation.phase.is_terminal()).await;
        let cordoned: &[&str] = match ended.phase {
            Phase::Stopped | Phase::Succeeded => &["a"],
            Phase::Cancelled | Phase::RolledBack => &[],
            _ => panic!("cancelled after {milliseconds} ms: {ended:#?}"),
        };
        check::every_eviction_was_covered(&world);
        check::nothing_is_left(&world, cordoned);
        assert_eq!(ended.moved.len(), check::evictions(&world).1, "what moved is listed");
        world.pass(10_000).await;
        assert_eq!(world.pods("shop").len(), 3);
    }
}
