//! The control API's routes.

use std::sync::Arc;

use axum::extract::FromRef;
use axum::middleware::Next;
use axum::response::Response;
use axum::routing::{get, post};
use axum::{Json, Router, middleware};
use http::{HeaderName, HeaderValue};
use rotate_shared::{VersionInfo, names};

use super::problem;
use super::state::Api;
use super::{create, events, health, nodes, openapi, plans, rotations};

/// The whole control API, for callers that are trusted already: the plugin with the agent inside, the demo, tests.
/// Over a socket it is served behind [`super::auth`] only.
pub(crate) fn router(api: Api) -> Router {
    Router::new()
        .route("/livez", get(async || "ok"))
        .route("/version", get(async || Json(VersionInfo::current())))
        .route("/openapi/v1.json", get(openapi::document))
        .route("/v1/plans", post(plans::create))
        .route("/v1/rotations", get(rotations::list).post(create::create))
        .route("/v1/rotations/{id}", get(rotations::show))
        .route("/v1/rotations/{id}/events", get(events::follow))
        .route("/v1/rotations/{id}/pause", post(rotations::pause))
        .route("/v1/rotations/{id}/resume", post(rotations::resume))
        .route("/v1/rotations/{id}/cancel", post(rotations::cancel))
        .route("/v1/nodes", get(nodes::list))
        .route("/v1/nodes/{name}", get(nodes::show))
        .route("/v1/cache", get(health::cache))
        .fallback(problem::no_route)
        .method_not_allowed_fallback(problem::no_method)
        .with_state(Arc::new(api))
        .layer(middleware::from_fn(async |request, next: Next| tell_version(problem::contain(next.run(request)).await)))
}

/// For handlers that take it as their own. Those of short answers share it: its clone is dear, and is made with each request.
impl FromRef<Arc<Self>> for Api {
    fn from_ref(api: &Arc<Self>) -> Self {
        Self::clone(api)
    }
}

/// A caller of another version finds out from whatever it asked.
pub(super) fn tell_version(mut response: Response) -> Response {
    let version = HeaderValue::from_static(env!("CARGO_PKG_VERSION"));
    response.headers_mut().insert(HeaderName::from_static(names::VERSION_HEADER), version);
    response
}

#[cfg(test)]
mod tests;
