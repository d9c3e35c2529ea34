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

mod identity;
mod meta;
mod node;
mod pdb;
mod pod;
mod storage;
mod terms;
mod text;
mod workload;

#[cfg(test)]
mod tests;

use std::mem::take;

use serde::Deserialize;

pub use identity::Identity;
pub use storage::{ClaimObject, VolumeObject};
pub use workload::Workload;

pub(super) use text::nullable;

use identity::Glance;
use protobuf::ProtobufError;

use super::pod::PodView;
use super::volumes::AttachLimits;
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
    /// Not protobuf, or not of the expected form.
    #[error("read {kind} {object}: {source}")]
    Protobuf {
        /// Which kind was expected.
        kind: &'static str,
        /// `namespace/name` as far as known.
        object: String,
        /// Why.
        #[source]
        source: ProtobufError,
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

/// A bookmark of a watch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bookmark {
    /// Up to where nothing else has changed.
    pub revision: Box<str>,
    /// The initial state of a streaming list is complete.
    pub initial_end: bool,
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
        read(node::KIND, object, protobuf::node, |wire| take(wire).into_node())
    }
}

impl Decode for Pdb {
    fn decode(object: Encoded<'_>) -> Result<(Self, Option<Box<str>>), DecodeError> {
        read(pdb::KIND, object, protobuf::pdb, |wire| take(wire).into_pdb())
    }
}

/// Reads a Pod.
///
/// # Errors
///
/// Not of the expected form, no name, namespace or UID, or an amount that is no quantity or negative.
pub fn pod<'a>(object: impl Into<Encoded<'a>>) -> Result<PodView<'a>, DecodeError> {
    read(pod::KIND, object.into(), protobuf::pod, pod::Wire::take_view)
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

/// Reads a list of CSINodes: by node how many volumes of each driver it takes.
///
/// # Errors
///
/// Not JSON, or one has no name.
pub fn attach_limits(json: &str) -> Result<Vec<(Box<str>, AttachLimits)>, DecodeError> {
    wire::<storage::CsiNodesWire<'_>>("CSINode", json)?.into_limits()
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
    glance(object.into()).map(|glance| glance.identity)
}

/// Reads the object of a bookmark; `None` where it has no resourceVersion.
///
/// # Errors
///
/// Not of the form of an object.
pub fn bookmark<'a>(object: impl Into<Encoded<'a>>) -> Result<Option<Bookmark>, DecodeError> {
    let Glance { identity, initial_end, .. } = glance(object.into())?;
    Ok(identity.revision.map(|revision| Bookmark { revision, initial_end }))
}

/// What identifies an object that is cut off or malformed, and the node that it is bound to if it is a Pod: as far as that
/// can be told.
#[must_use]
pub fn fragment<'a>(object: impl Into<Encoded<'a>>) -> (Identity, Option<Box<str>>) {
    let Glance { identity, node, .. } = match object.into() {
        Encoded::Json(json) => identity::of_json(json).0,
        Encoded::Protobuf(message) => protobuf::glance(message).0,
    };
    (identity, node)
}

fn glance(object: Encoded<'_>) -> Result<Glance, DecodeError> {
    const KIND: &str = "object";
    match object {
        Encoded::Json(json) => {
            let (glance, read) = identity::of_json(json);
            match read {
                Ok(()) => Ok(glance),
                Err(source) => Err(DecodeError::Malformed { kind: KIND, object: glance.identity.path(), source }),
            }
        }
        Encoded::Protobuf(message) => {
            let (glance, read) = protobuf::glance(message);
            match read {
                Ok(()) => Ok(glance),
                Err(source) => Err(DecodeError::Protobuf { kind: KIND, object: glance.identity.path(), source }),
            }
        }
    }
}

/// Why, without where: a position in one object's JSON misleads whoever looks for it in a file.
fn reason(error: &serde_json::Error) -> String {
    let text = error.to_string();
    let position = format!(" at line {} column {}", error.line(), error.column());
    text.strip_suffix(&position).unwrap_or(&text).to_owned()
}

/// Parses either encoding and says what it means; names the object where that fails.
fn read<'a, W: Deserialize<'a> + Default, T>(
    kind: &'static str,
    object: Encoded<'a>,
    from_protobuf: impl FnOnce(&'a [u8], &mut W) -> Result<(), ProtobufError>,
    meaning: impl FnOnce(&mut W) -> Result<T, DecodeError>,
) -> Result<T, DecodeError> {
    match object {
        Encoded::Json(json) => meaning(&mut wire(kind, json)?),
        Encoded::Protobuf(message) => {
            let mut wire = W::default();
            if let Err(source) = from_protobuf(message, &mut wire) {
                let object = protobuf::glance(message).0.identity.path();
                return Err(DecodeError::Protobuf { kind, object, source });
            }
            meaning(&mut wire)
        }
    }
}

/// Parses JSON, and names the object where that fails.
fn wire<'a, T: Deserialize<'a>>(kind: &'static str, json: &'a str) -> Result<T, DecodeError> {
    serde_json::from_str(json).map_err(|source| {
        let object = identity::of_json(json).0.identity.path();
        DecodeError::Malformed { kind, object, source }
    })
}
