//! A Pod's shape: everything about it that its siblings share, kept once.

use super::resources::Resources;
use super::selector::{Expression, NodeTerm, Selector, Toleration};

/// What a Pod shares with its siblings. Interned by the index: equal shapes are one allocation.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Shape {
    /// Effective requests, as the scheduler counts them (see [`crate::surge::requests`]).
    pub requests: Resources,
    /// `spec.priority`; 0 where unset.
    pub priority: i32,
    /// `spec.preemptionPolicy: Never`.
    pub never_preempts: bool,
    /// `spec.schedulerName`, where it is not `default-scheduler`.
    pub scheduler: Option<Box<str>>,
    /// `spec.nodeSelector` as `In` expressions, sorted by key.
    pub node_selector: Vec<Expression>,
    /// Required node affinity: one of the terms must match. `None`: no requirement. `Some` and empty matches no node
    /// (the API server refuses it; the scheduler would too).
    pub node_affinity: Option<Vec<NodeTerm>>,
    /// Tolerations.
    pub tolerations: Vec<Toleration>,
    /// Ports claimed on the node.
    pub host_ports: Vec<HostPort>,
    /// Required Pod affinity.
    pub affinity: Vec<PodTerm>,
    /// Required Pod anti-affinity.
    pub anti_affinity: Vec<PodTerm>,
    /// Topology spread with `whenUnsatisfiable: DoNotSchedule`.
    pub spread: Vec<Spread>,
    /// Has an emptyDir whose medium is not memory.
    pub local_storage: bool,
    /// `spec.schedulingGates` is not empty.
    pub gated: bool,
    /// Uses `spec.resourceClaims` (dynamic resource allocation).
    pub resource_claims: bool,
    /// Belongs to a Pod group of a batch scheduler (`scheduling.x-k8s.io/pod-group` label, or `spec.workloadRef`).
    pub pod_group: bool,
    /// `spec.runtimeClassName`.
    pub runtime_class: Option<Box<str>>,
    /// `karpenter.sh/do-not-disrupt`: `true`, or a duration from the Pod's start, as written.
    pub do_not_disrupt: Option<Box<str>>,
    /// `cluster-autoscaler.kubernetes.io/safe-to-evict: "false"`.
    pub not_safe_to_evict: bool,
    /// Has the mirror annotation of a static Pod.
    pub mirror: bool,
}

/// A port claimed on the node.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize)]
pub struct HostPort {
    /// `TCP`, `UDP` or `SCTP`.
    pub protocol: Box<str>,
    /// The address; `0.0.0.0` or empty conflicts with every address.
    pub ip: Box<str>,
    /// The number.
    pub port: u16,
}

impl HostPort {
    /// Whether both cannot be claimed on one node.
    #[must_use]
    pub fn conflicts(&self, other: &Self) -> bool {
        let any = |ip: &str| ip.is_empty() || ip == "0.0.0.0" || ip == "::";
        self.port == other.port
            && self.protocol == other.protocol
            && (self.ip == other.ip || any(&self.ip) || any(&other.ip))
    }
}

/// A term of required Pod affinity or anti-affinity.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize)]
pub struct PodTerm {
    /// The node label whose values are the domains.
    pub topology_key: Box<str>,
    /// Which Pods; `None` selects none. `matchLabelKeys` are merged into it by the API server.
    pub selector: Option<Selector>,
    /// In which namespaces; empty with no `namespace_selector`: the Pod's own.
    pub namespaces: Vec<Box<str>>,
    /// In which namespaces, by their labels. `Some` and empty: all.
    pub namespace_selector: Option<Selector>,
}

/// A topology spread constraint that must hold.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Spread {
    /// The node label whose values are the domains.
    pub topology_key: Box<str>,
    /// The largest allowed difference.
    pub max_skew: i32,
    /// Which Pods of the Pod's namespace; `None` selects none. `matchLabelKeys` are merged into it by the API server.
    pub selector: Option<Selector>,
    /// `minDomains`: with fewer domains than this the smallest count is taken as 0. 1 where unset.
    pub min_domains: i32,
    /// `nodeAffinityPolicy: Ignore`: nodes that the Pod's node selector and affinity exclude are domains too.
    pub ignores_affinity: bool,
    /// `nodeTaintsPolicy: Honor`: nodes with a taint that the Pod does not tolerate, a cordon too, are no domains.
    pub honors_taints: bool,
}
