//! Our predicate and our translation of constraints against the real scheduler, on random clusters.

use std::time::Duration;

use anyhow::{Context, Result, anyhow, ensure};
use futures::future::try_join_all;
use k8s_openapi::api::core::v1::{Namespace, Node, Pod, PodCondition};
use k8s_openapi::api::scheduling::v1::PriorityClass;
use kube::Client;
use kube::api::{Api, DeleteParams, ListParams, Patch, PatchParams, PostParams};
use proptest::strategy::{Strategy, ValueTree};
use proptest::test_runner::{Config, TestRng, TestRunner};
use rotate_shared::names;
use serde_json::{Value, json};

use crate::checks::{self, Cluster, NAMESPACE, Scene, Seen, scene};
use crate::harness::ControlPlane;
use crate::harness::nodes::FakeNode;
use crate::harness::wait::eventually;
use crate::harness::workloads;

const SOON: Duration = Duration::from_secs(20);
/// Ample for a preemption.
const LANDS: Duration = Duration::from_secs(10);
/// Of each kind. The simulator runs hundreds.
const SCENES: usize = 8;

/// The real one.
struct Real(Client);

impl Real {
    fn pods(&self, namespace: &str) -> Api<Pod> {
        Api::namespaced(self.0.clone(), namespace)
    }

    async fn node_of(&self, namespace: &str, name: &str) -> Result<Option<String>> {
        Ok(self.pods(namespace).get(name).await?.spec.and_then(|spec| spec.node_name))
    }

    /// Removes everything of a scene.
    async fn clear(&self) -> Result<()> {
        for namespace in [NAMESPACE, names::ROOM_NAMESPACE] {
            for pod in self.pods(namespace).list(&ListParams::default()).await? {
                Cluster::delete(self, namespace, &pod.metadata.name.unwrap_or_default()).await;
            }
        }
        let nodes = Api::<Node>::all(self.0.clone());
        nodes.delete_collection(&DeleteParams::default(), &ListParams::default()).await?;
        eventually("no nodes", SOON, async || {
            Ok(nodes.list(&ListParams::default()).await?.items.is_empty().then_some(()))
        })
        .await
    }
}

fn unschedulable(pod: &Pod) -> bool {
    let conditions = pod.status.as_ref().and_then(|status| status.conditions.as_ref());
    let says = |condition: &PodCondition| condition.type_ == "PodScheduled" && condition.status == "False";
    conditions.is_some_and(|conditions| conditions.iter().any(says))
}

impl Cluster for Real {
    async fn create(&self, pod: Value) -> Value {
        let namespace = pod["metadata"]["namespace"].as_str().unwrap_or_default().to_owned();
        let pod: Pod = serde_json::from_value(pod).expect("a Pod");
        let created = self.pods(&namespace).create(&PostParams::default(), &pod).await.expect("the Pod is accepted");
        serde_json::to_value(created).expect("a Pod is JSON")
    }

    async fn decided(&self, namespace: &str, name: &str) -> Option<String> {
        let decided = eventually("the scheduler's decision", SOON, async || {
            let pod = self.pods(namespace).get(name).await?;
            let node = pod.spec.as_ref().and_then(|spec| spec.node_name.clone());
            Ok((node.is_some() || unschedulable(&pod)).then_some(node))
        });
        decided.await.expect("the scheduler decides")
    }

    async fn landed(&self, namespace: &str, name: &str) -> Option<String> {
        eventually("a node", LANDS, async || self.node_of(namespace, name).await).await.ok()
    }

    async fn delete(&self, namespace: &str, name: &str) {
        let pods = self.pods(namespace);
        // It may have been preempted meanwhile.
        let _ = pods.delete(name, &DeleteParams::default().grace_period(0)).await;
        let gone = eventually("its end", SOON, async || Ok(pods.get_opt(name).await?.is_none().then_some(())));
        gone.await.expect("the Pod ends");
    }

    async fn cordon(&self, node: &str) {
        let nodes = Api::<Node>::all(self.0.clone());
        let cordon = json!({ "spec": { "unschedulable": true } });
        nodes.patch(node, &PatchParams::default(), &Patch::Merge(cordon)).await.expect("the node takes the cordon");
        let tainted = eventually("the taint of the cordon", SOON, async || {
            let taints = nodes.get(node).await?.spec.and_then(|spec| spec.taints).unwrap_or_default();
            Ok(taints.iter().any(|taint| taint.key == "node.kubernetes.io/unschedulable").then_some(()))
        });
        tainted.await.expect("the controller manager taints it");
    }

    async fn objects(&self) -> (Vec<Value>, Vec<Value>) {
        let all = ListParams::default();
        let nodes = Api::<Node>::all(self.0.clone()).list(&all).await.expect("nodes can be listed");
        let pods = Api::<Pod>::all(self.0.clone()).list(&all).await.expect("Pods can be listed");
        let json = |value: Result<Value, serde_json::Error>| value.expect("an object is JSON");
        (
            nodes.items.iter().map(|node| json(serde_json::to_value(node))).collect(),
            pods.items.iter().map(|pod| json(serde_json::to_value(pod))).collect(),
        )
    }
}

pub(crate) async fn predicate_and_translation_hold() -> Result<()> {
    // Its own: nodes of other tests would be domains of a spread.
    let plane = ControlPlane::start().await?;
    let real = Real(plane.client().await?);
    prepare(&real.0).await?;
    let config = Config { failure_persistence: None, ..Config::default() };
    let rng = TestRng::deterministic_rng(config.rng_algorithm);
    let mut runner = TestRunner::new_with_rng(config, rng);
    let mut next = || -> Result<Scene> {
        let tree = scene().new_tree(&mut runner).map_err(|reason| anyhow!("no scene: {reason}"))?;
        Ok(tree.current())
    };
    let (mut fitted, mut promised) = (Seen::default(), Seen::default());
    for round in 0..SCENES {
        let fitting = next()?;
        nodes(&real.0, &fitting).await?;
        let cordoned = format!("node-{}", round % fitting.machines.len());
        let cordoned = (round % 2 == 1).then_some(&*cordoned);
        fitted += checks::predicate_agrees(&real, &fitting, round % 3, cordoned)
            .await
            .map_err(|why| anyhow!("{why}: {fitting:#?}"))?;
        real.clear().await?;

        let promisable = next()?;
        nodes(&real.0, &promisable).await?;
        promised +=
            checks::promise_is_kept(&real, &promisable).await.map_err(|why| anyhow!("{why}: {promisable:#?}"))?;
        real.clear().await?;
    }
    ensure!(fitted.placed > 0 && promised.placed > 0, "nothing was put to the test: {fitted:?} {promised:?}");
    Ok(())
}

async fn prepare(client: &Client) -> Result<()> {
    workloads::namespace(client, NAMESPACE).await?;
    let room: Namespace = serde_json::from_value(json!({ "metadata": {
        "name": names::ROOM_NAMESPACE,
        "labels": { "pod-security.kubernetes.io/enforce": "privileged" },
    } }))?;
    Api::all(client.clone()).create(&PostParams::default(), &room).await?;
    workloads::default_service_account(client, names::ROOM_NAMESPACE).await?;
    let class: PriorityClass = serde_json::from_value(checks::priority_class())?;
    Api::all(client.clone()).create(&PostParams::default(), &class).await?;
    Ok(())
}

/// The nodes of a scene, all of them Ready.
async fn nodes(client: &Client, scene: &Scene) -> Result<()> {
    let nodes = scene.machines.iter().enumerate().map(|(place, machine)| {
        let mut node = FakeNode::new(&format!("node-{place}")).zone(machine.zone);
        node = node.allocatable("cpu", &machine.cpu.to_string());
        if machine.gpu {
            node = node.label("gpu", "true");
        }
        if machine.tainted {
            node = node.taint("dedicated", "yes", "NoSchedule");
        }
        async move { node.create_ready(client).await.context("a node becomes Ready") }
    });
    try_join_all(nodes).await?;
    Ok(())
}
