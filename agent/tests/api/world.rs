//! A simulated cluster with an agent in it, and a caller.

use std::time::Duration;

use axum::body::Body;
use axum::response::Response;
use futures::StreamExt as _;
use http::{Request, StatusCode, header};
use http_body_util::BodyExt as _;
use kube::Client;
use rotate_agent::clock::Clock;
use rotate_agent::{Agent, Config, bootstrap};
use rotate_shared::{Phase, Problem, Rotation, RotationList, names};
use rotate_sim::{NodeSpec, Settings, Sim, objects};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tower::ServiceExt as _;

const EPOCH: &str = "2026-01-01T00:00:00Z";

pub(crate) struct World {
    pub(crate) sim: Sim,
    pub(crate) agent: Agent,
    pub(crate) clock: Clock,
}

impl World {
    /// Three nodes of 4 CPU in pool `web`, the names of which are `a`, `b` and `c`; four Pods of a Deployment; an agent
    /// that leads.
    pub(crate) async fn start() -> Self {
        Self::start_with(Config::default()).await
    }

    pub(crate) async fn start_with(config: Config) -> Self {
        let epoch = EPOCH.parse().expect("a time");
        let sim = Sim::start(Settings { epoch: Some(epoch), ..Settings::default() });
        let client = Client::new(sim.router(), "default");
        let missing = bootstrap::missing(&client).await.expect("the API answers");
        bootstrap::create(&client, &missing).await.expect("the API answers");
        for name in ["a", "b", "c"] {
            sim.add_node(NodeSpec::new(name).label("pool", "web"));
        }
        sim.create(objects::namespace("shop", &json!({})));
        sim.create(objects::deployment("cart", "shop", 4, objects::template("cart", "500m", "1Gi")));
        let clock = Clock::starting_at(epoch);
        let agent = Agent::start(config, Client::new(sim.router(), "default"), clock);
        let world = Self { agent, sim, clock };
        world.agent.ready().await;
        world.agent.leads(Duration::from_secs(30)).await.expect("nobody else leads");
        world
            .until(|world| world.sim.list("pods").iter().filter(|pod| pod["status"]["phase"] == "Running").count() == 4)
            .await;
        world
    }

    pub(crate) fn start_agent(&self) -> Agent {
        Agent::start(Config::default(), Client::new(self.sim.router(), "default"), self.clock)
    }

    /// A Pod without a controller on this node.
    pub(crate) async fn bare_pod(&self, node: &str) {
        let mut pod = objects::pod("bare", "shop", &objects::template("bare", "100m", "64Mi"));
        pod["spec"]["nodeName"] = json!(node);
        self.sim.create(pod);
        // The cache sees it.
        self.pass(1000).await;
    }

    pub(crate) async fn pass(&self, milliseconds: u64) {
        self.clock.sleep(Duration::from_millis(milliseconds)).await;
    }

    pub(crate) async fn until(&self, done: impl Fn(&Self) -> bool) {
        for _ in 0..60_000 {
            if done(self) {
                return;
            }
            self.pass(50).await;
        }
        panic!("it never came to that");
    }

    pub(crate) async fn until_phase(&self, id: &str, phase: Phase) -> Rotation {
        self.until(|world| world.agent.views().get(id).is_some_and(|rotation| rotation.phase == phase)).await;
        (*self.agent.views().get(id).expect("it was there")).clone()
    }

    /// The records that were written.
    pub(crate) fn records(&self) -> Vec<Value> {
        self.sim.list("configmaps")
    }

    pub(crate) async fn send(&self, request: Request<Body>) -> Response {
        let Ok(response) = self.agent.router().oneshot(request).await;
        response
    }

    pub(crate) async fn get<T: DeserializeOwned>(&self, path: &str) -> T {
        let request = Request::get(path).body(Body::empty()).expect("a request");
        success(self.send(request).await).await.1
    }

    pub(crate) async fn post(&self, path: &str, body: &Value) -> Response {
        self.send(post(path, body).body(Body::from(body.to_string())).expect("a request")).await
    }

    /// Begins rotations.
    pub(crate) async fn rotate(&self, body: &Value) -> Vec<Rotation> {
        let (status, list) = success::<RotationList>(self.post("/v1/rotations", body).await).await;
        assert_eq!(status, StatusCode::CREATED);
        list.items
    }

    /// Begins rotations, with an `Idempotency-Key`.
    pub(crate) async fn rotate_with_key(&self, key: &str, body: &Value) -> Response {
        self.send(with_key(key, body)).await
    }

    /// Every state of a rotation, to its end.
    pub(crate) async fn follow(&self, id: &str) -> Vec<Rotation> {
        let request = Request::get(format!("/v1/rotations/{id}/events")).body(Body::empty()).expect("a request");
        let mut body = self.send(request).await.into_body().into_data_stream();
        let mut text = String::new();
        while let Some(piece) = body.next().await {
            text.push_str(std::str::from_utf8(&piece.expect("no error in process")).expect("text"));
        }
        let states = text.lines().filter_map(|line| line.strip_prefix("data: "));
        states.map(|state| serde_json::from_str(state).expect("a rotation")).collect()
    }
}

fn post(path: &str, _: &Value) -> http::request::Builder {
    Request::post(path).header(header::CONTENT_TYPE, "application/json")
}

/// Asks for rotations, with an `Idempotency-Key`.
pub(crate) fn with_key(key: &str, body: &Value) -> Request<Body> {
    let request = post("/v1/rotations", body).header("idempotency-key", key);
    request.body(Body::from(body.to_string())).expect("a request")
}

pub(crate) async fn success<T: DeserializeOwned>(response: Response) -> (StatusCode, T) {
    let status = response.status();
    let body = response.into_body().collect().await.expect("no error in process").to_bytes();
    assert!(status.is_success(), "{}", String::from_utf8_lossy(&body));
    (status, serde_json::from_slice(&body).expect("the type of the route"))
}

pub(crate) async fn problem(response: Response) -> Problem {
    assert_eq!(response.headers()[header::CONTENT_TYPE], "application/problem+json");
    let body = response.into_body().collect().await.expect("no error in process").to_bytes();
    serde_json::from_slice(&body).expect("a problem")
}

/// The namespace of the records.
pub(crate) const NAMESPACE: &str = names::NAMESPACE;
