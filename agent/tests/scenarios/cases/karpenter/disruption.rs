//! Karpenter has ideas of its own while we drain: consolidation, drift, expiry, of the candidate and of the node that came.

use anyhow::{Context, Result, ensure};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use kube::ResourceExt;
use kube::api::DynamicObject;
use rotate_agent::Agent;
use rotate_shared::{Phase, Rotation};
use serde_json::{Value, json};

use super::{GENERAL, full, general, gone, only_node, rotate, settled};
use crate::backend::Karpenter;
use crate::cases::{Case, cases};
use crate::harness::nodes::READY_AFTER;
use crate::harness::wait::eventually;
use crate::harness::workloads;
use crate::karpenter::{self, NodePool};
use crate::world::{SHOP, SOON, World};

pub(super) fn cases() -> Vec<Case> {
    cases![
        "karpenter":
        neither_node_is_consolidated_while_we_drain,
        neither_node_is_replaced_for_drift_while_we_drain,
        a_candidate_that_expires_while_we_drain_is_left_to_karpenter_and_room_is_kept,
        a_node_that_expires_while_we_drain_into_it_is_replaced_first,
    ]
}

/// Seconds a Pod takes to start; a budget lets one move at a time.
const STARTS_AFTER: &str = "2";

/// Pods that are moved one after the other, on one node.
async fn slow_to_drain(world: &World, pool: &NodePool, starts_after: &str) -> Result<(Karpenter, Agent, String)> {
    let karpenter = world.backend.karpenter().await?;
    pool.create(&world.client).await?;
    full().annotation(READY_AFTER, starts_after).deployment(&world.client).await?;
    world.running("web", 4).await?;
    workloads::disruption_budget(&world.client, SHOP, "web", None, Some(IntOrString::Int(1))).await?;
    let candidate = only_node(world, GENERAL).await?;
    Ok((karpenter, world.agent().await?, candidate))
}

async fn neither_node_is_consolidated_while_we_drain(world: &World) -> Result<()> {
    let pool = general().disrupted().change(|spec| spec["disruption"]["consolidateAfter"] = "0s".into());
    let (_karpenter, agent, candidate) = slow_to_drain(world, &pool, STARTS_AFTER).await?;
    let mut claims = Claims::of(world).await?;
    let since = world.recorder.now();
    let begun = rotate(world, &agent, &candidate).await?;
    claims.watch_until(world, &agent, &begun.id, Phase::Succeeded).await?;
    ensure!(claims.made() == 1, "Karpenter made other NodeClaims: {:?}", claims.seen);
    gone(world, &candidate).await?;
    settled(world, GENERAL, 1).await?;
    world.running("web", 4).await?;
    world.room_was_there(since, 4)?;
    world.nothing_left().await
}

async fn neither_node_is_replaced_for_drift_while_we_drain(world: &World) -> Result<()> {
    let (_karpenter, agent, candidate) = slow_to_drain(world, &general(), STARTS_AFTER).await?;
    let generation = |number: &str| {
        let label = json!({"generation": number});
        general().disrupted().change(|spec| spec["template"]["metadata"]["labels"] = label)
    };
    let mut claims = Claims::of(world).await?;
    let since = world.recorder.now();
    let begun = rotate(world, &agent, &candidate).await?;
    world.phase(&agent, &begun.id, Phase::Surging).await?;
    // The candidate drifts, and Karpenter may replace it at once; then the other one does.
    generation("2").replace(&world.client).await?;
    world.phase(&agent, &begun.id, Phase::Draining).await?;
    generation("3").replace(&world.client).await?;
    claims.watch_until(world, &agent, &begun.id, Phase::Removing).await?;
    ensure!(claims.made() == 1, "Karpenter made other NodeClaims: {:?}", claims.seen);
    ensure!(claims.drifted == 2, "{} of two nodes drifted", claims.drifted);
    world.phase(&agent, &begun.id, Phase::Succeeded).await?;
    world.room_was_there(since, 4)?;
    world.nothing_left().await
}

/// Expiry heeds no annotation: Karpenter drains what is left, and finds room for it.
async fn a_candidate_that_expires_while_we_drain_is_left_to_karpenter_and_room_is_kept(world: &World) -> Result<()> {
    let (_karpenter, agent, candidate) = slow_to_drain(world, &expiring("22s"), "5").await?;
    // What comes later stays.
    expiring("Never").replace(&world.client).await?;
    let since = world.recorder.now();
    let begun = rotate(world, &agent, &candidate).await?;
    let draining = world.phase(&agent, &begun.id, Phase::Draining).await?;
    let done = world.phase(&agent, &begun.id, Phase::Superseded).await?;
    ensure!(draining.progress.to_move == 4 && draining.progress.evicted < 4, "{draining:#?}");
    ensure!(done.progress.landed == 4, "{done:#?}");
    gone(world, &candidate).await?;
    world.running("web", 4).await?;
    world.room_was_there(since, 4)?;
    world.nothing_left().await
}

async fn a_node_that_expires_while_we_drain_into_it_is_replaced_first(world: &World) -> Result<()> {
    let (_karpenter, agent, candidate) = slow_to_drain(world, &expiring("Never"), "5").await?;
    expiring("15s").replace(&world.client).await?;
    let begun = rotate(world, &agent, &candidate).await?;
    let draining = world.phase(&agent, &begun.id, Phase::Draining).await?;
    expiring("Never").replace(&world.client).await?;
    ensure!(draining.progress.to_move == 4, "{draining:#?}");
    let done = world.phase(&agent, &begun.id, Phase::Succeeded).await?;
    // Karpenter moves what had landed on the node that expired, at its own pace.
    ensure!(done.progress.evicted == 4, "{done:#?}");
    gone(world, &candidate).await?;
    world.running("web", 4).await?;
    world.nothing_left().await
}

/// The pool with another lifetime for its nodes: no budget holds that up.
fn expiring(after: &str) -> NodePool {
    general().change(|spec| spec["template"]["spec"]["expireAfter"] = after.into())
}

/// The NodeClaims that there were.
struct Claims {
    before: usize,
    seen: Vec<String>,
    drifted: usize,
}

impl Claims {
    async fn of(world: &World) -> Result<Self> {
        let seen: Vec<_> =
            karpenter::claims_of(&world.client, GENERAL).await?.iter().map(ResourceExt::name_any).collect();
        Ok(Self { before: seen.len(), seen, drifted: 0 })
    }

    /// How many came.
    fn made(&self) -> usize {
        self.seen.len() - self.before
    }

    /// Looks at them until the rotation is in a phase; it must not end otherwise.
    async fn watch_until(&mut self, world: &World, agent: &Agent, id: &str, phase: Phase) -> Result<Rotation> {
        let what = format!("phase {phase}");
        let waited = eventually(&what, SOON * 2, async || {
            let claims = karpenter::claims_of(&world.client, GENERAL).await?;
            for name in claims.iter().map(ResourceExt::name_any) {
                if !self.seen.contains(&name) {
                    self.seen.push(name);
                }
            }
            self.drifted = self.drifted.max(claims.iter().filter(|claim| is_drifted(claim)).count());
            let rotation = world.rotation(agent, id).await?;
            Ok((rotation.phase >= phase || rotation.phase.is_terminal()).then_some(rotation))
        });
        let rotation = waited.await.context("the rotation's way")?;
        ensure!(rotation.phase == phase || rotation.phase == Phase::Succeeded, "{rotation:#?}");
        Ok(rotation)
    }
}

fn is_drifted(claim: &DynamicObject) -> bool {
    let conditions = claim.data["status"]["conditions"].as_array().into_iter().flatten();
    conditions.into_iter().any(|it: &Value| it["type"] == "Drifted" && it["status"] == "True")
}
