//! Reads on demand: consistent, and past the cache.

use std::collections::{BTreeMap, BTreeSet};

use futures::{StreamExt, TryStreamExt, stream};
use kube::Client;

use super::api::Api;
use super::source::escaped;
use super::{FeedError, Options, Source};
use crate::cache::Pod;
use crate::cache::decode::{self, ClaimObject};
use crate::cache::index::Partition;
use crate::cache::volumes::{AttachLimits, Claim, ClaimKey, Volumes};

/// Requests under way at a time.
const PARALLEL: usize = 4;

/// Lists the Pods bound to a node, without a resourceVersion: what the API server answers is at least as new as
/// anything that happened before the question. The barrier after a cordon and before a removal.
///
/// # Errors
///
/// The list cannot be read, or a Pod in it: what cannot be read may need to be moved.
pub async fn list_node_pods(client: &Client, node: &str) -> Result<Vec<Pod>, FeedError> {
    let api = Api::new(client.clone(), Options::default());
    let source = Source::pods(Partition::Node(node.into()));
    let mut pods = Vec::new();
    let mut next: Option<String> = None;
    loop {
        let page = api.page(&source, next.as_deref()).await?;
        for object in &page.objects {
            pods.push(decode::pod(object.encoded())?.to_pod());
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
    let claims: BTreeMap<_, _> = found.into_iter().filter_map(|(key, claim)| Some((key, claim?))).collect();
    let limits = attach_limits(client, claims.values()).await?;
    Ok(Volumes { claims, limits })
}

/// How many volumes nodes take, where any of these claims has a volume that is attached, or may get one. Empty where that
/// cannot be read: then none of them is known to have a limit.
///
/// # Errors
///
/// The API server does not answer, or not in JSON.
pub async fn attach_limits(
    client: &Client,
    claims: impl Iterator<Item = &Claim>,
) -> Result<BTreeMap<Box<str>, AttachLimits>, FeedError> {
    let attached = |claim: &Claim| matches!(claim, Claim::Unbound | Claim::Bound { driver: Some(_), .. });
    if !{ claims }.any(attached) {
        return Ok(BTreeMap::new());
    }
    let api = Api::new(client.clone(), Options::default());
    // From the API server's memory: limits change when a driver is installed.
    match api.text("/apis/storage.k8s.io/v1/csinodes?resourceVersion=0").await {
        Ok(text) => Ok(decode::attach_limits(&text)?.into_iter().collect()),
        Err(FeedError::Refused { status: 403 | 404, .. }) => Ok(BTreeMap::new()),
        Err(error) => Err(error),
    }
}

/// Reads these claims, and the volumes that they are bound to. `None`: there is no such claim, or no such volume.
///
/// # Errors
///
/// A claim or a volume cannot be read.
pub async fn claims(client: &Client, keys: BTreeSet<ClaimKey>) -> Result<Vec<(ClaimKey, Option<Claim>)>, FeedError> {
    let api = &Api::new(client.clone(), Options::default());
    stream::iter(keys)
        .map(|key| async move {
            let claim = read_claim(api, &key).await?;
            Ok::<_, FeedError>((key, claim))
        })
        .buffer_unordered(PARALLEL)
        .try_collect()
        .await
}

async fn read_claim(api: &Api, (namespace, name): &ClaimKey) -> Result<Option<Claim>, FeedError> {
    let path = format!("/api/v1/namespaces/{}/persistentvolumeclaims/{}", escaped(namespace), escaped(name));
    let Some(text) = found(api.text(&path).await)? else { return Ok(None) };
    let ClaimObject { volume, .. } = decode::claim(&text)?;
    let Some(volume) = volume else { return Ok(Some(Claim::Unbound)) };
    let path = format!("/api/v1/persistentvolumes/{}", escaped(&volume));
    match found(api.text(&path).await)? {
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
