//! Objects for setting a scene, in plain JSON.

use std::collections::BTreeMap;

use serde_json::{Value, json};

/// A node to be. The default: 4 CPU, 16 GiB, 110 Pods, in zone `a`.
#[must_use]
#[derive(Clone, Debug)]
pub struct NodeSpec {
    name: String,
    labels: BTreeMap<String, String>,
    annotations: BTreeMap<String, String>,
    allocatable: BTreeMap<String, String>,
    taints: Vec<Value>,
}

impl NodeSpec {
    /// A node of the default size.
    pub fn new(name: impl Into<String>) -> Self {
        let allocatable = [("cpu", "4"), ("memory", "16Gi"), ("ephemeral-storage", "100Gi"), ("pods", "110")];
        Self {
            name: name.into(),
            labels: BTreeMap::new(),
            annotations: BTreeMap::new(),
            allocatable: allocatable.map(|(key, value)| (key.to_owned(), value.to_owned())).into(),
            taints: Vec::new(),
        }
        .zone("a")
        .label("kubernetes.io/os", "linux")
        .label("kubernetes.io/arch", "amd64")
    }

    /// In `topology.kubernetes.io/zone`.
    pub fn zone(self, zone: &str) -> Self {
        self.label("topology.kubernetes.io/zone", zone)
    }

    /// With a label.
    pub fn label(mut self, key: &str, value: &str) -> Self {
        self.labels.insert(key.to_owned(), value.to_owned());
        self
    }

    /// With an annotation.
    pub fn annotation(mut self, key: &str, value: &str) -> Self {
        self.annotations.insert(key.to_owned(), value.to_owned());
        self
    }

    /// With this much allocatable CPU.
    pub fn cpu(self, cpu: &str) -> Self {
        self.resource("cpu", cpu)
    }

    /// With this much allocatable memory.
    pub fn memory(self, memory: &str) -> Self {
        self.resource("memory", memory)
    }

    /// With this much of any resource.
    pub fn resource(mut self, resource: &str, quantity: &str) -> Self {
        self.allocatable.insert(resource.to_owned(), quantity.to_owned());
        self
    }

    /// With a taint.
    pub fn taint(mut self, key: &str, value: &str, effect: &str) -> Self {
        self.taints.push(json!({"key": key, "value": value, "effect": effect}));
        self
    }

    /// The object, with a kubelet that reports it Ready.
    #[must_use]
    pub fn ready(self) -> Value {
        self.object("True")
    }

    /// The object, with a kubelet that still starts.
    #[must_use]
    pub fn booting(self) -> Value {
        self.object("False")
    }

    fn object(self, ready: &str) -> Value {
        let mut labels = self.labels;
        labels.entry("kubernetes.io/hostname".to_owned()).or_insert_with(|| self.name.clone());
        let mut node = json!({
            "apiVersion": "v1", "kind": "Node",
            "metadata": {"name": self.name, "labels": labels, "annotations": self.annotations},
            "spec": {"providerID": format!("sim://{}", self.name)},
            "status": {
                "capacity": self.allocatable, "allocatable": self.allocatable,
                "conditions": [{"type": "Ready", "status": ready, "reason": "KubeletReady"}],
                "nodeInfo": {"kubeletVersion": "v1.36.3", "operatingSystem": "linux", "architecture": "amd64",
                    "osImage": "Simulated", "containerRuntimeVersion": "sim://1", "kernelVersion": "6", "machineID": "",
                    "systemUUID": "", "bootID": "", "kubeProxyVersion": ""},
            },
        });
        if !self.taints.is_empty() {
            node["spec"]["taints"] = json!(self.taints);
        }
        node
    }
}

/// A namespace, with labels.
#[must_use]
pub fn namespace(name: &str, labels: &Value) -> Value {
    json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels}})
}

/// A Pod template labelled `app: NAME`, with one container that requests this much.
#[must_use]
pub fn template(app: &str, cpu: &str, memory: &str) -> Value {
    json!({
        "metadata": {"labels": {"app": app}},
        "spec": {"containers": [{
            "name": "app", "image": "registry.example/app:1",
            "resources": {"requests": {"cpu": cpu, "memory": memory}},
        }]},
    })
}

/// A bare Pod of a template, on no node.
#[must_use]
pub fn pod(name: &str, namespace: &str, template: &Value) -> Value {
    let mut pod = template.clone();
    pod["apiVersion"] = json!("v1");
    pod["kind"] = json!("Pod");
    pod["metadata"]["name"] = json!(name);
    pod["metadata"]["namespace"] = json!(namespace);
    pod
}

fn workload(kind: &str, name: &str, namespace: &str, replicas: Option<u32>, template: Value) -> Value {
    let labels = template["metadata"]["labels"].clone();
    let mut workload = json!({
        "apiVersion": "apps/v1", "kind": kind, "metadata": {"name": name, "namespace": namespace, "labels": labels},
        "spec": {"selector": {"matchLabels": labels}, "template": template},
    });
    if let Some(replicas) = replicas {
        workload["spec"]["replicas"] = json!(replicas);
    }
    workload
}

/// A ReplicaSet of a template.
#[must_use]
pub fn replica_set(name: &str, namespace: &str, replicas: u32, template: Value) -> Value {
    workload("ReplicaSet", name, namespace, Some(replicas), template)
}

/// A Deployment of a template.
#[must_use]
pub fn deployment(name: &str, namespace: &str, replicas: u32, template: Value) -> Value {
    workload("Deployment", name, namespace, Some(replicas), template)
}

/// A StatefulSet of a template.
#[must_use]
pub fn stateful_set(name: &str, namespace: &str, replicas: u32, template: Value) -> Value {
    workload("StatefulSet", name, namespace, Some(replicas), template)
}

/// A DaemonSet of a template.
#[must_use]
pub fn daemon_set(name: &str, namespace: &str, template: Value) -> Value {
    workload("DaemonSet", name, namespace, None, template)
}

/// A Job whose Pods run for so many seconds each.
#[must_use]
pub fn job(name: &str, namespace: &str, completions: u32, seconds: u32, mut template: Value) -> Value {
    template["spec"]["restartPolicy"] = json!("Never");
    template["metadata"]["annotations"][crate::kubelet::RUNS_FOR] = json!(seconds.to_string());
    json!({
        "apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": name, "namespace": namespace},
        "spec": {"completions": completions, "parallelism": completions, "backoffLimit": 6, "template": template},
    })
}

/// A PodDisruptionBudget over `app: APP`; `bound` is `minAvailable` or `maxUnavailable`, `value` a number or percentage.
#[must_use]
pub fn disruption_budget(name: &str, namespace: &str, app: &str, bound: &str, value: Value) -> Value {
    let mut budget = json!({
        "apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": name, "namespace": namespace},
        "spec": {"selector": {"matchLabels": {"app": app}}},
    });
    budget["spec"][bound] = value;
    budget
}

/// A PriorityClass.
#[must_use]
pub fn priority_class(name: &str, value: i32, preempts: bool) -> Value {
    json!({
        "apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": name}, "value": value,
        "preemptionPolicy": if preempts { "PreemptLowerPriority" } else { "Never" },
    })
}

/// A StorageClass whose volumes are made where their first Pod goes.
#[must_use]
pub fn storage_class(name: &str) -> Value {
    json!({
        "apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": {"name": name},
        "provisioner": "sim.kubectl-rotate.dev", "volumeBindingMode": "WaitForFirstConsumer",
    })
}
