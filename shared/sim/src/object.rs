//! Reading and changing objects kept as JSON.

use jiff::Timestamp;
use serde_json::{Map, Value, json};

use crate::clock;

/// The text at a JSON pointer; empty where there is none.
pub(crate) fn text<'a>(value: &'a Value, pointer: &str) -> &'a str {
    value.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}

/// The number at a JSON pointer.
pub(crate) fn number(value: &Value, pointer: &str) -> Option<i64> {
    value.pointer(pointer).and_then(Value::as_i64)
}

/// The list at a JSON pointer; empty where there is none.
pub(crate) fn list<'a>(value: &'a Value, pointer: &str) -> &'a [Value] {
    value.pointer(pointer).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

/// The map at a JSON pointer.
pub(crate) fn map<'a>(value: &'a Value, pointer: &str) -> Option<&'a Map<String, Value>> {
    value.pointer(pointer).and_then(Value::as_object)
}

pub(crate) fn name(value: &Value) -> &str {
    text(value, "/metadata/name")
}

pub(crate) fn namespace(value: &Value) -> &str {
    text(value, "/metadata/namespace")
}

pub(crate) fn uid(value: &Value) -> &str {
    text(value, "/metadata/uid")
}

pub(crate) fn version(value: &Value) -> &str {
    text(value, "/metadata/resourceVersion")
}

pub(crate) fn label<'a>(value: &'a Value, key: &str) -> Option<&'a str> {
    value.get("metadata")?.get("labels")?.get(key)?.as_str()
}

pub(crate) fn annotation<'a>(value: &'a Value, key: &str) -> Option<&'a str> {
    value.get("metadata")?.get("annotations")?.get(key)?.as_str()
}

/// Whether it is being deleted.
pub(crate) fn terminating(value: &Value) -> bool {
    value.pointer("/metadata/deletionTimestamp").is_some_and(|at| !at.is_null())
}

pub(crate) fn node_name(pod: &Value) -> &str {
    text(pod, "/spec/nodeName")
}

/// Whether a Pod has ended.
pub(crate) fn finished(pod: &Value) -> bool {
    matches!(text(pod, "/status/phase"), "Succeeded" | "Failed")
}

/// What a controller looks after: neither ended nor on its way out.
pub(crate) fn active(pod: &Value) -> bool {
    !finished(pod) && !terminating(pod)
}

pub(crate) fn priority(pod: &Value) -> i32 {
    number(pod, "/spec/priority").and_then(|value| i32::try_from(value).ok()).unwrap_or(0)
}

/// The owner reference with `controller: true`.
pub(crate) fn controller(value: &Value) -> Option<&Value> {
    list(value, "/metadata/ownerReferences").iter().find(|owner| owner["controller"] == true)
}

/// The UID of the controlling owner; empty where there is none.
pub(crate) fn controller_uid(value: &Value) -> &str {
    controller(value).map_or("", |owner| text(owner, "/uid"))
}

/// A reference to `owner`, as its controller writes it.
pub(crate) fn owner_reference(owner: &Value) -> Value {
    json!({
        "apiVersion": owner["apiVersion"], "kind": owner["kind"],
        "name": name(owner), "uid": uid(owner), "controller": true, "blockOwnerDeletion": true,
    })
}

/// The status of a condition.
pub(crate) fn condition<'a>(value: &'a Value, kind: &str) -> Option<&'a str> {
    list(value, "/status/conditions").iter().find(|c| c["type"] == kind).map(|c| text(c, "/status"))
}

pub(crate) fn ready(value: &Value) -> bool {
    condition(value, "Ready") == Some("True")
}

/// Sets a condition; `lastTransitionTime` moves only with the status.
pub(crate) fn set_condition(value: &mut Value, kind: &str, status: &str, reason: &str, message: &str, now: Timestamp) {
    let mut new = json!({"type": kind, "status": status, "lastTransitionTime": clock::seconds(now)});
    if !reason.is_empty() {
        new["reason"] = json!(reason);
    }
    if !message.is_empty() {
        new["message"] = json!(message);
    }
    if !value["status"]["conditions"].is_array() {
        value["status"]["conditions"] = json!([]);
    }
    let conditions = value["status"]["conditions"].as_array_mut().expect("it was just made an array");
    match conditions.iter_mut().find(|c| c["type"] == kind) {
        Some(old) => {
            if old["status"] == new["status"] {
                new["lastTransitionTime"] = old["lastTransitionTime"].clone();
            }
            *old = new;
        }
        None => conditions.push(new),
    }
}

/// Removes a key and nothing else.
pub(crate) fn remove(value: &mut Value, pointer: &str, key: &str) {
    if let Some(map) = value.pointer_mut(pointer).and_then(Value::as_object_mut) {
        map.remove(key);
    }
}
