//! The ops port: liveness, readiness, version and metrics; no names of nodes or Pods.

use axum::routing::get;
use axum::{Json, Router, middleware};
use rotate_shared::VersionInfo;

use super::problem;
use super::state::Api;

/// The ops port's routes. They need no token: everybody in the cluster may see them.
pub(crate) fn router(api: Api) -> Router {
    Router::new()
        .route("/livez", get(async || "ok"))
        .route("/version", get(async || Json(VersionInfo::current())))
        .fallback(problem::no_route)
        .method_not_allowed_fallback(problem::no_method)
        .with_state(api)
        .layer(middleware::from_fn(problem::contain))
}
