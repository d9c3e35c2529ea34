//! Nodes as the API server has them: about 12 KB of JSON, most of it images and managed fields.

use serde_json::{Map, Value, json};

use super::identity::{node_address, node_name};
use super::random::{digest_text, mix, text, time, uuid};

/// A node by number.
#[must_use]
pub(super) fn node(number: u64) -> Value {
    let name = text(&node_name(number)).to_owned();
    let ip = text(&node_address(number)).to_owned();
    let draw = |what: u64| mix([number, what, 3]);
    let zone = ["europe-west1-b", "europe-west1-c", "europe-west1-d"][(draw(1) % 3) as usize];
    let (machine, cpu, memory) =
        [("n2-standard-16", 16, 64), ("n2-highmem-16", 16, 128), ("c3-standard-22", 22, 88)][(number % 3) as usize];
    let created = text(&time(1_779_000_000 + draw(2) % 1_000_000)).to_owned();
    let labels = labels(&name, zone, machine, number);
    let mut conditions: Vec<Value> = [
        ("FrequentKubeletRestart", false, "NoFrequentKubeletRestart"),
        ("FrequentContainerdRestart", false, "NoFrequentContainerdRestart"),
        ("KernelDeadlock", false, "KernelHasNoDeadlock"),
        ("ReadonlyFilesystem", false, "FilesystemIsNotReadOnly"),
        ("CorruptDockerOverlay2", false, "NoCorruptDockerOverlay2"),
        ("NetworkUnavailable", false, "RouteCreated"),
        ("MemoryPressure", false, "KubeletHasSufficientMemory"),
        ("DiskPressure", false, "KubeletHasNoDiskPressure"),
        ("PIDPressure", false, "KubeletHasSufficientPID"),
        ("Ready", true, "KubeletReady"),
    ]
    .map(|(kind, holds, reason)| condition(kind, holds, reason, &created))
    .into();
    conditions[9]["message"] = json!("kubelet is posting ready status. AppArmor enabled");
    json!({
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": name,
            "uid": text(&uuid(draw(3), draw(4))),
            "resourceVersion": (900_000_000 + number).to_string(),
            "creationTimestamp": created,
            "annotations": {
                "container.googleapis.com/instance_id": draw(5).to_string(),
                "csi.volume.kubernetes.io/nodeid": format!("{{\"pd.csi.storage.gke.io\":\"projects/acme-prod/zones/{zone}/instances/{name}\"}}"),
                "node.alpha.kubernetes.io/ttl": "300",
                "node.gke.io/last-applied-node-labels": labels_text(&labels),
                "volumes.kubernetes.io/controller-managed-attach-detach": "true",
            },
            "managedFields": managed(&labels, &created),
            "labels": labels,
        },
        "spec": {
            "podCIDR": format!("10.{}.{}.0/24", number / 250, number % 250),
            "podCIDRs": [format!("10.{}.{}.0/24", number / 250, number % 250)],
            "providerID": format!("gce://acme-prod/{zone}/{name}"),
        },
        "status": {
            "addresses": [
                { "address": ip, "type": "InternalIP" },
                { "address": format!("{name}.c.acme-prod.internal"), "type": "InternalDNS" },
                { "address": format!("{name}.c.acme-prod.internal"), "type": "Hostname" },
            ],
            "allocatable": amounts(&format!("{}m", cpu * 1_000 - 110), memory * 1_024 - 5_200),
            "capacity": amounts(&cpu.to_string(), memory * 1_024),
            "conditions": conditions,
            "daemonEndpoints": { "kubeletEndpoint": { "Port": 10_250 } },
            "images": (0..30).map(|image| self::image(number, image)).collect::<Vec<_>>(),
            "nodeInfo": {
                "architecture": "amd64",
                "bootID": text(&uuid(draw(6), draw(7))),
                "containerRuntimeVersion": "containerd://2.0.4",
                "kernelVersion": "6.6.87+",
                "kubeProxyVersion": "",
                "kubeletVersion": "v1.33.4-gke.1172000",
                "machineID": digest_text(number)[..32],
                "operatingSystem": "linux",
                "osImage": "Container-Optimized OS from Google",
                "systemUUID": text(&uuid(draw(8), draw(9))),
            },
        },
    })
}

fn labels(name: &str, zone: &str, machine: &str, number: u64) -> Map<String, Value> {
    let pool = format!("pool-{}", number % 40);
    let labels = json!({
        "beta.kubernetes.io/arch": "amd64",
        "beta.kubernetes.io/instance-type": machine,
        "beta.kubernetes.io/os": "linux",
        "cloud.google.com/gke-boot-disk": "pd-balanced",
        "cloud.google.com/gke-container-runtime": "containerd",
        "cloud.google.com/gke-cpu-scaling-level": "16",
        "cloud.google.com/gke-logging-variant": "DEFAULT",
        "cloud.google.com/gke-max-pods-per-node": "256",
        "cloud.google.com/gke-memory-gb-scaling-level": "64",
        "cloud.google.com/gke-nodepool": pool,
        "cloud.google.com/gke-os-distribution": "cos",
        "cloud.google.com/gke-provisioning": "standard",
        "cloud.google.com/gke-stack-type": "IPV4",
        "cloud.google.com/machine-family": &machine[..2],
        "failure-domain.beta.kubernetes.io/region": "europe-west1",
        "failure-domain.beta.kubernetes.io/zone": zone,
        "kubernetes.io/arch": "amd64",
        "kubernetes.io/hostname": name,
        "kubernetes.io/os": "linux",
        "node.kubernetes.io/instance-type": machine,
        "topology.gke.io/zone": zone,
        "topology.kubernetes.io/region": "europe-west1",
        "topology.kubernetes.io/zone": zone,
        "workload-class": "general",
    });
    super::pod::object(labels)
}

fn labels_text(labels: &Map<String, Value>) -> String {
    let label = |(key, value): (&String, &Value)| format!("{key}={}", value.as_str().unwrap_or_default());
    labels.iter().map(label).collect::<Vec<_>>().join(",")
}

fn condition(kind: &str, holds: bool, reason: &str, since: &str) -> Value {
    json!({
        "lastHeartbeatTime": "2026-09-28T10:02:11Z",
        "lastTransitionTime": since,
        "message": format!("{reason}: nothing to report"),
        "reason": reason,
        "status": if holds { "True" } else { "False" },
        "type": kind,
    })
}

fn amounts(cpu: &str, mebibytes: u64) -> Value {
    json!({
        "cpu": cpu,
        "ephemeral-storage": "47060071478",
        "hugepages-1Gi": "0",
        "hugepages-2Mi": "0",
        "memory": format!("{}Ki", mebibytes * 1_024 - 308_213),
        "pods": "256",
    })
}

fn image(number: u64, image: u64) -> Value {
    let which = mix([number, image, 4]) % 400;
    let name = format!("europe-docker.pkg.dev/acme-prod/services/service-{which}");
    json!({
        "names": [format!("{name}@sha256:{}", digest_text(which)), format!("{name}:v1.{}.0", which % 40)],
        "sizeBytes": 20_000_000 + mix([which, 1, 4]) % 900_000_000,
    })
}

fn managed(labels: &Map<String, Value>, created: &str) -> Value {
    let written: Map<String, Value> = labels.keys().map(|key| (format!("f:{key}"), json!({}))).collect();
    json!([{
        "apiVersion": "v1",
        "fieldsType": "FieldsV1",
        "fieldsV1": { "f:metadata": { "f:labels": written }, "f:spec": { "f:providerID": {} } },
        "manager": "kubelet",
        "operation": "Update",
        "time": created,
    }])
}
