//! The Kubernetes API, as far as both programs and `kubectl` itself need it.

use std::collections::HashMap;

use axum::{
    Json, Router,
    body::{Body, Bytes},
    extract::{Query, Request, State},
    response::{IntoResponse, Response},
};
use http::{Method, StatusCode, header};
use serde_json::{Value, json};

use crate::{
    access::{self, Attributes},
    faults::Effect,
    kind::Kind,
    requests::RequestEntry,
    settings::Identity,
    sim::Sim,
    status::Failure,
};

mod delete;
mod eviction;
mod patch;
mod path;
mod read;
#[cfg(test)]
mod tests;
mod watching;
mod write;

use path::Target;

pub(crate) use eviction::evict_pod;

/// Query parameters.
type Parameters = HashMap<String, String>;

/// Larger bodies than the API server takes.
const BODY_LIMIT: usize = 3 << 20;

/// The API as a service.
pub(crate) fn router(sim: Sim) -> Router {
    Router::new().fallback(handle).with_state(sim)
}

async fn handle(State(sim): State<Sim>, request: Request) -> Response {
    let method = request.method().clone();
    let path = request.uri().path().to_owned();
    let cluster = sim.cluster().clone();
    let caller = {
        let header = |name| request.headers().get(name).and_then(|value| value.to_str().ok());
        access::authenticate(&cluster, header("authorization"), header("impersonate-user"))
    };
    let index = {
        let mut requests = cluster.requests.lock();
        requests.push(RequestEntry {
            at: cluster.clock.now(),
            method: method.to_string(),
            path: path.clone(),
            query: request.uri().query().unwrap_or_default().to_owned(),
            user: caller.as_ref().map(|caller| caller.user.clone()).unwrap_or_default(),
            dry_run: request.uri().query().is_some_and(|query| query.contains("dryRun=All")),
            status: 0,
        });
        requests.len() - 1
    };
    let effect = cluster.faults.lock().meet(method.as_str(), &path);
    let response = match effect {
        Some(Effect::Status { code, retry_after }) => Failure::injected(code, retry_after).into_response(),
        Some(Effect::Denied { message, after }) => {
            cluster.clock.sleep(after).await;
            Failure::denied(&message).into_response()
        }
        Some(Effect::Delay(delay)) => {
            cluster.clock.sleep(delay).await;
            answer(&sim, caller, index, &method, &path, request).await
        }
        Some(Effect::LostAnswer) => {
            answer(&sim, caller, index, &method, &path, request).await;
            Failure::injected(504, None).into_response()
        }
        None => answer(&sim, caller, index, &method, &path, request).await,
    };
    if let Some(entry) = cluster.requests.lock().get_mut(index) {
        entry.status = response.status().as_u16();
    }
    response
}

async fn answer(
    sim: &Sim,
    caller: Result<Identity, Failure>,
    index: usize,
    method: &Method,
    path: &str,
    request: Request,
) -> Response {
    match dispatch(sim, caller, index, method, path, request).await {
        Ok(response) => response,
        Err(failure) => failure.into_response(),
    }
}

/// One request, authenticated, authorized and read.
struct Call {
    sim: Sim,
    caller: Identity,
    parameters: Parameters,
    content_type: String,
    partial: bool,
    body: Bytes,
}

impl Call {
    fn flag(&self, name: &str) -> bool {
        self.parameters.get(name).is_some_and(|value| value == "true" || value == "1")
    }

    fn parameter(&self, name: &str) -> &str {
        self.parameters.get(name).map(String::as_str).unwrap_or_default()
    }

    fn json(&self) -> Result<Value, Failure> {
        if !(self.content_type.is_empty() || self.content_type.contains("json") || self.content_type.contains("yaml")) {
            return Err(Failure::unsupported_media_type());
        }
        serde_json::from_slice(&self.body).map_err(|error| {
            Failure::bad_request(format!("the object provided is unrecognized (must be of type JSON): {error}"))
        })
    }

    /// Of the query; bodies have their own.
    fn dry_run(&self) -> bool {
        self.parameter("dryRun") == "All"
    }
}

async fn dispatch(
    sim: &Sim,
    caller: Result<Identity, Failure>,
    index: usize,
    method: &Method,
    path: &str,
    request: Request,
) -> Result<Response, Failure> {
    if let Some(response) = unguarded(method, path) {
        return Ok(response);
    }
    let caller = caller?;
    let (parts, body) = request.into_parts();
    let Query(parameters) =
        Query::<Parameters>::try_from_uri(&parts.uri).map_err(|error| Failure::bad_request(error.to_string()))?;
    let header = |name| parts.headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let accept = header(header::ACCEPT);
    if !(accept.is_empty() || accept.contains("json") || accept.contains("*/*")) {
        return Err(Failure::not_acceptable());
    }
    let partial = accept.split(',').next().is_some_and(|first| first.contains("as=PartialObjectMetadata"));
    let content_type = header(header::CONTENT_TYPE).to_owned();
    let body = axum::body::to_bytes(body, BODY_LIMIT).await.map_err(|error| Failure::bad_request(error.to_string()))?;
    let call = Call { sim: sim.clone(), caller, parameters, content_type, partial, body };
    if let Some(review) = review(&call, method, path) {
        return review;
    }
    let target = Target::parse(path).ok_or_else(Failure::no_such_path)?;
    authorize(&call, method, &target)?;
    if method != Method::GET {
        inspect(&call, index);
    }
    match (method, target.name.is_some(), target.subresource.as_deref()) {
        (&Method::GET, true, None | Some("status")) if !call.flag("watch") => read::get(&call, &target),
        (&Method::GET, _, None) if call.flag("watch") => watching::watch(&call, &target),
        (&Method::GET, false, None) => read::list(&call, &target),
        (&Method::POST, false, None) => write::create(&call, &target),
        (&Method::POST, true, Some("eviction")) if target.kind == Kind::Pod => eviction::evict(&call, &target),
        (&Method::POST, true, Some("binding")) if target.kind == Kind::Pod => write::bind(&call, &target),
        (&Method::POST, true, Some("token")) if target.kind == Kind::ServiceAccount => write::token(&call, &target),
        (&Method::PATCH, true, None | Some("status")) => patch::patch(&call, &target),
        (&Method::PUT, true, None | Some("status")) => write::put(&call, &target),
        (&Method::DELETE, true, None) => delete::delete(&call, &target),
        (&Method::DELETE, false, None) => delete::collection(&call, &target),
        (_, _, Some(_)) => Err(Failure::no_such_path()),
        _ => Err(Failure::method_not_allowed()),
    }
}

/// Shows a write to whoever wants to see it before it happens.
fn inspect(call: &Call, index: usize) {
    let cluster = call.sim.cluster();
    let entry = {
        let mut requests = cluster.requests.lock();
        let entry = &mut requests[index];
        let options = serde_json::from_slice::<Value>(&call.body).unwrap_or_default();
        entry.dry_run |= delete::dry(&options) || delete::dry(&options["deleteOptions"]);
        entry.clone()
    };
    let inspectors = cluster.inspectors.lock().clone();
    for inspector in inspectors {
        inspector(&call.sim, &entry, &call.body);
    }
}

/// What anybody may ask.
fn unguarded(method: &Method, path: &str) -> Option<Response> {
    if method != Method::GET {
        return None;
    }
    match path {
        "/livez" | "/readyz" | "/healthz" => Some((StatusCode::OK, "ok").into_response()),
        "/version" => Some(
            Json(json!({
                "major": "1", "minor": "36", "gitVersion": "v1.36.3", "gitCommit": "simulated",
                "gitTreeState": "clean", "buildDate": "2026-01-01T00:00:00Z", "goVersion": "go1.26.8",
                "compiler": "gc", "platform": "linux/amd64",
            }))
            .into_response(),
        ),
        _ => None,
    }
}

/// Requests that are questions about who may do what.
fn review(call: &Call, method: &Method, path: &str) -> Option<Result<Response, Failure>> {
    let (group, resource) = path.strip_prefix("/apis/")?.split_once("/v1/")?;
    if method != Method::POST {
        return None;
    }
    let cluster = call.sim.cluster();
    let answer = |review: fn(&Call, Value) -> Value| {
        let what = Attributes { verb: "create", group, resource, namespace: "", name: "" };
        if !resource.starts_with("self") {
            access::authorize(cluster, &call.caller, what)?;
        }
        Ok((StatusCode::CREATED, Json(review(call, call.json()?))).into_response())
    };
    match (group, resource) {
        ("authentication.k8s.io", "tokenreviews") => {
            Some(answer(|call, body| access::review_token(call.sim.cluster(), body)))
        }
        ("authentication.k8s.io", "selfsubjectreviews") => Some(answer(|call, mut body| {
            body["status"] = json!({"userInfo": {"username": call.caller.user, "groups": call.caller.groups}});
            body
        })),
        ("authorization.k8s.io", "subjectaccessreviews") => {
            Some(answer(|call, body| access::review_access(call.sim.cluster(), None, body)))
        }
        ("authorization.k8s.io", "selfsubjectaccessreviews") => {
            Some(answer(|call, body| access::review_access(call.sim.cluster(), Some(&call.caller), body)))
        }
        _ => None,
    }
}

fn authorize(call: &Call, method: &Method, target: &Target) -> Result<(), Failure> {
    let verb = match (method, target.name.is_some()) {
        (&Method::GET, _) if call.flag("watch") => "watch",
        (&Method::GET, true) => "get",
        (&Method::GET, false) => "list",
        (&Method::POST, _) => "create",
        (&Method::PATCH, _) => "patch",
        (&Method::PUT, _) => "update",
        (&Method::DELETE, true) => "delete",
        (&Method::DELETE, false) => "deletecollection",
        _ => return Err(Failure::method_not_allowed()),
    };
    let resource = match &target.subresource {
        Some(subresource) => format!("{}/{subresource}", target.kind.plural()),
        None => target.kind.plural().to_owned(),
    };
    let what = Attributes {
        verb,
        group: target.kind.group(),
        resource: &resource,
        namespace: target.namespace.as_deref().unwrap_or_default(),
        name: target.name.as_deref().unwrap_or_default(),
    };
    access::authorize(call.sim.cluster(), &call.caller, what)
}

fn respond(code: StatusCode, object: &Value) -> Response {
    let mut bytes = serde_json::to_vec(object).expect("JSON has a text");
    bytes.push(b'\n');
    (code, [(header::CONTENT_TYPE, "application/json")], Body::from(bytes)).into_response()
}
