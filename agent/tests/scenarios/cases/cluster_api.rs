//! Nodes of Cluster API: their Machines are in another cluster.

use anyhow::{Result, bail, ensure};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{Api, DeleteParams};
use rotate_shared::options::Then;
use rotate_shared::plan::Provider;
use rotate_shared::{Code, OptionsRequest, Phase, names};

use super::{Case, cases};
use crate::fleet::{Fleet, Setup};
use crate::harness::nodes::FakeNode;
use crate::harness::wait::eventually;
use crate::world::{SHOP, SOON, World, is_cordoned};

pub(super) fn cases() -> Vec<Case> {
    cases![
        a_machine_deployment_lends_a_node_for_the_rotation,
        an_autoscaled_machine_deployment_grows_for_the_placeholders_and_shrinks_with_the_machine,
        a_machine_that_nobody_surged_for_is_replaced,
        an_ordered_machine_that_becomes_no_node_is_given_back,
        an_order_whose_record_is_gone_is_given_back_by_the_next_agent,
        a_management_cluster_that_does_not_answer_is_named_before_anything_is_touched,
    ]
}

/// Both nodes are full: the room has to be ordered.
async fn full(world: &World, setup: Setup) -> Result<Fleet> {
    let fleet = Fleet::start(world, setup).await?;
    world.deployment("web", 4, "1").await?;
    for node in ["web-1", "web-2"] {
        ensure!(world.workload_on(node).await?.len() == 2, "{node} is not full");
    }
    Ok(fleet)
}

async fn is_back_to_two(world: &World, fleet: &Fleet, machines: [&str; 2]) -> Result<()> {
    let settled = eventually("the replicas to be as before", SOON, async || {
        Ok((fleet.replicas().await? == (2, None) && fleet.machines().await? == machines).then_some(()))
    });
    if settled.await.is_err() {
        bail!("{:?}, Machines {:?}", fleet.replicas().await?, fleet.machines().await?);
    }
    fleet.ended_nobody()?;
    world.nothing_left().await
}

async fn a_machine_deployment_lends_a_node_for_the_rotation(world: &World) -> Result<()> {
    let fleet = full(world, Setup::default()).await?;
    let agent = world.managed_agent(fleet.management()).await?;
    let since = world.recorder.now();

    let rotation = world.rotate(&agent, "web-1", OptionsRequest::default()).await?;
    ensure!(rotation.provider == Provider::ClusterApi && rotation.options.then == Some(Then::Delete), "{rotation:#?}");
    world.phase(&agent, &rotation.id, Phase::Succeeded).await?;

    world.running("web", 4).await?;
    world.room_was_there(since, 2)?;
    is_back_to_two(world, &fleet, ["web-2", "web-3"]).await
}

async fn an_autoscaled_machine_deployment_grows_for_the_placeholders_and_shrinks_with_the_machine(
    world: &World,
) -> Result<()> {
    let fleet = full(world, Setup { autoscaled: Some((1, 4)), ..Setup::default() }).await?;
    let agent = world.managed_agent(fleet.management()).await?;
    let since = world.recorder.now();

    let rotation = world.rotate(&agent, "web-1", OptionsRequest::default()).await?;
    world.phase(&agent, &rotation.id, Phase::Succeeded).await?;

    world.running("web", 4).await?;
    world.room_was_there(since, 2)?;
    is_back_to_two(world, &fleet, ["web-2", "web-3"]).await
}

async fn a_machine_that_nobody_surged_for_is_replaced(world: &World) -> Result<()> {
    let fleet = full(world, Setup::default()).await?;
    world.node(FakeNode::new("spare").allocatable("cpu", "2")).await?;
    let agent = world.managed_agent(fleet.management()).await?;

    let rotation = world.rotate(&agent, "web-1", OptionsRequest::default()).await?;
    world.phase(&agent, &rotation.id, Phase::Succeeded).await?;

    ensure!(world.workload_on("spare").await?.len() == 2, "the spare room was not used");
    is_back_to_two(world, &fleet, ["web-2", "web-3"]).await
}

/// The older API, too: a management cluster is upgraded when it is.
async fn an_ordered_machine_that_becomes_no_node_is_given_back(world: &World) -> Result<()> {
    let fleet = full(world, Setup { version: "v1beta1", ..Setup::default() }).await?;
    fleet.boot_no_more();
    let agent = world.managed_agent(fleet.management()).await?;
    let since = world.recorder.now();

    let options = OptionsRequest { surge_timeout_seconds: Some(8), ..OptionsRequest::default() };
    let rotation = world.rotate(&agent, "web-1", options).await?;
    let ordered = async || Ok((fleet.replicas().await?.0 == 3).then_some(()));
    eventually("a replica to be ordered", SOON, ordered).await?;
    world.phase(&agent, &rotation.id, Phase::RolledBack).await?;

    ensure!(!is_cordoned(&world.get_node("web-1").await?), "the cordon stayed");
    let moved = world.moved_since(since);
    ensure!(moved.is_empty(), "Pods of {SHOP} were touched: {moved:#?}");
    is_back_to_two(world, &fleet, ["web-1", "web-2"]).await
}

/// The agent is killed after the order, and somebody deletes the record before the next one starts.
async fn an_order_whose_record_is_gone_is_given_back_by_the_next_agent(world: &World) -> Result<()> {
    let fleet = full(world, Setup::default()).await?;
    fleet.boot_no_more();
    let agent = world.managed_agent(fleet.management()).await?;
    let rotation = world.rotate(&agent, "web-1", OptionsRequest::default()).await?;
    let ordered = async || Ok((fleet.replicas().await? == (3, Some(rotation.id.clone()))).then_some(()));
    eventually("a replica to be ordered", SOON, ordered).await?;
    drop(agent);
    let records = Api::<ConfigMap>::namespaced(world.client.clone(), names::NAMESPACE);
    records.delete(&format!("rotation-{}", rotation.id), &DeleteParams::default()).await?;

    let _next = world.managed_agent(fleet.management()).await?;
    is_back_to_two(world, &fleet, ["web-1", "web-2"]).await?;
    ensure!(!is_cordoned(&world.get_node("web-1").await?), "the cordon stayed");
    Ok(())
}

async fn a_management_cluster_that_does_not_answer_is_named_before_anything_is_touched(world: &World) -> Result<()> {
    let fleet = full(world, Setup::default()).await?;
    let agent = world.managed_agent(fleet.is_cut_off()).await?;

    let refused = world.try_rotate(&agent, "web-1", OptionsRequest::default()).await?;
    let Err(problem) = refused else { bail!("it was begun: {refused:#?}") };
    let codes: Vec<_> = problem.blockers.iter().map(|blocker| blocker.code).collect();
    ensure!(problem.code == Code::Blocked && codes.contains(&Code::ProviderUnreadable), "{problem:#?}");

    ensure!(!is_cordoned(&world.get_node("web-1").await?), "it was cordoned");
    is_back_to_two(world, &fleet, ["web-1", "web-2"]).await
}
