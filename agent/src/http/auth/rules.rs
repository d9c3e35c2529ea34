//! What each route needs and what it costs.

use http::{HeaderValue, Method, StatusCode, header};
use rotate_shared::Code;

use crate::http::budget::Weight;
use crate::http::problem::Refusal;

/// Resource and verb in [`rotate_shared::names::AUTHORIZATION_GROUP`], cluster-wide.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Need(pub(super) &'static str, pub(super) &'static str);

/// A route.
#[derive(Clone, Debug)]
pub(super) struct Rule(pub(super) Method, pub(super) &'static str, pub(super) Need, pub(super) Weight);

/// Every route that can be reached over a socket with a token.
pub(super) static RULES: [Rule; 11] = [
    Rule(Method::POST, "/v1/plans", Need("plans", "create"), Weight::Work),
    Rule(Method::POST, "/v1/rotations", Need("rotations", "create"), Weight::Work),
    Rule(Method::GET, "/v1/rotations", Need("rotations", "list"), Weight::Heavy),
    Rule(Method::GET, "/v1/rotations/{id}", Need("rotations", "get"), Weight::Look),
    Rule(Method::GET, "/v1/rotations/{id}/events", Need("rotations", "get"), Weight::Stream),
    Rule(Method::POST, "/v1/rotations/{id}/pause", Need("rotations", "update"), Weight::Change),
    Rule(Method::POST, "/v1/rotations/{id}/resume", Need("rotations", "update"), Weight::Change),
    Rule(Method::POST, "/v1/rotations/{id}/cancel", Need("rotations", "update"), Weight::Change),
    Rule(Method::GET, "/v1/nodes", Need("nodes", "list"), Weight::Heavy),
    Rule(Method::GET, "/v1/nodes/{name}", Need("nodes", "get"), Weight::Light),
    Rule(Method::GET, "/v1/cache", Need("nodes", "list"), Weight::Light),
];

/// Open to everybody who reaches the port: they tell nothing about the cluster.
pub(super) const OPEN: [&str; 3] = ["/livez", "/version", "/openapi/v1.json"];

/// The rule of a route.
pub(super) fn rule(method: &Method, path: &str) -> Result<&'static Rule, Refusal> {
    let method = if method == Method::HEAD { &Method::GET } else { method };
    let of_path = || RULES.iter().filter(|Rule(_, route, ..)| *route == path);
    of_path().find(|Rule(allowed, ..)| allowed == method).ok_or_else(|| {
        let refusal = Refusal::new(Code::BadRequest, format!("{method} is not possible on {path:?}"))
            .status(StatusCode::METHOD_NOT_ALLOWED);
        // RFC 9110, 15.5.6: whoever is told no is told what is possible.
        let has = |method| of_path().any(|Rule(allowed, ..)| allowed == method);
        match (has(&Method::GET), has(&Method::POST)) {
            (true, true) => refusal.header(header::ALLOW, HeaderValue::from_static("GET,HEAD,POST")),
            (true, false) => refusal.header(header::ALLOW, HeaderValue::from_static("GET,HEAD")),
            (false, true) => refusal.header(header::ALLOW, HeaderValue::from_static("POST")),
            (false, false) => refusal,
        }
    })
}
