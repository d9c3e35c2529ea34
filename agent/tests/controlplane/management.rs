//! A management cluster: a second API server on the control plane's etcd, with Cluster API's kinds and nobody who acts on
//! them. What its controllers would do is up to the test.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result};
use http::Request;
use kube::Client;
use serde_json::{Value, json};

use crate::harness::process::{self, Component, Watchdog};
use crate::harness::wait::eventually;
use crate::harness::{ControlPlane, binaries, flags, ports};

const NAME: &str = "management-apiserver";
const SOON: Duration = Duration::from_secs(60);
const KINDS: [&str; 4] = ["clusters", "machinedeployments", "machinesets", "machines"];

/// A running management cluster. Fields drop in order: the watchdog goes first.
pub(crate) struct ManagementPlane {
    _watchdog: Watchdog,
    _apiserver: Component,
    /// Of a member of `system:masters`.
    pub(crate) client: Client,
    /// The same as a kubeconfig file.
    pub(crate) kubeconfig: PathBuf,
}

// === impl ManagementPlane ===

impl ManagementPlane {
    /// Starts it, with the kinds served in this version alone.
    pub(crate) async fn start(plane: &ControlPlane, version: &str) -> Result<Self> {
        let binaries = binaries().context("the control plane is built")?;
        let port = ports::claim()?;
        let ours = ["--secure-port=", "--audit-", "--etcd-prefix="];
        let mut flags = plane.apiserver_flags()?;
        flags.retain(|flag| !ours.iter().any(|beginning| flag.starts_with(beginning)));
        flags.extend([format!("--secure-port={port}"), "--etcd-prefix=/management".to_owned()]);
        let mut component = Component::spawn(NAME, &binaries.join("kube-apiserver"), &flags, plane.dir())?;
        let mut watchdog = Watchdog::spawn(None)?;
        watchdog.mind(component.pid())?;

        let server = flags::url(port);
        let client = plane.client_through(server.clone()).await?;
        let ready = eventually("the management cluster to get ready", SOON, async || {
            component.still_running()?;
            Ok(client.request_text(Request::get("/readyz").body(Vec::new())?).await.ok())
        });
        ready.await.with_context(|| process::tail(&plane.log(NAME)))?;
        install(&client, &binaries.join("cluster-api-crds"), version).await?;
        let namespace = json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": "fleet" } });
        post(&client, "/api/v1/namespaces", &namespace).await?;
        let kubeconfig = kubeconfig(plane, "management", &server)?;
        Ok(Self { _watchdog: watchdog, _apiserver: component, client, kubeconfig })
    }
}

/// A kubeconfig of a member of `system:masters` for another server.
pub(crate) fn kubeconfig(plane: &ControlPlane, name: &str, server: &str) -> Result<PathBuf> {
    let mut config: Value = serde_json::from_slice(&fs::read(plane.kubeconfig_path())?)?;
    config["clusters"][0]["cluster"]["server"] = json!(server);
    let path = plane.dir().join(format!("{name}.kubeconfig"));
    fs::write(&path, config.to_string())?;
    Ok(path)
}

/// A server where nobody listens.
pub(crate) fn nobody() -> Result<String> {
    Ok(flags::url(ports::claim()?))
}

/// Creates the kinds, and waits until they are served.
async fn install(client: &Client, folder: &Path, version: &str) -> Result<()> {
    for kind in KINDS {
        let text = fs::read_to_string(folder.join(format!("cluster.x-k8s.io_{kind}.yaml")))?;
        let mut definition: Value = serde_saphyr::from_str(&text)?;
        for served in definition["spec"]["versions"].as_array_mut().context("it has versions")? {
            served["served"] = json!(served["name"] == version);
        }
        post(client, "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", &definition).await?;
    }
    for kind in KINDS {
        let path = format!("/apis/cluster.x-k8s.io/{version}/{kind}");
        eventually(&format!("{path} to be served"), SOON, async || {
            Ok(client.request_text(Request::get(&path).body(Vec::new())?).await.ok())
        })
        .await?;
    }
    Ok(())
}

async fn post(client: &Client, path: &str, body: &Value) -> Result<()> {
    let request = Request::post(path).header("content-type", "application/json");
    let posted = client.request::<Value>(request.body(body.to_string().into_bytes())?).await;
    posted.map(drop).with_context(|| format!("create {} at {path}", body["metadata"]["name"]))
}
