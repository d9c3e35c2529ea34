//! The kubelets of all nodes: they start Pods, report them, and let them end.

use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
    time::Duration,
};

use jiff::Timestamp;
use serde_json::{Value, json};

use crate::{
    clock,
    cluster::Cluster,
    kind::Kind,
    object,
    settings::Settings,
    store::{Key, Store},
};

#[cfg(test)]
mod tests;

/// Annotation of a Pod: it succeeds after so many seconds.
pub const RUNS_FOR: &str = "sim.kubectl-rotate.dev/runs-for";
/// Annotation of a Pod: it is Ready so many seconds after it runs; `never` is a value too.
pub const READY_AFTER: &str = "sim.kubectl-rotate.dev/ready-after";
/// Annotation of a Pod: its containers wait for ever, for this reason (`ErrImagePull`).
pub const NEVER_STARTS: &str = "sim.kubectl-rotate.dev/never-starts";

/// Annotation of a Node: its Pods take so many seconds from binding to Running.
pub const POD_START: &str = "sim.kubectl-rotate.dev/pod-start";

/// When things happened to a Pod, as its kubelet remembers.
#[derive(Clone, Copy, Debug)]
struct Memory {
    accepted: Timestamp,
    running: Option<Timestamp>,
    ending: Option<Timestamp>,
}

/// What is to be done to a Pod.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Action {
    Accept,
    Wait(String),
    Run,
    Serve,
    Finish { phase: &'static str, reason: &'static str },
    End,
}

/// Runs until the cluster ends.
pub(crate) async fn run(cluster: Arc<Cluster>) {
    let mut memory = HashMap::new();
    let mut changes = cluster.store().subscribe();
    let mut seen = 0;
    let mut wake = None;
    loop {
        changes.mark_unchanged();
        let version = cluster.store().version_of(&[Kind::Pod, Kind::Node]);
        if version != seen || wake.is_some_and(|at| at <= cluster.clock.now()) {
            seen = version;
            wake = tick(&cluster, &mut memory);
        }
        tokio::select! {
            changed = changes.changed() => if changed.is_err() { return },
            () = cluster.clock.sleep_until(wake) => {}
        }
    }
}

/// Does what is due; returns when the next is.
fn tick(cluster: &Cluster, memory: &mut HashMap<String, Memory>) -> Option<Timestamp> {
    let store = &mut *cluster.store();
    let now = store.now();
    let alive: HashMap<String, Duration> = store
        .iter(Kind::Node)
        .filter(|node| object::ready(node))
        .map(|node| {
            let own = object::annotation(node, POD_START).and_then(|text| text.parse().ok());
            (object::name(node).to_owned(), own.map_or(cluster.settings.pod_start, Duration::from_secs_f64))
        })
        .collect();
    let pods: Vec<Arc<Value>> =
        store.iter(Kind::Pod).filter(|pod| alive.contains_key(object::node_name(pod))).cloned().collect();
    let mut wake: Option<Timestamp> = None;
    for pod in &pods {
        let key = (object::namespace(pod).to_owned(), object::name(pod).to_owned());
        let fresh = Memory { accepted: now, running: None, ending: None };
        let remembered = memory.entry(object::uid(pod).to_owned()).or_insert(fresh);
        let start = alive[object::node_name(pod)];
        let mut pod = Some(pod.clone());
        while let Some(present) = pod {
            if object::terminating(&present) && remembered.ending.is_none() {
                remembered.ending = Some(now);
            }
            let (due, action) = match next(&present, remembered, start, &cluster.settings) {
                Some(step) => step,
                None => break,
            };
            if due > now {
                wake = Some(wake.map_or(due, |at| at.min(due)));
                break;
            }
            if action == Action::Run {
                remembered.running = Some(now);
            }
            pod = act(store, &key, &action, now);
        }
    }
    if memory.len() > 2 * pods.len() + 64 {
        let present: HashSet<&str> = pods.iter().map(|pod| object::uid(pod)).collect();
        memory.retain(|uid, _| present.contains(uid.as_str()));
    }
    wake
}

/// The next thing to happen to a Pod, and when.
fn next(pod: &Value, memory: &Memory, start: Duration, settings: &Settings) -> Option<(Timestamp, Action)> {
    if let Some(since) = memory.ending {
        let grace = object::number(pod, "/metadata/deletionGracePeriodSeconds").unwrap_or(0);
        let grace = Duration::from_secs(u64::try_from(grace).unwrap_or(0));
        return Some((clock::after(since, grace.mul_f64(settings.termination)), Action::End));
    }
    let seconds = |key: &str| object::annotation(pod, key).and_then(|text| text.parse::<f64>().ok());
    let deadline = object::number(pod, "/spec/activeDeadlineSeconds").map(|limit| {
        let at = clock::after(memory.accepted, Duration::from_secs(u64::try_from(limit).unwrap_or(0)));
        (at, Action::Finish { phase: "Failed", reason: "DeadlineExceeded" })
    });
    let step = match object::text(pod, "/status/phase") {
        "Succeeded" | "Failed" => return None,
        "Running" => {
            let running = memory.running.unwrap_or(memory.accepted);
            let finish = seconds(RUNS_FOR).map(|seconds| {
                let at = clock::after(running, Duration::from_secs_f64(seconds));
                (at, Action::Finish { phase: "Succeeded", reason: "Completed" })
            });
            let ready_after = match object::annotation(pod, READY_AFTER) {
                Some("never") => None,
                Some(text) => text.parse().ok().map(Duration::from_secs_f64),
                None => Some(settings.pod_ready),
            };
            let serve =
                ready_after.filter(|_| !object::ready(pod)).map(|delay| (clock::after(running, delay), Action::Serve));
            earlier(serve, finish)
        }
        _ if object::text(pod, "/status/startTime").is_empty() => Some((memory.accepted, Action::Accept)),
        _ => match object::annotation(pod, NEVER_STARTS) {
            Some(reason) if waiting_for(pod) == reason => None,
            Some(reason) => Some((clock::after(memory.accepted, start), Action::Wait(reason.to_owned()))),
            None => Some((clock::after(memory.accepted, start), Action::Run)),
        },
    };
    earlier(step, deadline)
}

fn earlier(a: Option<(Timestamp, Action)>, b: Option<(Timestamp, Action)>) -> Option<(Timestamp, Action)> {
    match (a, b) {
        (Some(a), Some(b)) => Some(if b.0 < a.0 { b } else { a }),
        (a, b) => a.or(b),
    }
}

fn waiting_for(pod: &Value) -> &str {
    object::list(pod, "/status/containerStatuses").first().map_or("", |c| object::text(c, "/state/waiting/reason"))
}

/// Reports it. `None` once the Pod is gone.
fn act(store: &mut Store, key: &Key, action: &Action, now: Timestamp) -> Option<Arc<Value>> {
    let at = clock::seconds(now);
    if *action == Action::End {
        store.delete(Kind::Pod, key, Some(0));
        // One that a finalizer holds is left to whoever owns that.
        return None;
    }
    store.update(Kind::Pod, key, |pod| match action {
        Action::Accept => {
            pod["status"]["startTime"] = json!(at);
            object::set_condition(pod, "Initialized", "True", "", "", now);
            readiness(pod, "False", "ContainersNotReady", now);
            containers(pod, false, &json!({"waiting": {"reason": "ContainerCreating"}}));
        }
        Action::Wait(reason) => containers(pod, false, &json!({"waiting": {"reason": reason}})),
        Action::Run => {
            pod["status"]["phase"] = json!("Running");
            pod["status"]["podIP"] = json!("10.0.0.1");
            pod["status"]["hostIP"] = json!("192.0.2.1");
            containers(pod, false, &json!({"running": {"startedAt": at}}));
        }
        Action::Serve => {
            readiness(pod, "True", "", now);
            let state = pod["status"]["containerStatuses"][0]["state"].clone();
            containers(pod, true, &state);
        }
        Action::Finish { phase, reason } => {
            pod["status"]["phase"] = json!(phase);
            if *phase == "Failed" {
                pod["status"]["reason"] = json!(reason);
                pod["status"]["message"] = json!("Pod was active on the node longer than the specified deadline");
            }
            readiness(pod, "False", "PodCompleted", now);
            let code = i32::from(*phase == "Failed");
            let state = json!({"terminated": {"exitCode": code, "reason": reason, "finishedAt": at}});
            containers(pod, false, &state);
        }
        Action::End => {}
    })
}

fn readiness(pod: &mut Value, status: &str, reason: &str, now: Timestamp) {
    for kind in ["ContainersReady", "Ready"] {
        object::set_condition(pod, kind, status, reason, "", now);
    }
}

fn containers(pod: &mut Value, ready: bool, state: &Value) {
    let started = state.get("running").is_some();
    let statuses: Vec<Value> = object::list(pod, "/spec/containers")
        .iter()
        .map(|container| {
            json!({
                "name": container["name"], "image": container["image"], "imageID": "", "restartCount": 0,
                "ready": ready, "started": started, "state": state,
            })
        })
        .collect();
    pod["status"]["containerStatuses"] = json!(statuses);
}
