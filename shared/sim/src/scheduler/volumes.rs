//! Claims that wait for their first consumer: their volume is made where the Pod is to go, before it is bound.

use std::collections::BTreeMap;

use serde_json::json;

use super::{affinity::Term, pod::PodInfo};
use crate::{kind::Kind, object, store::Key, store::Store};

const SELECTED_NODE: &str = "volume.kubernetes.io/selected-node";
const ZONE: &str = "topology.kubernetes.io/zone";

/// A claim, as far as it restricts nodes.
#[derive(Clone, Debug)]
pub(crate) struct Claim {
    /// Waits for its first consumer, so any node will do.
    pub(crate) waits: bool,
    pub(crate) bound: bool,
    /// Terms of the volume's node affinity; any one of them must match.
    pub(crate) terms: Option<Vec<Term>>,
}

/// All claims, by namespace and name.
pub(crate) fn claims(store: &Store) -> BTreeMap<Key, Claim> {
    let mut claims = BTreeMap::new();
    for claim in store.iter(Kind::PersistentVolumeClaim) {
        let volume = store.get(Kind::PersistentVolume, "", object::text(claim, "/spec/volumeName"));
        let terms = volume
            .and_then(|volume| volume.pointer("/spec/nodeAffinity/required/nodeSelectorTerms"))
            .map(|terms| terms.as_array().into_iter().flatten().map(Term::of).collect());
        let class = store.get(Kind::StorageClass, "", object::text(claim, "/spec/storageClassName"));
        let waits = class.is_some_and(|class| class["volumeBindingMode"] == "WaitForFirstConsumer");
        let key = (object::namespace(claim).to_owned(), object::name(claim).to_owned());
        claims.insert(key, Claim { waits, bound: volume.is_some(), terms });
    }
    claims
}

/// The Pod's claims that have no volume yet.
pub(crate) fn waiting(pod: &PodInfo, claims: &BTreeMap<Key, Claim>) -> Vec<Key> {
    let keys = pod.claims.iter().map(|name| (pod.key.0.clone(), name.clone()));
    keys.filter(|key| claims.get(key).is_some_and(|claim| claim.waits && !claim.bound)).collect()
}

/// Tells the provisioner of volumes where the Pod is to go.
pub(crate) fn select_node(store: &mut Store, claims: &[Key], node: &str) {
    for key in claims {
        store.update(Kind::PersistentVolumeClaim, key, |claim| {
            claim["metadata"]["annotations"][SELECTED_NODE] = json!(node);
        });
    }
}

/// Makes the volumes, usable in the node's zone, or on the node alone where it has none.
pub(crate) fn provide(store: &mut Store, claims: &[Key], node: &str) {
    let zone = store.get(Kind::Node, "", node).and_then(|node| object::label(node, ZONE)).map(str::to_owned);
    let (key, value) = match zone {
        Some(zone) => (ZONE, zone),
        None => ("kubernetes.io/hostname", node.to_owned()),
    };
    for claim in claims {
        let name = format!("pvc-{}", store.random().uid());
        let volume = json!({
            "metadata": {"name": name},
            "spec": {
                "claimRef": {"namespace": claim.0, "name": claim.1},
                "nodeAffinity": {"required": {"nodeSelectorTerms": [
                    {"matchExpressions": [{"key": key, "operator": "In", "values": [value]}]},
                ]}},
            },
            "status": {"phase": "Bound"},
        });
        if store.create(Kind::PersistentVolume, volume).is_ok() {
            store.update(Kind::PersistentVolumeClaim, claim, |claim| {
                claim["spec"]["volumeName"] = json!(name);
                claim["status"]["phase"] = json!("Bound");
            });
        }
    }
}
