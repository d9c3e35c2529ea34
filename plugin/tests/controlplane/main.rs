//! The real binary against a real control plane, as somebody uses it who has a kubeconfig and nothing else.
//!
//! Without the binaries of `agent/tests/controlplane/build` it is reported as ignored.

#[expect(dead_code, reason = "the control plane's own tests use all of it")]
#[path = "../../../agent/tests/controlplane/harness.rs"]
mod harness;

mod forward;
mod install;
mod looks;
mod status;

use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use k8s_openapi::api::core::v1::Node;
use kube::Api;
use libtest_mimic::{Arguments, Failed, Trial};
use rotate_agent::clock::Clock;
use tokio::process::Command;

use harness::ControlPlane;
use harness::autoscaler::{Autoscaler, GROUP_LABEL, Group};
use harness::credentials::User;
use harness::nodes::FakeNode;
use harness::workloads::{self, Workload};

const SOON: Duration = Duration::from_secs(60);

fn main() -> ExitCode {
    let arguments = Arguments::from_args();
    let trials = vec![
        trial("a_kubeconfig_is_all_that_it_takes_to_rotate_a_node", a_kubeconfig_is_all_that_it_takes),
        trial("the_agent_is_reached_through_the_api_server", forward::the_agent_is_reached_through_the_api_server),
        trial("what_is_installed_works_is_upgraded_and_leaves_nothing", install::everything_comes_and_goes),
    ];
    // By hand: measured with an optimised binary, see docs/performance.md; compared whenever the manifests change.
    let with_kubectl = [
        trial("status_takes_half_as_long_as_kubectl_get_nodes", status::status_takes_half_as_long),
        trial("manifests_are_what_kustomize_makes_of_them", install::manifests_are_what_kustomize_makes_of_them),
    ];
    let without = std::env::var_os("ROTATE_KUBECTL").is_none();
    let trials = trials.into_iter().chain(with_kubectl.map(|trial| trial.with_ignored_flag(without)));
    libtest_mimic::run(&arguments, trials.collect()).exit_code()
}

/// One test, on a runtime of its own.
fn trial(name: &str, test: impl AsyncFnOnce() -> Result<()> + Send + 'static) -> Trial {
    let run = move || {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
        runtime.block_on(test()).map_err(|error| Failed::from(format!("{error:#}")))
    };
    match harness::binaries() {
        Some(_) => Trial::test(name, run),
        None => Trial::test(name, run).with_kind("needs agent/tests/controlplane/build").with_ignored_flag(true),
    }
}

async fn a_kubeconfig_is_all_that_it_takes() -> Result<()> {
    let plane = ControlPlane::start().await?;
    let client = plane.client().await?;
    let kubeconfig = plane.kubeconfig_path();
    let node = |name: &str| FakeNode::new(name).allocatable("cpu", "2").label(GROUP_LABEL, "web");
    for name in ["one", "two"] {
        node(name).create_ready(&client).await?;
    }
    let (group, clock) = (Group::new("web", 0, 4), Clock::system());
    group.tell(&client, clock).await?;
    workloads::namespace(&client, "shop").await?;
    Workload::new("shop", "web", 4).request("cpu", "1").deployment(&client).await?;
    let pods = workloads::running(&client, "shop", "web", 4, SOON).await?;
    let candidate = workloads::node_of(&pods[0]);

    let before = plane.audit().mark()?;
    let plan = rotate(&kubeconfig, &["plan", "node", &candidate]).await?;
    ensure!(plan.contains("2 Pods to move, room for 2 is reserved first (cpu 2,"), "{plan}");
    let asked = plane.audit().of(User::Admin.name(), before)?;
    ensure!(asked.iter().all(|request| !request.is_write() || request.uri.contains("dryRun=All")), "{asked:?}");
    let asked: Vec<&str> = asked.iter().map(|request| &*request.uri).collect();
    ensure!(asked.len() == 9, "a plan costs nine requests, and no discovery: {asked:?}");

    looks::evictions_are_asked_for(&plane, &kubeconfig, &candidate).await?;
    looks::names_are_completed(&plane, &kubeconfig, &["one", "two"]).await?;

    let stranger = plane.kubeconfig_of(User::Nobody);
    let refused = started(&stranger, &["node", &candidate, "--embedded", "--yes"]).output().await?;
    let errors = String::from_utf8_lossy(&refused.stderr);
    ensure!(refused.status.code() == Some(7), "{}: {errors}", refused.status);
    ensure!(errors.starts_with("Error from server (Forbidden): ") && errors.lines().count() == 1, "{errors}");

    let growing = Autoscaler::new(client.clone(), "new", node("template"), Duration::from_secs(5));
    let growing = growing.group(group, clock).start().await?;
    let done = rotate(&kubeconfig, &["node", &candidate, "--embedded", "--yes"]).await?;
    ensure!(done == format!("node/{candidate} rotated\n"), "{done}");
    let pods = workloads::running(&client, "shop", "web", 4, SOON).await?;
    ensure!(pods.iter().all(|pod| workloads::node_of(pod) != candidate));
    let node = Api::<Node>::all(client.clone()).get(&candidate).await?;
    ensure!(node.spec.is_some_and(|spec| spec.unschedulable == Some(true)), "the node is kept, cordoned");

    let status = rotate(&kubeconfig, &["status", &format!("node/{candidate}"), "--embedded"]).await?;
    ensure!(status.contains("Phase:       Succeeded\n"), "{status}");
    ensure!(!growing.failed(), "the autoscaler of the test failed");
    Ok(())
}

fn started(kubeconfig: &Path, line: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_kubectl-rotate"));
    command.env_clear().env("KUBECONFIG", kubeconfig).args(line);
    command
}

/// Runs the binary to its end; gives what it wrote to stdout.
async fn rotate(kubeconfig: &Path, line: &[&str]) -> Result<String> {
    let output = started(kubeconfig, line).output();
    let output = tokio::time::timeout(SOON, output).await.context("it takes too long")??;
    let errors = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "kubectl rotate {line:?}: {}: {errors}", output.status);
    Ok(String::from_utf8(output.stdout)?)
}
