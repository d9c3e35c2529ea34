//! Room: where it comes from, who takes it away, and that it is there at each eviction.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use k8s_openapi::api::core::v1::{Affinity, PodAffinityTerm, PodAntiAffinity};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use rotate_shared::{OptionsRequest, Phase};

use super::{Case, cases};
use crate::harness::autoscaler::{Autoscaler, GROUP_LABEL, Group};
use crate::harness::nodes::FakeNode;
use crate::harness::workloads::{self, Workload};
use crate::world::{SHOP, SOON, World, is_cordoned};

pub(super) fn cases() -> Vec<Case> {
    cases![
        spare_room_is_used,
        a_node_that_joins_late_serves_within_half_a_second,
        a_placeholder_lost_before_the_drain_is_replaced_first,
        foreign_pods_that_take_room_stop_the_evictions,
        foreign_pods_that_preempt_at_the_same_time_are_not_left_behind,
        one_big_and_four_small_pods_all_land,
        zone_anti_affinity_to_itself_stays_in_its_zone,
        cancelled_while_surging_leaves_the_cluster_as_found,
    ]
}

async fn spare_room_is_used(world: &World) -> Result<()> {
    world.nodes(3, "4").await?;
    world.deployment("web", 6, "1").await?;
    let moving = world.workload_on("n1").await?.len();
    ensure!(moving > 0, "the scheduler left n1 empty");
    let agent = world.agent().await?;
    let since = world.recorder.now();

    let rotation = world.rotate(&agent, "n1", OptionsRequest::default()).await?;
    let done = world.phase(&agent, &rotation.id, Phase::Succeeded).await?;

    ensure!(done.progress.evicted as usize == moving && done.progress.landed as usize == moving, "{:?}", done.progress);
    ensure!(world.workload_on("n1").await?.is_empty());
    ensure!(is_cordoned(&world.get_node("n1").await?), "an unmanaged node is kept, cordoned");
    world.running("web", 6).await?;
    world.room_was_there(since, moving)?;
    world.nothing_left().await
}

/// The figure that the product is for: `kubectl drain` leaves these Pods without a node for the 20 s that the node boots.
async fn a_node_that_joins_late_serves_within_half_a_second(world: &World) -> Result<()> {
    for name in ["n1", "n2", "n3"] {
        world.node(FakeNode::new(name).allocatable("cpu", "3").label(GROUP_LABEL, "web")).await?;
    }
    world.deployment("web", 9, "1").await?;
    let template = FakeNode::new("late").allocatable("cpu", "3");
    let growing = Autoscaler::new(world.client.clone(), "late", template, Duration::from_secs(20))
        .group(Group::new("web", 0, 5), world.backend.clock())
        .start()
        .await?;
    let agent = world.agent().await?;
    let since = world.recorder.now();

    let rotation = world.rotate(&agent, "n1", OptionsRequest::default()).await?;
    world.phase(&agent, &rotation.id, Phase::Draining).await?;
    ensure!(world.recorder.now() - since >= Duration::from_secs(18), "the drain began before a node could have booted");
    world.phase(&agent, &rotation.id, Phase::Succeeded).await?;

    ensure!(!growing.failed(), "the test's autoscaler ended");
    world.running("web", 9).await?;
    world.room_was_there(since, 3)?;
    world.nothing_left().await
}

async fn a_placeholder_lost_before_the_drain_is_replaced_first(world: &World) -> Result<()> {
    world.autoscaled().await?;
    // n2 has room for one of the two Pods of n1; the other one's room has to come.
    world.node(FakeNode::new("n1").allocatable("cpu", "2")).await?;
    world.deployment("web", 2, "1").await?;
    world.node(FakeNode::new("n2").allocatable("cpu", "1")).await?;
    let agent = world.agent().await?;
    let since = world.recorder.now();
    let rotation = world.rotate(&agent, "n1", OptionsRequest::default()).await?;
    world.until(&agent, &rotation.id, "the first placeholder to run", |it| it.progress.reserved == 1).await?;

    // A foreign Pod takes the room that was held.
    world.deployment("foreign", 1, "1").await?;
    let still = world.until(&agent, &rotation.id, "the loss to be noticed", |it| it.progress.reserved == 0).await?;
    ensure!(still.phase == Phase::Surging && still.progress.evicted == 0, "{still:#?}");

    world.node(FakeNode::new("n3").allocatable("cpu", "2")).await?;
    world.phase(&agent, &rotation.id, Phase::Succeeded).await?;
    world.running("web", 2).await?;
    let lives = world.moved_since(since).into_iter().filter(|life| life.name.starts_with("web-")).collect::<Vec<_>>();
    ensure!(lives.len() == 2, "{lives:#?}");
    for life in lives {
        ensure!(life.unscheduled().is_some_and(|waited| waited <= Duration::from_millis(500)), "{life:#?}");
    }
    world.nothing_left().await
}

async fn foreign_pods_that_take_room_stop_the_evictions(world: &World) -> Result<()> {
    world.autoscaled().await?;
    // A budget of one makes the evictions come one by one, so that room can be taken between two of them.
    world.node(FakeNode::new("n1").allocatable("cpu", "3")).await?;
    world.deployment("web", 3, "1").await?;
    workloads::disruption_budget(
        &world.client,
        SHOP,
        "web",
        None,
        Some(k8s_openapi::apimachinery::pkg::util::intstr::IntOrString::Int(1)),
    )
    .await?;
    world.node(FakeNode::new("n2").allocatable("cpu", "3")).await?;
    let agent = world.agent().await?;
    let since = world.recorder.now();
    let rotation = world.rotate(&agent, "n1", OptionsRequest::default()).await?;
    world.until(&agent, &rotation.id, "the first eviction", |it| it.progress.evicted >= 1).await?;
    world.deployment("foreign", 2, "1").await?;

    // Whatever is left on n1 now has to wait until there is room again; so has a Pod that was evicted just before its room
    // was taken.
    world.node(FakeNode::new("n3").allocatable("cpu", "3")).await?;
    world.phase(&agent, &rotation.id, Phase::Succeeded).await?;
    world.running("web", 3).await?;
    ensure!(world.workload_on("n1").await?.is_empty());
    for life in world.moved_since(since).iter().filter(|life| life.name.starts_with("web-")) {
        // Beside a foreign Pod that preempts on the same node, the scheduler may have to be woken.
        ensure!(life.unscheduled().is_some_and(|waited| waited <= Duration::from_secs(5)), "{life:#?}");
    }
    world.nothing_left().await
}

/// The scheduler forgets the second of them in about every other run, for five minutes: it has to be woken.
async fn foreign_pods_that_preempt_at_the_same_time_are_not_left_behind(world: &World) -> Result<()> {
    world.autoscaled().await?;
    world.node(FakeNode::new("n1").allocatable("cpu", "3")).await?;
    world.deployment("web", 3, "1").await?;
    world.node(FakeNode::new("n2").allocatable("cpu", "2")).await?;
    let agent = world.agent().await?;
    let rotation = world.rotate(&agent, "n1", OptionsRequest::default()).await?;
    world.until(&agent, &rotation.id, "two placeholders to run", |it| it.progress.reserved == 2).await?;

    world.deployment("foreign", 2, "1").await?;

    world.node(FakeNode::new("n3").allocatable("cpu", "3")).await?;
    world.phase(&agent, &rotation.id, Phase::Succeeded).await?;
    world.running("web", 3).await?;
    world.nothing_left().await
}

async fn one_big_and_four_small_pods_all_land(world: &World) -> Result<()> {
    world.node(FakeNode::new("n1").allocatable("cpu", "4")).await?;
    world.deployment("big", 1, "2").await?;
    world.deployment("small", 4, "500m").await?;
    // Room in two pieces, such that small Pods on the big piece would leave the big one without any.
    world.node(FakeNode::new("n2").allocatable("cpu", "2")).await?;
    world.node(FakeNode::new("n3").allocatable("cpu", "2")).await?;
    let agent = world.agent().await?;
    let since = world.recorder.now();

    let rotation = world.rotate(&agent, "n1", OptionsRequest::default()).await?;
    world.phase(&agent, &rotation.id, Phase::Succeeded).await?;

    world.running("big", 1).await?;
    world.running("small", 4).await?;
    world.room_was_there(since, 5)?;
    world.nothing_left().await
}

async fn zone_anti_affinity_to_itself_stays_in_its_zone(world: &World) -> Result<()> {
    world.node(FakeNode::new("n1").zone("a").allocatable("cpu", "2")).await?;
    world.node(FakeNode::new("n2").zone("b").allocatable("cpu", "2")).await?;
    let one_a_zone = PodAffinityTerm {
        topology_key: "topology.kubernetes.io/zone".to_owned(),
        label_selector: Some(LabelSelector {
            match_labels: Some([("app".to_owned(), "web".to_owned())].into()),
            ..LabelSelector::default()
        }),
        ..PodAffinityTerm::default()
    };
    let workload = Workload::new(SHOP, "web", 2).request("cpu", "1").spec(|spec| {
        spec.affinity = Some(Affinity {
            pod_anti_affinity: Some(PodAntiAffinity {
                required_during_scheduling_ignored_during_execution: Some(vec![one_a_zone]),
                ..PodAntiAffinity::default()
            }),
            ..Affinity::default()
        });
    });
    workload.deployment(&world.client).await?;
    world.running("web", 2).await?;
    // Another node of zone b has room, but a Pod from zone a can't go there; only n3 is right.
    world.node(FakeNode::new("n4").zone("b").allocatable("cpu", "4")).await?;
    world.node(FakeNode::new("n3").zone("a").allocatable("cpu", "2")).await?;
    let agent = world.agent().await?;
    let since = world.recorder.now();

    let rotation = world.rotate(&agent, "n1", OptionsRequest::default()).await?;
    world.phase(&agent, &rotation.id, Phase::Succeeded).await?;

    let nodes: Vec<_> = world.running("web", 2).await?.iter().map(workloads::node_of).collect();
    ensure!(nodes.contains(&"n3".to_owned()) && nodes.contains(&"n2".to_owned()), "{nodes:?}");
    // The original repels its successor until it has ended: nobody can shorten that.
    let lives = world.recorder.lives();
    let original = lives.iter().filter(|life| life.namespace == SHOP).find_map(|life| life.gone);
    let successor = world.moved_since(since).into_iter().next().context("a successor")?;
    let (bound, _) = successor.bound.context("it is bound")?;
    let waited = bound.saturating_sub(original.context("the original has ended")?);
    ensure!(waited <= Duration::from_millis(500), "{} waited {waited:?} after the original", successor.name);
    world.nothing_left().await
}

async fn cancelled_while_surging_leaves_the_cluster_as_found(world: &World) -> Result<()> {
    world.autoscaled().await?;
    world.nodes(2, "2").await?;
    world.deployment("web", 4, "1").await?;
    let before = world.get_node("n1").await?;
    let agent = world.agent().await?;
    let since = world.recorder.now();
    let rotation = world.rotate(&agent, "n1", OptionsRequest::default()).await?;
    world.phase(&agent, &rotation.id, Phase::Surging).await?;
    crate::harness::wait::eventually("a placeholder that waits", SOON, async || {
        Ok((!world.placeholders().await?.is_empty()).then_some(()))
    })
    .await?;
    ensure!(is_cordoned(&world.get_node("n1").await?));

    world.cancel(&agent, &rotation.id).await?;
    let done = world.phase(&agent, &rotation.id, Phase::RolledBack).await?;

    ensure!(done.progress.evicted == 0, "{:?}", done.progress);
    world.nothing_left().await?;
    let after = world.get_node("n1").await?;
    ensure!(after.spec.as_ref().map(|spec| spec.unschedulable.unwrap_or(false)) == Some(false), "still cordoned");
    ensure!(after.metadata.annotations == before.metadata.annotations, "annotations differ");
    ensure!(after.metadata.labels == before.metadata.labels, "labels differ");
    ensure!(world.moved_since(since).is_empty(), "a Pod was moved");
    Ok(())
}
