//! A disruption budget on the wire.

use super::DecodeError;
use super::common::{IntOrString, Meta, SelectorWire, Text, nullable};
use crate::cache::Pdb;
use crate::cache::pdbs::Limit;

const KIND: &str = "PodDisruptionBudget";

#[derive(Debug, Default, serde::Deserialize)]
#[serde(default)]
pub(super) struct Wire<'a> {
    #[serde(borrow)]
    metadata: Meta<'a>,
    #[serde(borrow, deserialize_with = "nullable")]
    spec: Spec<'a>,
    #[serde(deserialize_with = "nullable")]
    status: Status,
}

#[derive(Debug, Default, serde::Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Spec<'a> {
    min_available: Option<IntOrString>,
    max_unavailable: Option<IntOrString>,
    selector: Option<SelectorWire>,
    #[serde(borrow)]
    unhealthy_pod_eviction_policy: Option<Text<'a>>,
}

#[derive(Debug, Default, serde::Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Status {
    observed_generation: Option<i64>,
    disruptions_allowed: i32,
    current_healthy: i32,
    desired_healthy: i32,
    expected_pods: i32,
}

impl Wire<'_> {
    pub(super) fn revision(&self) -> Option<Box<str>> {
        self.metadata.revision()
    }

    pub(super) fn into_pdb(self) -> Result<Pdb, DecodeError> {
        let Self { metadata, spec, status } = self;
        let limit = match (spec.max_unavailable, spec.min_available) {
            (Some(most), _) => Limit::MaxUnavailable(most.0),
            (None, Some(least)) => Limit::MinAvailable(least.0),
            // With neither set the disruption controller expects no Pods, and so never allows an eviction.
            (None, None) => Limit::MaxUnavailable("0".into()),
        };
        Ok(Pdb {
            namespace: metadata.required(KIND, "metadata.namespace", metadata.namespace.as_ref())?,
            name: metadata.required(KIND, "metadata.name", metadata.name.as_ref())?,
            uid: metadata.required(KIND, "metadata.uid", metadata.uid.as_ref())?,
            selector: spec.selector.map(SelectorWire::into_selector),
            limit,
            unhealthy_always: spec.unhealthy_pod_eviction_policy.is_some_and(|policy| policy.0 == "AlwaysAllow"),
            allowed: status.disruptions_allowed,
            healthy: status.current_healthy,
            desired: status.desired_healthy,
            expected: status.expected_pods,
            current: metadata.generation.is_none_or(|generation| status.observed_generation >= Some(generation)),
        })
    }
}
