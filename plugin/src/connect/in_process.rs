//! The agent in this process: its router called without a port or a token.

use axum::Router;
use axum::body::Body;
use bytes::Bytes;
use futures::future::BoxFuture;
use futures::{FutureExt, StreamExt, TryStreamExt};
use tower::ServiceExt;

use super::{Answer, Transport, TransportError};

/// The agent's control router.
#[derive(Clone, Debug)]
pub(crate) struct InProcess {
    router: Router,
}

impl InProcess {
    /// Calls this router.
    pub(crate) fn new(router: Router) -> Self {
        Self { router }
    }
}

impl Transport for InProcess {
    fn send(
        &self,
        method: http::Method,
        path: String,
        body: Option<Bytes>,
    ) -> BoxFuture<'_, Result<Answer, TransportError>> {
        async move {
            let broken = |reason: String| TransportError::Unreachable { at: "this process".to_owned(), reason };
            let mut request = http::Request::builder().method(method).uri(path);
            if body.is_some() {
                request = request.header(http::header::CONTENT_TYPE, "application/json");
            }
            let body = body.map_or_else(Body::empty, Body::from);
            let request = request.body(body).map_err(|error| broken(error.to_string()))?;
            let Ok(response) = self.router.clone().oneshot(request).await;
            let status = response.status().as_u16();
            let body = response
                .into_body()
                .into_data_stream()
                .map_err(|error| TransportError::BrokeOff(error.to_string()))
                .boxed();
            Ok(Answer { status, body })
        }
        .boxed()
    }
}
