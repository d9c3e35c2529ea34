//! A node on the wire.

use std::sync::Arc;

use jiff::Timestamp;

use super::DecodeError;
use super::meta::{Condition, Meta};
use super::pod::taint_effect;
use super::text::{Amounts, Text, items, nullable};
use crate::cache::selector::Taint;
use crate::cache::{Node, Resources};

pub(super) const KIND: &str = "Node";

#[derive(Debug, Default, serde::Deserialize)]
#[serde(default)]
pub(super) struct Wire<'a> {
    #[serde(borrow)]
    pub(super) metadata: Meta<'a>,
    #[serde(borrow, deserialize_with = "nullable")]
    pub(super) spec: Spec<'a>,
    #[serde(borrow, deserialize_with = "nullable")]
    pub(super) status: Status<'a>,
}

#[derive(Debug, Default, serde::Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct Spec<'a> {
    #[serde(deserialize_with = "nullable")]
    pub(super) unschedulable: bool,
    #[serde(borrow, rename = "providerID")]
    pub(super) provider_id: Text<'a>,
    #[serde(borrow, deserialize_with = "items")]
    pub(super) taints: Vec<TaintWire<'a>>,
    #[serde(borrow, rename = "podCIDRs", deserialize_with = "items")]
    pub(super) pod_cidrs: Vec<Text<'a>>,
}

#[derive(Debug, Default, serde::Deserialize)]
#[serde(default)]
pub(super) struct TaintWire<'a> {
    #[serde(borrow)]
    pub(super) key: Text<'a>,
    #[serde(borrow)]
    pub(super) value: Text<'a>,
    #[serde(borrow)]
    pub(super) effect: Text<'a>,
}

#[derive(Debug, Default, serde::Deserialize)]
#[serde(default)]
pub(super) struct Status<'a> {
    #[serde(borrow)]
    pub(super) allocatable: Amounts<'a>,
    #[serde(borrow, deserialize_with = "items")]
    pub(super) conditions: Vec<Condition<'a>>,
    #[serde(borrow, rename = "nodeInfo", deserialize_with = "nullable")]
    pub(super) node_info: NodeInfo<'a>,
}

#[derive(Debug, Default, serde::Deserialize)]
#[serde(default)]
pub(super) struct NodeInfo<'a> {
    #[serde(borrow, rename = "bootID")]
    pub(super) boot_id: Text<'a>,
}

impl Wire<'_> {
    pub(super) fn into_node(self) -> Result<(Node, Option<Box<str>>), DecodeError> {
        let Self { metadata, spec, status } = self;
        let name = Arc::from(metadata.required(KIND, "metadata.name", &metadata.name)?);
        let uid = Arc::from(metadata.required(KIND, "metadata.uid", &metadata.uid)?);
        let revision = metadata.revision();
        let taint = |taint: TaintWire<'_>| {
            // An effect that we do not know is none that the scheduler acts on.
            let effect = taint_effect(&taint.effect)?;
            Some(Taint { key: taint.key.boxed(), value: taint.value.boxed(), effect })
        };
        let allocatable = status.allocatable.0;
        let node = Node {
            name,
            uid,
            created: metadata.creation_timestamp.unwrap_or(Timestamp::UNIX_EPOCH),
            deleting: metadata.deletion_timestamp.is_some(),
            labels: Arc::new(metadata.labels.sorted().into_iter().collect()),
            annotations: metadata.annotations.iter().map(|(key, value)| (key.into(), value.into())).collect(),
            taints: spec.taints.into_iter().filter_map(taint).collect(),
            unschedulable: spec.unschedulable,
            ready: status.conditions.iter().any(|condition| condition.is("Ready", "True")),
            max_pods: allocatable.get("pods").map_or(0, |pods| pods.value()),
            pod_addresses: spec.pod_cidrs.iter().filter_map(|range| pod_addresses(range)).min(),
            allocatable: Resources::from(&allocatable),
            boot_id: status.node_info.boot_id.present().map(Box::from),
            provider_id: spec.provider_id.present().map(Arc::from),
        };
        Ok((node, revision))
    }
}

/// How many Pods a range of addresses has room for: its network, gateway and broadcast addresses are no Pod's.
fn pod_addresses(range: &str) -> Option<i64> {
    let (address, prefix) = range.split_once('/')?;
    let bits = if address.contains(':') { 128_u32 } else { 32 };
    let free = bits.checked_sub(prefix.parse().ok()?)?;
    Some(1_i64.checked_shl(free).filter(|_| free < 63).map_or(i64::MAX, |addresses| (addresses - 3).max(0)))
}
