//! Which Pods count: the rows of the behaviour vectors and of the architecture's table.

mod absorb;
mod asked;
mod blocks;
mod pins;

use serde_json::{Value, json};

use super::*;
use crate::provider::ProviderObjects;
use crate::surge::plan;
use crate::surge::testing::{self, merge, owner, pod};

const NOW: &str = "2026-01-05T01:00:00Z";

fn now() -> Timestamp {
    NOW.parse().unwrap()
}

fn cand() -> Node {
    testing::node("cand", &json!({}))
}

fn with(options: Options, over: &Value) -> Verdict {
    let node = cand();
    let volumes = Volumes::default();
    classify(&pod("shop", "web-1", over), &Context::new(&node, &volumes, &options, now()))
}

fn by_default(over: &Value) -> Verdict {
    with(Options::default(), over)
}

fn codes(notices: &[Notice]) -> Vec<Code> {
    notices.iter().map(|notice| notice.code).collect()
}

fn blocked_by(verdict: &Verdict) -> Vec<Code> {
    assert_eq!(verdict.disposition == Disposition::Block, !verdict.blockers.is_empty());
    codes(&verdict.blockers)
}

/// A Pod that requests one CPU, with `over` in its place.
fn one_cpu(over: &Value) -> Value {
    let mut object = testing::requesting(&json!({ "cpu": "1" }));
    merge(&mut object, over);
    object
}

fn bare() -> Value {
    json!({ "metadata": { "ownerReferences": [] } })
}

/// What a plan reserves for these Pods on `cand`, in thousandths of a CPU and in bytes; the cache's own sum must agree,
/// which knows neither options nor volumes.
fn reserved_for(pods: Vec<Pod>) -> (i64, i64) {
    let state = testing::state([cand(), testing::node("other", &json!({}))], pods);
    let plan = plan::plan(&state, "cand", &Volumes::default(), &ProviderObjects::default(), &Options::default(), now())
        .unwrap();
    let amount = |name: &str| plan.totals.reserved.get(name).copied();
    let reserved =
        (amount("cpu").and_then(|cpu| cpu.milli()).unwrap_or(0), amount("memory").map_or(0, |memory| memory.value()));
    let movable = state.movable("cand").requests;
    assert_eq!((movable.milli_cpu, movable.memory), reserved, "the cache's running sum");
    reserved
}

fn cpu_reserved_for(over: &Value) -> i64 {
    reserved_for(vec![pod("shop", "web-1", &one_cpu(over))]).0
}

// === sums ===

#[test]
fn pods_of_replica_sets_on_the_candidate_are_summed() {
    let sum = reserved_for(vec![
        pod("shop", "web-1", &testing::requesting(&json!({ "cpu": "500m", "memory": "1Gi" }))),
        pod("shop", "web-2", &testing::requesting(&json!({ "cpu": "250m", "memory": "512Mi" }))),
    ]);
    assert_eq!(sum, (750, 1536 << 20));
}

#[test]
fn pods_on_other_nodes_are_not_summed() {
    let mut elsewhere = testing::requesting(&json!({ "cpu": "999" }));
    merge(&mut elsewhere, &json!({ "spec": { "nodeName": "other" } }));
    let here = pod("shop", "web-1", &testing::requesting(&json!({ "cpu": "500m" })));
    assert_eq!(reserved_for(vec![here, pod("shop", "web-2", &elsewhere)]).0, 500);
}

#[test]
fn daemon_set_pods_are_not_counted() {
    let daemon = one_cpu(&json!({ "metadata": { "ownerReferences": [owner("apps/v1", "DaemonSet", "logs")] } }));
    let plain = pod("shop", "web-1", &testing::requesting(&json!({ "cpu": "200m" })));
    assert_eq!(reserved_for(vec![plain, pod("shop", "logs-1", &daemon)]).0, 200);
}

#[test]
fn a_daemon_set_that_is_not_the_controlling_owner_changes_nothing() {
    let mut reference = owner("apps/v1", "DaemonSet", "logs");
    reference["controller"] = json!(false);
    let mut object = testing::requesting(&json!({ "cpu": "100m" }));
    merge(
        &mut object,
        &json!({ "metadata": { "ownerReferences": [owner("apps/v1", "ReplicaSet", "web"), reference] } }),
    );
    assert_eq!(reserved_for(vec![pod("shop", "web-1", &object)]).0, 100);
}

#[test]
fn a_daemon_set_of_another_group_recreates_its_pods_elsewhere() {
    let owned = json!({ "metadata": { "ownerReferences": [owner("apps.kruise.io/v1alpha1", "DaemonSet", "logs")] } });
    assert_eq!(cpu_reserved_for(&owned), 1000);
}

#[test]
fn mirror_pods_stay() {
    let mirror = json!({ "metadata": {
        "annotations": { "kubernetes.io/config.mirror": "x" },
        "ownerReferences": [owner("v1", "Node", "cand")],
    } });
    assert_eq!(cpu_reserved_for(&mirror), 0);
    let verdict = by_default(&mirror);
    assert_eq!((verdict.disposition, verdict.reason), (Disposition::Stay, PodReason::Mirror));
}

#[test]
fn a_pod_owned_by_a_node_without_the_mirror_annotation_is_bare() {
    let claimed = json!({ "metadata": { "ownerReferences": [owner("v1", "Node", "cand")] } });
    assert_eq!(by_default(&claimed).reason, PodReason::Bare);
    assert_eq!(cpu_reserved_for(&claimed), 0);
}

#[test]
fn finished_pods_are_gone_and_not_counted() {
    for phase in ["Succeeded", "Failed"] {
        let finished = json!({ "status": { "phase": phase } });
        assert_eq!(cpu_reserved_for(&finished), 0, "{phase}");
        let verdict = by_default(&finished);
        assert_eq!((verdict.disposition, verdict.reason), (Disposition::Gone, PodReason::Completed));
    }
}

#[test]
fn pending_and_unknown_pods_bound_to_the_candidate_are_counted() {
    for phase in ["Pending", "Unknown"] {
        assert_eq!(cpu_reserved_for(&json!({ "status": { "phase": phase } })), 1000, "{phase}");
    }
}

#[test]
fn a_terminating_pod_is_counted_while_its_owner_will_recreate_it() {
    let terminating = json!({ "metadata": { "deletionTimestamp": NOW } });
    assert_eq!(cpu_reserved_for(&terminating), 1000);
    let verdict = by_default(&terminating);
    assert_eq!((verdict.disposition, verdict.reason), (Disposition::Wait, PodReason::Terminating));
}

#[test]
fn a_terminating_bare_pod_is_only_waited_for() {
    let terminating = json!({ "metadata": { "deletionTimestamp": NOW, "ownerReferences": [] } });
    assert_eq!(cpu_reserved_for(&terminating), 0);
    assert_eq!(by_default(&terminating).disposition, Disposition::Wait);
}

#[test]
fn a_pod_without_requests_needs_a_slot_and_nothing_else() {
    let state = testing::state([cand()], [pod("shop", "web-1", &json!({}))]);
    let plan = plan::plan(&state, "cand", &Volumes::default(), &ProviderObjects::default(), &Options::default(), now())
        .unwrap();
    assert_eq!(plan.totals.pods, 1);
    assert!(plan.totals.reserved.is_empty());
    assert_eq!(state.movable("cand").pods, 1);
}

#[test]
fn ephemeral_containers_are_not_counted() {
    let debugged = json!({ "spec": {
        "containers": [{ "name": "app", "resources": { "requests": { "cpu": "500m" } } }],
        "ephemeralContainers": [{ "name": "debug", "resources": { "requests": { "cpu": "5" } } }],
    } });
    assert_eq!(reserved_for(vec![pod("shop", "web-1", &debugged)]).0, 500);
}

#[test]
fn a_resize_in_progress_counts_what_the_node_still_holds() {
    let resizing = json!({
        "spec": { "containers": [{ "name": "app", "resources": { "requests": { "cpu": "500m" } } }] },
        "status": { "containerStatuses": [{
            "name": "app",
            "allocatedResources": { "cpu": "2" },
            "resources": { "requests": { "cpu": "2" } },
        }] },
    });
    assert_eq!(reserved_for(vec![pod("shop", "web-1", &resizing)]).0, 2000);
}

#[test]
fn an_infeasible_resize_counts_what_is_there() {
    let stuck = json!({
        "spec": { "containers": [{ "name": "app", "resources": { "requests": { "cpu": "4" } } }] },
        "status": {
            "conditions": [{ "type": "PodResizePending", "status": "True", "reason": "Infeasible" }],
            "containerStatuses": [{ "name": "app", "resources": { "requests": { "cpu": "1" } } }],
        },
    });
    assert_eq!(reserved_for(vec![pod("shop", "web-1", &stuck)]).0, 1000);
}
