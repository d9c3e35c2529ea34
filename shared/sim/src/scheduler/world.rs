//! What the scheduler decides on: nodes with their Pods, and what else restricts where Pods go.

use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
};

use serde_json::{Map, Value};

use super::{
    pod::PodInfo,
    volumes::{self, Claim},
};
use crate::{
    kind::Kind,
    object, quantity,
    quantity::Amounts,
    store::{Key, Store},
};

/// A node with what is on it.
#[derive(Clone, Debug)]
pub(crate) struct NodeInfo {
    pub(crate) name: String,
    pub(crate) labels: Map<String, Value>,
    pub(crate) taints: Vec<Value>,
    pub(crate) unschedulable: bool,
    pub(crate) allocatable: Amounts,
    pub(crate) used: Amounts,
    pub(crate) pods: Vec<Arc<PodInfo>>,
}

impl NodeInfo {
    pub(crate) fn of(node: &Value) -> Self {
        Self {
            name: object::name(node).to_owned(),
            labels: object::map(node, "/metadata/labels").cloned().unwrap_or_default(),
            taints: object::list(node, "/spec/taints").to_vec(),
            unschedulable: node["spec"]["unschedulable"] == true,
            allocatable: quantity::amounts(node.pointer("/status/allocatable")),
            used: Amounts::new(),
            pods: Vec::new(),
        }
    }

    fn add(&mut self, pod: Arc<PodInfo>) {
        quantity::add(&mut self.used, &pod.requests);
        self.pods.push(pod);
    }

    fn remove(&mut self, uid: &str) -> Option<Arc<PodInfo>> {
        let at = self.pods.iter().position(|pod| pod.uid == uid)?;
        let pod = self.pods.remove(at);
        for (resource, amount) in &pod.requests {
            *self.used.entry(resource.clone()).or_default() -= amount;
        }
        Some(pod)
    }

    pub(crate) fn label(&self, key: &str) -> Option<&str> {
        self.labels.get(key).and_then(Value::as_str)
    }

    pub(crate) fn free(&self, resource: &str) -> i64 {
        let of = |amounts: &Amounts| amounts.get(resource).copied().unwrap_or(0);
        of(&self.allocatable) - of(&self.used)
    }
}

/// All nodes, and what decides beside them.
#[derive(Clone, Debug, Default)]
pub(crate) struct World {
    pub(crate) nodes: Vec<NodeInfo>,
    pub(crate) namespaces: BTreeMap<String, Map<String, Value>>,
    /// By namespace and name.
    pub(crate) claims: BTreeMap<Key, Claim>,
    /// How many Pods have anti-affinity of their own; where none has, nobody is repelled.
    pub(crate) repelling: usize,
}

/// Read Pods, kept while their objects stay the same.
#[derive(Debug, Default)]
pub(crate) struct Cache {
    pods: HashMap<String, (String, Arc<PodInfo>)>,
}

impl Cache {
    pub(crate) fn info(&mut self, pod: &Value) -> Arc<PodInfo> {
        let (uid, version) = (object::uid(pod), object::version(pod));
        if let Some((kept, info)) = self.pods.get(uid)
            && kept == version
        {
            return info.clone();
        }
        let info = Arc::new(PodInfo::of(pod));
        self.pods.insert(uid.to_owned(), (version.to_owned(), info.clone()));
        info
    }

    pub(crate) fn forget(&mut self, uid: &str) {
        self.pods.remove(uid);
    }
}

impl World {
    /// Nodes in the order of their names, with the Pods bound to them.
    pub(crate) fn of(store: &Store, cache: &mut Cache) -> Self {
        let mut nodes: Vec<NodeInfo> = store.iter(Kind::Node).map(|node| NodeInfo::of(node)).collect();
        nodes.sort_by(|a, b| a.name.cmp(&b.name));
        for pod in store.iter(Kind::Pod) {
            let node = object::node_name(pod);
            if node.is_empty() || object::finished(pod) {
                continue;
            }
            if let Ok(at) = nodes.binary_search_by(|info| info.name.as_str().cmp(node)) {
                nodes[at].add(cache.info(pod));
            }
        }
        let namespaces = store
            .iter(Kind::Namespace)
            .map(|namespace| {
                let labels = object::map(namespace, "/metadata/labels").cloned().unwrap_or_default();
                (object::name(namespace).to_owned(), labels)
            })
            .collect();
        let mut world = Self { nodes, namespaces, claims: volumes::claims(store), repelling: 0 };
        let pods = world.nodes.iter().flat_map(|node| &node.pods);
        world.repelling = pods.filter(|pod| !pod.anti_affinity.is_empty()).count();
        world
    }

    pub(crate) fn position(&self, name: &str) -> Option<usize> {
        self.nodes.iter().position(|node| node.name == name)
    }

    pub(crate) fn add(&mut self, at: usize, pod: Arc<PodInfo>) {
        self.repelling += usize::from(!pod.anti_affinity.is_empty());
        self.nodes[at].add(pod);
    }

    pub(crate) fn remove(&mut self, at: usize, uid: &str) {
        if let Some(pod) = self.nodes[at].remove(uid) {
            self.repelling -= usize::from(!pod.anti_affinity.is_empty());
        }
    }

    /// Has exactly these Pods on a node.
    pub(crate) fn put(&mut self, at: usize, pods: Vec<Arc<PodInfo>>) {
        for pod in std::mem::take(&mut self.nodes[at].pods) {
            self.repelling -= usize::from(!pod.anti_affinity.is_empty());
        }
        self.nodes[at].used.clear();
        for pod in pods {
            self.add(at, pod);
        }
    }

    pub(crate) fn node(&mut self, name: &str) -> Option<&mut NodeInfo> {
        self.nodes.iter_mut().find(|node| node.name == name)
    }

    pub(crate) fn namespace(&self, name: &str) -> Option<&Map<String, Value>> {
        self.namespaces.get(name)
    }
}
