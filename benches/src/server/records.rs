//! A small store for what an agent writes: its Lease, its records.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use axum::body::{Body, to_bytes};
use axum::response::Response;
use futures::stream;
use http::{Method, Request, StatusCode};
use rotate_agent::clock::Clock;
use serde_json::{Value, json};

use super::respond;
use crate::wire::Encoding;

/// The largest body that is taken.
const LARGEST: usize = 4 << 20;
/// How long a watch is open that is not told how long.
const WATCH: u64 = 300;

/// Objects by path.
#[derive(Debug, Default)]
pub(super) struct Records(Mutex<(u64, BTreeMap<String, Value>)>);

impl Records {
    /// Answers what is no list of the cluster's objects. A watch says nothing until it ends: nobody else writes here.
    pub(super) async fn answer(
        &self,
        request: Request<Body>,
        watch: bool,
        timeout: Option<u64>,
        clock: Clock,
    ) -> Response {
        if watch {
            let length = std::time::Duration::from_secs(timeout.unwrap_or(WATCH));
            let silence = stream::once(async move {
                clock.sleep(length).await;
                Ok::<_, std::convert::Infallible>(axum::body::Bytes::new())
            });
            return respond(StatusCode::OK, Encoding::Json.watch_type(), Body::from_stream(silence));
        }
        let (parts, body) = request.into_parts();
        let path = parts.uri.path().to_owned();
        let body = to_bytes(body, LARGEST).await.unwrap_or_default();
        let body: Value = serde_json::from_slice(&body).unwrap_or_default();
        let (status, answer) = self.change(&parts.method, &path, body);
        respond(status, Encoding::Json.content_type(), answer.to_string().into())
    }

    fn change(&self, method: &Method, path: &str, mut body: Value) -> (StatusCode, Value) {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let (revision, objects) = &mut *kept;
        let plural = path.rsplit('/').next().unwrap_or_default();
        if *method == Method::GET && (plural == "configmaps" || plural == "leases") {
            let items: Vec<_> =
                objects.iter().filter(|(at, _)| at.starts_with(path)).map(|(_, object)| object).collect();
            let metadata = json!({ "resourceVersion": revision.to_string() });
            let (kind, version) =
                if plural == "leases" { ("LeaseList", "coordination.k8s.io/v1") } else { ("ConfigMapList", "v1") };
            return (
                StatusCode::OK,
                json!({ "kind": kind, "apiVersion": version, "metadata": metadata, "items": items }),
            );
        }
        let path = match (method, body["metadata"]["name"].as_str()) {
            (&Method::POST, Some(name)) => format!("{path}/{name}"),
            _ => path.to_owned(),
        };
        *revision += 1;
        let found = objects.get(&path).cloned();
        let object = match (method, found) {
            (&Method::GET, Some(found)) => return (StatusCode::OK, found),
            (&Method::POST, Some(_)) => return refused(StatusCode::CONFLICT, "AlreadyExists"),
            (&Method::POST, None) => &mut body,
            (&Method::PATCH | &Method::PUT, Some(mut found)) => {
                merge(&mut found, body);
                body = found;
                &mut body
            }
            _ => return refused(StatusCode::NOT_FOUND, "NotFound"),
        };
        object["metadata"]["resourceVersion"] = json!(revision.to_string());
        objects.insert(path, object.clone());
        (if method == Method::POST { StatusCode::CREATED } else { StatusCode::OK }, body)
    }
}

fn refused(status: StatusCode, reason: &str) -> (StatusCode, Value) {
    let body = json!({
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": reason,
        "reason": reason,
        "code": status.as_u16(),
    });
    (status, body)
}

/// A merge patch, RFC 7396.
fn merge(object: &mut Value, patch: Value) {
    match (object, patch) {
        (Value::Object(fields), Value::Object(patch)) => {
            for (name, value) in patch {
                match (fields.get_mut(&name), value) {
                    (_, Value::Null) => {
                        fields.remove(&name);
                    }
                    (Some(field), value) => merge(field, value),
                    (None, value) => {
                        fields.insert(name, value);
                    }
                }
            }
        }
        (object, patch) => *object = patch,
    }
}
