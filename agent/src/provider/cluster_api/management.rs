//! The management cluster: where Cluster API's objects are, usually not the cluster that the agent runs in.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use futures::future::try_join_all;
use http::Request;
use kube::Client;
use kube::config::{KubeConfigOptions, Kubeconfig};
use parking_lot::Mutex;
use serde::de::DeserializeOwned;

use super::objects::{self, Cluster, GROUP, Key, List, Objects, Reach, Wire};
use crate::cache::Node;
use crate::client::said;

/// The versions that are understood, the newest first.
const VERSIONS: [&str; 2] = ["v1beta2", "v1beta1"];
/// How long a read may take in all: plans wait for it.
pub(super) const PATIENCE: Duration = Duration::from_secs(5);

/// The way to the management cluster. Clones share it.
#[derive(Clone)]
pub struct Management {
    way: Way,
    /// The version that was served last.
    version: Arc<Mutex<Option<&'static str>>>,
}

#[derive(Clone)]
enum Way {
    Open(Client),
    /// A mounted Secret is exchanged in place when its credentials are renewed: the client is made anew where the text
    /// has changed.
    File {
        path: PathBuf,
        opened: Arc<Mutex<Option<(String, Client)>>>,
    },
}

/// Why the management cluster did not answer as expected.
#[derive(Debug, thiserror::Error)]
pub enum ManagementError {
    /// The kubeconfig file cannot be read.
    #[error("read {path}: {source}")]
    File {
        /// The file.
        path: String,
        /// Why not.
        #[source]
        source: std::io::Error,
    },
    /// The file is no kubeconfig that can be used.
    #[error("use {path}: {message}")]
    Kubeconfig {
        /// The file.
        path: String,
        /// Why not.
        message: String,
    },
    /// A request failed.
    #[error("{path}: {}", said(source))]
    Api {
        /// What was asked for.
        path: String,
        /// Why it failed.
        #[source]
        source: kube::Error,
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
    /// The answer cannot be read.
    #[error("{path}: {source}")]
    Decode {
        /// What was asked for.
        path: String,
        /// Why not.
        #[source]
        source: serde_json::Error,
    },
    /// An object that is to be changed does not exist.
    #[error("{0} does not exist")]
    Missing(String),
    /// Neither version is served.
    #[error("it serves neither v1beta2 nor v1beta1 of {GROUP}: Cluster API is not installed there")]
    NotInstalled,
    /// It takes too long.
    #[error("no answer within {0:?}")]
    TimedOut(Duration),
    /// Others write the object again and again.
    #[error("{0} is changed by others at every try")]
    Contended(String),
    /// What was ordered has become a node that nobody has judged yet.
    #[error("every Machine of MachineDeployment {0} has its node: the one that was ordered has just joined")]
    Joined(String),
}

// kube's client has no `Debug`.
impl std::fmt::Debug for Management {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let way: &dyn std::fmt::Debug = match &self.way {
            Way::Open(_) => &"a client",
            Way::File { path, .. } => path,
        };
        f.debug_struct("Management").field("way", way).field("version", &self.version).finish()
    }
}

// === impl Management ===

impl Management {
    /// By a kubeconfig file, which is read again whenever it is needed.
    #[must_use]
    pub fn file(path: &Path) -> Self {
        Self { way: Way::File { path: path.to_owned(), opened: Arc::default() }, version: Arc::default() }
    }

    /// By a client that is there already.
    #[must_use]
    pub fn client(client: Client) -> Self {
        Self { way: Way::Open(client), version: Arc::default() }
    }

    /// Reads what the nodes need, and one more Machine, and the Cluster of one more MachineDeployment. Where that fails,
    /// the objects say why.
    pub async fn read(&self, nodes: &[&Node], machine: Option<Key>, deployment: Option<Key>) -> Objects {
        let read = tokio::time::timeout(PATIENCE, self.try_read(nodes, machine, deployment)).await;
        match read.unwrap_or(Err(ManagementError::TimedOut(PATIENCE))) {
            Ok(objects) => objects,
            Err(error) => Objects { reach: Reach::Failed(error.to_string()), ..Objects::default() },
        }
    }

    async fn try_read(
        &self,
        nodes: &[&Node],
        machine: Option<Key>,
        deployment: Option<Key>,
    ) -> Result<Objects, ManagementError> {
        let mut wanted: BTreeSet<Key> = nodes.iter().filter_map(|node| objects::cluster_of(node)).collect();
        let machines: BTreeSet<Key> =
            nodes.iter().filter_map(|node| objects::machine_of(node)).chain(machine).collect();
        let mut objects = Objects { reach: Reach::Read, ..Objects::default() };
        let Some(first) = machines.first().or(deployment.as_ref()) else { return Ok(objects) };
        let client = self.open().await?;
        let version = self.version(&client, &first.namespace).await?;
        objects.version = version.to_owned();
        if let Some(key) = deployment {
            let found: Option<Wire> = get(&client, &path(version, "machinedeployments", &key)).await?;
            wanted.extend(found.map(|found| Key::new(&key.namespace, &found.deployment().cluster)));
        }

        let clusters = try_join_all(wanted.into_iter().map(async |key| {
            let found: Option<Wire> = get(&client, &path(version, "clusters", &key)).await?;
            let members = format!("?labelSelector=cluster.x-k8s.io%2Fcluster-name%3D{}", key.name);
            let list = async |kind: &str| {
                let path = format!("{}{members}", all(version, kind, &key.namespace));
                let found: Option<List<Wire>> = get(&client, &path).await?;
                Ok::<_, ManagementError>(found.ok_or_else(|| self.forget_version())?.items)
            };
            let (deployments, sets) = (list("machinedeployments").await?, list("machinesets").await?);
            Ok::<_, ManagementError>((key, found.map(Wire::cluster), deployments, sets))
        }));
        let machines = try_join_all(machines.into_iter().map(async |key| {
            let found: Option<Wire> = get(&client, &path(version, "machines", &key)).await?;
            Ok::<_, ManagementError>(found.map(|machine| (key, machine.machine())))
        }));
        let (clusters, machines) = futures::try_join!(clusters, machines)?;
        for (cluster, found, deployments, sets) in clusters {
            let key = |wire: &Wire| Key::new(&cluster.namespace, &wire.metadata.name);
            objects.sets.extend(sets.iter().map(|set| (key(set), set.set_owner())));
            objects.deployments.extend(deployments.into_iter().map(|wire| (key(&wire), wire.deployment())));
            // One that is gone takes everything along: nothing of it is acted on.
            let found = found.unwrap_or(Cluster { paused: true, ..Cluster::default() });
            objects.clusters.insert(cluster, found);
        }
        objects.machines = machines.into_iter().flatten().collect();
        Ok(objects)
    }

    /// The version that is served, asked for by a list: an object that is missing is answered like a version that is.
    pub(super) async fn version(&self, client: &Client, namespace: &str) -> Result<&'static str, ManagementError> {
        if let Some(known) = *self.version.lock() {
            return Ok(known);
        }
        for version in VERSIONS {
            let one = format!("{}?limit=1", all(version, "machinedeployments", namespace));
            if get::<List<Wire>>(client, &one).await?.is_some() {
                *self.version.lock() = Some(version);
                return Ok(version);
            }
        }
        Err(ManagementError::NotInstalled)
    }

    /// Asks for the version anew the next time: the one that was served is not any more.
    fn forget_version(&self) -> ManagementError {
        *self.version.lock() = None;
        ManagementError::NotInstalled
    }

    /// A client that uses the credentials as they are now.
    pub(super) async fn open(&self) -> Result<Client, ManagementError> {
        let (path, opened) = match &self.way {
            Way::Open(client) => return Ok(client.clone()),
            Way::File { path, opened } => (path, opened),
        };
        let name = path.display().to_string();
        let text = std::fs::read_to_string(path);
        let text = text.map_err(|source| ManagementError::File { path: name.clone(), source })?;
        if let Some((_, client)) = opened.lock().as_ref().filter(|(read, _)| *read == text) {
            return Ok(client.clone());
        }
        let refuse = |message: String| ManagementError::Kubeconfig { path: name.clone(), message };
        // From the file again: paths in it are relative to it.
        let kubeconfig = Kubeconfig::read_from(path).map_err(|error| refuse(error.to_string()))?;
        let config = kube::Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await;
        let config = config.map_err(|error| refuse(error.to_string()))?;
        let client = crate::client::production(config).map_err(|error| refuse(error.to_string()))?;
        *opened.lock() = Some((text, client.clone()));
        Ok(client)
    }
}

/// The path of all objects of a kind in a namespace.
pub(super) fn all(version: &str, kind: &str, namespace: &str) -> String {
    format!("/apis/{GROUP}/{version}/namespaces/{namespace}/{kind}")
}

/// The path of an object.
pub(super) fn path(version: &str, kind: &str, key: &Key) -> String {
    format!("{}/{}", all(version, kind, &key.namespace), key.name)
}

/// Reads what is at a path; `None`: nothing.
pub(super) async fn get<T: DeserializeOwned>(client: &Client, path: &str) -> Result<Option<T>, ManagementError> {
    let request = Request::get(path).body(Vec::new());
    let request = request.map_err(|source| ManagementError::Request { path: path.to_owned(), source })?;
    match client.request_text(request).await {
        Ok(text) => {
            let read = serde_json::from_str(&text);
            read.map(Some).map_err(|source| ManagementError::Decode { path: path.to_owned(), source })
        }
        Err(kube::Error::Api(status)) if status.code == 404 => Ok(None),
        Err(source) => Err(ManagementError::Api { path: path.to_owned(), source }),
    }
}

#[cfg(test)]
pub(super) mod tests;
