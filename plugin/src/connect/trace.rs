//! What `-v` shows: from 6 each request and its status, from 8 the beginning of each body. Headers are never shown, and
//! tokens in bodies are masked.

use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use futures::FutureExt;
use futures::future::BoxFuture;
use http::{Request, Response};
use http_body::{Body, Frame, SizeHint};
use jiff::SignedDuration;
use rotate_agent::clock::Clock;
use tower::Service;

use super::Ask;

/// How much of a body is shown, as kubectl shows at that level.
const SHOWN: usize = 1024;
/// Shorter runs of characters are no tokens.
const SHORTEST_TOKEN: usize = 20;

/// The agent is asked.
pub(super) fn asking(ask: &Ask) {
    tracing::debug!("{} agent {}", ask.method, ask.path);
    if let Some(body) = &ask.body {
        tracing::trace!("request body: {}", shown(body));
    }
}

/// The agent has answered.
pub(super) fn answered(path: &str, status: u16, took: SignedDuration, body: &[u8]) {
    tracing::debug!("agent {path}: {status} in {} ms", took.as_millis());
    tracing::trace!("response body: {}", shown(body));
}

/// Tells of each request to the API server.
#[derive(Debug)]
pub(super) struct Traced<S> {
    inner: S,
    server: String,
    clock: Clock,
}

impl<S> Traced<S> {
    /// Around this service, which leads to the server at this address.
    pub(super) fn new(inner: S, server: &str) -> Self {
        Self { inner, server: server.trim_end_matches('/').to_owned(), clock: Clock::system() }
    }
}

impl<S, B> Service<Request<kube::client::Body>> for Traced<S>
where
    S: Service<Request<kube::client::Body>, Response = Response<B>>,
    S::Future: Send + 'static,
    S::Error: Send + 'static,
    B: Send + 'static,
{
    type Response = Response<TracedBody<B>>;
    type Error = S::Error;
    type Future = BoxFuture<'static, Result<Self::Response, Self::Error>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, request: Request<kube::client::Body>) -> Self::Future {
        let (clock, asked) = (self.clock, self.clock.now());
        let path = request.uri().path_and_query().map_or("/", |path| path.as_str()).trim_end_matches('?');
        let what = format!("{} {}{path}", request.method(), self.server);
        let answer = self.inner.call(told(request));
        async move {
            let response = answer.await;
            let took = clock.now().duration_since(asked).as_millis();
            match &response {
                Ok(response) => tracing::debug!("{what}: {} in {took} ms", response.status()),
                Err(_) => tracing::debug!("{what}: no answer after {took} ms"),
            }
            Ok(response?.map(|inner| TracedBody { inner, begun: false }))
        }
        .boxed()
    }
}

/// Tells of the body of a request. Ours are all in memory, and so there at once.
fn told(request: Request<kube::client::Body>) -> Request<kube::client::Body> {
    if !tracing::enabled!(tracing::Level::TRACE) {
        return request;
    }
    let (head, body) = request.into_parts();
    let body = match body.collect_bytes().now_or_never() {
        Some(Ok(body)) => body,
        Some(Err(_)) | None => Bytes::new(),
    };
    if !body.is_empty() {
        tracing::trace!("request body: {}", shown(&body));
    }
    Request::from_parts(head, kube::client::Body::from(body))
}

/// Tells of its own beginning.
#[derive(Debug)]
pub(super) struct TracedBody<B> {
    inner: B,
    begun: bool,
}

impl<B: Body<Data = Bytes> + Unpin> Body for TracedBody<B> {
    type Data = Bytes;
    type Error = B::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        let polled = Pin::new(&mut self.inner).poll_frame(context);
        if let Poll::Ready(Some(Ok(frame))) = &polled
            && let Some(data) = frame.data_ref()
            && !std::mem::replace(&mut self.begun, true)
        {
            tracing::trace!("response body: {}", shown(data));
        }
        polled
    }

    fn is_end_stream(&self) -> bool {
        self.inner.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.inner.size_hint()
    }
}

/// The beginning of a body, without secrets.
fn shown(body: &[u8]) -> String {
    let text = masked(&String::from_utf8_lossy(body));
    match text.char_indices().nth(SHOWN) {
        None => text,
        Some((end, _)) => format!("{} [truncated]", &text[..end]),
    }
}

/// Web tokens, wherever they are, and whatever a field `token` holds.
fn masked(text: &str) -> String {
    let mut masked = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = [rest.find("eyJ"), rest.find("\"token\":\"").map(|at| at + 9)].into_iter().flatten().min() {
        let (before, from) = rest.split_at(at);
        let in_field = before.ends_with("\"token\":\"");
        let run = from.find(|c: char| !(c.is_ascii_alphanumeric() || "-_.".contains(c))).unwrap_or(from.len());
        let end = if in_field { from.find('"').unwrap_or(from.len()) } else { run };
        masked.push_str(before);
        masked.push_str(if in_field || end >= SHORTEST_TOKEN { "<masked>" } else { &from[..end] });
        rest = &from[end..];
    }
    masked + rest
}

#[cfg(test)]
mod tests {
    use super::*;

    const TOKEN: &str = "eyJhbGciOiJSUzI1NiIsImtpZCI6IjEifQ.eyJzdWIiOiJ4In0.c2lnbmF0dXJl";

    #[test]
    fn tokens_are_masked_and_nothing_else_is() {
        let text = format!(r#"{{"status":{{"token":"{TOKEN}","expirationTimestamp":"2030"}},"note":"eyJ is short"}}"#);
        let masked = masked(&text);
        assert!(!masked.contains("c2lnbmF0dXJl"), "{masked}");
        assert_eq!(masked, r#"{"status":{"token":"<masked>","expirationTimestamp":"2030"},"note":"eyJ is short"}"#);
        assert_eq!(super::masked(r#"{"token":"opaque secret"}"#), r#"{"token":"<masked>"}"#);
        assert_eq!(super::masked(&format!("Bearer {TOKEN}!")), "Bearer <masked>!");
        assert_eq!(super::masked(r#"{"token":"cut of"#), r#"{"token":"<masked>"#);
        assert_eq!(super::masked("plain"), "plain");
    }

    #[test]
    fn a_long_body_is_cut_between_characters() {
        let shown = shown("é".repeat(3000).as_bytes());
        assert_eq!(shown, format!("{} [truncated]", "é".repeat(SHOWN)));
    }
}
