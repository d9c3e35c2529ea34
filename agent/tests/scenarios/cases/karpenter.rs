//! Rotations of Karpenter's nodes.
//!
//! A pool's nodes hold exactly what is deployed first, so that every Pod to move needs a new node.

mod constraints;
mod disruption;
mod figures;
mod limits;
mod rotation;

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use k8s_openapi::api::core::v1::Node;
use kube::ResourceExt;
use kube::api::{Api, ListParams};
use rotate_agent::Agent;
use rotate_shared::{OptionsRequest, Phase, Rotation};

use super::Case;
use crate::backend::Karpenter;
use crate::harness::wait::eventually;
use crate::harness::workloads::{self, Workload};
use crate::karpenter::{self, NodePool, POOL};
use crate::world::{SHOP, SOON, World};

pub(super) fn cases() -> Vec<Case> {
    let figures = figures::cases().into_iter().map(|case| Case { simulated: false, ..case });
    let cases = [rotation::cases(), limits::cases(), constraints::cases(), disruption::cases()].concat().into_iter();
    let cases = cases.map(|case| Case { simulated: !REAL_ONLY.contains(&case.name), ..case });
    figures.chain(cases).collect()
}

/// What needs objects of the cloud's own, which the simulator does not have; what is over there before the node expires,
/// since Pods start at once; and what an agent that reads only what it works on does not promise.
const REAL_ONLY: [&str; 4] = [
    "karpenter::nodes_that_cannot_be_launched_are_rolled_back",
    "karpenter::a_candidate_that_expires_while_we_drain_is_left_to_karpenter_and_room_is_kept",
    "karpenter::a_pool_at_its_cpu_limit_is_named_and_nothing_is_touched",
    "karpenter::a_pool_at_its_limit_of_nodes_is_named_and_nothing_is_touched",
];

/// The name of the pool that most scenarios have.
const GENERAL: &str = "general";

/// How long nodes boot, where a scenario needs to see them booting.
const BOOT: Duration = Duration::from_secs(3);

/// A pool of nodes with 3900m CPU for Pods.
fn general() -> NodePool {
    NodePool::new(GENERAL, "c-4").boot(BOOT)
}

/// Four Pods that fill such a node.
fn full() -> Workload {
    Workload::new(SHOP, "web", 4).request("cpu", "950m")
}

/// Karpenter with one pool, the workload on one node of it, and an agent.
async fn one_full_node(world: &World, pool: NodePool) -> Result<(Karpenter, Agent, String)> {
    let karpenter = world.backend.karpenter().await?;
    pool.create(&world.client).await?;
    full().deployment(&world.client).await?;
    world.running("web", 4).await?;
    let candidate = only_node(world, GENERAL).await?;
    Ok((karpenter, world.agent().await?, candidate))
}

/// The nodes of a pool.
async fn nodes_of(world: &World, pool: &str) -> Result<Vec<Node>> {
    let labelled = ListParams::default().labels(&format!("{POOL}={pool}"));
    Ok(Api::<Node>::all(world.client.clone()).list(&labelled).await?.items)
}

/// The name of the pool's node, which has but one.
async fn only_node(world: &World, pool: &str) -> Result<String> {
    let nodes = nodes_of(world, pool).await?;
    ensure!(nodes.len() == 1, "{} nodes in pool {pool}", nodes.len());
    Ok(nodes[0].name_any())
}

/// Waits until the pool has so many NodeClaims and as many nodes: none is left over, and none on the way.
async fn settled(world: &World, pool: &str, count: usize) -> Result<()> {
    let waited = eventually(&format!("{count} nodes in pool {pool}"), SOON, async || {
        let claims = karpenter::claims_of(&world.client, pool).await?.len();
        Ok((claims == count && nodes_of(world, pool).await?.len() == count).then_some(()))
    })
    .await;
    let claims = karpenter::claims_of(&world.client, pool).await?;
    let names: Vec<_> = claims.iter().map(ResourceExt::name_any).collect();
    waited.with_context(|| format!("{names:?}"))
}

/// What every successful rotation of a node of Karpenter's shows: the candidate is gone, with its NodeClaim; the pool has
/// as many nodes as it had, so that none is left over; each Pod that moved had a node within half a second.
async fn rotated(world: &World, agent: &Agent, id: &str, pool: &str, moved: usize) -> Result<Rotation> {
    let before = nodes_of(world, pool).await?.len();
    let begun = world.rotation(agent, id).await?;
    let since = world.recorder.now();
    let done = world.phase(agent, id, Phase::Succeeded).await?;
    gone(world, &done.node).await?;
    settled(world, pool, before).await?;
    ensure!(done.progress.landed as usize == moved, "{:?}", done.progress);
    ensure!(begun.progress.evicted == 0, "it had begun before it was looked at: {begun:#?}");
    world.room_was_there(since, moved)?;
    world.nothing_left().await?;
    Ok(done)
}

/// Waits until a node is gone.
async fn gone(world: &World, node: &str) -> Result<()> {
    let nodes = Api::<Node>::all(world.client.clone());
    let look = async || Ok(nodes.get_opt(node).await?.is_none().then_some(()));
    eventually(&format!("node {node} to go"), SOON, look).await
}

/// Rotates with the options that somebody gets who names none.
async fn rotate(world: &World, agent: &Agent, node: &str) -> Result<Rotation> {
    world.rotate(agent, node, OptionsRequest::default()).await
}

/// The nodes that an app's Pods run on.
async fn nodes_of_app(world: &World, app: &str, count: i32) -> Result<Vec<String>> {
    Ok(world.running(app, count).await?.iter().map(workloads::node_of).collect())
}
