//! Reads the providers' objects: each by a named path, never by discovery.

use std::collections::BTreeMap;
use std::sync::Arc;

use http::Request;
use jiff::{SignedDuration, Timestamp};
use kube::Client;
use parking_lot::Mutex;
use serde::Deserialize;
use serde::de::DeserializeOwned;

use super::cluster_api::{self, Management};
use super::cluster_autoscaler::groups::Settings;
use super::cluster_autoscaler::keeper::Remembered;
use super::cluster_autoscaler::status::Status;
use super::listing::{Listing, Page};
use super::{Order, ProviderObjects, Removal, cluster_autoscaler, karpenter};
use crate::cache::Cache;
use crate::cache::feed::escaped;
use crate::client::said;
use crate::clock::Clock;

/// Objects in a page: as kubectl.
const PAGE: u32 = 500;
/// For how long a kind that is not served is not asked for again: long enough that observations, several a second while
/// rotations run, are no stream of requests that fail; short enough that whoever installs an autoscaler and plans at once
/// is not told for minutes that it is not there.
const ABSENT_FOR: SignedDuration = SignedDuration::from_secs(10);
/// How the API server begins to say that what converts a kind between its versions does not work. That lasts until
/// somebody mends it, and is no reason to plan and to rotate nothing at all, nodes of other providers included.
const UNCONVERTED: &str = "conversion webhook for ";
/// How often a list whose pages have expired is begun anew.
const ATTEMPTS: usize = 3;

/// Reads what providers keep. One for plans and for rotations, so that what is not installed is asked for once.
#[derive(Clone)]
pub struct Reader {
    client: Client,
    clock: Clock,
    /// The paths of kinds that are not served, and until when that is believed.
    absent: Arc<Mutex<BTreeMap<String, Timestamp>>>,
    /// What the agent was told of autoscaled groups, and remembers of them.
    groups: (Arc<Settings>, Remembered),
    /// Where Cluster API's objects are, and the nodes that say which.
    management: Option<(Management, Cache)>,
}

/// As much of a ConfigMap as is read.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Map {
    data: MapData,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct MapData {
    status: Option<String>,
}

/// Why the providers' objects cannot be had.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// The API server did not answer as expected.
    #[error("{path}: {}", said(source))]
    Api {
        /// What was asked for.
        path: String,
        /// Why it failed.
        #[source]
        source: kube::Error,
    },
    /// The answer is no list.
    #[error("{path}: {source}")]
    Decode {
        /// What was asked for.
        path: String,
        /// Why it cannot be read.
        #[source]
        source: serde_json::Error,
    },
    /// The request cannot be built.
    #[error("{path}: {source}")]
    Request {
        /// What was asked for.
        path: String,
        /// Why not.
        #[source]
        source: http::Error,
    },
}

/// What is asked about. Karpenter's objects are read whole; of Cluster API's only those that this needs.
#[derive(Clone, Copy, Debug, Default)]
pub struct About<'a> {
    /// Names of nodes.
    pub nodes: &'a [&'a str],
    /// What is being taken away: its node may be gone.
    pub removal: Option<&'a Removal>,
    /// What was ordered.
    pub order: Option<&'a Order>,
}

// kube's client has no `Debug`.
impl std::fmt::Debug for Reader {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Reader").field("absent", &self.absent).finish_non_exhaustive()
    }
}

impl Reader {
    /// A reader of the cluster that the client belongs to.
    #[must_use]
    pub fn new(client: Client, clock: Clock) -> Self {
        Self { client, clock, absent: Arc::default(), groups: Default::default(), management: None }
    }

    /// With what the agent was told of autoscaled groups, and remembers of them.
    #[must_use]
    pub fn with_groups(self, settings: Arc<Settings>, remembered: Remembered) -> Self {
        Self { groups: (settings, remembered), ..self }
    }

    /// What is known without asking anybody.
    #[must_use]
    pub fn known(&self) -> ProviderObjects {
        let (settings, remembered) = &self.groups;
        let (settings, templates) = (Arc::clone(settings), remembered.get());
        let autoscaler = cluster_autoscaler::Objects { settings, templates, ..Default::default() };
        ProviderObjects { autoscaler, ..ProviderObjects::default() }
    }

    /// The same, that reads Cluster API's objects where they are. The cache tells which Machine a node has.
    #[must_use]
    pub fn with_management(self, management: Option<Management>, cache: Cache) -> Self {
        Self { management: management.map(|management| (management, cache)), ..self }
    }

    /// The way to the management cluster, where one was named.
    #[must_use]
    pub fn management(&self) -> Option<&Management> {
        self.management.as_ref().map(|(management, _)| management)
    }

    /// What rotations have on loan of the MachineDeployments behind the nodes that are there.
    ///
    /// # Errors
    ///
    /// The management cluster's.
    pub(crate) async fn loans(&self) -> Result<Vec<(cluster_api::Key, String)>, cluster_api::ManagementError> {
        let Some((management, cache)) = &self.management else { return Ok(Vec::new()) };
        let clusters = cache.read().nodes().filter_map(|node| cluster_api::cluster_of(node)).collect();
        management.loans(&clusters).await
    }

    /// Reads what is about no node in particular.
    ///
    /// # Errors
    ///
    /// As [`Self::read_about`].
    pub async fn read(&self) -> Result<ProviderObjects, ReadError> {
        self.read_about(&About::default()).await
    }

    /// Reads what is about these. What is not installed, or may not be read, says so in its place.
    ///
    /// # Errors
    ///
    /// The API server's, of other kinds.
    pub async fn read_about(&self, about: &About<'_>) -> Result<ProviderObjects, ReadError> {
        let cluster_api = async { Ok(self.cluster_api(about).await) };
        let (pools, claims, status, cluster_api) = futures::try_join!(
            self.list(karpenter::POOLS),
            self.list(karpenter::CLAIMS),
            self.autoscaler_status(),
            cluster_api
        )?;
        let mut objects = self.known();
        objects.karpenter = karpenter::Objects { pools, claims };
        objects.autoscaler.status = status;
        objects.cluster_api = cluster_api;
        Ok(objects)
    }

    async fn cluster_api(&self, about: &About<'_>) -> cluster_api::Objects {
        let Some((management, cache)) = &self.management else { return cluster_api::Objects::default() };
        let nodes: Vec<_> = {
            let state = cache.read();
            about.nodes.iter().filter_map(|name| state.node(name).cloned()).collect()
        };
        let nodes: Vec<_> = nodes.iter().map(|node| &**node).collect();
        let machine = about.removal.and_then(cluster_api::machine_removed);
        management.read(&nodes, machine, about.order.map(cluster_api::ordered_of)).await
    }

    /// What cluster-autoscaler tells of its groups.
    async fn autoscaler_status(&self) -> Result<Status, ReadError> {
        let (namespace, name) = &self.groups.0.status;
        let path = format!("/api/v1/namespaces/{}/configmaps/{}", escaped(namespace), escaped(name));
        let now = self.clock.now();
        if self.is_absent(&path, now) {
            return Ok(Status::Absent);
        }
        match self.get(&path, "").await {
            Ok(text) => {
                let map: Map = serde_json::from_str(&text).map_err(|source| ReadError::Decode { path, source })?;
                Ok(map
                    .data
                    .status
                    .map_or_else(|| Status::Unreadable("it has no key status".to_owned()), |it| Status::parse(&it)))
            }
            Err(ReadError::Api { source: kube::Error::Api(status), path }) => match status.code {
                404 => {
                    self.note_absent(path, now);
                    Ok(Status::Absent)
                }
                403 => Ok(Status::Forbidden(status.message.clone())),
                _ => Err(ReadError::Api { path, source: kube::Error::Api(status) }),
            },
            Err(error) => Err(error),
        }
    }

    fn is_absent(&self, path: &str, now: Timestamp) -> bool {
        self.absent.lock().get(path).is_some_and(|until| *until > now)
    }

    fn note_absent(&self, path: String, now: Timestamp) {
        let until = now.saturating_add(ABSENT_FOR).unwrap_or(Timestamp::MAX);
        self.absent.lock().insert(path, until);
    }

    /// Lists one kind, in pages.
    async fn list<T: DeserializeOwned>(&self, path: &str) -> Result<Listing<T>, ReadError> {
        let now = self.clock.now();
        if self.is_absent(path, now) {
            return Ok(Listing::Absent);
        }
        for attempt in 1.. {
            match self.pages(path).await {
                Err(ReadError::Api { source: kube::Error::Api(status), path }) => match status.code {
                    404 => {
                        self.note_absent(path, now);
                        return Ok(Listing::Absent);
                    }
                    403 => return Ok(Listing::Forbidden(status.message.clone())),
                    500 if status.message.contains(UNCONVERTED) => {
                        return Ok(Listing::Unconverted(status.message.clone()));
                    }
                    // The list's snapshot was compacted between two pages.
                    410 if attempt < ATTEMPTS => {}
                    _ => return Err(ReadError::Api { path, source: kube::Error::Api(status) }),
                },
                done => return done,
            }
        }
        Ok(Listing::Absent)
    }

    async fn pages<T: DeserializeOwned>(&self, path: &str) -> Result<Listing<T>, ReadError> {
        let mut listing = Listing::default();
        let mut next = None;
        loop {
            let from = next.map_or_else(String::new, |next: String| format!("&continue={}", escaped(&next)));
            let text = self.get(path, &format!("?limit={PAGE}{from}")).await?;
            let page: Page<'_> =
                serde_json::from_str(&text).map_err(|source| ReadError::Decode { path: path.to_owned(), source })?;
            next = listing.take(&page);
            if next.is_none() {
                return Ok(listing);
            }
        }
    }

    async fn get(&self, path: &str, query: &str) -> Result<String, ReadError> {
        let request = Request::get(format!("{path}{query}")).body(Vec::new());
        let request = request.map_err(|source| ReadError::Request { path: path.to_owned(), source })?;
        let answer = self.client.request_text(request).await;
        answer.map_err(|source| ReadError::Api { path: path.to_owned(), source })
    }
}

#[cfg(test)]
mod tests;
