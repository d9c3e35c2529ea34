//! Plans: what rotating a node would do, and what stands in the way.

use serde::{Deserialize, Serialize};

use crate::code::Code;
use crate::options::{OptionsRequest, Then};
use crate::quantity::Amounts;

/// What takes the node away and brings new ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Provider {
    /// A Karpenter `NodeClaim` stands behind the node.
    Karpenter,
    /// The node belongs to a group of cluster-autoscaler.
    ClusterAutoscaler,
    /// A Cluster API Machine stands behind the node.
    ClusterApi,
    /// Nothing that we know of.
    Unmanaged,
}

/// The most nodes that one request for plans may mean: an agent refuses more, and who wants more asks in pieces.
pub const NODES_A_REQUEST: usize = 50;

/// Asks for a plan.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct PlanRequest {
    /// Names of nodes; empty with a selector.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub nodes: Vec<String>,
    /// A label selector of nodes, as kubectl's `-l`.
    #[cfg_attr(feature = "openapi", schema(format = "label-selector"))]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub selector: Option<String>,
    /// What the rotation would be asked to do.
    #[serde(default, deserialize_with = "crate::object::read")]
    pub options: OptionsRequest,
    /// Whether the API server is asked, without anything being changed, if it would accept the eviction of each Pod.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub ask_evictions: bool,
}

/// The plan of one node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct Plan {
    /// Always [`crate::API_VERSION`].
    pub api_version: String,
    /// Always `Plan`.
    pub kind: String,
    /// The candidate.
    pub node: String,
    /// What stands behind the candidate.
    pub provider: Provider,
    /// What becomes of the empty node: as asked, or as its provider is used to. Absent in plans of older agents.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub then: Option<Then>,
    /// Whether others had cordoned the node before: it stays so, whatever becomes of it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub cordoned: bool,
    /// Pods and sums that room is reserved for.
    pub totals: Totals,
    /// Every Pod on the candidate, by namespace and name.
    pub pods: Vec<PlannedPod>,
    /// Pods that need the same room, largest first.
    pub classes: Vec<Class>,
    /// What would be created to hold the room.
    pub placeholders: Vec<PlannedPlaceholder>,
    /// The autoscaled groups whose sizes change, and the candidate's.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub groups: Vec<GroupSize>,
    /// What must change, or be allowed by a flag, before anything is touched.
    pub blockers: Vec<Notice>,
    /// What deserves a look but does not stop anything.
    pub warnings: Vec<Notice>,
    /// How long it may take.
    pub estimate: Estimate,
}

/// Plans of several nodes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct PlanList {
    /// Always [`crate::API_VERSION`].
    pub api_version: String,
    /// Always `PlanList`.
    pub kind: String,
    /// One plan a node.
    pub items: Vec<Plan>,
}

/// How many Pods room is reserved for, and how much.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Totals {
    /// Pods that room is reserved for.
    pub pods: u32,
    /// The sum of their effective requests.
    pub reserved: Amounts,
}

/// What happens to a Pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "lowercase")]
pub enum Disposition {
    /// It is evicted.
    Evict,
    /// It stays until the node goes.
    Stay,
    /// It is shutting down already; its end is waited for.
    Wait,
    /// It has finished and goes with the node.
    Gone,
    /// It stands in the way.
    Block,
}

/// Why a Pod is treated as it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "kebab-case")]
pub enum PodReason {
    /// A controller creates it anew elsewhere.
    Replicated,
    /// Owned by a `DaemonSet`.
    Daemonset,
    /// A static Pod's mirror.
    Mirror,
    /// Phase `Succeeded` or `Failed`.
    Completed,
    /// It can run only on this node.
    Pinned,
    /// Nothing would create it anew.
    Bare,
    /// It has a deletion timestamp.
    Terminating,
    /// A placeholder of ours.
    Placeholder,
    /// Marked as not to be disrupted.
    DoNotDisrupt,
    /// It has an emptyDir on disk.
    LocalStorage,
    /// It tolerates the cordon and may come back.
    ToleratesCordon,
    /// The default scheduler does not place it by itself.
    SchedulerUnsupported,
    /// The rotation was asked to look at other Pods only.
    NotSelected,
}

/// A Pod on the candidate.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct PlannedPod {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// Its UID.
    pub uid: String,
    /// What happens to it.
    pub disposition: Disposition,
    /// Whether room is reserved for its replacement.
    pub reserved: bool,
    /// Why.
    pub reason: PodReason,
    /// The class of its placeholder.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub class: Option<String>,
    /// Its effective requests.
    pub requests: Amounts,
}

impl PlannedPod {
    /// Whether it is one to evict, as soon as no budget and no lack of room forbids it.
    #[must_use]
    pub fn is_to_evict(&self) -> bool {
        let held_up = self.disposition == Disposition::Block && self.reason == PodReason::Replicated;
        self.disposition == Disposition::Evict || held_up
    }
}

/// Pods that need the same room.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct Class {
    /// Short name within the plan: `a`, `b`, …
    pub id: String,
    /// How many Pods.
    pub pods: u32,
    /// Effective requests of each; of all together where they share one placeholder.
    pub requests: Amounts,
    /// The translated constraints, in words.
    pub constraints: Vec<String>,
    /// Where the room would come from.
    pub room: Vec<Room>,
}

/// Room for some Pods of a class: on a node that exists, or on a new one. Neither where it was not looked for
/// ([`Code::NotLookedAt`]).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct Room {
    /// An existing node with spare room.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node: Option<String>,
    /// What a new node would have to be.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub new_node: Option<String>,
    /// For how many Pods.
    pub count: u32,
}

/// A placeholder that would be created.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct PlannedPlaceholder {
    /// Its class.
    pub class: String,
    /// `namespace/name` of the Pod it holds room for; of all of them, separated by commas, where they share it.
    pub pod: String,
    /// What it requests.
    pub requests: Amounts,
}

/// The size of a group of nodes through a rotation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct GroupSize {
    /// What it is called: `group web (eks)`.
    pub name: String,
    /// Who changes its size.
    pub provider: Provider,
    /// How many nodes it has now, those on their way counted.
    pub nodes: u32,
    /// How many it has at least.
    pub min: u32,
    /// How many it has at most.
    pub max: u32,
    /// How many it has while the node is rotated.
    pub during: u32,
    /// How many it has in the end, once a node that is left to the autoscaler is gone.
    pub after: u32,
}

/// Something to know: a blocker, a warning, or what a rotation waits for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct Notice {
    /// The stable code.
    pub code: Code,
    /// `kind namespace/name` of what it is about.
    pub object: String,
    /// What is the case, with numbers.
    pub message: String,
    /// What lifts it: a flag, a command, or whom to ask. Empty where there is nothing to do but wait.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub remedy: String,
}

/// How long it may take.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct Estimate {
    /// Seconds until the room is there; 0 where it exists already.
    pub surge_seconds: u64,
    /// Seconds of shutting down and starting.
    pub drain_seconds: u64,
    /// Seconds × nodes that are paid for twice.
    pub extra_node_seconds: u64,
}
