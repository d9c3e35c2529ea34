//! Merge patches, and what else is treated as one.

use axum::response::Response;
use http::StatusCode;
use serde_json::{Value, json};

use super::{Call, Target, respond, write};
use crate::{kind::Kind, object, status::Failure};

pub(super) fn patch(call: &Call, target: &Target) -> Result<Response, Failure> {
    let apply = call.content_type.starts_with("application/apply-patch");
    let known = ["application/merge-patch+json", "application/strategic-merge-patch+json", "application/apply-patch+"];
    if !known.iter().any(|known| call.content_type.starts_with(known)) {
        return Err(Failure::unsupported_media_type());
    }
    let patch = call.json()?;
    let key = target.key();
    let mut store = call.sim.cluster().store();
    let Some(old) = store.get(target.kind, &key.0, &key.1).cloned() else {
        drop(store);
        if apply && target.subresource.is_none() {
            return write::create_object(call, target.kind, target.namespace.as_deref(), patch);
        }
        return Err(Failure::not_found(target.kind, &key.1));
    };
    let mut new = (*old).clone();
    merge(&mut new, &patch);
    write::check_preconditions(target.kind, &old, &patch)?;
    write::keep(target, &old, &mut new);
    write::validate(target.kind, &new)?;
    if call.dry_run() {
        return Ok(respond(StatusCode::OK, &new));
    }
    let new = store.replace(target.kind, &key, old, new);
    Ok(respond(StatusCode::OK, &new))
}

/// RFC 7396.
pub(super) fn merge(target: &mut Value, patch: &Value) {
    let Some(patch) = patch.as_object() else {
        *target = patch.clone();
        return;
    };
    if !target.is_object() {
        *target = json!({});
    }
    let target = target.as_object_mut().expect("it was just made an object");
    for (key, value) in patch {
        if value.is_null() {
            target.remove(key);
        } else {
            merge(target.entry(key.clone()).or_insert(Value::Null), value);
        }
    }
}

/// Kinds whose status only the subresource changes.
pub(super) fn has_status(kind: Kind) -> bool {
    matches!(
        kind,
        Kind::Namespace
            | Kind::Node
            | Kind::Pod
            | Kind::PersistentVolumeClaim
            | Kind::PersistentVolume
            | Kind::ReplicaSet
            | Kind::Deployment
            | Kind::StatefulSet
            | Kind::DaemonSet
            | Kind::Job
            | Kind::PodDisruptionBudget
            | Kind::NodePool
            | Kind::NodeClaim
            | Kind::Machine
    )
}

/// Takes over what a write may not change.
pub(super) fn keep_status(target: &Target, old: &Value, new: &mut Value) {
    if !has_status(target.kind) {
        return;
    }
    let keep = if target.subresource.as_deref() == Some("status") { "spec" } else { "status" };
    match old.get(keep) {
        Some(value) => new[keep] = value.clone(),
        None => object::remove(new, "", keep),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn null_deletes_lists_are_replaced_and_the_rest_stays() {
        let mut object = json!({"a": {"b": 1, "c": 2}, "list": [1, 2]});
        merge(&mut object, &json!({"a": {"b": null, "d": {"e": null, "f": 1}}, "list": [3]}));
        assert_eq!(object, json!({"a": {"c": 2, "d": {"f": 1}}, "list": [3]}));
    }
}
