//! What a rotation costs: waiting Pods, missing Pods, and what the agent asks of the API server.
//!
//! `docs/bench/karpenter.txt` has a longer series, beside other tools. `ROTATE_FIGURES=FILE` appends one line a rotation,
//! `ROTATE_RUNS=N` makes it N rotations.

use std::fs::OpenOptions;
use std::io::Write;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use rotate_agent::Agent;
use rotate_shared::{OptionsRequest, Phase, SurgeMode};

use super::{BOOT, GENERAL, full, general, gone, only_node, settled};
use crate::cases::{Case, cases};
use crate::harness::nodes::READY_AFTER;
use crate::harness::workloads;
use crate::recorder::Life;
use crate::world::{SHOP, World};

pub(super) fn cases() -> Vec<Case> {
    cases![
        "karpenter":
        rotations_of_full_nodes_cost_what_was_promised,
        evictions_under_a_budget_are_seldom_refused,
        one_placeholder_for_all_costs_one_write_a_pod,
    ]
}

/// What a node takes to boot in the promised figures.
const REAL_BOOT: Duration = Duration::from_secs(20);

/// How many Pods [`full`] has.
const PODS: usize = 4;

async fn rotations_of_full_nodes_cost_what_was_promised(world: &World) -> Result<()> {
    let _karpenter = world.backend.karpenter().await?;
    general().create(&world.client).await?;
    full().annotation(READY_AFTER, "3").deployment(&world.client).await?;
    world.running("web", 4).await?;
    general().boot(REAL_BOOT).replace(&world.client).await?;
    let agent = world.agent().await?;
    for run in 1..=runs(3)? {
        let figures = Figures::of_a_rotation(world, &agent, SurgeMode::PerPod).await?;
        figures.append("per-pod")?;
        figures.check().with_context(|| format!("rotation {run}: {figures:#?}"))?;
        ensure!(figures.refused == 0 && figures.writes <= 3 * PODS + 15, "rotation {run}: {figures:#?}");
    }
    Ok(())
}

async fn evictions_under_a_budget_are_seldom_refused(world: &World) -> Result<()> {
    let _karpenter = world.backend.karpenter().await?;
    general().create(&world.client).await?;
    full().annotation(READY_AFTER, "3").deployment(&world.client).await?;
    world.running("web", 4).await?;
    workloads::disruption_budget(&world.client, SHOP, "web", None, Some(IntOrString::Int(1))).await?;
    let boot = if std::env::var_os(FIGURES).is_some() { REAL_BOOT } else { BOOT };
    general().boot(boot).replace(&world.client).await?;
    let agent = world.agent().await?;
    for run in 1..=runs(1)? {
        let figures = Figures::of_a_rotation(world, &agent, SurgeMode::PerPod).await?;
        figures.append("per-pod, PDB maxUnavailable 1")?;
        figures.check().with_context(|| format!("rotation {run}: {figures:#?}"))?;
        let most = usize::try_from(figures.wall.as_secs() / 5)?;
        ensure!(figures.refused <= most && figures.writes <= 3 * PODS + 15, "rotation {run}: {figures:#?}");
    }
    Ok(())
}

async fn one_placeholder_for_all_costs_one_write_a_pod(world: &World) -> Result<()> {
    let _karpenter = world.backend.karpenter().await?;
    general().create(&world.client).await?;
    full().annotation(READY_AFTER, "3").deployment(&world.client).await?;
    world.running("web", 4).await?;
    let agent = world.agent().await?;
    let figures = Figures::of_a_rotation(world, &agent, SurgeMode::Single).await?;
    figures.append("single")?;
    ensure!(figures.refused == 0 && figures.writes <= PODS + 15, "{figures:#?}");
    Ok(())
}

/// How many rotations are measured, `usual` unless somebody wants a series.
fn runs(usual: u32) -> Result<u32> {
    Ok(std::env::var("ROTATE_RUNS").ok().map(|runs| runs.parse()).transpose()?.unwrap_or(usual))
}

/// Names a file that the figures are appended to.
const FIGURES: &str = "ROTATE_FIGURES";

/// What one rotation cost.
#[derive(Debug)]
struct Figures {
    wall: Duration,
    /// Pod-seconds that were missing from the replicas wanted.
    unavailable: Duration,
    /// Of these, what the replacements took from their bind until they were Ready.
    starting: Duration,
    /// How long each replacement had no node.
    unscheduled: Vec<Duration>,
    /// Creates, patches, deletes and accepted evictions by the agent.
    writes: usize,
    evictions: usize,
    /// Evictions answered with 429.
    refused: usize,
    by_kind: Vec<(String, usize)>,
}

impl Figures {
    /// Rotates the only node of the pool.
    async fn of_a_rotation(world: &World, agent: &Agent, surge: SurgeMode) -> Result<Self> {
        let candidate = only_node(world, GENERAL).await?;
        let mark = world.backend.mark()?;
        let since = world.recorder.now();
        let options = OptionsRequest { surge: Some(surge), ..OptionsRequest::default() };
        let begun = world.rotate(agent, &candidate, options).await?;
        world.phase(agent, &begun.id, Phase::Succeeded).await?;
        gone(world, &candidate).await?;
        let wall = world.recorder.now() - since;
        settled(world, GENERAL, 1).await?;
        world.running("web", 4).await?;
        world.nothing_left().await?;

        let lives: Vec<_> = world.recorder.lives().into_iter().filter(|life| life.namespace == SHOP).collect();
        let moved: Vec<_> = lives.iter().filter(|life| life.created > since).collect();
        let unscheduled: Vec<_> = moved.iter().filter_map(|life| life.unscheduled()).collect();
        ensure!(moved.len() == PODS && unscheduled.len() == PODS, "{moved:#?}");
        let starting = moved.iter().filter_map(|life| Some(life.ready?.saturating_sub(life.bound.as_ref()?.0))).sum();

        let mut requests = world.backend.agents_requests(mark)?;
        requests.retain(|request| request.is_write() && !request.uri.contains("dryRun=All"));
        let apart = ["events", "leases", "tokenreviews", "subjectaccessreviews"];
        requests.retain(|request| !apart.contains(&&*request.resource()));
        let is_eviction = |resource: &str| resource == "pods/eviction";
        let evictions = requests.iter().filter(|request| is_eviction(&request.resource())).count();
        let refused = requests.iter().filter(|it| is_eviction(&it.resource()) && it.code() == 429).count();
        let mut by_kind = std::collections::BTreeMap::new();
        for request in &requests {
            *by_kind.entry(format!("{} {} {}", request.verb, request.resource(), request.code())).or_default() += 1;
        }
        Ok(Self {
            wall,
            unavailable: unavailable(&lives, since),
            starting,
            unscheduled,
            writes: requests.len() - refused,
            evictions,
            refused,
            by_kind: by_kind.into_iter().collect(),
        })
    }

    /// What holds for every rotation with room reserved.
    fn check(&self) -> Result<()> {
        // Of so few, the 95th percentile is the longest.
        let longest = self.unscheduled.iter().max().copied().unwrap_or_default();
        ensure!(longest <= Duration::from_millis(500), "a Pod waited {longest:?} for its node");
        let without = self.unavailable.saturating_sub(self.starting);
        let most = Duration::from_millis(200) * u32::try_from(PODS)?;
        ensure!(without <= most, "Pods were missing for {without:?} beside their own start");
        Ok(())
    }

    fn append(&self, how: &str) -> Result<()> {
        let Some(path) = std::env::var_os(FIGURES) else { return Ok(()) };
        let pending: Duration = self.unscheduled.iter().sum();
        let longest = self.unscheduled.iter().max().copied().unwrap_or_default();
        let seconds = |it: Duration| format!("{:.2}", it.as_secs_f64());
        let mut file = OpenOptions::new().create(true).append(true).open(path)?;
        let columns = [
            how.to_owned(),
            seconds(self.wall),
            seconds(self.unavailable),
            seconds(self.starting),
            seconds(pending),
            seconds(longest),
            self.writes.to_string(),
            format!("{} ({})", self.evictions, self.refused),
            self.by_kind.iter().map(|(kind, count)| format!("{count} {kind}")).collect::<Vec<_>>().join(", "),
        ];
        Ok(writeln!(file, "{}", columns.join("\t"))?)
    }
}

/// The time that replicas were missing for, each for itself: from when one began to end until there were as many Ready ones
/// again.
fn unavailable(lives: &[Life], since: Duration) -> Duration {
    let mut changes: Vec<(Duration, i32)> = Vec::new();
    for life in lives {
        let end = life.terminating.or(life.gone);
        if let Some(ready) = life.ready {
            changes.push((ready.max(since), 1));
            changes.extend(end.map(|end| (end.max(since), -1)));
        }
    }
    changes.sort();
    let (mut ready, mut last, mut sum) = (0, since, Duration::ZERO);
    for (at, change) in changes {
        let missing = u32::try_from(PODS).unwrap_or(0).saturating_sub(u32::try_from(ready).unwrap_or(0));
        sum += (at - last) * if at > since { missing } else { 0 };
        (ready, last) = (ready + change, at);
    }
    sum
}
