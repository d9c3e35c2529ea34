//! What the tests of this module share.

use std::sync::Arc;

use axum::body::Body as ApiBody;
use axum::response::Response;
use http::{Request, header};
use http_body_util::BodyExt as _;
use kube::Client;
use kube::client::Body;
use rotate_shared::plan::Provider;
use rotate_shared::rotation::{Progress, RequestedBy};
use rotate_shared::{API_VERSION, Options, Phase, Problem, Rotation, names};
use serde::de::DeserializeOwned;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tower::ServiceExt as _;

use super::looks::Looks;
use super::state::Api;
use crate::cache::{Cache, Node, Resources, State};
use crate::clock::Clock;
use crate::probe::{Probe, Standing};
use crate::provider::Reader;
use crate::rotation::store::Store;
use crate::rotation::views::Views;

/// An API over a cluster that was not read yet, whose API server answers nothing but 404.
pub(super) fn api() -> Api {
    let nothing = tower::service_fn(async |_: http::Request<Body>| {
        let status = br#"{"kind":"Status","status":"Failure","reason":"NotFound","message":"not found","code":404}"#;
        http::Response::builder().status(404).body(Body::from(status.to_vec()))
    });
    with_client(Client::new(nothing, "default"))
}

/// An API over a cluster that was not read yet.
pub(super) fn with_client(client: Client) -> Api {
    let clock = Clock::system();
    let store = Store::new(client.clone(), names::NAMESPACE, clock);
    Api {
        cache: Cache::new(State::default()),
        views: Views::default(),
        looks: Looks::new(store.clone()),
        store,
        term: watch::channel(None).1,
        reader: Reader::new(client.clone(), clock),
        probe: Probe::new(client.clone(), "registry.example/pause".to_owned(), Standing::Installed, clock),
        client,
        clock,
        traffic: Arc::default(),
        settling: Arc::default(),
        closing: CancellationToken::new(),
    }
}

/// An API over an empty cluster.
pub(super) fn synced() -> Api {
    with_nodes([])
}

/// An API over a cluster of these nodes, without rotations.
pub(super) fn with_nodes(nodes: impl IntoIterator<Item = Node>) -> Api {
    let mut state = State::default();
    nodes.into_iter().for_each(|node| state.apply_node(node));
    let api = Api { cache: Cache::read_whole(state), ..api() };
    api.views.publish([]);
    api
}

/// A node.
pub(super) fn node(name: &str, labels: &[(&str, &str)]) -> Node {
    Node {
        name: name.into(),
        uid: format!("uid-{name}").into(),
        created: jiff::Timestamp::UNIX_EPOCH,
        deleting: false,
        labels: Arc::new(labels.iter().copied().collect()),
        annotations: std::collections::BTreeMap::new(),
        taints: Vec::new(),
        unschedulable: false,
        ready: true,
        allocatable: Resources { milli_cpu: 4000, memory: 8 << 30, ..Resources::default() },
        max_pods: 110,
        pod_addresses: None,
        boot_id: None,
        provider_id: None,
    }
}

/// A rotation as shown.
pub(crate) fn rotation(id: &str, node: &str, phase: Phase) -> Rotation {
    Rotation {
        api_version: API_VERSION.to_owned(),
        kind: "Rotation".to_owned(),
        id: id.to_owned(),
        batch: None,
        node: node.to_owned(),
        node_uid: format!("uid-{node}"),
        provider: Provider::Unmanaged,
        phase,
        paused: false,
        cancelling: false,
        options: Options::default(),
        created_at: jiff::Timestamp::UNIX_EPOCH,
        phases: Vec::new(),
        progress: Progress::default(),
        waiting: Vec::new(),
        warnings: Vec::new(),
        moved: Vec::new(),
        outcome: None,
        requested_by: RequestedBy::default(),
        revision: 0,
    }
}

/// What a successful answer says.
pub(super) async fn json<T: DeserializeOwned>(response: Response) -> T {
    let status = response.status();
    let body = response.into_body().collect().await.unwrap().to_bytes();
    assert!(status.is_success(), "{}", String::from_utf8_lossy(&body));
    serde_json::from_slice(&body).unwrap()
}

/// What a refusal says.
pub(super) async fn problem(response: Response) -> Problem {
    assert_eq!(response.headers()[header::CONTENT_TYPE], "application/problem+json");
    let status = response.status();
    let body = response.into_body().collect().await.unwrap().to_bytes();
    let problem: Problem = serde_json::from_slice(&body).unwrap();
    assert_eq!(problem.status, status.as_u16());
    problem
}

/// Calls the control API.
pub(super) async fn send(api: &Api, request: Request<ApiBody>) -> Response {
    super::control_router(api.clone()).oneshot(request).await.unwrap()
}

/// Calls the control API.
pub(super) async fn get(api: &Api, path: &str) -> Response {
    send(api, Request::get(path).body(ApiBody::empty()).unwrap()).await
}

/// Calls the control API with a JSON body.
pub(super) async fn post(api: &Api, path: &str, body: &str) -> Response {
    let request = Request::post(path).header(header::CONTENT_TYPE, "application/json");
    send(api, request.body(ApiBody::from(body.to_owned())).unwrap()).await
}
