//! Each type as it goes over the wire. A change here is a change that an older or newer program must live with.

#![expect(clippy::unwrap_used, reason = "helpers of tests; the lint exempts only the tests themselves")]

use std::fmt::Debug;

use jiff::Timestamp;
use rotate_shared::plan::{
    Class, Disposition, Estimate, GroupSize, Notice, PlannedPlaceholder, PlannedPod, PodReason, Provider, Room, Totals,
};
use rotate_shared::rotation::{Outcome, PhaseSpan, Progress, RequestedBy, Waiting};
use rotate_shared::{
    API_VERSION, Amounts, CacheInfo, CancelRequest, Code, FeedInfo, NodeList, NodeSummary, Options, OptionsRequest,
    Phase, Plan, PlanList, PlanRequest, Problem, Rotation, RotationList, RotationRequest, Skew, SurgeMode, Then,
    VersionInfo,
};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

fn at(seconds: i64) -> Timestamp {
    Timestamp::from_second(1_800_000_000 + seconds).unwrap()
}

fn amounts(pairs: &[(&str, &str)]) -> Amounts {
    pairs.iter().map(|(name, quantity)| ((*name).to_owned(), quantity.parse().unwrap())).collect()
}

fn notice() -> Notice {
    Notice {
        code: Code::BarePod,
        object: "Pod shop/once".to_owned(),
        message: "has no controller".to_owned(),
        remedy: "--force".to_owned(),
    }
}

/// Adds a field that this version does not know to every object.
fn of_the_future(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            fields.values_mut().for_each(of_the_future);
            // A map of amounts takes any name.
            if !fields.contains_key("cpu") {
                fields.insert("ofTheFuture".to_owned(), json!({ "deep": [1] }));
            }
        }
        Value::Array(items) => items.iter_mut().for_each(of_the_future),
        _ => {}
    }
}

fn goes_over_the_wire_as<T: Serialize + DeserializeOwned + PartialEq + Debug>(value: &T, written: &Value) {
    assert_eq!(&serde_json::to_value(value).unwrap(), written);
    assert_eq!(&serde_json::from_value::<T>(written.clone()).unwrap(), value);
}

/// Answers of a newer agent are read as far as they are understood.
fn answer<T: Serialize + DeserializeOwned + PartialEq + Debug>(value: &T, written: &Value) {
    goes_over_the_wire_as(value, written);
    let mut newer = written.clone();
    of_the_future(&mut newer);
    assert_eq!(&serde_json::from_value::<T>(newer).unwrap(), value);
}

/// Requests of a newer plugin are refused as far as they are not understood, by the name of the field.
fn request<T: Serialize + DeserializeOwned + PartialEq + Debug>(value: &T, written: &Value) {
    goes_over_the_wire_as(value, written);
    let mut newer = written.clone();
    newer["ofTheFuture"] = json!(1);
    let refusal = serde_json::from_value::<T>(newer).unwrap_err().to_string();
    assert!(refusal.contains("unknown field `ofTheFuture`"), "{refusal}");
}

#[test]
fn plan_request() {
    let options = OptionsRequest { force: Some(true), ..OptionsRequest::default() };
    let value = PlanRequest { nodes: vec!["a".to_owned()], options, ..PlanRequest::default() };
    request(&value, &json!({ "nodes": ["a"], "options": { "force": true } }));
    assert_eq!(serde_json::from_str::<PlanRequest>("{}").unwrap(), PlanRequest::default());
    // Said only where it is asked for: an older agent refuses it.
    let asking = PlanRequest { ask_evictions: true, ..PlanRequest::default() };
    request(&asking, &json!({ "options": {}, "askEvictions": true }));
}

#[test]
fn rotation_request() {
    let value = RotationRequest {
        nodes: Vec::new(),
        selector: Some("pool=web".to_owned()),
        options: OptionsRequest {
            then: Some(Then::Uncordon),
            surge: Some(SurgeMode::None),
            pod_selector: Some("app=cart".to_owned()),
            skip_wait_for_delete_timeout_seconds: Some(60),
            ..OptionsRequest::default()
        },
        claimed_user: Some("ada".to_owned()),
    };
    let options = json!({
        "surge": "none", "then": "uncordon", "podSelector": "app=cart", "skipWaitForDeleteTimeoutSeconds": 60
    });
    request(&value, &json!({ "selector": "pool=web", "options": options, "claimedUser": "ada" }));
}

#[test]
fn an_option_that_is_not_known_is_refused_by_name() {
    request(&OptionsRequest::default(), &json!({}));
    let refusal = serde_json::from_value::<RotationRequest>(json!({ "options": { "ofTheFuture": 1 } })).unwrap_err();
    assert!(refusal.to_string().contains("unknown field `ofTheFuture`"));
}

#[test]
fn cancel_request() {
    request(&CancelRequest { uncordon: true }, &json!({ "uncordon": true }));
    assert_eq!(serde_json::from_str::<CancelRequest>("{}").unwrap(), CancelRequest { uncordon: false });
}

#[test]
fn options_of_a_record() {
    let written = json!({
        "surge": "per-pod", "surgeTimeoutSeconds": 900, "settleTimeoutSeconds": 300, "force": false,
        "deleteEmptydirData": false, "ignoreDaemonsets": true, "gracePeriodSeconds": -1, "disableEviction": false,
        "evictPinned": false, "ignoreDoNotDisrupt": false, "allowControlPlane": false, "maxConcurrent": 1,
        "maxFailures": 1, "rebootTimeoutSeconds": 900, "skipWaitForDeleteTimeoutSeconds": 0
    });
    answer(&Options::default(), &written);
    // A record of an older agent, which had fewer options.
    assert_eq!(serde_json::from_str::<Options>("{}").unwrap(), Options::default());
}

fn plan() -> (Plan, Value) {
    let requests = amounts(&[("cpu", "100m"), ("memory", "128Mi")]);
    let value = Plan {
        api_version: API_VERSION.to_owned(),
        kind: "Plan".to_owned(),
        node: "a".to_owned(),
        provider: Provider::ClusterAutoscaler,
        then: Some(Then::Keep),
        cordoned: false,
        totals: Totals { pods: 1, reserved: requests.clone() },
        pods: vec![PlannedPod {
            namespace: "shop".to_owned(),
            name: "cart-1".to_owned(),
            uid: "u1".to_owned(),
            disposition: Disposition::Evict,
            reserved: true,
            reason: PodReason::DoNotDisrupt,
            class: Some("a".to_owned()),
            requests: requests.clone(),
        }],
        classes: vec![Class {
            id: "a".to_owned(),
            pods: 1,
            requests: requests.clone(),
            constraints: vec!["zone a".to_owned()],
            room: vec![
                Room { node: Some("b".to_owned()), new_node: None, count: 1 },
                Room { node: None, new_node: Some("zone a".to_owned()), count: 2 },
            ],
        }],
        placeholders: vec![PlannedPlaceholder {
            class: "a".to_owned(),
            pod: "shop/cart-1".to_owned(),
            requests: requests.clone(),
        }],
        groups: vec![GroupSize {
            name: "group web (eks)".to_owned(),
            provider: Provider::ClusterAutoscaler,
            nodes: 3,
            min: 1,
            max: 10,
            during: 4,
            after: 3,
        }],
        blockers: vec![notice()],
        warnings: vec![Notice { code: Code::JobPod, remedy: String::new(), ..notice() }],
        estimate: Estimate { surge_seconds: 60, drain_seconds: 30, extra_node_seconds: 90 },
    };
    let requests = json!({ "cpu": "100m", "memory": "128Mi" });
    let written = json!({
        "apiVersion": "kubectl-rotate.dev/v1", "kind": "Plan", "node": "a", "provider": "cluster-autoscaler",
        "then": "keep",
        "totals": { "pods": 1, "reserved": requests },
        "pods": [{
            "namespace": "shop", "name": "cart-1", "uid": "u1", "disposition": "evict", "reserved": true,
            "reason": "do-not-disrupt", "class": "a", "requests": requests
        }],
        "classes": [{
            "id": "a", "pods": 1, "requests": requests, "constraints": ["zone a"],
            "room": [{ "node": "b", "count": 1 }, { "newNode": "zone a", "count": 2 }]
        }],
        "placeholders": [{ "class": "a", "pod": "shop/cart-1", "requests": requests }],
        "groups": [{
            "name": "group web (eks)", "provider": "cluster-autoscaler", "nodes": 3, "min": 1, "max": 10, "during": 4,
            "after": 3
        }],
        "blockers": [{ "code": "BarePod", "object": "Pod shop/once", "message": "has no controller", "remedy": "--force" }],
        "warnings": [{ "code": "JobPod", "object": "Pod shop/once", "message": "has no controller" }],
        "estimate": { "surgeSeconds": 60, "drainSeconds": 30, "extraNodeSeconds": 90 }
    });
    (value, written)
}

#[test]
fn plan_and_its_list() {
    let (value, written) = plan();
    answer(&value, &written);
    let list = PlanList { api_version: API_VERSION.to_owned(), kind: "PlanList".to_owned(), items: vec![value] };
    answer(&list, &json!({ "apiVersion": "kubectl-rotate.dev/v1", "kind": "PlanList", "items": [written] }));
}

fn rotation() -> (Rotation, Value) {
    let value = Rotation {
        api_version: API_VERSION.to_owned(),
        kind: "Rotation".to_owned(),
        id: "0123456789".to_owned(),
        batch: Some("beef".to_owned()),
        node: "a".to_owned(),
        node_uid: "u".to_owned(),
        provider: Provider::Unmanaged,
        phase: Phase::RollingBack,
        paused: true,
        cancelling: true,
        options: Options::default(),
        created_at: at(0),
        phases: vec![
            PhaseSpan { phase: Phase::Queued, started_at: at(0), finished_at: Some(at(1)) },
            PhaseSpan { phase: Phase::RollingBack, started_at: at(1), finished_at: None },
        ],
        progress: Progress { to_move: 4, reserved: 3, evicted: 2, landed: 1, uncounted: false },
        waiting: vec![Waiting {
            code: Code::PodDisruptionBudget,
            object: "PodDisruptionBudget shop/cart".to_owned(),
            message: "needs 3 healthy, has 3".to_owned(),
            since: at(1),
            remedy: String::new(),
        }],
        warnings: vec![notice()],
        moved: vec!["shop/cart-1".to_owned()],
        outcome: Some(Outcome { code: Some(Code::Reserving), message: "no room came".to_owned() }),
        requested_by: RequestedBy { claimed: Some("ada".to_owned()), credential_id: Some("JTI=1".to_owned()) },
        revision: 7,
    };
    let written = json!({
        "apiVersion": "kubectl-rotate.dev/v1", "kind": "Rotation", "id": "0123456789", "batch": "beef", "node": "a",
        "nodeUID": "u", "provider": "unmanaged", "phase": "RollingBack", "paused": true, "cancelling": true,
        "options": serde_json::to_value(Options::default()).unwrap(), "createdAt": "2027-01-15T08:00:00Z",
        "phases": [
            { "phase": "Queued", "startedAt": "2027-01-15T08:00:00Z", "finishedAt": "2027-01-15T08:00:01Z" },
            { "phase": "RollingBack", "startedAt": "2027-01-15T08:00:01Z" }
        ],
        "progress": { "toMove": 4, "reserved": 3, "evicted": 2, "landed": 1 },
        "waiting": [{
            "code": "PodDisruptionBudget", "object": "PodDisruptionBudget shop/cart",
            "message": "needs 3 healthy, has 3", "since": "2027-01-15T08:00:01Z"
        }],
        "warnings": [{ "code": "BarePod", "object": "Pod shop/once", "message": "has no controller", "remedy": "--force" }],
        "moved": ["shop/cart-1"],
        "outcome": { "code": "Reserving", "message": "no room came" },
        "requestedBy": { "claimed": "ada", "credentialId": "JTI=1" },
        "revision": 7
    });
    (value, written)
}

#[test]
fn rotation_and_its_list() {
    let (value, written) = rotation();
    answer(&value, &written);
    let list =
        RotationList { api_version: API_VERSION.to_owned(), kind: "RotationList".to_owned(), items: vec![value] };
    answer(&list, &json!({ "apiVersion": "kubectl-rotate.dev/v1", "kind": "RotationList", "items": [written] }));
}

#[test]
fn node_and_its_list() {
    let value = NodeSummary {
        name: "a".to_owned(),
        created_at: at(0),
        ready: true,
        schedulable: false,
        provider: Provider::Karpenter,
        movable_pods: Some(2),
        pods: Some(3),
        movable: Some(amounts(&[("cpu", "1")])),
        allocatable: amounts(&[("cpu", "4")]),
        blockers: Some(1),
        rotation: Some("0123456789".to_owned()),
        pods_revision: Some("42".to_owned()),
    };
    let written = json!({
        "name": "a", "createdAt": "2027-01-15T08:00:00Z", "ready": true, "schedulable": false,
        "provider": "karpenter", "movablePods": 2, "pods": 3, "movable": { "cpu": "1" }, "allocatable": { "cpu": "4" },
        "blockers": 1, "rotation": "0123456789", "podsRevision": "42"
    });
    answer(&value, &written);
    let unknown = NodeSummary {
        movable_pods: None,
        pods: None,
        movable: None,
        blockers: None,
        pods_revision: None,
        ..value.clone()
    };
    let mut left_out = written.clone();
    for field in ["movablePods", "pods", "movable", "blockers", "podsRevision"] {
        left_out.as_object_mut().unwrap().remove(field);
    }
    answer(&unknown, &left_out);
    let list = NodeList { api_version: API_VERSION.to_owned(), kind: "NodeList".to_owned(), items: vec![value] };
    answer(&list, &json!({ "apiVersion": "kubectl-rotate.dev/v1", "kind": "NodeList", "items": [written] }));
}

#[test]
fn cache() {
    let value = CacheInfo {
        api_version: API_VERSION.to_owned(),
        kind: "Cache".to_owned(),
        synced: false,
        pods: 1,
        nodes: 2,
        disruption_budgets: 3,
        shapes: 4,
        label_sets: 5,
        feeds: vec![FeedInfo {
            kind: "pods".to_owned(),
            scope: Some("node a".to_owned()),
            synced: true,
            connected: true,
            reading: Some(9),
            objects: 20,
            revision: Some("12".to_owned()),
            age_seconds: Some(3),
            lists: 2,
            stalls: 1,
            errors: 1,
            last_error: Some("read /api/v1/pods: 403 pods is forbidden".to_owned()),
            last_status: Some(403),
            unreadable: 0,
            unknown: 0,
        }],
    };
    let written = json!({
        "apiVersion": "kubectl-rotate.dev/v1", "kind": "Cache", "synced": false, "pods": 1, "nodes": 2,
        "disruptionBudgets": 3, "shapes": 4, "labelSets": 5,
        "feeds": [{
            "kind": "pods", "scope": "node a", "synced": true, "connected": true, "reading": 9, "objects": 20, "revision": "12", "ageSeconds": 3, "lists": 2,
            "stalls": 1, "errors": 1, "unknown": 0,
            "lastError": "read /api/v1/pods: 403 pods is forbidden", "lastStatus": 403, "unreadable": 0
        }]
    });
    answer(&value, &written);
}

#[test]
fn problem() {
    let mut value = Problem::new(Code::AlreadyRotating, "node \"a\" is being rotated already");
    value.rotation = Some("0123456789".to_owned());
    value.blockers = vec![notice()];
    let written = json!({
        "status": 409, "code": "AlreadyRotating", "title": "the node is being rotated already",
        "detail": "node \"a\" is being rotated already", "rotation": "0123456789",
        "blockers": [{ "code": "BarePod", "object": "Pod shop/once", "message": "has no controller", "remedy": "--force" }]
    });
    answer(&value, &written);
    let bare = serde_json::to_value(Problem::new(Code::NotFound, "x")).unwrap();
    assert_eq!(bare, json!({ "status": 404, "code": "NotFound", "title": "no such object", "detail": "x" }));
}

#[test]
fn a_code_of_another_version_is_read_as_unknown() {
    assert_eq!(serde_json::from_str::<Code>("\"SomethingNew\"").unwrap(), Code::Unknown);
}

#[test]
fn version() {
    answer(
        &VersionInfo { version: "1.2.3".to_owned(), api: "v1".to_owned() },
        &json!({ "version": "1.2.3", "api": "v1" }),
    );
}

#[test]
fn versions_at_most_one_minor_apart_work_together_and_of_others_the_older_is_named() {
    let ours = VersionInfo { version: "1.2.3".to_owned(), api: "v1".to_owned() };
    for (agent, skew) in [
        ("1.2.9", Skew::Fits),
        ("1.1.0", Skew::Fits),
        ("1.3.0-rc.1", Skew::Fits),
        ("1.0.9", Skew::AgentTooOld),
        ("0.2.3", Skew::AgentTooOld),
        ("1.4.0", Skew::AgentTooNew),
        ("2.2.3", Skew::AgentTooNew),
        ("1", Skew::Unknown),
        ("what", Skew::Unknown),
    ] {
        assert_eq!(ours.skew(agent), skew, "{agent}");
    }
}
