//! Whole rotations of different workloads.

use std::time::Duration;

use rotate_shared::options::Then;
use rotate_shared::{Code, Options, Phase, names};
use rotate_sim::{NodeSpec, objects};
use serde_json::json;

use crate::check;
use crate::world::{World, name_of, options};

fn three_nodes() -> World {
    let world = World::start();
    for node in ["a", "b", "c"] {
        world.node(node, "4");
    }
    world
}

#[tokio::test(start_paused = true)]
async fn a_node_is_emptied_into_room_that_was_held() {
    let world = three_nodes();
    world.deploy_on("a", "web", 3, "1").await;

    let id = world.rotate("a", options()).await;
    let ended = world.until_phase(&id, Phase::Succeeded).await;

    assert_eq!((ended.progress.to_move, ended.progress.evicted, ended.progress.landed), (3, 3, 3));
    assert_eq!(ended.moved.len(), 3);
    assert!(ended.warnings.is_empty(), "{:?}", ended.warnings);
    assert!(!world.nodes_of("shop").contains(&"a".to_owned()));
    check::every_eviction_was_covered(&world);
    check::nothing_is_left(&world, &["a"]);
    assert_eq!(check::evictions(&world), (3, 3));
    assert!(check::record_writes(&world, &id) <= 10, "{}", check::record_writes(&world, &id));
}

#[tokio::test(start_paused = true)]
async fn an_empty_node_is_done_at_once() {
    let world = three_nodes();
    let id = world.rotate("a", options()).await;
    world.until_phase(&id, Phase::Succeeded).await;
    check::nothing_is_left(&world, &["a"]);
}

#[tokio::test(start_paused = true)]
async fn an_uncordoned_node_is_as_it_was() {
    let world = three_nodes();
    world.deploy_on("a", "web", 2, "1").await;
    let id = world.rotate("a", Options { then: Some(Then::Uncordon), ..options() }).await;
    world.until_phase(&id, Phase::Succeeded).await;
    check::nothing_is_left(&world, &[]);
}

#[tokio::test(start_paused = true)]
async fn a_node_that_is_to_be_rebooted_is_uncordoned_once_it_was_whoever_leads_by_then() {
    let mut world = three_nodes();
    world.sim.edit("nodes", "", "a", |node| node["status"]["nodeInfo"]["bootID"] = json!("first"));
    world.deploy_on("a", "web", 2, "1").await;
    let id = world.rotate("a", Options { then: Some(Then::Uncordon), reboot_timeout_seconds: 600, ..options() }).await;
    world.until(&id, |rotation| rotation.waiting.iter().any(|wait| wait.code == Code::WaitingForReboot)).await;
    world.kill_agent();
    world.sim.edit("nodes", "", "a", |node| node["status"]["nodeInfo"]["bootID"] = json!("second"));
    world.pass(40_000).await;
    world.start_agent();
    world.until_phase(&id, Phase::Succeeded).await;
    check::nothing_is_left(&world, &[]);
}

#[tokio::test(start_paused = true)]
async fn a_node_that_nobody_reboots_stays_cordoned_and_the_rotation_has_failed() {
    let world = three_nodes();
    world.deploy_on("a", "web", 2, "1").await;
    let id = world.rotate("a", Options { then: Some(Then::Uncordon), reboot_timeout_seconds: 600, ..options() }).await;
    let ended = world.until_phase(&id, Phase::Failed).await;
    assert_eq!(ended.outcome.as_ref().unwrap().code, Some(Code::WaitingForReboot));
    check::nothing_is_left(&world, &["a"]);
}

#[tokio::test(start_paused = true)]
async fn a_node_that_another_deletes_is_superseded_with_its_room_held_until_its_pods_run_elsewhere() {
    let world = three_nodes();
    world.deploy_on("a", "web", 2, "1").await;
    world.sim.edit("nodes", "", "a", |node| node["metadata"]["finalizers"] = json!(["cloud/instance"]));
    let id = world.rotate("a", options()).await;
    world.until(&id, |rotation| rotation.phase == Phase::Draining).await;
    let evicted = check::evictions(&world).1;
    world.sim.delete("nodes", "", "a");
    world.pass(30_000).await;
    assert!(check::evictions(&world).1 <= evicted + 1, "at most the one that was on its way");
    let view = world.view(&id).unwrap();
    assert!(!view.cancelling && !view.phase.is_terminal(), "room is held for the Pod that is there still: {view:#?}");
    for pod in world.pods("shop").iter().filter(|pod| pod["spec"]["nodeName"] == "a") {
        world.sim.delete("pods", "shop", pod["metadata"]["name"].as_str().unwrap());
    }
    let ended = world.until_phase(&id, Phase::Superseded).await;
    assert_eq!(ended.progress.landed, 2, "{ended:#?}");
    world.until_running("shop", 2).await;
    check::every_eviction_was_covered(&world);
    world.sim.edit("nodes", "", "a", |node| node["metadata"]["finalizers"] = json!([]));
    check::nothing_is_left(&world, &[]);
}

#[tokio::test(start_paused = true)]
async fn a_node_cordoned_by_a_person_stays_cordoned_whatever_happens() {
    for then in [Then::Uncordon, Then::Keep] {
        let world = three_nodes();
        world.deploy_on("a", "web", 2, "1").await;
        world.sim.edit("nodes", "", "a", |node| node["spec"]["unschedulable"] = json!(true));
        let id = world.rotate("a", Options { then: Some(then), ..options() }).await;
        world.until_phase(&id, Phase::Succeeded).await;
        check::nothing_is_left(&world, &["a"]);
    }
}

#[tokio::test(start_paused = true)]
async fn a_deleted_node_is_gone_and_its_machine_is_warned_of() {
    let world = three_nodes();
    world.deploy_on("a", "web", 2, "1").await;
    let id = world.rotate("a", Options { then: Some(Then::Delete), ..options() }).await;
    let ended = world.until_phase(&id, Phase::Succeeded).await;
    assert_eq!(world.sim.get("nodes", "", "a"), None);
    assert!(ended.warnings.iter().any(|warning| warning.code == Code::MachineRunsOn));
    check::every_eviction_was_covered(&world);
    check::nothing_is_left(&world, &[]);
}

#[tokio::test(start_paused = true)]
async fn room_on_a_node_that_joins_late_is_waited_for() {
    let world = World::autoscaled(Duration::from_secs(1));
    world.node("a", "4");
    world.deploy_on("a", "web", 3, "1").await;
    let id = world.rotate("a", options()).await;
    world.until(&id, |rotation| rotation.waiting.iter().any(|wait| wait.code == Code::Reserving)).await;
    let ended = world.until_phase(&id, Phase::Succeeded).await;
    assert_eq!(ended.progress.landed, 3);
    check::every_eviction_was_covered(&world);
    check::nothing_is_left(&world, &["a"]);
    let figures = rotate_sim::figures(&world.sim.log(), ended.created_at, &Default::default());
    assert_eq!((figures.moved, figures.lacked_room), (3, 0));
    assert!(figures.longest_unscheduled.as_millis() <= 500, "{figures:?}");
}

#[tokio::test(start_paused = true)]
async fn daemons_stay_and_finished_pods_are_no_hindrance() {
    let world = three_nodes();
    world.sim.create(objects::daemon_set("logs", "kube-system", objects::template("logs", "100m", "16Mi")));
    world.sim.create(objects::job("done", "shop", 1, 1, objects::template("done", "100m", "16Mi")));
    world.deploy_on("a", "web", 1, "1").await;
    world.pass(10_000).await;
    let id = world.rotate("a", Options { then: Some(Then::Delete), ..options() }).await;
    let ended = world.until_phase(&id, Phase::Succeeded).await;
    assert_eq!(ended.moved.len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_stateful_sets_pods_come_back_under_their_names() {
    let world = three_nodes();
    world.sim.edit("nodes", "", "b", |node| node["spec"]["unschedulable"] = json!(true));
    world.sim.edit("nodes", "", "c", |node| node["spec"]["unschedulable"] = json!(true));
    world.sim.create(objects::stateful_set("db", "shop", 2, objects::template("db", "1", "64Mi")));
    world.until_running("shop", 2).await;
    for node in ["b", "c"] {
        world.sim.edit("nodes", "", node, |node| node["spec"]["unschedulable"] = json!(false));
    }
    let id = world.rotate("a", options()).await;
    let ended = world.until_phase(&id, Phase::Succeeded).await;
    assert_eq!(ended.moved, ["shop/db-0", "shop/db-1"]);
    assert_eq!(ended.progress.landed, 2);
    check::every_eviction_was_covered(&world);
    check::nothing_is_left(&world, &["a"]);
}

#[tokio::test(start_paused = true)]
async fn big_and_small_pods_all_land_at_once() {
    let world = World::start();
    world.node("a", "8");
    for node in ["b", "c"] {
        world.node(node, "2");
    }
    world.deploy_on("a", "big", 1, "2").await;
    world.deploy_on("a", "small", 4, "500m").await;
    let id = world.rotate("a", options()).await;
    let ended = world.until_phase(&id, Phase::Succeeded).await;
    assert_eq!(ended.progress.landed, 5);
    let figures = rotate_sim::figures(&world.sim.log(), ended.created_at, &Default::default());
    assert_eq!((figures.moved, figures.lacked_room), (5, 0));
    assert!(figures.longest_unscheduled.as_millis() <= 500, "{figures:?}");
    check::nothing_is_left(&world, &["a"]);
}

#[tokio::test(start_paused = true)]
async fn a_workload_that_cannot_preempt_gets_its_room_released() {
    let world = World::start();
    for node in ["a", "b"] {
        world.node(node, "2");
    }
    world.sim.create(objects::priority_class("polite", 100, false));
    let mut template = objects::template("web", "1", "64Mi");
    template["spec"]["priorityClassName"] = json!("polite");
    world.deploy_template_on("a", "web", 2, template).await;
    let id = world.rotate("a", options()).await;
    let ended = world.until_phase(&id, Phase::Succeeded).await;
    assert!(ended.warnings.iter().any(|warning| warning.code == Code::CannotPreempt));
    assert_eq!(world.nodes_of("shop"), ["b", "b"]);
    check::nothing_is_left(&world, &["a"]);
}

#[tokio::test(start_paused = true)]
async fn without_a_surge_no_placeholder_is_ever_created() {
    let world = three_nodes();
    world.deploy_on("a", "web", 3, "1").await;
    let surge = rotate_shared::SurgeMode::None;
    let id = world.rotate("a", Options { surge, ..options() }).await;
    let ended = world.until_phase(&id, Phase::Succeeded).await;
    assert_eq!(ended.progress.evicted, 3);
    let room = format!("/namespaces/{}/", names::ROOM_NAMESPACE);
    assert!(!world.sim.requests().iter().any(|request| request.method == "POST" && request.path.contains(&room)));
}

#[tokio::test(start_paused = true)]
async fn a_deployment_scaled_down_meanwhile_is_not_waited_for() {
    let world = three_nodes();
    world.deploy_on("a", "web", 3, "1").await;
    world.sim.create(objects::disruption_budget("web", "shop", "web", "maxUnavailable", json!(1)));
    world.pass(1_000).await;
    let id = world.rotate("a", options()).await;
    world.until(&id, |rotation| rotation.progress.evicted == 1).await;
    world.sim.edit("deployments", "shop", "web", |web| web["spec"]["replicas"] = json!(1));
    let ended = world.until_phase(&id, Phase::Succeeded).await;
    assert!(ended.warnings.iter().all(|warning| warning.code != Code::SettleTimedOut), "{:?}", ended.warnings);
    assert_eq!(world.pods("shop").len(), 1);
    check::nothing_is_left(&world, &["a"]);
}

/// The workload's replicas refuse to share a node or a zone; the node that takes one's place is in its zone.
async fn anti_affine(key: &str) {
    let world = World::start();
    for (node, zone) in [("a", "z1"), ("b", "z2"), ("c", "z1"), ("d", "z2")] {
        world.sim.add_node(NodeSpec::new(node).zone(zone).cpu("4").memory("16Gi"));
    }
    let mut template = objects::template("web", "1", "64Mi");
    template["spec"]["affinity"]["podAntiAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"] =
        json!([{ "topologyKey": key, "labelSelector": { "matchLabels": { "app": "web" } } }]);
    for node in ["c", "d"] {
        world.sim.edit("nodes", "", node, |node| node["spec"]["unschedulable"] = json!(true));
    }
    world.sim.create(objects::deployment("web", "shop", 2, template));
    world.until_running("shop", 2).await;
    for node in ["c", "d"] {
        world.sim.edit("nodes", "", node, |node| node["spec"]["unschedulable"] = json!(false));
    }
    let id = world.rotate("a", options()).await;
    let ended = world.until_phase(&id, Phase::Succeeded).await;
    assert_eq!(ended.progress.landed, 1);
    check::every_eviction_was_covered(&world);
    check::nothing_is_left(&world, &["a"]);
}

#[tokio::test(start_paused = true)]
async fn a_pod_that_refuses_its_siblings_zone_finds_room_in_its_own() {
    anti_affine("topology.kubernetes.io/zone").await;
}

#[tokio::test(start_paused = true)]
async fn a_pod_that_refuses_its_siblings_node_finds_room_on_a_free_one() {
    anti_affine("kubernetes.io/hostname").await;
}

#[tokio::test(start_paused = true)]
async fn a_host_port_is_held_with_the_room() {
    let world = three_nodes();
    let mut template = objects::template("web", "1", "64Mi");
    template["spec"]["containers"][0]["ports"] = json!([{ "containerPort": 80, "hostPort": 80, "protocol": "TCP" }]);
    world.deploy_template_on("a", "web", 1, template).await;
    let id = world.rotate("a", options()).await;
    world.until_phase(&id, Phase::Succeeded).await;
    check::every_eviction_was_covered(&world);
    check::nothing_is_left(&world, &["a"]);
}

#[tokio::test(start_paused = true)]
async fn only_selected_pods_leave_and_the_node_stays_with_the_others() {
    let world = three_nodes();
    world.deploy_on("a", "web", 2, "1").await;
    world.deploy_on("a", "cart", 1, "1").await;
    let mut bare = objects::pod("bare", "shop", &objects::template("bare", "100m", "64Mi"));
    bare["spec"]["nodeName"] = json!("a");
    world.sim.create(bare);
    world.until_running("shop", 4).await;
    let id = world.rotate("a", Options { pod_selector: Some("app=web".to_owned()), ..options() }).await;
    let ended = world.until_phase(&id, Phase::Succeeded).await;
    assert_eq!((ended.progress.to_move, ended.progress.landed), (2, 2));
    let message = &ended.outcome.as_ref().unwrap().message;
    assert!(message.starts_with("drained of the Pods that match \"app=web\"; the others stay"), "{message}");
    let on_a = world.nodes_of("shop").into_iter().filter(|node| node == "a").count();
    assert_eq!(on_a, 2, "the bare Pod and the one of cart");
    check::every_eviction_was_covered(&world);
    check::nothing_is_left(&world, &["a"]);
}

#[tokio::test(start_paused = true)]
async fn a_pod_that_does_not_end_is_given_up_where_that_was_asked_and_waited_for_otherwise() {
    for skip_wait_for_delete_timeout_seconds in [0, 30] {
        let world = three_nodes();
        world.deploy_on("a", "web", 1, "1").await;
        let pod = name_of(&world.pods("shop")[0]);
        world.sim.edit("pods", "shop", &pod, |pod| pod["metadata"]["finalizers"] = json!(["example.com/hold"]));
        let id = world.rotate("a", Options { skip_wait_for_delete_timeout_seconds, ..options() }).await;
        world.until(&id, |rotation| rotation.progress.landed == 1).await;
        world.pass(180_000).await;
        let phase = world.view(&id).unwrap().phase;
        match skip_wait_for_delete_timeout_seconds {
            0 => assert_eq!(phase, Phase::Draining),
            _ => assert_eq!(phase, Phase::Succeeded),
        }
    }
}
