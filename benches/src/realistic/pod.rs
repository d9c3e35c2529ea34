//! The Pods of a workload as the API server has them: about 7.5 KB of JSON, with marks for what each has of its own.

use serde_json::{Map, Value, json};

use super::fields;
use super::owner::{labels, owner, pod_name};
use super::random::digest_text;
use super::spec;
use super::workload::{Control, Workload};
use crate::wire::Own;

/// How far a Pod is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Stage {
    /// Created, without a node.
    Pending,
    /// Bound, its containers not yet started.
    Starting,
    /// Running and ready.
    Ready,
    /// Ended well.
    Succeeded,
}

/// A Pod of this workload.
pub(super) fn pod(workload: &Workload, stage: Stage) -> Value {
    let mut metadata = metadata(workload);
    let spec = spec::spec(workload, stage);
    let status = status(workload, &spec, stage);
    let controller = match workload.control {
        Control::CronJob | Control::IndexedJob | Control::Deployment | Control::StatefulSet | Control::DaemonSet => {
            "kube-controller-manager"
        }
        Control::Workflow => "workflow-controller",
        Control::Bare => "kubectl-run",
    };
    let mut managed = vec![fields::written(
        controller,
        None,
        Own::Created,
        &json!({ "metadata": metadata, "spec": fields::by_controller(&spec) }),
    )];
    if stage != Stage::Pending {
        managed.push(fields::written("kubelet", Some("status"), Own::Started, &json!({ "status": status })));
    }
    let own = json!({
        "name": pod_name(workload),
        "namespace": workload.namespace,
        "uid": Own::Uid.mark(),
        "resourceVersion": Own::Revision.mark(),
        "creationTimestamp": Own::Created.mark(),
        "generation": 1,
        "managedFields": managed,
    });
    metadata.extend(object(own));
    json!({ "apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec, "status": status })
}

/// The fields of a value that is an object.
pub(super) fn object(value: Value) -> Map<String, Value> {
    match value {
        Value::Object(fields) => fields,
        other => panic!("{other} is no object"),
    }
}

/// What its controller writes.
fn metadata(workload: &Workload) -> Map<String, Value> {
    let mut annotations = json!({
        "prometheus.io/port": "9090",
        "prometheus.io/scrape": "true",
    });
    if workload.in_share(20, 30) {
        annotations["checksum/config"] = json!(digest_text(workload.draw(20)));
    }
    if workload.in_share(21, 25) {
        annotations["kubectl.kubernetes.io/restartedAt"] = json!("2026-09-14T09:12:44+02:00");
    }
    if workload.in_share(22, 5) {
        annotations["cluster-autoscaler.kubernetes.io/safe-to-evict"] = json!("false");
    }
    if workload.in_share(23, 2) {
        annotations["karpenter.sh/do-not-disrupt"] = json!("true");
    }
    if workload.control == Control::IndexedJob {
        annotations["batch.kubernetes.io/job-completion-index"] = json!(Own::Ordinal.mark());
    }
    let mut metadata = object(json!({ "annotations": annotations, "labels": labels(workload) }));
    if let Some(prefix) = pod_name(workload).strip_suffix(Own::Suffix.mark()) {
        metadata.insert("generateName".into(), json!(prefix));
    }
    if let Some(owner) = owner(workload) {
        metadata.insert("ownerReferences".into(), json!([owner]));
    }
    metadata
}

fn status(workload: &Workload, spec: &Value, stage: Stage) -> Value {
    let condition = |kind: &str, holds: bool, since: Own| {
        let mut condition = json!({
            "lastProbeTime": null,
            "lastTransitionTime": since.mark(),
            "status": if holds { "True" } else { "False" },
            "type": kind,
        });
        if !holds {
            condition["reason"] = json!(if stage == Stage::Succeeded { "PodCompleted" } else { "ContainersNotReady" });
            if stage == Stage::Starting {
                condition["message"] = json!("containers with unready status: [app proxy]");
            }
        }
        condition
    };
    if stage == Stage::Pending {
        return json!({ "phase": "Pending", "qosClass": "Burstable" });
    }
    let ready = stage == Stage::Ready;
    let containers = spec["containers"].as_array().expect("a Pod has containers");
    let ids = [Own::FirstContainer, Own::SecondContainer];
    let statuses = containers.iter().zip(ids).map(|(container, id)| container_status(workload, container, id, stage));
    json!({
        "phase": match stage { Stage::Ready => "Running", Stage::Succeeded => "Succeeded", _ => "Pending" },
        "conditions": [
            condition("Initialized", true, Own::Created),
            condition("Ready", ready, Own::Started),
            condition("ContainersReady", ready, Own::Started),
            condition("PodScheduled", true, Own::Created),
        ],
        "hostIP": Own::HostIp.mark(),
        "hostIPs": [{ "ip": Own::HostIp.mark() }],
        "podIP": Own::PodIp.mark(),
        "podIPs": [{ "ip": Own::PodIp.mark() }],
        "startTime": Own::Created.mark(),
        "qosClass": "Burstable",
        "containerStatuses": statuses.collect::<Vec<_>>(),
    })
}

fn container_status(workload: &Workload, container: &Value, id: Own, stage: Stage) -> Value {
    let image = container["image"].as_str().expect("a container has an image");
    let repository = image.split(':').next().unwrap_or(image);
    let container_id = format!("containerd://{}", id.mark());
    let state = match stage {
        Stage::Pending | Stage::Starting => json!({ "waiting": { "reason": "ContainerCreating" } }),
        Stage::Ready => json!({ "running": { "startedAt": Own::Started.mark() } }),
        Stage::Succeeded => json!({ "terminated": {
            "containerID": container_id,
            "exitCode": 0,
            "reason": "Completed",
            "startedAt": Own::Started.mark(),
            "finishedAt": Own::Ended.mark(),
        } }),
    };
    let ready = stage == Stage::Ready;
    let mut status = json!({
        "name": container["name"],
        "image": image,
        "imageID": "",
        "lastState": {},
        "ready": ready,
        "restartCount": 0,
        "started": ready,
        "state": state,
    });
    if stage != Stage::Starting {
        status["containerID"] = json!(container_id);
        status["imageID"] = json!(format!("{repository}@sha256:{}", digest_text(workload.draw(30))));
        status["allocatedResources"] = container["resources"]["requests"].clone();
        status["resources"] = container["resources"].clone();
    }
    status
}
