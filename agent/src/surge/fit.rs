//! Our own predicate: would the scheduler place this Pod on that node?
//!
//! The rules of kube-scheduler's filters, in the words of its messages with the numbers added. Where the answer depends
//! on what is not known (labels of namespaces) it is the careful one: the Pod does not fit.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::terms::{self, Selected};
use crate::cache::index::AntiAffine;
use crate::cache::selector::{Labels, TaintEffect};
use crate::cache::shape::{HostPort, PodTerm, Spread};
use crate::cache::{Node, Pod, Resources, State};

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
    Cluster { state, gone, placed: &[], joined: &[] }.ask(pod).fits(node)
}

/// A cluster as it would be: some Pods gone, others placed, some nodes more.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cluster<'a> {
    /// As it is.
    pub(crate) state: &'a State,
    /// UIDs of Pods taken as gone.
    pub(crate) gone: &'a BTreeSet<&'a str>,
    /// Pods taken as bound to the node they name.
    pub(crate) placed: &'a [Pod],
    /// Nodes taken as there, with nothing on them but what is placed.
    pub(crate) joined: &'a [Arc<Node>],
}

/// One Pod looking for a node: what other Pods mean for it is counted once, for all nodes.
#[derive(Debug)]
pub(crate) struct Question<'a> {
    cluster: Cluster<'a>,
    pod: &'a Pod,
    /// The Pods taken as gone that hold room.
    leaving: Vec<Pod>,
    repelled: BTreeMap<Domain, String>,
    /// Domains in which Pods are that all affinity terms mean; `None`: it needs no company.
    company: Option<BTreeSet<Domain>>,
    /// For each spread constraint how many matching Pods each domain has.
    spread: Vec<BTreeMap<Box<str>, i64>>,
}

/// A label of nodes and one of its values.
type Domain = (Box<str>, Box<str>);

// === impl Cluster ===

impl<'a> Cluster<'a> {
    /// The cluster as it is.
    pub(crate) fn alone(state: &'a State) -> Self {
        Self { state, gone: const { &BTreeSet::new() }, placed: &[], joined: &[] }
    }

    /// Prepares the answers for a Pod.
    pub(crate) fn ask(self, pod: &'a Pod) -> Question<'a> {
        Question {
            cluster: self,
            pod,
            leaving: self.gone.iter().filter_map(|uid| self.state.pod(uid)).filter(Pod::holds_room).collect(),
            repelled: self.repelled(pod),
            company: self.company(pod),
            spread: pod.shape.spread.iter().map(|spread| self.counts(pod, spread)).collect(),
        }
    }

    /// Domains closed by required anti-affinity, of this Pod and of those that are there, and by whose.
    fn repelled(&self, pod: &Pod) -> BTreeMap<Domain, String> {
        let mut repelled = BTreeMap::new();
        for term in &pod.shape.anti_affinity {
            for other in self.meant(term, &pod.namespace).iter().filter(|other| other.uid != pod.uid) {
                if let Some(domain) = self.domain_of(other, &term.topology_key) {
                    let message = format!("anti-affinity: Pod {} is in {}={}", other.path(), domain.0, domain.1);
                    repelled.entry(domain).or_insert(message);
                }
            }
        }
        for (other, key) in self.anti_affine_towards(pod).iter().filter(|(other, _)| other.uid != pod.uid) {
            if let Some(domain) = self.domain_of(other, key) {
                let message = format!("anti-affinity of Pod {}, which is in {}={}", other.path(), domain.0, domain.1);
                repelled.entry(domain).or_insert(message);
            }
        }
        repelled
    }

    /// Where the company is that required affinity asks for. The first Pod of a group that only asks for its own kind
    /// is let in anywhere.
    fn company(&self, pod: &Pod) -> Option<BTreeSet<Domain>> {
        let affinity = &pod.shape.affinity;
        if affinity.is_empty() {
            return None;
        }
        let company = self.companions(pod);
        if company.is_empty() && self.is_company(pod, pod) {
            return None;
        }
        let domains = company
            .iter()
            .flat_map(|other| affinity.iter().filter_map(|term| self.domain_of(other, &term.topology_key)));
        Some(domains.collect())
    }

    /// Bound Pods that all affinity terms of a Pod mean.
    pub(crate) fn companions(&self, pod: &Pod) -> Vec<Pod> {
        let Some(first) = pod.shape.affinity.first() else { return Vec::new() };
        let mut among = self.meant(first, &pod.namespace);
        among.retain(|other| other.uid != pod.uid && self.is_company(other, pod));
        among
    }

    /// Whether there are Pods that all affinity terms may mean, if their namespaces have certain labels.
    pub(crate) fn may_have_companions(&self, pod: &Pod) -> bool {
        let affinity = &pod.shape.affinity;
        let may =
            |term, other: &Pod| terms::selects(term, &pod.namespace, &other.namespace, &other.labels) != Selected::No;
        let among = affinity.first().map(|first| self.meant(first, &pod.namespace)).unwrap_or_default();
        among.iter().any(|other| other.uid != pod.uid && affinity.iter().all(|term| may(term, other)))
    }

    /// Whether all affinity terms of `pod` mean `other`.
    pub(crate) fn is_company(&self, other: &Pod, pod: &Pod) -> bool {
        let sure = |term| terms::selects(term, &pod.namespace, &other.namespace, &other.labels) == Selected::Yes;
        pod.shape.affinity.iter().all(sure)
    }

    /// How many Pods each domain of a spread constraint has, over the nodes that count.
    fn counts(&self, pod: &Pod, spread: &Spread) -> BTreeMap<Box<str>, i64> {
        let key = &*spread.topology_key;
        let counts_for = |node: &Node| {
            let labelled = pod.shape.spread.iter().all(|spread| node.label(&spread.topology_key).is_some());
            let selected = spread.ignores_affinity || selected(pod, node).is_ok();
            let tolerated = !spread.honors_taints || (tolerated(pod, node).is_ok() && takes_pods(node).is_ok());
            labelled && selected && tolerated
        };
        let nodes = self.state.nodes().chain(self.joined).filter(|node| counts_for(node));
        let domain_of: BTreeMap<&str, &str> = nodes.filter_map(|node| Some((&*node.name, node.label(key)?))).collect();
        let mut counts: BTreeMap<Box<str>, i64> = domain_of.values().map(|domain| (Box::from(*domain), 0)).collect();
        for other in self.bound_in(&pod.namespace, |labels| matches(spread, labels)) {
            // As the scheduler counts: Pods that are shutting down are left out.
            if other.uid == pod.uid || other.deleted.is_some() {
                continue;
            }
            let domain = other.node.as_deref().and_then(|name| domain_of.get(name));
            if let Some(count) = domain.and_then(|domain| counts.get_mut(*domain)) {
                *count += 1;
            }
        }
        counts
    }

    /// Bound Pods that a term of a Pod of `namespace` means, or may mean.
    fn meant(&self, term: &PodTerm, namespace: &str) -> Vec<Pod> {
        let means = |other: &Pod| terms::selects(term, namespace, &other.namespace, &other.labels) != Selected::No;
        let selected = |labels: &Labels| term.selector.as_ref().is_some_and(|selector| selector.matches(labels));
        let among: Vec<_> = match &term.namespace_selector {
            // Only the Pods themselves tell which namespaces there are.
            Some(_) => {
                let placed = self.placed.iter().map(|pod| &*pod.namespace);
                let namespaces: BTreeSet<_> = self.state.namespaces().chain(placed).collect();
                namespaces.into_iter().flat_map(|listed| self.bound_in(listed, selected)).collect()
            }
            None if term.namespaces.is_empty() => self.bound_in(namespace, selected),
            None => term.namespaces.iter().flat_map(|listed| self.bound_in(listed, selected)).collect(),
        };
        among.into_iter().filter(means).collect()
    }

    /// Bound Pods with an anti-affinity term that means, or may mean, this Pod, and the term's topology key.
    fn anti_affine_towards(&self, pod: &Pod) -> Vec<(Pod, Box<str>)> {
        let mut repelling = BTreeMap::<_, Vec<_>>::new();
        for AntiAffine { namespace: own, shape, terms, .. } in self.state.anti_affine() {
            if terms.iter().any(|term| terms::may_mean(term, own, pod)) {
                repelling.entry(own).or_default().push(shape);
            }
        }
        let mut found: Vec<Pod> = Vec::new();
        for (namespace, shapes) in repelling {
            found.extend(self.present(self.state.pods_shaped(namespace, &shapes)));
        }
        found.extend(self.placed.iter().cloned());
        let keys = |other: Pod| {
            let terms = other.shape.anti_affinity.clone();
            let keys = terms.into_iter().filter(|term| terms::may_mean(term, &other.namespace, pod));
            let keys = keys.map(|term| term.topology_key);
            keys.map(|key| (other.clone(), key)).collect::<Vec<_>>()
        };
        found.into_iter().flat_map(keys).collect()
    }

    fn domain_of(&self, pod: &Pod, key: &str) -> Option<Domain> {
        let value = self.node(pod.node.as_deref()?)?.label(key)?;
        Some((key.into(), value.into()))
    }

    fn node(&self, name: &str) -> Option<&Arc<Node>> {
        self.state.node(name).or_else(|| self.joined.iter().find(|node| *node.name == *name))
    }

    fn on(&self, node: &str) -> Vec<Pod> {
        let placed = self.placed.iter().filter(|pod| pod.node.as_deref() == Some(node)).cloned();
        self.present(self.state.pods_on(node)).chain(placed).collect()
    }

    /// Bound Pods of a namespace with labels that are wanted.
    fn bound_in(&self, namespace: &str, wanted: impl Fn(&Labels) -> bool) -> Vec<Pod> {
        let placed = self.placed.iter().filter(|pod| &*pod.namespace == namespace && wanted(&pod.labels)).cloned();
        self.present(self.state.pods_labelled(namespace, &wanted)).chain(placed).collect()
    }

    fn present(&self, pods: Vec<Pod>) -> impl Iterator<Item = Pod> {
        pods.into_iter().filter(|pod| pod.holds_room() && !self.gone.contains(&*pod.uid))
    }
}

// === impl Question ===

impl Question<'_> {
    /// Whether the Pod would be placed on the node.
    pub(crate) fn fits(&self, node: &Node) -> Result<(), Misfit> {
        self.judge(node).map_err(|(_, misfit)| misfit)
    }

    /// The same, and how many rules the node passes before the one that forbids it: the more, the nearer a miss.
    pub(crate) fn judge(&self, node: &Node) -> Result<(), (usize, Misfit)> {
        let rules: [&dyn Fn() -> Result<(), Misfit>; 9] = [
            &|| takes_pods(node),
            &|| selected(self.pod, node),
            &|| tolerated(self.pod, node),
            &|| self.is_known(node),
            &|| self.resources_suffice(node),
            &|| self.ports_are_free(node),
            &|| self.not_repelled(node),
            &|| self.has_company(node),
            &|| {
                let mut spread = self.pod.shape.spread.iter().zip(&self.spread);
                spread.try_for_each(|(spread, counts)| self.spreads(node, spread, counts))
            },
        ];
        rules.iter().enumerate().try_for_each(|(passed, rule)| rule().map_err(|misfit| (passed, misfit)))
    }

    /// Whether the answer for a node depends on its value of this label.
    pub(crate) fn looks_at(&self, key: &str) -> bool {
        let shape = &self.pod.shape;
        let terms = shape.node_affinity.iter().flatten().flat_map(|term| &term.expressions);
        let nodes = shape.node_selector.iter().chain(terms).map(|expression| &expression.key);
        let pods = shape.affinity.iter().chain(&shape.anti_affinity).map(|term| &term.topology_key);
        let spread = shape.spread.iter().map(|spread| &spread.topology_key);
        let repelled = self.repelled.keys().map(|(key, _)| key);
        nodes.chain(pods).chain(spread).chain(repelled).any(|looked_at| **looked_at == *key)
    }

    /// The values of a label of nodes that anti-affinity closes to the Pod.
    pub(crate) fn repelled_from(&self, key: &str) -> BTreeSet<&str> {
        let of_key = self.repelled.keys().filter(|(closed, _)| **closed == *key);
        of_key.map(|(_, value)| &**value).collect()
    }

    /// Whether a spread constraint, told by its place, would still let the last of `more` matching Pods into a domain.
    pub(crate) fn spread_admits(&self, place: usize, domain: &str, more: i64) -> bool {
        let (spread, counts) = (&self.pod.shape.spread[place], &self.spread[place]);
        let Some(there) = counts.get(domain) else { return false };
        let before = there + (more - 1).max(0);
        let others = counts.iter().filter(|(other, _)| ***other != *domain).map(|(_, count)| *count);
        let enough = counts.len() >= usize::try_from(spread.min_domains).unwrap_or(1);
        let least = if enough { others.chain([before]).min().unwrap_or(0) } else { 0 };
        there + more - least <= i64::from(spread.max_skew)
    }

    fn is_known(&self, node: &Node) -> Result<(), Misfit> {
        let state = self.cluster.state;
        if self.cluster.joined.iter().any(|joined| joined.name == node.name) {
            return Ok(());
        }
        if !state.covers_node(&node.name) {
            return misfit("the Pods of the node are not read".to_owned());
        }
        if state.has_unreadable(&node.name) {
            return misfit("a Pod of the node cannot be read: what it needs is not known".to_owned());
        }
        Ok(())
    }

    fn resources_suffice(&self, node: &Node) -> Result<(), Misfit> {
        let mut used = self.cluster.state.usage(&node.name);
        let on_node = |pod: &&Pod| pod.node.as_deref() == Some(&*node.name);
        for leaving in self.leaving.iter().filter(on_node) {
            used.pods = used.pods.saturating_sub(1);
            used.requests.subtract(&leaving.shape.requests);
        }
        for placed in self.cluster.placed.iter().filter(on_node) {
            used.pods += 1;
            used.requests.add(&placed.shape.requests);
        }
        if i64::from(used.pods) + 1 > node.max_pods {
            return misfit(format!("Too many pods: {} of {}", used.pods, node.max_pods));
        }
        // The scheduler does not look at addresses; without one the Pod would not start. Those that use the node's own
        // are counted, too.
        if let Some(addresses) = node.pod_addresses.filter(|addresses| i64::from(used.pods) + 1 > *addresses) {
            return misfit(format!("too few addresses: {} Pods, room for {addresses} in its podCIDR", used.pods));
        }
        let mut free = node.allocatable.clone();
        free.subtract(&used.requests);
        suffices(&self.pod.shape.requests, &free)
    }

    fn ports_are_free(&self, node: &Node) -> Result<(), Misfit> {
        let wanted = &self.pod.shape.host_ports;
        if wanted.is_empty() {
            return Ok(());
        }
        for other in self.cluster.on(&node.name) {
            let taken = |port: &&HostPort| wanted.iter().any(|wanted| wanted.conflicts(port));
            if let Some(port) = other.shape.host_ports.iter().find(taken) {
                return misfit(format!("host port {}/{} is taken by Pod {}", port.port, port.protocol, other.path()));
            }
        }
        Ok(())
    }

    fn not_repelled(&self, node: &Node) -> Result<(), Misfit> {
        let closed = |((key, value), _): &(&Domain, &String)| node.label(key) == Some(&**value);
        match self.repelled.iter().find(closed) {
            Some((_, message)) => misfit(message.clone()),
            None => Ok(()),
        }
    }

    fn has_company(&self, node: &Node) -> Result<(), Misfit> {
        let Some(company) = &self.company else { return Ok(()) };
        for key in self.pod.shape.affinity.iter().map(|term| &term.topology_key) {
            let Some(value) = node.label(key) else {
                return misfit(format!("affinity: the node has no label {key}"));
            };
            if !company.contains(&(key.clone(), value.into())) {
                return misfit(format!("affinity: no matching Pod in {key}={value}"));
            }
        }
        Ok(())
    }

    /// `existing matching + self - global minimum <= maxSkew`.
    fn spreads(&self, node: &Node, spread: &Spread, counts: &BTreeMap<Box<str>, i64>) -> Result<(), Misfit> {
        let key = &*spread.topology_key;
        let Some(domain) = node.label(key) else {
            return misfit(format!("topology spread: the node has no label {key}"));
        };
        let enough = counts.len() >= usize::try_from(spread.min_domains).unwrap_or(1);
        let least = if enough { counts.values().min().copied().unwrap_or(0) } else { 0 };
        let there = counts.get(domain).copied().unwrap_or(0);
        let more = i64::from(matches(spread, &self.pod.labels));
        if there + more - least > i64::from(spread.max_skew) {
            return misfit(format!(
                "topology spread: {key}={domain} has {there} matching Pods, the least {least}, maxSkew is {}",
                spread.max_skew
            ));
        }
        Ok(())
    }
}

/// Whether a spread constraint counts Pods with these labels.
fn matches(spread: &Spread, labels: &Labels) -> bool {
    spread.selector.as_ref().is_some_and(|selector| selector.matches(labels))
}

fn misfit<T>(message: String) -> Result<T, Misfit> {
    Err(Misfit(message))
}

/// Whether what is free suffices.
pub(super) fn suffices(requests: &Resources, free: &Resources) -> Result<(), Misfit> {
    requests.fits_in(free).map_err(|short| {
        let [need, free] = [short.need, short.free].map(|amount| in_words(&short.resource, amount));
        Misfit(format!("Insufficient {}: needs {need}, {free} free", short.resource))
    })
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
pub(super) fn selected(pod: &Pod, node: &Node) -> Result<(), Misfit> {
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
pub(super) fn tolerated(pod: &Pod, node: &Node) -> Result<(), Misfit> {
    let keeps_away = |effect| matches!(effect, TaintEffect::NoSchedule | TaintEffect::NoExecute);
    let tolerated = |taint| pod.shape.tolerations.iter().any(|toleration| toleration.tolerates(taint));
    match node.taints.iter().find(|taint| keeps_away(taint.effect) && !tolerated(taint)) {
        Some(taint) => misfit(format!("the node has the taint {}={}, which is not tolerated", taint.key, taint.value)),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests;
