//! Nodes with their sums: the fleet view.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::plan::Provider;
use crate::quantity::Amounts;

/// One node of the fleet. Counts and sums of its Pods are left out where the agent has not read them
/// (`--pod-cache=scoped`): unknown is not none.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct NodeSummary {
    /// Its name.
    pub name: String,
    /// When it was created.
    pub created_at: Timestamp,
    /// Whether its Ready condition is True.
    pub ready: bool,
    /// Whether new Pods may be placed on it.
    pub schedulable: bool,
    /// What stands behind it.
    pub provider: Provider,
    /// Pods that would have to move.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub movable_pods: Option<u32>,
    /// All Pods bound to it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pods: Option<u32>,
    /// The sum of effective requests that would have to move.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub movable: Option<Amounts>,
    /// What it offers to Pods.
    pub allocatable: Amounts,
    /// Pods that stand in the way of a rotation with default options.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub blockers: Option<u32>,
    /// Its live rotation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rotation: Option<String>,
    /// The resourceVersion of Pods that the counts and sums reflect. Left out where there is no one such version.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pods_revision: Option<String>,
}

/// The fleet. The figures of each node are of one moment; those of different nodes may be of different ones
/// ([`NodeSummary::pods_revision`]).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct NodeList {
    /// Always [`crate::API_VERSION`].
    pub api_version: String,
    /// Always `NodeList`.
    pub kind: String,
    /// By name.
    pub items: Vec<NodeSummary>,
}
