//! Nodes that exist only as objects; kwok keeps them Ready.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::Result;
use k8s_openapi::api::core::v1::{Node, NodeCondition, NodeSpec, NodeStatus, NodeSystemInfo, Pod, Taint};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use kube::api::{Api, ListParams, ObjectMeta, Patch, PatchParams, PostParams};
use kube::{Client, ResourceExt};
use serde_json::json;

use super::wait::eventually;

/// On a node: seconds from its creation until it is Ready. On a Pod: from its bind.
pub(crate) const READY_AFTER: &str = "kubectl-rotate.dev/test-ready-after";

/// The taint that a node carries until the controller manager has seen it Ready.
const NOT_READY: &str = "node.kubernetes.io/not-ready";

/// As many seconds as no test lasts: some years.
const NEVER: &str = "100000000";

/// A node to be registered: 4 CPU, 16 GiB, 110 Pods, zone `a`, Ready at once, unless said otherwise.
#[derive(Clone)]
pub(crate) struct FakeNode {
    name: String,
    allocatable: BTreeMap<String, Quantity>,
    labels: BTreeMap<String, String>,
    annotations: BTreeMap<String, String>,
    taints: Vec<Taint>,
}

/// Waits until Pods may be scheduled there: Ready, and free of the taint that a new node carries.
pub(crate) async fn ready(client: &Client, name: &str, within: Duration) -> Result<Node> {
    let nodes = Api::<Node>::all(client.clone());
    eventually(&format!("node {name} to get ready"), within, async || {
        Ok(nodes.get_opt(name).await?.filter(|node| is_ready(node) && !is_tainted(node, NOT_READY)))
    })
    .await
}

/// Makes a node unreachable for good, as if its machine had stopped. What the controller manager would write once the
/// lease has run out is written here, since these nodes have none: Ready=Unknown, and the Pods there not Ready.
pub(crate) async fn lose(client: &Client, name: &str) -> Result<()> {
    let nodes = Api::<Node>::all(client.clone());
    let options = PatchParams::default();
    let hold = json!({"metadata": {"annotations": {READY_AFTER: NEVER}}});
    nodes.patch(name, &options, &Patch::Merge(&hold)).await?;
    let unknown = json!({"type": "Ready", "status": "Unknown", "reason": "NodeStatusUnknown"});
    let lost = json!({"status": {"conditions": [unknown]}});
    nodes.patch_status(name, &options, &Patch::Strategic(&lost)).await?;

    let here = ListParams::default().fields(&format!("spec.nodeName={name}"));
    let not_ready = json!({"status": {"conditions": [{"type": "Ready", "status": "False", "reason": "NodeLost"}]}});
    for pod in Api::<Pod>::all(client.clone()).list(&here).await?.items {
        let pods = Api::<Pod>::namespaced(client.clone(), &pod.namespace().unwrap_or_default());
        pods.patch_status(&pod.name_any(), &options, &Patch::Strategic(&not_ready)).await?;
    }
    Ok(())
}

/// Whether the node's condition says so.
pub(crate) fn is_ready(node: &Node) -> bool {
    let conditions = node.status.iter().flat_map(|status| status.conditions.iter().flatten());
    conditions.into_iter().any(|condition| condition.type_ == "Ready" && condition.status == "True")
}

/// Whether the node carries a taint with this key.
pub(crate) fn is_tainted(node: &Node, key: &str) -> bool {
    let taints = node.spec.iter().flat_map(|spec| spec.taints.iter().flatten());
    taints.into_iter().any(|taint| taint.key == key)
}

// === impl FakeNode ===

impl FakeNode {
    /// A node of this name, and of this hostname.
    pub(crate) fn new(name: &str) -> Self {
        let node = Self {
            name: name.to_owned(),
            allocatable: BTreeMap::new(),
            labels: BTreeMap::new(),
            annotations: BTreeMap::new(),
            taints: Vec::new(),
        };
        node.renamed(name)
            .allocatable("cpu", "4")
            .allocatable("memory", "16Gi")
            .allocatable("ephemeral-storage", "100Gi")
            .allocatable("pods", "110")
            .zone("a")
            .label("kubernetes.io/os", "linux")
            .label("kubernetes.io/arch", "amd64")
            .annotation("kwok.x-k8s.io/node", "fake")
    }

    /// The same node under another name.
    pub(crate) fn renamed(mut self, name: &str) -> Self {
        self.name = name.to_owned();
        self.label("kubernetes.io/hostname", name)
    }

    /// How much of a resource, ordinary or extended, it has for Pods.
    pub(crate) fn allocatable(mut self, resource: &str, quantity: &str) -> Self {
        self.allocatable.insert(resource.to_owned(), Quantity(quantity.to_owned()));
        self
    }

    /// Its zone.
    pub(crate) fn zone(self, zone: &str) -> Self {
        self.label("topology.kubernetes.io/zone", zone)
    }

    /// One more label.
    pub(crate) fn label(mut self, key: &str, value: &str) -> Self {
        self.labels.insert(key.to_owned(), value.to_owned());
        self
    }

    /// One more annotation.
    pub(crate) fn annotation(mut self, key: &str, value: &str) -> Self {
        self.annotations.insert(key.to_owned(), value.to_owned());
        self
    }

    /// One more taint.
    pub(crate) fn taint(mut self, key: &str, value: &str, effect: &str) -> Self {
        self.taints.push(Taint {
            key: key.to_owned(),
            value: Some(value.to_owned()),
            effect: effect.to_owned(),
            ..Taint::default()
        });
        self
    }

    /// How long it boots, to the second: a creationTimestamp has no finer part, so that it may be up to one second less.
    pub(crate) fn ready_after(self, boot: Duration) -> Self {
        self.annotation(READY_AFTER, &boot.as_secs().to_string())
    }

    /// The labels it will carry.
    pub(crate) fn labels(&self) -> &BTreeMap<String, String> {
        &self.labels
    }

    /// How much it will have of a resource, as text.
    pub(crate) fn quantity(&self, resource: &str) -> &str {
        self.allocatable.get(resource).map_or("0", |quantity| &quantity.0)
    }

    /// The object as a kubelet registers it: with Ready=False. Without any condition the controller manager lifts the
    /// not-ready taint, and Pods start on a node that still boots.
    pub(crate) fn object(&self) -> Node {
        let booting = NodeCondition {
            type_: "Ready".to_owned(),
            status: "False".to_owned(),
            reason: Some("KubeletNotReady".to_owned()),
            message: Some("the node is booting".to_owned()),
            ..NodeCondition::default()
        };
        let system = NodeSystemInfo {
            architecture: "amd64".to_owned(),
            kubelet_version: "v1.36.3".to_owned(),
            operating_system: "linux".to_owned(),
            ..NodeSystemInfo::default()
        };
        Node {
            metadata: ObjectMeta {
                name: Some(self.name.clone()),
                labels: Some(self.labels.clone()),
                annotations: Some(self.annotations.clone()),
                ..ObjectMeta::default()
            },
            spec: Some(NodeSpec {
                provider_id: Some(format!("test:///{}", self.name)),
                taints: Some(self.taints.clone()),
                ..NodeSpec::default()
            }),
            status: Some(NodeStatus {
                allocatable: Some(self.allocatable.clone()),
                capacity: Some(self.allocatable.clone()),
                conditions: Some(vec![booting]),
                node_info: Some(system),
                ..NodeStatus::default()
            }),
        }
    }

    /// Registers it.
    pub(crate) async fn create(&self, client: &Client) -> Result<Node> {
        let nodes = Api::<Node>::all(client.clone());
        Ok(nodes.create(&PostParams::default(), &self.object()).await?)
    }

    /// Registers it and waits until Pods may be scheduled there.
    pub(crate) async fn create_ready(&self, client: &Client) -> Result<Node> {
        let created = self.create(client).await?;
        ready(client, &created.name_any(), Duration::from_secs(30)).await
    }
}
