//! Looks over the agent's shoulder: at every eviction that the API server accepts, was room held?

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use axum::body::Body;
use axum::extract::Request;
use axum::middleware::{self, Next};
use axum::{Router, body};
use parking_lot::Mutex;
use rotate_shared::{Quantity, names};
use rotate_sim::Sim;
use serde_json::Value;

/// Invariant 1, checked at the moment of each eviction against the cluster itself.
#[derive(Clone, Debug, Default)]
pub(crate) struct Guard {
    seen: Arc<Mutex<Seen>>,
    /// A placeholder holds room for as many Pods as go into it.
    shared: Arc<AtomicBool>,
}

#[derive(Debug, Default)]
struct Seen {
    violations: Vec<String>,
    /// Evictions so far by candidate and owner.
    evicted: BTreeMap<(String, String), Evicted>,
}

#[derive(Debug, Default)]
struct Evicted {
    count: usize,
    milli_cpu: i128,
    /// The owner's Pods at its first eviction.
    before: BTreeSet<String>,
}

impl Guard {
    /// The cluster's API, watched.
    pub(crate) fn watch(&self, sim: &Sim) -> Router {
        let (guard, cluster) = (self.clone(), sim.clone());
        sim.router().layer(middleware::from_fn(move |request: Request, next: Next| {
            let (guard, cluster) = (guard.clone(), cluster.clone());
            async move {
                if !request.uri().path().ends_with("/eviction") {
                    return next.run(request).await;
                }
                let (parts, sent) = request.into_parts();
                let sent = body::to_bytes(sent, usize::MAX).await.unwrap();
                let segments: Vec<_> = parts.uri.path().split('/').map(str::to_owned).collect();
                let eviction: Value = serde_json::from_slice(&sent).unwrap();
                let pod = cluster.get("pods", &segments[4], &segments[6]);
                let verdict = pod.as_ref().map(|pod| guard.judge(&cluster, pod, &eviction));
                let response = next.run(Request::from_parts(parts, Body::from(sent))).await;
                if let (Some(pod), Some(verdict), true) = (pod, verdict, response.status() == 201) {
                    guard.accept(&cluster, &pod, verdict);
                }
                response
            }
        }))
    }

    /// From here on Pods may share a placeholder.
    pub(crate) fn share(&self) {
        self.shared.store(true, Ordering::Relaxed);
    }

    /// What was wrong so far.
    pub(crate) fn violations(&self) -> Vec<String> {
        self.seen.lock().violations.clone()
    }

    fn judge(&self, sim: &Sim, pod: &Value, eviction: &Value) -> Result<(), String> {
        let name = &pod["metadata"]["name"];
        if eviction["deleteOptions"]["preconditions"]["uid"].as_str().is_none() {
            return Err(format!("the eviction of {name} has no UID precondition"));
        }
        let candidate = text(pod, "/spec/nodeName");
        let node = sim.get("nodes", "", &candidate).ok_or(format!("{name} is on no node"))?;
        let rotation = node["metadata"]["annotations"][names::ROTATION].as_str().unwrap_or_default().to_owned();
        if rotation.is_empty() || node["spec"]["unschedulable"] != true {
            return Err(format!("{name} is evicted from {candidate}, which is not marked and cordoned"));
        }
        let pods = sim.list("pods");
        let mut held: Vec<i128> = pods.iter().filter(|pod| is_held(sim, pod, &rotation, &candidate)).map(cpu).collect();
        let mut needs: Vec<i128> = vec![cpu(pod)];
        for ((of, owner), evicted) in self.seen.lock().evicted.iter().filter(|((of, _), _)| *of == candidate) {
            debug_assert_eq!(of, &candidate);
            needs.extend(std::iter::repeat_n(evicted.milli_cpu, evicted.pending(sim, &pods, owner, &candidate)));
        }
        // Every need takes the smallest placeholder that is large enough, the largest need first.
        needs.sort_unstable_by(|one, other| other.cmp(one));
        held.sort_unstable();
        for need in &needs {
            match held.iter().position(|room| room >= need) {
                Some(place) if self.shared.load(Ordering::Relaxed) => held[place] -= need,
                Some(place) => drop(held.remove(place)),
                None => {
                    return Err(format!("{name} is evicted without room: needs {needs:?}, left of the room {held:?}"));
                }
            }
        }
        Ok(())
    }

    fn accept(&self, sim: &Sim, pod: &Value, verdict: Result<(), String>) {
        let mut seen = self.seen.lock();
        if let Err(violation) = verdict {
            seen.violations.push(violation);
        }
        let Some(owner) = owner(pod) else { return };
        let evicted = seen.evicted.entry((text(pod, "/spec/nodeName"), owner.clone())).or_default();
        if evicted.count == 0 {
            evicted.milli_cpu = cpu(pod);
            let pods = sim.list("pods");
            let siblings = pods.iter().filter(|pod| self::owner(pod).as_ref() == Some(&owner));
            evicted.before = siblings.map(|pod| text(pod, "/metadata/uid")).collect();
        }
        evicted.count += 1;
    }
}

impl Evicted {
    /// How many replacements have neither a node nor a place that the scheduler cleared for them.
    fn pending(&self, sim: &Sim, pods: &[Value], owner: &str, candidate: &str) -> usize {
        let live = |pod: &&Value| pod["metadata"]["deletionTimestamp"].is_null();
        let siblings: Vec<_> =
            pods.iter().filter(|pod| self::owner(pod).as_deref() == Some(owner)).filter(live).collect();
        let new = siblings.iter().filter(|pod| !self.before.contains(&text(pod, "/metadata/uid")));
        let placed = |pod: &&&Value| {
            let nominated = text(pod, "/status/nominatedNodeName");
            !text(pod, "/spec/nodeName").is_empty() || (!nominated.is_empty() && nominated != candidate)
        };
        let missing = self.count.saturating_sub(new.filter(placed).count());
        // Scaled down meanwhile, the owner wants fewer.
        let bound = siblings.iter().filter(|pod| !text(pod, "/spec/nodeName").is_empty()).count();
        let sets = sim.list("replicasets").into_iter().chain(sim.list("statefulsets"));
        let wanted = sets.into_iter().find(|set| text(set, "/metadata/uid") == owner);
        let wanted = wanted.and_then(|set| set["spec"]["replicas"].as_u64()).unwrap_or(0) as usize;
        missing.min(wanted.saturating_sub(bound))
    }
}

/// Whether a Pod is a placeholder that holds room.
fn is_held(sim: &Sim, pod: &Value, rotation: &str, candidate: &str) -> bool {
    let node = text(pod, "/spec/nodeName");
    let ours =
        pod["metadata"]["namespace"] == names::ROOM_NAMESPACE && pod["metadata"]["labels"][names::ROTATION] == rotation;
    let runs = pod["status"]["phase"] == "Running" && pod["metadata"]["deletionTimestamp"].is_null();
    ours && runs
        && node != candidate
        && sim.get("nodes", "", &node).is_some_and(|node| {
            let conditions = node["status"]["conditions"].as_array().cloned().unwrap_or_default();
            let ready =
                conditions.iter().any(|condition| condition["type"] == "Ready" && condition["status"] == "True");
            ready && node["spec"]["unschedulable"] != true
        })
}

fn owner(pod: &Value) -> Option<String> {
    let owners = pod["metadata"]["ownerReferences"].as_array()?;
    owners.iter().find(|owner| owner["controller"] == true).map(|owner| text(owner, "/uid"))
}

fn cpu(pod: &Value) -> i128 {
    let containers = pod["spec"]["containers"].as_array().cloned().unwrap_or_default();
    let request = |container: &Value| text(container, "/resources/requests/cpu").parse::<Quantity>().ok()?.milli();
    containers.iter().filter_map(request).map(i128::from).sum()
}

fn text(object: &Value, pointer: &str) -> String {
    object.pointer(pointer).and_then(Value::as_str).unwrap_or_default().to_owned()
}
