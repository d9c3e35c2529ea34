//! Pools that may not grow: said before anything is touched.

use anyhow::{Context, Result, ensure};
use rotate_shared::{Code, OptionsRequest};

use super::{GENERAL, general, one_full_node, settled};
use crate::cases::{Case, cases};
use crate::world::{World, is_cordoned};

pub(super) fn cases() -> Vec<Case> {
    cases![
        "karpenter":
        a_pool_at_its_cpu_limit_is_named_and_nothing_is_touched,
        a_pool_at_its_limit_of_nodes_is_named_and_nothing_is_touched
    ]
}

/// 7 CPU: three are left of it by the Pods' requests, and a node is charged whole, with four.
async fn a_pool_at_its_cpu_limit_is_named_and_nothing_is_touched(world: &World) -> Result<()> {
    refused_at(world, "cpu", "7").await
}

async fn a_pool_at_its_limit_of_nodes_is_named_and_nothing_is_touched(world: &World) -> Result<()> {
    refused_at(world, "nodes", "1").await
}

async fn refused_at(world: &World, resource: &str, quantity: &str) -> Result<()> {
    let (_karpenter, agent, candidate) = one_full_node(world, general().limit(resource, quantity)).await?;
    let before = world.get_node(&candidate).await?;
    let refused = world.try_rotate(&agent, &candidate, OptionsRequest::default()).await?;
    let problem = refused.err().context("it was accepted")?;

    ensure!(problem.code == Code::Blocked, "{problem:#?}");
    let blocker =
        problem.blockers.iter().find(|it| it.code == Code::NoRoom).with_context(|| format!("{problem:#?}"))?;
    let told = format!("{} {}", blocker.message, blocker.remedy);
    ensure!(told.contains(GENERAL) && told.contains(resource) && told.contains(quantity), "{blocker:#?}");
    let after = world.get_node(&candidate).await?;
    ensure!(!is_cordoned(&after) && after.metadata.annotations == before.metadata.annotations, "it was touched");
    ensure!(world.placeholders().await?.is_empty(), "a placeholder was made");
    settled(world, GENERAL, 1).await?;
    world.nothing_left().await
}
