use serde_json::{Value, json};

use super::*;
use crate::cache::{Volumes, decode};
use crate::surge::constraints;
use crate::surge::testing;

/// The placeholder of a Pod, as JSON.
fn for_pod(over: &Value) -> Value {
    let pod = testing::pod("shop", "web-1", over);
    let node = testing::node("cand", &json!({}));
    let state = testing::state([node.clone()], [pod.clone()]);
    let placement = constraints::translate(&pod, &node, &state, &Volumes::default(), constraints::Reach::Own).unwrap();
    let placeholder = Placeholder {
        name: names::placeholder_name("0123456789", &pod.uid, 0),
        rotation: "0123456789".to_owned(),
        class: "a".to_owned(),
        pod_uid: pod.uid.to_string(),
        requests: pod.shape.requests.clone(),
        placement,
        deadline_seconds: 3600,
        image: "registry.example/rotate-agent:0.1.0".to_owned(),
    };
    serde_json::to_value(manifest(&placeholder)).unwrap()
}

fn container(manifest: &Value) -> &Value {
    &manifest["spec"]["containers"][0]
}

#[test]
fn a_placeholder_meets_the_restricted_pod_security_standard() {
    let manifest = for_pod(&json!({}));
    let security = &manifest["spec"]["securityContext"];
    assert_eq!(security["runAsNonRoot"], true);
    assert_ne!(security["runAsUser"], 0);
    assert_eq!(security["seccompProfile"]["type"], "RuntimeDefault");
    let security = &container(&manifest)["securityContext"];
    assert_eq!(security["allowPrivilegeEscalation"], false);
    assert_eq!(security["capabilities"], json!({ "drop": ["ALL"] }));
    for field in ["hostNetwork", "hostPID", "hostIPC", "volumes"] {
        assert!(manifest["spec"].get(field).is_none(), "{field}");
    }
}

#[test]
fn a_placeholder_learns_nothing_of_the_cluster_and_is_owned_by_nothing() {
    let manifest = for_pod(&json!({}));
    assert_eq!(manifest["spec"]["automountServiceAccountToken"], false);
    assert_eq!(manifest["spec"]["enableServiceLinks"], false);
    assert!(manifest["metadata"].get("ownerReferences").is_none());
}

#[test]
fn a_placeholder_gives_way_at_once_and_ends_by_itself() {
    let spec = &for_pod(&json!({}))["spec"];
    assert_eq!(spec["priorityClassName"], names::PRIORITY_CLASS);
    assert_eq!((&spec["priority"], &spec["preemptionPolicy"]), (&json!(-10), &json!("Never")));
    assert_eq!(spec["terminationGracePeriodSeconds"], 0);
    assert_eq!(spec["activeDeadlineSeconds"], 3600);
}

#[test]
fn a_placeholder_says_whose_it_is_and_is_kept_from_the_autoscalers() {
    let metadata = for_pod(&json!({}))["metadata"].clone();
    assert_eq!(metadata["namespace"], "kubectl-rotate-room");
    assert_eq!(metadata["name"], names::placeholder_name("0123456789", "web-1", 0));
    assert_eq!(
        metadata["labels"],
        json!({
            "kubectl-rotate.dev/rotation": "0123456789",
            "kubectl-rotate.dev/class": "a",
            "kubectl-rotate.dev/pod-uid": "web-1",
        })
    );
    assert_eq!(
        metadata["annotations"],
        json!({ "karpenter.sh/do-not-disrupt": "true", "cluster-autoscaler.kubernetes.io/safe-to-evict": "false" })
    );
}

#[test]
fn it_requests_what_the_pod_does_and_limits_only_what_cannot_be_overcommitted() {
    let resources = json!({ "cpu": "1500m", "memory": "2Gi", "nvidia.com/gpu": "2", "hugepages-2Mi": "4Mi" });
    let resources = container(&for_pod(&testing::requesting(&resources)))["resources"].clone();
    assert_eq!(
        resources,
        json!({
            "requests": { "cpu": "1500m", "memory": "2Gi", "nvidia.com/gpu": "2", "hugepages-2Mi": "4Mi" },
            "limits": { "nvidia.com/gpu": "2", "hugepages-2Mi": "4Mi" },
        })
    );
    assert_eq!(container(&for_pod(&json!({})))["resources"], json!({}));
}

#[test]
fn host_ports_are_claimed() {
    let over = json!({ "spec": { "containers": [{ "name": "app", "ports": [
        { "containerPort": 80, "hostPort": 8080, "hostIP": "10.0.0.1", "protocol": "UDP" },
    ] }] } });
    assert_eq!(
        container(&for_pod(&over))["ports"],
        json!([{ "containerPort": 8080, "hostPort": 8080, "hostIP": "10.0.0.1", "protocol": "UDP" }])
    );
}

#[test]
fn the_placement_is_read_back_as_it_was_meant() {
    let over = json!({
        "metadata": { "labels": { "app": "web" } },
        "spec": {
            "nodeSelector": { "pool": "web" },
            "tolerations": [
                { "key": "gpu", "operator": "Exists", "effect": "NoSchedule" },
                { "key": "old", "operator": "Equal", "value": "yes", "effect": "NoExecute", "tolerationSeconds": 30 },
            ],
            "affinity": {
                "nodeAffinity": { "requiredDuringSchedulingIgnoredDuringExecution": { "nodeSelectorTerms": [
                    { "matchExpressions": [{ "key": "cores", "operator": "Gt", "values": ["4"] }] },
                    { "matchExpressions": [{ "key": "spot", "operator": "DoesNotExist" }] },
                ] } },
                "podAntiAffinity": { "requiredDuringSchedulingIgnoredDuringExecution": [
                    { "topologyKey": "kubernetes.io/hostname", "labelSelector": { "matchLabels": { "app": "web" } } },
                    { "topologyKey": "topology.kubernetes.io/zone", "labelSelector": { "matchLabels": { "app": "web" } } },
                ] },
            },
        },
    });
    let pod = testing::pod("shop", "web-1", &over);
    let node = testing::node("cand", &json!({}));
    let state = testing::state([node.clone()], [pod.clone()]);
    let placement = constraints::translate(&pod, &node, &state, &Volumes::default(), constraints::Reach::Own).unwrap();
    let mut object = for_pod(&over);
    object["metadata"]["uid"] = json!("placeholder");
    object["metadata"]["creationTimestamp"] = json!(testing::CREATED);
    let read = decode::pod(&object.to_string()).unwrap().to_pod();

    assert_eq!(read.shape.node_selector, placement.node_selector);
    assert_eq!(read.shape.node_affinity, placement.node_affinity);
    assert_eq!(read.shape.tolerations, placement.tolerations);
    let sorted = |terms: &[PodTerm]| {
        let mut terms = terms.to_vec();
        terms.sort();
        terms
    };
    assert_eq!(sorted(&read.shape.anti_affinity), sorted(&placement.anti_affinity));
    assert!(placement.labels.iter().all(|(key, value)| read.labels.get(key) == Some(value)));
    assert!(read.is_placeholder());
    assert_eq!(read.shape.requests, pod.shape.requests);
}

#[test]
fn names_and_labels_are_valid_whatever_the_pods_uid_is() {
    let name = names::placeholder_name("0123456789", &"u".repeat(253), u32::MAX);
    assert!(name.len() <= 63);
    assert!(name.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-'));
    assert_ne!(name, names::placeholder_name("0123456789", &"u".repeat(252), u32::MAX));
}
