//! What is known of the objects that providers keep.

use rotate_shared::plan::Provider;
use std::borrow::Cow;

use super::{cluster_api, cluster_autoscaler, karpenter};
use crate::cache::Node;

/// The providers' own objects as last read. What is not installed, or may not be read, is empty and says so.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ProviderObjects {
    /// Karpenter's.
    pub karpenter: karpenter::Objects,
    /// cluster-autoscaler's, and the groups seen.
    pub autoscaler: cluster_autoscaler::Objects,
    /// Cluster API's.
    pub cluster_api: cluster_api::Objects,
    /// Providers of some nodes whose objects were not looked at: saved objects may lack them.
    pub unseen: Vec<Provider>,
}

impl ProviderObjects {
    /// The same, with what is about this node where they are about several: what is ordered for one is not there for
    /// another.
    #[must_use]
    pub fn about(&self, node: &Node) -> Cow<'_, Self> {
        if self.cluster_api.machines.len() < 2 {
            return Cow::Borrowed(self);
        }
        Cow::Owned(Self { cluster_api: self.cluster_api.about(node), ..self.clone() })
    }
}
