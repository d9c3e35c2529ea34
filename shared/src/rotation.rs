//! Rotations as seen from outside: phase, progress, and what they wait for.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::code::Code;
use crate::options::{Options, OptionsRequest};
use crate::plan::{Notice, Provider};

/// Where a rotation stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub enum Phase {
    /// Waits for a slot or a resume; nothing was touched. Ends in `Surging` or `Cancelled`.
    Queued,
    /// The node is cordoned and room is being reserved. Ends when all of it is held, or in `RollingBack`.
    Surging,
    /// Pods are evicted, each only while its room is held. Ends when nothing is left to move, or in `Stopped`.
    Draining,
    /// Replacements become Ready. Ends when they are, or by timeout with warnings.
    Settling,
    /// The node is taken away, kept or uncordoned. Ends in `Succeeded`.
    Removing,
    /// Placeholders and markers are being removed. Ends in `RolledBack`.
    RollingBack,
    /// Done.
    Succeeded,
    /// Given up before anything was evicted; the cluster is as it was found.
    RolledBack,
    /// Cancelled before anything was touched.
    Cancelled,
    /// Cancelled after the first eviction: the cordon stays, what moved is listed.
    Stopped,
    /// Could not go on.
    Failed,
    /// The node was taken by other hands.
    Superseded,
}

impl Phase {
    /// All of them, in the order in which they are declared.
    pub const ALL: [Self; 12] = [
        Self::Queued,
        Self::Surging,
        Self::Draining,
        Self::Settling,
        Self::Removing,
        Self::RollingBack,
        Self::Succeeded,
        Self::RolledBack,
        Self::Cancelled,
        Self::Stopped,
        Self::Failed,
        Self::Superseded,
    ];

    /// Whether nothing will happen any more.
    #[must_use]
    pub fn is_terminal(self) -> bool {
        matches!(
            self,
            Self::Succeeded | Self::RolledBack | Self::Cancelled | Self::Stopped | Self::Failed | Self::Superseded
        )
    }

    /// Whether it counts against the concurrency limits.
    #[must_use]
    pub fn is_active(self) -> bool {
        !self.is_terminal() && self != Self::Queued
    }
}

impl std::fmt::Display for Phase {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{self:?}")
    }
}

/// The most nodes that one request for rotations may mean: an agent refuses more, and whoever wants more begins some of them at
/// a time.
pub const NODES_A_REQUEST: usize = 1_000;

/// Asks for rotations: one for each node, in one batch.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct RotationRequest {
    /// Names of nodes; empty with a selector.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub nodes: Vec<String>,
    /// A label selector of nodes, resolved once.
    #[cfg_attr(feature = "openapi", schema(format = "label-selector"))]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub selector: Option<String>,
    /// What to do.
    #[serde(default, deserialize_with = "crate::object::read")]
    pub options: OptionsRequest,
    /// Who asks, as they say; a claim, not a proof. At most 256 bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(max_length = 256))]
    pub claimed_user: Option<String>,
}

/// Asks for the end of a rotation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct CancelRequest {
    /// Lift our cordon even if Pods were evicted already.
    #[serde(default)]
    pub uncordon: bool,
}

/// One rotation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct Rotation {
    /// Always [`crate::API_VERSION`].
    pub api_version: String,
    /// Always `Rotation`.
    pub kind: String,
    /// Ten hexadecimal digits.
    pub id: String,
    /// The batch it was asked for in, if with others.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub batch: Option<String>,
    /// The candidate.
    pub node: String,
    /// The candidate's UID.
    #[serde(rename = "nodeUID")]
    pub node_uid: String,
    /// What stands behind the candidate.
    pub provider: Provider,
    /// Where it stands.
    pub phase: Phase,
    /// Whether a person paused it.
    pub paused: bool,
    /// Whether a person has asked for its end, which is on the way.
    #[serde(default)]
    pub cancelling: bool,
    /// What it was asked to do.
    pub options: Options,
    /// When it was asked for.
    pub created_at: Timestamp,
    /// Phases so far, oldest first.
    pub phases: Vec<PhaseSpan>,
    /// How far it is.
    pub progress: Progress,
    /// What it waits for now.
    pub waiting: Vec<Waiting>,
    /// What deserved a look on the way.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<Notice>,
    /// Pods that were evicted, `namespace/name`; filled once it is over.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub moved: Vec<String>,
    /// How it ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outcome: Option<Outcome>,
    /// Who asked.
    pub requested_by: RequestedBy,
    /// Rises with every change of this object; the id of its event.
    pub revision: u64,
}

/// Several rotations.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct RotationList {
    /// Always [`crate::API_VERSION`].
    pub api_version: String,
    /// Always `RotationList`.
    pub kind: String,
    /// Live ones first, then the newest.
    pub items: Vec<Rotation>,
}

/// A phase with its times.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct PhaseSpan {
    /// Which.
    pub phase: Phase,
    /// When it began.
    pub started_at: Timestamp,
    /// When it ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub finished_at: Option<Timestamp>,
}

/// Counts of Pods.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct Progress {
    /// Pods to move in all.
    pub to_move: u32,
    /// Of those still to land: how many have their room held.
    pub reserved: u32,
    /// Pods that left the candidate, or are on the way out.
    pub evicted: u32,
    /// Replacements bound to another node.
    pub landed: u32,
    /// Whether only `toMove` is known: the Pods that tell the rest are not read.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub uncounted: bool,
}

/// What a rotation waits for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct Waiting {
    /// The stable code.
    pub code: Code,
    /// `kind namespace/name` of what holds it up.
    pub object: String,
    /// What is the case, with numbers.
    pub message: String,
    /// Since when.
    pub since: Timestamp,
    /// What would help.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub remedy: String,
}

/// How a rotation ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct Outcome {
    /// The reason's code; absent for success.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub code: Option<Code>,
    /// One sentence.
    pub message: String,
}

/// Who asked for a rotation.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct RequestedBy {
    /// The name the caller gave: a claim.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub claimed: Option<String>,
    /// The id of the token used, which the API server's audit log ties to a person.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub credential_id: Option<String>,
}
