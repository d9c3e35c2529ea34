//! What an agent's cache holds, and how fresh it is.

use serde::{Deserialize, Serialize};

/// An agent's cache: counts only.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct CacheInfo {
    /// Always [`crate::API_VERSION`].
    pub api_version: String,
    /// Always `Cache`.
    pub kind: String,
    /// Whether everything that is to be read was read once: before, nothing is planned or begun.
    pub synced: bool,
    /// Pods, finished ones too.
    pub pods: u64,
    /// Nodes.
    pub nodes: u64,
    /// `PodDisruptionBudget`s.
    pub disruption_budgets: u64,
    /// Different shapes that Pods share.
    pub shapes: u64,
    /// Different sets of labels that Pods share.
    pub label_sets: u64,
    /// What is watched.
    pub feeds: Vec<FeedInfo>,
}

/// One watched kind.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct FeedInfo {
    /// `pods`, `nodes` or `poddisruptionbudgets`.
    pub kind: String,
    /// Which of them, where not all are read by one feed: `node NAME`, `namespace NAME`, or a shard.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scope: Option<String>,
    /// Whether all of them were read once.
    pub synced: bool,
    /// Whether a watch is open.
    #[serde(default)]
    pub connected: bool,
    /// How many objects the list that is under way has brought so far.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reading: Option<u64>,
    /// How many objects were read since the agent started, in lists and as they changed.
    #[serde(default)]
    pub objects: u64,
    /// The resourceVersion up to which they were read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub revision: Option<String>,
    /// Seconds since the API server was last heard of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub age_seconds: Option<u64>,
    /// How often a complete list was read since the agent started.
    #[serde(default)]
    pub lists: u64,
    /// How often an open watch fell silent and was given up since the agent started.
    #[serde(default)]
    pub stalls: u64,
    /// How often a list or a watch failed since the agent started.
    #[serde(default)]
    pub errors: u64,
    /// What the last of them was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_error: Option<String>,
    /// The HTTP status of the API server's answer, where the last of them was one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_status: Option<u16>,
    /// How many objects could not be read since the agent started.
    #[serde(default)]
    pub unreadable: u64,
    /// How many events were of a type that the agent does not know.
    #[serde(default)]
    pub unknown: u64,
}
