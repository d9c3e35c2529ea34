//! The agent in this process: its router called without a port or a token.

use axum::Router;
use axum::body::Body;
use futures::future::BoxFuture;
use futures::{FutureExt, StreamExt, TryStreamExt};
use tower::ServiceExt;

use super::{Answer, Ask, Transport, TransportError};

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
    fn send(&self, ask: Ask) -> BoxFuture<'_, Result<Answer, TransportError>> {
        async move {
            let headers = ask.headers();
            let body = ask.body.map_or_else(Body::empty, Body::from);
            let request = http::Request::builder().method(ask.method).uri(ask.path).body(body);
            let mut request = request.map_err(|error| TransportError::Unreachable {
                at: "this process".to_owned(),
                reason: error.to_string(),
            })?;
            *request.headers_mut() = headers;
            let Ok(response) = self.router.clone().oneshot(request).await;
            let (head, body) = response.into_parts();
            let body = body.into_data_stream().map_err(|error| TransportError::BrokeOff(error.to_string())).boxed();
            let (version, retry_after) = (super::version(&head.headers), super::retry_after(&head.headers));
            Ok(Answer { status: head.status.as_u16(), version, retry_after, body })
        }
        .boxed()
    }
}
