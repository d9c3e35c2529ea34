//! Whether a Pod may go to a node, and in the scheduler's own words why not.

use serde_json::Value;

use super::{neighbours, pod::PodInfo, spread, world::NodeInfo, world::World};

/// Why a node is refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Refusal {
    pub(crate) reasons: Vec<String>,
    /// Whether the node would do with some of its Pods gone.
    pub(crate) curable: bool,
}

impl Refusal {
    pub(crate) fn curable(reason: &str) -> Self {
        Self { reasons: vec![reason.to_owned()], curable: true }
    }

    pub(crate) fn hopeless(reason: &str) -> Self {
        Self { reasons: vec![reason.to_owned()], curable: false }
    }
}

/// All filters, in the scheduler's order; the first that refuses gives the reason.
pub(crate) fn filter(pod: &PodInfo, world: &World, at: usize) -> Result<(), Refusal> {
    let node = &world.nodes[at];
    let cordon = serde_json::json!({"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"});
    if node.unschedulable && !pod.tolerates(&cordon) {
        return Err(Refusal::hopeless("node(s) were unschedulable"));
    }
    if !pod.node.is_empty() && pod.node != node.name {
        return Err(Refusal::hopeless("node(s) didn't match the requested node name"));
    }
    if !tolerated(pod, node) {
        return Err(Refusal::hopeless("node(s) had untolerated taint(s)"));
    }
    if !selected(pod, node) {
        return Err(Refusal::hopeless("node(s) didn't match Pod's node affinity/selector"));
    }
    if ports_taken(pod, node) {
        return Err(Refusal::curable("node(s) didn't have free ports for the requested pod ports"));
    }
    resources(pod, node)?;
    volumes(pod, world, node)?;
    spread::filter(pod, world, node)?;
    neighbours::filter(pod, world, node)
}

/// Whether it tolerates every taint that keeps Pods off.
pub(crate) fn tolerated(pod: &PodInfo, node: &NodeInfo) -> bool {
    let hard = |taint: &&Value| matches!(taint["effect"].as_str(), Some("NoSchedule" | "NoExecute"));
    node.taints.iter().filter(hard).all(|taint| {
        // The cordon's taint follows `unschedulable`, which has its own filter.
        pod.tolerates(taint) || (taint["key"] == "node.kubernetes.io/unschedulable" && !node.unschedulable)
    })
}

/// Node selector and required node affinity.
pub(crate) fn selected(pod: &PodInfo, node: &NodeInfo) -> bool {
    pod.node_selector.iter().all(|(key, value)| node.label(key) == Some(value))
        && pod.required.as_ref().is_none_or(|terms| terms.iter().any(|term| term.matches(&node.name, &node.labels)))
}

fn ports_taken(pod: &PodInfo, node: &NodeInfo) -> bool {
    let any = "0.0.0.0";
    let taken = |wanted: &(String, String, i64)| {
        node.pods.iter().flat_map(|other| &other.ports).any(|held| {
            held.0 == wanted.0 && held.2 == wanted.2 && (held.1 == wanted.1 || held.1 == any || wanted.1 == any)
        })
    };
    pod.ports.iter().any(taken)
}

fn resources(pod: &PodInfo, node: &NodeInfo) -> Result<(), Refusal> {
    let mut reasons = Vec::new();
    let mut curable = true;
    let slots = node.allocatable.get("pods").copied().unwrap_or(0);
    if i64::try_from(node.pods.len()).unwrap_or(i64::MAX) + 1 > slots {
        reasons.push("Too many pods".to_owned());
    }
    for (resource, &amount) in &pod.requests {
        if amount > 0 && amount > node.free(resource) {
            reasons.push(format!("Insufficient {resource}"));
            curable &= amount <= node.allocatable.get(resource).copied().unwrap_or(0);
        }
    }
    if reasons.is_empty() { Ok(()) } else { Err(Refusal { reasons, curable }) }
}

/// What rules out all nodes alike: claims that are not there, or not bound in time.
pub(crate) fn before(pod: &PodInfo, world: &World) -> Result<(), String> {
    for name in &pod.claims {
        match world.claims.get(&(pod.key.0.clone(), name.clone())) {
            None => return Err(format!("persistentvolumeclaim \"{name}\" not found")),
            Some(claim) if !claim.bound && !claim.waits => {
                return Err("pod has unbound immediate PersistentVolumeClaims".to_owned());
            }
            Some(_) => {}
        }
    }
    Ok(())
}

fn volumes(pod: &PodInfo, world: &World, node: &NodeInfo) -> Result<(), Refusal> {
    for name in &pod.claims {
        let claim = world.claims.get(&(pod.key.0.clone(), name.clone()));
        if let Some(terms) = claim.and_then(|claim| claim.terms.as_ref())
            && !terms.iter().any(|term| term.matches(&node.name, &node.labels))
        {
            return Err(Refusal::hopeless("node(s) didn't match PersistentVolume's node affinity"));
        }
    }
    Ok(())
}
