//! What is refused before anything is touched.

use anyhow::{Context, Result, ensure};
use k8s_openapi::api::core::v1::{Affinity, NodeAffinity, NodeSelector, NodeSelectorRequirement, NodeSelectorTerm};
use rotate_shared::{Code, OptionsRequest, Phase};

use super::{Case, cases};
use crate::harness::nodes::FakeNode;
use crate::harness::workloads::Workload;
use crate::world::{SHOP, World, is_cordoned};

pub(super) fn cases() -> Vec<Case> {
    cases![bare_and_pinned_pods_are_refused, a_node_is_rotated_only_once_at_a_time, an_unknown_node_is_not_found]
}

async fn bare_and_pinned_pods_are_refused(world: &World) -> Result<()> {
    world.nodes(2, "4").await?;
    Workload::new(SHOP, "bare", 1)
        .spec(|spec| spec.node_selector = Some([("kubernetes.io/hostname".to_owned(), "n1".to_owned())].into()))
        .bare_pod(&world.client)
        .await?;
    let only_here = NodeSelectorRequirement {
        key: "kubernetes.io/hostname".to_owned(),
        operator: "In".to_owned(),
        values: Some(vec!["n1".to_owned()]),
    };
    Workload::new(SHOP, "pinned", 1)
        .spec(|spec| {
            spec.affinity = Some(Affinity {
                node_affinity: Some(NodeAffinity {
                    required_during_scheduling_ignored_during_execution: Some(NodeSelector {
                        node_selector_terms: vec![NodeSelectorTerm {
                            match_expressions: Some(vec![only_here]),
                            ..NodeSelectorTerm::default()
                        }],
                    }),
                    ..NodeAffinity::default()
                }),
                ..Affinity::default()
            });
        })
        .deployment(&world.client)
        .await?;
    world.running("pinned", 1).await?;
    world.running("bare", 1).await?;
    let agent = world.agent().await?;

    let problem = world.try_rotate(&agent, "n1", OptionsRequest::default()).await?.err().context("it was accepted")?;

    ensure!(problem.code == Code::Blocked, "{problem:?}");
    let codes: Vec<_> = problem.blockers.iter().map(|blocker| blocker.code).collect();
    ensure!(codes.contains(&Code::BarePod) && codes.contains(&Code::PinnedPod), "{codes:?}");
    ensure!(problem.blockers.iter().all(|blocker| !blocker.remedy.is_empty()), "{:?}", problem.blockers);
    ensure!(!is_cordoned(&world.get_node("n1").await?), "it was touched");
    world.nothing_left().await
}

async fn a_node_is_rotated_only_once_at_a_time(world: &World) -> Result<()> {
    world.autoscaled().await?;
    world.node(FakeNode::new("n1").allocatable("cpu", "1")).await?;
    world.deployment("web", 1, "1").await?;
    let agent = world.agent().await?;
    let first = world.rotate(&agent, "n1", OptionsRequest::default()).await?;

    let problem = world.try_rotate(&agent, "n1", OptionsRequest::default()).await?.err().context("it was accepted")?;

    ensure!(problem.code == Code::AlreadyRotating, "{problem:?}");
    ensure!(problem.rotation.as_deref() == Some(&*first.id), "{problem:?}");
    world.cancel(&agent, &first.id).await?;
    let done = world.until(&agent, &first.id, "its end", |it| it.phase.is_terminal()).await?;
    ensure!(matches!(done.phase, Phase::RolledBack | Phase::Cancelled), "{done:#?}");
    world.nothing_left().await
}

async fn an_unknown_node_is_not_found(world: &World) -> Result<()> {
    world.nodes(1, "1").await?;
    let agent = world.agent().await?;
    let problem = world.try_rotate(&agent, "n9", OptionsRequest::default()).await?.err().context("it was accepted")?;
    ensure!(problem.code == Code::NotFound && problem.detail.contains(r#"nodes "n9" not found"#), "{problem:?}");
    Ok(())
}
