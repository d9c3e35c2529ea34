//! What `GET /v1/nodes/{name}` costs the agent's binary while Pods come and go.
//!
//! Callers send at set times, whatever the answers take; an answer's time counts from when its request was due. Each has a
//! connection and a token of its own. Phases with and without them alternate, so that what the events cost is known from the
//! same run.

use std::io::Write as _;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context as _, bail, ensure};
use clap::Args;
use rotate_agent::clock::Clock;
use rotate_benches::realistic::Realistic;
use rotate_benches::wire::Encoding;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::task::JoinSet;

use super::parent::{self, Ready};
use super::{Cluster, process};

/// How requests are sent.
#[derive(Debug, Args)]
pub(super) struct Load {
    #[command(flatten)]
    cluster: Cluster,
    /// Requests a second
    #[arg(long, default_value_t = 2_000)]
    rate: u64,
    /// Callers, each with a connection and a token
    #[arg(long, default_value_t = 20)]
    callers: u64,
    /// Seconds of a phase
    #[arg(long, default_value_t = 20)]
    phase: u64,
    /// Pairs of phases
    #[arg(long, default_value_t = 3)]
    pairs: usize,
    /// The agent's binary; by default beside this one
    #[arg(long)]
    agent: Option<PathBuf>,
}

/// A phase.
#[derive(Debug)]
struct Phase {
    seconds: f64,
    cpu: Duration,
    events: u64,
    /// From when each request was due until it was answered.
    latencies: Vec<Duration>,
}

pub(super) fn run(load: &Load) -> anyhow::Result<()> {
    let (_server, url, _) = parent::serve(load.cluster)?;
    let agent = parent::ready(load.agent.as_deref(), &url)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let nodes = names(load.cluster)?;
    let mut out = std::io::stdout();
    writeln!(
        out,
        "{} Pods, {} nodes, {} events/s asked for; {} requests/s by {} callers; {} s a phase",
        load.cluster.pods,
        nodes.len(),
        load.cluster.churn * 3,
        load.rate,
        load.callers,
        load.phase
    )?;
    writeln!(
        out,
        "{:<10} {:>9} {:>11} {:>9} {:>12} {:>8} {:>8} {:>8}",
        "phase", "CPU ms/s", "requests/s", "events/s", "CPU µs/req.", "p50 µs", "p99 µs", "max µs"
    )?;
    let (mut quiet, mut busy) = (Vec::new(), Vec::new());
    for _ in 0..load.pairs {
        quiet.push(runtime.block_on(phase(load, &agent, &nodes, false))?);
        show(&mut out, "events", quiet.last().context("just pushed")?)?;
        busy.push(runtime.block_on(phase(load, &agent, &nodes, true))?);
        show(&mut out, "and calls", busy.last().context("just pushed")?)?;
    }
    let per_second = |phases: &[Phase]| {
        phases.iter().map(|phase| phase.cpu.as_secs_f64()).sum::<f64>()
            / phases.iter().map(|phase| phase.seconds).sum::<f64>()
    };
    let answered = busy.iter().map(|phase| phase.latencies.len()).sum::<usize>() as f64;
    let rate = answered / busy.iter().map(|phase| phase.seconds).sum::<f64>();
    let (all, events) = (per_second(&busy), per_second(&quiet));
    let rss = process::memory(&agent.process.0.id().to_string(), "VmRSS")? >> 20;
    writeln!(
        out,
        "CPU a request: {:.1} µs with all that the events cost; {:.1} µs without (events alone: {:.1} ms/s); RSS {rss} MiB",
        all / rate * 1e6,
        (all - events) / rate * 1e6,
        events * 1e3
    )?;
    Ok(())
}

fn show(out: &mut impl std::io::Write, name: &str, phase: &Phase) -> anyhow::Result<()> {
    let mut latencies = phase.latencies.clone();
    latencies.sort_unstable();
    let at =
        |part: usize| latencies.get(latencies.len().saturating_sub(1) * part / 1000).map_or(0, Duration::as_micros);
    let requests = latencies.len() as f64;
    let cpu = phase.cpu.as_secs_f64();
    let each = if requests > 0.0 { format!("{:.1}", cpu / requests * 1e6) } else { "–".to_owned() };
    writeln!(
        out,
        "{name:<10} {:>9.1} {:>11.0} {:>9.0} {each:>12} {:>8} {:>8} {:>8}",
        cpu / phase.seconds * 1e3,
        requests / phase.seconds,
        phase.events as f64 / phase.seconds,
        at(500),
        at(990),
        at(1000)
    )?;
    Ok(())
}

async fn phase(load: &Load, agent: &Ready, nodes: &[String], busy: bool) -> anyhow::Result<Phase> {
    let clock = Clock::system();
    let process = agent.process.0.id().to_string();
    let before = (process::cpu(&process)?, events(agent)?, clock.now());
    let length = Duration::from_secs(load.phase);
    let mut latencies = Vec::new();
    if busy {
        let mut callers = JoinSet::new();
        let every = Duration::from_nanos(1_000_000_000 * load.callers / load.rate);
        for caller in 0..load.callers {
            let nodes: Vec<_> =
                nodes.iter().skip(usize::try_from(caller)?).step_by(usize::try_from(load.callers)?).cloned().collect();
            let (control, offset) =
                (agent.control.clone(), every * u32::try_from(caller)? / u32::try_from(load.callers)?);
            callers.spawn(call(clock, control, caller, nodes, offset, every, length));
        }
        while let Some(done) = callers.join_next().await {
            latencies.extend(done??);
        }
    } else {
        clock.sleep(length).await;
    }
    let seconds = clock.now().duration_since(before.2).as_secs_f64();
    Ok(Phase { seconds, cpu: process::cpu(&process)? - before.0, events: events(agent)? - before.1, latencies })
}

async fn call(
    clock: Clock,
    control: String,
    caller: u64,
    nodes: Vec<String>,
    offset: Duration,
    every: Duration,
    length: Duration,
) -> anyhow::Result<Vec<Duration>> {
    let mut stream = TcpStream::connect(&control).await?;
    stream.set_nodelay(true)?;
    // As long as a service account's token.
    let token = format!("{caller:04}{}", "t".repeat(1_000));
    let begun = clock.now();
    let mut latencies = Vec::new();
    for (number, node) in (0..).zip(nodes.iter().cycle()) {
        let due = offset + every * number;
        if due >= length {
            break;
        }
        let elapsed = clock.now().duration_since(begun).unsigned_abs();
        if due > elapsed {
            clock.sleep(due - elapsed).await;
        }
        let request =
            format!("GET /v1/nodes/{node} HTTP/1.1\r\nhost: {control}\r\nauthorization: Bearer {token}\r\n\r\n");
        stream.write_all(request.as_bytes()).await?;
        answered(&mut stream).await?;
        latencies.push(clock.now().duration_since(begun).unsigned_abs() - due);
    }
    Ok(latencies)
}

/// Reads one answer, which must be a success.
async fn answered(stream: &mut TcpStream) -> anyhow::Result<()> {
    let mut answer = Vec::with_capacity(2048);
    loop {
        ensure!(stream.read_buf(&mut answer).await? > 0, "the agent hung up");
        let text = String::from_utf8_lossy(&answer);
        let Some((head, body)) = text.split_once("\r\n\r\n") else { continue };
        ensure!(head.starts_with("HTTP/1.1 200"), "{text}");
        let length = head.lines().find_map(|line| line.strip_prefix("content-length: ")).context("a length")?;
        if body.len() >= length.parse()? {
            return Ok(());
        }
    }
}

/// Pods that were read so far.
fn events(agent: &Ready) -> anyhow::Result<u64> {
    let metrics = parent::get(&agent.ops, "/metrics").context("the agent has metrics")?;
    let line = metrics.lines().find_map(|line| line.strip_prefix("rotate_feed_objects_total{kind=\"pods\"} "));
    Ok(line.context("it counts Pods")?.parse()?)
}

fn names(cluster: Cluster) -> anyhow::Result<Vec<String>> {
    let realistic = Realistic::new(cluster.pods, cluster.nodes.unwrap_or(Realistic::nodes_for(cluster.pods)));
    let name = |number| -> anyhow::Result<String> {
        let node: serde_json::Value = serde_json::from_slice(&realistic.node(number, Encoding::Json))?;
        Ok(node["metadata"]["name"].as_str().context("a node has a name")?.to_owned())
    };
    let names: Vec<_> = (0..realistic.nodes()).map(name).collect::<Result<_, _>>()?;
    if names.is_empty() {
        bail!("there are no nodes to ask about");
    }
    Ok(names)
}
