//! What each route needs and what it costs.

use http::{Method, StatusCode};
use rotate_shared::Code;

use crate::http::budget::Weight;
use crate::http::problem::Refusal;

/// Resource and verb in [`rotate_shared::names::AUTHORIZATION_GROUP`], cluster-wide.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Need(pub(super) &'static str, pub(super) &'static str);

/// A route.
#[derive(Clone, Debug)]
pub(super) struct Rule(Method, &'static str, pub(super) Need, pub(super) Weight);

/// Every route that can be reached over a socket with a token.
pub(super) static RULES: [Rule; 11] = [
    Rule(Method::POST, "/v1/plans", Need("plans", "create"), Weight::Work),
    Rule(Method::POST, "/v1/rotations", Need("rotations", "create"), Weight::Work),
    Rule(Method::GET, "/v1/rotations", Need("rotations", "list"), Weight::Heavy),
    Rule(Method::GET, "/v1/rotations/{id}", Need("rotations", "get"), Weight::Light),
    Rule(Method::GET, "/v1/rotations/{id}/events", Need("rotations", "get"), Weight::Stream),
    Rule(Method::POST, "/v1/rotations/{id}/pause", Need("rotations", "update"), Weight::Heavy),
    Rule(Method::POST, "/v1/rotations/{id}/resume", Need("rotations", "update"), Weight::Heavy),
    Rule(Method::POST, "/v1/rotations/{id}/cancel", Need("rotations", "update"), Weight::Heavy),
    Rule(Method::GET, "/v1/nodes", Need("nodes", "list"), Weight::Heavy),
    Rule(Method::GET, "/v1/nodes/{name}", Need("nodes", "get"), Weight::Light),
    Rule(Method::GET, "/v1/cache", Need("nodes", "list"), Weight::Light),
];

/// Open to everybody who reaches the port: they tell nothing about the cluster.
pub(super) const OPEN: [&str; 2] = ["/livez", "/version"];

/// The rule of a route.
pub(super) fn rule(method: &Method, path: &str) -> Result<&'static Rule, Refusal> {
    let method = if method == Method::HEAD { &Method::GET } else { method };
    RULES.iter().find(|Rule(allowed, route, ..)| allowed == method && *route == path).ok_or_else(|| {
        Refusal::new(Code::BadRequest, format!("{method} is not possible on {path:?}"))
            .status(StatusCode::METHOD_NOT_ALLOWED)
    })
}
