//! Cluster API's objects, trimmed to what is decided on.
//!
//! ```text
//! Cluster ─▶ MachineDeployment ─▶ MachineSet ─▶ Machine ─▶ Node (annotations: the Machine, its owner, the Cluster)
//! ```
//!
//! What is read is the same in `v1beta2` and `v1beta1`.

use std::collections::{BTreeMap, BTreeSet};

use serde::Deserialize;

use crate::cache::Node;

/// The API group.
pub(super) const GROUP: &str = "cluster.x-k8s.io";
/// On a node: the name of its Cluster.
pub const CLUSTER_NAME: &str = "cluster.x-k8s.io/cluster-name";
/// On a node: the namespace of its Cluster, and of its Machine.
pub const CLUSTER_NAMESPACE: &str = "cluster.x-k8s.io/cluster-namespace";
/// On a node: the name of what owns its Machine, a MachineSet as a rule.
pub const OWNER_NAME: &str = "cluster.x-k8s.io/owner-name";
/// On a node: the kind of what owns its Machine.
pub const OWNER_KIND: &str = "cluster.x-k8s.io/owner-kind";
/// On a Machine: it goes first when its MachineSet is scaled down. Whatever its value is.
pub(super) const DELETE_MACHINE: &str = "cluster.x-k8s.io/delete-machine";
/// On a MachineDeployment: the rotations that have a replica of it on loan, `id,id`. Whoever has one here gives back one,
/// and takes itself off in the same write, so that nothing is ordered or given back twice.
pub(super) const ORDERED_BY: &str = "kubectl-rotate.dev/ordered-by";
const PAUSED: &str = "cluster.x-k8s.io/paused";
const MINIMUM: &str = "cluster.x-k8s.io/cluster-api-autoscaler-node-group-min-size";
const MAXIMUM: &str = "cluster.x-k8s.io/cluster-api-autoscaler-node-group-max-size";
const CONTROL_PLANE: &str = "cluster.x-k8s.io/control-plane";
const TOPOLOGY_OWNED: &str = "topology.cluster.x-k8s.io/owned";
const TOPOLOGY_NAME: &str = "topology.cluster.x-k8s.io/deployment-name";

/// Namespace and name in the management cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key {
    /// The namespace.
    pub namespace: String,
    /// The name.
    pub name: String,
}

/// What is known of the management cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Reach {
    /// None was named to the agent.
    #[default]
    NotConfigured,
    /// It could not be read, because of this.
    Failed(String),
    /// The rest of [`Objects`] is what it holds.
    Read,
}

/// The objects that the nodes asked about need.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Objects {
    /// Whether they could be read.
    pub reach: Reach,
    /// The version of the API that serves them: `v1beta2` or `v1beta1`.
    pub version: String,
    /// The Clusters of the nodes asked about.
    pub clusters: BTreeMap<Key, Cluster>,
    /// All MachineDeployments of those Clusters.
    pub deployments: BTreeMap<Key, Deployment>,
    /// For every MachineSet of those Clusters the name of the MachineDeployment that owns it; `None`: it stands alone.
    pub sets: BTreeMap<Key, Option<String>>,
    /// The Machines of the nodes asked about; one that is missing here does not exist.
    pub machines: BTreeMap<Key, Machine>,
}

/// A Cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Cluster {
    /// Nothing of it is acted on by Cluster API's controllers.
    pub paused: bool,
    /// MachineDeployments whose replicas its topology says, by their name in it.
    pub fixed: BTreeSet<String>,
}

/// A MachineDeployment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Deployment {
    /// The name of its Cluster.
    pub cluster: String,
    /// `spec.replicas`.
    pub replicas: u32,
    /// How many of its Machines are of its present template.
    pub up_to_date: u32,
    /// It is paused itself.
    pub paused: bool,
    /// The sizes between which an autoscaler keeps it, where it is one's.
    pub bounds: Option<(u32, u32)>,
    /// Its name in its Cluster's topology, where that owns it.
    pub topology: Option<String>,
    /// Rotations that have a replica on loan.
    pub ordered_by: BTreeSet<String>,
}

/// A Machine.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Machine {
    /// Its UID.
    pub uid: String,
    /// `status.phase`.
    pub phase: String,
    /// Kind and name of its controlling owner.
    pub owner: Option<(String, String)>,
    /// It runs the control plane.
    pub control_plane: bool,
    /// It is paused itself.
    pub paused: bool,
    /// When its deletion was asked for.
    pub deleted: Option<String>,
    /// The value of its mark to be the one that goes.
    pub marked: Option<String>,
}

// === impl Key ===

impl Key {
    /// A key of these.
    #[must_use]
    pub fn new(namespace: &str, name: &str) -> Self {
        Self { namespace: namespace.to_owned(), name: name.to_owned() }
    }
}

impl std::fmt::Display for Key {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}/{}", self.namespace, self.name)
    }
}

/// Where the node's Machine is; `None`: the node does not say.
pub(super) fn machine_of(node: &Node) -> Option<Key> {
    Some(Key::new(
        node.annotations.get(CLUSTER_NAMESPACE)?,
        node.annotations.get(rotate_shared::names::CLUSTER_API_MACHINE)?,
    ))
}

/// Where the node's Cluster is.
pub(super) fn cluster_of(node: &Node) -> Option<Key> {
    Some(Key::new(node.annotations.get(CLUSTER_NAMESPACE)?, node.annotations.get(CLUSTER_NAME)?))
}

// === impl Objects ===

impl Objects {
    /// The MachineDeployment that the node belongs to, as its annotations and the MachineSets say.
    #[must_use]
    pub fn deployment_of(&self, node: &Node) -> Option<Key> {
        if node.annotations.get(OWNER_KIND).map(|kind| &**kind) != Some("MachineSet") {
            return None;
        }
        let namespace = node.annotations.get(CLUSTER_NAMESPACE)?;
        let set = Key::new(namespace, node.annotations.get(OWNER_NAME)?);
        Some(Key::new(namespace, self.sets.get(&set)?.as_deref()?))
    }

    /// The same, with the Machine of this node alone.
    pub(in crate::provider) fn about(&self, node: &Node) -> Self {
        let machine = machine_of(node);
        let mut about = self.clone();
        about.machines.retain(|key, _| Some(key) == machine.as_ref());
        about
    }

    /// Why nobody would act on what a MachineDeployment wants; `None`: they would.
    #[must_use]
    pub fn paused(&self, key: &Key, deployment: &Deployment) -> Option<String> {
        let cluster = Key::new(&key.namespace, &deployment.cluster);
        if self.clusters.get(&cluster).is_some_and(|cluster| cluster.paused) {
            return Some(format!("Cluster {cluster} is paused"));
        }
        deployment.paused.then(|| "it is paused".to_owned())
    }

    /// Whether the Cluster's topology says how many replicas it has, and would take an order back.
    #[must_use]
    pub fn is_fixed(&self, key: &Key, deployment: &Deployment) -> bool {
        let Some(topology) = &deployment.topology else { return false };
        let cluster = self.clusters.get(&Key::new(&key.namespace, &deployment.cluster));
        cluster.is_none_or(|cluster| cluster.fixed.contains(topology))
    }
}

// === on the wire ===

/// A list of objects.
#[derive(Debug, Deserialize)]
pub(super) struct List<T> {
    pub(super) items: Vec<T>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct Meta {
    pub(super) name: String,
    pub(super) uid: String,
    pub(super) resource_version: String,
    pub(super) creation_timestamp: String,
    pub(super) deletion_timestamp: Option<String>,
    pub(super) annotations: BTreeMap<String, String>,
    labels: BTreeMap<String, String>,
    owner_references: Vec<OwnerReference>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct OwnerReference {
    api_version: String,
    kind: String,
    name: String,
}

/// A Cluster, MachineDeployment, MachineSet or Machine.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Wire {
    pub(super) metadata: Meta,
    pub(super) spec: Spec,
    pub(super) status: Status,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct Spec {
    cluster_name: String,
    pub(super) replicas: Option<u32>,
    paused: bool,
    topology: Option<Topology>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Topology {
    workers: Workers,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Workers {
    machine_deployments: Vec<Worker>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Worker {
    name: String,
    replicas: Option<u32>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct Status {
    phase: String,
    /// `v1beta2`.
    up_to_date_replicas: Option<u32>,
    /// `v1beta1`.
    updated_replicas: Option<u32>,
    pub(super) node_ref: Option<NodeRef>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct NodeRef {
    pub(super) name: String,
}

// === impl Wire ===

impl Wire {
    /// The owner of this kind in Cluster API's own group.
    fn owner(&self, kind: &str) -> Option<&str> {
        let ours = |owner: &&OwnerReference| owner.kind == kind && owner.api_version.starts_with("cluster.x-k8s.io/");
        self.metadata.owner_references.iter().find(ours).map(|owner| &*owner.name)
    }

    /// Paused by its own field or annotation.
    fn is_paused(&self) -> bool {
        self.spec.paused || self.metadata.annotations.contains_key(PAUSED)
    }

    pub(super) fn cluster(self) -> Cluster {
        let paused = self.is_paused();
        let workers = self.spec.topology.map(|topology| topology.workers.machine_deployments).unwrap_or_default();
        let fixed = workers.into_iter().filter(|worker| worker.replicas.is_some()).map(|worker| worker.name).collect();
        Cluster { paused, fixed }
    }

    pub(super) fn set_owner(&self) -> Option<String> {
        self.owner("MachineDeployment").map(ToOwned::to_owned)
    }

    pub(super) fn deployment(self) -> Deployment {
        let annotations = &self.metadata.annotations;
        let size = |key: &str| annotations.get(key)?.parse().ok();
        let owned = self.metadata.labels.contains_key(TOPOLOGY_OWNED);
        Deployment {
            paused: self.is_paused(),
            replicas: self.spec.replicas.unwrap_or(1),
            up_to_date: self.status.up_to_date_replicas.or(self.status.updated_replicas).unwrap_or(0),
            bounds: size(MINIMUM).zip(size(MAXIMUM)),
            topology: owned.then(|| self.metadata.labels.get(TOPOLOGY_NAME).cloned().unwrap_or_default()),
            ordered_by: orders(annotations),
            cluster: self.spec.cluster_name,
        }
    }

    pub(super) fn machine(self) -> Machine {
        let control_plane = self.metadata.labels.contains_key(CONTROL_PLANE);
        let owner = self.metadata.owner_references.iter().find(|owner| owner.kind != "Cluster");
        Machine {
            paused: self.is_paused(),
            owner: owner.map(|owner| (owner.kind.clone(), owner.name.clone())),
            control_plane,
            phase: self.status.phase,
            deleted: self.metadata.deletion_timestamp,
            marked: self.metadata.annotations.get(DELETE_MACHINE).cloned(),
            uid: self.metadata.uid,
        }
    }
}

/// The rotations that have a replica on loan.
pub(super) fn orders(annotations: &BTreeMap<String, String>) -> BTreeSet<String> {
    let value = annotations.get(ORDERED_BY).map_or("", |value| value);
    value.split(',').filter(|id| !id.is_empty()).map(ToOwned::to_owned).collect()
}
