use serde_json::{Value, json};

use super::super::requirements::Operator;
use super::*;

/// As Karpenter 1.14 with its kwok provider writes it.
pub(crate) fn pool() -> Value {
    json!({
        "apiVersion": "karpenter.sh/v1", "kind": "NodePool",
        "metadata": { "name": "general", "uid": "u-pool", "generation": 1, "resourceVersion": "812",
            "creationTimestamp": "2026-01-05T00:00:00Z",
            "annotations": { "karpenter.sh/nodepool-hash": "11", "karpenter.sh/nodepool-hash-version": "v3" } },
        "spec": {
            "disruption": { "budgets": [{ "nodes": "10%" }], "consolidateAfter": "0s",
                "consolidationPolicy": "WhenEmptyOrUnderutilized" },
            "limits": { "cpu": "16", "memory": "64Gi", "nodes": "4" },
            "template": {
                "metadata": { "labels": { "team": "shop" } },
                "spec": {
                    "expireAfter": "720h",
                    "nodeClassRef": { "group": "karpenter.kwok.sh", "kind": "KWOKNodeClass", "name": "default" },
                    "requirements": [
                        { "key": "kubernetes.io/arch", "operator": "In", "values": ["amd64"] },
                        { "key": "example.com/generation", "operator": "Gte", "values": ["5"], "minValues": 2 },
                    ],
                    "startupTaints": [{ "key": "example.com/booting", "effect": "NoExecute" }],
                    "taints": [{ "key": "example.com/shop", "value": "yes", "effect": "NoSchedule" }],
                },
            },
            "weight": 10,
        },
        "status": {
            "conditions": [
                { "type": "NodeClassReady", "status": "True", "reason": "NodeClassReady", "message": "",
                    "lastTransitionTime": "2026-01-05T00:00:00Z", "observedGeneration": 1 },
                { "type": "Ready", "status": "True", "reason": "Ready", "message": "",
                    "lastTransitionTime": "2026-01-05T00:00:00Z", "observedGeneration": 1 },
            ],
            "nodes": 2,
            "resources": { "cpu": "8", "ephemeral-storage": "40Gi", "memory": "32Gi", "nodes": "2", "pods": "220" },
        },
    })
}

/// As Karpenter 1.14 with its kwok provider writes it.
pub(crate) fn claim() -> Value {
    json!({
        "apiVersion": "karpenter.sh/v1", "kind": "NodeClaim",
        "metadata": { "name": "general-x7k2p", "generateName": "general-", "uid": "u-claim",
            "creationTimestamp": "2026-01-05T00:00:00Z",
            "annotations": { "karpenter.sh/nodepool-hash": "11" },
            "finalizers": ["karpenter.sh/termination"],
            "labels": { "karpenter.sh/nodepool": "general", "node.kubernetes.io/instance-type": "c-4x-amd64-linux",
                "topology.kubernetes.io/zone": "test-zone-a", "karpenter.sh/capacity-type": "spot" },
            "ownerReferences": [{ "apiVersion": "karpenter.sh/v1", "kind": "NodePool", "name": "general", "uid": "u-pool",
                "blockOwnerDeletion": true }] },
        "spec": {
            "expireAfter": "1h30m0s", "terminationGracePeriod": "5m0s",
            "nodeClassRef": { "group": "karpenter.kwok.sh", "kind": "KWOKNodeClass", "name": "default" },
            "requirements": [{ "key": "karpenter.sh/nodepool", "operator": "In", "values": ["general"] }],
            "resources": { "requests": { "cpu": "3", "pods": "4" } },
            "taints": [{ "key": "example.com/shop", "value": "yes", "effect": "NoSchedule" }],
        },
        "status": {
            "allocatable": { "cpu": "3900m", "memory": "16374Mi", "ephemeral-storage": "20Gi", "pods": "110" },
            "capacity": { "cpu": "4", "memory": "16Gi", "ephemeral-storage": "20Gi", "pods": "110" },
            "conditions": [
                { "type": "Initialized", "status": "True", "reason": "Initialized", "message": "",
                    "lastTransitionTime": "2026-01-05T00:00:20Z" },
                { "type": "Drifted", "status": "True", "reason": "NodePoolDrifted", "message": "NodePoolDrifted",
                    "lastTransitionTime": "2026-01-05T00:01:00Z" },
            ],
            "lastPodEventTime": "2026-01-05T00:00:30Z",
            "nodeName": "general-x7k2p", "providerID": "kwok://general-x7k2p",
        },
    })
}

fn decoded<T: serde::de::DeserializeOwned>(value: Value) -> T {
    serde_json::from_value(value).unwrap()
}

#[test]
fn a_pool_is_read_as_karpenter_writes_it() {
    let pool: NodePool = decoded(pool());
    assert_eq!((&*pool.name, pool.weight, pool.replicas, pool.deleting), ("general", 10, None, false));
    assert_eq!(pool.limits["nodes"], "4".parse().unwrap());
    assert_eq!(pool.used["cpu"], "8".parse().unwrap());
    assert!(pool.ready.is_true());
    let labels: Vec<_> = pool.labels.iter().map(|(key, value)| format!("{key}={value}")).collect();
    assert_eq!(labels, ["karpenter.kwok.sh/kwoknodeclass=default", "karpenter.sh/nodepool=general", "team=shop"]);
    assert_eq!(pool.requirements[1].operator, Operator::Gte);
    assert_eq!(pool.requirements[1].min_values, Some(2));
    // Startup taints keep no placeholder off: they are gone by the time that the node counts.
    assert_eq!(pool.taints.iter().map(|taint| &*taint.key).collect::<Vec<_>>(), ["example.com/shop"]);
}

#[test]
fn a_pool_of_which_nothing_is_known_yet_is_neither_ready_nor_used() {
    let pool: NodePool = decoded(json!({ "metadata": { "name": "new" },
        "spec": { "template": { "spec": { "requirements": [] } }, "replicas": 3 } }));
    assert_eq!(pool.ready.status, None);
    assert!(pool.used.is_empty() && pool.limits.is_empty());
    assert_eq!(pool.replicas, Some(3));
}

#[test]
fn a_claim_is_read_as_karpenter_writes_it() {
    let claim: NodeClaim = decoded(claim());
    assert_eq!((&*claim.name, &*claim.uid, &*claim.pool), ("general-x7k2p", "u-claim", "general"));
    assert_eq!((&*claim.node, &*claim.provider_id), ("general-x7k2p", "kwok://general-x7k2p"));
    assert_eq!(claim.expire_after, Some(SignedDuration::from_mins(90)));
    assert_eq!(claim.termination_grace, Some(SignedDuration::from_mins(5)));
    assert_eq!(claim.capacity["cpu"], "4".parse().unwrap());
    assert!(claim.initialized && claim.drifted.is_true() && !claim.disruption.is_true());
    assert_eq!(&*claim.drifted.reason, "NodePoolDrifted");
    assert_eq!(claim.deleted, None);
}

#[test]
fn a_claim_that_is_not_launched_has_no_node_and_may_never_expire() {
    let claim: NodeClaim = decoded(json!({
        "metadata": { "name": "general-1", "uid": "u", "deletionTimestamp": "2026-01-05T00:00:00Z" },
        "spec": { "expireAfter": "Never", "requirements": [] }, "status": {} }));
    assert_eq!((&*claim.node, &*claim.provider_id, claim.expire_after), ("", "", None));
    assert!(claim.capacity.is_empty() && claim.deleted.is_some());
}

#[test]
fn a_duration_that_is_none_makes_its_claim_unreadable() {
    let mut value = claim();
    value["spec"]["expireAfter"] = json!("soon");
    assert!(serde_json::from_value::<NodeClaim>(value).is_err());
}
