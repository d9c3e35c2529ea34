//! Create, replace, bind, and issue tokens.

use axum::response::Response;
use http::StatusCode;
use serde_json::{Value, json};

use super::{Call, Target, patch, read, respond};
use crate::{
    access, admission,
    kind::Kind,
    object, scheduler,
    status::{self, Failure},
};

pub(super) fn create(call: &Call, target: &Target) -> Result<Response, Failure> {
    create_object(call, target.kind, target.namespace.as_deref(), call.json()?)
}

pub(super) fn create_object(
    call: &Call,
    kind: Kind,
    namespace: Option<&str>,
    mut object: Value,
) -> Result<Response, Failure> {
    if !object.is_object() {
        return Err(Failure::bad_request("the body must be an object"));
    }
    let (found, version) = (object::text(&object, "/kind"), object::text(&object, "/apiVersion"));
    if !(found.is_empty() || found == kind.name()) || !(version.is_empty() || version == kind.api_version()) {
        let message = format!("{found} in version \"{version}\" cannot be handled as a {}", kind.name());
        return Err(Failure::bad_request(message));
    }
    match (kind.namespaced(), namespace) {
        (true, Some(namespace)) => {
            let own = object::namespace(&object);
            if !own.is_empty() && own != namespace {
                return Err(Failure::bad_request(
                    "the namespace of the provided object does not match the namespace sent on the request",
                ));
            }
            object["metadata"]["namespace"] = json!(namespace);
        }
        (true, None) => return Err(Failure::method_not_allowed()),
        (false, _) => {}
    }
    if !object::text(&object, "/metadata/resourceVersion").is_empty() {
        return Err(Failure::version_set());
    }
    if patch::has_status(kind) && kind != Kind::Node {
        object::remove(&mut object, "", "status");
    }
    let mut store = call.sim.cluster().store();
    admission::admit(&store, kind, &mut object)?;
    if call.dry_run() {
        let key = store.prepare(kind, &mut object);
        validate(kind, &object)?;
        if store.get(kind, &key.0, &key.1).is_some() {
            return Err(Failure::already_exists(kind, &key.1));
        }
        return Ok(respond(StatusCode::CREATED, &object));
    }
    if object::text(&object, "/metadata/generateName").is_empty() || !object::name(&object).is_empty() {
        validate(kind, &object)?;
    }
    let object = store.create(kind, object)?;
    Ok(respond(StatusCode::CREATED, &read::shown(call, &object)))
}

pub(super) fn put(call: &Call, target: &Target) -> Result<Response, Failure> {
    let mut new = call.json()?;
    let (key, old) = read::existing(call, target)?;
    if object::name(&new) != key.1 {
        return Err(Failure::bad_request("the name of the object does not match the name on the URL"));
    }
    check_preconditions(target.kind, &old, &new)?;
    new["apiVersion"] = old["apiVersion"].clone();
    new["kind"] = old["kind"].clone();
    keep(target, &old, &mut new);
    validate(target.kind, &new)?;
    if call.dry_run() {
        return Ok(respond(StatusCode::OK, &new));
    }
    let new = call.sim.cluster().store().replace(target.kind, &key, old, new);
    Ok(respond(StatusCode::OK, &new))
}

/// A resourceVersion in a write is a precondition. A UID is not: another one is an attempt to change it.
pub(super) fn check_preconditions(kind: Kind, old: &Value, write: &Value) -> Result<(), Failure> {
    let name = object::name(old);
    let version = object::version(write);
    if !version.is_empty() && version != object::version(old) {
        return Err(Failure::modified(kind, name));
    }
    let uid = object::uid(write);
    if !uid.is_empty() && uid != object::uid(old) {
        let why = format!("Invalid value: \"{uid}\": field is immutable");
        return Err(Failure::invalid(kind, name, "metadata.uid", &why));
    }
    Ok(())
}

/// What no write changes: identity, and the half that the other subresource owns.
pub(super) fn keep(target: &Target, old: &Value, new: &mut Value) {
    const IDENTITY: &[&str] = &[
        "name",
        "namespace",
        "uid",
        "resourceVersion",
        "creationTimestamp",
        "generation",
        "deletionTimestamp",
        "deletionGracePeriodSeconds",
    ];
    for key in IDENTITY {
        match old["metadata"].get(key) {
            Some(value) => new["metadata"][key] = value.clone(),
            None => object::remove(new, "/metadata", key),
        }
    }
    patch::keep_status(target, old, new);
    if target.kind == Kind::Pod && !object::node_name(old).is_empty() {
        new["spec"]["nodeName"] = old["spec"]["nodeName"].clone();
    }
}

/// Names and label values that the API server would take.
pub(super) fn validate(kind: Kind, object: &Value) -> Result<(), Failure> {
    let name = object::name(object);
    let free = matches!(kind, Kind::ClusterRole | Kind::ClusterRoleBinding | Kind::Role | Kind::RoleBinding);
    let ends = |text: &str| {
        text.starts_with(|c: char| c.is_ascii_alphanumeric()) && text.ends_with(|c: char| c.is_ascii_alphanumeric())
    };
    let proper = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-' || c == '.';
    if name.is_empty() {
        return Err(Failure::invalid(kind, name, "metadata.name", "Required value: name or generateName is required"));
    }
    let limit = if kind == Kind::Namespace { 63 } else { 253 };
    if !free && (name.len() > limit || !name.chars().all(proper) || !ends(name)) {
        let why = format!("Invalid value: \"{name}\": must be a lowercase RFC 1123 subdomain of {limit} characters");
        return Err(Failure::invalid(kind, name, "metadata.name", &why));
    }
    for (key, value) in object::map(object, "/metadata/labels").into_iter().flatten() {
        let text = value.as_str().unwrap_or("\n");
        let fine = text.chars().all(|c| c.is_ascii_alphanumeric() || "-_.".contains(c)) && text.len() <= 63;
        if !fine || !(text.is_empty() || ends(text)) {
            let why = format!("Invalid value: \"{text}\" of {key}: must be 63 characters or less, alphanumeric");
            return Err(Failure::invalid(kind, name, "metadata.labels", &why));
        }
    }
    Ok(())
}

/// `POST pods/NAME/binding`.
pub(super) fn bind(call: &Call, target: &Target) -> Result<Response, Failure> {
    let binding = call.json()?;
    let (key, pod) = read::existing(call, target)?;
    let present = object::node_name(&pod);
    if !present.is_empty() {
        let why = format!("pod {} is already assigned to node \"{present}\"", key.1);
        return Err(Failure::conflict(target.kind, &key.1, &why));
    }
    if !call.dry_run() {
        scheduler::bind(&mut call.sim.cluster().store(), &key, object::text(&binding, "/target/name"));
    }
    Ok(respond(StatusCode::CREATED, &status::created()))
}

/// `POST serviceaccounts/NAME/token`.
pub(super) fn token(call: &Call, target: &Target) -> Result<Response, Failure> {
    let request = call.json()?;
    let (key, _) = read::existing(call, target)?;
    let answer = access::issue(call.sim.cluster(), &key.0, &key.1, &request);
    Ok(respond(StatusCode::CREATED, &answer))
}
