//! Get and list.

use std::sync::Arc;

use axum::response::Response;
use http::StatusCode;
use serde_json::{Value, json};

use super::{Call, Target, respond};
use crate::{
    object,
    status::Failure,
    store::{
        Key, PAGE,
        selector::{FieldSelector, Filter, LabelSelector},
    },
};

pub(super) fn get(call: &Call, target: &Target) -> Result<Response, Failure> {
    let (namespace, name) = target.key();
    let object = call.sim.cluster().store().get(target.kind, &namespace, &name).cloned();
    let object = object.ok_or_else(|| Failure::not_found(target.kind, &name))?;
    Ok(respond(StatusCode::OK, &shown(call, &object)))
}

/// What the caller asked to see of an object.
pub(super) fn shown(call: &Call, object: &Value) -> Value {
    if !call.partial {
        return object.clone();
    }
    json!({"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": object["metadata"]})
}

/// The selectors of a list or watch.
pub(super) fn filter(call: &Call, target: &Target) -> Result<Filter, Failure> {
    let mut fields = FieldSelector::parse(call.parameter("fieldSelector")).map_err(Failure::bad_request)?;
    if let Some(name) = &target.name {
        fields = FieldSelector::parse(&format!("metadata.name={name}")).map_err(Failure::bad_request)?;
    }
    Ok(Filter {
        namespace: target.namespace.clone(),
        labels: LabelSelector::parse(call.parameter("labelSelector")).map_err(Failure::bad_request)?,
        fields,
    })
}

pub(super) fn list(call: &Call, target: &Target) -> Result<Response, Failure> {
    let filter = filter(call, target)?;
    let limit = call.parameter("limit").parse::<usize>().ok().filter(|limit| *limit > 0);
    let mut store = call.sim.cluster().store();
    let (version, items, total) = match call.parameter("continue") {
        "" => {
            if call.parameter("resourceVersionMatch") == "Exact" {
                let asked = call.parameter("resourceVersion").parse::<u64>().unwrap_or(0);
                if asked != store.version() {
                    return Err(Failure::expired("The provided resource version is too old or not kept."));
                }
            }
            let items: Vec<Arc<Value>> =
                store.iter(target.kind).filter(|object| filter.selects(object)).cloned().collect();
            let total = items.len();
            (store.version(), items, total)
        }
        token if !token.starts_with(PAGE) => {
            let why = "invalid continue token: continue key is not valid: it is none of ours";
            return Err(Failure::bad_request(why));
        }
        token => {
            let page = store.resume(token).ok_or_else(|| {
                Failure::expired("The provided continue parameter is too old to display a consistent list result.")
            })?;
            let total = page.1.len();
            (page.0, page.1, total)
        }
    };
    let mut metadata = json!({"resourceVersion": version.to_string()});
    let end = limit.map_or(total, |limit| limit.min(total));
    if end < total {
        metadata["continue"] = json!(store.suspend(version, items[end..].to_vec()));
        if filter.labels == LabelSelector::default() && filter.fields == FieldSelector::default() {
            metadata["remainingItemCount"] = json!(total - end);
        }
    }
    drop(store);
    let items: Vec<Value> = items[..end].iter().map(|item| in_list(call, item)).collect();
    let (kind, api_version) = if call.partial {
        ("PartialObjectMetadataList".to_owned(), "meta.k8s.io/v1".to_owned())
    } else {
        (format!("{}List", target.kind.name()), target.kind.api_version())
    };
    let list = json!({"kind": kind, "apiVersion": api_version, "metadata": metadata, "items": items});
    Ok(respond(StatusCode::OK, &list))
}

/// Items of a list don't repeat their kind.
fn in_list(call: &Call, item: &Value) -> Value {
    let mut item = shown(call, item);
    if !call.partial {
        object::remove(&mut item, "", "kind");
        object::remove(&mut item, "", "apiVersion");
    }
    item
}

/// The object a request names, with its key.
pub(super) fn existing(call: &Call, target: &Target) -> Result<(Key, Arc<Value>), Failure> {
    let key = target.key();
    let object = call.sim.cluster().store().get(target.kind, &key.0, &key.1).cloned();
    object.map(|object| (key.clone(), object)).ok_or_else(|| Failure::not_found(target.kind, &key.1))
}
