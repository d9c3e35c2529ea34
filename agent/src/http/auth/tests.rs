use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use axum::body::Body;
use axum::routing::get;
use http_body_util::BodyExt as _;
use rotate_shared::Problem;
use serde_json::{Value, json};
use tower::ServiceExt as _;

use super::*;

/// An API server that knows two tokens and counts what it is asked.
#[derive(Clone, Debug, Default)]
struct Server {
    token_reviews: Arc<AtomicUsize>,
    access_reviews: Arc<AtomicUsize>,
    asked: Arc<Mutex<Vec<Value>>>,
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
        match path {
            "/apis/authentication.k8s.io/v1/tokenreviews" => {
                self.token_reviews.fetch_add(1, Ordering::Relaxed);
                let user = |name: &str| {
                    let extra = json!({ CREDENTIAL_ID: [format!("JTI={name}-token")] });
                    json!({ "username": name, "groups": ["system:serviceaccounts"], "extra": extra })
                };
                review["status"] = match review["spec"]["token"].as_str().unwrap() {
                    token @ ("operator" | "viewer") => {
                        json!({ "authenticated": true, "audiences": [names::AUDIENCE], "user": user(token) })
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
                let allowed = spec["user"] == "operator" || matches!(verb, "get" | "list");
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
        guard(router, self.client(), Clock::system())
    }
}

async fn send(router: &Router, method: Method, path: &str, authorization: Option<&str>) -> (StatusCode, String) {
    let mut request = http::Request::builder().method(method).uri(path);
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
    let gate = Gate { client: Server::default().client(), clock: Clock::system(), remembered: Mutex::default() };
    let user = Arc::new(UserInfo::default());
    for number in 0..=TOKENS {
        gate.remember(key(&number.to_string()), &user);
    }
    assert!(gate.remembered.lock().len() <= TOKENS);
    assert!(gate.recall(&key(&TOKENS.to_string())).is_some(), "the latest is there");
}

#[tokio::test]
async fn without_authentication_browsers_are_kept_out() {
    let router = guard_open(Router::new().route("/livez", get(async || "ok")));
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
