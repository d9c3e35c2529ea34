use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use axum::Router;
use serde_json::{Value, json};

use super::*;

fn eviction() -> Eviction {
    Eviction {
        namespace: "shop".to_owned(),
        name: "cart-0".to_owned(),
        uid: "1-2-3".to_owned(),
        grace_period_seconds: Some(30),
        bypass: false,
    }
}

/// What a server sees of one eviction, and what we make of its answer.
async fn ask(eviction: Eviction, status: u16, body: impl ToString) -> (String, Value, Answer) {
    let body = body.to_string();
    let seen = Arc::new(parking_lot::Mutex::new((String::new(), Value::Null)));
    let keep = Arc::clone(&seen);
    let service = tower::service_fn(move |request: Request<Body>| {
        let (keep, body) = (Arc::clone(&keep), body.clone());
        async move {
            let line = format!("{} {}", request.method(), request.uri());
            let sent = request.into_body().collect().await.unwrap().to_bytes();
            *keep.lock() = (line, serde_json::from_slice(&sent).unwrap());
            let response = http::Response::builder().status(status).body(Body::from(body.into_bytes())).unwrap();
            Ok::<_, std::convert::Infallible>(response)
        }
    });
    let answer = evict(&Client::new(service, "default"), &eviction).await.unwrap();
    let seen = seen.lock().clone();
    (seen.0, seen.1, answer)
}

fn refusal(status: u16, reason: &str, message: &str, cause: Option<(&str, &str)>) -> Value {
    let causes: Vec<_> =
        cause.iter().map(|(reason, message)| json!({ "reason": reason, "message": message })).collect();
    json!({ "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "message": message,
            "reason": reason, "details": { "causes": causes }, "code": status })
}

#[test]
fn a_question_is_the_same_request_and_changes_nothing() {
    for bypass in [false, true] {
        let eviction = Eviction { bypass, ..eviction() };
        let (asked, done) = (request(&eviction, "?dryRun=All").unwrap(), request(&eviction, "").unwrap());
        assert_eq!(asked.method(), done.method());
        assert_eq!(asked.uri().to_string(), format!("{}?dryRun=All", done.uri()));
    }
}

#[tokio::test]
async fn an_eviction_carries_the_uid_precondition_where_the_api_server_reads_it() {
    let (line, body, answer) = ask(eviction(), 201, json!({ "kind": "Status", "status": "Success" })).await;
    assert_eq!(line, "POST /api/v1/namespaces/shop/pods/cart-0/eviction");
    let expected = json!({
        "apiVersion": "policy/v1", "kind": "Eviction",
        "metadata": { "name": "cart-0", "namespace": "shop" },
        "deleteOptions": { "apiVersion": "v1", "kind": "DeleteOptions", "gracePeriodSeconds": 30, "preconditions": { "uid": "1-2-3" } },
    });
    let mut body = body;
    // Optional on the wire; which version k8s-openapi stamps on them does not matter.
    for key in ["apiVersion", "kind"] {
        body["deleteOptions"][key] = expected["deleteOptions"][key].clone();
    }
    assert_eq!(body, expected);
    assert_eq!(answer, Answer::Accepted);
}

#[tokio::test]
async fn without_a_grace_period_the_pod_keeps_its_own() {
    let (_, body, _) = ask(Eviction { grace_period_seconds: None, ..eviction() }, 201, "{}").await;
    assert!(body["deleteOptions"].get("gracePeriodSeconds").is_none());
}

#[tokio::test]
async fn bypassing_the_budgets_is_a_delete_with_the_same_precondition() {
    let (line, body, answer) = ask(Eviction { bypass: true, ..eviction() }, 200, "{}").await;
    assert_eq!(line, "DELETE /api/v1/namespaces/shop/pods/cart-0");
    assert_eq!(body["preconditions"]["uid"], "1-2-3");
    assert_eq!(body["gracePeriodSeconds"], 30);
    assert_eq!(answer, Answer::Accepted);
}

#[tokio::test]
async fn a_budget_that_refuses_is_told_apart_from_throttling_by_its_cause() {
    let numbers = "The disruption budget cart needs 6 healthy pods and has 6 currently";
    let body = refusal(
        429,
        "TooManyRequests",
        "Cannot evict pod as it would violate the pod's disruption budget.",
        Some(("DisruptionBudget", numbers)),
    );
    let (_, _, answer) = ask(eviction(), 429, body).await;
    assert_eq!(answer, Answer::Budget { message: numbers.to_owned() });

    let (_, _, answer) = ask(eviction(), 429, "Too many requests, please try again later.").await;
    assert_eq!(answer, Answer::Throttled { after: Duration::from_secs(1) });
}

#[test]
fn a_throttled_eviction_stays_away_as_long_as_it_is_told_within_reason() {
    let after = |seconds| Answer::Throttled { after: Duration::from_secs(seconds) };
    assert_eq!(answer(StatusCode::TOO_MANY_REQUESTS, Some(7), b""), after(7));
    assert_eq!(answer(StatusCode::TOO_MANY_REQUESTS, None, br#"{"details":{"retryAfterSeconds":3}}"#), after(3));
    assert_eq!(answer(StatusCode::TOO_MANY_REQUESTS, Some(86400), b""), after(60));
}

#[tokio::test]
async fn two_budgets_on_one_pod_are_recognised() {
    let message = "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support.";
    let (_, _, answer) = ask(eviction(), 500, refusal(500, "InternalError", message, None)).await;
    assert_eq!(answer, Answer::SeveralBudgets { message: message.to_owned() });
}

#[tokio::test]
async fn a_pod_that_is_gone_or_replaced_is_not_an_error() {
    let (_, _, answer) = ask(eviction(), 404, refusal(404, "NotFound", "pods \"cart-0\" not found", None)).await;
    assert_eq!(answer, Answer::Gone);
    let (_, _, answer) = ask(eviction(), 409, refusal(409, "Conflict", "the UID in the precondition…", None)).await;
    assert_eq!(answer, Answer::Replaced);
}

#[tokio::test]
async fn a_terminating_namespace_is_told_apart_from_a_missing_permission() {
    let terminating =
        refusal(403, "Forbidden", "forbidden", Some(("NamespaceTerminating", "namespace shop is being terminated")));
    let (_, _, answer) = ask(eviction(), 403, terminating).await;
    assert_eq!(answer, Answer::NamespaceTerminating);
    let (_, _, answer) = ask(eviction(), 403, refusal(403, "Forbidden", "pods is forbidden: User cannot", None)).await;
    assert_eq!(answer, Answer::Refused { status: 403, message: "pods is forbidden: User cannot".to_owned() });
}

#[tokio::test]
async fn what_a_webhook_says_is_kept_whatever_its_form() {
    let (_, _, answer) =
        ask(eviction(), 500, refusal(500, "InternalError", "admission webhook denied: moving it", None)).await;
    assert_eq!(answer, Answer::Refused { status: 500, message: "admission webhook denied: moving it".to_owned() });
    let (_, _, answer) = ask(eviction(), 502, "<html>bad gateway</html>").await;
    assert_eq!(answer, Answer::Refused { status: 502, message: "<html>bad gateway</html>".to_owned() });
    let (_, _, answer) = ask(eviction(), 400, "").await;
    assert_eq!(answer, Answer::Refused { status: 400, message: "no reason given".to_owned() });
}

/// kube's retry layer comes with a `Config` and not with `Client::new`: only a real connection shows it.
#[tokio::test]
async fn one_eviction_refused_by_a_budget_is_exactly_one_request() {
    let _ = rustls::crypto::ring::default_provider().install_default();
    let requests = Arc::new(AtomicUsize::new(0));
    let counter = Arc::clone(&requests);
    let body = refusal(429, "TooManyRequests", "no", Some(("DisruptionBudget", "needs 3, has 3")));
    let app = Router::new().fallback(move || {
        counter.fetch_add(1, Ordering::SeqCst);
        let body = body.clone();
        async move { (StatusCode::TOO_MANY_REQUESTS, axum::Json(body)) }
    });
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let server = tokio::spawn(async move { axum::serve(listener, app).await });

    let config = kube::Config::new(format!("http://{address}").parse().unwrap());
    let client = crate::client::production(config).unwrap();
    let answer = evict(&client, &eviction()).await.unwrap();

    assert_eq!(answer, Answer::Budget { message: "needs 3, has 3".to_owned() });
    assert_eq!(requests.load(Ordering::SeqCst), 1);
    server.abort();
}
