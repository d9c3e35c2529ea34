//! Whether the agent knows enough to answer, and how much it knows.

use axum::Json;
use axum::extract;
use rotate_shared::{API_VERSION, CacheInfo, FeedInfo};

use super::state::Api;
use crate::cache::State;
use crate::cache::index::Kind;

/// What is watched, as in paths and as told to people.
const KINDS: [(Kind, &str); 3] = [(Kind::Pods, "pods"), (Kind::Nodes, "nodes"), (Kind::Pdbs, "poddisruptionbudgets")];

/// `GET /v1/cache`.
pub(super) async fn cache(extract::State(api): extract::State<Api>) -> Json<CacheInfo> {
    Json(api.cache_info())
}

/// Why the cache cannot be relied on yet.
pub(super) fn unsynced(state: &State) -> Option<String> {
    let unread: Vec<_> =
        KINDS.iter().filter(|(kind, _)| state.revision(*kind).is_none()).map(|(_, name)| *name).collect();
    (!unread.is_empty()).then(|| format!("the cluster's {} are still being read", unread.join(", ")))
}

impl Api {
    pub(super) fn cache_info(&self) -> CacheInfo {
        let state = self.cache.read();
        let counts = state.counts();
        let count = |number: usize| u64::try_from(number).unwrap_or(u64::MAX);
        let feed = |(kind, name): &(Kind, &str)| FeedInfo {
            kind: (*name).to_owned(),
            synced: state.revision(*kind).is_some(),
            revision: state.revision(*kind).map(ToOwned::to_owned),
            age_seconds: None,
        };
        CacheInfo {
            api_version: API_VERSION.to_owned(),
            kind: "Cache".to_owned(),
            synced: unsynced(&state).is_none(),
            pods: count(counts.pods),
            nodes: count(counts.nodes),
            disruption_budgets: count(counts.pdbs),
            shapes: count(counts.shapes),
            label_sets: count(counts.label_sets),
            feeds: KINDS.iter().map(feed).collect(),
        }
    }

    /// Why the agent cannot answer yet; nothing once it can.
    pub(crate) fn unready(&self) -> Vec<String> {
        let mut reasons = Vec::new();
        reasons.extend(unsynced(&self.cache.read()));
        if !self.views.loaded() {
            reasons.push("the rotations' records are still being read".to_owned());
        }
        reasons
    }
}
