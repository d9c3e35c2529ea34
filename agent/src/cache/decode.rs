//! Trimmed decode of API objects: only the fields that are kept are read, everything else is skipped.

use super::{Node, Pdb, Pod};

/// Why an object cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum DecodeError {
    /// Not JSON, or not of the expected form.
    #[error("read {kind}: {source}")]
    Malformed {
        /// Which kind was expected.
        kind: &'static str,
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

/// Reads a Pod.
///
/// # Errors
///
/// Not JSON, or no name, namespace or UID.
pub fn pod(_json: &str) -> Result<Pod, DecodeError> {
    unimplemented!()
}

/// Reads a node.
///
/// # Errors
///
/// Not JSON, or no name or UID.
pub fn node(_json: &str) -> Result<Node, DecodeError> {
    unimplemented!()
}

/// Reads a disruption budget.
///
/// # Errors
///
/// Not JSON, or no name, namespace or UID.
pub fn pdb(_json: &str) -> Result<Pdb, DecodeError> {
    unimplemented!()
}
