//! What is known of the objects that providers keep.

use rotate_shared::plan::Provider;

use super::{cluster_api, cluster_autoscaler, karpenter};

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
