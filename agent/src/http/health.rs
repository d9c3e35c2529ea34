//! Whether the agent knows enough to answer, and how much it knows.

use axum::Json;
use axum::extract::State;
use jiff::SignedDuration;
use rotate_shared::{API_VERSION, CacheInfo, FeedInfo};

use super::state::Api;
use crate::cache::feed::{FeedHealth, SILENCE};
use crate::cache::{Kind, Partition};

/// A feed that has heard nothing for this long is cut off: a silent watch was given up, and trying anew for half a minute did
/// not help.
const STALE: SignedDuration = SignedDuration::from_secs(SILENCE.as_secs().cast_signed() + 30);

/// `GET /v1/cache`.
pub(super) async fn cache(State(api): State<Api>) -> Json<CacheInfo> {
    Json(api.cache_info())
}

/// As in paths.
fn name(kind: Kind) -> &'static str {
    match kind {
        Kind::Pods => "pods",
        Kind::Nodes => "nodes",
        Kind::Pdbs => "poddisruptionbudgets",
    }
}

impl Api {
    pub(super) fn cache_info(&self) -> CacheInfo {
        let health = self.cache.health();
        let now = self.clock.now();
        let state = self.cache.read();
        let counts = state.counts();
        let count = |number: usize| u64::try_from(number).unwrap_or(u64::MAX);
        let whole = |kind| kind != Kind::Pods || state.covers_cluster();
        let info = |kind: Kind, scope: Option<&Partition>, feed: &FeedHealth| FeedInfo {
            kind: name(kind).to_owned(),
            scope: scope.map(ToString::to_string),
            synced: feed.synced,
            connected: feed.connected,
            reading: feed.reading,
            objects: feed.objects,
            // Feeds of scopes are not equally far: there is no one revision of what they have read.
            revision: state.revision(kind).filter(|_| scope.is_none() && whole(kind)).map(ToOwned::to_owned),
            age_seconds: feed.last_heard.and_then(|heard| u64::try_from(now.duration_since(heard).as_secs()).ok()),
            lists: feed.lists,
            stalls: feed.stalls,
            errors: feed.errors,
            last_error: feed.last_error.as_deref().map(ToOwned::to_owned),
            last_status: feed.last_status,
            unreadable: feed.unreadable,
            unknown: feed.unknown,
        };
        let parts = health.feeds().filter(|(source, _)| source.partition != Partition::All);
        let parts = parts.map(|(source, feed)| info(source.kind, Some(&source.partition), feed));
        let feeds = health.kinds().map(|(kind, feed)| info(kind, None, &feed)).chain(parts);
        CacheInfo {
            api_version: API_VERSION.to_owned(),
            kind: "Cache".to_owned(),
            synced: health.is_synced(),
            pods: count(counts.pods),
            nodes: count(counts.nodes),
            disruption_budgets: count(counts.pdbs),
            shapes: count(counts.shapes),
            label_sets: count(counts.label_sets),
            feeds: feeds.collect(),
        }
    }

    /// What the cache has not read yet, if anything.
    pub(super) fn unsynced(&self) -> Option<String> {
        // Asked with each request.
        if self.cache.is_synced() {
            return None;
        }
        let health = self.cache.health();
        let unread: Vec<_> = health
            .kinds()
            .filter(|(_, feed)| !feed.synced)
            .map(|(kind, feed)| match feed.reading {
                Some(read @ 1..) => format!("{} ({read} so far)", name(kind)),
                _ => name(kind).to_owned(),
            })
            .collect();
        (!unread.is_empty()).then(|| format!("the cluster's {} are still being read", unread.join(", ")))
    }

    /// Why what is unread cannot be read, if the last try failed. Not for everybody: it quotes what the API server says.
    pub(super) fn why_unsynced(&self) -> String {
        let failed = |feed: &FeedHealth| !feed.synced && !feed.connected && feed.reading.is_none();
        let why = self.cache.health().kinds().filter(|(_, feed)| failed(feed)).find_map(|(_, feed)| feed.last_error);
        why.map(|why| format!(": the last try failed to {why}")).unwrap_or_default()
    }

    /// Why the agent cannot be relied on; nothing once it can.
    pub(super) fn unready(&self) -> Vec<String> {
        let mut reasons = Vec::from_iter(self.unsynced());
        let now = self.clock.now();
        for (kind, feed) in self.cache.health().kinds() {
            let Some(heard) = feed.last_heard.filter(|heard| now.duration_since(*heard) > STALE) else { continue };
            let seconds = now.duration_since(heard).as_secs();
            reasons.push(format!("nothing was heard of {} for {seconds} s, since {heard:.0}", name(kind)));
        }
        if !self.views.loaded() {
            reasons.push("the rotations' records are still being read".to_owned());
        }
        reasons
    }
}
