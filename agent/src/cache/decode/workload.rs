//! Controllers of Pods on the wire.

use super::meta::{Condition, Meta};
use super::text::{items, nullable};
use crate::cache::Owner;

/// What a controller wants and has.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Workload {
    /// The controller's own controller (a `ReplicaSet`'s `Deployment`).
    pub owner: Option<Owner>,
    /// How many Pods it wants now; `None` where the object does not say.
    pub desired: Option<u32>,
    /// How many of its Pods are ready.
    pub ready: u32,
}

#[derive(Debug, Default, serde::Deserialize)]
#[serde(default)]
pub(super) struct Wire<'a> {
    #[serde(borrow)]
    metadata: Meta<'a>,
    #[serde(deserialize_with = "nullable")]
    spec: Spec,
    #[serde(borrow, deserialize_with = "nullable")]
    status: Status<'a>,
}

#[derive(Debug, Default, serde::Deserialize)]
#[serde(default)]
struct Spec {
    replicas: Option<u32>,
    parallelism: Option<u32>,
    completions: Option<u32>,
    suspend: Option<bool>,
}

#[derive(Debug, Default, serde::Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Status<'a> {
    ready_replicas: Option<u32>,
    number_ready: Option<u32>,
    desired_number_scheduled: Option<u32>,
    ready: Option<u32>,
    succeeded: Option<u32>,
    #[serde(borrow, deserialize_with = "items")]
    conditions: Vec<Condition<'a>>,
}

impl Wire<'_> {
    pub(super) fn into_workload(self) -> Workload {
        let Self { metadata, spec, status } = self;
        let ended = status
            .conditions
            .iter()
            .any(|condition| condition.is("Complete", "True") || condition.is("Failed", "True"));
        let job = spec.parallelism.map(|parallelism| match spec.completions {
            _ if ended || spec.suspend == Some(true) => 0,
            Some(completions) => parallelism.min(completions.saturating_sub(status.succeeded.unwrap_or(0))),
            // A work queue: as soon as one has succeeded, no new ones are started.
            None if status.succeeded.unwrap_or(0) > 0 => 0,
            None => parallelism,
        });
        Workload {
            owner: metadata.owner_references.to_owner(),
            desired: spec.replicas.or(job).or(status.desired_number_scheduled),
            ready: status.ready_replicas.or(status.number_ready).or(status.ready).unwrap_or(0),
        }
    }
}
