//! Errors as answers: whatever goes wrong leaves as a problem document of RFC 9457.

use std::any::Any;
use std::panic::AssertUnwindSafe;

use axum::Json;
use axum::response::{IntoResponse, Response};
use futures::FutureExt;
use http::{HeaderName, HeaderValue, Method, StatusCode, Uri, header};
use rotate_shared::plan::Notice;
use rotate_shared::{Code, Problem};

use crate::rotation::store::StoreError;

pub(crate) const MEDIA_TYPE: &str = "application/problem+json";
/// Details quote what was asked for, which may be a megabyte.
const DETAIL_BYTES: usize = 8 << 10;

/// The one error type of the handlers.
#[derive(Clone, Debug)]
pub(crate) struct Refusal {
    // Boxed: it travels in every handler's `Result`.
    problem: Box<Problem>,
    headers: Vec<(HeaderName, HeaderValue)>,
}

impl Refusal {
    pub(crate) fn new(code: Code, detail: impl Into<String>) -> Self {
        Self { problem: Box::new(Problem::new(code, clipped(detail.into()))), headers: Vec::new() }
    }

    /// As kubectl says it, so that the plugin can print it as it is.
    pub(crate) fn not_found(resource: &str, name: &str) -> Self {
        Self::new(Code::NotFound, format!("{resource} {name:?} not found"))
    }

    pub(crate) fn upstream(doing: &str, source: &dyn std::error::Error) -> Self {
        Self::new(Code::UpstreamFailed, format!("failed to {doing}: {source}"))
    }

    pub(crate) fn code(&self) -> Code {
        self.problem.code
    }

    #[cfg(test)]
    pub(crate) fn status_code(&self) -> u16 {
        self.problem.status
    }

    /// A status more precise than the code's own.
    pub(crate) fn status(mut self, status: StatusCode) -> Self {
        self.problem.status = status.as_u16();
        self
    }

    pub(crate) fn header(mut self, name: HeaderName, value: HeaderValue) -> Self {
        self.headers.push((name, value));
        self
    }

    pub(crate) fn rotation(mut self, id: impl Into<String>) -> Self {
        self.problem.rotation = Some(id.into());
        self
    }

    /// Of a request that was made before, and begun for so many of its nodes.
    pub(crate) fn having_begun(mut self, nodes: usize) -> Self {
        if nodes > 0 {
            self.problem
                .detail
                .push_str(&format!("; {nodes} of its nodes were begun when it was made before, and go on"));
        }
        self
    }

    pub(crate) fn blockers(mut self, blockers: Vec<Notice>) -> Self {
        self.problem.blockers = blockers;
        self
    }
}

impl From<StoreError> for Refusal {
    fn from(error: StoreError) -> Self {
        match &error {
            StoreError::AlreadyRotating(id) => {
                let detail =
                    format!("the node is being rotated already; follow it with: kubectl rotate status {id} -w");
                Self::new(Code::AlreadyRotating, detail).rotation(id)
            }
            StoreError::NotFound(id) => Self::not_found("rotations", id),
            StoreError::Finished { id, node, how } => {
                Self::new(Code::WrongPhase, format!("rotation {id:?} of node {node} is over: {how}")).rotation(id)
            }
            StoreError::Conflict(_) | StoreError::TimedOut { .. } | StoreError::Api { .. } => {
                Self::new(Code::UpstreamFailed, format!("failed to {error}"))
            }
            StoreError::Malformed { .. } => Self::new(Code::Internal, format!("failed to {error}")),
        }
    }
}

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        let status = StatusCode::from_u16(self.problem.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        let mut response = (status, Json(self.problem)).into_response();
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(MEDIA_TYPE));
        headers.extend(self.headers);
        response
    }
}

fn clipped(mut detail: String) -> String {
    if detail.len() > DETAIL_BYTES {
        let end = (0..=DETAIL_BYTES).rev().find(|at| detail.is_char_boundary(*at)).unwrap_or_default();
        detail.truncate(end);
        detail.push('…');
    }
    detail
}

/// Answers paths that lead nowhere.
pub(crate) async fn no_route(uri: Uri) -> Refusal {
    Refusal::new(Code::NotFound, format!("path {:?} not found", uri.path()))
}

/// Answers methods that a path does not have.
pub(crate) async fn no_method(method: Method, uri: Uri) -> Refusal {
    Refusal::new(Code::BadRequest, format!("{method} is not possible on {:?}", uri.path()))
        .status(StatusCode::METHOD_NOT_ALLOWED)
}

/// Goes around all that answers: a panic ends one request and not the agent, and no error leaves in another form. No layer
/// of its own: each layer of a router copies for each request all that it is around.
pub(crate) async fn contain(answer: impl Future<Output = Response>) -> Response {
    let response = match AssertUnwindSafe(answer).catch_unwind().await {
        Ok(response) => response,
        Err(panic) => {
            tracing::error!(panic = said(&*panic), "a request handler panicked");
            Refusal::new(Code::Internal, "the request handler panicked; the agent's log has the details")
                .into_response()
        }
    };
    let failed = response.status().is_client_error() || response.status().is_server_error();
    let kind = response.headers().get(header::CONTENT_TYPE);
    if !failed || kind.is_some_and(|kind| kind == MEDIA_TYPE) {
        return response;
    }
    let code = if response.status().is_server_error() { Code::Internal } else { Code::BadRequest };
    let detail = response.status().canonical_reason().unwrap_or("refused").to_lowercase();
    Refusal::new(code, detail).status(response.status()).into_response()
}

fn said(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<&str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("of an unknown kind")
}
