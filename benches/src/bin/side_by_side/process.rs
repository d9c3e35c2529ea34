//! What the kernel says of a process, and how a client's process tells it.

use std::fs;
use std::time::Duration;

use anyhow::Context as _;
use serde_json::{Value, json};

/// What reading the cluster has cost a process.
#[derive(Clone, Debug)]
pub(super) struct Figures {
    pub(super) pods: usize,
    /// Until everything was there.
    pub(super) ready: Duration,
    /// CPU time until then.
    pub(super) cpu: Duration,
    /// CPU time until the end.
    pub(super) settled_cpu: Duration,
    /// Bytes on the heap at the end, without what was there before; of our own processes only.
    pub(super) kept: Option<i64>,
    /// Allocations until everything was there; of our own processes only.
    pub(super) allocations: Option<u64>,
    /// `VmHWM`, bytes.
    pub(super) peak_rss: u64,
    /// `VmRSS` at the end, bytes.
    pub(super) rss: u64,
}

impl Figures {
    pub(super) fn to_line(&self) -> Value {
        let micros = |duration: Duration| u64::try_from(duration.as_micros()).unwrap_or(u64::MAX);
        json!({
            "pods": self.pods,
            "ready": micros(self.ready),
            "cpu": micros(self.cpu),
            "settledCpu": micros(self.settled_cpu),
            "kept": self.kept,
            "allocations": self.allocations,
            "peakRss": self.peak_rss,
            "rss": self.rss,
        })
    }

    pub(super) fn from_line(line: &str) -> anyhow::Result<Self> {
        let value: Value = serde_json::from_str(line).with_context(|| format!("failed to read figures: {line:?}"))?;
        let number = |name: &str| value[name].as_u64().with_context(|| format!("figures without {name}"));
        let micros = |name: &str| Ok::<_, anyhow::Error>(Duration::from_micros(number(name)?));
        Ok(Self {
            pods: usize::try_from(number("pods")?)?,
            ready: micros("ready")?,
            cpu: micros("cpu")?,
            settled_cpu: micros("settledCpu")?,
            kept: value["kept"].as_i64(),
            allocations: value["allocations"].as_u64(),
            peak_rss: number("peakRss")?,
            rss: number("rss")?,
        })
    }
}

/// CPU time of a process, all of its living threads.
pub(super) fn cpu(process: &str) -> anyhow::Result<Duration> {
    let tasks = format!("/proc/{process}/task");
    let mut nanos = 0;
    for task in fs::read_dir(&tasks).with_context(|| format!("failed to read {tasks}"))? {
        // A thread may end meanwhile.
        let Ok(text) = fs::read_to_string(task?.path().join("schedstat")) else { continue };
        nanos += text.split_whitespace().next().context("schedstat is empty")?.parse::<u64>()?;
    }
    Ok(Duration::from_nanos(nanos))
}

/// A size of a process's memory in bytes, by the kernel's name.
pub(super) fn memory(process: &str, name: &str) -> anyhow::Result<u64> {
    let path = format!("/proc/{process}/status");
    let text = fs::read_to_string(&path).with_context(|| format!("failed to read {path}"))?;
    let line = text.lines().find_map(|line| line.strip_prefix(name)).with_context(|| format!("no {name} in {path}"))?;
    let kibibytes = line.trim_start_matches(':').trim().trim_end_matches("kB").trim();
    Ok(kibibytes.parse::<u64>().with_context(|| format!("{name} is {line:?}"))? * 1024)
}
