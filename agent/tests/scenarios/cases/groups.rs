//! Groups that cluster-autoscaler looks after: growth, limits, emptiness, and who takes the empty node away.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use axum::Router;
use axum::extract::State;
use axum::http::{StatusCode, Uri};
use axum::routing::post;
use k8s_openapi::api::core::v1::{ConfigMap, Node};
use kube::{Api, Client};
use rotate_agent::Config;
use rotate_agent::provider::cluster_autoscaler::hook::Hook;
use rotate_shared::{Code, OptionsRequest, Phase, names};

use super::{Case, cases};
use crate::harness::autoscaler::{Autoscaler, GROUP_LABEL, Group};
use crate::harness::nodes::FakeNode;
use crate::harness::wait::eventually;
use crate::harness::workloads::Workload;
use crate::world::{SHOP, SOON, World, is_cordoned};

pub(super) fn cases() -> Vec<Case> {
    cases![
        a_group_grows_and_the_empty_node_is_left_to_the_autoscaler,
        a_group_at_its_minimum_keeps_the_empty_node_and_says_so,
        a_group_at_its_maximum_is_refused_before_anything_is_touched,
        a_group_that_is_not_what_it_was_is_warned_of_and_rolled_back,
        a_hook_that_fails_twice_ends_the_machine_in_the_end,
    ]
}

const BOOT: Duration = Duration::from_secs(4);

fn member(name: &str, group: &str, cpu: &str) -> FakeNode {
    FakeNode::new(name).allocatable("cpu", cpu).label(GROUP_LABEL, group)
}

fn autoscaler(world: &World, prefix: &str, group: Group) -> Autoscaler {
    let template = FakeNode::new(prefix).allocatable("cpu", "2");
    Autoscaler::new(world.client.clone(), prefix, template, BOOT).group(group, world.backend.clock())
}

async fn gone(world: &World, name: &str) -> Result<()> {
    let nodes = Api::<Node>::all(world.client.clone());
    eventually(&format!("the end of node {name}"), SOON, async || {
        Ok(nodes.get_opt(name).await?.is_none().then_some(()))
    })
    .await
}

async fn a_group_grows_and_the_empty_node_is_left_to_the_autoscaler(world: &World) -> Result<()> {
    world.node(member("n1", "web", "2")).await?;
    world.deployment("web", 2, "1").await?;
    let growing = autoscaler(world, "late", Group::new("web", 1, 3)).unneeded(Duration::from_secs(3)).start().await?;
    let agent = world.agent().await?;
    eventually("the autoscaler's word", SOON, async || {
        let plan = world.plan(&agent, "n1", OptionsRequest::default()).await?;
        Ok(plan.blockers.is_empty().then_some(()))
    })
    .await?;
    let plan = world.plan(&agent, "n1", OptionsRequest::default()).await?;
    if world.reads_all_pods() {
        let sizes: Vec<_> = plan.groups.iter().map(|it| (it.nodes, it.min, it.max, it.during, it.after)).collect();
        ensure!(sizes == [(1, 1, 3, 2, 1)], "{:?}", plan.groups);
    }
    let since = world.recorder.now();

    let rotation = world.rotate(&agent, "n1", OptionsRequest::default()).await?;
    let done = world.phase(&agent, &rotation.id, Phase::Succeeded).await?;

    let message = done.outcome.as_ref().map(|outcome| outcome.message.clone()).unwrap_or_default();
    ensure!(message.contains("left to cluster-autoscaler") && message.contains("expected to be gone by"), "{message}");
    gone(world, "n1").await?;
    world.running("web", 2).await?;
    world.room_was_there(since, 2)?;
    ensure!(Group::new("web", 1, 3).size(&world.client).await? == 1, "a node is left over");
    ensure!(!growing.failed(), "the test's autoscaler ended");
    world.nothing_left().await
}

async fn a_group_at_its_minimum_keeps_the_empty_node_and_says_so(world: &World) -> Result<()> {
    world.node(member("n1", "web", "2")).await?;
    world.deployment("web", 2, "1").await?;
    world.node(member("n2", "web", "2")).await?;
    let group = Group::new("web", 2, 3);
    group.tell(&world.client, world.backend.clock()).await?;
    let growing = autoscaler(world, "late", group).unneeded(Duration::from_secs(1)).start().await?;
    let agent = world.agent().await?;
    let plan = world.plan(&agent, "n1", OptionsRequest::default()).await?;
    ensure!(plan.warnings.iter().any(|warning| warning.code == Code::GroupAtMinimum), "{:?}", plan.warnings);

    let rotation = world.rotate(&agent, "n1", OptionsRequest::default()).await?;
    let done = world.phase(&agent, &rotation.id, Phase::Succeeded).await?;

    let message = done.outcome.as_ref().map(|outcome| outcome.message.clone()).unwrap_or_default();
    ensure!(message.contains("minimum of 2 nodes"), "{message}");
    world.backend.clock().sleep(Duration::from_millis(900)).await;
    ensure!(is_cordoned(&world.get_node("n1").await?), "kept, cordoned");
    ensure!(!growing.failed(), "the test's autoscaler ended");
    world.nothing_left().await
}

async fn a_group_at_its_maximum_is_refused_before_anything_is_touched(world: &World) -> Result<()> {
    world.node(member("n1", "web", "2")).await?;
    world.deployment("web", 2, "1").await?;
    Group::new("web", 1, 1).tell(&world.client, world.backend.clock()).await?;
    let agent = world.agent().await?;
    if !world.reads_all_pods() {
        // Whether other nodes have room is not looked at there.
        return Ok(());
    }
    let problem = world.try_rotate(&agent, "n1", OptionsRequest::default()).await?.err().context("it was accepted")?;
    ensure!(problem.code == Code::Blocked, "{problem:?}");
    let blocker = problem.blockers.iter().find(|blocker| blocker.code == Code::NoRoom).context("no room")?;
    ensure!(blocker.message.contains("has 1 of at most 1 nodes"), "{blocker:?}");
    ensure!(!is_cordoned(&world.get_node("n1").await?), "it was touched");
    world.nothing_left().await
}

/// The group had a node with a disk. Now it is empty, and after a restart its autoscaler knows only what the cloud says.
async fn a_group_that_is_not_what_it_was_is_warned_of_and_rolled_back(world: &World) -> Result<()> {
    let nodes = Api::<Node>::all(world.client.clone());
    world.node(member("d1", "disk", "2")).await?;
    Group::new("disk", 0, 3).tell(&world.client, world.backend.clock()).await?;
    let agent = world.agent().await?;
    let maps = Api::<ConfigMap>::namespaced(world.client.clone(), names::NAMESPACE);
    eventually("the group to be remembered", SOON, async || Ok(maps.get_opt(names::GROUPS).await?.map(drop))).await?;
    world.node(FakeNode::new("n1").allocatable("cpu", "1")).await?;
    nodes.delete("d1", &Default::default()).await?;
    Workload::new(SHOP, "web", 1)
        .request("cpu", "1")
        .request("ephemeral-storage", "1Gi")
        .deployment(&world.client)
        .await?;
    world.running("web", 1).await?;
    let described = FakeNode::new("described").allocatable("ephemeral-storage", "0");
    let growing = autoscaler(world, "late", Group::new("disk", 0, 3)).described(described).start().await?;
    Group::new("disk", 0, 3).tell(&world.client, world.backend.clock()).await?;

    if world.reads_all_pods() {
        let plan = eventually("a plan without the node that is gone", SOON, async || {
            let plan = world.plan(&agent, "n1", OptionsRequest::default()).await?;
            Ok((!plan.groups.is_empty() && plan.groups[0].nodes == 0).then_some(plan))
        })
        .await?;
        let warning = plan.warnings.iter().find(|warning| warning.code == Code::GroupEmpty).context("a warning")?;
        ensure!(warning.message.contains("ephemeral-storage"), "{warning:?}");
    }
    let options = OptionsRequest { surge_timeout_seconds: Some(5), ..OptionsRequest::default() };
    let rotation = world.rotate(&agent, "n1", options).await?;
    let done = world.phase(&agent, &rotation.id, Phase::RolledBack).await?;

    ensure!(done.progress.evicted == 0, "{:?}", done.progress);
    ensure!(!is_cordoned(&world.get_node("n1").await?), "still cordoned");
    ensure!(!growing.failed(), "the test's autoscaler ended");
    world.nothing_left().await
}

/// Ends machines, from the third request on.
#[derive(Clone)]
struct Ending {
    client: Client,
    asked: Arc<AtomicUsize>,
}

async fn end(State(ending): State<Ending>, body: String) -> (StatusCode, String) {
    if ending.asked.fetch_add(1, Ordering::SeqCst) < 2 {
        return (StatusCode::INTERNAL_SERVER_ERROR, "the cloud is busy".to_owned());
    }
    let ask: serde_json::Value = serde_json::from_str(&body).unwrap_or_default();
    let node = ask["node"].as_str().unwrap_or_default();
    match Api::<Node>::all(ending.client.clone()).delete(node, &Default::default()).await {
        Ok(_) => (StatusCode::ACCEPTED, String::new()),
        Err(error) => (StatusCode::NOT_FOUND, error.to_string()),
    }
}

async fn a_hook_that_fails_twice_ends_the_machine_in_the_end(world: &World) -> Result<()> {
    world.node(member("n1", "web", "2")).await?;
    world.deployment("web", 2, "1").await?;
    world.node(member("n2", "web", "2")).await?;
    Group::new("web", 2, 3).tell(&world.client, world.backend.clock()).await?;
    let asked = Arc::new(AtomicUsize::new(0));
    let state = Ending { client: world.client.clone(), asked: Arc::clone(&asked) };
    let router = Router::new().route("/end", post(end)).with_state(state);
    let hook = Hook::through(router, Uri::from_static("https://hook.example/end"), Some(b"0123456789abcdef"))?;
    let agent = world.agent_with(Config { hook: Some(hook), ..Config::default() }).await?;

    let rotation = world.rotate(&agent, "n1", OptionsRequest::default()).await?;
    let done = world.phase(&agent, &rotation.id, Phase::Succeeded).await?;

    ensure!(asked.load(Ordering::SeqCst) == 3, "asked {asked:?} times");
    ensure!(Api::<Node>::all(world.client.clone()).get_opt("n1").await?.is_none(), "{done:#?}");
    world.running("web", 2).await?;
    world.nothing_left().await
}
