//! What kwok and the service account controller do on the control plane, done to the simulated cluster.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use rotate_sim::Sim;
use serde_json::{Value, json};

use crate::harness::nodes::READY_AFTER;

/// Nodes get Ready when their annotation says so, and
/// every namespace has a service account to run Pods as.
pub(crate) async fn boot_nodes(sim: Sim) {
    let mut changes = sim.changes();
    loop {
        let now = sim.now();
        let mut next: Option<Duration> = None;
        for node in sim.list("nodes").iter().filter(|node| !is_ready(node)) {
            let wait = ready_at(node).duration_since(now);
            match Duration::try_from(wait) {
                Ok(wait) if !wait.is_zero() => next = Some(next.map_or(wait, |next| next.min(wait))),
                _ => {
                    let name = node["metadata"]["name"].as_str().unwrap_or_default();
                    let ready = json!([{ "type": "Ready", "status": "True", "reason": "KubeletReady" }]);
                    sim.edit("nodes", "", name, |node| node["status"]["conditions"] = ready);
                }
            }
        }
        for namespace in sim.list("namespaces") {
            let name = namespace["metadata"]["name"].as_str().unwrap_or_default();
            if sim.get("serviceaccounts", name, "default").is_none() {
                let account = json!({
                    "apiVersion": "v1", "kind": "ServiceAccount", "metadata": { "name": "default", "namespace": name },
                });
                drop(sim.try_create(account));
            }
        }
        let changed = changes.changed();
        match next {
            Some(wait) => drop(tokio::time::timeout(wait, changed).await),
            None if changed.await.is_err() => return,
            None => {}
        }
    }
}

fn is_ready(node: &Value) -> bool {
    let conditions = node["status"]["conditions"].as_array().into_iter().flatten();
    conditions.into_iter().any(|it| it["type"] == "Ready" && it["status"] == "True")
}

fn ready_at(node: &Value) -> Timestamp {
    let created = node["metadata"]["creationTimestamp"].as_str().and_then(|text| text.parse().ok());
    let seconds = node["metadata"]["annotations"][READY_AFTER].as_str().and_then(|text| text.parse().ok());
    created.unwrap_or(Timestamp::UNIX_EPOCH) + SignedDuration::from_secs(seconds.unwrap_or(0))
}
