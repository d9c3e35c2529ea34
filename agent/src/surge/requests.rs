//! Effective requests of a Pod: what the scheduler counts.

use rotate_shared::Amounts;

use crate::cache::Resources;

/// What a Pod's spec and status say about amounts, before the rules of upstream's `PodRequests`.
#[derive(Clone, Debug, Default)]
pub struct Demand {
    /// Regular containers.
    pub containers: Vec<Container>,
    /// Init containers in the order of their declaration.
    pub init_containers: Vec<Container>,
    /// `spec.overhead`.
    pub overhead: Amounts,
    /// `spec.resources.requests`.
    pub pod_level: Option<Amounts>,
    /// A pending resize is infeasible (condition `PodResizePending` with reason `Infeasible`).
    pub resize_infeasible: bool,
}

/// One container's amounts.
#[derive(Clone, Debug, Default)]
pub struct Container {
    /// `resources.requests` of the spec.
    pub requests: Amounts,
    /// `restartPolicy: Always` on an init container: a sidecar.
    pub restartable: bool,
    /// `status…allocatedResources`.
    pub allocated: Option<Amounts>,
    /// `status…resources.requests`.
    pub actual: Option<Amounts>,
}

/// The effective requests.
#[must_use]
pub fn effective(_demand: &Demand) -> Resources {
    unimplemented!()
}
