//! What `manifests/` install, on a control plane.

use std::path::Path;

use anyhow::{Context, Result};
use http::Request;
use kube::Client;
use rotate_shared::names;
use serde_json::{Value, json};

use super::workloads;

/// The image of the Deployment, which the placeholders pause in.
pub(crate) const IMAGE: &str = "ghcr.io/kubectl-rotate/rotate-agent:0.1.0";

/// Creates what `kubectl apply -k manifests/base` would.
pub(crate) async fn install(client: &Client) -> Result<()> {
    apply(client, &["namespaces", "priority-class", "agent-rbac", "people-rbac", "admission", "deployment"]).await
}

/// The objects of one file of the manifests, with the image that kustomize puts where it is referred to.
pub(crate) fn objects(file: &str) -> Result<Vec<Value>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../manifests/base");
    let text = std::fs::read_to_string(folder.join(file).with_extension("yaml"))?;
    Ok(serde_saphyr::from_multiple(&text.replace("set by kustomization.yaml", IMAGE))?)
}

/// Creates what these files of the manifests hold, the namespaces first.
pub(crate) async fn apply(client: &Client, files: &[&str]) -> Result<()> {
    for file in files {
        for object in objects(file)? {
            create(client, &object).await.with_context(|| format!("failed to create {object}"))?;
        }
        if *file == "namespaces" {
            for namespace in [names::NAMESPACE, names::ROOM_NAMESPACE] {
                workloads::default_service_account(client, namespace).await?;
            }
        }
    }
    Ok(())
}

/// Creates an object.
pub(crate) async fn create(client: &Client, object: &Value) -> Result<()> {
    let plural = match object["kind"].as_str().context("a kind")?.to_lowercase() {
        kind if kind.ends_with("class") => format!("{kind}es"),
        kind if kind.ends_with('y') => format!("{}ies", kind.trim_end_matches('y')),
        kind => format!("{kind}s"),
    };
    let version = object["apiVersion"].as_str().context("an apiVersion")?;
    let group = if version == "v1" { "/api/v1".to_owned() } else { format!("/apis/{version}") };
    let namespace = object["metadata"]["namespace"].as_str().map(|name| format!("/namespaces/{name}"));
    let path = format!("{group}{}/{plural}", namespace.unwrap_or_default());
    post::<Value>(client, &path, object).await?;
    Ok(())
}

/// Posts JSON.
pub(crate) async fn post<T: serde::de::DeserializeOwned>(client: &Client, path: &str, body: &Value) -> kube::Result<T> {
    let request = Request::post(path).header("content-type", "application/json");
    client.request(request.body(body.to_string().into_bytes()).map_err(kube::Error::HttpError)?).await
}

/// A token of a service account of the agent's namespace.
pub(crate) async fn token(client: &Client, account: &str, audience: Option<&str>) -> Result<String> {
    let path = format!("/api/v1/namespaces/{}/serviceaccounts/{account}/token", names::NAMESPACE);
    let audiences: Vec<_> = audience.into_iter().collect();
    let request = json!({
        "apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest",
        "spec": { "audiences": audiences, "expirationSeconds": 3600 },
    });
    let answer: Value = post(client, &path, &request).await?;
    Ok(answer["status"]["token"].as_str().context("a token")?.to_owned())
}
