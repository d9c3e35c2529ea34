//! What only looks: dry runs of evictions, and completion.

use std::os::unix::fs::symlink;
use std::path::Path;

use anyhow::{Context, Result, ensure};
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use kube::Api;
use kube::api::{DeleteParams, PostParams};
use serde_json::json;
use tokio::process::Command;

use super::harness::ControlPlane;
use super::harness::credentials::User;
use super::harness::wait::eventually;
use super::{SOON, started};

/// Evictions of two Pods are asked for and not carried out, before and after a budget forbids them.
pub(super) async fn evictions_are_asked_for(plane: &ControlPlane, kubeconfig: &Path, candidate: &str) -> Result<()> {
    let before = plane.audit().mark()?;
    let ask = async || -> Result<(String, String)> {
        let output = started(kubeconfig, &["node", candidate, "--dry-run=server"]).output().await?;
        let [data, said] = [output.stdout, output.stderr].map(|text| String::from_utf8_lossy(&text).into_owned());
        ensure!(output.status.success(), "{}: {said}", output.status);
        Ok((data, said))
    };
    let (_, said) = ask().await?;
    let accepted = "Asked the API server about 2 evictions: it would accept each of them now (dry run).";
    ensure!(said.contains(accepted), "{said}");

    let budgets: Api<PodDisruptionBudget> = Api::namespaced(plane.client().await?, "shop");
    let budget = serde_json::from_value(json!({
        "apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": { "name": "web" },
        "spec": { "minAvailable": 4, "selector": { "matchLabels": { "app": "web" } } },
    }))?;
    budgets.create(&PostParams::default(), &budget).await?;
    // Its controller has to have looked at it first.
    let refused =
        "its eviction would be refused now: The disruption budget web needs 4 healthy pods and has 4 currently";
    eventually("both evictions to be refused", SOON, async || {
        let (data, said) = ask().await?;
        Ok((said.contains("it would refuse 2 of them") && data.matches(refused).count() == 2).then_some(()))
    })
    .await?;
    budgets.delete("web", &DeleteParams::default()).await?;

    let asked = plane.audit().of(User::Admin.name(), before)?;
    let mut evictions = asked.iter().filter(|request| request.uri.contains("/eviction")).peekable();
    ensure!(evictions.peek().is_some() && evictions.all(|request| request.uri.ends_with("?dryRun=All")), "{asked:?}");
    Ok(())
}

/// Names are completed by one request, for metadata only.
pub(super) async fn names_are_completed(plane: &ControlPlane, kubeconfig: &Path, nodes: &[&str]) -> Result<()> {
    let directory = tempfile::tempdir()?;
    let program = directory.path().join("kubectl_complete-rotate");
    symlink(env!("CARGO_BIN_EXE_kubectl-rotate"), &program)?;
    let before = plane.audit().mark()?;
    let output = Command::new(program).env_clear().env("KUBECONFIG", kubeconfig).args(["node", ""]).output();
    let output = output.await.context("it runs")?;
    let (answer, said) = (String::from_utf8(output.stdout)?, String::from_utf8(output.stderr)?);
    let wanted: String = nodes.iter().map(|node| format!("{node}\n")).collect();
    ensure!((&*answer, &*said) == (&*format!("{wanted}:4\n"), ""), "{answer}{said}");
    let asked = plane.audit().of(User::Admin.name(), before)?;
    ensure!(asked.len() == 1 && asked[0].uri == "/api/v1/nodes?limit=1000", "{asked:?}");
    Ok(())
}
