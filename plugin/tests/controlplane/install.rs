//! `install` and `uninstall`, from an empty cluster to an empty cluster.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use http::Request;
use kube::Client;
use rotate_shared::names;
use serde_json::{Value, json};
use tokio::process::Command;

use crate::harness::ControlPlane;
use crate::harness::credentials::User;
use crate::harness::nodes::FakeNode;
use crate::harness::wait::eventually;

/// What a controller takes on two busy cores.
const SOON: Duration = Duration::from_secs(15);

const DEPLOYMENT: &str = "/apis/apps/v1/namespaces/kubectl-rotate/deployments/rotate-agent";
const RECORD: &str = "/api/v1/namespaces/kubectl-rotate/configmaps/rotation-abc";

/// What could be left behind, by where it is.
const KINDS: [&str; 20] = [
    "/api/v1/namespaces",
    "/api/v1/nodes",
    "/api/v1/pods",
    "/api/v1/configmaps",
    "/api/v1/secrets",
    "/api/v1/serviceaccounts",
    "/api/v1/services",
    "/api/v1/endpoints",
    "/apis/discovery.k8s.io/v1/endpointslices",
    "/apis/apps/v1/deployments",
    "/apis/apps/v1/replicasets",
    "/apis/policy/v1/poddisruptionbudgets",
    "/apis/networking.k8s.io/v1/networkpolicies",
    "/apis/coordination.k8s.io/v1/leases",
    "/apis/scheduling.k8s.io/v1/priorityclasses",
    "/apis/rbac.authorization.k8s.io/v1/roles",
    "/apis/rbac.authorization.k8s.io/v1/rolebindings",
    "/apis/rbac.authorization.k8s.io/v1/clusterroles",
    "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings",
    "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies",
];
const BINDINGS: &str = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicybindings";

struct World {
    plane: ControlPlane,
    client: Client,
    kubeconfig: PathBuf,
}

/// What a run left.
struct Run {
    code: Option<i32>,
    out: String,
    err: String,
}

/// What `install` prints is what kustomize makes of `manifests/`.
pub(crate) async fn manifests_are_what_kustomize_makes_of_them() -> Result<()> {
    let manifests = Path::new(env!("CARGO_MANIFEST_DIR")).join("../manifests");
    let kubectl = std::env::var_os("ROTATE_KUBECTL").context("ROTATE_KUBECTL is the path of kubectl")?;
    let mirrored = [
        "--with=tls,network-policy,ha",
        "--image",
        concat!("registry.example.com/mirror/rotate-agent:", env!("CARGO_PKG_VERSION")),
    ];
    for (folder, flags) in [("base", &[][..]), ("overlays/example", &mirrored)] {
        let made = Command::new(&kubectl).arg("kustomize").arg(manifests.join(folder)).output().await?;
        ensure!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
        let ours = rotate(Path::new("/nonexistent"), &[&["install"], flags].concat()).await?;
        let objects = |text: &str| -> Result<BTreeMap<String, Value>> {
            let objects: Vec<Value> = serde_saphyr::from_multiple(text)?;
            let key = |object: &Value| format!("{} {}", object["kind"], object["metadata"]);
            Ok(objects.into_iter().map(|object| (key(&object), object)).collect())
        };
        let (made, ours) = (objects(std::str::from_utf8(&made.stdout)?)?, objects(&ours.out)?);
        ensure!(!made.is_empty(), "{folder} is empty");
        if let Some(difference) = different(&made, &ours) {
            anyhow::bail!("{folder}: {difference}");
        }
    }
    Ok(())
}

pub(crate) async fn everything_comes_and_goes() -> Result<()> {
    let plane = ControlPlane::start().await?;
    let client = plane.client().await?;
    let world = World { kubeconfig: plane.kubeconfig_path(), plane, client };
    for name in ["one", "two"] {
        FakeNode::new(name).create_ready(&world.client).await?;
    }
    let before = world.dump().await?;

    world.refused_without_rights(&before).await.context("without rights")?;
    world.comes(&before).await.context("install")?;
    world.an_embedded_agent_works_beside_it().await.context("embedded")?;
    world.conflicts_are_told().await.context("conflicts")?;
    world.follows_what_is_asked_for().await.context("components")?;
    world.an_older_program_is_refused().await.context("downgrade")?;
    world.what_it_waits_for_is_told().await.context("not ready")?;
    world.stays_while_rotations_are_live().await.context("live rotations")?;
    world.goes(&before).await.context("uninstall")?;
    world.what_is_half_there_goes(&before).await.context("half installed")
}

impl World {
    async fn refused_without_rights(&self, before: &BTreeMap<String, Value>) -> Result<()> {
        let nobody = self.plane.kubeconfig_of(User::Nobody);
        for line in [&["install", "--apply"][..], &["uninstall", "--yes"]] {
            let run = rotate(&nobody, line).await?;
            ensure!(run.code == Some(7), "{line:?}: {}", run.err);
            ensure!(run.err.contains("Error from server (Forbidden): "), "{}", run.err);
        }
        // Who may make namespaces, and nothing in them, begins nothing either.
        self.post(
            "/apis/rbac.authorization.k8s.io/v1/clusterroles",
            &json!({
                "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": { "name": "some" },
                "rules": [{
                    "apiGroups": ["", "apps", "rbac.authorization.k8s.io", "scheduling.k8s.io"],
                    "resources": ["namespaces", "deployments", "priorityclasses", "clusterroles"],
                    "verbs": ["get", "list", "create", "patch"],
                }],
            }),
        )
        .await?;
        self.post(
            "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings",
            &json!({
                "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding", "metadata": { "name": "some" },
                "roleRef": { "apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "some" },
                "subjects": [{ "apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": User::Nobody.name() }],
            }),
        )
        .await?;
        let run = rotate(&nobody, &["install", "--apply"]).await?;
        ensure!(run.code == Some(7), "{}", run.err);
        for told in [
            "serviceaccount/rotate-agent: you may not create serviceaccounts in namespace kubectl-rotate\n",
            "clusterrole.rbac.authorization.k8s.io/rotate-agent: clusterroles.rbac.authorization.k8s.io \"rotate-agent\" is \
             forbidden: user \"nobody\"",
            "objects cannot be applied; nothing was changed",
        ] {
            ensure!(run.err.contains(told), "{told}: {}", run.err);
        }
        for kind in ["clusterrolebindings", "clusterroles"] {
            self.delete(&format!("/apis/rbac.authorization.k8s.io/v1/{kind}/some")).await?;
        }
        self.is(before).await
    }

    async fn comes(&self, before: &BTreeMap<String, Value>) -> Result<()> {
        let tried = self.done(&["install", "--apply", "--dry-run=server"]).await?;
        ensure!(
            tried.out.contains("deployment.apps/rotate-agent serverside-applied (server dry run)\n"),
            "{}",
            tried.out
        );
        self.is(before).await?;

        let mark = self.plane.audit().mark()?;
        let done = self.done(&["install", "--apply"]).await?;
        ensure!(done.out.starts_with("namespace/kubectl-rotate serverside-applied\n"), "{}", done.out);
        ensure!(done.out.lines().all(|line| line.ends_with(" serverside-applied")), "{}", done.out);
        ensure!(done.err.contains("The agents are ready."), "{}", done.err);
        let printed = self.done(&["install", "-o", "name"]).await?;
        let applied: Vec<_> = done.out.lines().filter_map(|line| line.split(' ').next()).collect();
        ensure!(printed.out.lines().collect::<Vec<_>>() == applied, "{}", printed.out);
        for request in self.plane.audit().of(User::Admin.name(), mark)? {
            let discovery = ["/api", "/apis", "/openapi"].iter().any(|path| request.uri.trim_end_matches('/') == *path);
            ensure!(!discovery, "asked for {}", request.uri);
        }
        let agent = self.get(DEPLOYMENT).await?;
        ensure!(agent["status"]["readyReplicas"] == 2, "{}", agent["status"]);

        // Once more changes nothing.
        let installed = self.dump().await?;
        self.done(&["install", "--apply"]).await?;
        self.is(&installed).await
    }

    /// The policies let an agent inside the command act for who may do everything. There is nobody behind the fake Pods who
    /// holds the Lease.
    async fn an_embedded_agent_works_beside_it(&self) -> Result<()> {
        let done = self.done(&["node", "one", "--embedded", "--yes"]).await?;
        ensure!(done.out == "node/one rotated\n", "{}", done.out);
        self.patch("/api/v1/nodes/one", &json!({ "spec": { "unschedulable": null } })).await.map(drop)
    }

    async fn conflicts_are_told(&self) -> Result<()> {
        let scaled = json!({ "spec": { "replicas": 1 } });
        self.patch(DEPLOYMENT, &scaled).await?;
        let run = rotate(&self.kubeconfig, &["install", "--apply"]).await?;
        ensure!(run.code == Some(3), "{}", run.err);
        ensure!(run.err.contains("deployment.apps/rotate-agent: Apply failed with 1 conflict"), "{}", run.err);
        ensure!(run.err.contains("--force-conflicts takes them over"), "{}", run.err);
        ensure!(self.get(DEPLOYMENT).await?["spec"]["replicas"] == 1);
        self.done(&["install", "--apply", "--force-conflicts"]).await?;
        ensure!(self.get(DEPLOYMENT).await?["spec"]["replicas"] == 2);
        Ok(())
    }

    /// A component that is no longer asked for goes; what others label alike stays.
    async fn follows_what_is_asked_for(&self) -> Result<()> {
        let with = self.done(&["install", "--apply", "--with", "network-policy,ha", "--wait=false"]).await?;
        ensure!(with.out.contains("networkpolicy.networking.k8s.io/rotate-agent serverside-applied\n"), "{}", with.out);
        ensure!(self.get(DEPLOYMENT).await?["spec"]["replicas"] == 3);
        let theirs = "/api/v1/namespaces/kubectl-rotate/services";
        let service = json!({
            "apiVersion": "v1", "kind": "Service",
            "metadata": { "name": "metrics", "labels": { "app.kubernetes.io/name": "kubectl-rotate" } },
            "spec": { "ports": [{ "port": 8471 }] },
        });
        self.post(theirs, &service).await?;
        let without = self.done(&["install", "--apply"]).await?;
        let pruned: Vec<_> = without.out.lines().filter(|line| line.ends_with(" pruned")).collect();
        ensure!(
            pruned
                == [
                    "networkpolicy.networking.k8s.io/rotate-agent pruned",
                    "networkpolicy.networking.k8s.io/rotate-placeholders pruned"
                ],
            "{}",
            without.out
        );
        let agent = self.get(DEPLOYMENT).await?;
        ensure!(agent["spec"]["replicas"] == 2, "{agent}");
        ensure!(agent["spec"]["template"]["spec"]["priorityClassName"].is_null(), "{agent}");
        self.get(&format!("{theirs}/metrics")).await.map(drop)
    }

    async fn an_older_program_is_refused(&self) -> Result<()> {
        self.patch(DEPLOYMENT, &json!({ "metadata": { "labels": { "app.kubernetes.io/version": "9.9.9" } } })).await?;
        let run = rotate(&self.kubeconfig, &["install", "--apply", "--force-conflicts"]).await?;
        ensure!(run.code == Some(1), "{}", run.err);
        ensure!(run.err.starts_with("error: the agent that is installed is version 9.9.9, this is"), "{}", run.err);
        self.done(&["install", "--apply", "--force-conflicts", "--allow-downgrade"]).await.map(drop)
    }

    async fn what_it_waits_for_is_told(&self) -> Result<()> {
        for node in ["one", "two"] {
            self.patch(&format!("/api/v1/nodes/{node}"), &json!({ "spec": { "unschedulable": true } })).await?;
        }
        let line = ["install", "--apply", "--replicas", "3", "--timeout", "3s"];
        let run = rotate(&self.kubeconfig, &line).await?;
        ensure!(run.code == Some(5), "{}", run.err);
        ensure!(run.err.contains("0/2 nodes are available"), "{}", run.err);
        ensure!(run.err.contains("kubectl -n kubectl-rotate rollout status deployment/rotate-agent"), "{}", run.err);
        self.patch("/api/v1/nodes/two", &json!({ "spec": { "unschedulable": null } })).await.map(drop)
    }

    /// And nobody is asked where there is nobody.
    async fn stays_while_rotations_are_live(&self) -> Result<()> {
        let uid = self.get("/api/v1/nodes/one").await?["metadata"]["uid"].clone();
        let record = |phase: &str| {
            let phases = [json!({ "phase": "Queued" }), json!({ "phase": phase })];
            json!({ "id": "abc", "node": "one", "nodeUID": uid, "phases": phases }).to_string()
        };
        let map = json!({
            "apiVersion": "v1", "kind": "ConfigMap", "data": { "record": record("Draining") },
            "metadata": { "name": "rotation-abc", "labels": { names::ROTATION: "abc" } },
        });
        self.post("/api/v1/namespaces/kubectl-rotate/configmaps", &map).await?;
        let installed = self.dump().await?;
        let run = rotate(&self.kubeconfig, &["uninstall", "--yes"]).await?;
        ensure!(run.code == Some(3), "{}", run.err);
        ensure!(run.err.contains("rotation/abc of node/one (Draining)"), "{}", run.err);
        self.is(&installed).await?;
        self.patch(RECORD, &json!({ "data": { "record": record("Succeeded") } })).await?;

        let run = rotate(&self.kubeconfig, &["uninstall"]).await?;
        ensure!(run.code == Some(2) && run.err.contains("--yes"), "{}", run.err);
        let tried = self.done(&["uninstall", "--dry-run"]).await?;
        ensure!(tried.out.contains("namespace \"kubectl-rotate\" deleted (dry run)\n"), "{}", tried.out);
        ensure!(tried.out.starts_with("deployment.apps \"rotate-agent\" deleted (dry run)\n"), "{}", tried.out);
        self.get(DEPLOYMENT).await.map(drop)
    }

    async fn goes(&self, before: &BTreeMap<String, Value>) -> Result<()> {
        let marks = json!({ names::ROTATION: "dead", names::PROTECTED_BY: format!("dead:{}", names::SCALE_DOWN_DISABLED),
            names::SCALE_DOWN_DISABLED: "true" });
        self.patch("/api/v1/nodes/two", &json!({ "metadata": { "annotations": marks } })).await?;
        let gone = self.done(&["uninstall", "--yes"]).await?;
        ensure!(gone.err.contains("node/two: marks of a rotation that nobody ended are taken off\n"), "{}", gone.err);
        ensure!(gone.err.contains("node/one stays cordoned, as its rotation left it"), "{}", gone.err);
        ensure!(gone.err.contains("kubectl uncordon one"), "{}", gone.err);
        self.patch("/api/v1/nodes/one", &json!({ "spec": { "unschedulable": null } })).await?;
        self.is(before).await?;
        self.is_not_installed().await
    }

    async fn what_is_half_there_goes(&self, before: &BTreeMap<String, Value>) -> Result<()> {
        let labels = json!({ "app.kubernetes.io/name": "kubectl-rotate" });
        let metadata = json!({ "name": "kubectl-rotate-room", "labels": labels });
        self.post("/api/v1/namespaces", &json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": metadata }))
            .await?;
        self.done(&["uninstall", "--yes"]).await?;
        self.is(before).await?;
        self.is_not_installed().await
    }

    async fn is_not_installed(&self) -> Result<()> {
        let again = self.done(&["uninstall", "--yes"]).await?;
        ensure!(again.out.is_empty() && again.err.starts_with("kubectl-rotate is not installed in"), "{}", again.err);
        Ok(())
    }

    async fn done(&self, line: &[&str]) -> Result<Run> {
        let run = rotate(&self.kubeconfig, line).await?;
        ensure!(run.code == Some(0), "{line:?}: {:?}: {}", run.code, run.err);
        Ok(run)
    }

    /// Every object there is, without what changes by itself.
    async fn dump(&self) -> Result<BTreeMap<String, Value>> {
        let mut dump = BTreeMap::new();
        for kind in KINDS.into_iter().chain([BINDINGS]) {
            let mut list = self.get(kind).await?;
            for item in list["items"].as_array_mut().context("a list")? {
                for own in ["resourceVersion", "managedFields", "generation"] {
                    item["metadata"].as_object_mut().context("metadata")?.remove(own);
                }
                item.as_object_mut().context("an object")?.remove("status");
                if kind.ends_with("/leases") {
                    // Heartbeats.
                    item["spec"].take();
                }
                let key = format!("{kind} {} {}", item["metadata"]["namespace"], item["metadata"]["name"]);
                dump.insert(key, item.take());
            }
        }
        Ok(dump)
    }

    /// Nothing is there that was not, and nothing has changed, once the controllers have come to rest.
    async fn is(&self, before: &BTreeMap<String, Value>) -> Result<()> {
        let mut difference = String::new();
        let same = eventually("the cluster to be as before", SOON, async || {
            difference = different(before, &self.dump().await?).unwrap_or_default();
            Ok(difference.is_empty().then_some(()))
        });
        same.await.map_err(|error| error.context(difference.clone()))
    }

    async fn get(&self, path: &str) -> Result<Value> {
        self.ask(Request::get(path), &Value::Null).await
    }

    async fn post(&self, path: &str, body: &Value) -> Result<Value> {
        self.ask(Request::post(path).header("content-type", "application/json"), body).await
    }

    async fn patch(&self, path: &str, body: &Value) -> Result<Value> {
        self.ask(Request::patch(path).header("content-type", "application/merge-patch+json"), body).await
    }

    async fn delete(&self, path: &str) -> Result<Value> {
        self.ask(Request::delete(path), &Value::Null).await
    }

    async fn ask(&self, request: http::request::Builder, body: &Value) -> Result<Value> {
        let body = if body.is_null() { Vec::new() } else { body.to_string().into_bytes() };
        Ok(self.client.request(request.body(body)?).await?)
    }
}

/// The first difference.
fn different(before: &BTreeMap<String, Value>, now: &BTreeMap<String, Value>) -> Option<String> {
    for (key, object) in now {
        match before.get(key) {
            None => return Some(format!("{key} is left: {object}")),
            Some(then) if then != object => return Some(format!("{key} has changed: {then} {object}")),
            Some(_) => {}
        }
    }
    before.keys().find(|key| !now.contains_key(*key)).map(|key| format!("{key} is gone"))
}

async fn rotate(kubeconfig: &Path, line: &[&str]) -> Result<Run> {
    let output = tokio::time::timeout(crate::SOON, crate::started(kubeconfig, line).output());
    let output = output.await.with_context(|| format!("{line:?} takes too long"))??;
    let text = |bytes| String::from_utf8(bytes);
    Ok(Run { code: output.status.code(), out: text(output.stdout)?, err: text(output.stderr)? })
}
