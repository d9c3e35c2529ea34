//! Which nodes the volumes of Pods allow: read on demand for a candidate's Pods, never watched.

use std::collections::BTreeMap;

use super::selector::NodeTerm;

/// A claim: namespace and name.
pub type ClaimKey = (Box<str>, Box<str>);

/// What is known of the claims that a candidate's Pods mount.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Volumes {
    /// Claims by namespace and name. A claim that is not in here is unknown.
    pub claims: BTreeMap<ClaimKey, Claim>,
}

/// A claim and what its volume demands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Claim {
    /// Not bound: the volume will be made where the Pod lands.
    Unbound,
    /// Bound to a volume whose node affinity has these terms (`None`: any node).
    Bound {
        /// Name of the PersistentVolume.
        volume: Box<str>,
        /// `spec.nodeAffinity.required`.
        terms: Option<Vec<NodeTerm>>,
        /// `spec.local` or `spec.hostPath`: the data lives on one machine.
        local: bool,
    },
}
