//! Effective requests of a Pod: what the scheduler counts.
//!
//! Follows `PodRequests` of `k8s.io/component-helpers/resource` v0.36 as kube-scheduler 1.36 calls it: with
//! `UseStatusResources` and `InPlacePodLevelResourcesVerticalScalingEnabled`, both on by default there.

mod exact;

use std::borrow::Cow;

use rotate_shared::Quantity;
use smallvec::SmallVec;

pub use exact::Exact;

use crate::cache::Resources;

/// What a Pod's spec and status say about amounts, before the rules of upstream's `PodRequests`.
#[derive(Clone, Debug, Default)]
pub struct Demand<'a> {
    /// Regular containers.
    pub containers: SmallVec<[Container<'a>; 2]>,
    /// Init containers in the order of their declaration.
    pub init_containers: Vec<Container<'a>>,
    /// `spec.overhead`.
    pub overhead: Exact<'a>,
    /// `spec.resources.requests`.
    pub pod_level: Option<Exact<'a>>,
    /// `status.allocatedResources`.
    pub pod_allocated: Option<Exact<'a>>,
    /// `status.resources.requests`; `Some`, if empty, as soon as `status.resources` is there.
    pub pod_actual: Option<Exact<'a>>,
    /// A pending resize is infeasible (condition `PodResizePending` with reason `Infeasible`).
    pub resize_infeasible: bool,
}

/// One container's amounts.
#[derive(Clone, Debug, Default)]
pub struct Container<'a> {
    /// `resources.requests` of the spec.
    pub requests: Exact<'a>,
    /// `restartPolicy: Always` on an init container: a sidecar.
    pub restartable: bool,
    /// `allocatedResources` of the status with the same container name.
    pub allocated: Option<Exact<'a>>,
    /// `resources.requests` of the status with the same container name; `Some`, if empty, as soon as that status has
    /// `resources`.
    pub actual: Option<Exact<'a>>,
}

/// The effective requests in the scheduler's units.
#[must_use]
pub fn effective(demand: &Demand<'_>) -> Resources {
    Resources::from(&effective_amounts(demand))
}

/// The effective requests before they are rounded.
fn effective_amounts<'a>(demand: &Demand<'a>) -> Exact<'a> {
    let mut total = Exact::default();
    for container in &demand.containers {
        total.add(&held(demand, container));
    }
    if !demand.init_containers.is_empty() {
        let mut sidecars = Exact::default();
        let mut init_peak = Exact::default();
        for container in &demand.init_containers {
            if container.restartable {
                let requests = held(demand, container);
                total.add(&requests);
                sidecars.add(&requests);
                init_peak.keep_larger(&sidecars);
            } else {
                // Upstream ignores the status here: an ordinary init container cannot be resized.
                let mut step = container.requests.clone();
                step.add(&sidecars);
                init_peak.keep_larger(&step);
            }
        }
        total.keep_larger(&init_peak);
    }
    if let Some(requests) =
        demand.pod_level.as_ref().filter(|requests| requests.iter().any(|(name, _)| is_pod_level(name)))
    {
        let resized =
            demand.pod_actual.as_ref().map(|actual| resized(demand, requests, actual, demand.pod_allocated.as_ref()));
        for (name, amount) in requests.iter().filter(|(name, _)| is_pod_level(name)) {
            let amount = match &resized {
                Some(resized) => resized.get(name).unwrap_or(Quantity::ZERO),
                None => amount,
            };
            total.set(Cow::Owned(name.to_owned()), amount);
        }
    }
    total.add(&demand.overhead);
    total
}

/// What a container holds: its spec's requests, unless its status knows better.
fn held<'a>(demand: &Demand<'_>, container: &Container<'a>) -> Exact<'a> {
    match &container.actual {
        Some(actual) => resized(demand, &container.requests, actual, container.allocated.as_ref()),
        None => container.requests.clone(),
    }
}

/// The larger of what is wanted and what the node still holds; only the latter where the node will never grant the
/// rest.
fn resized<'a>(demand: &Demand<'_>, spec: &Exact<'a>, actual: &Exact<'a>, allocated: Option<&Exact<'a>>) -> Exact<'a> {
    let mut largest = if demand.resize_infeasible { Exact::default() } else { spec.clone() };
    largest.keep_larger(actual);
    if let Some(allocated) = allocated {
        largest.keep_larger(allocated);
    }
    largest
}

/// Whether a resource can be requested for a Pod as a whole.
fn is_pod_level(name: &str) -> bool {
    matches!(name, "cpu" | "memory") || name.starts_with("hugepages-")
}

#[cfg(test)]
mod tests;
