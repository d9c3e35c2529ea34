//! Constraints of a Pod translated for its placeholder, never copied.

use rotate_shared::plan::Notice;

use crate::cache::selector::{Expression, Labels, NodeTerm, Toleration};
use crate::cache::shape::{HostPort, PodTerm};
use crate::cache::{Node, Pod, State, Volumes};

/// Where a placeholder may be.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize)]
pub struct Placement {
    /// All must hold.
    pub node_selector: Vec<Expression>,
    /// One must hold, where there is any.
    pub node_affinity: Option<Vec<NodeTerm>>,
    /// Tolerations, as the Pod has them.
    pub tolerations: Vec<Toleration>,
    /// Host ports, as the Pod has them.
    pub host_ports: Vec<HostPort>,
    /// Anti-affinity with explicit namespaces.
    pub anti_affinity: Vec<PodTerm>,
    /// Our own labels that placeholders of one workload repel each other by.
    pub labels: Labels,
    /// The runtime class, for its overhead.
    pub runtime_class: Option<Box<str>>,
}

/// Translates a Pod's constraints.
///
/// # Errors
///
/// What cannot be promised, as blockers.
pub fn translate(_pod: &Pod, _candidate: &Node, _state: &State, _volumes: &Volumes) -> Result<Placement, Vec<Notice>> {
    unimplemented!()
}

/// The placement in words, for a plan.
#[must_use]
pub fn describe(_placement: &Placement) -> Vec<String> {
    unimplemented!()
}
