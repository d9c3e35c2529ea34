//! Answers to an agent that asks who somebody is: whoever the token says, who may everything.

use axum::body::{Body, to_bytes};
use axum::response::Response;
use http::{Method, Request, StatusCode};
use serde_json::{Value, json};

use super::respond;
use crate::wire::Encoding;

/// The largest body that is taken.
const LARGEST: usize = 1 << 20;

/// What is asked.
#[derive(Clone, Copy, Debug)]
pub(super) enum Review {
    Token,
    Access,
}

impl Review {
    pub(super) fn of(request: &Request<Body>) -> Option<Self> {
        match (request.method(), request.uri().path()) {
            (&Method::POST, "/apis/authentication.k8s.io/v1/tokenreviews") => Some(Self::Token),
            (&Method::POST, "/apis/authorization.k8s.io/v1/subjectaccessreviews") => Some(Self::Access),
            _ => None,
        }
    }

    pub(super) async fn answer(self, request: Request<Body>) -> Response {
        let body = to_bytes(request.into_body(), LARGEST).await.unwrap_or_default();
        let mut review: Value = serde_json::from_slice(&body).unwrap_or_default();
        review["status"] = match self {
            Self::Token => json!({
                "authenticated": true,
                "audiences": review["spec"]["audiences"],
                "user": { "username": "system:serviceaccount:kubectl-rotate:rotate-viewer" },
            }),
            Self::Access => json!({ "allowed": true }),
        };
        respond(StatusCode::CREATED, Encoding::Json.content_type(), review.to_string().into())
    }
}
