//! The agent dies at any moment, and another one ends what it began.

use std::time::Duration;

use anyhow::{Result, ensure};
use rotate_shared::{OptionsRequest, Phase};

use super::{Case, cases};
use crate::harness::nodes::FakeNode;
use crate::world::{World, is_cordoned};

pub(super) fn cases() -> Vec<Case> {
    cases![killed_in_each_phase_it_goes_on_after_a_restart, killed_while_rolling_back_it_leaves_nothing]
}

/// One rotation; the agent is dropped as soon as it shows a phase, and a new one started.
async fn killed_in_each_phase_it_goes_on_after_a_restart(world: &World) -> Result<()> {
    world.autoscaled().await?;
    world.node(FakeNode::new("n1").allocatable("cpu", "3")).await?;
    world.deployment("web", 3, "1").await?;
    let since = world.recorder.now();
    let mut agent = world.agent().await?;
    let id = world.rotate(&agent, "n1", OptionsRequest::default()).await?.id;
    let mut killed = Vec::new();
    for phase in [Phase::Surging, Phase::Draining, Phase::Settling, Phase::Removing] {
        if phase == Phase::Draining {
            world.node(FakeNode::new("n2").allocatable("cpu", "3")).await?;
        }
        let reached = |it: &rotate_shared::Rotation| it.phase >= phase || it.phase.is_terminal();
        let seen = world.until(&agent, &id, &format!("phase {phase}"), reached).await?;
        ensure!(!seen.phase.is_terminal() || seen.phase == Phase::Succeeded, "{seen:#?}");
        killed.push(seen.phase);
        drop(agent);
        agent = world.agent().await?;
    }
    let done = world.phase(&agent, &id, Phase::Succeeded).await?;

    ensure!(killed.contains(&Phase::Surging), "it was never killed while surging: {killed:?}");
    ensure!(done.progress.to_move == 3, "{:?}", done.progress);
    world.running("web", 3).await?;
    for life in world.moved_since(since) {
        ensure!(life.unscheduled().is_some_and(|waited| waited <= Duration::from_millis(500)), "{life:#?}");
    }
    ensure!(is_cordoned(&world.get_node("n1").await?), "kept, cordoned");
    world.nothing_left().await
}

async fn killed_while_rolling_back_it_leaves_nothing(world: &World) -> Result<()> {
    world.autoscaled().await?;
    world.node(FakeNode::new("n1").allocatable("cpu", "3")).await?;
    world.deployment("web", 3, "1").await?;
    let agent = world.agent().await?;
    let id = world.rotate(&agent, "n1", OptionsRequest::default()).await?.id;
    world.until(&agent, &id, "three Pods to move", |it| it.progress.to_move == 3).await?;
    world.cancel(&agent, &id).await?;
    drop(agent);

    let agent = world.agent().await?;
    world.phase(&agent, &id, Phase::RolledBack).await?;
    ensure!(!is_cordoned(&world.get_node("n1").await?), "still cordoned");
    world.nothing_left().await
}
