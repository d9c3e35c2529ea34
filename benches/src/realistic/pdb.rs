//! Disruption budgets as the API server has them.

use serde_json::{Value, json};

use super::random::{text, uuid};
use super::spec::selector;
use super::workload::{Control, Workload};

/// Each `StatefulSet` and every third Deployment has a budget.
pub(super) fn has(workload: &Workload) -> bool {
    match workload.control {
        Control::StatefulSet => true,
        Control::Deployment => workload.number.is_multiple_of(3),
        _ => false,
    }
}

/// The budget of this workload.
pub(super) fn pdb(workload: &Workload) -> Value {
    let since = "2026-06-02T08:00:00Z";
    json!({
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {
            "name": workload.name,
            "namespace": workload.namespace,
            "uid": text(&uuid(workload.draw(60), workload.draw(61))),
            "resourceVersion": (800_000_000 + workload.first).to_string(),
            "creationTimestamp": since,
            "generation": 1,
            "labels": { "app.kubernetes.io/managed-by": "Helm", "app.kubernetes.io/name": workload.app },
        },
        "spec": { "maxUnavailable": 1, "selector": selector(workload) },
        "status": {
            "conditions": [{
                "lastTransitionTime": since,
                "message": "",
                "observedGeneration": 1,
                "reason": "SufficientPods",
                "status": "True",
                "type": "DisruptionAllowed",
            }],
            "currentHealthy": workload.pods,
            "desiredHealthy": workload.pods - 1,
            "disruptionsAllowed": 1,
            "expectedPods": workload.pods,
            "observedGeneration": 1,
        },
    })
}
