//! What the harness promises to the tests that use it.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::{ConfigMap, Event, Node, Pod, PodSpec};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use kube::api::{Api, DeleteParams, ListParams, Patch, PatchParams};
use kube::{Client, ResourceExt};
use rotate_agent::clock::Clock;
use rotate_agent::provider::cluster_autoscaler::status::Status;
use serde_json::json;
use tokio::time::Instant;

use crate::harness::ControlPlane;
use crate::harness::autoscaler::{Autoscaler, Group};
use crate::harness::credentials::User;
use crate::harness::nodes::{self, FakeNode, READY_AFTER};
use crate::harness::wait::eventually;
use crate::harness::workloads::{self, COMPLETES_AFTER, READY, STOPS_AFTER, Workload};
use crate::karpenter::{self, Karpenter, NodePool};

/// Ample for what takes a second on an idle machine.
const SOON: Duration = Duration::from_secs(30);

/// Two CPUs, in a pool that only one test's Pods select.
fn pool_node(pool: &str, name: &str) -> FakeNode {
    FakeNode::new(&format!("{pool}-{name}")).label("pool", pool).allocatable("cpu", "2").zone("b")
}

fn in_pool(pool: &str) -> impl FnOnce(&mut PodSpec) {
    let selector = [("pool".to_owned(), pool.to_owned())].into();
    |spec| spec.node_selector = Some(selector)
}

pub(crate) async fn a_deployment_runs_and_an_evicted_pod_is_replaced(plane: &ControlPlane) -> Result<()> {
    let client = plane.client().await?;
    workloads::namespace(&client, "evict").await?;
    for name in ["1", "2", "3"] {
        pool_node("evict", name).create_ready(&client).await?;
    }
    Workload::new("evict", "web", 9).spec(in_pool("evict")).deployment(&client).await?;
    let before = workloads::running(&client, "evict", "web", 9, SOON).await?;
    ensure!(before.iter().all(|pod| workloads::node_of(pod).starts_with("evict-")));

    let gone = before.first().context("nine Pods have a first one")?;
    workloads::evict(&client, gone).await?;
    let after = workloads::running(&client, "evict", "web", 9, SOON).await?;
    ensure!(after.iter().all(|pod| pod.uid() != gone.uid()));

    let again = workloads::evict(&client, gone).await.err().context("it is gone")?;
    ensure!(matches!(&again, kube::Error::Api(status) if status.code == 404), "{again}");
    Ok(())
}

pub(crate) async fn a_disruption_budget_refuses(plane: &ControlPlane) -> Result<()> {
    let client = plane.client().await?;
    workloads::namespace(&client, "budget").await?;
    pool_node("budget", "1").create_ready(&client).await?;
    let workload = Workload::new("budget", "web", 2).spec(in_pool("budget"));
    workload.replica_set(&client).await?;
    let pods = workloads::running(&client, "budget", "web", 2, SOON).await?;
    let all = Some(IntOrString::String("100%".to_owned()));
    workloads::disruption_budget(&client, "budget", "web", all, None).await?;
    let mark = plane.audit().mark()?;
    let refused = workloads::evict(&client, &pods[0]).await.err().context("the budget allows none")?;
    ensure!(matches!(&refused, kube::Error::Api(status) if status.code == 429), "{refused}");

    // Asked once: kube's own retries are off. The body carries the precondition.
    let mut asked = plane.audit().of(User::Admin.name(), mark)?;
    asked.retain(|it| it.resource() == "pods/eviction" && it.namespace() == "budget");
    let [only] = asked.as_slice() else { anyhow::bail!("one eviction, not {}", asked.len()) };
    ensure!(only.is_write() && only.code() == 429 && only.name() == pods[0].name_any());
    ensure!(only.request_object["deleteOptions"]["preconditions"]["uid"] == pods[0].uid().unwrap_or_default());

    workloads::namespace(&client, "budget-one").await?;
    let one = Some(IntOrString::Int(1));
    let counted = workloads::disruption_budget(&client, "budget-one", "none", None, one).await?;
    ensure!(counted.status.is_some_and(|status| status.expected_pods == 0));
    Ok(())
}

pub(crate) async fn a_late_node_receives_pods_only_once_it_is_ready(plane: &ControlPlane) -> Result<()> {
    let client = plane.client().await?;
    workloads::namespace(&client, "late").await?;
    let template = pool_node("late", "template").allocatable("nvidia.com/gpu", "2").taint("only", "late", "NoSchedule");
    let boot = Duration::from_secs(4);
    let group = Group::new("late", 0, 1);
    let described = template.clone().allocatable("nvidia.com/gpu", "1");
    let autoscaler = Autoscaler::new(client.clone(), "late", template, boot).group(group, Clock::system());
    let growing = autoscaler.described(described).unneeded(Duration::from_secs(2)).start().await?;

    let began = Instant::now();
    let workload = Workload::new("late", "web", 2).request("nvidia.com/gpu", "1").spec(in_pool("late"));
    let tolerant = workload.spec(|spec| {
        spec.tolerations = Some(vec![Default::default()]);
        spec.tolerations.iter_mut().flatten().for_each(|any| {
            any.key = Some("only".to_owned());
            any.operator = Some("Exists".to_owned());
        });
    });
    tolerant.deployment(&client).await?;
    let nodes = Api::<Node>::all(client.clone());
    let booting = eventually("the late node", SOON, async || Ok(nodes.get_opt("late-1").await?)).await?;
    ensure!(!nodes::is_ready(&booting));
    let pods = workloads::running(&client, "late", "web", 2, SOON).await?;
    ensure!(began.elapsed() >= boot - Duration::from_secs(1), "on a booting node after {:?}", began.elapsed());
    ensure!(pods.iter().all(|pod| workloads::node_of(pod) == "late-1"));
    ensure!(!growing.failed());
    ensure!(nodes.list(&ListParams::default().labels("pool=late")).await?.items.len() == 1);
    let maps = Api::<ConfigMap>::namespaced(client.clone(), "kube-system");
    eventually("the status of a group of one node", SOON, async || {
        let status = maps.get("cluster-autoscaler-status").await?.data.unwrap_or_default().remove("status");
        let told = Status::parse(&status.unwrap_or_default());
        Ok(told.told(Clock::system().now()).is_ok_and(|told| told.groups[0].target == 1).then_some(()))
    })
    .await?;
    // The second Pod did not fit on what the group was said to be, and more than one node it may not have.
    let events = Api::<Event>::namespaced(client.clone(), "late").list(&ListParams::default()).await?.items;
    let refused = events.iter().filter(|event| event.reason.as_deref() == Some("NotTriggerScaleUp"));
    ensure!(refused.count() == 1, "{events:#?}");
    Api::<Deployment>::namespaced(client.clone(), "late").delete("web", &DeleteParams::default()).await?;
    eventually("the empty node to go", SOON, async || Ok(nodes.get_opt("late-1").await?.is_none().then_some(())))
        .await?;
    Ok(())
}

pub(crate) async fn pods_take_their_time(plane: &ControlPlane) -> Result<()> {
    let client = plane.client().await?;
    let ns = "slow";
    workloads::namespace(&client, ns).await?;
    pool_node(ns, "1").create_ready(&client).await?;
    let pods = Api::<Pod>::namespaced(client.clone(), ns);

    let began = Instant::now();
    let slow = Workload::new(ns, "slow", 1).annotation(READY_AFTER, "4").annotation(STOPS_AFTER, "3");
    slow.spec(in_pool(ns)).deployment(&client).await?;
    Workload::new(ns, "sick", 1).annotation(READY, "never").spec(in_pool(ns)).bare_pod(&client).await?;
    let job = Workload::new(ns, "job", 1).annotation(COMPLETES_AFTER, "3").spec(in_pool(ns));
    job.job(&client).await?;
    workloads::running(&client, ns, "job", 1, SOON).await?;

    let started = workloads::running(&client, ns, "slow", 1, SOON).await?;
    ensure!(began.elapsed() >= Duration::from_secs(3), "started after {:?}", began.elapsed());
    let sick = pods.get("sick").await?.status.context("kwok has seen it")?;
    ensure!(sick.phase.as_deref() == Some("Running") && !workloads::is_running(&pods.get("sick").await?));

    let stopping = started.first().context("it runs")?;
    let asked = Instant::now();
    workloads::evict(&client, stopping).await?;
    gone(&client, ns, &stopping.name_any()).await?;
    let took = asked.elapsed();
    ensure!(took >= Duration::from_secs(2) && took < Duration::from_secs(15), "stopped after {took:?}");

    let whole = Workload::new(ns, "whole", 1).annotation(STOPS_AFTER, "grace").spec(in_pool(ns));
    whole.spec(|spec| spec.termination_grace_period_seconds = Some(4)).bare_pod(&client).await?;
    workloads::running(&client, ns, "whole", 1, SOON).await?;
    let asked = Instant::now();
    pods.delete("whole", &DeleteParams::default()).await?;
    gone(&client, ns, "whole").await?;
    let took = asked.elapsed();
    ensure!(took >= Duration::from_secs(3) && took < Duration::from_secs(15), "stopped after {took:?}");

    let jobs = Api::<Job>::namespaced(client.clone(), ns);
    eventually("the job to complete", SOON, async || {
        let succeeded = jobs.get("job").await?.status.and_then(|status| status.succeeded);
        Ok((succeeded == Some(1)).then_some(()))
    })
    .await
}

pub(crate) async fn every_kind_of_workload_runs(plane: &ControlPlane) -> Result<()> {
    let client = plane.client().await?;
    let ns = "kinds";
    workloads::namespace(&client, ns).await?;
    pool_node(ns, "1").create_ready(&client).await?;
    let slow = pool_node(ns, "2").ready_after(Duration::from_secs(2)).create(&client).await?;
    nodes::ready(&client, &slow.name_any(), SOON).await?;
    Workload::new(ns, "daemons", 2).spec(in_pool(ns)).daemon_set(&client).await?;
    Workload::new(ns, "state", 2).spec(in_pool(ns)).stateful_set(&client).await?;
    Workload::new(ns, "bare", 1).spec(in_pool(ns)).bare_pod(&client).await?;
    workloads::running(&client, ns, "daemons", 2, SOON).await?;
    workloads::running(&client, ns, "state", 2, SOON).await?;
    workloads::running(&client, ns, "bare", 1, SOON).await.map(drop)
}

pub(crate) async fn the_audit_log_tells_who_asked_for_what(plane: &ControlPlane) -> Result<()> {
    let nobody = plane.client_of(User::Nobody).await?;
    let (mark, asked_at) = (plane.audit().mark()?, Clock::system().now());
    let refused = Api::<Event>::all(nobody).list(&ListParams::default().limit(7)).await;
    ensure!(refused.is_err(), "nobody may list events");
    let seen = plane.audit().of(User::Nobody.name(), mark)?;
    let [only] = seen.as_slice() else { anyhow::bail!("one request, not {}", seen.len()) };
    ensure!(only.verb == "list" && only.resource() == "events" && only.code() == 403 && !only.is_write());
    ensure!(only.uri.contains("limit=7"));
    ensure!(only.received.duration_since(asked_at).abs() < jiff::SignedDuration::from_secs(5), "{only:?}");

    ensure!(plane.controller_manager_log().exists() && plane.certificate_authority().exists());
    ensure!(plane.pids().len() == 5 && plane.agent_port() != 0);
    let path = plane.kubeconfig_with_token("copy", plane.admin_token())?;
    ensure!(std::fs::read_to_string(path)?.contains(&plane.server()));
    ensure!(plane.kubeconfig_path().exists());
    Ok(())
}

/// A second deletion, by name, would hit the Pod that a StatefulSet makes anew under it.
pub(crate) async fn a_stopped_pod_is_deleted_once(plane: &ControlPlane) -> Result<()> {
    let client = plane.client().await?;
    let ns = "named";
    workloads::namespace(&client, ns).await?;
    pool_node(ns, "1").create_ready(&client).await?;
    Workload::new(ns, "db", 1).spec(in_pool(ns)).stateful_set(&client).await?;
    let pods = Api::<Pod>::namespaced(client.clone(), ns);
    let mark = plane.audit().mark()?;
    for _ in 0..3 {
        let pod = workloads::running(&client, ns, "db", 1, SOON).await?.remove(0);
        workloads::evict(&client, &pod).await?;
        eventually("another Pod of that name", SOON, async || {
            Ok(pods.get_opt("db-0").await?.filter(|next| next.uid() != pod.uid()))
        })
        .await?;
    }
    workloads::running(&client, ns, "db", 1, SOON).await?;
    let requests = plane.audit().of(User::Kwok.name(), mark)?;
    let deletions = requests.iter().filter(|it| it.verb == "delete" && it.namespace() == ns).count();
    ensure!(deletions == 3, "kwok deleted three Pods {deletions} times");
    Ok(())
}

pub(crate) async fn a_lost_node_takes_its_pods_readiness(plane: &ControlPlane) -> Result<()> {
    let client = plane.client().await?;
    let ns = "lost";
    workloads::namespace(&client, ns).await?;
    pool_node(ns, "1").create_ready(&client).await?;
    let workload = Workload::new(ns, "web", 1).spec(in_pool(ns));
    workload.deployment(&client).await?;
    workloads::running(&client, ns, "web", 1, SOON).await?;
    nodes::lose(&client, "lost-1").await?;
    let nodes = Api::<Node>::all(client.clone());
    let lost = eventually("the taint of the lost node", SOON, async || {
        let unreachable = |node: &Node| nodes::is_tainted(node, "node.kubernetes.io/unreachable");
        Ok(Some(nodes.get("lost-1").await?).filter(unreachable))
    });
    ensure!(!nodes::is_ready(&lost.await?), "kwok has revived it");
    let pods = Api::<Pod>::namespaced(client.clone(), ns).list(&ListParams::default()).await?;
    ensure!(pods.items.iter().all(|pod| !workloads::is_running(pod)));
    Ok(())
}

pub(crate) async fn a_pod_that_the_controller_manager_takes_for_not_ready_recovers(plane: &ControlPlane) -> Result<()> {
    let client = plane.client().await?;
    let ns = "taken";
    workloads::namespace(&client, ns).await?;
    pool_node(ns, "1").create_ready(&client).await?;
    Workload::new(ns, "web", 1).spec(in_pool(ns)).deployment(&client).await?;
    let pod = workloads::running(&client, ns, "web", 1, SOON).await?.remove(0);
    let not_ready = json!({"status": {"conditions": [{"type": "Ready", "status": "False"}]}});
    let pods = Api::<Pod>::namespaced(client.clone(), ns);
    let patched = pods.patch_status(&pod.name_any(), &PatchParams::default(), &Patch::Strategic(&not_ready)).await?;
    ensure!(!workloads::is_running(&patched));
    let again = workloads::running(&client, ns, "web", 1, SOON).await?.remove(0);
    ensure!(again.metadata.uid == pod.metadata.uid);
    Ok(())
}

pub(crate) async fn the_api_server_comes_back_with_everything() -> Result<()> {
    let mut plane = ControlPlane::start().await?;
    let client = plane.client().await?;
    workloads::namespace(&client, "before").await?;
    plane.restart_apiserver().await?;
    workloads::default_service_account(&client, "before").await?;
    FakeNode::new("after").create_ready(&client).await.map(drop)
}

/// Waits until no Pod has this name; its successor has another one.
async fn gone(client: &Client, namespace: &str, name: &str) -> Result<()> {
    let pods = Api::<Pod>::namespaced(client.clone(), namespace);
    eventually(&format!("the end of {name}"), SOON, async || Ok(pods.get_opt(name).await?.is_none().then_some(())))
        .await
}

pub(crate) async fn karpenter_brings_a_node_and_takes_it_away() -> Result<()> {
    let plane = ControlPlane::start().await?;
    let client = plane.client().await?;
    let mut karpenter = Karpenter::start(&plane).await?;
    NodePool::new("general", "c-4")
        .zones(&["b"])
        .boot(Duration::from_secs(5))
        .limit("nodes", "1")
        .create(&client)
        .await?;
    workloads::namespace(&client, "boot").await?;
    let began = Instant::now();
    Workload::new("boot", "web", 2).request("cpu", "1").deployment(&client).await?;
    let pods = workloads::running(&client, "boot", "web", 2, SOON).await?;
    // A creationTimestamp has no part finer than a second.
    ensure!(began.elapsed() >= Duration::from_secs(4), "Pods ran on a node that still booted: {:?}", began.elapsed());

    let claims = karpenter::claims_of(&client, "general").await?;
    let [claim] = claims.as_slice() else { anyhow::bail!("one NodeClaim, not {claims:#?}") };
    let name = karpenter::node_of(claim);
    ensure!(pods.iter().all(|pod| workloads::node_of(pod) == name), "{name}");
    let node = Api::<Node>::all(client.clone()).get(name).await?;
    ensure!(node.labels()["topology.kubernetes.io/zone"] == "b" && node.labels()[karpenter::POOL] == "general");
    let status = node.status.context("a status")?;
    let allocatable = status.allocatable.unwrap_or_default();
    ensure!(allocatable["cpu"].0 == "3900m" && status.capacity == Some(allocatable), "{:?}", status.capacity);

    // The pool is at its limit, so that the Pods, drained, come back only on what follows this node.
    karpenter.kill()?;
    karpenter.restart().await?;
    karpenter::node_claims(&client).delete(&claim.name_any(), &DeleteParams::default()).await?;
    eventually("the node to go", SOON, async || {
        Ok(Api::<Node>::all(client.clone()).get_opt(name).await?.is_none().then_some(()))
    })
    .await?;
    let again = workloads::running(&client, "boot", "web", 2, SOON).await?;
    ensure!(again.iter().all(|pod| workloads::node_of(pod) != name));
    Ok(())
}
