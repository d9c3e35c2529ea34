//! Claims and volumes on the wire.

use super::DecodeError;
use super::meta::Meta;
use super::terms::NodeSelectorWire;
use super::text::{Present, Text, items, nullable};
use crate::cache::selector::NodeTerm;
use crate::cache::volumes::AttachLimits;

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
    /// `spec.csi.driver`.
    pub driver: Option<Box<str>>,
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
    volume_name: Text<'a>,
}

#[derive(Debug, Default, serde::Deserialize)]
#[serde(default)]
pub(super) struct VolumeWire<'a> {
    #[serde(borrow)]
    metadata: Meta<'a>,
    #[serde(borrow, deserialize_with = "nullable")]
    spec: VolumeSpec<'a>,
}

#[derive(Debug, Default, serde::Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct VolumeSpec<'a> {
    #[serde(borrow)]
    node_affinity: Option<VolumeAffinity<'a>>,
    local: Option<Present>,
    host_path: Option<Present>,
    #[serde(borrow)]
    csi: Option<CsiWire<'a>>,
}

#[derive(Debug, Default, serde::Deserialize)]
#[serde(default)]
struct CsiWire<'a> {
    #[serde(borrow)]
    driver: Text<'a>,
}

/// A list of CSINodes, as far as it limits how many volumes may be attached.
#[derive(Debug, Default, serde::Deserialize)]
#[serde(default)]
pub(super) struct CsiNodesWire<'a> {
    #[serde(borrow, deserialize_with = "items")]
    items: Vec<CsiNodeWire<'a>>,
}

#[derive(Debug, Default, serde::Deserialize)]
#[serde(default)]
struct CsiNodeWire<'a> {
    #[serde(borrow)]
    metadata: Meta<'a>,
    #[serde(borrow, deserialize_with = "nullable")]
    spec: CsiNodeSpec<'a>,
}

#[derive(Debug, Default, serde::Deserialize)]
#[serde(default)]
struct CsiNodeSpec<'a> {
    #[serde(borrow, deserialize_with = "items")]
    drivers: Vec<CsiDriverWire<'a>>,
}

#[derive(Debug, Default, serde::Deserialize)]
#[serde(default)]
struct CsiDriverWire<'a> {
    #[serde(borrow)]
    name: Text<'a>,
    #[serde(deserialize_with = "nullable")]
    allocatable: Allocatable,
}

#[derive(Debug, Default, serde::Deserialize)]
#[serde(default)]
struct Allocatable {
    count: Option<i64>,
}

#[derive(Debug, Default, serde::Deserialize)]
#[serde(default)]
struct VolumeAffinity<'a> {
    #[serde(borrow)]
    required: Option<NodeSelectorWire<'a>>,
}

impl ClaimWire<'_> {
    pub(super) fn into_claim(self) -> Result<ClaimObject, DecodeError> {
        const KIND: &str = "PersistentVolumeClaim";
        let meta = &self.metadata;
        Ok(ClaimObject {
            namespace: Box::from(meta.required(KIND, "metadata.namespace", &meta.namespace)?),
            name: Box::from(meta.required(KIND, "metadata.name", &meta.name)?),
            volume: self.spec.volume_name.present().map(Box::from),
        })
    }
}

impl VolumeWire<'_> {
    pub(super) fn into_volume(self) -> Result<VolumeObject, DecodeError> {
        let meta = &self.metadata;
        let name = meta.required("PersistentVolume", "metadata.name", &meta.name)?;
        let terms = self.spec.node_affinity.and_then(|affinity| affinity.required).map(NodeSelectorWire::into_terms);
        Ok(VolumeObject {
            name: Box::from(name),
            terms: terms.map(|terms| terms.iter().map(|term| term.map(Box::from)).collect()),
            local: self.spec.local.is_some() || self.spec.host_path.is_some(),
            driver: self.spec.csi.and_then(|csi| csi.driver.present().map(Box::from)),
        })
    }
}

impl CsiNodesWire<'_> {
    /// The limits of each node that has some.
    pub(super) fn into_limits(self) -> Result<Vec<(Box<str>, AttachLimits)>, DecodeError> {
        let limits = |node: CsiNodeWire<'_>| {
            let name = Box::from(node.metadata.required("CSINode", "metadata.name", &node.metadata.name)?);
            let limit = |driver: CsiDriverWire<'_>| Some((driver.name.boxed(), driver.allocatable.count?));
            Ok((name, node.spec.drivers.into_iter().filter_map(limit).collect::<AttachLimits>()))
        };
        self.items.into_iter().map(limits).collect()
    }
}
