//! Trimmed decode of API objects: only the fields that are kept are read, everything else is skipped.
//!
//! ```text
//! text ──borrowed serde──▶ wire struct (private, one per kind) ──▶ PodView (borrowed, trimmed)
//!                                                              └─▶ Node | Pdb | Claim … (owned, trimmed)
//! ```
//!
//! Missing optional fields and nulls read as their defaults. What would make a sum wrong in silence (a quantity that is
//! none, or a negative one) refuses the whole object and names it.

pub mod protobuf;

mod common;
mod node;
mod pdb;
mod pod;
mod storage;
mod workload;

#[cfg(test)]
mod tests;

use serde::Deserialize;

pub use common::Identity;
pub(super) use common::nullable;
pub use storage::{ClaimObject, VolumeObject};
pub use workload::Workload;

use super::pod::PodView;
use super::{Node, Pdb, Pod};

/// One object as it comes over the wire.
#[derive(Clone, Copy, Debug)]
pub enum Encoded<'a> {
    /// Its JSON text.
    Json(&'a str),
    /// Its protobuf message, without an envelope.
    Protobuf(&'a [u8]),
}

impl<'a> From<&'a str> for Encoded<'a> {
    fn from(text: &'a str) -> Self {
        Self::Json(text)
    }
}

impl<'a> From<&'a String> for Encoded<'a> {
    fn from(text: &'a String) -> Self {
        Self::Json(text)
    }
}

/// Why an object cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum DecodeError {
    /// Not JSON, or not of the expected form.
    #[error("read {kind} {object}: {}", reason(source))]
    Malformed {
        /// Which kind was expected.
        kind: &'static str,
        /// `namespace/name` as far as known.
        object: String,
        /// Where and why.
        #[source]
        source: serde_json::Error,
    },
    /// A field that every stored object has is missing.
    #[error("read {kind} {object}: {field} is missing")]
    Missing {
        /// Which kind.
        kind: &'static str,
        /// `namespace/name` as far as known.
        object: String,
        /// Which field.
        field: &'static str,
    },
}

/// A kind that is watched: read together with its resourceVersion.
pub(super) trait Decode: Sized {
    fn decode(object: Encoded<'_>) -> Result<(Self, Option<Box<str>>), DecodeError>;
}

impl Decode for Pod {
    fn decode(object: Encoded<'_>) -> Result<(Self, Option<Box<str>>), DecodeError> {
        let view = pod(object)?;
        Ok((view.to_pod(), view.revision.as_deref().map(Box::from)))
    }
}

impl Decode for Node {
    fn decode(object: Encoded<'_>) -> Result<(Self, Option<Box<str>>), DecodeError> {
        match object {
            Encoded::Json(json) => {
                let wire = wire::<node::Wire<'_>>("Node", json)?;
                let revision = wire.revision();
                Ok((wire.into_node()?, revision))
            }
            Encoded::Protobuf(_) => Err(not_yet("Node")),
        }
    }
}

impl Decode for Pdb {
    fn decode(object: Encoded<'_>) -> Result<(Self, Option<Box<str>>), DecodeError> {
        match object {
            Encoded::Json(json) => {
                let wire = wire::<pdb::Wire<'_>>("PodDisruptionBudget", json)?;
                let revision = wire.revision();
                Ok((wire.into_pdb()?, revision))
            }
            Encoded::Protobuf(_) => Err(not_yet("PodDisruptionBudget")),
        }
    }
}

fn not_yet(kind: &'static str) -> DecodeError {
    let source = <serde_json::Error as serde::de::Error>::custom("protobuf is not read");
    DecodeError::Malformed { kind, object: "of unknown name".to_owned(), source }
}

/// Reads a Pod.
///
/// # Errors
///
/// Not of the expected form, no name, namespace or UID, or an amount that is no quantity or negative.
pub fn pod<'a>(object: impl Into<Encoded<'a>>) -> Result<PodView<'a>, DecodeError> {
    match object.into() {
        Encoded::Json(json) => wire::<pod::Wire<'_>>("Pod", json)?.into_view(),
        Encoded::Protobuf(_) => Err(not_yet("Pod")),
    }
}

/// Reads a node.
///
/// # Errors
///
/// Not of the expected form, no name or UID, or an amount that is no quantity or negative.
pub fn node<'a>(object: impl Into<Encoded<'a>>) -> Result<Node, DecodeError> {
    Node::decode(object.into()).map(|(node, _)| node)
}

/// Reads a disruption budget.
///
/// # Errors
///
/// Not of the expected form, or no name, namespace or UID.
pub fn pdb<'a>(object: impl Into<Encoded<'a>>) -> Result<Pdb, DecodeError> {
    Pdb::decode(object.into()).map(|(pdb, _)| pdb)
}

/// Reads a PersistentVolumeClaim.
///
/// # Errors
///
/// Not JSON, or no name or namespace.
pub fn claim(json: &str) -> Result<ClaimObject, DecodeError> {
    wire::<storage::ClaimWire<'_>>("PersistentVolumeClaim", json)?.into_claim()
}

/// Reads a PersistentVolume.
///
/// # Errors
///
/// Not JSON, or no name.
pub fn volume(json: &str) -> Result<VolumeObject, DecodeError> {
    wire::<storage::VolumeWire<'_>>("PersistentVolume", json)?.into_volume()
}

/// Reads what any controller of Pods says about its replicas: Deployment, ReplicaSet, StatefulSet, DaemonSet, Job, and
/// whatever else has `spec.replicas` and `status.readyReplicas`.
///
/// # Errors
///
/// Not JSON.
pub fn workload(json: &str) -> Result<Workload, DecodeError> {
    Ok(wire::<workload::Wire<'_>>("workload", json)?.into_workload())
}

/// Reads only what identifies an object of any kind. Works for objects that cannot be read as a whole.
///
/// # Errors
///
/// Not of the form of an object.
pub fn identity<'a>(object: impl Into<Encoded<'a>>) -> Result<Identity, DecodeError> {
    match object.into() {
        Encoded::Json(json) => {
            wire::<common::IdentityWire<'_>>("object", json).map(common::IdentityWire::into_identity)
        }
        Encoded::Protobuf(_) => Err(not_yet("object")),
    }
}

/// The node that a Pod is bound to, even if nothing else of it can be read.
#[must_use]
pub fn bound_to<'a>(object: impl Into<Encoded<'a>>) -> Option<Box<str>> {
    match object.into() {
        Encoded::Json(json) => serde_json::from_str::<common::BoundWire<'_>>(json).ok()?.into_node(),
        Encoded::Protobuf(_) => None,
    }
}

/// Why, without where: a position in one object's JSON misleads whoever looks for it in a file.
fn reason(error: &serde_json::Error) -> String {
    let text = error.to_string();
    let position = format!(" at line {} column {}", error.line(), error.column());
    text.strip_suffix(&position).unwrap_or(&text).to_owned()
}

/// Parses, and names the object where that fails.
fn wire<'a, T: Deserialize<'a>>(kind: &'static str, json: &'a str) -> Result<T, DecodeError> {
    serde_json::from_str(json).map_err(|source| {
        let object = serde_json::from_str::<common::IdentityWire<'_>>(json)
            .map_or_else(|_| "of unknown name".to_owned(), |object| object.into_identity().path());
        DecodeError::Malformed { kind, object, source }
    })
}
