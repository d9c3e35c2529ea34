//! Which scopes are read at this moment: starts their feeds, and ends them.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::Timestamp;
use tokio::task::{AbortHandle, JoinError, JoinSet};

use super::FeedError;
use super::api::Api;
use super::reflect::reflect;
use super::resource::Resource;
use super::source::Source;
use crate::cache::{Cache, Partition, Pod};
use crate::clock::Clock;

/// How long a scope is still read once nobody wants it: after a plan comes a person's consent, and then the rotation.
const LINGER: Duration = Duration::from_secs(30);

/// The feed of a scope.
#[derive(Debug)]
struct Running {
    feed: AbortHandle,
    /// Since when nobody wants it.
    unwanted: Option<Timestamp>,
}

/// Reads what is wanted of the Pods, for as long as it is wanted. Ends only by a defect of a feed.
pub(super) async fn follow(api: Api, cache: Cache, clock: Clock) -> String {
    let mut changes = cache.wanted().subscribe();
    let mut running: BTreeMap<Partition, Running> = BTreeMap::new();
    let mut tasks = JoinSet::new();
    loop {
        let (wanted, now) = (cache.wanted().all(), clock.now());
        for (scope, Running { unwanted, .. }) in &mut running {
            *unwanted = if wanted.contains(scope) { None } else { unwanted.or(Some(now)) };
        }
        let over = |running: &Running| {
            running.unwanted.is_some_and(|since| now.duration_since(since).unsigned_abs() >= LINGER)
        };
        let ending: Vec<_> =
            running.iter().filter(|(_, running)| over(running)).map(|(scope, _)| scope.clone()).collect();
        for scope in ending {
            let Some(Running { feed, .. }) = running.remove(&scope) else { continue };
            feed.abort();
            // What it was writing is written before its Pods are forgotten.
            while !feed.is_finished() {
                if let Some(defect) = tasks.join_next().await.and_then(defect) {
                    return defect;
                }
            }
            let others: Vec<_> = running.keys().cloned().collect();
            let gone = cache.write(|state| state.uncover(&scope, &others));
            tracing::debug!(%scope, gone, "no longer read");
        }
        for scope in wanted {
            running.entry(scope).or_insert_with_key(|scope| {
                tracing::debug!(%scope, "to be read");
                let source = Source::pods(scope.clone());
                // The others come and go with what is looked at.
                let source = if *scope == Partition::room() { source } else { source.beside() };
                let feed = tasks.spawn(reflect::<Pod>(api.clone(), source, cache.clone(), clock));
                Running { feed, unwanted: None }
            });
        }
        let next = running.values().filter_map(|running| running.unwanted).min();
        let lingered = async {
            match next {
                Some(since) => clock.sleep(LINGER.saturating_sub(now.duration_since(since).unsigned_abs())).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            () = changes.changed() => {}
            () = lingered => {}
            Some(ended) = tasks.join_next() => if let Some(defect) = defect(ended) {
                return defect;
            },
        }
    }
}

/// What is no longer read although it should be; none where the feed was ended by us.
fn defect(ended: Result<FeedError, JoinError>) -> Option<String> {
    match ended {
        Ok(error) => Some(super::ended::<Pod>(&error)),
        Err(error) if error.is_cancelled() => None,
        Err(error) => Some(format!("a feed of {}: {error}", Pod::NAME)),
    }
}

#[cfg(test)]
mod tests;
