//! Tests of the decoders.

use std::sync::Arc;

use serde_json::{Value, json};

use super::{DecodeError, Workload, attach_limits, claim, fragment, identity, node, pdb, pod, volume, workload};
use crate::cache::pdbs::Limit;
use crate::cache::selector::{Expression, NodeTerm, Operator, Selector, Taint, TaintEffect, Toleration};
use crate::cache::shape::HostPort;
use crate::cache::{Pod, PodPhase};

fn meta() -> Value {
    json!({"namespace": "shop", "name": "cart-0", "uid": "u1"})
}

fn read(spec: &Value, status: &Value) -> Pod {
    pod(&json!({"metadata": meta(), "spec": spec, "status": status}).to_string()).unwrap().to_pod()
}

fn expression(key: &str, operator: Operator, values: &[&str]) -> Expression {
    Expression { key: key.into(), operator, values: values.iter().map(|value| (*value).into()).collect() }
}

#[test]
fn a_pod_with_nothing_but_its_identity_reads() {
    let pod = pod(&json!({"metadata": meta()}).to_string()).unwrap().to_pod();
    assert_eq!(pod.path(), "shop/cart-0");
    assert_eq!(pod.phase, PodPhase::Pending);
    assert!(pod.shape.requests.is_zero());
    assert_eq!((pod.node, pod.owner, pod.deleted, pod.nominated), (None, None, None, None));
}

#[test]
fn nulls_read_as_absent() {
    let spec = json!({"nodeName": null, "containers": null, "volumes": null, "affinity": null, "tolerations": null,
        "nodeSelector": null, "overhead": null, "priority": null});
    let status = json!({"phase": null, "conditions": null, "containerStatuses": null});
    let mut object = json!({"metadata": meta(), "spec": spec, "status": status});
    object["metadata"]["labels"] = Value::Null;
    object["metadata"]["annotations"] = Value::Null;
    object["metadata"]["creationTimestamp"] = Value::Null;
    object["metadata"]["ownerReferences"] = Value::Null;
    assert!(pod(&object.to_string()).unwrap().to_pod().shape.requests.is_zero());
}

#[test]
fn identity_state_and_owner_of_a_pod() {
    let object = json!({
        "metadata": {
            "namespace": "shop", "name": "cart-0", "uid": "u1", "resourceVersion": "77",
            "creationTimestamp": "2026-11-29T10:00:00Z", "deletionTimestamp": "2026-11-29T11:00:00Z",
            "labels": {"app": "cart", "quote": "a\"b"},
            "managedFields": [{"manager": "kubelet", "fieldsV1": {"f:status": {}}}],
            "ownerReferences": [
                {"apiVersion": "v1", "kind": "ConfigMap", "name": "other", "uid": "x"},
                {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "cart", "uid": "o1", "controller": true},
            ],
        },
        "spec": {"nodeName": "n1"},
        "status": {
            "phase": "Running", "nominatedNodeName": "n2",
            "conditions": [{"type": "Ready", "status": "True"}, {"type": "PodScheduled", "status": "False", "message": "no"}],
        },
    });
    let pod = pod(&object.to_string()).unwrap().to_pod();
    assert_eq!(pod.created.to_string(), "2026-11-29T10:00:00Z");
    assert_eq!(pod.deleted.unwrap().to_string(), "2026-11-29T11:00:00Z");
    assert_eq!(pod.node.as_deref(), Some("n1"));
    assert_eq!(pod.nominated.as_deref(), Some("n2"));
    assert_eq!(pod.phase, PodPhase::Running);
    assert!(pod.ready);
    assert_eq!(pod.labels.get("quote"), Some("a\"b"));
    let owner = pod.owner.unwrap();
    assert_eq!((&*owner.api_version, &*owner.kind, &*owner.name, &*owner.uid), ("apps/v1", "ReplicaSet", "cart", "o1"));
    assert_eq!(pod.unschedulable, None, "only placeholders keep the scheduler's message");
}

#[test]
fn a_placeholder_keeps_the_schedulers_message() {
    let object = json!({
        "metadata": {"namespace": "kubectl-rotate-room", "name": "room", "uid": "u"},
        "status": {"conditions": [{"type": "PodScheduled", "status": "False", "message": "0/3 nodes are available"}]},
    });
    assert_eq!(pod(&object.to_string()).unwrap().to_pod().unschedulable.as_deref(), Some("0/3 nodes are available"));
}

#[test]
fn requests_come_from_containers_init_containers_and_overhead() {
    let container = |cpu: &str| json!({"name": "c", "resources": {"requests": {"cpu": cpu}, "limits": {"cpu": "9"}}});
    let sidecar = json!({"name": "s", "restartPolicy": "Always", "resources": {"requests": {"cpu": "100m"}}});
    let spec = json!({"containers": [container("500m")], "initContainers": [sidecar, container("200m")],
        "overhead": {"cpu": "50m"}});
    assert_eq!(read(&spec, &Value::Null).shape.requests.milli_cpu, 650);
    let spec = json!({"containers": [container("500m")], "resources": {"requests": {"cpu": 2}}});
    assert_eq!(read(&spec, &Value::Null).shape.requests.milli_cpu, 2000);
}

#[test]
fn a_resize_in_progress_counts_what_the_status_still_holds() {
    let spec = json!({"containers": [
        {"name": "a", "resources": {"requests": {"cpu": "1"}}},
        {"name": "b", "resources": {"requests": {"cpu": "500m"}}},
    ]});
    let statuses = json!([
        {"name": "b", "allocatedResources": {"cpu": "2"}, "resources": {"requests": {"cpu": "2"}}},
        {"name": "a", "resources": {"requests": {"cpu": "1"}}},
    ]);
    let status = json!({"containerStatuses": statuses});
    assert_eq!(read(&spec, &status).shape.requests.milli_cpu, 3000);
    let spec = json!({"containers": [{"name": "a", "resources": {"requests": {"cpu": "4"}}}]});
    let infeasible = json!([{"type": "PodResizePending", "status": "True", "reason": "Infeasible"}]);
    let status = json!({"containerStatuses": statuses, "conditions": infeasible});
    assert_eq!(read(&spec, &status).shape.requests.milli_cpu, 1000);
}

#[test]
fn constraints_of_a_pod() {
    let spec = json!({
        "nodeSelector": {"pool": "web", "arch": "arm64"},
        "affinity": {
            "nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [{
                "matchExpressions": [{"key": "zone", "operator": "In", "values": ["b", "a"]}],
                "matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n1"]}],
            }]}, "preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 1, "preference": {}}]},
            "podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [{
                "topologyKey": "kubernetes.io/hostname",
                "labelSelector": {"matchLabels": {"app": "cart"},
                    "matchExpressions": [{"key": "aaa", "operator": "Exists"}]},
                "namespaces": ["b", "a", "b"], "namespaceSelector": {},
            }]},
        },
        "tolerations": [
            {"operator": "Exists"},
            {"key": "node.kubernetes.io/not-ready", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300},
            {"key": "k", "value": "v", "effect": "NoSchedule"},
            {"key": "k", "operator": "Gt", "value": "3"},
        ],
        "topologySpreadConstraints": [
            {"topologyKey": "zone", "maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule", "minDomains": 3,
             "labelSelector": {"matchLabels": {"app": "cart"}}, "matchLabelKeys": ["hash", "absent"],
             "nodeTaintsPolicy": "Honor"},
            {"topologyKey": "zone", "maxSkew": 1, "whenUnsatisfiable": "ScheduleAnyway"},
        ],
        "priority": 7, "preemptionPolicy": "Never", "schedulerName": "volcano", "runtimeClassName": "gvisor",
        "schedulingGates": [{"name": "wait"}], "resourceClaims": [{"name": "gpu"}],
    });
    let mut object = json!({"metadata": meta(), "spec": spec});
    object["metadata"]["labels"] = json!({"hash": "h1"});
    let shape = pod(&object.to_string()).unwrap().to_pod().shape;
    let expected = [expression("arch", Operator::In, &["arm64"]), expression("pool", Operator::In, &["web"])];
    assert_eq!(shape.node_selector, expected);
    let term = NodeTerm {
        expressions: vec![expression("zone", Operator::In, &["a", "b"])],
        fields: vec![expression("metadata.name", Operator::In, &["n1"])],
    };
    assert_eq!(shape.node_affinity, Some(vec![term]));
    let term = &shape.anti_affinity[0];
    assert_eq!(&*term.topology_key, "kubernetes.io/hostname");
    let expected = vec![expression("aaa", Operator::Exists, &[]), expression("app", Operator::In, &["cart"])];
    assert_eq!(term.selector, Some(Selector { expressions: expected }));
    assert_eq!(term.namespaces, ["a".into(), "b".into()]);
    assert_eq!(term.namespace_selector, Some(Selector::default()));
    let toleration = |key: &str, exists, value: &str, effect, seconds| Toleration {
        key: key.into(),
        exists,
        value: value.into(),
        effect,
        seconds,
    };
    let expected = [
        toleration("", true, "", None, None),
        toleration("node.kubernetes.io/not-ready", true, "", Some(TaintEffect::NoExecute), Some(300)),
        toleration("k", false, "v", Some(TaintEffect::NoSchedule), None),
    ];
    assert_eq!(shape.tolerations, expected, "an operator that we do not know tolerates nothing");
    assert_eq!(shape.spread.len(), 1, "a preference is no constraint");
    let expected = vec![expression("app", Operator::In, &["cart"]), expression("hash", Operator::In, &["h1"])];
    assert_eq!(shape.spread[0].selector, Some(Selector { expressions: expected }));
    assert_eq!((shape.spread[0].max_skew, shape.spread[0].min_domains), (1, 3));
    assert!(shape.spread[0].honors_taints && !shape.spread[0].ignores_affinity);
    assert_eq!((shape.priority, shape.never_preempts), (7, true));
    assert_eq!((shape.scheduler.as_deref(), shape.runtime_class.as_deref()), (Some("volcano"), Some("gvisor")));
    assert!(shape.gated && shape.resource_claims && !shape.pod_group);
}

#[test]
fn the_default_scheduler_is_no_scheduler_of_its_own() {
    assert_eq!(read(&json!({"schedulerName": "default-scheduler"}), &Value::Null).shape.scheduler, None);
}

#[test]
fn an_affinity_without_terms_is_kept_as_one_that_matches_nothing() {
    let spec = json!({"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {}}}});
    assert_eq!(read(&spec, &Value::Null).shape.node_affinity, Some(vec![]));
}

#[test]
fn matching_labels_and_expressions_written_either_way_are_one_selector() {
    let spread = |selector: Value| {
        let constraint = json!({"topologyKey": "z", "maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule",
            "labelSelector": selector});
        read(&json!({"topologySpreadConstraints": [constraint]}), &Value::Null).shape
    };
    let by_labels = spread(json!({"matchLabels": {"b": "2", "a": "1"}}));
    let by_expressions = spread(json!({"matchExpressions": [
        {"key": "b", "operator": "In", "values": ["2"]}, {"key": "a", "operator": "In", "values": ["1"]},
    ]}));
    assert_eq!(by_labels, by_expressions);
}

#[test]
fn host_ports_are_those_of_containers_and_sidecars() {
    let port = |number: u16| json!({"containerPort": 80, "hostPort": number, "protocol": "UDP", "hostIP": "10.0.0.1"});
    let spec = json!({
        "containers": [{"ports": [port(9000), {"containerPort": 8080}]}],
        "initContainers": [{"ports": [port(9001)]}, {"restartPolicy": "Always", "ports": [port(9002)]}],
    });
    let expected = |port| HostPort { protocol: "UDP".into(), ip: "10.0.0.1".into(), port };
    assert_eq!(read(&spec, &Value::Null).shape.host_ports, [expected(9000), expected(9002)]);
    let spec = json!({"hostNetwork": true, "containers": [{"ports": [{"containerPort": 8080}]}]});
    let expected = HostPort { protocol: "TCP".into(), ip: "".into(), port: 8080 };
    assert_eq!(read(&spec, &Value::Null).shape.host_ports, [expected]);
}

#[test]
fn volumes_tell_claims_and_local_storage() {
    let spec = json!({"volumes": [
        {"name": "data", "persistentVolumeClaim": {"claimName": "data-cart-0"}},
        {"name": "scratch", "ephemeral": {"volumeClaimTemplate": {}}},
        {"name": "memory", "emptyDir": {"medium": "Memory"}},
        {"name": "config", "configMap": {"name": "x"}},
    ]});
    let pod = read(&spec, &Value::Null);
    assert_eq!(&*pod.claims, ["data-cart-0".into(), "cart-0-scratch".into()]);
    assert!(!pod.shape.local_storage);
    assert!(read(&json!({"volumes": [{"name": "disk", "emptyDir": {}}]}), &Value::Null).shape.local_storage);
}

#[test]
fn annotations_become_parts_of_the_shape() {
    let shape = |annotations: Value| {
        let mut object = json!({"metadata": meta()});
        object["metadata"]["annotations"] = annotations;
        pod(&object.to_string()).unwrap().to_pod().shape
    };
    let shape_of = shape(json!({"karpenter.sh/do-not-disrupt": "30m", "unrelated": "x",
        "cluster-autoscaler.kubernetes.io/safe-to-evict": "false", "kubernetes.io/config.mirror": "abc"}));
    assert_eq!(shape_of.do_not_disrupt.as_deref(), Some("30m"));
    assert!(shape_of.not_safe_to_evict && shape_of.mirror);
    assert!(!shape(json!({"cluster-autoscaler.kubernetes.io/safe-to-evict": "true"})).not_safe_to_evict);
}

#[test]
fn a_bad_quantity_refuses_the_pod_and_names_it() {
    for quantity in [json!("1K"), json!("1e400"), json!("-5"), json!(""), json!(true), json!([])] {
        let spec = json!({"containers": [{"name": "a"}, {"name": "b", "resources": {"requests": {"cpu": quantity}}}]});
        let error = pod(&json!({"metadata": meta(), "spec": spec}).to_string()).unwrap_err().to_string();
        assert!(error.starts_with("read Pod shop/cart-0: "), "{error}");
    }
}

#[test]
fn what_every_object_has_must_be_there() {
    for field in ["namespace", "name", "uid"] {
        let mut object = json!({"metadata": meta()});
        object["metadata"].as_object_mut().unwrap().remove(field);
        let error = pod(&object.to_string()).unwrap_err();
        assert!(matches!(&error, DecodeError::Missing { .. }) && error.to_string().contains(field), "{error}");
    }
    assert!(matches!(pod("{").unwrap_err(), DecodeError::Malformed { .. }));
    assert!(matches!(pod("7").unwrap_err(), DecodeError::Malformed { .. }));
}

#[test]
fn a_node_reads() {
    let object = json!({
        "metadata": {"name": "n1", "uid": "u", "creationTimestamp": "2026-11-29T10:00:00Z",
            "labels": {"kubernetes.io/hostname": "h1"},
            "annotations": {"kubectl-rotate.dev/cordoned-by": "abc", "other": "x"}},
        "spec": {"unschedulable": true, "providerID": "aws:///i-1", "taints": [
            {"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}, {"key": "x", "effect": "Future"}]},
        "status": {"allocatable": {"cpu": "3770m", "memory": "14570Mi", "pods": "110", "nvidia.com/gpu": "2"},
            "conditions": [{"type": "MemoryPressure", "status": "False"}, {"type": "Ready", "status": "True"}],
            "nodeInfo": {"machineID": "m", "bootID": "b-1"}},
    });
    let node = node(&object.to_string()).unwrap();
    assert_eq!(node.hostname(), Some("h1"));
    assert_eq!(node.annotations.len(), 1);
    assert_eq!(node.annotations["kubectl-rotate.dev/cordoned-by"].as_ref(), "abc");
    let taint =
        Taint { key: "node.kubernetes.io/unschedulable".into(), value: "".into(), effect: TaintEffect::NoSchedule };
    assert_eq!(node.taints, [taint]);
    assert!(node.unschedulable && node.ready && !node.deleting);
    assert_eq!((node.allocatable.milli_cpu, node.max_pods), (3770, 110));
    assert_eq!(node.allocatable.other.get("nvidia.com/gpu"), Some(&2));
    assert!(!node.allocatable.other.contains_key("pods"));
    assert_eq!(node.provider_id.as_deref(), Some("aws:///i-1"));
    assert_eq!(node.boot_id.as_deref(), Some("b-1"));
}

#[test]
fn a_budget_reads() {
    let read = |spec: Value| {
        let object = json!({
            "metadata": {"namespace": "shop", "name": "cart", "uid": "u", "generation": 2}, "spec": spec,
            "status": {"observedGeneration": 2, "disruptionsAllowed": 1, "currentHealthy": 4, "desiredHealthy": 3,
                "expectedPods": 5}});
        pdb(&object.to_string()).unwrap()
    };
    let budget = read(json!({"minAvailable": 3, "selector": {"matchLabels": {"app": "cart"}},
        "unhealthyPodEvictionPolicy": "AlwaysAllow"}));
    assert_eq!(budget.limit, Limit::MinAvailable("3".into()));
    assert!(budget.unhealthy_always && budget.current);
    assert_eq!((budget.allowed, budget.healthy, budget.desired, budget.expected), (1, 4, 3, 5));
    assert_eq!(budget.selector.unwrap().expressions, [expression("app", Operator::In, &["cart"])]);
    let budget = read(json!({"maxUnavailable": "25%"}));
    assert_eq!(budget.limit, Limit::MaxUnavailable("25%".into()));
    assert_eq!(budget.selector, None);
    assert_eq!(read(json!({"selector": {}})).limit, Limit::MaxUnavailable("0".into()));
}

#[test]
fn a_budget_whose_status_is_of_an_older_spec_is_not_current() {
    let object = json!({"metadata": {"namespace": "a", "name": "b", "uid": "c", "generation": 3}, "spec": {},
        "status": {"observedGeneration": 2}});
    assert!(!pdb(&object.to_string()).unwrap().current);
}

#[test]
fn claims_and_volumes_read() {
    let bound = json!({"metadata": {"namespace": "a", "name": "b"}, "spec": {"volumeName": "pv1",
        "resources": {"requests": {"storage": "1Gi"}}}});
    assert_eq!(claim(&bound.to_string()).unwrap().volume.as_deref(), Some("pv1"));
    let unbound = json!({"metadata": {"namespace": "a", "name": "b"}, "spec": {}});
    assert_eq!(claim(&unbound.to_string()).unwrap().volume, None);
    let local = json!({"metadata": {"name": "pv1"}, "spec": {"local": {"path": "/d"}, "nodeAffinity": {"required": {
        "nodeSelectorTerms": [{"matchExpressions": [{"key": "k", "operator": "In", "values": ["n1"]}]}]}}}});
    let local = volume(&local.to_string()).unwrap();
    assert!(local.local);
    assert_eq!(local.terms.unwrap()[0].expressions, [expression("k", Operator::In, &["n1"])]);
    let remote = volume(&json!({"metadata": {"name": "pv2"}, "spec": {"csi": {}}}).to_string()).unwrap();
    assert_eq!((remote.local, remote.terms), (false, None));
}

#[test]
fn workloads_say_what_they_want_and_have() {
    let read = |object: Value| workload(&object.to_string()).unwrap();
    let counts = |object| {
        let Workload { desired, ready, .. } = read(object);
        (desired, ready)
    };
    let owner = json!([{"apiVersion": "apps/v1", "kind": "Deployment", "name": "d", "uid": "x", "controller": true}]);
    let set =
        read(json!({"metadata": {"ownerReferences": owner}, "spec": {"replicas": 3}, "status": {"readyReplicas": 2}}));
    assert_eq!((set.desired, set.ready), (Some(3), 2));
    assert_eq!(set.owner.unwrap().name, Arc::from("d"));
    assert_eq!(counts(json!({"status": {"desiredNumberScheduled": 5, "numberReady": 4}})), (Some(5), 4));
    let job = |status: Value| json!({"spec": {"parallelism": 3, "completions": 5}, "status": status});
    assert_eq!(counts(job(json!({"succeeded": 4, "ready": 1}))), (Some(1), 1));
    assert_eq!(counts(job(json!({"conditions": [{"type": "Complete", "status": "True"}]}))), (Some(0), 0));
    assert_eq!(counts(json!({"spec": {"parallelism": 3, "suspend": true}})), (Some(0), 0));
    assert_eq!(counts(json!({})), (None, 0));
}

#[test]
fn an_object_that_cannot_be_read_as_a_whole_still_tells_who_it_is() {
    let object = json!({"kind": "Pod", "metadata": {"namespace": "a", "name": "b", "uid": "c", "resourceVersion": "9",
        "labels": 7}, "spec": []});
    let identity = identity(&object.to_string()).unwrap();
    assert_eq!((identity.path(), &*identity.uid), ("a/b".to_owned(), "c"));
    assert_eq!((identity.kind.as_deref(), identity.revision.as_deref()), (Some("Pod"), Some("9")));
}

#[test]
fn what_is_of_another_type_does_not_hide_the_node_behind_it() {
    for metadata in [json!(null), json!([1]), json!({"name": 7, "namespace": {"a": []}, "uid": 5.5, "labels": true})] {
        let object = json!({"metadata": metadata, "spec": {"nodeName": "n1"}}).to_string();
        assert_eq!(fragment(&object).1.as_deref(), Some("n1"), "{object}");
    }
}

proptest::proptest! {
    #![proptest_config(proptest::prelude::ProptestConfig { failure_persistence: None, ..Default::default() })]

    #[test]
    fn a_mangled_pod_is_read_or_refused_and_never_a_panic(
        at in 0..MANGLED.len(), with in proptest::prelude::any::<char>(), cut in 0..MANGLED.len(),
    ) {
        let mut text: String = MANGLED[..at].to_owned();
        text.push(with);
        text.push_str(&MANGLED[at + 1..]);
        for text in [text.as_str(), &MANGLED[..cut]] {
            let read = (pod(text).is_ok(), node(text).is_ok(), pdb(text).is_ok(), workload(text).is_ok());
            proptest::prop_assert!(!read.0 || identity(text).is_ok());
        }
    }
}

/// ASCII only, so that it can be cut anywhere.
const MANGLED: &str = r#"{"metadata":{"namespace":"a","name":"b","uid":"c","creationTimestamp":"2026-11-29T10:00:00Z",
"labels":{"k":"v"},"generation":1},"spec":{"nodeName":"n","priority":1,"containers":[{"name":"x","resources":{"requests":
{"cpu":"1500m","memory":"2.5Gi","nvidia.com/gpu":"1"}},"ports":[{"hostPort":80}]}],"tolerations":[{"operator":"Exists",
"tolerationSeconds":3}],"replicas":2},"status":{"phase":"Running","allocatable":{"cpu":"4"},"disruptionsAllowed":1}}"#;

#[test]
fn attach_limits_are_read_by_node_and_driver() {
    let list = json!({ "items": [
        { "metadata": { "name": "n1" }, "spec": { "drivers": [
            { "name": "ebs.example.com", "nodeID": "i-1", "allocatable": { "count": 25 } },
            { "name": "nfs.example.com", "nodeID": "i-1" },
        ] } },
        { "metadata": { "name": "n2" }, "spec": { "drivers": null } },
    ] });
    let limits = attach_limits(&list.to_string()).unwrap();
    assert_eq!(limits, [(Box::from("n1"), [(Box::from("ebs.example.com"), 25)].into()), (Box::from("n2"), [].into())]);
}

#[test]
fn a_nodes_range_of_addresses_bounds_its_pods() {
    let of = |ranges: &[&str]| {
        let node = json!({ "metadata": { "name": "n", "uid": "u" }, "spec": { "podCIDRs": ranges } });
        super::node(&node.to_string()).unwrap().pod_addresses
    };
    assert_eq!(of(&[]), None);
    assert_eq!(of(&["10.244.1.0/24"]), Some(253));
    assert_eq!(of(&["fd00::/64", "10.244.1.0/25"]), Some(125), "the smaller one counts");
    assert_eq!(of(&["10.0.0.1/32"]), Some(0));
    assert_eq!(of(&["nonsense"]), None);
}
