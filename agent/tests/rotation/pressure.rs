//! Others who want the same room, at the worst moments.

use rotate_agent::rotation::store::Wish;
use rotate_shared::options::Then;
use rotate_shared::rotation::Waiting;
use rotate_shared::{CancelRequest, Code, Options, Phase, names};
use rotate_sim::{Event, Settings, objects};
use serde_json::json;
use std::time::Duration;

use crate::check;
use crate::world::{NEVER, World, name_of, options};

/// Three Pods on `a` under a budget that lets one go at a time; room for exactly three on `b`.
async fn one_at_a_time() -> World {
    let world = World::start();
    world.node("a", "4");
    world.node("b", "3");
    world.deploy_on("a", "web", 3, "1").await;
    world.sim.create(objects::disruption_budget("web", "shop", "web", "maxUnavailable", json!(1)));
    world.pass(1_000).await;
    world
}

#[tokio::test(start_paused = true)]
async fn a_budget_is_watched_and_not_polled() {
    let world = one_at_a_time().await;
    let id = world.rotate("a", options()).await;
    let closed = |wait: &Waiting| wait.message == "needs 2 healthy, has 2 (allows 0)";
    let waiting = world.until(&id, |rotation| rotation.waiting.iter().any(closed)).await;
    let wait = waiting.waiting.iter().find(|wait| closed(wait)).unwrap();
    assert_eq!((wait.code, &*wait.object), (Code::PodDisruptionBudget, "PodDisruptionBudget shop/web"));
    world.until_phase(&id, Phase::Succeeded).await;
    let (asked, accepted) = check::evictions(&world);
    assert_eq!((asked, accepted), (3, 3), "each Pod is asked for once");
    check::every_eviction_was_covered(&world);
    check::nothing_is_left(&world, &["a"]);
}

#[tokio::test(start_paused = true)]
async fn a_budget_that_opens_lets_the_drain_go_on() {
    let world = one_at_a_time().await;
    let id = world.rotate("a", options()).await;
    world.until(&id, |rotation| rotation.progress.to_move == 3).await;
    world.sim.edit("poddisruptionbudgets", "shop", "web", |budget| budget["spec"]["maxUnavailable"] = json!(0));
    world.until_phase(&id, Phase::Draining).await;
    world.pass(30_000).await;
    assert_eq!(world.view(&id).unwrap().progress.evicted, 0);
    world.sim.edit("poddisruptionbudgets", "shop", "web", |budget| budget["spec"]["maxUnavailable"] = json!(3));
    let ended = world.until_phase(&id, Phase::Succeeded).await;
    assert_eq!(ended.progress.landed, 3);
    check::every_eviction_was_covered(&world);
}

#[tokio::test(start_paused = true)]
async fn foreign_pods_that_take_room_between_two_evictions_stop_the_drain_until_there_is_new_room() {
    let world = one_at_a_time().await;
    let id = world.rotate("a", options()).await;
    world.until(&id, |rotation| rotation.progress.landed == 1).await;
    world.sim.create(objects::deployment("foreign", "default", 2, objects::template("foreign", "1", "64Mi")));
    world.until(&id, |rotation| rotation.waiting.iter().any(|wait| wait.code == Code::ReReserving)).await;
    world.pass(20_000).await;
    let waiting = world.view(&id).unwrap();
    assert_eq!(waiting.phase, Phase::Draining);
    world.node("c", "4");
    let ended = world.until_phase(&id, Phase::Succeeded).await;
    assert_eq!(ended.progress.landed, 3);
    check::every_eviction_was_covered(&world);
    check::nothing_is_left(&world, &["a"]);
}

#[tokio::test(start_paused = true)]
async fn a_placeholder_preempted_before_the_drain_is_reserved_anew() {
    let world = World::autoscaled(NEVER);
    world.node("a", "4");
    world.node("b", "2");
    world.deploy_on("a", "web", 3, "1").await;
    let id = world.rotate("a", options()).await;
    // Two of three are held; a foreign Pod takes one of them.
    world.until(&id, |rotation| rotation.waiting.iter().any(|wait| wait.message.starts_with("2 of 3"))).await;
    world.sim.create(objects::deployment("foreign", "default", 1, objects::template("foreign", "1", "64Mi")));
    world.until(&id, |rotation| rotation.waiting.iter().any(|wait| wait.message.starts_with("1 of 3"))).await;
    assert_eq!(check::evictions(&world), (0, 0));
    world.node("c", "4");
    world.until_phase(&id, Phase::Succeeded).await;
    check::every_eviction_was_covered(&world);
    check::nothing_is_left(&world, &["a"]);
}

#[tokio::test(start_paused = true)]
async fn a_pod_bound_just_after_the_cordon_is_moved_too() {
    let settings = Settings { bind_delay: Duration::from_millis(300), ..Settings::default() };
    let world = World::with(settings);
    world.node("a", "8");
    world.deploy_on("a", "web", 2, "1").await;
    // The scheduler decides for `a`, the only node, and binds after the cordon.
    world.sim.create(objects::deployment("late", "shop", 2, objects::template("late", "1", "64Mi")));
    world.pass(20).await;
    let id = world.rotate("a", options()).await;
    world.node("b", "8");
    let ended = world.until_phase(&id, Phase::Succeeded).await;
    let log = world.sim.log();
    let cordoned = log.iter().position(|entry| matches!(&entry.event, Event::NodeCordoned { node } if node == "a"));
    let late = log.iter().rposition(|entry| matches!(&entry.event, Event::PodBound { node, .. } if node == "a"));
    assert!(late > cordoned, "the test is about a Pod bound after the cordon");
    assert!(ended.moved.iter().filter(|pod| pod.starts_with("shop/late")).count() > 0, "{:?}", ended.moved);
    assert!(!world.nodes_of("shop").contains(&"a".to_owned()));
    check::every_eviction_was_covered(&world);
}

#[tokio::test(start_paused = true)]
async fn a_pod_deleted_by_others_during_the_surge_is_replaced_elsewhere_and_nothing_breaks() {
    let world = one_at_a_time().await;
    let id = world.rotate("a", options()).await;
    world.until(&id, |rotation| rotation.phase == Phase::Draining).await;
    let pod = name_of(&world.pods("shop")[2]);
    world.sim.delete("pods", "shop", &pod);
    let ended = world.until_phase(&id, Phase::Succeeded).await;
    assert_eq!(ended.progress.landed, 3);
    check::nothing_is_left(&world, &["a"]);
}

#[tokio::test(start_paused = true)]
async fn a_pod_that_tolerates_the_cordon_comes_back_twice_and_is_then_named() {
    let world = World::start();
    world.node("a", "4");
    world.node("b", "4");
    let mut template = objects::template("web", "1", "64Mi");
    template["spec"]["tolerations"] =
        json!([{ "key": "node.kubernetes.io/unschedulable", "operator": "Exists", "effect": "NoSchedule" }]);
    // It prefers nowhere, and `b` is fuller than `a` once its placeholder is there.
    world.deploy_template_on("a", "web", 1, template).await;
    let id = world.rotate("a", options()).await;
    let ended = world
        .until(&id, |rotation| {
            rotation.phase.is_terminal() || rotation.waiting.iter().any(|wait| wait.code == Code::ReturnsToNode)
        })
        .await;
    if ended.phase.is_terminal() {
        assert_eq!(ended.phase, Phase::Succeeded);
    } else {
        assert!(check::evictions(&world).1 <= 3);
        world.ask(&id, Wish::Cancel(CancelRequest { uncordon: true })).await;
        world.until_phase(&id, Phase::Stopped).await;
        check::nothing_is_left(&world, &[]);
    }
}

#[tokio::test(start_paused = true)]
async fn a_cancel_while_draining_keeps_the_cordon_and_lists_what_moved() {
    for uncordon in [false, true] {
        let world = one_at_a_time().await;
        let id = world.rotate("a", options()).await;
        world.until(&id, |rotation| rotation.progress.evicted == 1).await;
        world.ask(&id, Wish::Cancel(CancelRequest { uncordon })).await;
        let ended = world.until_phase(&id, Phase::Stopped).await;
        assert_eq!(ended.moved.len(), 1);
        assert_eq!(check::evictions(&world).1, 1);
        world.pass(5_000).await;
        assert_eq!(world.nodes_of("shop"), ["a", "a", "b"]);
        check::nothing_is_left(&world, if uncordon { &[] } else { &["a"] });
    }
}

#[tokio::test(start_paused = true)]
async fn a_pause_holds_the_drain_and_a_resume_lets_it_go_on() {
    let world = one_at_a_time().await;
    let id = world.rotate("a", options()).await;
    world.until(&id, |rotation| rotation.progress.evicted == 1).await;
    world.ask(&id, Wish::Pause).await;
    world.pass(600_000).await;
    let paused = world.view(&id).unwrap();
    assert!(paused.paused && paused.progress.evicted == 1, "{paused:?}");
    world.ask(&id, Wish::Resume).await;
    world.until_phase(&id, Phase::Succeeded).await;
    check::every_eviction_was_covered(&world);
}

#[tokio::test(start_paused = true)]
async fn a_node_taken_by_other_hands_is_superseded() {
    let world = one_at_a_time().await;
    let id = world.rotate("a", options()).await;
    world.until(&id, |rotation| rotation.progress.landed == 1).await;
    world.sim.delete("nodes", "", "a");
    let ended = world.until_phase(&id, Phase::Superseded).await;
    assert_eq!(ended.outcome.clone().unwrap().code, Some(Code::NodeLeaving));
    world.pass(10_000).await;
    assert_eq!(world.nodes_of("shop"), ["b", "b", "b"], "its Pods found the room that was held for them");
    check::nothing_is_left(&world, &[]);
}

#[tokio::test(start_paused = true)]
async fn a_bare_pod_is_refused_and_nothing_is_touched() {
    let world = World::start();
    world.node("a", "4");
    world.sim.create(objects::pod("bare", "shop", &objects::template("bare", "1", "64Mi")));
    world.until_running("shop", 1).await;
    let id = world.rotate("a", options()).await;
    let ended = world.until_phase(&id, Phase::RolledBack).await;
    assert_eq!(ended.outcome.clone().unwrap().code, Some(Code::BarePod));
    assert_eq!(check::evictions(&world), (0, 0));
    check::nothing_is_left(&world, &[]);
    let forced = world.rotate("a", Options { force: true, then: Some(Then::Keep), ..options() }).await;
    world.until_phase(&forced, Phase::Succeeded).await;
    assert_eq!(world.pods("shop").len(), 0);
}

#[tokio::test(start_paused = true)]
async fn two_rotations_at_once_both_hold_their_room() {
    let world = World::start();
    for node in ["a", "b", "c", "d"] {
        world.node(node, "4");
    }
    world.deploy_on("a", "web", 2, "1").await;
    world.deploy_on("b", "api", 2, "1").await;
    let (one, other) = (world.rotate("a", options()).await, world.rotate("b", options()).await);
    world.until_phase(&one, Phase::Succeeded).await;
    world.until_phase(&other, Phase::Succeeded).await;
    let nodes = world.nodes_of("shop");
    assert!(!nodes.contains(&"a".to_owned()) && !nodes.contains(&"b".to_owned()), "{nodes:?}");
    check::nothing_is_left(&world, &["a", "b"]);
}

#[tokio::test(start_paused = true)]
async fn a_second_rotation_of_the_same_node_is_refused_while_the_first_lives() {
    use rotate_agent::rotation::record::NewRotation;
    use rotate_agent::rotation::store::StoreError;
    let world = one_at_a_time().await;
    let id = world.rotate("a", options()).await;
    let record = world.store.get(&id).await.unwrap().record;
    let again = NewRotation {
        node: record.node,
        node_uid: record.node_uid,
        batch: None,
        batch_size: 1,
        provider: record.provider,
        options: record.options,
        requested_by: Default::default(),
        idempotency_key: None,
        created_at: record.created_at,
    };
    match world.store.create(again.clone()).await {
        Err(StoreError::AlreadyRotating(live)) => assert_eq!(live, id),
        other => panic!("{other:?}"),
    }
    world.until_phase(&id, Phase::Succeeded).await;
    let next = world.store.create(again).await.unwrap().record;
    assert_ne!(next.id, id);
    assert_eq!(next.attempt, 1);
}

#[tokio::test(start_paused = true)]
async fn a_refused_placeholder_is_named_and_rolled_back() {
    let world = one_at_a_time().await;
    let room = format!("/namespaces/{}/pods", names::ROOM_NAMESPACE);
    world.sim.faults().deny("POST", &room, "exceeded quota: room", usize::MAX);
    let id = world.rotate("a", options()).await;
    let waiting =
        world.until(&id, |rotation| rotation.waiting.iter().any(|wait| wait.code == Code::PlaceholderRefused));
    let waiting = waiting.await;
    assert!(waiting.waiting.iter().any(|wait| wait.message.contains("exceeded quota: room")), "{:?}", waiting.waiting);
    let ended = world.until_phase(&id, Phase::RolledBack).await;
    assert_eq!(ended.outcome.clone().unwrap().code, Some(Code::PlaceholderRefused));
    check::nothing_is_left(&world, &[]);
}
