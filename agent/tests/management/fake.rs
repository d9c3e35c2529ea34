//! A management cluster in a few lines: Cluster API's objects as JSON, read and written as an API server would.

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::State;
use http::{Method, Request, Response, StatusCode, Uri};
use http_body_util::BodyExt as _;
use kube::Client;
use parking_lot::Mutex;
use serde_json::{Value, json};

/// The objects of one management cluster, by path below its group and version. Clones share them.
#[derive(Clone)]
pub(crate) struct Fake {
    versions: Vec<&'static str>,
    inner: Arc<Mutex<Inner>>,
}

#[derive(Default)]
struct Inner {
    objects: BTreeMap<String, Value>,
    version: u64,
    /// Every write: method and path.
    writes: Vec<String>,
    /// So many of the next writes are answered with a conflict.
    conflicts: u32,
    /// Requests are answered with this status.
    down: Option<u16>,
}

impl Fake {
    /// One that serves these versions of the group.
    pub(crate) fn serving(versions: &[&'static str]) -> Self {
        Self { versions: versions.to_vec(), inner: Arc::default() }
    }

    /// A client of it.
    pub(crate) fn client(&self) -> Client {
        Client::new(Router::new().fallback(answer).with_state(self.clone()), "default")
    }

    /// Puts an object there, as it is but for its resourceVersion.
    pub(crate) fn put(&self, kind: &str, mut object: Value) {
        let mut inner = self.inner.lock();
        inner.version += 1;
        let of = |field: &str| object["metadata"][field].as_str().unwrap_or_default().to_owned();
        let key = format!("namespaces/{}/{kind}/{}", of("namespace"), of("name"));
        object["metadata"]["resourceVersion"] = json!(inner.version.to_string());
        inner.objects.insert(key, object);
    }

    /// The object of a kind in namespace `fleet`.
    pub(crate) fn get(&self, kind: &str, name: &str) -> Option<Value> {
        self.inner.lock().objects.get(&format!("namespaces/fleet/{kind}/{name}")).cloned()
    }

    /// Removes an object of a kind in namespace `fleet`.
    pub(crate) fn remove(&self, kind: &str, name: &str) {
        self.inner.lock().objects.remove(&format!("namespaces/fleet/{kind}/{name}"));
    }

    /// What was written since the last call: `PATCH machines/a`.
    pub(crate) fn writes(&self) -> Vec<String> {
        std::mem::take(&mut self.inner.lock().writes)
    }

    /// Answers so many of the next writes with a conflict.
    pub(crate) fn conflict(&self, times: u32) {
        self.inner.lock().conflicts = times;
    }

    /// Answers everything with this status from now on.
    pub(crate) fn fail_with(&self, status: Option<u16>) {
        self.inner.lock().down = status;
    }

    fn respond(&self, method: &Method, uri: &Uri, body: &Bytes) -> Result<Value, (u16, String)> {
        let mut inner = self.inner.lock();
        if let Some(status) = inner.down {
            return Err((status, "out of order".to_owned()));
        }
        let path = uri.path().strip_prefix("/apis/cluster.x-k8s.io/").unwrap_or_default();
        let missing = || (404, "the server could not find the requested resource".to_owned());
        let (version, path) = path.split_once('/').ok_or_else(missing)?;
        if !self.versions.contains(&version) {
            return Err(missing());
        }
        let served = |object: &Value| {
            let mut object = object.clone();
            object["apiVersion"] = json!(format!("cluster.x-k8s.io/{version}"));
            object
        };
        if method == Method::POST {
            let object: Value = serde_json::from_slice(body).map_err(|error| (400, error.to_string()))?;
            return Ok(served(&inner.create(path, object)));
        }
        // What has a subresource for its status is one object here.
        let path = path.strip_suffix("/status").unwrap_or(path);
        if path.split('/').count() == 3 {
            let selector = uri.query().and_then(|query| query.split_once("labelSelector=")).map(|(_, rest)| rest);
            let selector = selector.map(|text| text.replace("%2F", "/").replace("%3D", "="));
            let wanted = selector.as_deref().and_then(|text| text.split_once('='));
            let selected = |object: &Value| {
                wanted.is_none_or(|(key, value)| object["metadata"]["labels"][key].as_str() == Some(value))
            };
            let below = format!("{path}/");
            let of = inner.objects.iter().filter(|(key, object)| key.starts_with(&below) && selected(object));
            let items: Vec<_> = of.map(|(_, object)| served(object)).collect();
            return Ok(json!({ "metadata": {}, "items": items }));
        }
        let Some(object) = inner.objects.get(path).cloned() else { return Err((404, format!("{path} not found"))) };
        if method == Method::GET {
            return Ok(served(&object));
        }
        let told = path.rsplitn(3, '/').take(2).collect::<Vec<_>>();
        let told = format!("{method} {}/{}", told[1], told[0]);
        let body: &[u8] = if body.is_empty() { b"{}" } else { body };
        let sent: Value = serde_json::from_slice(body).map_err(|error| (400, error.to_string()))?;
        if inner.conflicts > 0 {
            inner.conflicts -= 1;
            return Err((409, "changed meanwhile".to_owned()));
        }
        if method == Method::DELETE {
            let uid = &sent["preconditions"]["uid"];
            if !uid.is_null() && *uid != object["metadata"]["uid"] {
                return Err((409, "another UID".to_owned()));
            }
            inner.writes.push(told);
            let held = object["metadata"]["finalizers"].as_array().is_some_and(|held| !held.is_empty());
            match inner.objects.get_mut(path).filter(|_| held) {
                Some(object) => object["metadata"]["deletionTimestamp"] = json!("2026-01-07T00:00:00Z"),
                None => drop(inner.objects.remove(path)),
            }
            return Ok(json!({ "status": "Success" }));
        }
        let revision = &sent["metadata"]["resourceVersion"];
        if !revision.is_null() && *revision != object["metadata"]["resourceVersion"] {
            return Err((409, "changed meanwhile".to_owned()));
        }
        let mut patched = object;
        merge(&mut patched, &sent);
        inner.version += 1;
        patched["metadata"]["resourceVersion"] = json!(inner.version.to_string());
        inner.objects.insert(path.to_owned(), patched.clone());
        inner.writes.push(told);
        let metadata = &patched["metadata"];
        if !metadata["deletionTimestamp"].is_null() && metadata["finalizers"].as_array().is_none_or(Vec::is_empty) {
            inner.objects.remove(path);
        }
        Ok(served(&patched))
    }
}

impl Inner {
    /// Adds an object to a collection, with what an API server fills in.
    fn create(&mut self, collection: &str, mut object: Value) -> Value {
        self.version += 1;
        let name = object["metadata"]["name"].as_str().unwrap_or_default().to_owned();
        object["metadata"]["uid"] = json!(format!("uid-{name}"));
        object["metadata"]["resourceVersion"] = json!(self.version.to_string());
        object["metadata"]["creationTimestamp"] =
            json!(format!("2026-01-06T00:{:02}:{:02}Z", self.version / 60, self.version % 60));
        self.objects.insert(format!("{collection}/{name}"), object.clone());
        object
    }
}

async fn answer(State(fake): State<Fake>, request: Request<Body>) -> Response<Body> {
    let (parts, body) = request.into_parts();
    let body = body.collect().await.map(http_body_util::Collected::to_bytes).unwrap_or_default();
    let (status, answer) = match fake.respond(&parts.method, &parts.uri, &body) {
        Ok(answer) => (200, answer),
        Err((code, message)) => {
            (code, json!({ "kind": "Status", "status": "Failure", "code": code, "message": message }))
        }
    };
    let mut response = Response::new(Body::from(answer.to_string()));
    *response.status_mut() = StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    response
}

/// RFC 7396.
fn merge(into: &mut Value, patch: &Value) {
    let Value::Object(patch) = patch else {
        *into = patch.clone();
        return;
    };
    if !into.is_object() {
        *into = json!({});
    }
    for (key, value) in patch {
        if value.is_null() {
            into.as_object_mut().map(|object| object.remove(key));
        } else {
            merge(&mut into[key], value);
        }
    }
}
