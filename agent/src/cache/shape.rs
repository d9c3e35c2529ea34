//! A Pod's shape: everything about it that its siblings share, kept once.
//!
//! `S` is the text: `Box<str>` where it is kept, `Cow<str>` where it is borrowed from the object it is read from. Both
//! hash alike, so that a shape can be looked up without being copied.

use std::ops::Deref;

use super::resources::Resources;
use super::selector::{Expression, NodeTerm, Selector, Toleration};

/// What a Pod shares with its siblings. Interned by the index: equal shapes are one allocation.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Shape<S = Box<str>> {
    /// Effective requests, as the scheduler counts them (see [`crate::surge::requests`]).
    pub requests: Resources,
    /// `spec.priority`; 0 where unset.
    pub priority: i32,
    /// `spec.preemptionPolicy: Never`.
    pub never_preempts: bool,
    /// `spec.schedulerName`, where it is not `default-scheduler`.
    pub scheduler: Option<S>,
    /// `spec.nodeSelector` as `In` expressions, sorted by key.
    pub node_selector: Vec<Expression<S>>,
    /// Required node affinity: one of the terms must match. `None`: no requirement. `Some` and empty matches no node
    /// (the API server refuses it; the scheduler would too).
    pub node_affinity: Option<Vec<NodeTerm<S>>>,
    /// Tolerations.
    pub tolerations: Vec<Toleration<S>>,
    /// Ports claimed on the node.
    pub host_ports: Vec<HostPort<S>>,
    /// Required Pod affinity.
    pub affinity: Vec<PodTerm<S>>,
    /// Required Pod anti-affinity.
    pub anti_affinity: Vec<PodTerm<S>>,
    /// Topology spread with `whenUnsatisfiable: DoNotSchedule`.
    pub spread: Vec<Spread<S>>,
    /// Has an emptyDir whose medium is not memory.
    pub local_storage: bool,
    /// `spec.schedulingGates` is not empty.
    pub gated: bool,
    /// Uses `spec.resourceClaims` (dynamic resource allocation).
    pub resource_claims: bool,
    /// Belongs to a Pod group of a batch scheduler (`scheduling.x-k8s.io/pod-group` label, or `spec.workloadRef`).
    pub pod_group: bool,
    /// `spec.runtimeClassName`.
    pub runtime_class: Option<S>,
    /// `karpenter.sh/do-not-disrupt`: of a duration from the Pod's start, when it ends; anything else as written.
    pub do_not_disrupt: Option<S>,
    /// `cluster-autoscaler.kubernetes.io/safe-to-evict: "false"`.
    pub not_safe_to_evict: bool,
    /// Has the mirror annotation of a static Pod.
    pub mirror: bool,
}

impl<S: Deref<Target = str>> Shape<S> {
    /// The same with another kind of text.
    pub fn map<'a, T>(&'a self, text: impl Fn(&'a str) -> T) -> Shape<T> {
        let text = &text;
        Shape {
            requests: self.requests.clone(),
            priority: self.priority,
            never_preempts: self.never_preempts,
            scheduler: self.scheduler.as_deref().map(text),
            node_selector: self.node_selector.iter().map(|expression| expression.map(text)).collect(),
            node_affinity: self.node_affinity.as_ref().map(|terms| terms.iter().map(|term| term.map(text)).collect()),
            tolerations: self.tolerations.iter().map(|toleration| toleration.map(text)).collect(),
            host_ports: self.host_ports.iter().map(|port| port.map(text)).collect(),
            affinity: self.affinity.iter().map(|term| term.map(text)).collect(),
            anti_affinity: self.anti_affinity.iter().map(|term| term.map(text)).collect(),
            spread: self.spread.iter().map(|spread| spread.map(text)).collect(),
            local_storage: self.local_storage,
            gated: self.gated,
            resource_claims: self.resource_claims,
            pod_group: self.pod_group,
            runtime_class: self.runtime_class.as_deref().map(text),
            do_not_disrupt: self.do_not_disrupt.as_deref().map(text),
            not_safe_to_evict: self.not_safe_to_evict,
            mirror: self.mirror,
        }
    }
}

/// A port claimed on the node.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize)]
pub struct HostPort<S = Box<str>> {
    /// `TCP`, `UDP` or `SCTP`.
    pub protocol: S,
    /// The address; `0.0.0.0` or empty conflicts with every address.
    pub ip: S,
    /// The number.
    pub port: u16,
}

impl<S: Deref<Target = str>> HostPort<S> {
    /// The same with another kind of text.
    pub fn map<'a, T>(&'a self, text: impl Fn(&'a str) -> T) -> HostPort<T> {
        HostPort { protocol: text(&self.protocol), ip: text(&self.ip), port: self.port }
    }

    /// Whether both cannot be claimed on one node.
    #[must_use]
    pub fn conflicts(&self, other: &Self) -> bool {
        let any = |ip: &str| ip.is_empty() || ip == "0.0.0.0" || ip == "::";
        self.port == other.port
            && *self.protocol == *other.protocol
            && (*self.ip == *other.ip || any(&self.ip) || any(&other.ip))
    }
}

/// A term of required Pod affinity or anti-affinity.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize)]
pub struct PodTerm<S = Box<str>> {
    /// The node label whose values are the domains.
    pub topology_key: S,
    /// Which Pods; `None` selects none. `matchLabelKeys` are merged into it by the API server.
    pub selector: Option<Selector<S>>,
    /// In which namespaces; empty with no `namespace_selector`: the Pod's own.
    pub namespaces: Vec<S>,
    /// In which namespaces, by their labels. `Some` and empty: all.
    pub namespace_selector: Option<Selector<S>>,
}

/// A topology spread constraint that must hold.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Spread<S = Box<str>> {
    /// The node label whose values are the domains.
    pub topology_key: S,
    /// The largest allowed difference.
    pub max_skew: i32,
    /// Which Pods of the Pod's namespace; `None` selects none. `matchLabelKeys` are merged into it by the API server.
    pub selector: Option<Selector<S>>,
    /// `minDomains`: with fewer domains than this the smallest count is taken as 0. 1 where unset.
    pub min_domains: i32,
    /// `nodeAffinityPolicy: Ignore`: nodes that the Pod's node selector and affinity exclude are domains too.
    pub ignores_affinity: bool,
    /// `nodeTaintsPolicy: Honor`: nodes with a taint that the Pod does not tolerate, a cordon too, are no domains.
    pub honors_taints: bool,
}

impl<S: Deref<Target = str>> PodTerm<S> {
    /// The same with another kind of text.
    pub fn map<'a, T>(&'a self, text: impl Fn(&'a str) -> T) -> PodTerm<T> {
        let selector = |selector: &'a Option<Selector<S>>| selector.as_ref().map(|selector| selector.map(&text));
        PodTerm {
            topology_key: text(&self.topology_key),
            selector: selector(&self.selector),
            namespaces: self.namespaces.iter().map(|namespace| text(namespace)).collect(),
            namespace_selector: selector(&self.namespace_selector),
        }
    }
}

impl<S: Deref<Target = str>> Spread<S> {
    /// The same with another kind of text.
    pub fn map<'a, T>(&'a self, text: impl Fn(&'a str) -> T) -> Spread<T> {
        Spread {
            topology_key: text(&self.topology_key),
            max_skew: self.max_skew,
            selector: self.selector.as_ref().map(|selector| selector.map(&text)),
            min_domains: self.min_domains,
            ignores_affinity: self.ignores_affinity,
            honors_taints: self.honors_taints,
        }
    }
}
