use serde_json::{Value, json};

use super::*;

fn event(uid: &str, component: &str, reason: &str, message: &str, at: &str) -> Value {
    json!({
        "metadata": {"name": format!("x.{reason}"), "creationTimestamp": "2026-01-05T00:00:00Z"},
        "involvedObject": {"kind": "Pod", "namespace": "kubectl-rotate-room", "name": "room-x", "uid": uid},
        "reason": reason, "message": message, "source": {"component": component}, "lastTimestamp": at, "type": "Warning",
    })
}

fn told(events: &[Value]) -> AllTold {
    let mut told = AllTold::default();
    told.take_events(&json!({"items": events}).to_string(), |_| true).unwrap();
    told
}

fn words(told: &AllTold) -> &str {
    &told.of("p").unwrap().words
}

#[test]
fn the_scheduler_is_heard_where_nobody_else_says_anything() {
    let message = "0/3 nodes are available: 1 node(s) were unschedulable, 2 Insufficient cpu. no new claims to deallocate, \
                   preemption: 0/3 nodes are available: 3 Preemption is not helpful for scheduling.";
    let told = told(&[event("p", "default-scheduler", "FailedScheduling", message, "2026-01-05T00:00:01Z")]);
    assert_eq!(words(&told), "0/3 nodes are available: 1 node(s) were unschedulable, 2 Insufficient cpu.");
}

#[test]
fn an_autoscalers_word_outweighs_the_schedulers_that_comes_again_and_again() {
    let why = "pod didn't trigger scale-up: 1 Insufficient ephemeral-storage, 2 max node group size reached";
    let told = told(&[
        event("p", "cluster-autoscaler", "NotTriggerScaleUp", why, "2026-01-05T00:00:05Z"),
        event("p", "default-scheduler", "FailedScheduling", "0/1 nodes are available", "2026-01-05T00:09:00Z"),
    ]);
    assert_eq!(
        words(&told),
        "cluster-autoscaler brings no node: 1 Insufficient ephemeral-storage, 2 max node group size reached"
    );
}

#[test]
fn the_newest_word_of_the_autoscalers_wins() {
    let no = event(
        "p",
        "cluster-autoscaler",
        "NotTriggerScaleUp",
        "pod didn't trigger scale-up: 1 in backoff",
        "2026-01-05T00:00:05Z",
    );
    let yes = event(
        "p",
        "cluster-autoscaler",
        "TriggeredScaleUp",
        "pod triggered scale-up: [{web 1->2 (max: 5)}]",
        "2026-01-05T00:01:00Z",
    );
    for events in [[no.clone(), yes.clone()], [yes, no]] {
        assert_eq!(words(&told(&events)), "cluster-autoscaler brings a node: [{web 1->2 (max: 5)}]");
    }
}

#[test]
fn karpenter_is_known_by_what_it_is_not_whatever_it_is_called() {
    for component in ["karpenter", "eks-auto-mode/compute"] {
        let message =
            "Failed to schedule pod, incompatible with nodepool \"gpu\", no instance type has enough resources";
        let told = told(&[event("p", component, "FailedScheduling", message, "2026-01-05T00:00:01Z")]);
        assert_eq!(words(&told), format!("{component} brings no node: {message}"));
    }
    let nominated =
        event("p", "karpenter", "Nominated", "Pod should schedule on: nodeclaim/web-x7z", "2026-01-05T00:00:01Z");
    assert_eq!(words(&told(&[nominated])), "karpenter intends it for nodeclaim/web-x7z");
}

#[test]
fn events_of_the_newer_kind_are_read_with_their_series() {
    let newer = json!({
        "metadata": {"creationTimestamp": "2026-01-05T00:00:00Z"},
        "involvedObject": {"uid": "p"}, "reason": "FailedScheduling", "message": "0/1 nodes are available: 1 Insufficient cpu.",
        "source": {}, "reportingComponent": "default-scheduler", "eventTime": "2026-01-05T00:00:00.123456Z",
        "firstTimestamp": null, "lastTimestamp": null,
        "series": {"count": 4, "lastObservedTime": "2026-01-05T00:02:00.654321Z"},
    });
    let told = told(&[newer]);
    assert_eq!(told.of("p").unwrap().at, "2026-01-05T00:02:00.654321Z".parse().unwrap());
}

#[test]
fn a_kubelet_that_cannot_start_it_has_the_last_word() {
    let mut told =
        told(&[event("p", "karpenter", "Nominated", "Pod should schedule on: node/n7", "2026-01-05T00:00:01Z")]);
    let pods = json!({"items": [
        {"metadata": {"uid": "p"}, "spec": {"nodeName": "n7"}, "status": {"phase": "Pending", "containerStatuses": [
            {"name": "room", "state": {"waiting": {"reason": "ImagePullBackOff", "message": "Back-off pulling image \"x\""}}}]}},
        {"metadata": {"uid": "q"}, "spec": {"nodeName": "n7"}, "status": {"phase": "Pending", "containerStatuses": [
            {"name": "room", "state": {"waiting": {"reason": "ContainerCreating"}}}]}},
        {"metadata": {"uid": "r"}, "spec": {}, "status": {"phase": "Pending"}}]});
    told.take_statuses(&pods.to_string()).unwrap();
    assert_eq!(words(&told), "node n7 cannot start it: ImagePullBackOff: Back-off pulling image \"x\"");
    assert!(told.of("q").is_none() && told.of("r").is_none());
}

#[test]
fn events_of_others_and_of_no_use_are_passed_over() {
    let mut told = AllTold::default();
    let events = json!({"items": [
        event("other", "default-scheduler", "FailedScheduling", "x", "2026-01-05T00:00:01Z"),
        event("p", "default-scheduler", "Scheduled", "x", "2026-01-05T00:00:01Z"),
        event("p", "kubelet", "Pulled", "x", "2026-01-05T00:00:01Z"),
        {"reason": "FailedScheduling"}, {}]});
    told.take_events(&events.to_string(), |uid| uid == "p").unwrap();
    assert_eq!(told, AllTold::default());
    assert!(told.take_events("no list", |_| true).is_err());
}

#[test]
fn a_page_tells_where_the_next_begins() {
    let page = |token: Value| json!({"metadata": {"continue": token}, "items": []}).to_string();
    let mut told = AllTold::default();
    assert_eq!(told.take_events(&page(json!("abc")), |_| true).unwrap().as_deref(), Some("abc"));
    assert_eq!(told.take_events(&page(json!("")), |_| true).unwrap(), None);
    assert_eq!(told.take_events(&page(json!(null)), |_| true).unwrap(), None);
}

#[test]
fn a_long_message_is_cut_and_stays_on_its_line() {
    let told =
        told(&[event("p", "karpenter", "FailedScheduling", &"många\npools ".repeat(500), "2026-01-05T00:00:01Z")]);
    assert_eq!(words(&told).chars().count(), LONGEST + 1);
    assert!(words(&told).ends_with('…') && !words(&told).contains('\n'));
}

#[test]
fn however_many_there_are_what_is_kept_is_bounded() {
    let events: Vec<_> = (0..AT_MOST + 50)
        .map(|number| event(&format!("p{number}"), "karpenter", "Nominated", "x", "2026-01-05T00:00:01Z"))
        .collect();
    assert_eq!(told(&events).0.len(), AT_MOST);
}
