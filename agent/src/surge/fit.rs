//! Our own predicate: would the scheduler place this Pod on that node?
//!
//! The rules of kube-scheduler's filters, in the words of its messages with the numbers added. Where the answer depends
//! on what is not known (labels of namespaces) it is the careful one: the Pod does not fit.

use std::collections::BTreeSet;

use crate::cache::selector::{Labels, TaintEffect};
use crate::cache::shape::{PodTerm, Spread};
use crate::cache::{Node, Pod, Resources, State};

use super::terms::{self, Selected};

/// Why a Pod does not fit on a node, in words that name the resource or the rule.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Misfit(pub String);

/// Whether `pod` fits on `node` once the Pods with the UIDs in `gone` have left the cluster.
///
/// # Errors
///
/// The first rule that forbids it.
pub fn fits(pod: &Pod, node: &Node, state: &State, gone: &BTreeSet<&str>) -> Result<(), Misfit> {
    Cluster { state, gone, placed: &[] }.fits(pod, node)
}

/// A cluster as it would be: some Pods gone, others placed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cluster<'a> {
    /// As it is.
    pub(crate) state: &'a State,
    /// UIDs of Pods taken as gone.
    pub(crate) gone: &'a BTreeSet<&'a str>,
    /// Pods taken as bound to the node they name.
    pub(crate) placed: &'a [Pod],
}

impl Cluster<'_> {
    /// Whether the Pod would be placed on the node.
    pub(crate) fn fits(&self, pod: &Pod, node: &Node) -> Result<(), Misfit> {
        takes_pods(node)?;
        tolerated(pod, node)?;
        selected(pod, node)?;
        self.ports_are_free(pod, node)?;
        self.resources_suffice(pod, node)?;
        self.repelled(pod, node)?;
        self.attracted(pod, node)?;
        pod.shape.spread.iter().try_for_each(|spread| self.spreads(pod, node, spread))
    }

    fn resources_suffice(&self, pod: &Pod, node: &Node) -> Result<(), Misfit> {
        let mut used = self.state.usage(&node.name);
        let on_node = |pod: &Pod| pod.holds_room() && pod.node.as_deref() == Some(&*node.name);
        for leaving in self.gone.iter().filter_map(|uid| self.state.pod(uid)).filter(on_node) {
            used.pods = used.pods.saturating_sub(1);
            used.requests.subtract(&leaving.shape.requests);
        }
        for placed in self.placed.iter().filter(|pod| on_node(pod)) {
            used.pods += 1;
            used.requests.add(&placed.shape.requests);
        }
        if i64::from(used.pods) + 1 > node.max_pods {
            return misfit(format!("Too many pods: {} of {}", used.pods, node.max_pods));
        }
        let mut free = node.allocatable.clone();
        free.subtract(&used.requests);
        pod.shape.requests.fits_in(&free).map_err(|short| {
            let [need, free] = [short.need, short.free].map(|amount| in_words(&short.resource, amount));
            Misfit(format!("Insufficient {}: needs {need}, {free} free", short.resource))
        })
    }

    fn ports_are_free(&self, pod: &Pod, node: &Node) -> Result<(), Misfit> {
        if pod.shape.host_ports.is_empty() {
            return Ok(());
        }
        let on_node = self.on(&node.name);
        let claimed = on_node.iter().flat_map(|other| other.shape.host_ports.iter().map(move |port| (other, port)));
        for (other, port) in claimed {
            if pod.shape.host_ports.iter().any(|wanted| wanted.conflicts(port)) {
                return misfit(format!("host port {}/{} is taken by Pod {}", port.port, port.protocol, other.path()));
            }
        }
        Ok(())
    }

    /// Required anti-affinity, of this Pod and of those that are there.
    fn repelled(&self, pod: &Pod, node: &Node) -> Result<(), Misfit> {
        for term in &pod.shape.anti_affinity {
            let Some(domain) = node.label(&term.topology_key) else { continue };
            let repels =
                |other: &Pod| other.uid != pod.uid && self.domain_of(other, &term.topology_key) == Some(domain);
            if let Some(other) = self.meant(term, &pod.namespace).into_iter().find(repels) {
                return misfit(format!("anti-affinity: Pod {} is in {}={domain}", other.path(), term.topology_key));
            }
        }
        for (other, term) in self.anti_affine_towards(pod) {
            let Some(domain) = node.label(&term.topology_key) else { continue };
            if other.uid != pod.uid && self.domain_of(&other, &term.topology_key) == Some(domain) {
                return misfit(format!(
                    "anti-affinity of Pod {}, which is in {}={domain}",
                    other.path(),
                    term.topology_key
                ));
            }
        }
        Ok(())
    }

    /// Required affinity: in each term's domain of the node there must be a Pod that all terms mean. The first Pod of a
    /// group that only asks for its own kind is let in.
    fn attracted(&self, pod: &Pod, node: &Node) -> Result<(), Misfit> {
        let affinity = &pod.shape.affinity;
        let Some(first) = affinity.first() else { return Ok(()) };
        let means = |other: &Pod| {
            let sure = |term| terms::selects(term, &pod.namespace, &other.namespace, &other.labels) == Selected::Yes;
            affinity.iter().all(sure)
        };
        let company: Vec<_> = self
            .meant(first, &pod.namespace)
            .into_iter()
            .filter(|other| other.uid != pod.uid && means(other))
            .collect();
        if company.is_empty() && means(pod) {
            return Ok(());
        }
        for term in affinity {
            let key = &term.topology_key;
            let Some(domain) = node.label(key) else {
                return misfit(format!("affinity: the node has no label {key}"));
            };
            if !company.iter().any(|other| self.domain_of(other, key) == Some(domain)) {
                return misfit(format!("affinity: no matching Pod in {key}={domain}"));
            }
        }
        Ok(())
    }

    /// `existing matching + self - global minimum <= maxSkew`, over the domains of the nodes that count.
    fn spreads(&self, pod: &Pod, node: &Node, spread: &Spread) -> Result<(), Misfit> {
        let key = &*spread.topology_key;
        let Some(domain) = node.label(key) else {
            return misfit(format!("topology spread: the node has no label {key}"));
        };
        let mut counts = std::collections::BTreeMap::<&str, i64>::new();
        let all_keys = |node: &Node| pod.shape.spread.iter().all(|spread| node.label(&spread.topology_key).is_some());
        let mut counted = BTreeSet::new();
        for other in self.state.nodes().filter(|other| all_keys(other)) {
            let excluded = (!spread.ignores_affinity && selected(pod, other).is_err())
                || (spread.honors_taints && (tolerated(pod, other).is_err() || takes_pods(other).is_err()));
            if let (false, Some(domain)) = (excluded, other.label(key)) {
                counts.entry(domain).or_insert(0);
                counted.insert(&*other.name);
            }
        }
        let matches = |labels: &Labels| spread.selector.as_ref().is_some_and(|selector| selector.matches(labels));
        for other in self.bound_in(&pod.namespace) {
            let here = other.node.as_deref().filter(|name| counted.contains(name));
            // As the scheduler counts: Pods that are shutting down are left out.
            if other.uid == pod.uid || other.deleted.is_some() || here.is_none() || !matches(&other.labels) {
                continue;
            }
            let value = here.and_then(|name| self.state.node(name)).and_then(|node| node.label(key));
            if let Some(count) = value.and_then(|value| counts.get_mut(value)) {
                *count += 1;
            }
        }
        let enough = counts.len() >= usize::try_from(spread.min_domains).unwrap_or(1);
        let least = if enough { counts.values().min().copied().unwrap_or(0) } else { 0 };
        let there = counts.get(domain).copied().unwrap_or(0);
        let skew = there + i64::from(matches(&pod.labels)) - least;
        if skew > i64::from(spread.max_skew) {
            return misfit(format!(
                "topology spread: {key}={domain} has {there} matching Pods, the least has {least}, a difference of {} is allowed",
                spread.max_skew
            ));
        }
        Ok(())
    }

    /// Bound Pods that a term of a Pod of `namespace` means, or may mean.
    fn meant(&self, term: &PodTerm, namespace: &str) -> Vec<Pod> {
        let means = |other: &Pod| terms::selects(term, namespace, &other.namespace, &other.labels) != Selected::No;
        let among = match &term.namespace_selector {
            // Only the Pods themselves tell which namespaces there are.
            Some(_) => self.present(self.state.pods().collect()).chain(self.placed.iter().cloned()).collect(),
            None if term.namespaces.is_empty() => self.bound_in(namespace),
            None => term.namespaces.iter().flat_map(|listed| self.bound_in(listed)).collect::<Vec<_>>(),
        };
        among.into_iter().filter(means).collect()
    }

    /// Bound Pods with an anti-affinity term that means, or may mean, this Pod.
    fn anti_affine_towards(&self, pod: &Pod) -> Vec<(Pod, PodTerm)> {
        let mut found = Vec::new();
        for (namespace, shape, _) in self.state.anti_affine() {
            let means = |term: &&PodTerm| terms::selects(term, &namespace, &pod.namespace, &pod.labels) != Selected::No;
            let terms: Vec<_> = shape.anti_affinity.iter().filter(means).collect();
            if terms.is_empty() {
                continue;
            }
            for other in self.bound_in(&namespace).into_iter().filter(|other| other.shape == shape) {
                found.extend(terms.iter().map(|term| (other.clone(), (*term).clone())));
            }
        }
        found
    }

    fn domain_of(&self, pod: &Pod, key: &str) -> Option<&str> {
        self.state.node(pod.node.as_deref()?)?.label(key)
    }

    fn on(&self, node: &str) -> Vec<Pod> {
        let placed = self.placed.iter().filter(|pod| pod.node.as_deref() == Some(node)).cloned();
        self.present(self.state.pods_on(node)).chain(placed).collect()
    }

    fn bound_in(&self, namespace: &str) -> Vec<Pod> {
        let placed = self.placed.iter().filter(|pod| &*pod.namespace == namespace).cloned();
        self.present(self.state.pods_in(namespace)).chain(placed).collect()
    }

    fn present(&self, pods: Vec<Pod>) -> impl Iterator<Item = Pod> {
        pods.into_iter().filter(|pod| pod.holds_room() && !self.gone.contains(&*pod.uid))
    }
}

fn misfit<T>(message: String) -> Result<T, Misfit> {
    Err(Misfit(message))
}

/// An amount of the scheduler's units as a person writes it.
fn in_words(resource: &str, amount: i64) -> String {
    let mut amounts = Resources::default();
    match resource {
        "cpu" => amounts.milli_cpu = amount,
        "memory" => amounts.memory = amount,
        "ephemeral-storage" => amounts.ephemeral_storage = amount,
        _ => return amount.to_string(),
    }
    amounts.to_amounts().into_values().next().map_or_else(|| "0".to_owned(), |amount| amount.to_string())
}

/// Whether the node takes any Pods.
fn takes_pods(node: &Node) -> Result<(), Misfit> {
    if node.deleting {
        return misfit("the node is being deleted".to_owned());
    }
    if node.unschedulable {
        return misfit("the node is cordoned".to_owned());
    }
    if !node.ready {
        return misfit("the node is not Ready".to_owned());
    }
    Ok(())
}

/// Node selector and required node affinity.
fn selected(pod: &Pod, node: &Node) -> Result<(), Misfit> {
    let unmet = pod.shape.node_selector.iter().find(|expression| !expression.matches(node.label(&expression.key)));
    if let Some(expression) = unmet {
        return misfit(format!("node selector: the node does not have {expression}"));
    }
    match &pod.shape.node_affinity {
        Some(terms) if !terms.iter().any(|term| term.matches(&node.name, &node.labels)) => {
            misfit("node affinity: the node matches none of its terms".to_owned())
        }
        _ => Ok(()),
    }
}

/// Taints that keep new Pods away.
fn tolerated(pod: &Pod, node: &Node) -> Result<(), Misfit> {
    let keeps_away = |effect| matches!(effect, TaintEffect::NoSchedule | TaintEffect::NoExecute);
    let tolerated = |taint| pod.shape.tolerations.iter().any(|toleration| toleration.tolerates(taint));
    match node.taints.iter().find(|taint| keeps_away(taint.effect) && !tolerated(taint)) {
        Some(taint) => misfit(format!("the node has the taint {}={}, which is not tolerated", taint.key, taint.value)),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests;
