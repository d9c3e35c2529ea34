//! The control API's routes.

use axum::routing::get;
use axum::{Json, Router, middleware};
use rotate_shared::VersionInfo;

use super::problem;
use super::state::Api;
use super::{events, rotations};

/// The whole control API, for callers that are trusted already: the plugin with the agent inside, the demo, tests.
/// Over a socket it is served behind [`super::auth`] only.
pub(crate) fn router(api: Api) -> Router {
    Router::new()
        .route("/livez", get(async || "ok"))
        .route("/version", get(async || Json(VersionInfo::current())))
        .route("/v1/rotations", get(rotations::list))
        .route("/v1/rotations/{id}", get(rotations::show))
        .route("/v1/rotations/{id}/events", get(events::follow))
        .fallback(problem::no_route)
        .method_not_allowed_fallback(problem::no_method)
        .with_state(api)
        .layer(middleware::from_fn(problem::contain))
}

#[cfg(test)]
mod tests;
