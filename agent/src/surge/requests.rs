//! Effective requests of a Pod: what the scheduler counts.
//!
//! Follows `PodRequests` of `k8s.io/component-helpers/resource` v0.36 as kube-scheduler 1.36 calls it: with
//! `UseStatusResources` and `InPlacePodLevelResourcesVerticalScalingEnabled`, both on by default there.

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
    /// `status.allocatedResources`.
    pub pod_allocated: Option<Amounts>,
    /// `status.resources.requests`; `Some`, if empty, as soon as `status.resources` is there.
    pub pod_actual: Option<Amounts>,
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
    /// `allocatedResources` of the status with the same container name.
    pub allocated: Option<Amounts>,
    /// `resources.requests` of the status with the same container name; `Some`, if empty, as soon as that status has
    /// `resources`.
    pub actual: Option<Amounts>,
}

/// The effective requests in the scheduler's units.
#[must_use]
pub fn effective(demand: &Demand) -> Resources {
    Resources::from(&effective_amounts(demand))
}

/// The effective requests before they are rounded.
#[must_use]
pub fn effective_amounts(demand: &Demand) -> Amounts {
    let mut total = Amounts::new();
    for container in &demand.containers {
        add(&mut total, &held(demand, container));
    }
    let mut sidecars = Amounts::new();
    let mut init_peak = Amounts::new();
    for container in &demand.init_containers {
        if container.restartable {
            let requests = held(demand, container);
            add(&mut total, &requests);
            add(&mut sidecars, &requests);
            keep_larger(&mut init_peak, &sidecars);
        } else {
            // Upstream ignores the status here: an ordinary init container cannot be resized.
            let mut step = container.requests.clone();
            add(&mut step, &sidecars);
            keep_larger(&mut init_peak, &step);
        }
    }
    keep_larger(&mut total, &init_peak);
    if let Some(requests) = demand.pod_level.as_ref().filter(|requests| requests.keys().any(|name| is_pod_level(name)))
    {
        let resized =
            demand.pod_actual.as_ref().map(|actual| resized(demand, requests, actual, demand.pod_allocated.as_ref()));
        for (name, amount) in requests.iter().filter(|(name, _)| is_pod_level(name)) {
            let amount = match &resized {
                Some(resized) => resized.get(name).copied().unwrap_or(rotate_shared::Quantity::ZERO),
                None => *amount,
            };
            total.insert(name.clone(), amount);
        }
    }
    add(&mut total, &demand.overhead);
    total
}

/// What a container holds: its spec's requests, unless its status knows better.
fn held(demand: &Demand, container: &Container) -> Amounts {
    match &container.actual {
        Some(actual) => resized(demand, &container.requests, actual, container.allocated.as_ref()),
        None => container.requests.clone(),
    }
}

/// The larger of what is wanted and what the node still holds; only the latter where the node will never grant the
/// rest.
fn resized(demand: &Demand, spec: &Amounts, actual: &Amounts, allocated: Option<&Amounts>) -> Amounts {
    let mut largest = if demand.resize_infeasible { Amounts::new() } else { spec.clone() };
    keep_larger(&mut largest, actual);
    if let Some(allocated) = allocated {
        keep_larger(&mut largest, allocated);
    }
    largest
}

/// Whether a resource can be requested for a Pod as a whole.
fn is_pod_level(name: &str) -> bool {
    matches!(name, "cpu" | "memory") || name.starts_with("hugepages-")
}

fn add(to: &mut Amounts, more: &Amounts) {
    for (name, amount) in more {
        to.entry(name.clone()).and_modify(|sum| *sum = *sum + *amount).or_insert(*amount);
    }
}

fn keep_larger(of: &mut Amounts, other: &Amounts) {
    for (name, amount) in other {
        of.entry(name.clone()).and_modify(|largest| *largest = (*largest).max(*amount)).or_insert(*amount);
    }
}

#[cfg(test)]
mod tests;
