//! What a scenario has at hand: a cluster, an agent, a recorder, and ways to ask and to wait.

use std::cell::RefCell;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use axum::body::Body;
use http::{Request, StatusCode};
use http_body_util::BodyExt;
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::api::{Api, ListParams};
use kube::{Client, ResourceExt};
use rotate_agent::provider::PROTECTION;
use rotate_agent::provider::cluster_api::Management;
use rotate_agent::{Agent, Config, PodCache, bootstrap};
use rotate_shared::{OptionsRequest, Phase, Plan, PlanList, PlanRequest, Problem, Rotation, RotationRequest, names};
use serde_json::json;
use tower::ServiceExt;

use crate::backend::Backend;
use crate::harness::autoscaler::{GROUP_LABEL, Group};
use crate::harness::nodes::FakeNode;
use crate::harness::wait::eventually;
use crate::harness::workloads::{self, Workload};
use crate::recorder::{Life, Recorder};

/// Ample for a whole rotation on two busy cores.
pub(crate) const LONG: Duration = Duration::from_secs(120);
/// Ample for what takes a second on an idle machine.
pub(crate) const SOON: Duration = Duration::from_secs(30);
/// The namespace of the workloads.
pub(crate) const SHOP: &str = "shop";

/// A cluster with our namespaces, and one for workloads.
pub(crate) struct World {
    pub(crate) client: Client,
    pub(crate) recorder: Recorder,
    pub(crate) backend: Backend,
    pod_cache: PodCache,
    /// The group that all nodes are of, where an autoscaler is seen.
    group: RefCell<Option<Group>>,
}

impl World {
    /// The cluster, and what every agent in it reads.
    pub(crate) async fn new(backend: Backend, pod_cache: PodCache) -> Result<Self> {
        let client = backend.client();
        bootstrap::create(&client, &bootstrap::objects()).await.context("our own namespaces")?;
        workloads::namespace(&client, SHOP).await?;
        workloads::default_service_account(&client, names::ROOM_NAMESPACE).await?;
        let recorder = Recorder::start(client.clone()).await?;
        Ok(Self { client, recorder, backend, pod_cache, group: RefCell::new(None) })
    }

    // -- the cluster --

    /// Has all nodes that are made from now on belong to a group that an autoscaler tells of: more may come, and a plan
    /// may count on them. The scenario makes them itself, at the moment that it is about.
    pub(crate) async fn autoscaled(&self) -> Result<()> {
        let group = Group::new("web", 0, 20);
        group.tell(&self.client, self.backend.clock()).await?;
        self.group.replace(Some(group));
        Ok(())
    }

    /// So many nodes `n1`, `n2`, … with this much CPU, Ready.
    pub(crate) async fn nodes(&self, count: usize, cpu: &str) -> Result<()> {
        for number in 1..=count {
            self.node(FakeNode::new(&format!("n{number}")).allocatable("cpu", cpu)).await?;
        }
        Ok(())
    }

    /// A node, Ready.
    pub(crate) async fn node(&self, node: FakeNode) -> Result<Node> {
        let Some(group) = self.group.borrow().clone() else { return node.create_ready(&self.client).await };
        let node = node.label(GROUP_LABEL, &group.name).create_ready(&self.client).await?;
        group.tell(&self.client, self.backend.clock()).await?;
        Ok(node)
    }

    /// The node as it is.
    pub(crate) async fn get_node(&self, name: &str) -> Result<Node> {
        Ok(Api::<Node>::all(self.client.clone()).get(name).await?)
    }

    /// A Deployment of so many Pods with this much CPU each, running.
    pub(crate) async fn deployment(&self, name: &str, replicas: i32, cpu: &str) -> Result<Vec<Pod>> {
        Workload::new(SHOP, name, replicas).request("cpu", cpu).deployment(&self.client).await?;
        self.running(name, replicas).await
    }

    /// Waits until exactly so many Pods of an app run.
    pub(crate) async fn running(&self, app: &str, count: i32) -> Result<Vec<Pod>> {
        workloads::running(&self.client, SHOP, app, usize::try_from(count)?, SOON).await
    }

    /// Pods of all namespaces but ours that are bound to a node.
    pub(crate) async fn workload_on(&self, node: &str) -> Result<Vec<Pod>> {
        let bound = ListParams::default().fields(&format!("spec.nodeName={node}"));
        let pods = Api::<Pod>::all(self.client.clone()).list(&bound).await?.items;
        Ok(pods.into_iter().filter(|pod| pod.namespace().as_deref() != Some(names::ROOM_NAMESPACE)).collect())
    }

    /// Our placeholders.
    pub(crate) async fn placeholders(&self) -> Result<Vec<Pod>> {
        Ok(Api::<Pod>::namespaced(self.client.clone(), names::ROOM_NAMESPACE).list(&ListParams::default()).await?.items)
    }

    // -- the agent --

    /// Whether its agents read the Pods of all nodes: else a plan does not look for room.
    pub(crate) fn reads_all_pods(&self) -> bool {
        self.pod_cache == PodCache::Cluster
    }

    /// An agent that has read the cluster and leads.
    pub(crate) async fn agent(&self) -> Result<Agent> {
        self.agent_with(Config::default()).await
    }

    /// The same, set up in another way.
    pub(crate) async fn agent_with(&self, config: Config) -> Result<Agent> {
        self.start(config, None).await
    }

    /// The same, with the way to a management cluster.
    pub(crate) async fn managed_agent(&self, management: Management) -> Result<Agent> {
        self.start(Config::default(), Some(management)).await
    }

    async fn start(&self, config: Config, management: Option<Management>) -> Result<Agent> {
        let config = Config { pod_cache: self.pod_cache, ..config };
        let client = self.backend.agent_client().await?;
        let agent = Agent::start_managed(config, client, management, self.backend.clock());
        tokio::time::timeout(SOON, agent.ready()).await.context("the agent gets ready")?;
        Ok(agent)
    }

    /// Asks for the rotation of one node.
    pub(crate) async fn rotate(&self, agent: &Agent, node: &str, options: OptionsRequest) -> Result<Rotation> {
        match self.try_rotate(agent, node, options).await? {
            Ok(rotation) => Ok(rotation),
            Err(problem) => bail!("the rotation of {node} was refused: {problem:?}"),
        }
    }

    /// Asks for the rotation of one node, expecting that it may be refused.
    pub(crate) async fn try_rotate(
        &self,
        agent: &Agent,
        node: &str,
        options: OptionsRequest,
    ) -> Result<Result<Rotation, Problem>> {
        let request = RotationRequest { nodes: vec![node.to_owned()], options, ..RotationRequest::default() };
        let (status, body) = self.post(agent, "/v1/rotations", &serde_json::to_value(request)?).await?;
        if status.is_success() {
            let list: rotate_shared::RotationList = serde_json::from_slice(&body)?;
            return Ok(Ok(list.items.into_iter().next().context("one rotation was asked for")?));
        }
        Ok(Err(serde_json::from_slice(&body).with_context(|| format!("{status} without a problem document"))?))
    }

    /// Asks for the end of a rotation.
    pub(crate) async fn cancel(&self, agent: &Agent, id: &str) -> Result<()> {
        let (status, body) = self.post(agent, &format!("/v1/rotations/{id}/cancel"), &json!({})).await?;
        ensure!(status.is_success(), "cancel: {status} {}", String::from_utf8_lossy(&body));
        Ok(())
    }

    /// Asks that a rotation goes no further.
    pub(crate) async fn pause(&self, agent: &Agent, id: &str) -> Result<()> {
        let (status, body) = self.post(agent, &format!("/v1/rotations/{id}/pause"), &json!({})).await?;
        ensure!(status.is_success(), "pause: {status} {}", String::from_utf8_lossy(&body));
        Ok(())
    }

    /// The plan of one node.
    pub(crate) async fn plan(&self, agent: &Agent, node: &str, options: OptionsRequest) -> Result<Plan> {
        let request = PlanRequest { nodes: vec![node.to_owned()], options, ..PlanRequest::default() };
        let (status, body) = self.post(agent, "/v1/plans", &serde_json::to_value(request)?).await?;
        ensure!(status.is_success(), "plan: {status} {}", String::from_utf8_lossy(&body));
        let list: PlanList = serde_json::from_slice(&body)?;
        list.items.into_iter().next().context("one plan was asked for")
    }

    async fn post(&self, agent: &Agent, path: &str, body: &serde_json::Value) -> Result<(StatusCode, Vec<u8>)> {
        let request =
            Request::post(path).header("content-type", "application/json").body(Body::from(body.to_string()))?;
        let response = agent.router().oneshot(request).await?;
        let status = response.status();
        Ok((status, response.into_body().collect().await?.to_bytes().to_vec()))
    }

    /// The rotation as the agent shows it now.
    pub(crate) async fn rotation(&self, agent: &Agent, id: &str) -> Result<Rotation> {
        let response = agent.router().oneshot(Request::get(format!("/v1/rotations/{id}")).body(Body::empty())?).await?;
        let status = response.status();
        let body = response.into_body().collect().await?.to_bytes();
        ensure!(status.is_success(), "rotation {id}: {status} {}", String::from_utf8_lossy(&body));
        Ok(serde_json::from_slice(&body)?)
    }

    /// Waits until the rotation is as wanted; tells where it stood if it never is.
    pub(crate) async fn until(
        &self,
        agent: &Agent,
        id: &str,
        what: &str,
        wanted: impl Fn(&Rotation) -> bool,
    ) -> Result<Rotation> {
        let mut last = None;
        let waited = eventually(what, LONG, async || {
            let rotation = self.rotation(agent, id).await?;
            let done = wanted(&rotation);
            last = Some(rotation.clone());
            Ok(done.then_some(rotation))
        })
        .await;
        waited.with_context(|| format!("it stood at {last:#?}"))
    }

    /// Waits for a phase; a different end is an error.
    pub(crate) async fn phase(&self, agent: &Agent, id: &str, phase: Phase) -> Result<Rotation> {
        let what = format!("phase {phase} of rotation {id}");
        let reached = |rotation: &Rotation| rotation.phase == phase || rotation.phase.is_terminal();
        let rotation = self.until(agent, id, &what, reached).await?;
        ensure!(rotation.phase == phase, "rotation {id} ended as {:#?} instead of reaching {phase}", rotation);
        Ok(rotation)
    }

    // -- what must hold --

    /// What every finished rotation leaves behind: no placeholder, no marker of ours on any node.
    pub(crate) async fn nothing_left(&self) -> Result<()> {
        let no_placeholder = async || Ok(self.placeholders().await?.is_empty().then_some(()));
        eventually("the last placeholder to go", SOON, no_placeholder).await?;
        let nodes = Api::<Node>::all(self.client.clone()).list(&ListParams::default()).await?.items;
        // One that goes takes its markers along.
        for node in nodes.into_iter().filter(|node| node.metadata.deletion_timestamp.is_none()) {
            let ours = |key: &&String| key.starts_with("kubectl-rotate.dev/") && !key.contains("/test-");
            let left: Vec<_> = node.annotations().keys().chain(node.labels().keys()).filter(ours).collect();
            ensure!(left.is_empty(), "node {} still carries {left:?}", node.name_any());
            let protected = PROTECTION.iter().any(|key| node.annotations().contains_key(*key));
            ensure!(!protected, "node {} is still protected from its autoscaler", node.name_any());
        }
        Ok(())
    }

    /// Lives of workload Pods that were created after a moment.
    pub(crate) fn moved_since(&self, since: Duration) -> Vec<Life> {
        let lives = self.recorder.lives().into_iter();
        lives.filter(|life| life.created > since && life.namespace == SHOP).collect()
    }

    /// Every Pod created since then had a node within half a second: its room was there.
    pub(crate) fn room_was_there(&self, since: Duration, moved: usize) -> Result<()> {
        let lives = self.moved_since(since);
        ensure!(lives.len() >= moved, "{} Pods were created anew, expected {moved}: {lives:#?}", lives.len());
        for life in lives {
            let unscheduled = life.unscheduled().with_context(|| format!("{} never got a node", life.name))?;
            ensure!(unscheduled <= Duration::from_millis(500), "{} waited {unscheduled:?} for a node", life.name);
        }
        Ok(())
    }

    /// All that happened to Pods, for a failure's message.
    pub(crate) fn story(&self) -> String {
        let mut story = String::from("what happened to Pods:\n");
        for life in self.recorder.lives() {
            let at = |time: Option<Duration>| time.map_or("-".to_owned(), |time| format!("{:.2}", time.as_secs_f64()));
            story += &format!(
                "  {:>8.2} {}/{} bound {} {} ready {} terminating {} gone {}\n",
                life.created.as_secs_f64(),
                life.namespace,
                life.name,
                at(life.bound.as_ref().map(|(time, _)| *time)),
                life.bound.as_ref().map_or("", |(_, node)| node),
                at(life.ready),
                at(life.terminating),
                at(life.gone),
            );
        }
        story
    }
}

/// Whether a node is cordoned.
pub(crate) fn is_cordoned(node: &Node) -> bool {
    node.spec.as_ref().and_then(|spec| spec.unschedulable).unwrap_or(false)
}
