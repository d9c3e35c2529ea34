//! Pods that keep off each other: by their own terms, and by those of others.

use std::collections::BTreeMap;
use std::sync::Arc;

use rotate_shared::names::{self, HOSTNAME, ROOM_NAMESPACE};

use super::Placement;
use crate::cache::index::AntiAffine;
use crate::cache::selector::{Expression, Operator, Selector};
use crate::cache::shape::PodTerm;
use crate::cache::{Pod, State};
use crate::surge::terms;

/// Labels that differ between Pods of one workload: by their revision, and by where they run, which the API server writes
/// on a Pod at its bind (`PodTopologyLabelsAdmission`, on by default since 1.35).
const PASSING_LABELS: [&str; 4] =
    ["controller-revision-hash", "pod-template-hash", names::ZONE, "topology.kubernetes.io/region"];

/// Keeps the placeholder off hosts with Pods that the selector means. Where it means the Pod itself, its siblings'
/// placeholders must keep off each other too: they carry the labels that it selects by, and it looks at them as well.
///
/// That is one term and not two, because kube-scheduler 1.36 lets a replacement that only a placeholder's anti-affinity
/// kept waiting try again only if it matches *all* of the placeholder's terms (`isSchedulableAfterPodChange` of
/// `InterPodAffinity`): with a second one for placeholders it stayed Pending for minutes after it had preempted one.
pub(super) fn repel(
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
pub(super) fn means(term: &PodTerm, pod: &Pod) -> bool {
    terms::selects(term, &pod.namespace, &pod.namespace, &pod.labels) != terms::Selected::No
}

/// Makes sure that the replacement matches all terms or none, see [`repel`]: where some mean it, the others are widened
/// to mean it too, which excludes no host that is not excluded already.
pub(in crate::surge) fn all_or_none(placement: &mut Placement, pod: &Pod, refused: &mut Vec<String>) {
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
pub(super) struct Repellents {
    pub(super) topology_key: Box<str>,
    pub(super) pods: Vec<Pod>,
}

/// Other Pods that keep this one out of their domains. Those that this one keeps out of its own by the same label are
/// left out: the translation of its own terms does that.
pub(super) fn repellents(pod: &Pod, state: &State) -> Vec<Repellents> {
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

/// A term by which the placeholder keeps off those who keep its Pod off, of a host or of a wider domain: they are told by
/// the labels that all of them have, those aside that come and go.
pub(super) fn inverse(Repellents { topology_key, pods }: &Repellents) -> Option<PodTerm> {
    let (first, rest) = pods.split_first()?;
    let common = first.labels.iter().filter(|(key, value)| {
        !PASSING_LABELS.contains(key) && rest.iter().all(|pod| pod.labels.get(key) == Some(*value))
    });
    let expressions: Vec<_> = common
        .map(|(key, value)| Expression { key: key.into(), operator: Operator::In, values: vec![value.into()] })
        .collect();
    (!expressions.is_empty()).then(|| PodTerm {
        topology_key: topology_key.clone(),
        selector: Some(Selector { expressions }),
        namespaces: vec![Box::from(&*first.namespace)],
        namespace_selector: None,
    })
}
