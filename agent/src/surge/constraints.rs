//! Constraints of a Pod translated for its placeholder, never copied.
//!
//! A placeholder lives in a namespace of its own, where a copied spread or anti-affinity counts nothing, and it is
//! scheduled while the original still stands. So whatever looks at other Pods becomes something that holds for both:
//!
//! ```text
//! node selector and affinity, volumes, tolerations, host ports ──▶ as they are
//! spread, anti-affinity of a zone or the like ──▶ the candidate's zone: the original stands there legally
//! spread, anti-affinity of a host ──▶ anti-affinity with the workload's namespace and ours spelled out, and the labels
//!                                     by which placeholders of one workload repel each other
//! other Pods' anti-affinity of a host ──▶ the inverse term
//! anything else ──▶ a blocker
//! ```

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use rotate_shared::Code;
use rotate_shared::names::{HOSTNAME, ROOM_NAMESPACE};
use rotate_shared::plan::Notice;
use serde::{Deserialize, Serialize};

use super::classify;
use super::terms;
use crate::cache::index::AntiAffine;
use crate::cache::selector::{Expression, Labels, NodeTerm, Operator, Selector, Toleration};
use crate::cache::shape::{HostPort, PodTerm};
use crate::cache::volumes::Claim;
use crate::cache::{Node, Pod, State, Volumes};

/// Labels that differ between the revisions of one workload.
const REVISION_LABELS: [&str; 2] = ["controller-revision-hash", "pod-template-hash"];

/// Alternatives multiply when the Pod's and its volumes' affinities are joined; beyond this nobody could read them.
const MOST_TERMS: usize = 64;

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
    /// Anti-affinity with explicit namespaces.
    pub anti_affinity: Vec<PodTerm>,
    /// Labels of the Pod that placeholders of one workload repel each other by.
    pub labels: Labels,
}

/// Translates a Pod's constraints. The runtime class is left out: what it demands of nodes and adds to the requests is
/// in the Pod's spec already, and naming it would add its overhead a second time.
///
/// # Errors
///
/// What cannot be promised, as blockers.
pub fn translate(pod: &Pod, candidate: &Node, state: &State, volumes: &Volumes) -> Result<Placement, Vec<Notice>> {
    let mut refused = Vec::new();
    let shape = &pod.shape;
    let mut placement = Placement {
        node_selector: shape.node_selector.clone(),
        node_affinity: shape.node_affinity.clone().filter(|terms| !terms.is_empty()),
        tolerations: without_cordon(&shape.tolerations, state),
        host_ports: shape.host_ports.clone(),
        anti_affinity: Vec::new(),
        labels: Labels::new(),
    };
    if !shape.affinity.is_empty() {
        refused.push("requires Pods beside it (required Pod affinity)".to_owned());
    }
    if shape.resource_claims {
        refused.push("uses resource claims (dynamic resource allocation)".to_owned());
    }

    for spread in &shape.spread {
        if &*spread.topology_key == HOSTNAME {
            // Stricter than a spread of more than one a host, and exact for one: the emptied candidate stays a domain
            // with none, so that only hosts with none are allowed.
            repel(&mut placement, pod, spread.selector.as_ref(), &[], None);
        } else {
            stay_in_domain(&mut placement, candidate, &spread.topology_key, "topology spread", &mut refused);
        }
    }
    for term in &shape.anti_affinity {
        if &*term.topology_key == HOSTNAME {
            repel(&mut placement, pod, term.selector.as_ref(), &term.namespaces, term.namespace_selector.as_ref());
        } else {
            stay_in_domain(&mut placement, candidate, &term.topology_key, "anti-affinity", &mut refused);
        }
    }
    for Repellents { topology_key, pods } in repellents(pod, state) {
        if &*topology_key != HOSTNAME {
            stay_in_domain(&mut placement, candidate, &topology_key, "anti-affinity of other Pods", &mut refused);
        } else if let Some(term) = inverse(&pods) {
            placement.anti_affinity.push(term);
        } else {
            let namespace = &pods[0].namespace;
            refused.push(format!("is kept off hosts by Pods of namespace {namespace} that have no label in common"));
        }
    }
    all_or_none(&mut placement, pod, &mut refused);
    for claim in &*pod.claims {
        match volumes.claims.get(&(Box::from(&*pod.namespace), claim.clone())) {
            Some(Claim::Unbound | Claim::Bound { terms: None, .. }) => {}
            Some(Claim::Bound { volume, terms: Some(terms), .. }) => {
                let joined = join(placement.node_affinity.take(), terms);
                if joined.len() > MOST_TERMS {
                    refused.push(format!("has more than {MOST_TERMS} combined node affinity terms (volume {volume})"));
                }
                placement.node_affinity = Some(joined);
            }
            None => refused.push(format!("mounts the claim {claim}, of which nothing is known")),
        }
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

/// Requires the candidate's own value of `key`.
fn stay_in_domain(placement: &mut Placement, candidate: &Node, key: &str, why: &str, refused: &mut Vec<String>) {
    let Some(value) = candidate.label(key) else {
        refused.push(format!("has a constraint on {key} ({why}), a label that this node does not have"));
        return;
    };
    let elsewhere =
        placement.node_selector.iter().any(|expression| &*expression.key == key && !expression.matches(Some(value)));
    if elsewhere {
        refused.push(format!("selects another {key} than this node's {value}, and has a constraint on it ({why})"));
        return;
    }
    placement.node_selector.push(Expression { key: key.into(), operator: Operator::In, values: vec![value.into()] });
}

/// Keeps the placeholder off hosts with Pods that the selector means. Where it means the Pod itself, its siblings'
/// placeholders must keep off each other too: they carry the labels that it selects by, and it looks at them as well.
///
/// That is one term and not two, because kube-scheduler 1.36 lets a replacement that only a placeholder's anti-affinity
/// kept waiting try again only if it matches *all* of the placeholder's terms (`isSchedulableAfterPodChange` of
/// `InterPodAffinity`): with a second one for placeholders it stayed Pending for minutes after it had preempted one.
fn repel(
    placement: &mut Placement,
    pod: &Pod,
    selector: Option<&Selector>,
    namespaces: &[Box<str>],
    namespace_selector: Option<&Selector>,
) {
    let Some(selector) = selector else { return };
    let own: Box<str> = Box::from(&*pod.namespace);
    let namespaces =
        if namespaces.is_empty() && namespace_selector.is_none() { vec![own] } else { namespaces.to_vec() };
    let mut term = PodTerm {
        topology_key: HOSTNAME.into(),
        selector: Some(selector.clone()),
        namespaces,
        namespace_selector: namespace_selector.cloned(),
    };
    if means(&term, pod) {
        let keys = selector.expressions.iter().map(|expression| &*expression.key);
        keys.filter_map(|key| Some((key, pod.labels.get(key)?)))
            .for_each(|(key, value)| placement.labels.insert(key, value));
        term.namespaces.push(ROOM_NAMESPACE.into());
        term.namespaces.sort();
    }
    placement.anti_affinity.push(term);
}

/// Whether a term with explicit namespaces means the Pod, or may mean it.
fn means(term: &PodTerm, pod: &Pod) -> bool {
    terms::selects(term, &pod.namespace, &pod.namespace, &pod.labels) != terms::Selected::No
}

/// Makes sure that the replacement matches all terms or none, see [`repel`]: where some mean it, the others are widened
/// to mean it too, which excludes no host that is not excluded already.
fn all_or_none(placement: &mut Placement, pod: &Pod, refused: &mut Vec<String>) {
    if !placement.anti_affinity.iter().any(|term| means(term, pod)) {
        return;
    }
    for term in placement.anti_affinity.iter_mut().filter(|term| !means(term, pod)) {
        let own = term.namespaces.iter().any(|namespace| **namespace == *pod.namespace);
        let widened = match term.selector.as_mut().map(|selector| &mut *selector.expressions) {
            Some([Expression { key, operator: Operator::In, values }]) if own => pod.labels.get(key).map(|value| {
                values.push(value.into());
                values.sort();
            }),
            _ => None,
        };
        if widened.is_none() {
            refused
                .push("keeps off hosts with its own kind and with others by labels that cannot be joined".to_owned());
        }
    }
}

/// Pods of one kind whose required anti-affinity may mean the Pod at hand.
#[derive(Debug)]
struct Repellents {
    topology_key: Box<str>,
    pods: Vec<Pod>,
}

/// Other Pods that keep this one out of their domains. Those that this one keeps out of its own by the same label are
/// left out: the translation of its own terms does that.
fn repellents(pod: &Pod, state: &State) -> Vec<Repellents> {
    let mut shapes = BTreeMap::<_, Vec<_>>::new();
    for AntiAffine { namespace, shape, terms, .. } in state.anti_affine() {
        if terms.iter().any(|term| terms::may_mean(term, namespace, pod)) {
            shapes.entry(namespace).or_default().push(shape);
        }
    }
    let mut found = BTreeMap::<_, Vec<Pod>>::new();
    for (namespace, shapes) in shapes {
        for other in state.pods_shaped(namespace, &shapes) {
            if !other.holds_room() || other.uid == pod.uid {
                continue;
            }
            let shape = Arc::clone(&other.shape);
            for term in shape.anti_affinity.iter().filter(|term| terms::may_mean(term, namespace, pod)) {
                let own = pod.shape.anti_affinity.iter().filter(|own| own.topology_key == term.topology_key);
                let mutual = own.into_iter().any(|own| {
                    terms::selects(own, &pod.namespace, &other.namespace, &other.labels) == terms::Selected::Yes
                });
                if !mutual {
                    let kind = (namespace.clone(), shape.clone(), term.topology_key.clone());
                    found.entry(kind).or_default().push(other.clone());
                }
            }
        }
    }
    found.into_iter().map(|((_, _, topology_key), pods)| Repellents { topology_key, pods }).collect()
}

/// A term by which the placeholder keeps off those who keep its Pod off: they are told by the labels that all of them
/// have, those of a revision aside.
fn inverse(repellents: &[Pod]) -> Option<PodTerm> {
    let (first, rest) = repellents.split_first()?;
    let common = first.labels.iter().filter(|(key, value)| {
        !REVISION_LABELS.contains(key) && rest.iter().all(|pod| pod.labels.get(key) == Some(*value))
    });
    let expressions: Vec<_> = common
        .map(|(key, value)| Expression { key: key.into(), operator: Operator::In, values: vec![value.into()] })
        .collect();
    (!expressions.is_empty()).then(|| PodTerm {
        topology_key: HOSTNAME.into(),
        selector: Some(Selector { expressions }),
        namespaces: vec![Box::from(&*first.namespace)],
        namespace_selector: None,
    })
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
fn join(terms: Option<Vec<NodeTerm>>, more: &[NodeTerm]) -> Vec<NodeTerm> {
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
    words.extend(placement.anti_affinity.iter().map(|term| {
        let selector = term.selector.as_ref().map(ToString::to_string).unwrap_or_default();
        format!("not on a host with Pods {selector} of {}", terms::namespaces_in_words(term))
    }));
    words
}

#[cfg(test)]
mod tests;
