//! What the scheduler knows of a Pod, read once from its object.

use serde_json::{Map, Value};

use super::affinity::Term;
use crate::{object, quantity, quantity::Amounts, store::Key, store::selector::LabelSelector};

/// A Pod as the scheduler sees it.
#[derive(Clone, Debug)]
pub(crate) struct PodInfo {
    pub(crate) key: Key,
    pub(crate) uid: String,
    pub(crate) labels: Map<String, Value>,
    pub(crate) owner: String,
    pub(crate) priority: i32,
    pub(crate) never_preempts: bool,
    pub(crate) requests: Amounts,
    pub(crate) node_selector: Vec<(String, String)>,
    /// Terms of the required node affinity; any one of them must match.
    pub(crate) required: Option<Vec<Term>>,
    pub(crate) preferred: Vec<(i64, Term)>,
    pub(crate) tolerations: Vec<Toleration>,
    /// Protocol, address and port.
    pub(crate) ports: Vec<(String, String, i64)>,
    pub(crate) affinity: Vec<PodTerm>,
    pub(crate) anti_affinity: Vec<PodTerm>,
    /// Negative weights keep away.
    pub(crate) preferred_neighbours: Vec<(i64, PodTerm)>,
    pub(crate) spread: Vec<Spread>,
    pub(crate) claims: Vec<String>,
    pub(crate) terminating: bool,
    /// Terminating because the scheduler wanted its room.
    pub(crate) preempted: bool,
    pub(crate) node: String,
    pub(crate) nominated: String,
    pub(crate) started: String,
}

/// A toleration; empty text stands for anything.
#[derive(Clone, Debug)]
pub(crate) struct Toleration {
    key: String,
    exists: bool,
    value: String,
    effect: String,
}

impl Toleration {
    fn of(value: &Value) -> Self {
        let text = |key: &str| object::text(value, key).to_owned();
        Self {
            key: text("/key"),
            exists: text("/operator") == "Exists",
            value: text("/value"),
            effect: text("/effect"),
        }
    }

    pub(crate) fn tolerates(&self, taint: &Value) -> bool {
        let effect = self.effect.is_empty() || self.effect == object::text(taint, "/effect");
        let key = self.key == object::text(taint, "/key") || (self.key.is_empty() && self.exists);
        effect && key && (self.exists || self.value == object::text(taint, "/value"))
    }
}

/// A term of inter-Pod affinity.
#[derive(Clone, Debug)]
pub(crate) struct PodTerm {
    selector: LabelSelector,
    namespaces: Vec<String>,
    namespace_selector: Option<LabelSelector>,
    pub(crate) key: String,
}

impl PodTerm {
    fn of(value: &Value, pod: &Value) -> Self {
        let mut selector = LabelSelector::of(value.get("labelSelector"));
        for key in object::list(value, "/matchLabelKeys").iter().filter_map(Value::as_str) {
            if let Some(label) = object::label(pod, key) {
                selector.require(key, label);
            }
        }
        let mut namespaces: Vec<String> =
            object::list(value, "/namespaces").iter().filter_map(Value::as_str).map(str::to_owned).collect();
        let namespace_selector =
            value.get("namespaceSelector").filter(|v| !v.is_null()).map(|v| LabelSelector::of(Some(v)));
        if namespaces.is_empty() && namespace_selector.is_none() {
            namespaces.push(object::namespace(pod).to_owned());
        }
        Self { selector, namespaces, namespace_selector, key: object::text(value, "/topologyKey").to_owned() }
    }

    /// Whether `other` is one of the Pods this term is about; `labels` are those of its namespace.
    pub(crate) fn is_about(&self, other: &PodInfo, labels: Option<&Map<String, Value>>) -> bool {
        let namespace = self.namespaces.contains(&other.key.0)
            || self.namespace_selector.as_ref().is_some_and(|selector| selector.matches(labels));
        namespace && self.selector.matches(Some(&other.labels))
    }
}

/// A topology spread constraint.
#[derive(Clone, Debug)]
pub(crate) struct Spread {
    pub(crate) key: String,
    pub(crate) max_skew: i64,
    pub(crate) min_domains: usize,
    pub(crate) hard: bool,
    pub(crate) selector: LabelSelector,
    /// Whether nodes that the Pod's own node affinity excludes count; they do not by default.
    pub(crate) honours_affinity: bool,
    /// Whether nodes with taints it does not tolerate are left out; they are not by default.
    pub(crate) honours_taints: bool,
}

impl Spread {
    fn of(value: &Value, pod: &Value) -> Self {
        let mut selector = LabelSelector::of(value.get("labelSelector"));
        for key in object::list(value, "/matchLabelKeys").iter().filter_map(Value::as_str) {
            if let Some(label) = object::label(pod, key) {
                selector.require(key, label);
            }
        }
        Self {
            key: object::text(value, "/topologyKey").to_owned(),
            max_skew: object::number(value, "/maxSkew").unwrap_or(1),
            min_domains: object::number(value, "/minDomains").and_then(|n| usize::try_from(n).ok()).unwrap_or(1),
            hard: object::text(value, "/whenUnsatisfiable") != "ScheduleAnyway",
            selector,
            honours_affinity: object::text(value, "/nodeAffinityPolicy") != "Ignore",
            honours_taints: object::text(value, "/nodeTaintsPolicy") == "Honor",
        }
    }
}

impl PodInfo {
    pub(crate) fn of(pod: &Value) -> Self {
        let affinity = |path: &str| object::list(pod, &format!("/spec/affinity/{path}")).iter();
        let terms = |kind: &str| {
            affinity(&format!("{kind}/requiredDuringSchedulingIgnoredDuringExecution"))
                .map(|term| PodTerm::of(term, pod))
                .collect::<Vec<_>>()
        };
        let weighted = |kind: &str, sign: i64| {
            affinity(&format!("{kind}/preferredDuringSchedulingIgnoredDuringExecution"))
                .map(|term| {
                    let weight = sign * object::number(term, "/weight").unwrap_or(1);
                    (weight, PodTerm::of(&term["podAffinityTerm"], pod))
                })
                .collect::<Vec<_>>()
        };
        let mut preferred_neighbours = weighted("podAffinity", 1);
        preferred_neighbours.extend(weighted("podAntiAffinity", -1));
        let required = pod
            .pointer("/spec/affinity/nodeAffinity/requiredDuringSchedulingIgnoredDuringExecution/nodeSelectorTerms")
            .map(|terms| terms.as_array().into_iter().flatten().map(Term::of).collect());
        let text = |pointer: &str| object::text(pod, pointer).to_owned();
        Self {
            key: (object::namespace(pod).to_owned(), object::name(pod).to_owned()),
            uid: object::uid(pod).to_owned(),
            labels: object::map(pod, "/metadata/labels").cloned().unwrap_or_default(),
            owner: object::controller_uid(pod).to_owned(),
            priority: object::priority(pod),
            never_preempts: object::text(pod, "/spec/preemptionPolicy") == "Never",
            requests: quantity::requests(pod),
            node_selector: object::map(pod, "/spec/nodeSelector")
                .into_iter()
                .flatten()
                .map(|(key, value)| (key.clone(), value.as_str().unwrap_or_default().to_owned()))
                .collect(),
            required,
            preferred: affinity("nodeAffinity/preferredDuringSchedulingIgnoredDuringExecution")
                .map(|term| (object::number(term, "/weight").unwrap_or(1), Term::of(&term["preference"])))
                .collect(),
            tolerations: object::list(pod, "/spec/tolerations").iter().map(Toleration::of).collect(),
            ports: ports(pod),
            affinity: terms("podAffinity"),
            anti_affinity: terms("podAntiAffinity"),
            preferred_neighbours,
            spread: object::list(pod, "/spec/topologySpreadConstraints")
                .iter()
                .map(|spread| Spread::of(spread, pod))
                .collect(),
            claims: object::list(pod, "/spec/volumes")
                .iter()
                .map(|volume| object::text(volume, "/persistentVolumeClaim/claimName").to_owned())
                .filter(|claim| !claim.is_empty())
                .collect(),
            terminating: object::terminating(pod),
            preempted: object::list(pod, "/status/conditions")
                .iter()
                .any(|c| c["type"] == "DisruptionTarget" && c["reason"] == "PreemptionByScheduler"),
            node: object::node_name(pod).to_owned(),
            nominated: text("/status/nominatedNodeName"),
            started: text("/status/startTime"),
        }
    }

    pub(crate) fn tolerates(&self, taint: &Value) -> bool {
        self.tolerations.iter().any(|toleration| toleration.tolerates(taint))
    }

    /// Whether Pods beside it can change where it fits.
    pub(crate) fn minds_neighbours(&self) -> bool {
        !(self.affinity.is_empty() && self.spread.is_empty() && self.anti_affinity.is_empty())
    }
}

fn ports(pod: &Value) -> Vec<(String, String, i64)> {
    let host_network = pod["spec"]["hostNetwork"] == true;
    let containers = object::list(pod, "/spec/containers").iter();
    let mut ports = Vec::new();
    for port in containers.flat_map(|container| object::list(container, "/ports")) {
        let number = object::number(port, "/hostPort").filter(|port| *port > 0);
        let number = number.or_else(|| object::number(port, "/containerPort").filter(|_| host_network));
        let or = |text: &str, default: &str| if text.is_empty() { default.to_owned() } else { text.to_owned() };
        if let Some(number) = number {
            let protocol = or(object::text(port, "/protocol"), "TCP");
            ports.push((protocol, or(object::text(port, "/hostIP"), "0.0.0.0"), number));
        }
    }
    ports
}
