use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::Body;
use axum::routing::get;
use futures::FutureExt as _;
use http::{Method, StatusCode};
use http_body_util::BodyExt as _;
use k8s_openapi::api::authentication::v1::UserInfo;
use parking_lot::Mutex;
use rotate_shared::{Phase, Problem, names};
use serde_json::{Value, json};
use tower::ServiceExt as _;

use super::gate::{TOKEN_BYTES, TOKENS, key};
use super::*;
use crate::http::limits;
use crate::http::testing;

/// An API server that knows two tokens and counts what it is asked.
#[derive(Clone, Debug, Default)]
struct Server {
    token_reviews: Arc<AtomicUsize>,
    access_reviews: Arc<AtomicUsize>,
    asked: Arc<Mutex<Vec<Value>>>,
    withdrawn: Arc<AtomicBool>,
    away: Arc<AtomicBool>,
}

impl Server {
    fn client(&self) -> Client {
        let server = self.clone();
        let service = tower::service_fn(move |request: http::Request<kube::client::Body>| {
            let server = server.clone();
            async move {
                let path = request.uri().path().to_owned();
                let body = request.into_body().collect().await.expect("in memory").to_bytes();
                let answer = server.answer(&path, serde_json::from_slice(&body).expect("JSON"));
                let status = answer["code"].as_u64().unwrap_or(201);
                let response = http::Response::builder().status(u16::try_from(status).expect("a status"));
                response.body(kube::client::Body::from(answer.to_string().into_bytes()))
            }
        });
        Client::new(service, "default")
    }

    fn answer(&self, path: &str, mut review: Value) -> Value {
        self.asked.lock().push(review.clone());
        if self.away.load(Ordering::Relaxed) {
            return json!({ "kind": "Status", "status": "Failure", "reason": "", "message": "away", "code": 503 });
        }
        match path {
            "/apis/authentication.k8s.io/v1/tokenreviews" => {
                self.token_reviews.fetch_add(1, Ordering::Relaxed);
                let user = |name: &str| {
                    let extra = json!({ CREDENTIAL_ID: [format!("JTI={name}-token")] });
                    json!({ "username": name, "groups": ["system:serviceaccounts"], "extra": extra })
                };
                let token = review["spec"]["token"].as_str().unwrap();
                // An account has any number of tokens: `viewer`, `viewer-1`, …
                let account = token.split('-').next().unwrap();
                review["status"] = match token {
                    _ if matches!(account, "operator" | "viewer") && self.withdrawn.load(Ordering::Relaxed) => {
                        json!({ "authenticated": false })
                    }
                    _ if matches!(account, "operator" | "viewer") => {
                        json!({ "authenticated": true, "audiences": [names::AUDIENCE], "user": user(account) })
                    }
                    "for-the-api-server" => json!({ "authenticated": true, "user": user("admin") }),
                    "outage" => {
                        return json!({ "kind": "Status", "status": "Failure", "reason": "", "message": "down", "code": 500 });
                    }
                    _ => json!({ "authenticated": false, "error": "invalid" }),
                };
            }
            "/apis/authorization.k8s.io/v1/subjectaccessreviews" => {
                self.access_reviews.fetch_add(1, Ordering::Relaxed);
                let spec = &review["spec"];
                let verb = spec["resourceAttributes"]["verb"].as_str().unwrap();
                let looks = matches!(verb, "get" | "list") || spec["resourceAttributes"]["resource"] == "plans";
                let allowed = spec["user"] == "operator" || looks;
                review["status"] = json!({ "allowed": allowed });
            }
            _ => panic!("nothing else is asked: {path}"),
        }
        review
    }

    fn counts(&self) -> (usize, usize) {
        (self.token_reviews.load(Ordering::Relaxed), self.access_reviews.load(Ordering::Relaxed))
    }

    fn guarded(&self) -> Router {
        let handler = async |request: Request| format!("{:?}", request.extensions().get::<Caller>());
        let router = Router::new()
            .route("/livez", get(async || "ok"))
            .route("/v1/rotations", get(handler).post(handler).delete(handler))
            .route("/v1/not-listed", get(handler))
            .fallback(problem::no_route);
        guard(router, self.client(), Clock::system(), Arc::default())
    }

    /// The whole control API over a cluster with one rotation.
    fn control(&self) -> Router {
        let api = testing::synced();
        api.views.publish([testing::rotation(ID, "a", Phase::Surging)]);
        guard(crate::http::control_router(api), self.client(), Clock::system(), Arc::default())
    }
}

const ID: &str = "0123456789";

async fn ask(router: &Router, path: &str, token: &str) -> Response {
    let request = http::Request::get(path).header(header::HOST, "localhost");
    let request = request.header(header::AUTHORIZATION, format!("Bearer {token}"));
    router.clone().oneshot(request.body(Body::empty()).unwrap()).await.unwrap()
}

async fn follow(router: &Router, token: &str) -> Response {
    ask(router, &format!("/v1/rotations/{ID}/events"), token).await
}

async fn send(router: &Router, method: Method, path: &str, authorization: Option<&str>) -> (StatusCode, String) {
    let mut request = http::Request::builder().method(method).uri(path).header(header::HOST, "localhost");
    if let Some(authorization) = authorization {
        request = request.header(header::AUTHORIZATION, authorization);
    }
    let response = router.clone().oneshot(request.body(Body::empty()).unwrap()).await.unwrap();
    let status = response.status();
    let body = response.into_body().collect().await.unwrap().to_bytes();
    (status, String::from_utf8(body.to_vec()).unwrap())
}

fn code(body: &str) -> Code {
    serde_json::from_str::<Problem>(body).unwrap().code
}

#[tokio::test]
async fn liveness_needs_no_token_and_asks_nobody() {
    let server = Server::default();
    assert_eq!(send(&server.guarded(), Method::GET, "/livez", None).await.0, StatusCode::OK);
    assert_eq!(server.counts(), (0, 0));
}

#[tokio::test]
async fn refusals_say_the_version_too() {
    let open = guard_open(Router::new().route("/livez", get(async || "ok")), Clock::system(), Arc::default());
    let of = async |router: Router, request: http::request::Builder| {
        let response = router.oneshot(request.body(Body::empty()).unwrap()).await.unwrap();
        (response.status().as_u16(), response.headers().get(names::VERSION_HEADER).cloned())
    };
    let to =
        |method: &str| http::Request::builder().method(method).uri("/v1/rotations").header(header::HOST, "localhost");
    let guarded = || Server::default().guarded();
    let version = Some(header::HeaderValue::from_static(env!("CARGO_PKG_VERSION")));
    assert_eq!(of(guarded(), to("GET")).await, (401, version.clone()));
    let operator = |method: &str| to(method).header(header::AUTHORIZATION, "Bearer operator");
    assert_eq!(of(guarded(), operator("DELETE")).await, (405, version.clone()));
    assert_eq!(of(guarded(), operator("GET").header(header::HOST, "two")).await, (400, version.clone()));
    assert_eq!(of(guarded(), to("POST").header(header::AUTHORIZATION, "Bearer viewer")).await, (403, version.clone()));
    assert_eq!(of(open, http::Request::get("/livez").header(header::HOST, "rebound.example")).await, (403, version));
}

#[tokio::test]
async fn without_a_proper_bearer_token_nobody_is_asked() {
    let server = Server::default();
    let router = server.guarded();
    let long = format!("Bearer {}", "x".repeat(TOKEN_BYTES + 1));
    for authorization in [None, Some("operator"), Some("Basic b3BlcmF0b3I="), Some("Bearer "), Some(&*long)] {
        let (status, body) = send(&router, Method::GET, "/v1/rotations", authorization).await;
        assert_eq!((status, code(&body)), (StatusCode::UNAUTHORIZED, Code::Unauthenticated), "{authorization:?}");
    }
    assert_eq!(server.counts(), (0, 0));
}

#[tokio::test]
async fn a_refusal_says_the_version_too() {
    let response = ask(&Server::default().control(), "/v1/nodes", "stolen").await;
    assert_eq!(response.status(), StatusCode::UNAUTHORIZED);
    assert_eq!(response.headers()[names::VERSION_HEADER], env!("CARGO_PKG_VERSION"));
}

#[tokio::test]
async fn a_token_that_the_api_server_does_not_know_is_refused() {
    let (status, body) = send(&Server::default().guarded(), Method::GET, "/v1/rotations", Some("Bearer stolen")).await;
    assert_eq!((status, code(&body)), (StatusCode::UNAUTHORIZED, Code::Unauthenticated));
}

#[tokio::test]
async fn a_token_made_out_to_another_audience_is_refused() {
    let server = Server::default();
    let (status, _) = send(&server.guarded(), Method::GET, "/v1/rotations", Some("Bearer for-the-api-server")).await;
    assert_eq!(status, StatusCode::UNAUTHORIZED);
    assert_eq!(server.asked.lock()[0]["spec"]["audiences"], json!([names::AUDIENCE]));
}

#[tokio::test]
async fn the_caller_is_known_by_the_id_of_the_token() {
    let (status, body) =
        send(&Server::default().guarded(), Method::POST, "/v1/rotations", Some("bearer operator")).await;
    assert_eq!(status, StatusCode::OK);
    let caller = Caller { user: "operator".to_owned(), credential_id: Some("JTI=operator-token".to_owned()) };
    assert_eq!(body, format!("{:?}", Some(caller)));
}

#[tokio::test]
async fn a_viewer_may_look_and_may_not_begin() {
    let router = Server::default().guarded();
    assert_eq!(send(&router, Method::GET, "/v1/rotations", Some("Bearer viewer")).await.0, StatusCode::OK);
    let (status, body) = send(&router, Method::POST, "/v1/rotations", Some("Bearer viewer")).await;
    assert_eq!((status, code(&body)), (StatusCode::FORBIDDEN, Code::Forbidden));
    assert!(body.contains(r#"cannot create resource \"rotations\" in API group \"kubectl-rotate.dev\""#), "{body}");
}

#[tokio::test]
async fn a_route_without_a_rule_cannot_be_reached() {
    let router = Server::default().guarded();
    for (method, path) in [(Method::GET, "/v1/not-listed"), (Method::DELETE, "/v1/rotations")] {
        assert_eq!(send(&router, method, path, Some("Bearer operator")).await.0, StatusCode::METHOD_NOT_ALLOWED);
    }
}

#[tokio::test]
async fn whoever_asks_for_what_a_path_lacks_is_told_what_it_has() {
    let router = Server::default().control();
    for (path, has) in [("/v1/rotations", "GET,HEAD,POST"), ("/v1/nodes/a", "GET,HEAD"), ("/v1/plans", "POST")] {
        let request = http::Request::delete(path).header(header::HOST, "localhost");
        let request = request.header(header::AUTHORIZATION, "Bearer operator").body(Body::empty()).unwrap();
        let response = router.clone().oneshot(request).await.unwrap();
        assert_eq!(response.status(), StatusCode::METHOD_NOT_ALLOWED, "{path}");
        assert_eq!(response.headers()[header::ALLOW], has, "{path}");
    }
}

#[tokio::test]
async fn the_description_of_the_api_needs_no_token() {
    let server = Server::default();
    let (status, body) = send(&server.control(), Method::GET, "/openapi/v1.json", None).await;
    assert_eq!(status, StatusCode::OK);
    assert!(body.contains(r#""openapi": "3.1.0""#), "{body}");
    assert_eq!(server.counts(), (0, 0));
}

#[tokio::test]
async fn strangers_do_not_learn_which_paths_there_are() {
    let router = Server::default().guarded();
    assert_eq!(send(&router, Method::GET, "/v1/nope", None).await.0, StatusCode::UNAUTHORIZED);
    assert_eq!(send(&router, Method::GET, "/v1/nope", Some("Bearer viewer")).await.0, StatusCode::NOT_FOUND);
}

#[tokio::test(start_paused = true)]
async fn what_was_allowed_is_remembered_for_ten_seconds() {
    let server = Server::default();
    let router = server.guarded();
    for _ in 0..3 {
        send(&router, Method::GET, "/v1/rotations", Some("Bearer operator")).await;
    }
    assert_eq!(server.counts(), (1, 1));
    tokio::time::advance(Duration::from_secs(9)).await;
    send(&router, Method::GET, "/v1/rotations", Some("Bearer operator")).await;
    assert_eq!(server.counts(), (1, 1));
    tokio::time::advance(Duration::from_secs(1)).await;
    send(&router, Method::GET, "/v1/rotations", Some("Bearer operator")).await;
    assert_eq!(server.counts(), (2, 2));
}

#[tokio::test]
async fn what_was_refused_is_asked_again() {
    let server = Server::default();
    let router = server.guarded();
    for _ in 0..2 {
        send(&router, Method::POST, "/v1/rotations", Some("Bearer viewer")).await;
        send(&router, Method::GET, "/v1/rotations", Some("Bearer stolen")).await;
    }
    assert_eq!(server.counts(), (3, 2));
}

#[tokio::test]
async fn an_api_server_that_fails_is_not_taken_for_a_refusal() {
    let (status, body) = send(&Server::default().guarded(), Method::GET, "/v1/rotations", Some("Bearer outage")).await;
    assert_eq!((status, code(&body)), (StatusCode::BAD_GATEWAY, Code::UpstreamFailed));
}

#[tokio::test]
async fn the_memory_of_tokens_is_bounded() {
    let gate = Gate::new(Door::new(Clock::system(), Arc::default()), Server::default().client());
    let user = Arc::new(UserInfo::default());
    for number in 0..=TOKENS {
        gate.remember(key(&number.to_string()), &user);
    }
    let (count, latest) = gate.remembers(&key(&TOKENS.to_string()));
    assert!(count <= TOKENS && latest, "{count} are remembered, the latest among them");
}

#[tokio::test]
async fn without_authentication_browsers_are_kept_out() {
    let router = guard_open(Router::new().route("/livez", get(async || "ok")), Clock::system(), Arc::default());
    let answer = async |headers: &[(&str, &str)]| {
        let request =
            headers.iter().fold(http::Request::get("/livez"), |request, (name, value)| request.header(*name, *value));
        router.clone().oneshot(request.body(Body::empty()).unwrap()).await.unwrap().status()
    };
    assert_eq!(answer(&[("host", "127.0.0.1:8470")]).await, StatusCode::OK);
    assert_eq!(answer(&[("host", "localhost")]).await, StatusCode::OK);
    assert_eq!(answer(&[("host", "[::1]:8470")]).await, StatusCode::OK);
    assert_eq!(answer(&[("host", "rebound.example:8470")]).await, StatusCode::FORBIDDEN);
    assert_eq!(answer(&[("host", "127.0.0.1.example:8470")]).await, StatusCode::FORBIDDEN);
    assert_eq!(answer(&[("host", "127.0.0.1:8470"), ("origin", "https://example.org")]).await, StatusCode::FORBIDDEN);
}

#[tokio::test(start_paused = true)]
async fn a_credential_that_asks_too_fast_is_told_to_wait_and_others_are_not() {
    let router = Server::default().control();
    let mut answered = 0;
    let refused = loop {
        let response = ask(&router, "/v1/rotations", "viewer").await;
        if response.status() != StatusCode::OK {
            break response;
        }
        answered += 1;
    };
    assert_eq!(answered, limits::UNITS_AT_ONCE / 25 - 1, "one of them went for asking whether it may");
    assert_eq!(refused.status(), StatusCode::TOO_MANY_REQUESTS);
    assert_eq!(refused.headers()[header::RETRY_AFTER], "1");
    assert_eq!(testing::problem(refused).await.code, Code::TooManyRequests);
    assert_eq!(ask(&router, "/v1/rotations", "operator").await.status(), StatusCode::OK);
    tokio::time::advance(Duration::from_secs(1)).await;
    assert_eq!(ask(&router, "/v1/rotations", "viewer").await.status(), StatusCode::OK);
}

#[tokio::test(start_paused = true)]
async fn a_rotation_that_nobody_has_heard_of_costs_as_much_as_a_list() {
    let router = Server::default().control();
    let mut asked = 0;
    while ask(&router, &format!("/v1/rotations/{asked:010x}"), "viewer").await.status() == StatusCode::NOT_FOUND {
        asked += 1;
    }
    assert_eq!(asked, (limits::UNITS_AT_ONCE - 25) / 26);
    // What is known goes on at its own price once there is something to pay with.
    tokio::time::advance(Duration::from_secs(1)).await;
    for _ in 0..1_000 {
        assert_eq!(ask(&router, &format!("/v1/rotations/{ID}"), "viewer").await.status(), StatusCode::OK);
    }
}

#[tokio::test(start_paused = true)]
async fn a_credential_does_not_start_afresh_when_it_is_judged_anew() {
    let router = Server::default().control();
    for _ in 0..11 {
        while ask(&router, "/v1/rotations", "viewer").await.status() == StatusCode::OK {}
        tokio::time::advance(Duration::from_millis(1000)).await;
    }
    let mut answered = 0;
    while ask(&router, "/v1/rotations", "viewer").await.status() == StatusCode::OK {
        answered += 1;
    }
    assert!((98..=100).contains(&answered), "{answered} in a second");
}

#[tokio::test(start_paused = true)]
async fn a_flood_of_invented_tokens_does_not_reach_the_api_server_and_holds_up_nobody_known() {
    let server = Server::default();
    let router = server.control();
    assert_eq!(ask(&router, "/v1/cache", "viewer").await.status(), StatusCode::OK);
    for number in 0..1_000 {
        let refused = ask(&router, "/v1/cache", &format!("invented-{number}")).await.status();
        assert!(matches!(refused, StatusCode::UNAUTHORIZED | StatusCode::TOO_MANY_REQUESTS), "{refused}");
    }
    assert_eq!(server.counts().0, limits::STRANGERS_AT_ONCE as usize);
    tokio::time::advance(Duration::from_millis(10)).await;
    assert_eq!(ask(&router, "/v1/cache", "viewer").await.status(), StatusCode::OK);
    // Even where it has to be judged anew meanwhile.
    let router = Server::default().control();
    assert_eq!(ask(&router, "/v1/cache", "viewer").await.status(), StatusCode::OK);
    tokio::time::advance(Duration::from_secs(11)).await;
    while ask(&router, "/v1/cache", "invented").await.status() != StatusCode::TOO_MANY_REQUESTS {}
    assert_eq!(ask(&router, "/v1/cache", "viewer").await.status(), StatusCode::OK);
}

#[tokio::test(start_paused = true)]
async fn streams_are_bounded_for_each_credential_and_come_back() {
    let router = Server::default().control();
    let mut open = Vec::new();
    for _ in 0..limits::STREAMS.token {
        let response = follow(&router, "viewer").await;
        assert_eq!(response.status(), StatusCode::OK);
        open.push(response);
    }
    let refused = follow(&router, "viewer").await;
    assert_eq!((refused.status().as_u16(), &refused.headers()[header::CONNECTION]), (429, &"close".parse().unwrap()));
    assert_eq!(follow(&router, "operator").await.status(), StatusCode::OK);
    open.pop();
    assert_eq!(follow(&router, "viewer").await.status(), StatusCode::OK);
}

#[tokio::test(start_paused = true)]
async fn answers_that_are_not_taken_are_bounded_too() {
    let router = Server::default().control();
    let mut held = Vec::new();
    for _ in 0..limits::HEAVY.token {
        held.push(ask(&router, "/v1/nodes", "viewer").await);
    }
    assert_eq!(ask(&router, "/v1/nodes", "viewer").await.status(), StatusCode::TOO_MANY_REQUESTS);
    assert_eq!(ask(&router, "/v1/cache", "viewer").await.status(), StatusCode::OK, "small answers go on");
    held.clear();
    assert_eq!(ask(&router, "/v1/nodes", "viewer").await.status(), StatusCode::OK);
}

/// A body that is begun and never ends; announced as of this size.
struct Half {
    announced: u64,
    begun: bool,
}

impl hyper::body::Body for Half {
    type Data = bytes::Bytes;
    type Error = std::io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<hyper::body::Frame<Self::Data>, Self::Error>>> {
        if std::mem::replace(&mut self.begun, true) {
            return Poll::Pending;
        }
        Poll::Ready(Some(Ok(hyper::body::Frame::data(bytes::Bytes::from_static(b"{")))))
    }

    fn size_hint(&self) -> hyper::body::SizeHint {
        hyper::body::SizeHint::with_exact(self.announced)
    }
}

fn post(path: &str, token: &str, body: Body) -> Request {
    let request = http::Request::post(path).header(header::HOST, "localhost");
    let request = request.header(header::AUTHORIZATION, format!("Bearer {token}"));
    request.header(header::CONTENT_TYPE, "application/json").body(body).unwrap()
}

/// Half-sent requests for plans, of as many tokens of one account as it likes; those that are still under way.
async fn half_sent(router: &Router, account: &str, announced: u64) -> Vec<tokio::task::JoinHandle<Response>> {
    let mut sent = Vec::new();
    for number in 0..32 {
        let body = Body::new(Half { announced, begun: false });
        let request = post("/v1/plans", &format!("{account}-{}", number / 8), body);
        sent.push(tokio::spawn(router.clone().oneshot(request).map(Result::unwrap)));
    }
    Clock::system().sleep(Duration::from_secs(1)).await;
    sent.into_iter().filter(|sent| !sent.is_finished()).collect()
}

#[tokio::test(start_paused = true)]
async fn plans_that_are_half_sent_take_no_place_from_others() {
    let router = Server::default().control();
    let half = half_sent(&router, "viewer", 1_000).await;
    assert_eq!(half.len(), 32, "each waits for the rest of its body");
    assert_eq!(ask(&router, "/v1/nodes", "viewer").await.status(), StatusCode::OK);
    let whole = || post("/v1/plans", "operator", Body::from(r#"{"nodes":["a"]}"#));
    assert_eq!(router.clone().oneshot(whole()).await.unwrap().status(), StatusCode::NOT_FOUND, "there is no node");
    for sent in half {
        let late = sent.await.unwrap();
        assert_eq!((late.status().as_u16(), &late.headers()[header::CONNECTION]), (408, &"close".parse().unwrap()));
        assert_eq!(testing::problem(late).await.detail, "the body did not arrive within 10 s");
    }
}

#[tokio::test(start_paused = true)]
async fn one_account_cannot_take_the_places_that_another_needs_however_many_tokens_it_has() {
    let router = Server::default().control();
    // Large bodies, which need a place before they are read.
    let half = half_sent(&router, "viewer", limits::BODY_BYTES as u64).await;
    assert_eq!(half.len(), limits::HEAVY.account);
    let refused = ask(&router, "/v1/nodes", "viewer-9").await;
    assert_eq!(refused.status(), StatusCode::TOO_MANY_REQUESTS);
    let detail = testing::problem(refused).await.detail;
    assert_eq!(detail, "this account has as many requests of this kind open as it may have; try again in 1 s");
    assert_eq!(ask(&router, "/v1/nodes", "operator").await.status(), StatusCode::OK);
}

#[tokio::test(start_paused = true)]
async fn a_change_to_a_rotation_is_never_refused_for_want_of_a_place() {
    let router = Server::default().control();
    let half = half_sent(&router, "viewer", limits::BODY_BYTES as u64).await;
    let others = half_sent(&router, "operator", limits::BODY_BYTES as u64).await;
    assert_eq!(half.len() + others.len(), limits::HEAVY.all);
    assert_eq!(ask(&router, "/v1/nodes", "operator-9").await.status(), StatusCode::SERVICE_UNAVAILABLE);
    for verb in ["pause", "resume", "cancel"] {
        let change = post(&format!("/v1/rotations/{ID}/{verb}"), "operator-9", Body::from("{}"));
        let answer = router.clone().oneshot(change).await.unwrap();
        assert_eq!(testing::problem(answer).await.code, Code::NotFound, "{verb}: its record is asked for");
    }
}

#[tokio::test(start_paused = true)]
async fn a_change_to_a_rotation_has_a_small_body() {
    let router = Server::default().control();
    let large = " ".repeat(limits::SMALL_BODY_BYTES + 1);
    let announced = post(&format!("/v1/rotations/{ID}/cancel"), "operator", Body::from(large.clone()));
    let chunks = futures::stream::iter([Ok::<_, std::io::Error>(large)]);
    let unannounced = post(&format!("/v1/rotations/{ID}/cancel"), "operator", Body::from_stream(chunks));
    for request in [announced, unannounced] {
        assert_eq!(router.clone().oneshot(request).await.unwrap().status(), StatusCode::PAYLOAD_TOO_LARGE);
    }
}

#[tokio::test(start_paused = true)]
async fn an_answer_taken_byte_by_byte_gives_its_place_back_after_a_minute() {
    let router = Server::default().control();
    let held: Vec<_> = futures::future::join_all((0..8).map(|_| ask(&router, "/v1/nodes", "viewer"))).await;
    Clock::system().sleep(limits::SENDING + Duration::from_secs(1)).await;
    assert_eq!(ask(&router, "/v1/nodes", "viewer").await.status(), StatusCode::OK);
    drop(held);
}

/// When a stream ends, in seconds; it is read all the while.
async fn end(response: Response) -> u64 {
    let clock = Clock::system();
    let begun = clock.now();
    response.into_body().collect().await.unwrap();
    clock.now().duration_since(begun).unsigned_abs().as_secs()
}

#[tokio::test(start_paused = true)]
async fn a_token_that_is_withdrawn_ends_its_streams_within_twenty_five_seconds() {
    for before in [0, 3, 7, 14, 16, 29] {
        let server = Server::default();
        let router = server.control();
        let stream = tokio::spawn(end(follow(&router, "viewer").await));
        Clock::system().sleep(Duration::from_secs(before)).await;
        server.withdrawn.store(true, Ordering::Relaxed);
        let after = stream.await.unwrap() - before;
        assert!(after <= 25, "withdrawn after {before} s, it ended {after} s later");
    }
}

#[tokio::test(start_paused = true)]
async fn streams_outlive_an_api_server_that_is_away_for_a_while_and_not_for_ever() {
    let server = Server::default();
    let router = server.control();
    let stream = tokio::spawn(end(follow(&router, "viewer").await));
    server.away.store(true, Ordering::Relaxed);
    Clock::system().sleep(Duration::from_secs(200)).await;
    assert!(!stream.is_finished());
    server.away.store(false, Ordering::Relaxed);
    Clock::system().sleep(Duration::from_secs(200)).await;
    assert!(!stream.is_finished());
    server.away.store(true, Ordering::Relaxed);
    let ended = stream.await.unwrap();
    assert!((690..=730).contains(&ended), "{ended}");
}

#[tokio::test(start_paused = true)]
async fn what_the_api_server_answers_to_a_review_is_not_passed_on() {
    let echo = tower::service_fn(async |request: http::Request<kube::client::Body>| {
        let body = request.into_body().collect().await.expect("in memory").to_bytes();
        http::Response::builder().status(200).body(kube::client::Body::from([&body[..], b"!"].concat()))
    });
    let router = guard(Router::new(), Client::new(echo, "default"), Clock::system(), Arc::default());
    let (status, body) = send(&router, Method::GET, "/", Some("Bearer a-secret")).await;
    assert_eq!((status, code(&body)), (StatusCode::BAD_GATEWAY, Code::UpstreamFailed));
    assert!(!body.contains("a-secret"), "{body}");
}
