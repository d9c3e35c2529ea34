//! Delete, one object or a collection.

use std::sync::Arc;

use axum::response::Response;
use http::StatusCode;
use serde_json::{Value, json};

use super::{Call, Target, read, respond};
use crate::{
    kind::Kind,
    object,
    status::Failure,
    status::success,
    store::{self, Key},
};

pub(super) fn delete(call: &Call, target: &Target) -> Result<Response, Failure> {
    let options = options(call)?;
    let (key, object) = read::existing(call, target)?;
    check(target.kind, &object, &options)?;
    let mut left = Some(object.clone());
    if target.kind == Kind::Pod {
        // A dry run shows the grace that the Pod would get.
        let mut shown = (*object).clone();
        shown["metadata"]["deletionGracePeriodSeconds"] = json!(store::pod_grace(&object, grace(call, &options)));
        left = Some(Arc::new(shown));
    }
    let mut held = target.kind == Kind::Namespace || !object::list(&object, "/metadata/finalizers").is_empty();
    if !(call.dry_run() || dry(&options)) {
        let mut store = call.sim.cluster().store();
        left = store.delete(target.kind, &key, grace(call, &options));
        held = store.get(target.kind, &key.0, &key.1).is_some();
    }
    match left {
        // A Pod is answered with itself, gone or going; the rest by what became of it.
        Some(object) if held || target.kind == Kind::Pod => Ok(respond(StatusCode::OK, &object)),
        _ => {
            let mut status = success();
            status["details"] = json!({"name": key.1, "kind": target.kind.plural(), "uid": object::uid(&object)});
            if !target.kind.group().is_empty() {
                status["details"]["group"] = json!(target.kind.group());
            }
            Ok(respond(StatusCode::OK, &status))
        }
    }
}

pub(super) fn collection(call: &Call, target: &Target) -> Result<Response, Failure> {
    let options = options(call)?;
    let filter = read::filter(call, target)?;
    let grace = grace(call, &options);
    let mut store = call.sim.cluster().store();
    let keys: Vec<Key> = store
        .iter(target.kind)
        .filter(|object| filter.selects(object))
        .map(|object| (object::namespace(object).to_owned(), object::name(object).to_owned()))
        .collect();
    if !(call.dry_run() || dry(&options)) {
        for key in &keys {
            store.delete(target.kind, key, grace);
        }
    }
    Ok(respond(StatusCode::OK, &success()))
}

/// `DeleteOptions`, which may be left out.
fn options(call: &Call) -> Result<Value, Failure> {
    if call.body.is_empty() { Ok(Value::Null) } else { call.json() }
}

pub(super) fn dry(options: &Value) -> bool {
    object::list(options, "/dryRun").iter().any(|value| value == "All")
}

fn grace(call: &Call, options: &Value) -> Option<i64> {
    object::number(options, "/gracePeriodSeconds").or_else(|| call.parameter("gracePeriodSeconds").parse().ok())
}

/// Preconditions of `DeleteOptions`.
pub(super) fn check(kind: Kind, object: &Value, options: &Value) -> Result<(), Failure> {
    let uid = object::text(options, "/preconditions/uid");
    if !uid.is_empty() && uid != object::uid(object) {
        let why = format!(
            "the UID in the precondition ({uid}) does not match the UID in record ({}). \
             The object might have been deleted and then recreated",
            object::uid(object)
        );
        return Err(Failure::precondition(kind, object::name(object), &why));
    }
    let version = object::text(options, "/preconditions/resourceVersion");
    if !version.is_empty() && version != object::version(object) {
        let why = format!(
            "the ResourceVersion in the precondition ({version}) does not match the ResourceVersion in record ({}). \
             The object might have been modified",
            object::version(object)
        );
        return Err(Failure::precondition(kind, object::name(object), &why));
    }
    Ok(())
}
