//! Whole rotations, and what may happen to Karpenter on the way.

use std::collections::BTreeSet;
use std::slice;

use anyhow::{Context, Result, ensure};
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use kube::ResourceExt;
use kube::api::DynamicObject;
use rotate_agent::Agent;
use rotate_shared::{Code, OptionsRequest, Phase, Rotation, names};

use super::{BOOT, GENERAL, general, gone, nodes_of, one_full_node, rotate, rotated, settled};
use crate::cases::{Case, cases};
use crate::harness::wait::eventually;
use crate::harness::workloads::{self, Workload};
use crate::karpenter;
use crate::world::{SHOP, SOON, World, is_cordoned};

pub(super) fn cases() -> Vec<Case> {
    cases![
        "karpenter":
        a_full_node_of_karpenters_is_rotated,
        karpenter_may_be_killed_while_its_node_boots_and_while_the_old_one_goes,
        a_node_that_does_not_boot_in_time_is_rolled_back,
        nodes_that_cannot_be_launched_are_rolled_back,
        a_node_that_others_scaled_up_meanwhile_is_not_taken_back,
        a_surge_node_that_nobody_used_is_given_back_when_the_rotation_is_cancelled,
    ]
}

async fn a_full_node_of_karpenters_is_rotated(world: &World) -> Result<()> {
    let (_karpenter, agent, candidate) = one_full_node(world, general()).await?;
    let begun = rotate(world, &agent, &candidate).await?;
    rotated(world, &agent, &begun.id, GENERAL, 4).await?;
    world.running("web", 4).await.map(drop)
}

async fn karpenter_may_be_killed_while_its_node_boots_and_while_the_old_one_goes(world: &World) -> Result<()> {
    let (mut karpenter, agent, candidate) = one_full_node(world, general()).await?;
    let begun = rotate(world, &agent, &candidate).await?;
    // Launched, and told so: a cloud knows its own machine again, but Karpenter's kwok provider would make a second one.
    eventually("a second NodeClaim with a machine", SOON, async || {
        let claims = karpenter::claims_of(&world.client, GENERAL).await?;
        let launched = |claim: &&DynamicObject| claim.data["status"]["providerID"].is_string();
        let known = nodes_of(world, GENERAL).await?.len();
        Ok((claims.iter().filter(launched).count() == 2 && known == 2).then_some(()))
    })
    .await?;
    karpenter.kill()?;
    karpenter.restart().await?;

    // The drain needs no Karpenter; the removal does.
    world.phase(&agent, &begun.id, Phase::Draining).await?;
    karpenter.kill()?;
    let removing = world.phase(&agent, &begun.id, Phase::Removing).await?;
    ensure!(removing.progress.landed == 4, "{removing:#?}");
    karpenter.restart().await?;
    world.phase(&agent, &begun.id, Phase::Succeeded).await?;
    gone(world, &candidate).await?;
    settled(world, GENERAL, 1).await?;
    world.nothing_left().await
}

async fn a_node_that_does_not_boot_in_time_is_rolled_back(world: &World) -> Result<()> {
    let (_karpenter, agent, candidate) = one_full_node(world, general()).await?;
    // What is launched from now on boots for longer than the surge may take.
    general().boot(BOOT * 5).replace(&world.client).await?;
    rolled_back(world, &agent, &candidate, async || Ok(())).await?;
    // What Karpenter has launched by now is its own to take back: nobody keeps it from that.
    ensure!(karpenter::claims_of(&world.client, GENERAL).await?.len() == 2);
    world.nothing_left().await
}

async fn nodes_that_cannot_be_launched_are_rolled_back(world: &World) -> Result<()> {
    let (_karpenter, agent, candidate) = one_full_node(world, general()).await?;
    let class = async || karpenter::delete_node_class(&world.client).await;
    rolled_back(world, &agent, &candidate, class).await?;
    settled(world, GENERAL, 1).await
}

/// Rotates a node, lets something happen as soon as placeholders wait, and sees that all is as it was before.
async fn rolled_back(
    world: &World,
    agent: &Agent,
    candidate: &str,
    happens: impl AsyncFnOnce() -> Result<()>,
) -> Result<()> {
    let before = world.get_node(candidate).await?;
    let since = world.recorder.now();
    let options = OptionsRequest { surge_timeout_seconds: Some(5), ..OptionsRequest::default() };
    let begun = world.rotate(agent, candidate, options).await?;
    world.phase(agent, &begun.id, Phase::Surging).await?;
    happens().await?;
    let done = world.phase(agent, &begun.id, Phase::RolledBack).await?;
    ensure!(done.progress.evicted == 0 && world.moved_since(since).is_empty(), "{done:#?}");
    world.nothing_left().await?;
    let after = world.get_node(candidate).await?;
    ensure!(!is_cordoned(&after), "still cordoned");
    ensure!(after.metadata.annotations == before.metadata.annotations, "annotations differ");
    Ok(())
}

/// Somebody else's Pods bring a node while we surge. When the rotation is cancelled our own node goes, and theirs stays.
async fn a_node_that_others_scaled_up_meanwhile_is_not_taken_back(world: &World) -> Result<()> {
    let (_karpenter, agent, candidate) = one_full_node(world, general()).await?;
    let before = world.running("web", 4).await?;
    let begun = rotate(world, &agent, &candidate).await?;
    world.phase(&agent, &begun.id, Phase::Surging).await?;
    four_placeholders(world).await?;
    // So that it does not depend on how fast their node boots whether anything is evicted by then.
    workloads::disruption_budget(&world.client, SHOP, "web", None, Some(IntOrString::Int(0))).await?;
    // Too large to share a node with our placeholders.
    Workload::new(SHOP, "other", 1).request("cpu", "3").deployment(&world.client).await?;
    let other = world.running("other", 1).await?.remove(0);
    // All of our placeholders are on the node that is left for them, and it is known to have come for them.
    world.phase(&agent, &begun.id, Phase::Draining).await?;
    world.cancel(&agent, &begun.id).await?;
    let done = world.phase(&agent, &begun.id, Phase::RolledBack).await?;
    ensure!(done.progress.evicted == 0 && !warns(&done), "{done:#?}");

    settled(world, GENERAL, 2).await?;
    world.nothing_left().await?;
    same_pods(&before, &world.running("web", 4).await?)?;
    same_pods(slice::from_ref(&other), &world.running("other", 1).await?)?;
    for node in [workloads::node_of(&other), candidate] {
        let node = world.get_node(&node).await?;
        ensure!(node.metadata.deletion_timestamp.is_none() && !is_cordoned(&node), "{:#?}", node.metadata);
    }
    Ok(())
}

/// The node came for our placeholders, and is asked back before any Pod has left its own.
async fn a_surge_node_that_nobody_used_is_given_back_when_the_rotation_is_cancelled(world: &World) -> Result<()> {
    let (_karpenter, agent, candidate) = one_full_node(world, general()).await?;
    let (before, pods) = (world.get_node(&candidate).await?, world.running("web", 4).await?);
    let begun = rotate(world, &agent, &candidate).await?;
    world.phase(&agent, &begun.id, Phase::Surging).await?;
    four_placeholders(world).await?;
    // It surges for as long as it is paused, whatever becomes Ready.
    world.pause(&agent, &begun.id).await?;
    let node = eventually("all placeholders on a protected new node", SOON, async || {
        let nodes: BTreeSet<_> = world.placeholders().await?.iter().map(workloads::node_of).collect();
        let node = nodes.first().filter(|node| nodes.len() == 1 && !node.is_empty() && **node != candidate).cloned();
        let Some(node) = node else { return Ok(None) };
        let protected = world.get_node(&node).await?.annotations().contains_key(names::PROTECTED_BY);
        Ok(protected.then_some(node))
    })
    .await?;
    let claims = karpenter::claims_of(&world.client, GENERAL).await?;
    let claim =
        claims.iter().find(|claim| karpenter::node_of(claim) == node).context("a NodeClaim stands behind it")?;
    let surging = world.rotation(&agent, &begun.id).await?;
    ensure!(surging.phase == Phase::Surging, "{surging:#?}");

    world.cancel(&agent, &begun.id).await?;
    let done = world.phase(&agent, &begun.id, Phase::RolledBack).await?;
    ensure!(done.progress.evicted == 0 && !warns(&done), "{done:#?}");
    let asked = world.backend.claims_deleted(&claim.name_any(), &claim.uid().unwrap_or_default())?;
    ensure!(asked == 1, "the agent has deleted its claim {asked} times");

    gone(world, &node).await?;
    settled(world, GENERAL, 1).await?;
    world.nothing_left().await?;
    same_pods(&pods, &world.running("web", 4).await?)?;
    let after = world.get_node(&candidate).await?;
    ensure!(!is_cordoned(&after), "still cordoned");
    ensure!(after.metadata.annotations == before.metadata.annotations, "annotations differ");
    Ok(())
}

/// Whether it says that a node was not given back.
fn warns(rotation: &Rotation) -> bool {
    rotation.warnings.iter().any(|warning| warning.code == Code::NotGivenBack)
}

/// Waits until room is asked for.
async fn four_placeholders(world: &World) -> Result<()> {
    let made = async || Ok((world.placeholders().await?.len() == 4).then_some(()));
    eventually("four placeholders", SOON, made).await
}

/// None of them was replaced.
fn same_pods(before: &[Pod], after: &[Pod]) -> Result<()> {
    let uids = |pods: &[Pod]| pods.iter().filter_map(ResourceExt::uid).collect::<BTreeSet<_>>();
    ensure!(uids(before) == uids(after), "Pods were replaced: {before:#?} {after:#?}");
    Ok(())
}
