//! Placeholders: low-priority Pods that hold room until the workload takes it.

use k8s_openapi::api::core::v1::Pod as ApiPod;

use super::constraints::Placement;
use crate::cache::Resources;

/// A placeholder to be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Placeholder {
    /// Its name, see [`rotate_shared::names::placeholder_name`].
    pub name: String,
    /// The rotation it belongs to.
    pub rotation: String,
    /// The class of the Pod.
    pub class: String,
    /// The UID of the Pod.
    pub pod_uid: String,
    /// Effective requests of the Pod.
    pub requests: Resources,
    /// Where it may be.
    pub placement: Placement,
    /// Seconds after which the kubelet ends it, so that leftovers end without us.
    pub deadline_seconds: i64,
    /// The image it pauses in.
    pub image: String,
}

/// The object to create.
#[must_use]
pub fn manifest(_placeholder: &Placeholder) -> ApiPod {
    unimplemented!()
}
