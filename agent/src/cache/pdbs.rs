//! One PodDisruptionBudget, as watched.

use std::sync::Arc;

use super::selector::Selector;

/// A disruption budget.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pdb {
    /// `metadata.namespace`.
    pub namespace: Arc<str>,
    /// `metadata.name`.
    pub name: Arc<str>,
    /// `metadata.uid`.
    pub uid: Arc<str>,
    /// Which Pods of its namespace; `None` selects none (an empty selector selects all: policy/v1).
    pub selector: Option<Selector>,
    /// `spec.minAvailable` or `spec.maxUnavailable`, as written.
    pub limit: Limit,
    /// `spec.unhealthyPodEvictionPolicy: AlwaysAllow`.
    pub unhealthy_always: bool,
    /// `status.disruptionsAllowed`.
    pub allowed: i32,
    /// `status.currentHealthy`.
    pub healthy: i32,
    /// `status.desiredHealthy`.
    pub desired: i32,
    /// `status.expectedPods`.
    pub expected: i32,
    /// Whether the status is of the present spec (`observedGeneration`).
    pub current: bool,
}

/// What a budget limits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Limit {
    /// `minAvailable`, a number or a percentage.
    MinAvailable(Box<str>),
    /// `maxUnavailable`, a number or a percentage.
    MaxUnavailable(Box<str>),
}
