//! The agent's answers against the API's description: schemathesis asks a real agent on a simulated cluster for all that
//! `docs/openapi.json` describes, in good and bad ways, and compares each answer with what is described there.
//!
//! Where schemathesis is not installed (`agent/tests/contract/build`), it is reported as ignored. For another run than
//! the usual: `ROTATE_CONTRACT_FLAGS="--seed 2 --max-examples 500"`.

#![expect(clippy::unwrap_used, reason = "a test as a whole; the lint exempts only what is marked as one")]

use std::collections::BTreeMap;
use std::io::Write as _;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{ExitCode, Stdio};
use std::time::Duration;

use http::Method;
use libtest_mimic::{Arguments, Failed, Trial};
use rotate_agent::clock::Clock;
use rotate_shared::{Rotation, names};
use rotate_sim::{NodeSpec, objects};
use serde_json::{Value, json};
use tokio::process::Command;

#[expect(dead_code, reason = "the tests of the API use all of it")]
#[path = "../api/guarded.rs"]
mod guarded;
#[expect(dead_code, reason = "the tests of the API use all of it")]
#[path = "../api/program.rs"]
mod program;

use guarded::{Cluster, rotate, send};
use program::{Program, know_the_agent};

fn main() -> ExitCode {
    let trial = match schemathesis() {
        Some(python) => Trial::test("every_operation_answers_as_it_is_described", move || run(&python)),
        None => Trial::test("every_operation_answers_as_it_is_described", || Ok(()))
            .with_kind("needs agent/tests/contract/build")
            .with_ignored_flag(true),
    };
    libtest_mimic::run(&Arguments::from_args(), vec![trial]).exit_code()
}

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/contract")
}

/// The Python that has it, if it is installed.
fn schemathesis() -> Option<PathBuf> {
    let answer = std::process::Command::new(folder().join("build")).arg("--print-dir").stderr(Stdio::null()).output();
    let directory = String::from_utf8(answer.ok().filter(|answer| answer.status.success())?.stdout).ok()?;
    Some(Path::new(directory.trim()).join("bin/python"))
}

fn run(python: &Path) -> Result<(), Failed> {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    runtime.block_on(compare(python))
}

async fn compare(python: &Path) -> Result<(), Failed> {
    let cluster = Cluster::start().await;
    know_the_agent(&cluster, guarded::access());
    populate(&cluster).await;
    let program = Program::start(&cluster, "info", &["--max-concurrent", "2"]).await;
    let mut tokens = Vec::new();
    for _ in 0..40 {
        tokens.push(cluster.token_for("rotate-operator", names::AUDIENCE, 3600).await);
    }
    let world = seed(program.control, &tokens).await;

    let mut answers = BTreeMap::new();
    let (control, ops) = (program.control, program.ops);
    let mut failed = Vec::new();
    let of_control = ["--exclude-path-regex", OF_OPS];
    let of_ops = ["--include-path-regex", OF_OPS, "--phases", "examples,coverage,fuzzing"];
    for (port, addr, which) in [("control", control, &of_control[..]), ("ops", ops, &of_ops)] {
        let (ended_well, said, counted) = ask(python, addr, which, &tokens[0], &world).await;
        answers.extend(counted);
        if !ended_well {
            failed.push(format!("{port}: schemathesis has found something:\n{said}"));
        }
    }
    let mut summary = String::new();
    for operation in described() {
        let statuses = answers.iter().filter_map(|(answer, times)| {
            let status = answer.strip_prefix(&operation)?.strip_prefix(' ')?;
            Some(format!("{status}: {times}"))
        });
        let statuses: Vec<_> = statuses.collect();
        summary += &format!("{operation:40} {}\n", statuses.join(", "));
        if !statuses.iter().any(|status| status.starts_with('2')) {
            failed.push(format!("{operation} was never answered with 2xx"));
        }
    }
    std::io::stdout().write_all(summary.as_bytes())?;
    let log = program.end().await;
    failed
        .extend(log.lines().filter(|line| line.contains("panicked")).map(|line| format!("in the agent's log: {line}")));
    if failed.is_empty() { Ok(()) } else { Err(failed.join("\n").into()) }
}

/// Forty nodes of two Pods each, one of which is of another kind.
async fn populate(cluster: &Cluster) {
    for number in 1..=NODES {
        cluster.sim.add_node(NodeSpec::new(format!("worker-{number}")).label("pool", "web").cpu("4").memory("16Gi"));
    }
    cluster.sim.create(objects::namespace("shop", &json!({})));
    let template = objects::template("cart", "500m", "1Gi");
    cluster.sim.create(objects::deployment("cart", "shop", 2 * NODES, template));
    let bound = |pods: &[Value]| pods.iter().filter(|pod| pod["spec"]["nodeName"].is_string()).count();
    cluster.sim.until(|sim| bound(&sim.list("pods")) >= 2 * NODES as usize).await;
}

const NODES: u32 = 40;
const OF_OPS: &str = "^/(readyz|metrics)$";

/// Rotations in every state that something may be asked of, and nodes that have none yet.
async fn seed(control: SocketAddr, tokens: &[String]) -> Value {
    let mut ids = Vec::new();
    for number in 2..=14 {
        ids.push(rotate(control, &tokens[number % tokens.len()], &format!("worker-{number}")).await);
    }
    let (over, going) = ids.split_at(2);
    for id in over {
        let (status, answer) =
            send(control, Method::POST, &format!("/v1/rotations/{id}/cancel"), &tokens[0], "{}").await;
        assert_eq!(status, 200, "{answer}");
        let mut looks = 0;
        while !show(control, &tokens[0], id).await.phase.is_terminal() {
            looks += 1;
            assert!(looks < 600, "rotation {id} was cancelled and goes on");
            Clock::system().sleep(Duration::from_millis(100)).await;
        }
    }
    let (held, doomed) = going.split_at(3);
    let nodes: Vec<_> = (15..=NODES).map(|number| format!("worker-{number}")).collect();
    json!({ "over": over, "held": held, "doomed": doomed, "nodes": nodes, "tokens": tokens })
}

async fn show(control: SocketAddr, token: &str, id: &str) -> Rotation {
    let (_, answer) = send(control, Method::GET, &format!("/v1/rotations/{id}"), token, "").await;
    serde_json::from_str(&answer).unwrap()
}

/// Runs schemathesis against one port: whether it is content, what it says, what was answered how often.
async fn ask(
    python: &Path,
    addr: SocketAddr,
    which: &[&str],
    token: &str,
    world: &Value,
) -> (bool, String, BTreeMap<String, u64>) {
    let work = tempfile::tempdir().unwrap();
    let answers = work.path().join("answers");
    // For people: another seed, more examples.
    let more = std::env::var("ROTATE_CONTRACT_FLAGS").unwrap_or_default();
    // Where it runs, it keeps what it has found.
    let output = Command::new(python)
        .args(["-m", "schemathesis.cli", "--config-file"])
        .arg(folder().join("schemathesis.toml"))
        .args(["run", "--no-color", "--url", &format!("http://{addr}")])
        .args(which)
        .args(more.split_whitespace())
        .arg(folder().join("../../../docs/openapi.json"))
        .current_dir(work.path())
        .env("PYTHONPATH", folder())
        .env("SCHEMATHESIS_HOOKS", "hooks")
        .env("CONTRACT_TOKEN", token)
        .env("CONTRACT_WORLD", world.to_string())
        .env("CONTRACT_ANSWERS", &answers)
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .kill_on_drop(true)
        .output()
        .await
        .unwrap();
    let said = String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    let counted = std::fs::read_to_string(answers).unwrap_or_else(|_| panic!("nothing was counted: {said}"));
    (output.status.success(), said, serde_json::from_str(&counted).unwrap())
}

/// Every operation that is described, by method and path.
fn described() -> Vec<String> {
    let document: Value = serde_json::from_str(include_str!("../../../docs/openapi.json")).unwrap();
    let mut operations = Vec::new();
    for (path, item) in document["paths"].as_object().unwrap() {
        let methods = item.as_object().unwrap().keys().filter(|key| *key != "servers");
        operations.extend(methods.map(|method| format!("{} {path}", method.to_uppercase())));
    }
    operations
}
