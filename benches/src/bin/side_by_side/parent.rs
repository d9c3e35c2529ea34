//! Starts the server and the clients, one after another.

use std::env;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::{Context as _, bail};
use clap::ValueEnum as _;
use rotate_agent::clock::Clock;

use super::process::{self, Figures};
use super::{Cluster, Reader, Run, table};

/// How long one client may take until it has read everything.
const PATIENCE: Duration = Duration::from_secs(900);

/// A process that does not outlive this one.
pub(super) struct Started(pub(super) Child);

impl Drop for Started {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

pub(super) fn run(run: &Run) -> anyhow::Result<()> {
    let (_server, both, json) = serve(run.cluster)?;
    let readers = if run.only.is_empty() { Reader::value_variants() } else { &run.only };
    let mut rows = Vec::new();
    for reader in readers {
        let url = if *reader == Reader::OursJson { &json } else { &both };
        let mut runs = Vec::new();
        for _ in 0..run.runs.max(1) {
            runs.push(match reader {
                Reader::Agent => agent(run, url)?,
                _ => read(*reader, url, run.settle)?,
            });
        }
        runs.sort_by_key(|figures| figures.cpu);
        rows.push((*reader, runs.swap_remove(runs.len() / 2)));
    }
    table::print(run, &rows)
}

pub(super) fn serve(cluster: Cluster) -> anyhow::Result<(Started, String, String)> {
    let mut command = Command::new(env::current_exe()?);
    command.arg("serve").args(["--pods", &cluster.pods.to_string(), "--churn", &cluster.churn.to_string()]);
    command.args(["--listen", &cluster.listen.to_string()]);
    if let Some(nodes) = cluster.nodes {
        command.args(["--nodes", &nodes.to_string()]);
    }
    if cluster.hostile {
        command.arg("--hostile");
    }
    let mut server = Started(command.stdout(Stdio::piped()).spawn().context("failed to start the server")?);
    let line = first_line(&mut server)?;
    let (both, json) = line.split_once(' ').with_context(|| format!("the server said {line:?}"))?;
    Ok((server, both.to_owned(), json.to_owned()))
}

fn read(reader: Reader, url: &str, settle: u64) -> anyhow::Result<Figures> {
    let name = reader.to_possible_value().context("every client has a name")?;
    let mut command = Command::new(env::current_exe()?);
    command.args(["read", name.get_name(), url, "--settle", &settle.to_string()]);
    let mut client = Started(command.stdout(Stdio::piped()).spawn().context("failed to start a client")?);
    Figures::from_line(&first_line(&mut client)?)
}

fn first_line(process: &mut Started) -> anyhow::Result<String> {
    let mut line = String::new();
    let stdout = process.0.stdout.take().context("its output is read once")?;
    BufReader::new(stdout).read_line(&mut line)?;
    if line.is_empty() {
        bail!("a process ended without a word");
    }
    Ok(line.trim().to_owned())
}

/// An agent that has read the cluster.
pub(super) struct Ready {
    pub(super) process: Started,
    /// Its control port, which wants tokens.
    pub(super) control: String,
    pub(super) ops: String,
    /// How long it took.
    after: Duration,
    _kubeconfig: tempfile::NamedTempFile,
}

/// Starts the agent's binary, which knows nothing of us: the kernel and its own ports tell.
pub(super) fn ready(binary: Option<&Path>, url: &str) -> anyhow::Result<Ready> {
    let binary = match binary {
        Some(path) => path.to_owned(),
        None => beside()?,
    };
    if !binary.exists() {
        bail!("{} is not there: build it with the same profile, --package rotate-agent", binary.display());
    }
    let kubeconfig = tempfile::NamedTempFile::new()?;
    write!(kubeconfig.as_file(), "{}", kubeconfig_of(url))?;
    let clock = Clock::system();
    let started = clock.now();
    let mut process = start_agent(&binary, kubeconfig.path())?;
    let (control, ops) = addresses(&mut process)?;
    let elapsed = || clock.now().duration_since(started).unsigned_abs();
    while get(&ops, "/readyz").is_none() {
        if elapsed() > PATIENCE {
            bail!("the agent is not ready after {} s", PATIENCE.as_secs());
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    Ok(Ready { process, control, ops, after: elapsed(), _kubeconfig: kubeconfig })
}

fn agent(run: &Run, url: &str) -> anyhow::Result<Figures> {
    let agent = ready(run.agent.as_deref(), url)?;
    let process = agent.process.0.id().to_string();
    let (ready, cpu) = (agent.after, process::cpu(&process)?);
    std::thread::sleep(Duration::from_secs(run.settle));
    Ok(Figures {
        pods: run.cluster.pods,
        ready,
        cpu,
        settled_cpu: process::cpu(&process)?,
        kept: None,
        allocations: None,
        peak_rss: process::memory(&process, "VmHWM")?,
        rss: process::memory(&process, "VmRSS")?,
    })
}

fn beside() -> anyhow::Result<PathBuf> {
    let here = env::current_exe()?;
    Ok(here.with_file_name("rotate-agent"))
}

fn start_agent(binary: &Path, kubeconfig: &Path) -> anyhow::Result<Started> {
    let mut command = Command::new(binary);
    command.arg("--kubeconfig").arg(kubeconfig);
    command.args(["--control-addr", "127.0.0.1:0", "--ops-addr", "127.0.0.1:0"]);
    command.args(["--log-format", "json"]).env("RUST_LOG", "info").stdin(Stdio::null()).stderr(Stdio::piped());
    Ok(Started(command.spawn().with_context(|| format!("failed to start {}", binary.display()))?))
}

/// Where it is called and where it serves its health, from its log. The rest of the log is read and dropped, so that it is never blocked.
fn addresses(agent: &mut Started) -> anyhow::Result<(String, String)> {
    let stderr = agent.0.stderr.take().context("its log is read once")?;
    let mut lines = BufReader::new(stderr).lines();
    let mut seen = Vec::new();
    for line in lines.by_ref() {
        let line = line?;
        let entry: serde_json::Value = serde_json::from_str(&line).unwrap_or_default();
        let field = |name: &str| Some(entry["fields"][name].as_str()?.to_owned());
        if let (Some(control), Some(ops)) = (field("control"), field("ops")) {
            std::thread::spawn(move || lines.for_each(drop));
            return Ok((control, ops));
        }
        seen.push(line);
    }
    bail!("the agent did not start: {}", seen.join("\n"))
}

/// The body of an answer that is 200.
pub(super) fn get(addr: &str, path: &str) -> Option<String> {
    let mut stream = TcpStream::connect(addr).ok()?;
    write!(stream, "GET {path} HTTP/1.1\r\nHost: {addr}\r\nConnection: close\r\n\r\n").ok()?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).ok()?;
    let (head, body) = answer.split_once("\r\n\r\n")?;
    head.starts_with("HTTP/1.1 200").then(|| body.to_owned())
}

fn kubeconfig_of(url: &str) -> serde_json::Value {
    serde_json::json!({
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{ "name": "served", "cluster": { "server": url } }],
        "users": [{ "name": "anybody", "user": {} }],
        "contexts": [{ "name": "served", "context": { "cluster": "served", "user": "anybody" } }],
        "current-context": "served",
    })
}
