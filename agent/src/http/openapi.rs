//! The description of this API, for generators of clients and for people.
//!
//! The file is made of the wire types by `shared/tests/openapi`, and served as it is committed.

use axum::response::IntoResponse;
use http::header;

const DOCUMENT: &str = include_str!("../../../docs/openapi.json");

/// `GET /openapi/v1.json`. For everybody who reaches the port, as it is published anyway and tells nothing of the cluster.
pub(super) async fn document() -> impl IntoResponse {
    ([(header::CONTENT_TYPE, "application/json")], DOCUMENT)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use axum::body::Body;
    use http::{Method, Request, StatusCode};
    use rotate_shared::names;
    use serde_json::Value;
    use tower::ServiceExt as _;

    use super::super::{auth, control_router, ops_router, testing};
    use super::*;

    fn read() -> Value {
        serde_json::from_str(DOCUMENT).unwrap()
    }

    /// Method and path of every operation that it describes, and of which port, with what may be done without a token.
    fn described(ops: bool, open: bool) -> BTreeSet<(Method, String)> {
        let mut found = BTreeSet::new();
        let document = read();
        for (path, item) in document["paths"].as_object().unwrap() {
            let operations = item.as_object().unwrap().iter().filter(|(key, _)| *key != "servers");
            for (method, operation) in operations.filter(|_| item["servers"].is_array() == ops) {
                if operation["security"].as_array().is_some_and(Vec::is_empty) == open {
                    found.insert((method.to_uppercase().parse().unwrap(), path.clone()));
                }
            }
        }
        found
    }

    /// The same out of a router's source: no list that could be forgotten.
    fn routed(source: &str) -> BTreeSet<(Method, String)> {
        let mut found = BTreeSet::new();
        for route in source.split(".route(\"").skip(1) {
            let (path, rest) = route.split_once("\", ").unwrap();
            let handlers = rest.lines().next().unwrap();
            for (call, method) in [("get(", Method::GET), ("post(", Method::POST)] {
                if handlers.contains(call) {
                    found.insert((method, path.to_owned()));
                }
            }
        }
        found
    }

    #[test]
    fn it_describes_every_route_that_needs_a_token() {
        assert_eq!(described(false, false), auth::routes());
        assert_eq!(described(true, false), BTreeSet::new());
    }

    #[test]
    fn it_describes_every_route_of_both_ports_and_no_other() {
        let control = routed(include_str!("control.rs"));
        assert!(control.len() > 10, "the routes are not found: {control:?}");
        assert_eq!(&described(false, false) | &described(false, true), control);
        let ops = routed(include_str!("ops.rs"));
        let of_ops_alone: BTreeSet<_> = ops.difference(&control).cloned().collect();
        assert_eq!(described(true, true), of_ops_alone);
        assert!(of_ops_alone.len() < ops.len(), "both ports answer whether the agent lives");
    }

    #[tokio::test]
    async fn whatever_it_describes_is_answered() {
        let api = testing::synced();
        let ports = [(false, control_router(api.clone())), (true, ops_router(api))];
        for (ops, router) in ports {
            for (method, path) in &described(ops, false) | &described(ops, true) {
                let path = path.replace("{id}", "0123456789").replace("{name}", "a");
                let request = Request::builder().method(&method).uri(&path).body(Body::empty()).unwrap();
                let response = router.clone().oneshot(request).await.unwrap();
                assert_ne!(response.status(), StatusCode::METHOD_NOT_ALLOWED, "{method} {path}");
                if response.status() == StatusCode::NOT_FOUND {
                    let detail = testing::problem(response).await.detail;
                    assert!(!detail.starts_with("path"), "{method} {path}: {detail}");
                }
            }
        }
    }

    #[tokio::test]
    async fn it_is_served_as_it_is_committed() {
        let response = testing::get(&testing::api(), "/openapi/v1.json").await;
        assert_eq!(response.headers()[header::CONTENT_TYPE], "application/json");
        assert_eq!(testing::json::<Value>(response).await, read());
    }

    #[test]
    fn it_names_the_ports_and_the_audience_that_there_are() {
        for name in [names::AUDIENCE, &format!(":{}", names::CONTROL_PORT), names::VERSION_HEADER] {
            assert!(DOCUMENT.contains(name), "{name}");
        }
        for addr in [names::OPS_ADDR, names::TLS_ADDR] {
            let port = addr.rsplit(':').next().unwrap();
            assert!(DOCUMENT.contains(&format!(":{port}\"")), "{addr}");
        }
    }
}
