//! Reads on demand: consistent, and past the cache.

use std::collections::BTreeSet;

use futures::{StreamExt, TryStreamExt, stream};
use kube::Client;

use super::json::JsonFeed;
use super::source::escaped;
use super::{Event, Feed as _, FeedError, Source};
use crate::cache::Pod;
use crate::cache::decode::{self, ClaimObject};
use crate::cache::index::Partition;
use crate::cache::volumes::{Claim, ClaimKey, Volumes};

/// Requests under way at a time.
const PARALLEL: usize = 4;

/// Lists the Pods bound to a node, without a resourceVersion: what the API server answers is at least as new as
/// anything that happened before the question. The barrier after a cordon and before a removal.
///
/// # Errors
///
/// The list cannot be read, or a Pod in it: what cannot be read may need to be moved.
pub async fn list_node_pods(client: &Client, node: &str) -> Result<Vec<Pod>, FeedError> {
    let feed = JsonFeed::new(client.clone());
    let source = Source::pods(Partition::Node(node.into()));
    let mut pods = Vec::new();
    let mut next: Option<String> = None;
    loop {
        let page = feed.list::<Pod>(&source, next.as_deref()).await?;
        for event in page.events {
            match event {
                Event::Applied(pod, _) => pods.push(pod),
                Event::Unreadable(note) => {
                    return Err(FeedError::Malformed { path: note.object.path(), source: note.message.into() });
                }
                Event::Deleted(_) | Event::Bookmark(_) => {}
            }
        }
        next = page.next;
        if next.is_none() {
            return Ok(pods);
        }
    }
}

/// Reads the claims of these Pods, and the volumes that they are bound to. What does not exist is left out.
///
/// # Errors
///
/// A claim or a volume cannot be read.
pub async fn volumes(client: &Client, pods: &[Pod]) -> Result<Volumes, FeedError> {
    let keys = pods
        .iter()
        .flat_map(|pod| pod.claims.iter().map(|claim| (Box::from(&*pod.namespace), claim.clone())))
        .collect();
    let found = claims(client, keys).await?;
    Ok(Volumes { claims: found.into_iter().filter_map(|(key, claim)| Some((key, claim?))).collect() })
}

/// Reads these claims, and the volumes that they are bound to. `None`: there is no such claim, or no such volume.
///
/// # Errors
///
/// A claim or a volume cannot be read.
pub async fn claims(client: &Client, keys: BTreeSet<ClaimKey>) -> Result<Vec<(ClaimKey, Option<Claim>)>, FeedError> {
    let feed = &JsonFeed::new(client.clone());
    stream::iter(keys)
        .map(|key| async move {
            let claim = read_claim(feed, &key).await?;
            Ok::<_, FeedError>((key, claim))
        })
        .buffer_unordered(PARALLEL)
        .try_collect()
        .await
}

async fn read_claim(feed: &JsonFeed, (namespace, name): &ClaimKey) -> Result<Option<Claim>, FeedError> {
    let path = format!("/api/v1/namespaces/{}/persistentvolumeclaims/{}", escaped(namespace), escaped(name));
    let Some(text) = found(feed.get(&path).await)? else { return Ok(None) };
    let ClaimObject { volume, .. } = decode::claim(&text)?;
    let Some(volume) = volume else { return Ok(Some(Claim::Unbound)) };
    let path = format!("/api/v1/persistentvolumes/{}", escaped(&volume));
    match found(feed.get(&path).await)? {
        Some(text) => Ok(Some(decode::volume(&text)?.into())),
        None => Ok(None),
    }
}

fn found(answer: Result<String, FeedError>) -> Result<Option<String>, FeedError> {
    match answer {
        Err(FeedError::Refused { status: 404, .. }) => Ok(None),
        other => other.map(Some),
    }
}
