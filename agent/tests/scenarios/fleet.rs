//! Cluster API played by the test: a management cluster of its own, in which a MachineDeployment's replicas become Machines
//! and their nodes, and what is to go goes as Cluster API has it go.
//!
//! ```text
//! agent ──▶ MachineDeployment web ──▶ Machines web-1 … ──▶ nodes web-1 … in the cluster of the workloads
//!                        ▲ management cluster                 ▲
//!                        └──────────── Controller ────────────┘
//! ```

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use http::Request;
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::Client;
use kube::api::{Api, DeleteParams, ListParams};
use parking_lot::Mutex;
use rotate_agent::provider::cluster_api::Management;
use serde_json::{Value, json};
use tokio::task::JoinHandle;
use tokio::time::{Instant, interval};

use crate::backend::ManagementCluster;
use crate::harness::autoscaler::{SETTLES_WITHIN, Waiting};
use crate::harness::nodes::FakeNode;
use crate::world::World;

const NAMESPACE: &str = "fleet";
const DEPLOYMENT: &str = "web";
const GROUP: &str = "cluster.x-k8s.io";
const FINALIZER: &str = "machine.cluster.x-k8s.io";
/// How often the controller looks.
const EVERY: Duration = Duration::from_millis(200);

/// The management cluster of one MachineDeployment, and its controller.
pub(crate) struct Fleet {
    api: ManagementApi,
    cluster: ManagementCluster,
    controller: JoinHandle<Result<()>>,
    boots: Arc<AtomicBool>,
    /// Workload Pods that stood on a node when its machine ended: `node: namespace/name`.
    lost: Arc<Mutex<Vec<String>>>,
}

/// What may differ between fleets.
#[derive(Clone, Copy)]
pub(crate) struct Setup {
    /// The version of the API that is served.
    pub(crate) version: &'static str,
    /// CPU of each node.
    pub(crate) cpu: &'static str,
    /// The sizes between which an autoscaler keeps it.
    pub(crate) autoscaled: Option<(u32, u32)>,
}

impl Default for Setup {
    fn default() -> Self {
        Self { version: "v1beta2", cpu: "2", autoscaled: None }
    }
}

/// Cluster API's objects in the management cluster.
#[derive(Clone)]
struct ManagementApi {
    client: Client,
    version: &'static str,
}

// === impl Fleet ===

impl Fleet {
    /// A MachineDeployment of two, `web-1` and `web-2`, with Ready nodes.
    pub(crate) async fn start(world: &World, setup: Setup) -> Result<Self> {
        let cluster = world.backend.management_cluster(setup.version).await?;
        let api = ManagementApi { client: cluster.client.clone(), version: setup.version };
        api.create("clusters", api.object("Cluster", "west", &json!({ "spec": { "paused": false } }))).await?;
        let annotations = setup.autoscaled.map(|(minimum, maximum)| {
            json!({
                "cluster.x-k8s.io/cluster-api-autoscaler-node-group-min-size": minimum.to_string(),
                "cluster.x-k8s.io/cluster-api-autoscaler-node-group-max-size": maximum.to_string(),
            })
        });
        let selector = json!({ "matchLabels": { "cluster.x-k8s.io/deployment-name": DEPLOYMENT } });
        let template = json!({ "spec": api.machine_spec() });
        let spec = json!({ "clusterName": "west", "replicas": 2, "selector": selector, "template": template });
        let over = json!({ "metadata": { "annotations": annotations }, "spec": spec });
        api.create("machinedeployments", api.object("MachineDeployment", DEPLOYMENT, &over)).await?;
        let owner = api.owner("MachineDeployment", DEPLOYMENT);
        let over = json!({ "metadata": { "ownerReferences": [owner] }, "spec": spec });
        api.create("machinesets", api.object("MachineSet", "web-x", &over)).await?;

        let (boots, lost) = (Arc::new(AtomicBool::new(true)), Arc::<Mutex<Vec<String>>>::default());
        let controller = Controller {
            api: api.clone(),
            nodes: world.client.clone(),
            cpu: setup.cpu,
            autoscaled: setup.autoscaled,
            boots: Arc::clone(&boots),
            lost: Arc::clone(&lost),
            made: 0,
            waiting: Waiting::default(),
            grown: None,
        };
        let fleet = Self { api, cluster, controller: tokio::spawn(controller.run()), boots, lost };
        for name in ["web-1", "web-2"] {
            crate::harness::nodes::ready(&world.client, name, crate::world::SOON).await?;
        }
        Ok(fleet)
    }

    /// How an agent reaches it.
    pub(crate) fn management(&self) -> Management {
        self.cluster.management.clone()
    }

    /// Machines that are made from now on never become nodes.
    pub(crate) fn boot_no_more(&self) {
        self.boots.store(false, Ordering::SeqCst);
    }

    /// Nobody answers there any more.
    pub(crate) fn is_cut_off(&self) -> Management {
        self.cluster.cut_off.clone()
    }

    /// What the MachineDeployment wants, and the rotations that have a replica of it on loan.
    pub(crate) async fn replicas(&self) -> Result<(u64, Option<String>)> {
        let deployment = self.api.get("machinedeployments", DEPLOYMENT).await?.context("it exists")?;
        let orders = deployment["metadata"]["annotations"]["kubectl-rotate.dev/ordered-by"].as_str();
        Ok((deployment["spec"]["replicas"].as_u64().context("it has replicas")?, orders.map(ToOwned::to_owned)))
    }

    /// The names of the Machines that are there.
    pub(crate) async fn machines(&self) -> Result<Vec<String>> {
        let machines = self.api.machines().await?;
        Ok(machines.iter().map(|machine| name(machine).to_owned()).collect())
    }

    /// That the controller has worked, and that no machine ended with a workload's Pod on it.
    pub(crate) fn ended_nobody(&self) -> Result<()> {
        ensure!(!self.controller.is_finished(), "the controller ended");
        let lost = self.lost.lock().clone();
        ensure!(lost.is_empty(), "machines ended under {lost:?}");
        Ok(())
    }
}

impl Drop for Fleet {
    fn drop(&mut self) {
        self.controller.abort();
    }
}

/// What Cluster API's controllers do, as far as nodes come and go by it.
struct Controller {
    api: ManagementApi,
    nodes: Client,
    cpu: &'static str,
    autoscaled: Option<(u32, u32)>,
    boots: Arc<AtomicBool>,
    lost: Arc<Mutex<Vec<String>>>,
    made: u32,
    waiting: Waiting,
    /// When a replica was last added for a Pod without room.
    grown: Option<Instant>,
}

// === impl Controller ===

impl Controller {
    async fn run(mut self) -> Result<()> {
        let mut tick = interval(EVERY);
        loop {
            tick.tick().await;
            self.autoscale().await?;
            self.scale().await?;
            self.end().await?;
        }
    }

    /// One more replica where a Pod finds no room, as an autoscaler would have it.
    async fn autoscale(&mut self) -> Result<()> {
        let Some((_, maximum)) = self.autoscaled else { return Ok(()) };
        let deployment = self.api.get("machinedeployments", DEPLOYMENT).await?.context("it exists")?;
        let replicas = deployment["spec"]["replicas"].as_u64().unwrap_or(0);
        let machines = self.api.machines().await?;
        let coming = machines.iter().any(|machine| machine["status"]["nodeRef"]["name"].as_str().is_none());
        let settles = self.grown.is_some_and(|grown| grown.elapsed() < SETTLES_WITHIN);
        if coming || settles || replicas >= u64::from(maximum) || machines.len() as u64 != replicas {
            return Ok(());
        }
        let pending = ListParams::default().fields("status.phase=Pending");
        let pods = Api::<Pod>::all(self.nodes.clone()).list(&pending).await?.items;
        if !self.waiting.lasting(&pods).is_empty() {
            let more = json!({ "spec": { "replicas": replicas + 1 } });
            self.api.patch("machinedeployments", DEPLOYMENT, &more).await?;
            self.grown = Some(Instant::now());
        }
        Ok(())
    }

    /// As many Machines as the MachineDeployment wants.
    async fn scale(&mut self) -> Result<()> {
        let deployment = self.api.get("machinedeployments", DEPLOYMENT).await?.context("it exists")?;
        let replicas = usize::try_from(deployment["spec"]["replicas"].as_u64().unwrap_or(0))?;
        let mut machines = self.api.machines().await?;
        machines.retain(|machine| machine["metadata"]["deletionTimestamp"].is_null());
        for _ in machines.len()..replicas {
            self.made += 1;
            self.make(&format!("web-{}", self.made)).await?;
        }
        // As its own deletion order: marked ones, then those without a node, then by name.
        machines.sort_by_key(|machine| {
            let marked = !machine["metadata"]["annotations"]["cluster.x-k8s.io/delete-machine"].is_null();
            let is_node = machine["status"]["nodeRef"]["name"].is_string();
            (!marked, is_node, name(machine).to_owned())
        });
        for machine in machines.iter().take(machines.len().saturating_sub(replicas)) {
            self.api.delete("machines", name(machine)).await?;
        }
        Ok(())
    }

    async fn make(&self, name: &str) -> Result<()> {
        let labels = json!({ "cluster.x-k8s.io/deployment-name": DEPLOYMENT });
        let owner = self.api.owner("MachineSet", "web-x");
        let metadata = json!({ "labels": labels, "ownerReferences": [owner], "finalizers": [FINALIZER] });
        let over = json!({ "metadata": metadata, "spec": self.api.machine_spec() });
        self.api.create("machines", self.api.object("Machine", name, &over)).await?;
        if !self.boots.load(Ordering::SeqCst) {
            return Ok(());
        }
        let node = FakeNode::new(name)
            .allocatable("cpu", self.cpu)
            .annotation("cluster.x-k8s.io/machine", name)
            .annotation("cluster.x-k8s.io/cluster-name", "west")
            .annotation("cluster.x-k8s.io/cluster-namespace", NAMESPACE)
            .annotation("cluster.x-k8s.io/owner-kind", "MachineSet")
            .annotation("cluster.x-k8s.io/owner-name", "web-x");
        node.create(&self.nodes).await?;
        let status = json!({ "status": { "phase": "Running", "nodeRef": { "name": name } } });
        self.api.patch("machines", &format!("{name}/status"), &status).await
    }

    /// Ends the Machines that are being deleted: the instance, then the node, then the object.
    async fn end(&self) -> Result<()> {
        for machine in self.api.machines().await? {
            if machine["metadata"]["deletionTimestamp"].is_null() {
                continue;
            }
            let name = name(&machine);
            let here = ListParams::default().fields(&format!("spec.nodeName={name}"));
            for pod in Api::<Pod>::namespaced(self.nodes.clone(), crate::world::SHOP).list(&here).await? {
                let pod = pod.metadata.name.unwrap_or_default();
                self.lost.lock().push(format!("{name}: {}/{pod}", crate::world::SHOP));
            }
            match Api::<Node>::all(self.nodes.clone()).delete(name, &DeleteParams::default()).await {
                Err(kube::Error::Api(status)) if status.code == 404 => {}
                done => drop(done?),
            }
            self.api.patch("machines", name, &json!({ "metadata": { "finalizers": null } })).await?;
        }
        Ok(())
    }
}

// === impl ManagementApi ===

impl ManagementApi {
    fn object(&self, kind: &str, name: &str, over: &Value) -> Value {
        let mut object = json!({
            "apiVersion": format!("{GROUP}/{}", self.version),
            "kind": kind,
            "metadata": {
                "namespace": NAMESPACE,
                "name": name,
                "labels": { "cluster.x-k8s.io/cluster-name": "west" },
            },
        });
        merge(&mut object, over);
        object
    }

    fn owner(&self, kind: &str, name: &str) -> Value {
        let version = format!("{GROUP}/{}", self.version);
        json!({ "apiVersion": version, "kind": kind, "name": name, "uid": name, "controller": true })
    }

    fn machine_spec(&self) -> Value {
        let infrastructure = match self.version {
            "v1beta1" => json!({ "apiVersion": "example.com/v1", "kind": "Box", "name": "box" }),
            _ => json!({ "apiGroup": "example.com", "kind": "Box", "name": "box" }),
        };
        let bootstrap = json!({ "dataSecretName": "bootstrap" });
        json!({ "clusterName": "west", "bootstrap": bootstrap, "infrastructureRef": infrastructure })
    }

    fn path(&self, kind: &str) -> String {
        format!("/apis/{GROUP}/{}/namespaces/{NAMESPACE}/{kind}", self.version)
    }

    async fn create(&self, kind: &str, object: Value) -> Result<()> {
        let request = Request::post(self.path(kind)).header("content-type", "application/json");
        let created = self.client.request::<Value>(request.body(object.to_string().into_bytes())?).await;
        created.map(drop).with_context(|| format!("create {object}"))
    }

    async fn get(&self, kind: &str, name: &str) -> Result<Option<Value>> {
        let request = Request::get(format!("{}/{name}", self.path(kind))).body(Vec::new())?;
        match self.client.request::<Value>(request).await {
            Err(kube::Error::Api(status)) if status.code == 404 => Ok(None),
            got => Ok(Some(got?)),
        }
    }

    async fn machines(&self) -> Result<Vec<Value>> {
        let list: Value = self.client.request(Request::get(self.path("machines")).body(Vec::new())?).await?;
        Ok(list["items"].as_array().cloned().unwrap_or_default())
    }

    async fn patch(&self, kind: &str, name: &str, patch: &Value) -> Result<()> {
        let request = Request::patch(format!("{}/{name}", self.path(kind)));
        let request = request.header("content-type", "application/merge-patch+json");
        let patched = self.client.request::<Value>(request.body(patch.to_string().into_bytes())?).await;
        patched.map(drop).with_context(|| format!("patch {kind} {name} with {patch}"))
    }

    async fn delete(&self, kind: &str, name: &str) -> Result<()> {
        let request = Request::delete(format!("{}/{name}", self.path(kind))).body(Vec::new())?;
        self.client.request::<Value>(request).await?;
        Ok(())
    }
}

fn name(object: &Value) -> &str {
    object["metadata"]["name"].as_str().unwrap_or_default()
}

/// Puts `over` into `into`: objects are merged, everything else is replaced; nothing is put where there is nothing.
fn merge(into: &mut Value, over: &Value) {
    match (into, over) {
        (Value::Object(into), Value::Object(over)) => {
            for (key, value) in over.iter().filter(|(_, value)| !value.is_null()) {
                merge(into.entry(key.clone()).or_insert(Value::Null), value);
            }
        }
        (into, over) => *into = over.clone(),
    }
}
