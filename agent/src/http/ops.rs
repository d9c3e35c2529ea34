//! The ops port: liveness, readiness, version and metrics; no names of nodes or Pods.

use axum::extract::State;
use axum::middleware::Next;
use axum::routing::get;
use axum::{Json, Router, middleware};
use http::StatusCode;
use rotate_shared::VersionInfo;

use super::metrics::metrics;
use super::problem;
use super::state::Api;

/// The ops port's routes. They need no token: everybody in the cluster may see them.
pub(crate) fn router(api: Api) -> Router {
    Router::new()
        .route("/livez", get(async || "ok"))
        .route("/version", get(async || Json(VersionInfo::current())))
        .route("/metrics", get(metrics))
        .fallback(problem::no_route)
        .method_not_allowed_fallback(problem::no_method)
        .layer(middleware::from_fn(async |request, next: Next| problem::contain(next.run(request)).await))
        // Not within that layer: its refusal is a text for people and the kubelet, not a problem document.
        .route("/readyz", get(ready))
        .with_state(api)
}

/// Ready to answer: a follower is, too. Reasons are one a line, as Kubernetes' own `/readyz` has them.
async fn ready(State(api): State<Api>) -> (StatusCode, String) {
    let unready = api.unready();
    if unready.is_empty() {
        return (StatusCode::OK, "ok\n".to_owned());
    }
    (StatusCode::SERVICE_UNAVAILABLE, unready.iter().map(|reason| format!("[-] {reason}\n")).collect())
}

#[cfg(test)]
mod tests;
