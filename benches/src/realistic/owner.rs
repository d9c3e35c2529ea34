//! Names, labels and owners of a workload's Pods.

use serde_json::{Value, json};

use super::random::{text, uuid};
use super::workload::{Control, Workload};
use crate::wire::Own;

/// The name of its Pods.
pub(super) fn pod_name(workload: &Workload) -> String {
    let name = &workload.name;
    let suffix = Own::Suffix.mark();
    let ordinal = Own::Ordinal.mark();
    match workload.control {
        Control::Deployment => format!("{name}-{}-{suffix}", workload.template_hash()),
        Control::StatefulSet => format!("{name}-{ordinal}"),
        Control::IndexedJob => format!("{name}-{ordinal}-{suffix}"),
        Control::CronJob => format!("{}-{suffix}", job(workload)),
        Control::DaemonSet | Control::Workflow | Control::Bare => format!("{name}-{suffix}"),
    }
}

fn job(workload: &Workload) -> String {
    match workload.control {
        Control::CronJob => format!("{}-{}", workload.name, Own::Minute.mark()),
        _ => workload.name.clone(),
    }
}

/// The labels of its Pods.
pub(super) fn labels(workload: &Workload) -> Value {
    let own_uid = || if workload.control == Control::CronJob { mark(Own::OwnerUid) } else { owner_uid(workload) };
    let mut labels = json!({
        "app.kubernetes.io/component": workload.app.rsplit('-').next(),
        "app.kubernetes.io/instance": workload.name,
        "app.kubernetes.io/managed-by": "Helm",
        "app.kubernetes.io/name": workload.app,
        "app.kubernetes.io/version": format!("v1.{}.{}", workload.draw(40) % 40, workload.draw(41) % 10),
        "helm.sh/chart": format!("{}-2.{}.0", workload.app, workload.draw(42) % 30),
        "team": workload.namespace.rsplit_once('-').map(|(team, _)| team),
    });
    match workload.control {
        Control::Deployment => labels["pod-template-hash"] = json!(workload.template_hash()),
        Control::StatefulSet => {
            labels["apps.kubernetes.io/pod-index"] = json!(Own::Ordinal.mark());
            labels["controller-revision-hash"] = json!(format!("{}-{}", workload.name, workload.template_hash()));
            labels["statefulset.kubernetes.io/pod-name"] = json!(pod_name(workload));
        }
        Control::IndexedJob | Control::CronJob => {
            labels["batch.kubernetes.io/controller-uid"] = json!(own_uid());
            labels["batch.kubernetes.io/job-name"] = json!(job(workload));
            labels["controller-uid"] = json!(own_uid());
            labels["job-name"] = json!(job(workload));
            if workload.control == Control::IndexedJob {
                labels["batch.kubernetes.io/job-completion-index"] = json!(Own::Ordinal.mark());
            }
        }
        Control::DaemonSet => {
            labels["controller-revision-hash"] = json!(workload.template_hash());
            labels["pod-template-generation"] = json!("14");
        }
        Control::Workflow => {
            // What makes sharing hopeless: a run, a task and a try for each Pod.
            labels["dag_id"] = json!(workload.name);
            labels["run_id"] = json!(format!("scheduled__{}-{}", Own::Minute.mark(), Own::Token.mark()));
            labels["task_id"] = json!(format!("extract-{}", Own::Suffix.mark()));
            labels["try_number"] = json!("1");
        }
        Control::Bare => labels["run"] = json!(pod_name(workload)),
    }
    labels
}

fn mark(own: Own) -> String {
    own.mark().to_string()
}

/// The UID of the owner that all of them have.
fn owner_uid(workload: &Workload) -> String {
    text(&uuid(workload.draw(50), workload.draw(51))).to_owned()
}

/// Its Pods' controller.
pub(super) fn owner(workload: &Workload) -> Option<Value> {
    let (api_version, kind, name) = match workload.control {
        Control::Deployment => ("apps/v1", "ReplicaSet", format!("{}-{}", workload.name, workload.template_hash())),
        Control::StatefulSet => ("apps/v1", "StatefulSet", workload.name.clone()),
        Control::IndexedJob | Control::CronJob => ("batch/v1", "Job", job(workload)),
        Control::DaemonSet => ("apps/v1", "DaemonSet", workload.name.clone()),
        Control::Workflow => ("argoproj.io/v1alpha1", "Workflow", workload.name.clone()),
        Control::Bare => return None,
    };
    let uid = if workload.control == Control::CronJob { mark(Own::OwnerUid) } else { owner_uid(workload) };
    Some(json!({
        "apiVersion": api_version,
        "blockOwnerDeletion": true,
        "controller": true,
        "kind": kind,
        "name": name,
        "uid": uid,
    }))
}
