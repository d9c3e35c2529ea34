//! A node on the wire.

use std::sync::Arc;

use jiff::Timestamp;

use super::DecodeError;
use super::common::{AmountsWire, Condition, Meta, Text, nullable};
use super::pod::taint_effect;
use crate::cache::selector::Taint;
use crate::cache::{Node, Resources};

const KIND: &str = "Node";

#[derive(Debug, Default, serde::Deserialize)]
#[serde(default)]
pub(super) struct Wire<'a> {
    #[serde(borrow)]
    metadata: Meta<'a>,
    #[serde(borrow, deserialize_with = "nullable")]
    spec: Spec<'a>,
    #[serde(borrow, deserialize_with = "nullable")]
    status: Status<'a>,
}

#[derive(Debug, Default, serde::Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Spec<'a> {
    unschedulable: Option<bool>,
    #[serde(borrow, rename = "providerID")]
    provider_id: Option<Text<'a>>,
    #[serde(borrow, deserialize_with = "nullable")]
    taints: Vec<TaintWire<'a>>,
}

#[derive(Debug, Default, serde::Deserialize)]
#[serde(default)]
struct TaintWire<'a> {
    #[serde(borrow)]
    key: Text<'a>,
    #[serde(borrow)]
    value: Option<Text<'a>>,
    #[serde(borrow)]
    effect: Text<'a>,
}

#[derive(Debug, Default, serde::Deserialize)]
#[serde(default)]
struct Status<'a> {
    allocatable: AmountsWire,
    #[serde(borrow, deserialize_with = "nullable")]
    conditions: Vec<Condition<'a>>,
}

impl Wire<'_> {
    pub(super) fn revision(&self) -> Option<Box<str>> {
        self.metadata.revision()
    }

    pub(super) fn into_node(self) -> Result<Node, DecodeError> {
        let Self { metadata, spec, status } = self;
        let name = metadata.required(KIND, "metadata.name", metadata.name.as_ref())?;
        let uid = metadata.required(KIND, "metadata.uid", metadata.uid.as_ref())?;
        let taint = |taint: TaintWire<'_>| {
            // An effect that we do not know is none that the scheduler acts on.
            let effect = taint_effect(&taint.effect.0)?;
            Some(Taint { key: taint.key.boxed(), value: taint.value.unwrap_or_default().boxed(), effect })
        };
        let allocatable = status.allocatable.0;
        Ok(Node {
            name,
            uid,
            created: metadata.creation_timestamp.unwrap_or(Timestamp::UNIX_EPOCH),
            deleting: metadata.deletion_timestamp.is_some(),
            labels: Arc::new(metadata.labels.into_iter().collect()),
            annotations: metadata.annotations,
            taints: spec.taints.into_iter().filter_map(taint).collect(),
            unschedulable: spec.unschedulable == Some(true),
            ready: status.conditions.iter().any(|condition| condition.is("Ready", "True")),
            max_pods: allocatable.get("pods").map_or(0, |pods| pods.value()),
            allocatable: Resources::from(&allocatable),
            provider_id: spec.provider_id.filter(|id| !id.0.is_empty()).map(|id| id.shared()),
        })
    }
}
