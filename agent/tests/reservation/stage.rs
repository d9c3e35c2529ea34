//! Plays a case: makes its objects, has the agent rotate its candidate, and looks where the Pods are.

use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail, ensure};
use axum::body::Body;
use futures::future::{join_all, try_join_all};
use http::Request;
use http_body_util::BodyExt;
use k8s_openapi::api::apps::v1::ReplicaSet;
use k8s_openapi::api::core::v1::{Node, PersistentVolume, PersistentVolumeClaim, Pod};
use k8s_openapi::api::scheduling::v1::PriorityClass;
use kube::api::{Api, DeleteParams, ListParams, Patch, PatchParams, PostParams};
use kube::{Client, ResourceExt};
use rotate_agent::clock::Clock;
use rotate_agent::{Agent, Config, bootstrap};
use rotate_shared::options::Then;
use rotate_shared::plan::{Class, Notice, PlanRequest, Room};
use rotate_shared::{Code, OptionsRequest, Phase, Plan, PlanList, Rotation, RotationList, RotationRequest, names};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::case::{Case, PRIORITIES};
use crate::harness::nodes;
use crate::harness::wait::eventually;
use crate::harness::workloads;

/// Ample on two busy cores.
const SOON: Duration = Duration::from_secs(60);
/// From the last event of a case's objects until the agent has seen it: its watches are as fast as ours.
const WATCHED: Duration = Duration::from_millis(300);

/// A cluster and an agent that cases are played on.
pub(crate) struct Stage {
    client: Client,
    agent: Agent,
    clock: Clock,
}

/// What became of a case.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// The plan said beforehand that room could not be promised, and why.
    Refused(Vec<Notice>),
    /// The candidate was emptied, and every Pod has a node.
    Moved,
}

impl Stage {
    /// An agent that works on so many nodes at once.
    pub(crate) async fn new(client: Client, clock: Clock, at_once: usize) -> Result<Self> {
        bootstrap::create(&client, &bootstrap::objects()).await.context("our own namespaces")?;
        workloads::default_service_account(&client, names::ROOM_NAMESPACE).await?;
        for (name, value, preemption) in PRIORITIES {
            let class = json!({ "metadata": { "name": name }, "value": value, "preemptionPolicy": preemption });
            let class: PriorityClass = serde_json::from_value(class)?;
            Api::all(client.clone()).create(&PostParams::default(), &class).await?;
        }
        let config = Config { max_concurrent: u32::try_from(at_once)?, ..Config::default() };
        let agent = Agent::start(config, client.clone(), clock);
        tokio::time::timeout(SOON, agent.ready()).await.context("the agent gets ready")?;
        Ok(Self { client, agent, clock })
    }

    /// Plays a case. An error is a promise that was broken, or a cluster that does not work.
    pub(crate) async fn play(&self, case: &Case) -> Result<Outcome> {
        if let Err(error) = self.set_up(case).await {
            bail!("set up: {error:#}\n{}", self.whereabouts(case).await?);
        }
        let outcome = self.rotate(case).await;
        self.clear(case).await.context("clear")?;
        outcome
    }

    async fn set_up(&self, case: &Case) -> Result<()> {
        let client = &self.client;
        workloads::namespace(client, &case.name).await?;
        create_all::<PersistentVolumeClaim>(Api::namespaced(client.clone(), &case.name), &case.claims).await?;
        create_all::<PersistentVolume>(Api::all(client.clone()), &case.volumes).await?;
        create_all::<Node>(Api::all(client.clone()), &case.nodes).await?;
        let ready = case.nodes.iter().map(|node| nodes::ready(client, text(&node["metadata"]["name"]), SOON));
        try_join_all(ready).await?;
        create_all::<Pod>(self.pods(case), &case.pods).await?;
        create_all::<ReplicaSet>(Api::namespaced(client.clone(), &case.name), &case.sets).await?;
        let all = ListParams::default();
        let mut looks = 0_u32;
        eventually("the Pods to run and to be adopted", SOON, async || {
            let pods = self.pods(case).list(&all).await?.items;
            let adopted = |pod: &Pod| {
                let app = pod.labels().get("app").map_or("", |app| app);
                !pod.owner_references().is_empty() || !case.sets.iter().any(|set| set["metadata"]["name"] == *app)
            };
            looks += 1;
            if looks.is_multiple_of(30) {
                // kwok passes over a Pod that it saw before its node.
                for pod in pods.iter().filter(|pod| !workloads::is_running(pod)) {
                    let seen = json!({ "metadata": { "annotations": { "kubectl-rotate.dev/test-looks": looks.to_string() } } });
                    self.pods(case).patch(&pod.name_any(), &PatchParams::default(), &Patch::Merge(seen)).await?;
                }
            }
            let settled = pods.iter().all(|pod| workloads::is_running(pod) && adopted(pod));
            Ok((pods.len() == case.pods.len() && settled).then_some(()))
        })
        .await
    }

    async fn rotate(&self, case: &Case) -> Result<Outcome> {
        self.clock.sleep(WATCHED).await;
        let options = OptionsRequest {
            then: Some(Then::Keep),
            surge_timeout_seconds: Some(40),
            settle_timeout_seconds: Some(30),
            ..OptionsRequest::default()
        };
        let node = case.candidate().to_owned();
        let request = PlanRequest { nodes: vec![node.clone()], options: options.clone(), ..PlanRequest::default() };
        let plans: PlanList = self.post("/v1/plans", &request).await?;
        let plan: Plan = plans.items.into_iter().next().context("a plan")?;
        if !plan.blockers.is_empty() {
            let foreign =
                plan.blockers.iter().find(|it| !matches!(it.code, Code::NoRoom | Code::ConstraintUnsupported));
            ensure!(foreign.is_none(), "the plan has a blocker of another kind: {foreign:?}");
            return Ok(Outcome::Refused(plan.blockers));
        }
        let request = RotationRequest { nodes: vec![node], options, ..RotationRequest::default() };
        let rotations: RotationList = self.post("/v1/rotations", &request).await?;
        let id = rotations.items.into_iter().next().context("a rotation")?.id;
        let mut waits: Vec<String> = Vec::new();
        let waited = eventually("the end of the rotation", SOON * 2, async || {
            let rotation: Rotation = self.get(&format!("/v1/rotations/{id}")).await?;
            for wait in &rotation.waiting {
                let line = format!("  {}: {}\n", wait.object, wait.message);
                if !waits.contains(&line) {
                    waits.push(line);
                }
            }
            Ok(rotation.phase.is_terminal().then_some(rotation))
        })
        .await;
        let sets: Vec<_> = case.sets.iter().map(|set| format!("  {}\n", set["spec"]["template"]["spec"])).collect();
        let whereabouts = self.whereabouts(case).await?;
        let story = format!("{}{}\n{}{whereabouts}", sets.concat(), in_words(&plan), waits.concat());
        let rotation = waited.map_err(|error| anyhow!("{error}\n{story}"))?;
        ensure!(rotation.phase == Phase::Succeeded, "it ended as {}\n{story}", rotation.phase);
        let pods = self.pods(case).list(&ListParams::default()).await?.items;
        for set in &case.sets {
            let of = |pod: &&Pod| pod.labels().get("app").map(String::as_str) == set["metadata"]["name"].as_str();
            let active: Vec<_> =
                pods.iter().filter(of).filter(|pod| pod.metadata.deletion_timestamp.is_none()).collect();
            let wanted = set["spec"]["replicas"].as_u64().unwrap_or(0);
            ensure!(active.len() as u64 == wanted, "{} of {wanted} Pods are there\n{story}", active.len());
            for pod in active {
                let node = workloads::node_of(pod);
                ensure!(!node.is_empty(), "{} was left Pending\n{story}", pod.name_any());
                ensure!(node != case.candidate(), "{} is on the candidate\n{story}", pod.name_any());
            }
        }
        Ok(Outcome::Moved)
    }

    /// Where Pods and placeholders are.
    async fn whereabouts(&self, case: &Case) -> Result<String> {
        let mut story = String::new();
        for api in [self.pods(case), Api::namespaced(self.client.clone(), names::ROOM_NAMESPACE)] {
            for pod in api.list(&ListParams::default()).await? {
                let conditions = pod.status.iter().flat_map(|status| status.conditions.iter().flatten());
                let why =
                    conditions.filter(|it| it.status == "False").find_map(|it| it.message.clone()).unwrap_or_default();
                let (name, node, ready) = (pod.name_any(), workloads::node_of(&pod), workloads::is_running(&pod));
                let owned = !pod.owner_references().is_empty();
                story += &format!("  {name} on {node:?}, ready {ready}, owned {owned}: {why}\n");
            }
        }
        Ok(story)
    }

    async fn clear(&self, case: &Case) -> Result<()> {
        let now = DeleteParams::default().grace_period(0);
        let all = ListParams::default();
        Api::<ReplicaSet>::namespaced(self.client.clone(), &case.name).delete_collection(&now, &all).await?;
        self.pods(case).delete_collection(&now, &all).await?;
        let nodes = Api::<Node>::all(self.client.clone());
        join_all(case.nodes.iter().map(|node| nodes.delete(text(&node["metadata"]["name"]), &now))).await;
        Ok(())
    }

    fn pods(&self, case: &Case) -> Api<Pod> {
        Api::namespaced(self.client.clone(), &case.name)
    }

    async fn post<T: DeserializeOwned>(&self, path: &str, body: &impl Serialize) -> Result<T> {
        let body = serde_json::to_string(body)?;
        let request = Request::post(path).header("content-type", "application/json").body(Body::from(body))?;
        self.send(request).await
    }

    async fn get<T: DeserializeOwned>(&self, path: &str) -> Result<T> {
        self.send(Request::get(path).body(Body::empty())?).await
    }

    async fn send<T: DeserializeOwned>(&self, request: Request<Body>) -> Result<T> {
        use tower::ServiceExt as _;
        let path = request.uri().to_string();
        let response = self.agent.router().oneshot(request).await?;
        let status = response.status();
        let body = response.into_body().collect().await?.to_bytes();
        if !status.is_success() {
            bail!("{path}: {status} {}", String::from_utf8_lossy(&body));
        }
        Ok(serde_json::from_slice(&body)?)
    }
}

fn in_words(plan: &Plan) -> String {
    let rooms = |room: &Room| format!("{} on {}", room.count, room.node.as_deref().unwrap_or("a new node"));
    let class = |class: &Class| {
        let rooms: Vec<_> = class.room.iter().map(rooms).collect();
        format!("  class {} of {}: {:?}: {}", class.id, class.pods, class.constraints, rooms.join(", "))
    };
    plan.classes.iter().map(class).collect::<Vec<_>>().join("\n")
}

async fn create_all<K>(api: Api<K>, objects: &[Value]) -> Result<()>
where
    K: Clone + std::fmt::Debug + DeserializeOwned + Serialize,
{
    for object in objects {
        let typed: K = serde_json::from_value(object.clone())?;
        api.create(&PostParams::default(), &typed)
            .await
            .with_context(|| format!("create {}", object["metadata"]["name"]))?;
    }
    Ok(())
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}
