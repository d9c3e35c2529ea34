//! Pods that require others beside them.

use std::collections::BTreeSet;

use rotate_shared::names::HOSTNAME;

use super::{Placement, domains};
use crate::cache::shape::PodTerm;
use crate::cache::{Node, Pod, State};
use crate::surge::fit::Cluster;

/// Keeps the placeholder where its Pod has the company that it requires, and where those stay whose company it is.
pub(super) fn keep(placement: &mut Placement, pod: &Pod, candidate: &Node, state: &State, refused: &mut Vec<String>) {
    let mut held = BTreeSet::new();
    match Company::of(pod, candidate, state) {
        Company::NotNeeded => {}
        Company::Elsewhere(others) => {
            for term in &pod.shape.affinity {
                placement.affinity.push(spelled_out(term, pod));
                let key = &term.topology_key;
                if &**key != HOSTNAME {
                    // Company on the candidate will not stay there.
                    let nodes = others.iter().filter_map(|other| state.node(other.node.as_deref()?));
                    let values = nodes.filter_map(|node| node.label(key)).map(Box::from).collect();
                    domains::require(placement, key, values);
                }
            }
        }
        Company::Here => held.extend(pod.shape.affinity.iter().map(|term| term.topology_key.clone())),
        Company::Unknown => refused.push(
            "requires Pods beside it (required Pod affinity) of namespaces whose labels are not known".to_owned(),
        ),
        Company::Missing => {
            refused.push("requires Pods beside it (required Pod affinity), of which there are none".to_owned());
        }
    }
    // Its company's domain is where the company is: who leaves it first must come back to it.
    for other in state.pods_on(&candidate.name).iter().filter(|other| other.uid != pod.uid && other.holds_room()) {
        let affine = !other.shape.affinity.is_empty() && Cluster::alone(state).is_company(pod, other);
        if affine && matches!(Company::of(other, candidate, state), Company::Here) {
            let keys = other.shape.affinity.iter().map(|term| &term.topology_key);
            held.extend(keys.filter(|key| &***key != HOSTNAME).cloned());
        }
    }
    for key in held {
        match candidate.label(&key) {
            _ if *key == *HOSTNAME => refused.push(
                "requires Pods on its host (required Pod affinity) that are on this node alone: they cannot move one \
                 after another"
                    .to_owned(),
            ),
            Some(own) => domains::stay(placement, &key, own, "required Pod affinity", refused),
            None => refused.push(format!("requires Pods in its {key}, a label that this node does not have")),
        }
    }
}

/// The Pods that a Pod requires beside it.
enum Company {
    /// It requires none, or is the first of its kind, which the scheduler lets in anywhere.
    NotNeeded,
    /// There are some on other nodes.
    Elsewhere(Vec<Pod>),
    /// There are some on the candidate and nowhere else.
    Here,
    /// There may be some: the labels of namespaces are not known.
    Unknown,
    /// There are none.
    Missing,
}

impl Company {
    fn of(pod: &Pod, candidate: &Node, state: &State) -> Self {
        if pod.shape.affinity.is_empty() {
            return Self::NotNeeded;
        }
        let own = BTreeSet::from([&*pod.uid]);
        let cluster = Cluster { gone: &own, ..Cluster::alone(state) };
        let others = cluster.companions(pod);
        let lasting = |other: &&Pod| other.deleted.is_none() && other.node.as_deref() != Some(&*candidate.name);
        let elsewhere: Vec<_> = others.iter().filter(lasting).cloned().collect();
        match (elsewhere.is_empty(), others.is_empty()) {
            (false, _) => Self::Elsewhere(elsewhere),
            (true, false) => Self::Here,
            _ if cluster.may_have_companions(pod) => Self::Unknown,
            _ if cluster.is_company(pod, pod) => Self::NotNeeded,
            _ => Self::Missing,
        }
    }
}

/// A term as a Pod of another namespace has to write it.
fn spelled_out(term: &PodTerm, pod: &Pod) -> PodTerm {
    let mut term = term.clone();
    if term.namespaces.is_empty() && term.namespace_selector.is_none() {
        term.namespaces = vec![Box::from(&*pod.namespace)];
    }
    term
}
