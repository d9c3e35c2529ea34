//! What stands behind a node: who brings new ones, and who takes this one away.
//!
//! ```text
//! read (I/O) ──▶ Known ──▶ Driver: Karpenter | ClusterAutoscaler | ClusterApi | Unmanaged ──▶ Headroom, Order, Removal, notices
//! ```
//!
//! A driver decides over values; `read` fetches them, and the rotation's executor carries out what a driver answers.

pub mod cluster_api;
pub mod cluster_autoscaler;
pub mod headroom;
pub mod karpenter;
mod listing;
mod objects;
mod read;
mod saved;
mod unmanaged;

use jiff::{SignedDuration, Timestamp};
use rotate_shared::options::Then;
use rotate_shared::plan::{Notice, Provider};
use rotate_shared::{Code, Options, names};
use serde::{Deserialize, Serialize};

pub use headroom::{Headroom, NewNode};
pub use listing::Listing;
pub use objects::ProviderObjects;
pub use read::{About, ReadError, Reader};
pub use saved::Saved;

use crate::cache::{Node, State};

/// One kind of provider: what it knows of its nodes and what it would do. Decides only.
pub trait Driver: Sync {
    /// Whether the node is one of this provider's, by what the provider leaves on it.
    fn detect(&self, node: &Node, objects: &ProviderObjects) -> bool;

    /// What has to be ordered for a node that no autoscaler would bring; `None`: placeholders are order enough, or nothing
    /// can be ordered.
    fn order(&self, candidate: &Node, objects: &ProviderObjects) -> Option<Order>;

    /// The nodes that may be had, of every pool or group of this provider.
    fn headroom(&self, state: &State, objects: &ProviderObjects, now: Timestamp) -> Vec<Headroom>;

    /// What becomes of an empty node that is not asked about.
    fn default_then(&self, candidate: &Node, objects: &ProviderObjects) -> Then;

    /// How this node is taken away where that is asked for.
    fn remove(&self, node: &Node, objects: &ProviderObjects) -> Removal;

    /// The same for the candidate of a rotation which began then, with the nodes that came since taken into account.
    fn removal(&self, node: &Node, _since: Timestamp, _state: &State, objects: &ProviderObjects) -> Removal {
        self.remove(node, objects)
    }

    /// What there is to settle of an order that was made for a rotation which began then.
    fn loan(
        &self,
        _order: &Order,
        _rotation: &str,
        _since: Timestamp,
        _state: &State,
        _objects: &ProviderObjects,
    ) -> Loan {
        Loan::Settled
    }

    /// Whether what stood behind the node is gone as well, once the Node object is.
    fn is_gone(&self, _removal: &Removal, _objects: &ProviderObjects) -> bool {
        true
    }

    /// Who takes the empty node away where nobody is asked to; `None`: nobody does.
    fn left(&self, _node: &Node, _state: &State, _objects: &ProviderObjects, _now: Timestamp) -> Option<Removal> {
        None
    }

    /// Who is taking the node away already, other than us; `None`: nobody.
    fn taken(&self, node: &Node, objects: &ProviderObjects) -> Option<String>;

    /// What a person should know about how this rotation begins and ends.
    fn explain(
        &self,
        candidate: &Node,
        state: &State,
        objects: &ProviderObjects,
        options: &Options,
        now: Timestamp,
    ) -> Explained;
}

/// What a driver says of a rotation beforehand.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Explained {
    /// What stands in the way.
    pub blockers: Vec<Notice>,
    /// What deserves a look.
    pub warnings: Vec<Notice>,
}

/// A node to be ordered by name of its group: placeholders alone would not bring it. Written into the rotation's record:
/// what is added later must have a default.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", rename_all_fields = "camelCase")]
pub enum Order {
    /// One more replica of a Cluster API MachineDeployment.
    MachineDeployment {
        /// Its namespace in the management cluster.
        namespace: String,
        /// Its name.
        name: String,
        /// Its API version: `v1beta1` or `v1beta2`.
        version: String,
        /// How many replicas it is to have.
        replicas: u32,
    },
}

/// What there is to settle of an order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Loan {
    /// Nothing: it was not made, or was given back.
    #[default]
    Settled,
    /// It cannot be told, because of this.
    Unknown(String),
    /// It was made, and has become no node.
    Coming,
    /// It has become this node, on which nothing real runs; how that is taken away.
    Idle(String, Removal),
    /// It has become a node on which Pods run, or others have ordered as well and it cannot be told apart.
    InUse,
}

/// What is settled of an order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Settlement {
    /// What has become no node is given back.
    GiveBack(Order),
    /// The node that it has become is taken away again.
    Return(String, Removal),
    /// It is kept, and nothing of ours stays noted on it.
    Keep(Order),
}

impl std::fmt::Display for Order {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self::MachineDeployment { namespace, name, .. } = self;
        write!(f, "MachineDeployment {namespace}/{name}")
    }
}

/// How a node is taken away. Written into the rotation's record: what is added later must have a default.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", rename_all_fields = "camelCase")]
pub enum Removal {
    /// Nobody is asked. It stays, until whom it is left to takes it.
    Left {
        /// Who takes it away, and why it will, or that nobody does: a whole phrase.
        to: String,
        /// Within which time it is expected to be gone; `None`: it is not expected to go.
        within: Option<SignedDuration>,
    },
    /// Only the Node object can be deleted: the machine runs on.
    NodeObject,
    /// A Karpenter NodeClaim is deleted, and the instance with it.
    NodeClaim {
        /// Its name.
        name: String,
        /// Its UID, a precondition.
        uid: String,
    },
    /// A Cluster API Machine is deleted.
    Machine {
        /// Its namespace in the management cluster.
        namespace: String,
        /// Its name.
        name: String,
        /// Its UID, a precondition.
        uid: String,
        /// Its API version: `v1beta1` or `v1beta2`.
        version: String,
        /// The MachineDeployment that has one replica too many and is scaled down, with the Machine marked to be the one
        /// that goes; `None`: the Machine itself is deleted, and replaced.
        shrink: Option<String>,
    },
    /// A hook outside the cluster is asked to end the instance.
    Hook {
        /// The node's provider id.
        provider_id: String,
    },
}

/// Annotations that keep autoscalers from replacing or draining a node by themselves. Both are set on every node: what
/// stands behind one is known by labels only, and a wrong guess must not leave it without protection.
pub const PROTECTION: [&str; 2] = [names::KARPENTER_DO_NOT_DISRUPT, names::SCALE_DOWN_DISABLED];

/// All drivers; the first that detects a node has it.
const DRIVERS: [(Provider, &dyn Driver); 4] = [
    (Provider::Karpenter, &karpenter::Karpenter),
    (Provider::ClusterApi, &cluster_api::ClusterApi),
    (Provider::ClusterAutoscaler, &cluster_autoscaler::ClusterAutoscaler),
    (Provider::Unmanaged, &unmanaged::Unmanaged),
];

/// Detects the provider by the node's labels and annotations.
#[must_use]
pub fn detect(node: &Node, objects: &ProviderObjects) -> Provider {
    let found = DRIVERS.into_iter().find(|(_, driver)| driver.detect(node, objects));
    found.map_or(Provider::Unmanaged, |(provider, _)| provider)
}

/// The driver of a provider.
#[must_use]
pub fn driver(provider: Provider) -> &'static dyn Driver {
    let found = DRIVERS.into_iter().find(|(of, _)| *of == provider);
    found.map_or(&unmanaged::Unmanaged, |(_, driver)| driver)
}

/// The nodes that may be had, of all providers: a placeholder takes what comes, whoever brings it.
#[must_use]
pub fn headroom(state: &State, objects: &ProviderObjects, now: Timestamp) -> Vec<Headroom> {
    DRIVERS.into_iter().flat_map(|(_, driver)| driver.headroom(state, objects, now)).collect()
}

/// What becomes of the empty node: as asked, or as its provider is used to. A node that Pods were to stay on is kept.
#[must_use]
pub fn then(options: &Options, provider: Provider, candidate: &Node, objects: &ProviderObjects) -> Then {
    let usual = || match options.pod_selector {
        Some(_) => Then::Keep,
        None => driver(provider).default_then(candidate, objects),
    };
    options.then.unwrap_or_else(usual)
}

/// A warning where deletion takes only the Node object.
fn machine_runs_on(candidate: &Node, options: &Options) -> Option<Notice> {
    (options.then == Some(Then::Delete)).then(|| Notice {
        code: Code::MachineRunsOn,
        object: format!("Node {}", candidate.name),
        message: "only the Node object is deleted: the machine behind it runs on, and is paid for".to_owned(),
        remedy: "remove the machine where it was made".to_owned(),
    })
}

#[cfg(test)]
mod tests;
