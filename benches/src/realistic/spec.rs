//! The specs of a workload's Pods.

use serde_json::{Value, json};

use super::owner::pod_name;
use super::pod::Stage;
use super::workload::{Control, Workload};
use crate::wire::Own;

pub(super) fn spec(workload: &Workload, stage: Stage) -> Value {
    let job = matches!(workload.control, Control::IndexedJob | Control::CronJob | Control::Workflow);
    let mut spec = json!({
        "containers": [application(workload), proxy()],
        "dnsPolicy": "ClusterFirst",
        "enableServiceLinks": true,
        "preemptionPolicy": "PreemptLowerPriority",
        "priority": 0,
        "restartPolicy": if job { "Never" } else { "Always" },
        "schedulerName": "default-scheduler",
        "securityContext": { "fsGroup": 1000, "runAsNonRoot": true, "seccompProfile": { "type": "RuntimeDefault" } },
        "serviceAccount": workload.app,
        "serviceAccountName": workload.app,
        "terminationGracePeriodSeconds": 30,
        "tolerations": [
            toleration("node.kubernetes.io/not-ready", "NoExecute", Some(300)),
            toleration("node.kubernetes.io/unreachable", "NoExecute", Some(300)),
        ],
        "volumes": volumes(workload),
    });
    if stage != Stage::Pending {
        spec["nodeName"] = json!(Own::Node.mark());
    }
    if workload.in_share(10, 20) {
        spec["nodeSelector"] = json!({ "kubernetes.io/arch": "amd64", "workload-class": "general" });
    }
    if workload.in_share(11, 15) {
        spec["priorityClassName"] = json!("business-critical");
        spec["priority"] = json!(100_000);
    }
    match workload.control {
        Control::Deployment => replicas(workload, &mut spec),
        Control::StatefulSet => {
            spec["hostname"] = json!(pod_name(workload));
            spec["subdomain"] = json!(format!("{}-headless", workload.name));
            spec["affinity"] = json!({ "podAntiAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": [ term(workload, "kubernetes.io/hostname") ],
            } });
        }
        Control::DaemonSet => daemon(&mut spec),
        Control::IndexedJob => {
            spec["hostname"] = json!(format!("{}-{}", workload.name, Own::Ordinal.mark()));
        }
        Control::CronJob | Control::Workflow | Control::Bare => {}
    }
    spec
}

fn replicas(workload: &Workload, spec: &mut Value) {
    if workload.in_share(12, 15) {
        spec["affinity"] = json!({ "podAntiAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": [ term(workload, "kubernetes.io/hostname") ],
        } });
    } else if workload.in_share(13, 30) {
        let preferred = json!({ "weight": 100, "podAffinityTerm": term(workload, "topology.kubernetes.io/zone") });
        spec["affinity"] =
            json!({ "podAntiAffinity": { "preferredDuringSchedulingIgnoredDuringExecution": [preferred] } });
    }
    if workload.in_share(14, 25) {
        spec["topologySpreadConstraints"] = json!([{
            "labelSelector": selector(workload),
            "matchLabelKeys": ["pod-template-hash"],
            "maxSkew": 1,
            "topologyKey": "topology.kubernetes.io/zone",
            "whenUnsatisfiable": if workload.in_share(15, 50) { "DoNotSchedule" } else { "ScheduleAnyway" },
        }]);
    }
}

fn daemon(spec: &mut Value) {
    spec["affinity"] = json!({ "nodeAffinity": { "requiredDuringSchedulingIgnoredDuringExecution": {
        "nodeSelectorTerms": [{
            "matchFields": [{ "key": "metadata.name", "operator": "In", "values": [Own::Node.mark()] }],
        }],
    } } });
    spec["priorityClassName"] = json!("system-node-critical");
    spec["priority"] = json!(2_000_001_000);
    spec["tolerations"] = json!([
        { "operator": "Exists" },
        toleration("node.kubernetes.io/not-ready", "NoExecute", None),
        toleration("node.kubernetes.io/unreachable", "NoExecute", None),
        toleration("node.kubernetes.io/disk-pressure", "NoSchedule", None),
        toleration("node.kubernetes.io/memory-pressure", "NoSchedule", None),
        toleration("node.kubernetes.io/pid-pressure", "NoSchedule", None),
        toleration("node.kubernetes.io/unschedulable", "NoSchedule", None),
    ]);
}

fn toleration(key: &str, effect: &str, seconds: Option<u32>) -> Value {
    let mut toleration = json!({ "key": key, "operator": "Exists", "effect": effect });
    if let Some(seconds) = seconds {
        toleration["tolerationSeconds"] = json!(seconds);
    }
    toleration
}

/// What selects the Pods of this workload.
pub(super) fn selector(workload: &Workload) -> Value {
    json!({ "matchLabels": { "app.kubernetes.io/instance": workload.name, "app.kubernetes.io/name": workload.app } })
}

fn term(workload: &Workload, topology: &str) -> Value {
    json!({ "labelSelector": selector(workload), "topologyKey": topology })
}

fn application(workload: &Workload) -> Value {
    let cpu = ["50m", "100m", "200m", "250m", "500m", "1"][(workload.draw(1) % 6) as usize];
    let (memory, limit) =
        [("64Mi", "128Mi"), ("128Mi", "256Mi"), ("256Mi", "512Mi"), ("512Mi", "1Gi"), ("1Gi", "2Gi"), ("2Gi", "4Gi")]
            [(workload.draw(2) % 6) as usize];
    let mut mounts = vec![json!({ "mountPath": "/tmp", "name": "tmp" }), token_mount()];
    if workload.control == Control::StatefulSet {
        mounts.push(json!({ "mountPath": "/var/lib/data", "name": "data" }));
    }
    json!({
        "name": workload.app,
        "image": format!("europe-docker.pkg.dev/acme-prod/services/{}:{}", workload.app, workload.template_hash()),
        "imagePullPolicy": "IfNotPresent",
        "args": ["--config", "/etc/app/config.yaml"],
        "env": [
            { "name": "DATABASE_PASSWORD", "valueFrom": {
                "secretKeyRef": { "key": "password", "name": format!("{}-db", workload.app) },
            } },
        ],
        "readinessProbe": {
            "failureThreshold": 3,
            "httpGet": { "path": "/readyz", "port": 8080, "scheme": "HTTP" },
            "periodSeconds": 5,
            "successThreshold": 1,
            "timeoutSeconds": 2,
        },
        "ports": [
            { "containerPort": 8080, "name": "http", "protocol": "TCP" },
        ],
        "resources": {
            "limits": { "memory": limit },
            "requests": { "cpu": cpu, "memory": memory },
        },
        "terminationMessagePath": "/dev/termination-log",
        "terminationMessagePolicy": "File",
        "volumeMounts": mounts,
    })
}

fn proxy() -> Value {
    json!({
        "name": "proxy",
        "image": "europe-docker.pkg.dev/acme-prod/mesh/proxy:1.24.3",
        "imagePullPolicy": "IfNotPresent",
        "resources": {
            "limits": { "cpu": "500m", "memory": "256Mi" },
            "requests": { "cpu": "20m", "memory": "64Mi" },
        },
        "terminationMessagePath": "/dev/termination-log",
        "terminationMessagePolicy": "File",
        "volumeMounts": [token_mount()],
    })
}

fn token_volume() -> String {
    format!("kube-api-access-{}", Own::Token.mark())
}

fn token_mount() -> Value {
    json!({
        "mountPath": "/var/run/secrets/kubernetes.io/serviceaccount",
        "name": token_volume(),
        "readOnly": true,
    })
}

fn volumes(workload: &Workload) -> Value {
    let mut volumes = vec![
        json!({ "name": "tmp", "emptyDir": if workload.in_share(16, 50) { json!({ "medium": "Memory" }) } else { json!({}) } }),
        json!({ "name": token_volume(), "projected": { "defaultMode": 420, "sources": [
            { "serviceAccountToken": { "expirationSeconds": 3607, "path": "token" } },
            { "configMap": { "items": [{ "key": "ca.crt", "path": "ca.crt" }], "name": "kube-root-ca.crt" } },
            { "downwardAPI": { "items": [{
                "fieldRef": { "apiVersion": "v1", "fieldPath": "metadata.namespace" },
                "path": "namespace",
            }] } },
        ] } }),
    ];
    if workload.control == Control::StatefulSet {
        let claim = format!("data-{}", pod_name(workload));
        volumes.push(json!({ "name": "data", "persistentVolumeClaim": { "claimName": claim } }));
    } else if workload.control == Control::Deployment && workload.in_share(17, 5) {
        let claim = format!("{}-shared", workload.name);
        volumes.push(json!({ "name": "shared", "persistentVolumeClaim": { "claimName": claim } }));
    }
    json!(volumes)
}
