use axum::body::Body;
use axum::response::Response;
use http::{Method, Request, StatusCode, header};
use http_body_util::BodyExt as _;
use rotate_shared::{Code, Problem, VersionInfo};
use tower::ServiceExt as _;

use super::super::testing;

async fn problem(response: Response) -> Problem {
    assert_eq!(response.headers()[header::CONTENT_TYPE], "application/problem+json");
    let status = response.status();
    let body = response.into_body().collect().await.unwrap().to_bytes();
    let problem: Problem = serde_json::from_slice(&body).unwrap();
    assert_eq!(problem.status, status.as_u16());
    problem
}

async fn send(method: Method, path: &str) -> Response {
    let request = Request::builder().method(method).uri(path).body(Body::empty()).unwrap();
    super::router(testing::api()).oneshot(request).await.unwrap()
}

#[tokio::test]
async fn version_is_what_was_built() {
    let response = send(Method::GET, "/version").await;
    let body = response.into_body().collect().await.unwrap().to_bytes();
    assert_eq!(serde_json::from_slice::<VersionInfo>(&body).unwrap(), VersionInfo::current());
}

#[tokio::test]
async fn a_path_that_leads_nowhere_is_a_problem() {
    let problem = problem(send(Method::GET, "/v1/nope").await).await;
    assert_eq!((problem.status, problem.code), (404, Code::NotFound));
    assert_eq!(problem.detail, r#"path "/v1/nope" not found"#);
}

#[tokio::test]
async fn a_method_that_a_path_lacks_is_a_problem_and_names_those_it_has() {
    let response = send(Method::DELETE, "/version").await;
    assert_eq!(response.status(), StatusCode::METHOD_NOT_ALLOWED);
    assert_eq!(response.headers()[header::ALLOW], "GET,HEAD");
    assert_eq!(problem(response).await.code, Code::BadRequest);
}
