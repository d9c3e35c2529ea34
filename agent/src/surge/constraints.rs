//! Constraints of a Pod translated for its placeholder, never copied.
//!
//! A placeholder lives in a namespace of its own, where a copied spread or anti-affinity counts nothing, and it is
//! scheduled while the original still stands. So whatever looks at other Pods becomes something that holds for both:
//!
//! ```text
//! node selector and affinity, volumes, tolerations, host ports ──▶ as they are
//! spread, anti-affinity of a zone or the like ──▶ the candidate's zone: the original stands there legally;
//!                                                 only if that has no room, every zone that would admit the Pod (`Reach`)
//! spread, anti-affinity of a host ──▶ anti-affinity with the workload's namespace and ours spelled out, and the labels
//!                                     by which placeholders of one workload repel each other (`apart`)
//! other Pods' anti-affinity ──▶ the inverse term
//! affinity to Pods elsewhere ──▶ as it is, with the namespaces spelled out; to Pods on the candidate alone ──▶ its zone
//!                                                                                                      (`company`)
//! anything else ──▶ a blocker
//! ```

pub(super) mod apart;
mod company;
mod domains;

use std::collections::BTreeSet;

use rotate_shared::Code;
use rotate_shared::names::HOSTNAME;
use rotate_shared::plan::Notice;
use serde::{Deserialize, Serialize};

use super::classify;
use super::terms;
use crate::cache::selector::{Expression, Labels, NodeTerm, Toleration};
use crate::cache::shape::{HostPort, PodTerm};
use crate::cache::volumes::Claim;
use crate::cache::{Node, Pod, State, Volumes};

/// Alternatives multiply when the Pod's and its volumes' affinities are joined; beyond this nobody could read them.
pub(super) const MOST_TERMS: usize = 64;

/// Where a placeholder may be.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Placement {
    /// All must hold: `In` expressions with one value each, as in a Pod's `nodeSelector`. The candidate's domains are
    /// in here.
    pub node_selector: Vec<Expression>,
    /// One must hold, where there is any.
    pub node_affinity: Option<Vec<NodeTerm>>,
    /// Tolerations, as the Pod has them, without any of the cordon.
    pub tolerations: Vec<Toleration>,
    /// Host ports, as the Pod has them.
    pub host_ports: Vec<HostPort>,
    /// Affinity to Pods that stand elsewhere, with explicit namespaces.
    pub affinity: Vec<PodTerm>,
    /// Anti-affinity with explicit namespaces.
    pub anti_affinity: Vec<PodTerm>,
    /// Labels of the Pod that placeholders of one workload repel each other by.
    pub labels: Labels,
}

impl Placement {
    /// Whether a placeholder may be on the node as far as the node's name and labels go.
    #[must_use]
    pub fn admits(&self, node: &Node) -> bool {
        let selected = self.node_selector.iter().all(|expression| expression.matches(node.label(&expression.key)));
        let mut terms = self.node_affinity.iter().flatten().map(|term| term.matches(&node.name, &node.labels));
        selected && (self.node_affinity.is_none() || terms.any(|matches| matches))
    }
}

/// Which domains of a zone and the like are looked at, where a Pod is held to some by other Pods.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reach {
    /// The candidate's own, where the original stands.
    Own,
    /// Every one that would admit the Pod once the original is gone, and those like it with it.
    Admitting,
}

/// Translates a Pod's constraints. The runtime class is left out: what it demands of nodes and adds to the requests is
/// in the Pod's spec already, and naming it would add its overhead a second time.
///
/// # Errors
///
/// What cannot be promised, as blockers.
pub fn translate(
    pod: &Pod,
    candidate: &Node,
    state: &State,
    volumes: &Volumes,
    reach: Reach,
) -> Result<Placement, Vec<Notice>> {
    let mut refused = Vec::new();
    let shape = &pod.shape;
    let mut placement = Placement {
        node_selector: shape.node_selector.clone(),
        node_affinity: shape.node_affinity.clone().filter(|terms| !terms.is_empty()),
        tolerations: without_cordon(&shape.tolerations, state),
        host_ports: shape.host_ports.clone(),
        affinity: Vec::new(),
        anti_affinity: Vec::new(),
        labels: Labels::new(),
    };
    if shape.resource_claims {
        refused.push("uses resource claims (dynamic resource allocation)".to_owned());
    }

    // Keys of which the domain decides, and why.
    let mut held = Vec::new();
    for spread in &shape.spread {
        if &*spread.topology_key == HOSTNAME {
            // Stricter than a spread of more than one a host, and exact for one: the emptied candidate stays a domain
            // with none, so that only hosts with none are allowed.
            apart::repel(&mut placement, pod, spread.selector.as_ref(), &[], None);
        } else {
            held.push((spread.topology_key.clone(), "topology spread"));
        }
    }
    for term in &shape.anti_affinity {
        if &*term.topology_key == HOSTNAME {
            apart::repel(
                &mut placement,
                pod,
                term.selector.as_ref(),
                &term.namespaces,
                term.namespace_selector.as_ref(),
            );
        } else {
            held.push((term.topology_key.clone(), "anti-affinity"));
        }
    }
    // A term that does not mean the Pod must not stand beside one that does, see `apart::repel`.
    let keeps_off_itself = placement.anti_affinity.iter().any(|term| apart::means(term, pod));
    for repellents in apart::repellents(pod, state) {
        let of_hosts = &*repellents.topology_key == HOSTNAME;
        match apart::inverse(&repellents) {
            Some(term) if of_hosts || !keeps_off_itself => placement.anti_affinity.push(term),
            None if of_hosts => {
                let namespace = &repellents.pods[0].namespace;
                refused
                    .push(format!("is kept off hosts by Pods of namespace {namespace} that have no label in common"));
            }
            _ => held.push((repellents.topology_key, "anti-affinity of other Pods")),
        }
    }
    apart::all_or_none(&mut placement, pod, &mut refused);
    domains::hold(&mut placement, pod, candidate, state, reach, held, &mut refused);
    company::keep(&mut placement, pod, candidate, state, &mut refused);
    for claim in &*pod.claims {
        match volumes.claims.get(&(Box::from(&*pod.namespace), claim.clone())) {
            Some(Claim::Unbound | Claim::Bound { terms: None, .. }) => {}
            Some(Claim::Bound { terms: Some(terms), .. }) => {
                placement.node_affinity = Some(join(placement.node_affinity.take(), terms));
            }
            None => refused.push(format!("mounts the claim {claim}, of which nothing is known")),
        }
    }
    if placement.node_affinity.as_ref().is_some_and(|terms| terms.len() > MOST_TERMS) {
        refused.push(format!("has more than {MOST_TERMS} combined node affinity terms"));
    }
    placement.node_selector.sort();
    placement.node_selector.dedup();
    placement.anti_affinity.sort();
    placement.anti_affinity.dedup();

    if refused.is_empty() {
        return Ok(placement);
    }
    Err(refused.into_iter().map(|message| unsupported(pod, &message)).collect())
}

fn unsupported(pod: &Pod, message: &str) -> Notice {
    Notice {
        code: Code::ConstraintUnsupported,
        object: format!("Pod {}", pod.path()),
        message: format!("{message}: room for it cannot be promised"),
        remedy: "--force evicts it without room reserved".to_owned(),
    }
}

/// The tolerations without any of the cordon, so that the cordon keeps the placeholder off the candidate. One of every
/// taint is replaced by one for each taint there is.
fn without_cordon(tolerations: &[Toleration], state: &State) -> Vec<Toleration> {
    let cordon = classify::cordon_taint();
    let mut kept: Vec<Toleration> = Vec::new();
    for toleration in tolerations {
        if !toleration.tolerates(&cordon) {
            kept.push(toleration.clone());
        } else if toleration.key.is_empty() {
            let taints: BTreeSet<_> = state
                .nodes()
                .flat_map(|node| &node.taints)
                .filter(|taint| taint.key != cordon.key && toleration.tolerates(taint))
                .map(|taint| (taint.key.clone(), taint.effect))
                .collect();
            kept.extend(taints.into_iter().map(|(key, effect)| Toleration {
                key,
                exists: true,
                value: "".into(),
                effect: Some(effect),
                seconds: None,
            }));
        }
    }
    kept
}

/// Both alternatives of nodes: each of one with each of the other.
pub(super) fn join(terms: Option<Vec<NodeTerm>>, more: &[NodeTerm]) -> Vec<NodeTerm> {
    let Some(terms) = terms else { return more.to_vec() };
    let both = |one: &NodeTerm, other: &NodeTerm| {
        let mut term = one.clone();
        term.expressions.extend(other.expressions.iter().filter(|new| !one.expressions.contains(new)).cloned());
        term.fields.extend(other.fields.iter().filter(|new| !one.fields.contains(new)).cloned());
        term
    };
    let joined: BTreeSet<_> = terms.iter().flat_map(|one| more.iter().map(move |other| both(one, other))).collect();
    joined.into_iter().collect()
}

/// The placement in words, for a plan.
#[must_use]
pub fn describe(placement: &Placement) -> Vec<String> {
    let mut words: Vec<_> = placement.node_selector.iter().map(ToString::to_string).collect();
    if let Some(terms) = &placement.node_affinity {
        words.push(terms.iter().map(ToString::to_string).collect::<Vec<_>>().join(" or "));
    }
    words.extend(placement.host_ports.iter().map(|port| format!("host port {}/{}", port.port, port.protocol)));
    let domain = |term: &PodTerm| match &*term.topology_key {
        HOSTNAME => "on a host".to_owned(),
        key => format!("in a {key}"),
    };
    let pods = |term: &PodTerm| {
        let selector = term.selector.as_ref().map(ToString::to_string).unwrap_or_default();
        format!("with Pods {selector} of {}", terms::namespaces_in_words(term))
    };
    words.extend(placement.affinity.iter().map(|term| format!("{} {}", domain(term), pods(term))));
    words.extend(placement.anti_affinity.iter().map(|term| format!("not {} {}", domain(term), pods(term))));
    words
}

#[cfg(test)]
mod tests;
