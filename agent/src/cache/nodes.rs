//! One node, as everything that decides sees it.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::Timestamp;
use rotate_shared::names;

use super::resources::Resources;
use super::selector::{Labels, Taint};
use crate::provider::cluster_api;

/// The annotations of a node that somebody reads; no others are kept.
pub const KEPT_ANNOTATIONS: &[&str] = &[
    names::CLUSTER_API_MACHINE,
    cluster_api::CLUSTER_NAME,
    cluster_api::CLUSTER_NAMESPACE,
    cluster_api::OWNER_KIND,
    cluster_api::OWNER_NAME,
    names::CORDONED_BY,
    names::KARPENTER_DO_NOT_DISRUPT,
    names::PROTECTED_BY,
    names::ROTATION,
    names::SCALE_DOWN_DISABLED,
];

/// A node, trimmed to what is decided on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Node {
    /// `metadata.name`.
    pub name: Arc<str>,
    /// `metadata.uid`.
    pub uid: Arc<str>,
    /// `metadata.creationTimestamp`.
    pub created: Timestamp,
    /// `metadata.deletionTimestamp` is set.
    pub deleting: bool,
    /// Labels.
    pub labels: Arc<Labels>,
    /// Those of its annotations that [`KEPT_ANNOTATIONS`] lists.
    pub annotations: BTreeMap<Box<str>, Box<str>>,
    /// `spec.taints`.
    pub taints: Vec<Taint>,
    /// `spec.unschedulable`.
    pub unschedulable: bool,
    /// The Ready condition is True.
    pub ready: bool,
    /// `status.allocatable` without `pods`.
    pub allocatable: Resources,
    /// `status.allocatable.pods`.
    pub max_pods: i64,
    /// How many Pods the range of addresses in `spec.podCIDRs` has room for, the smaller one where there are two; `None`:
    /// no range is assigned.
    pub pod_addresses: Option<i64>,
    /// `status.nodeInfo.bootID`: another one with each boot.
    pub boot_id: Option<Box<str>>,
    /// `spec.providerID`.
    pub provider_id: Option<Arc<str>>,
}

impl Node {
    /// The value of a label.
    #[must_use]
    pub fn label(&self, key: &str) -> Option<&str> {
        self.labels.get(key)
    }

    /// The value of the host name label: what pins compare with.
    #[must_use]
    pub fn hostname(&self) -> Option<&str> {
        self.label(names::HOSTNAME)
    }

    /// Ready, schedulable and not leaving.
    #[must_use]
    pub fn takes_pods(&self) -> bool {
        self.ready && !self.unschedulable && !self.deleting
    }
}
