//! Real Karpenter beside the control plane, with its kwok provider in the place of a cloud.
//!
//! ```text
//! NodePool ──▶ Karpenter ──▶ NodeClaim ──▶ Node, Ready after the pool's boot time (stages/node-booting, node-slow)
//!                  ▲ Pods that the scheduler calls unschedulable
//! ```

use std::fs;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result};
use http::Request;
use kube::api::{Api, ApiResource, DynamicObject, GroupVersionKind, ListParams, Patch, PatchParams};
use kube::{Client, Config, ResourceExt};
use serde_json::{Value, json};

use crate::harness::credentials::User;
use crate::harness::nodes::READY_AFTER;
use crate::harness::process::{self, Component, Watchdog};
use crate::harness::wait::eventually;
use crate::harness::{ControlPlane, binaries, ports};

/// The label that Karpenter sets to the name of a node's pool.
pub(crate) const POOL: &str = "karpenter.sh/nodepool";

const NODE_CLASSES: &str = "/apis/karpenter.kwok.sh/v1alpha1/kwoknodeclasses";

/// What small things take on two busy cores.
const SOON: Duration = Duration::from_secs(60);

/// A running Karpenter. It is killed when this is dropped; the watchdog minds the case that the test is killed.
pub(crate) struct Karpenter {
    watchdog: Watchdog,
    component: Component,
    health: Client,
}

/// A pool to be created: one of the [`instance_types`], in zones a and b, nodes Ready at once, never disrupted, unless said
/// otherwise.
#[derive(Clone)]
pub(crate) struct NodePool(Value);

/// The NodeClaims, as they are.
pub(crate) fn node_claims(client: &Client) -> Api<DynamicObject> {
    Api::all_with(client.clone(), &resource("NodeClaim", "nodeclaims"))
}

/// The NodePools.
pub(crate) fn node_pools(client: &Client) -> Api<DynamicObject> {
    Api::all_with(client.clone(), &resource("NodePool", "nodepools"))
}

/// The NodeClaims of a pool, by name.
pub(crate) async fn claims_of(client: &Client, pool: &str) -> Result<Vec<DynamicObject>> {
    let mut claims = node_claims(client).list(&ListParams::default().labels(&format!("{POOL}={pool}"))).await?.items;
    claims.sort_by_key(ResourceExt::name_any);
    Ok(claims)
}

/// The node that a NodeClaim has become, empty before.
pub(crate) fn node_of(claim: &DynamicObject) -> &str {
    claim.data["status"]["nodeName"].as_str().unwrap_or_default()
}

fn resource(kind: &str, plural: &str) -> ApiResource {
    ApiResource::from_gvk_with_plural(&GroupVersionKind::gvk("karpenter.sh", "v1", kind), plural)
}

/// Small, large and with accelerators, in three zones; Karpenter keeps 100m CPU and 10 MiB of each for itself.
fn instance_types() -> Value {
    let of = |name: &str, cpu: u32, gpu: Option<&str>| {
        let offerings = ["a", "b", "c"].map(|zone| {
            let requirements = [("karpenter.sh/capacity-type", "on-demand"), ("topology.kubernetes.io/zone", zone)]
                .map(|(key, value)| requirement(key, &[value]));
            json!({"Price": f64::from(cpu), "Available": true, "Requirements": requirements})
        });
        let memory = format!("{}Gi", 4 * cpu);
        let mut resources = json!({"cpu": cpu.to_string(), "memory": memory, "ephemeral-storage": "100Gi"});
        if let Some(gpu) = gpu {
            resources["nvidia.com/gpu"] = gpu.into();
        }
        json!({
            "name": name, "architecture": "amd64", "operatingSystems": ["linux"],
            "offerings": offerings, "resources": resources,
        })
    };
    json!([of("c-2", 2, None), of("c-4", 4, None), of("c-8", 8, None), of("gpu-4", 4, Some("2"))])
}

fn requirement(key: &str, values: &[&str]) -> Value {
    json!({"key": key, "operator": "In", "values": values})
}

// === impl Karpenter ===

impl Karpenter {
    /// Installs its kinds and starts it; returns once it works.
    pub(crate) async fn start(plane: &ControlPlane) -> Result<Self> {
        let binaries = binaries().context("the control plane is built")?;
        let client = plane.client().await?;
        install(&client, &binaries.join("crds")).await?;
        let dir = plane.dir();
        let types = dir.join("instance-types.json");
        fs::write(&types, instance_types().to_string())?;
        let (metrics, health) = (ports::claim()?, ports::claim()?);
        let variables = [
            ("KUBECONFIG", plane.kubeconfig_of(User::Karpenter).display().to_string()),
            ("SYSTEM_NAMESPACE", "kube-system".to_owned()),
            ("DISABLE_LEADER_ELECTION", "true".to_owned()),
            ("METRICS_PORT", metrics.to_string()),
            ("HEALTH_PROBE_PORT", health.to_string()),
            ("BATCH_MAX_DURATION", "2s".to_owned()),
            ("BATCH_IDLE_DURATION", "500ms".to_owned()),
            ("INSTANCE_TYPES_FILE_PATH", types.display().to_string()),
        ];
        let name = "karpenter";
        let component = Component::spawn_with(name, &binaries.join(name), &[], &variables, dir)?;
        let mut watchdog = Watchdog::spawn(None)?;
        watchdog.mind(component.pid())?;
        let health = Client::try_from(Config::new(format!("http://127.0.0.1:{health}").parse()?))?;
        let mut karpenter = Self { watchdog, component, health };
        karpenter.ready().await.with_context(|| process::tail(&plane.log(name)))?;
        Ok(karpenter)
    }

    /// Kills it.
    pub(crate) fn kill(&mut self) -> Result<()> {
        self.component.kill()
    }

    /// Starts it again, and waits until it works.
    pub(crate) async fn restart(&mut self) -> Result<()> {
        self.component.restart()?;
        self.watchdog.mind(self.component.pid())?;
        self.ready().await
    }

    async fn ready(&mut self) -> Result<()> {
        let (component, health) = (&mut self.component, &self.health);
        eventually("Karpenter to get ready", SOON, async || {
            component.still_running()?;
            Ok(health.request_text(Request::get("/readyz").body(Vec::new())?).await.ok())
        })
        .await
        .map(drop)
    }
}

/// Creates the kinds, and the one node class, and waits until they are served.
async fn install(client: &Client, folder: &Path) -> Result<()> {
    for file in fs::read_dir(folder)? {
        let text = fs::read_to_string(file?.path())?;
        let kind: Value = serde_saphyr::from_str(&text)?;
        post(client, "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", &kind).await?;
    }
    for path in
        ["karpenter.sh/v1/nodepools", "karpenter.sh/v1/nodeclaims", "karpenter.kwok.sh/v1alpha1/kwoknodeclasses"]
    {
        eventually(&format!("{path} to be served"), SOON, async || {
            Ok(client.request_text(Request::get(format!("/apis/{path}")).body(Vec::new())?).await.ok())
        })
        .await?;
    }
    let class = json!({
        "apiVersion": "karpenter.kwok.sh/v1alpha1", "kind": "KWOKNodeClass", "metadata": {"name": "default"}, "spec": {},
    });
    post(client, NODE_CLASSES, &class).await
}

/// Deletes the one node class: nothing can be launched from then on.
pub(crate) async fn delete_node_class(client: &Client) -> Result<()> {
    let request = Request::delete(format!("{NODE_CLASSES}/default")).body(Vec::new())?;
    client.request::<Value>(request).await.context("failed to delete the node class").map(drop)
}

async fn post(client: &Client, path: &str, body: &Value) -> Result<()> {
    let request = Request::post(path).header("content-type", "application/json");
    client
        .request::<Value>(request.body(body.to_string().into_bytes())?)
        .await
        .map(drop)
        .with_context(|| format!("failed to create {} at {path}", body["metadata"]["name"]))
}

// === impl NodePool ===

impl NodePool {
    /// A pool of this name that launches one type of instance.
    pub(crate) fn new(name: &str, instance_type: &str) -> Self {
        let template = json!({
            "metadata": {"annotations": {READY_AFTER: "0"}},
            "spec": {
                "nodeClassRef": {"group": "karpenter.kwok.sh", "kind": "KWOKNodeClass", "name": "default"},
                "expireAfter": "Never",
                "requirements": [
                    requirement("node.kubernetes.io/instance-type", &[instance_type]),
                    requirement("topology.kubernetes.io/zone", &["a", "b"]),
                ],
            },
        });
        let disruption = json!({"consolidateAfter": "Never", "budgets": [{"nodes": "0"}]});
        let object = json!({
            "apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": {"name": name},
            "spec": {"template": template, "disruption": disruption},
        });
        Self(object)
    }

    /// How long its nodes boot.
    pub(crate) fn boot(self, boot: Duration) -> Self {
        self.change(|spec| spec["template"]["metadata"]["annotations"][READY_AFTER] = boot.as_secs().to_string().into())
    }

    /// Lets Karpenter take its nodes away whenever it wants to.
    pub(crate) fn disrupted(self) -> Self {
        self.change(|spec| spec["disruption"]["budgets"] = json!([{"nodes": "100%"}]))
    }

    /// Its zones.
    pub(crate) fn zones(self, zones: &[&str]) -> Self {
        self.change(|spec| spec["template"]["spec"]["requirements"][1]["values"] = json!(zones))
    }

    /// The most it may have of a resource, or of `nodes`.
    pub(crate) fn limit(self, resource: &str, quantity: &str) -> Self {
        self.change(|spec| spec["limits"][resource] = quantity.into())
    }

    /// Any other change of its spec.
    pub(crate) fn change(mut self, change: impl FnOnce(&mut Value)) -> Self {
        change(&mut self.0["spec"]);
        self
    }

    /// Creates it, and waits until Karpenter launches nodes for it.
    pub(crate) async fn create(&self, client: &Client) -> Result<()> {
        post(client, "/apis/karpenter.sh/v1/nodepools", &self.0).await?;
        self.ready(client).await
    }

    /// Makes the pool as this one is, and waits as long; what has been launched stays as it is.
    pub(crate) async fn replace(&self, client: &Client) -> Result<()> {
        let name = self.0["metadata"]["name"].as_str().context("a name")?;
        let spec = json!({"spec": self.0["spec"]});
        node_pools(client).patch(name, &PatchParams::default(), &Patch::Merge(&spec)).await?;
        self.ready(client).await
    }

    async fn ready(&self, client: &Client) -> Result<()> {
        let name = self.0["metadata"]["name"].as_str().context("a name")?;
        eventually(&format!("NodePool {name} to get ready"), SOON, async || {
            let pool = node_pools(client).get(name).await?;
            let conditions = pool.data["status"]["conditions"].as_array().into_iter().flatten();
            let mut ready = conditions.into_iter().filter(|it| it["type"] == "Ready" && it["status"] == "True");
            let generation = pool.metadata.generation;
            // The simulator counts no generations of conditions.
            let is_of_now = |it: &Value| it["observedGeneration"].as_i64().is_none_or(|of| Some(of) == generation);
            Ok(ready.any(is_of_now).then_some(()))
        })
        .await
    }
}
