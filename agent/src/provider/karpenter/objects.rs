//! NodePools and NodeClaims of `karpenter.sh/v1`, as much of them as is decided on.

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};
use rotate_shared::Amounts;
use serde::{Deserialize, Deserializer, de};

use super::requirements::Requirement;
use crate::cache::selector::{Taint, TaintEffect};

/// What a pool's nodes may be, and how many of them.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(from = "PoolWire")]
pub struct NodePool {
    /// `metadata.name`.
    pub name: Box<str>,
    /// `metadata.deletionTimestamp` is set.
    pub deleting: bool,
    /// `spec.weight`: pools of more weight are tried first. 0 where it says nothing.
    pub weight: i32,
    /// `spec.replicas`: the pool is static, and its nodes are so many, whatever Pods there are.
    pub replicas: Option<i64>,
    /// `spec.limits`, the number of nodes among them as `nodes`.
    pub limits: Amounts,
    /// `status.resources`: what its nodes add up to, without those that are being deleted.
    pub used: Amounts,
    /// The condition Ready.
    pub ready: Condition,
    /// `spec.template.spec.nodeClassRef`, as `group/kind/name`: nodes of one class boot alike.
    pub class: Box<str>,
    /// Labels that each of its nodes gets, those of the pool and its class among them.
    pub labels: BTreeMap<Box<str>, Box<str>>,
    /// `spec.template.spec.requirements`: what may be demanded of a node.
    pub requirements: Vec<Requirement>,
    /// `spec.template.spec.taints`. Startup taints are taken off before a node counts as initialized.
    pub taints: Vec<Taint>,
}

/// What stands behind a node.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(from = "ClaimWire")]
pub struct NodeClaim {
    /// `metadata.name`.
    pub name: Box<str>,
    /// `metadata.uid`.
    pub uid: Box<str>,
    /// `metadata.creationTimestamp`.
    pub created: Timestamp,
    /// `metadata.deletionTimestamp`.
    pub deleted: Option<Timestamp>,
    /// Its pool: the label `karpenter.sh/nodepool`.
    pub pool: Box<str>,
    /// `spec.nodeClassRef`, as `group/kind/name`.
    pub class: Box<str>,
    /// Its labels, which its node gets.
    pub labels: BTreeMap<Box<str>, Box<str>>,
    /// `spec.taints`.
    pub taints: Vec<Taint>,
    /// `status.nodeName`; empty until its node has registered.
    pub node: Box<str>,
    /// `status.providerID`; empty until it is launched.
    pub provider_id: Box<str>,
    /// `status.capacity`.
    pub capacity: Amounts,
    /// `status.allocatable`.
    pub allocatable: Amounts,
    /// `spec.expireAfter`; `None`: never.
    pub expire_after: Option<SignedDuration>,
    /// `spec.terminationGracePeriod`; `None`: a drain is waited for without end.
    pub termination_grace: Option<SignedDuration>,
    /// The condition Initialized is True.
    pub initialized: bool,
    /// The condition Drifted.
    pub drifted: Condition,
    /// The condition DisruptionReason: Karpenter has chosen it.
    pub disruption: Condition,
}

/// What a condition says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Condition {
    /// Whether it is True; `None`: Unknown, or not there.
    pub status: Option<bool>,
    /// Its reason.
    pub reason: Box<str>,
    /// Its message.
    pub message: Box<str>,
}

impl Condition {
    /// Whether it is True.
    #[must_use]
    pub fn is_true(&self) -> bool {
        self.status == Some(true)
    }
}

// === on the wire ===

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Meta {
    name: Box<str>,
    #[serde(default)]
    uid: Box<str>,
    creation_timestamp: Option<Timestamp>,
    deletion_timestamp: Option<Timestamp>,
    labels: Option<BTreeMap<Box<str>, Box<str>>>,
}

#[derive(Deserialize)]
struct PoolWire {
    metadata: Meta,
    spec: PoolSpec,
    #[serde(default)]
    status: Option<PoolStatus>,
}

#[derive(Deserialize)]
struct PoolSpec {
    template: Template,
    limits: Option<Amounts>,
    weight: Option<i32>,
    replicas: Option<i64>,
}

#[derive(Default, Deserialize)]
struct PoolStatus {
    resources: Option<Amounts>,
    conditions: Option<Vec<ConditionWire>>,
}

#[derive(Deserialize)]
struct Template {
    metadata: Option<TemplateMeta>,
    spec: TemplateSpec,
}

#[derive(Default, Deserialize)]
struct TemplateMeta {
    labels: Option<BTreeMap<Box<str>, Box<str>>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct TemplateSpec {
    requirements: Option<Vec<Requirement>>,
    taints: Option<Vec<TaintWire>>,
    node_class_ref: Option<ClassRef>,
}

#[derive(Deserialize)]
struct ClassRef {
    group: Box<str>,
    kind: Box<str>,
    name: Box<str>,
}

#[derive(Deserialize)]
struct TaintWire {
    key: Box<str>,
    #[serde(default)]
    value: Box<str>,
    effect: Box<str>,
}

#[derive(Deserialize)]
struct ConditionWire {
    #[serde(rename = "type")]
    kind: Box<str>,
    status: Box<str>,
    #[serde(default)]
    reason: Box<str>,
    #[serde(default)]
    message: Box<str>,
}

#[derive(Deserialize)]
struct ClaimWire {
    metadata: Meta,
    spec: ClaimSpec,
    #[serde(default)]
    status: Option<ClaimStatus>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ClaimSpec {
    taints: Option<Vec<TaintWire>>,
    node_class_ref: Option<ClassRef>,
    #[serde(default, deserialize_with = "duration")]
    expire_after: Option<SignedDuration>,
    #[serde(default, deserialize_with = "duration")]
    termination_grace_period: Option<SignedDuration>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct ClaimStatus {
    #[serde(default)]
    node_name: Box<str>,
    #[serde(default, rename = "providerID")]
    provider_id: Box<str>,
    capacity: Option<Amounts>,
    allocatable: Option<Amounts>,
    conditions: Option<Vec<ConditionWire>>,
}

/// As Go writes durations: `720h`, `1h30m0s`; `Never` is none.
fn duration<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<SignedDuration>, D::Error> {
    match Option::<Box<str>>::deserialize(deserializer)?.as_deref() {
        None | Some("" | "Never") => Ok(None),
        Some(text) => text.parse().map(Some).map_err(de::Error::custom),
    }
}

fn taints(taints: Option<Vec<TaintWire>>) -> Vec<Taint> {
    let taint = |TaintWire { key, value, effect }| {
        let effect = match &*effect {
            "NoSchedule" => TaintEffect::NoSchedule,
            "PreferNoSchedule" => TaintEffect::PreferNoSchedule,
            "NoExecute" => TaintEffect::NoExecute,
            // One that nobody acts on.
            _ => return None,
        };
        Some(Taint { key, value, effect })
    };
    taints.into_iter().flatten().filter_map(taint).collect()
}

fn class(of: Option<&ClassRef>) -> Box<str> {
    of.map_or_else(Box::default, |ClassRef { group, kind, name }| format!("{group}/{kind}/{name}").into())
}

fn condition(conditions: &[ConditionWire], kind: &str) -> Condition {
    let found = conditions.iter().find(|condition| &*condition.kind == kind);
    found.map_or_else(Condition::default, |condition| Condition {
        status: match &*condition.status {
            "True" => Some(true),
            "False" => Some(false),
            _ => None,
        },
        reason: condition.reason.clone(),
        message: condition.message.clone(),
    })
}

impl From<PoolWire> for NodePool {
    fn from(PoolWire { metadata, spec, status }: PoolWire) -> Self {
        let status = status.unwrap_or_default();
        let template = spec.template.spec;
        let mut labels = spec.template.metadata.and_then(|meta| meta.labels).unwrap_or_default();
        labels.insert(super::POOL.into(), metadata.name.clone());
        if let Some(ClassRef { group, kind, name }) = &template.node_class_ref {
            labels.insert(format!("{group}/{}", kind.to_lowercase()).into(), name.clone());
        }
        Self {
            name: metadata.name,
            deleting: metadata.deletion_timestamp.is_some(),
            weight: spec.weight.unwrap_or(0),
            replicas: spec.replicas,
            limits: spec.limits.unwrap_or_default(),
            used: status.resources.unwrap_or_default(),
            ready: condition(&status.conditions.unwrap_or_default(), "Ready"),
            class: class(template.node_class_ref.as_ref()),
            labels,
            requirements: template.requirements.into_iter().flatten().map(Requirement::normalized).collect(),
            taints: taints(template.taints),
        }
    }
}

impl From<ClaimWire> for NodeClaim {
    fn from(ClaimWire { metadata, spec, status }: ClaimWire) -> Self {
        let status = status.unwrap_or_default();
        let conditions = status.conditions.unwrap_or_default();
        let labels = metadata.labels.unwrap_or_default();
        Self {
            name: metadata.name,
            uid: metadata.uid,
            created: metadata.creation_timestamp.unwrap_or(Timestamp::UNIX_EPOCH),
            deleted: metadata.deletion_timestamp,
            pool: labels.get(super::POOL).cloned().unwrap_or_default(),
            class: class(spec.node_class_ref.as_ref()),
            labels,
            taints: taints(spec.taints),
            node: status.node_name,
            provider_id: status.provider_id,
            capacity: status.capacity.unwrap_or_default(),
            allocatable: status.allocatable.unwrap_or_default(),
            expire_after: spec.expire_after,
            termination_grace: spec.termination_grace_period,
            initialized: condition(&conditions, "Initialized").is_true(),
            drifted: condition(&conditions, "Drifted"),
            disruption: condition(&conditions, "DisruptionReason"),
        }
    }
}

#[cfg(test)]
mod tests;
