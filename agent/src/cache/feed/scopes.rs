//! Which scopes are read at this moment: starts their feeds, and ends them.

use std::collections::BTreeMap;

use tokio::task::{AbortHandle, JoinError, JoinSet};

use super::FeedError;
use super::api::Api;
use super::reflect::reflect;
use super::resource::Resource;
use super::source::Source;
use crate::cache::{Cache, Partition, Pod};
use crate::clock::Clock;

/// Reads what is wanted of the Pods, for as long as it is wanted. Ends only by a defect of a feed.
pub(super) async fn follow(api: Api, cache: Cache, clock: Clock) -> String {
    let mut wanted = cache.wanted().subscribe();
    let mut running: BTreeMap<Partition, AbortHandle> = BTreeMap::new();
    let mut tasks = JoinSet::new();
    loop {
        let now = cache.wanted().all();
        let unwanted: Vec<_> = running.keys().filter(|scope| !now.contains(scope)).cloned().collect();
        for scope in unwanted {
            if let Some(feed) = running.remove(&scope) {
                feed.abort();
                // What it was writing is written before its Pods are forgotten.
                while !feed.is_finished() {
                    if let Some(defect) = tasks.join_next().await.and_then(defect) {
                        return defect;
                    }
                }
            }
            let others: Vec<_> = running.keys().cloned().collect();
            let gone = cache.write(|state| state.uncover(&scope, &others));
            tracing::debug!(%scope, gone, "no longer read");
        }
        for scope in now {
            running.entry(scope).or_insert_with_key(|scope| {
                tracing::debug!(%scope, "to be read");
                let source = Source::pods(scope.clone());
                // The others come and go with what is looked at.
                let source = if *scope == Partition::room() { source } else { source.beside() };
                tasks.spawn(reflect::<Pod>(api.clone(), source, cache.clone(), clock))
            });
        }
        tokio::select! {
            () = wanted.changed() => {}
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
