//! Claims and volumes on the wire.

use super::DecodeError;
use super::common::{Meta, NodeSelectorWire, Text, nullable};
use crate::cache::selector::NodeTerm;

/// A PersistentVolumeClaim, as far as it decides where its Pod may go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClaimObject {
    /// `metadata.namespace`.
    pub namespace: Box<str>,
    /// `metadata.name`.
    pub name: Box<str>,
    /// `spec.volumeName`, once bound.
    pub volume: Option<Box<str>>,
}

/// A PersistentVolume, as far as it decides where its Pod may go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VolumeObject {
    /// `metadata.name`.
    pub name: Box<str>,
    /// `spec.nodeAffinity.required`; `None`: any node.
    pub terms: Option<Vec<NodeTerm>>,
    /// `spec.local` or `spec.hostPath`: the data lives on one machine.
    pub local: bool,
}

#[derive(Debug, Default, serde::Deserialize)]
#[serde(default)]
pub(super) struct ClaimWire<'a> {
    #[serde(borrow)]
    metadata: Meta<'a>,
    #[serde(borrow, deserialize_with = "nullable")]
    spec: ClaimSpec<'a>,
}

#[derive(Debug, Default, serde::Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct ClaimSpec<'a> {
    #[serde(borrow)]
    volume_name: Option<Text<'a>>,
}

#[derive(Debug, Default, serde::Deserialize)]
#[serde(default)]
pub(super) struct VolumeWire<'a> {
    #[serde(borrow)]
    metadata: Meta<'a>,
    #[serde(deserialize_with = "nullable")]
    spec: VolumeSpec,
}

#[derive(Debug, Default, serde::Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct VolumeSpec {
    node_affinity: Option<VolumeAffinity>,
    local: Option<Source>,
    host_path: Option<Source>,
}

#[derive(Debug, Default, serde::Deserialize)]
#[serde(default)]
struct VolumeAffinity {
    required: Option<NodeSelectorWire>,
}

/// Only its presence matters.
#[derive(Debug, Default, serde::Deserialize)]
struct Source {}

impl ClaimWire<'_> {
    pub(super) fn into_claim(self) -> Result<ClaimObject, DecodeError> {
        const KIND: &str = "PersistentVolumeClaim";
        let meta = &self.metadata;
        Ok(ClaimObject {
            namespace: (&*meta.required(KIND, "metadata.namespace", meta.namespace.as_ref())?).into(),
            name: (&*meta.required(KIND, "metadata.name", meta.name.as_ref())?).into(),
            volume: self.spec.volume_name.filter(|name| !name.0.is_empty()).map(Text::boxed),
        })
    }
}

impl VolumeWire<'_> {
    pub(super) fn into_volume(self) -> Result<VolumeObject, DecodeError> {
        let meta = &self.metadata;
        let name = meta.required("PersistentVolume", "metadata.name", meta.name.as_ref())?;
        Ok(VolumeObject {
            name: (&*name).into(),
            terms: self.spec.node_affinity.and_then(|affinity| affinity.required).map(NodeSelectorWire::into_terms),
            local: self.spec.local.is_some() || self.spec.host_path.is_some(),
        })
    }
}
