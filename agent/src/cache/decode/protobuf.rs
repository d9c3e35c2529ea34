//! Protobuf: a reader of our own for the few fields that are kept (`docs/decisions/012-a-protobuf-reader-of-our-own.md`).
//!
//! ```text
//! frame ── WatchEvent ── RawExtension ── `k8s\0` Unknown ── message ──▶ the same wire structs that JSON fills
//! ```
//!
//! Field numbers are those of the published `generated.proto` files of Kubernetes 1.36; a number is never given to another
//! field, so that older and newer servers are read alike. Of a field that occurs twice the last counts, messages are
//! merged, and entries of a map or a list add up, as every protobuf reader does it.

mod envelope;
mod fields;
mod meta;
mod node;
mod pod;

#[cfg(test)]
mod tests;

pub use envelope::{Envelope, List, Status, WatchEvent, envelope, list, status, watch_event};
pub use fields::ProtobufError;

pub(super) use meta::glance;
pub(super) use node::{node, pdb};
pub(super) use pod::pod;
