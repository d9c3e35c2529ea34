//! Evictions: budgets, late Pods, Pods that change under their name, and what the API server refuses.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use k8s_openapi::api::admissionregistration::v1::{ValidatingAdmissionPolicy, ValidatingAdmissionPolicyBinding};
use k8s_openapi::api::core::v1::{Binding, ObjectReference, Pod};
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use kube::ResourceExt;
use kube::api::{Api, DeleteParams, PostParams};
use rotate_agent::drain::evict::{self, Answer, Eviction};
use rotate_shared::{Code, OptionsRequest, Phase, SurgeMode};
use serde_json::json;

use super::{Case, cases};
use crate::harness::nodes::FakeNode;
use crate::harness::wait::eventually;
use crate::harness::workloads::{self, Workload};
use crate::world::{SHOP, SOON, World};

pub(super) fn cases() -> Vec<Case> {
    // The simulator has no admission policies; tests/rotation/single.rs shows the same there.
    let refused = cases![evictions_are_refused_at_most_once_in_five_seconds];
    let refused = refused.into_iter().map(|case| Case { simulated: false, ..case });
    let cases = cases![
        a_budget_that_blocks_is_named_and_the_drain_goes_on_when_it_opens,
        a_pod_bound_just_after_the_cordon_gets_room_first,
        a_pod_replaced_under_its_name_is_not_evicted_again,
        a_pod_replaced_while_room_is_reserved_is_not_moved,
        a_refused_eviction_is_one_request,
        an_eviction_with_another_uid_is_refused,
    ];
    cases.into_iter().chain(refused).collect()
}

async fn a_budget_that_blocks_is_named_and_the_drain_goes_on_when_it_opens(world: &World) -> Result<()> {
    // Three replicas, of which one has no node: the budget of one is used up until it gets one.
    world.nodes(2, "1").await?;
    Workload::new(SHOP, "web", 3).request("cpu", "1").deployment(&world.client).await?;
    let budgets = Api::<PodDisruptionBudget>::namespaced(world.client.clone(), SHOP);
    workloads::disruption_budget(&world.client, SHOP, "web", None, Some(IntOrString::Int(1))).await?;
    eventually("two healthy Pods of three", SOON, async || {
        let status = budgets.get("web").await?.status.context("a status")?;
        Ok((status.current_healthy == 2 && status.disruptions_allowed == 0 && status.expected_pods == 3).then_some(()))
    })
    .await?;
    let agent = world.agent().await?;
    let options = OptionsRequest { surge: Some(SurgeMode::None), ..OptionsRequest::default() };
    let rotation = world.rotate(&agent, "n1", options).await?;

    let blocked = |it: &rotate_shared::Rotation| it.waiting.iter().any(|wait| wait.code == Code::PodDisruptionBudget);
    let waiting = world.until(&agent, &rotation.id, "the budget to be named", blocked).await?;
    let wait = waiting.waiting.iter().find(|wait| wait.code == Code::PodDisruptionBudget).context("just seen")?;
    ensure!(wait.object.contains("shop/web") && wait.message.contains('2'), "{wait:?}");
    ensure!(waiting.progress.evicted == 0, "{:?}", waiting.progress);

    // The third replica gets a node: the budget opens.
    world.node(FakeNode::new("n4").allocatable("cpu", "2")).await?;
    world.phase(&agent, &rotation.id, Phase::Succeeded).await?;
    world.running("web", 3).await?;
    world.nothing_left().await
}

async fn a_pod_bound_just_after_the_cordon_gets_room_first(world: &World) -> Result<()> {
    world.autoscaled().await?;
    world.node(FakeNode::new("n1").allocatable("cpu", "1")).await?;
    world.deployment("web", 1, "1").await?;
    // Its Pod waits for a node that does not exist; the test binds it, as a scheduler would whose bind was in flight.
    Workload::new(SHOP, "late", 1)
        .request("cpu", "1")
        .spec(|spec| spec.node_selector = Some([("tier".to_owned(), "late".to_owned())].into()))
        .deployment(&world.client)
        .await?;
    let agent = world.agent().await?;
    let rotation = world.rotate(&agent, "n1", OptionsRequest::default()).await?;
    world.until(&agent, &rotation.id, "one Pod to move", |it| it.progress.to_move == 1).await?;

    let pods = Api::<Pod>::namespaced(world.client.clone(), SHOP);
    let late = eventually("the late Pod", SOON, async || {
        let seen = pods.list(&kube::api::ListParams::default().labels("app=late")).await?.items;
        Ok(seen.into_iter().next())
    })
    .await?;
    let binding = Binding {
        metadata: ObjectMeta { name: Some(late.name_any()), ..ObjectMeta::default() },
        target: ObjectReference {
            api_version: Some("v1".to_owned()),
            kind: Some("Node".to_owned()),
            name: Some("n1".to_owned()),
            ..ObjectReference::default()
        },
    };
    let answer: serde_json::Value =
        pods.create_subresource("binding", &late.name_any(), &PostParams::default(), &binding).await?;
    drop(answer);
    world.until(&agent, &rotation.id, "the late Pod to be counted", |it| it.progress.to_move == 2).await?;

    let since = world.recorder.now();
    let room = FakeNode::new("n2").allocatable("cpu", "2").label("tier", "late");
    world.node(room).await?;
    world.phase(&agent, &rotation.id, Phase::Succeeded).await?;
    world.running("web", 1).await?;
    world.running("late", 1).await?;
    world.room_was_there(since, 2)?;
    world.nothing_left().await
}

/// A StatefulSet's Pod comes back under its name: on another node it is a landed replacement, not a Pod to evict.
async fn a_pod_replaced_under_its_name_is_not_evicted_again(world: &World) -> Result<()> {
    world.node(FakeNode::new("n1").allocatable("cpu", "1")).await?;
    Workload::new(SHOP, "db", 1).request("cpu", "1").stateful_set(&world.client).await?;
    let first = world.running("db", 1).await?.remove(0);
    world.node(FakeNode::new("n2").allocatable("cpu", "1")).await?;
    let agent = world.agent().await?;
    let since = world.recorder.now();

    let rotation = world.rotate(&agent, "n1", OptionsRequest::default()).await?;
    let done = world.phase(&agent, &rotation.id, Phase::Succeeded).await?;

    let second = world.running("db", 1).await?.remove(0);
    ensure!(second.uid() != first.uid() && second.name_any() == first.name_any());
    ensure!(workloads::node_of(&second) == "n2");
    ensure!(done.progress.evicted == 1, "{:?}", done.progress);
    let lives = world.moved_since(since);
    ensure!(lives.len() == 1, "it was created more than once: {lives:#?}");
    world.room_was_there(since, 1)?;

    // An eviction that still names the first one's UID must not touch the second.
    let stale = workloads::evict(&world.client, &first).await.err().context("it was accepted")?;
    ensure!(matches!(&stale, kube::Error::Api(status) if status.code == 409), "{stale}");
    world.nothing_left().await
}

async fn a_pod_replaced_while_room_is_reserved_is_not_moved(world: &World) -> Result<()> {
    world.autoscaled().await?;
    world.node(FakeNode::new("n1").allocatable("cpu", "2")).await?;
    Workload::new(SHOP, "db", 2).request("cpu", "1").stateful_set(&world.client).await?;
    world.running("db", 2).await?;
    let agent = world.agent().await?;
    let rotation = world.rotate(&agent, "n1", OptionsRequest::default()).await?;
    world.until(&agent, &rotation.id, "two Pods to move", |it| it.progress.to_move == 2).await?;

    // Somebody else deletes one; it comes back under its name and waits, since the candidate is cordoned.
    let pods = Api::<Pod>::namespaced(world.client.clone(), SHOP);
    pods.delete("db-0", &DeleteParams::default()).await?;
    world.node(FakeNode::new("n2").allocatable("cpu", "2")).await?;
    world.phase(&agent, &rotation.id, Phase::Succeeded).await?;
    let nodes: Vec<_> = world.running("db", 2).await?.iter().map(workloads::node_of).collect();
    ensure!(nodes.iter().all(|node| node == "n2"), "{nodes:?}");
    world.nothing_left().await
}

/// kube's own client retries a 429 fifteen times: a closed budget would hide for minutes behind a request that hangs.
async fn a_refused_eviction_is_one_request(world: &World) -> Result<()> {
    world.nodes(1, "2").await?;
    let pod = world.deployment("web", 1, "1").await?.remove(0);
    workloads::disruption_budget(&world.client, SHOP, "web", Some(IntOrString::Int(1)), None).await?;
    let client = world.backend.production_client().await?;

    let answer = evict::evict(&client, &eviction(&pod)).await?;

    ensure!(matches!(&answer, Answer::Budget { message } if message.contains("web")), "{answer:?}");
    let asked = world.backend.evictions_of(&pod.name_any())?;
    ensure!(asked == 1, "it was asked for {asked} times");
    Ok(())
}

/// kube's own eviction sends its preconditions where the API server does not look.
async fn an_eviction_with_another_uid_is_refused(world: &World) -> Result<()> {
    world.nodes(1, "2").await?;
    let pod = world.deployment("web", 1, "1").await?.remove(0);
    let client = world.backend.production_client().await?;
    let other = "00000000-0000-0000-0000-000000000000".to_owned();

    let answer = evict::evict(&client, &Eviction { uid: other, ..eviction(&pod) }).await?;

    ensure!(answer == Answer::Replaced, "{answer:?}");
    let still = world.running("web", 1).await?.remove(0);
    ensure!(still.uid() == pod.uid(), "the Pod was evicted");
    Ok(())
}

/// Half of the Pods are under a budget that allows none, and the eviction of the others is refused by admission.
async fn evictions_are_refused_at_most_once_in_five_seconds(world: &World) -> Result<()> {
    world.nodes(1, "8").await?;
    let api = world.deployment("api", 4, "1").await?.remove(0);
    // There is room for four of the five: the one that waits uses the budget up.
    Workload::new(SHOP, "web", 5).request("cpu", "1").deployment(&world.client).await?;
    let full = async || Ok((world.workload_on("n1").await?.len() == 8).then_some(()));
    eventually("a full node", SOON, full).await?;
    workloads::disruption_budget(&world.client, SHOP, "web", None, Some(IntOrString::Int(1))).await?;
    let (policies, bindings) = (Api::all(world.client.clone()), Api::all(world.client.clone()));
    let policy: ValidatingAdmissionPolicy = serde_json::from_value(json!({
        "metadata": { "name": "not-now" },
        "spec": {
            "matchConstraints": { "resourceRules": [{
                "apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods/eviction"],
            }] },
            "validations": [{ "expression": "!object.metadata.name.startsWith('api-')", "message": "not now" }],
        },
    }))?;
    let binding: ValidatingAdmissionPolicyBinding = serde_json::from_value(json!({
        "metadata": { "name": "not-now" },
        "spec": { "policyName": "not-now", "validationActions": ["Deny"] },
    }))?;
    policies.create(&PostParams::default(), &policy).await?;
    bindings.create(&PostParams::default(), &binding).await?;
    let other = "00000000-0000-0000-0000-000000000000".to_owned();
    eventually("the policy to be minded", SOON, async || {
        let answer = evict::evict(&world.client, &Eviction { uid: other.clone(), ..eviction(&api) }).await?;
        Ok(answer.is_refusal().then_some(()))
    })
    .await?;
    let agent = world.agent().await?;
    let mark = world.backend.mark()?;
    let options = OptionsRequest { surge: Some(SurgeMode::None), ..OptionsRequest::default() };
    let rotation = world.rotate(&agent, "n1", options).await?;
    world
        .until(&agent, &rotation.id, "a refusal to be told", |it| {
            it.waiting.iter().any(|wait| wait.code == Code::EvictionRefused && wait.message.contains("not now"))
        })
        .await?;

    world.backend.clock().sleep(Duration::from_secs(12)).await;

    let mut refused = world.backend.agents_requests(mark)?;
    refused.retain(|request| request.resource() == "pods/eviction" && request.code() >= 400);
    ensure!((2..=4).contains(&refused.len()), "{refused:#?}");
    for pair in refused.windows(2) {
        let apart = pair[1].received.duration_since(pair[0].received);
        ensure!(apart.as_secs() >= 5, "refused {apart:#} apart: {pair:#?}");
    }
    ensure!(world.workload_on("n1").await?.len() == 8, "one was evicted");

    bindings.delete("not-now", &DeleteParams::default()).await?;
    policies.delete("not-now", &DeleteParams::default()).await?;
    world.node(FakeNode::new("n2").allocatable("cpu", "10")).await?;
    world.phase(&agent, &rotation.id, Phase::Succeeded).await?;
    world.running("web", 5).await?;
    world.running("api", 4).await?;
    world.nothing_left().await
}

fn eviction(pod: &Pod) -> Eviction {
    Eviction {
        namespace: SHOP.to_owned(),
        name: pod.name_any(),
        uid: pod.uid().unwrap_or_default(),
        grace_period_seconds: None,
        bypass: false,
    }
}
