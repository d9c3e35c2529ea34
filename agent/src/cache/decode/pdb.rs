//! A disruption budget on the wire.

use std::sync::Arc;

use super::DecodeError;
use super::meta::{IntOrString, Meta};
use super::terms::SelectorWire;
use super::text::{Text, nullable};
use crate::cache::Pdb;
use crate::cache::pdbs::Limit;

pub(super) const KIND: &str = "PodDisruptionBudget";

#[derive(Debug, Default, serde::Deserialize)]
#[serde(default)]
pub(super) struct Wire<'a> {
    #[serde(borrow)]
    pub(super) metadata: Meta<'a>,
    #[serde(borrow, deserialize_with = "nullable")]
    pub(super) spec: Spec<'a>,
    #[serde(deserialize_with = "nullable")]
    pub(super) status: Status,
}

#[derive(Debug, Default, serde::Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct Spec<'a> {
    pub(super) min_available: Option<IntOrString>,
    pub(super) max_unavailable: Option<IntOrString>,
    #[serde(borrow)]
    pub(super) selector: Option<SelectorWire<'a>>,
    #[serde(borrow)]
    pub(super) unhealthy_pod_eviction_policy: Text<'a>,
}

#[derive(Debug, Default, serde::Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct Status {
    #[serde(deserialize_with = "nullable")]
    pub(super) observed_generation: i64,
    pub(super) disruptions_allowed: i32,
    pub(super) current_healthy: i32,
    pub(super) desired_healthy: i32,
    pub(super) expected_pods: i32,
}

impl Wire<'_> {
    pub(super) fn into_pdb(self) -> Result<(Pdb, Option<Box<str>>), DecodeError> {
        let Self { metadata, spec, status } = self;
        let limit = match (spec.max_unavailable, spec.min_available) {
            (Some(most), _) => Limit::MaxUnavailable(most.0),
            (None, Some(least)) => Limit::MinAvailable(least.0),
            // With neither set the disruption controller expects no Pods, and so never allows an eviction.
            (None, None) => Limit::MaxUnavailable("0".into()),
        };
        let pdb = Pdb {
            namespace: Arc::from(metadata.required(KIND, "metadata.namespace", &metadata.namespace)?),
            name: Arc::from(metadata.required(KIND, "metadata.name", &metadata.name)?),
            uid: Arc::from(metadata.required(KIND, "metadata.uid", &metadata.uid)?),
            selector: spec.selector.map(|selector| selector.into_selector().map(Box::from)),
            limit,
            unhealthy_always: &*spec.unhealthy_pod_eviction_policy == "AlwaysAllow",
            allowed: status.disruptions_allowed,
            healthy: status.current_healthy,
            desired: status.desired_healthy,
            expected: status.expected_pods,
            current: status.observed_generation >= metadata.generation,
        };
        Ok((pdb, metadata.revision()))
    }
}
