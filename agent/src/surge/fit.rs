//! Our own predicate: would the scheduler place this Pod on that node?

use std::collections::BTreeSet;

use crate::cache::{Node, Pod, State};

/// Why a Pod does not fit on a node, in words that name the resource or the rule.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Misfit(pub String);

/// Whether `pod` fits on `node` once the Pods with the UIDs in `gone` have left the cluster.
///
/// # Errors
///
/// The first rule that forbids it.
pub fn fits(_pod: &Pod, _node: &Node, _state: &State, _gone: &BTreeSet<&str>) -> Result<(), Misfit> {
    unimplemented!()
}
