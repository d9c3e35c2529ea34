//! One Pod with its texts borrowed: from the object it is read from, or from a [`Pod`].

use std::borrow::Cow;
use std::sync::Arc;

use jiff::Timestamp;

use super::{Owner, Pod, PodPhase};
use crate::cache::selector::Labels;
use crate::cache::shape::Shape;

/// A Pod as it is decoded: what the index takes in. Fields as in [`Pod`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PodView<'a> {
    /// `metadata.namespace`.
    pub namespace: Cow<'a, str>,
    /// `metadata.name`.
    pub name: Cow<'a, str>,
    /// `metadata.uid`.
    pub uid: Cow<'a, str>,
    /// `metadata.resourceVersion`; `None` where it comes from a [`Pod`], or the object has none.
    pub revision: Option<Cow<'a, str>>,
    /// `metadata.creationTimestamp`.
    pub created: Timestamp,
    /// `metadata.deletionTimestamp`.
    pub deleted: Option<Timestamp>,
    /// `spec.nodeName`.
    pub node: Option<Cow<'a, str>>,
    /// `status.nominatedNodeName`.
    pub nominated: Option<Cow<'a, str>>,
    /// The owner reference with `controller: true`.
    pub owner: Option<Owner<Cow<'a, str>>>,
    /// `status.phase`.
    pub phase: PodPhase,
    /// The Ready condition is True.
    pub ready: bool,
    /// The message of a False `PodScheduled` condition; for placeholders only.
    pub unschedulable: Option<Cow<'a, str>>,
    /// Labels, sorted by key, each key once.
    pub labels: Vec<(Cow<'a, str>, Cow<'a, str>)>,
    /// Names of the PersistentVolumeClaims it mounts (ephemeral ones included), in its namespace.
    pub claims: Vec<Cow<'a, str>>,
    /// What it shares with its siblings.
    pub shape: Shape<Cow<'a, str>>,
}

impl PodView<'_> {
    /// `namespace/name`.
    #[must_use]
    pub fn path(&self) -> String {
        format!("{}/{}", self.namespace, self.name)
    }

    /// The value of a label.
    #[must_use]
    pub fn label(&self, key: &str) -> Option<&str> {
        self.labels.iter().find(|(found, _)| found == key).map(|(_, value)| &**value)
    }

    /// The labels by themselves.
    #[must_use]
    pub fn to_labels(&self) -> Labels {
        Labels::from_sorted(self.labels.iter().map(|(key, value)| (&**key, &**value)))
    }

    /// The Pod with texts of its own.
    #[must_use]
    pub fn to_pod(&self) -> Pod {
        Pod {
            namespace: Arc::from(&*self.namespace),
            name: Arc::from(&*self.name),
            uid: Arc::from(&*self.uid),
            created: self.created,
            deleted: self.deleted,
            node: self.node.as_deref().map(Arc::from),
            nominated: self.nominated.as_deref().map(Arc::from),
            owner: self.owner.as_ref().map(|owner| owner.map(Arc::from)),
            phase: self.phase,
            ready: self.ready,
            unschedulable: self.unschedulable.as_deref().map(Arc::from),
            labels: Arc::new(self.to_labels()),
            claims: self.claims.iter().map(|claim| Box::from(&**claim)).collect(),
            shape: Arc::new(self.shape.map(Box::from)),
        }
    }
}

impl Pod {
    /// The Pod with its texts borrowed.
    #[must_use]
    pub fn view(&self) -> PodView<'_> {
        PodView {
            namespace: Cow::Borrowed(&self.namespace),
            name: Cow::Borrowed(&self.name),
            uid: Cow::Borrowed(&self.uid),
            revision: None,
            created: self.created,
            deleted: self.deleted,
            node: self.node.as_deref().map(Cow::Borrowed),
            nominated: self.nominated.as_deref().map(Cow::Borrowed),
            owner: self.owner.as_ref().map(|owner| owner.map(Cow::Borrowed)),
            phase: self.phase,
            ready: self.ready,
            unschedulable: self.unschedulable.as_deref().map(Cow::Borrowed),
            labels: self.labels.iter().map(|(key, value)| (Cow::Borrowed(key), Cow::Borrowed(value))).collect(),
            claims: self.claims.iter().map(|claim| Cow::Borrowed(&**claim)).collect(),
            shape: self.shape.map(Cow::Borrowed),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::hash::{DefaultHasher, Hash, Hasher};

    use serde_json::json;

    use crate::cache::decode;

    fn hash(value: &impl Hash) -> u64 {
        let mut hasher = DefaultHasher::new();
        value.hash(&mut hasher);
        hasher.finish()
    }

    #[test]
    fn a_pod_and_its_view_are_the_same_and_hash_alike() {
        let selector =
            json!({"matchLabels": {"app": "cart"}, "matchExpressions": [{"key": "x", "operator": "Exists"}]});
        let object = json!({
            "metadata": {"namespace": "shop", "name": "cart-0", "uid": "u", "labels": {"b": "2", "a": "1"},
                "annotations": {"karpenter.sh/do-not-disrupt": "true"},
                "ownerReferences": [{"apiVersion": "v1", "kind": "K", "name": "n", "uid": "o", "controller": true}]},
            "spec": {
                "nodeName": "n1", "schedulerName": "own", "runtimeClassName": "gvisor", "nodeSelector": {"pool": "web"},
                "affinity": {
                    "nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [{
                        "matchExpressions": [{"key": "zone", "operator": "In", "values": ["b", "a"]}],
                        "matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n1"]}]}]}},
                    "podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [{
                        "topologyKey": "zone", "labelSelector": selector, "namespaces": ["b"], "namespaceSelector": {}}]}},
                "tolerations": [{"key": "k", "value": "v", "effect": "NoExecute", "tolerationSeconds": 3}],
                "topologySpreadConstraints": [{"topologyKey": "zone", "maxSkew": 1, "labelSelector": selector,
                    "whenUnsatisfiable": "DoNotSchedule"}],
                "containers": [{"name": "c", "ports": [{"containerPort": 80, "hostPort": 80}],
                    "resources": {"requests": {"cpu": "1", "nvidia.com/gpu": "1"}}}],
                "volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "data"}}]},
        })
        .to_string();
        let view = decode::pod(&object).unwrap();
        let pod = view.to_pod();
        assert_eq!(hash(&view.shape), hash(&pod.shape), "a shape can be looked up without being copied");
        assert_eq!(hash(&view.owner), hash(&pod.owner));
        let mut again = pod.view();
        again.revision.clone_from(&view.revision);
        assert_eq!(again, view);
        assert_eq!(view.label("b"), pod.labels.get("b"));
    }
}
