//! The control API's routes.

use axum::routing::get;
use axum::{Json, Router, middleware};
use rotate_shared::VersionInfo;

use super::problem;
use super::state::Api;

/// The whole control API, for callers that are trusted already: the plugin with the agent inside, the demo, tests.
/// Over a socket it is served behind [`super::auth`] only.
pub(crate) fn router(api: Api) -> Router {
    Router::new()
        .route("/livez", get(async || "ok"))
        .route("/version", get(async || Json(VersionInfo::current())))
        .fallback(problem::no_route)
        .method_not_allowed_fallback(problem::no_method)
        .with_state(api)
        .layer(middleware::from_fn(problem::contain))
}

#[cfg(test)]
mod tests;
