//! How long `kubectl rotate status` takes beside `kubectl get nodes`, with the same API server, in the same run.

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use jiff::SignedDuration;
use rotate_agent::clock::Clock;
use tempfile::TempDir;
use tokio::process::Command;

use crate::forward::Installed;
use crate::harness::nodes::FakeNode;
use crate::harness::{ControlPlane, manifests};

/// How often each is run.
const TIMES: usize = 20;
const NODES: usize = 10;

pub(crate) async fn status_takes_half_as_long() -> Result<()> {
    let kubectl = PathBuf::from(std::env::var_os("ROTATE_KUBECTL").context("ROTATE_KUBECTL is the path of kubectl")?);
    let plugin =
        std::env::var_os("ROTATE_PLUGIN").map_or_else(|| env!("CARGO_BIN_EXE_kubectl-rotate").into(), PathBuf::from);
    let plane = ControlPlane::start().await?;
    let client = plane.client().await?;
    for number in 0..NODES {
        FakeNode::new(&format!("n{number}")).create_ready(&client).await?;
    }
    manifests::install(&client).await?;
    let installed = Installed::start(&plane, &client).await?;
    let viewer = installed.person("viewer", "rotate-view").await?;
    let url = format!("http://127.0.0.1:{}", plane.agent_port());
    let home = TempDir::new()?;
    let commands: [(&str, &Path, &Path, Vec<&str>); 3] = [
        ("kubectl get nodes", &kubectl, &plane.kubeconfig_path(), vec!["get", "nodes"]),
        ("kubectl rotate status --agent-url", &plugin, &viewer, vec!["status", "--agent-url", &url]),
        ("kubectl rotate status", &plugin, &viewer, vec!["status"]),
    ];
    let mut took = [const { Vec::new() }; 3];
    // One after the other in turn, so that whatever else the machine does meets all of them alike. The first of each is
    // not counted: kubectl fills its discovery cache with it.
    for turn in 0..=TIMES {
        for ((_, program, kubeconfig, line), took) in commands.iter().zip(&mut took) {
            let time = run(program, kubeconfig, home.path(), line).await?;
            if turn > 0 {
                took.push(time);
            }
        }
    }
    let mut medians = Vec::new();
    for ((name, ..), took) in commands.iter().zip(&mut took) {
        let raw: Vec<String> = took.iter().map(|time| format!("{:.1}", time.as_secs_f64() * 1000.0)).collect();
        took.sort();
        let median = (took[TIMES / 2 - 1] + took[TIMES / 2]).as_secs_f64() * 500.0;
        medians.push(median);
        report(&format!(
            "{name}: median {median:.1} ms, {:.2} of kubectl get nodes\n  {}",
            median / medians[0],
            raw.join(" ")
        ));
    }
    for (median, (name, ..)) in medians.iter().zip(&commands).skip(1) {
        ensure!(*median <= medians[0] / 2.0, "{name} takes more than half as long as kubectl get nodes");
    }
    Ok(())
}

#[expect(clippy::print_stdout, reason = "what is measured is what it is run for")]
fn report(line: &str) {
    println!("{line}");
}

async fn run(program: &Path, kubeconfig: &Path, home: &Path, line: &[&str]) -> Result<Duration> {
    let mut command = Command::new(program);
    command.env_clear().env("HOME", home).env("KUBECONFIG", kubeconfig).args(line).stdin(Stdio::null());
    let clock = Clock::system();
    let began = clock.now();
    let output = command.output().await.with_context(|| format!("failed to run {}", program.display()))?;
    let took: SignedDuration = clock.now().duration_since(began);
    ensure!(output.status.success(), "{line:?}: {}", String::from_utf8_lossy(&output.stderr));
    Ok(took.try_into()?)
}
