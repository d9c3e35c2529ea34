//! The agent behind an address: `--agent-url`.

use std::error::Error;
use std::time::Duration;

use bytes::Bytes;
use futures::future::BoxFuture;
use futures::{FutureExt, StreamExt, TryStreamExt};
use tokio::sync::Mutex;

use super::token::Source;
use super::{Answer, Transport, TransportError};

/// Long enough for a busy agent behind a slow port-forward; an agent that is not there says so at once.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// Requests by reqwest.
#[derive(Debug)]
pub(crate) struct Url {
    client: reqwest::Client,
    base: reqwest::Url,
    token: Mutex<Option<String>>,
    /// Where a token comes from once the agent asks for one.
    source: Option<Source>,
}

impl Url {
    /// Prepares; asks nobody yet.
    ///
    /// # Errors
    ///
    /// The address is none, or not of HTTP.
    pub(crate) fn new(url: &str, token: Option<String>, source: Option<Source>) -> Result<Self, TransportError> {
        let address = |reason: String| TransportError::Address { url: url.to_owned(), reason };
        let base = reqwest::Url::parse(url).map_err(|error| address(error.to_string()))?;
        if !matches!(base.scheme(), "http" | "https") || base.host_str().is_none() {
            return Err(address("it begins with http:// or https:// and names a host".to_owned()));
        }
        let client = reqwest::Client::builder()
            .connect_timeout(CONNECT_TIMEOUT)
            .build()
            .map_err(|error| address(innermost(&error)))?;
        Ok(Self { client, base, token: Mutex::new(token), source })
    }

    async fn once(
        &self,
        method: http::Method,
        path: &str,
        body: Option<Bytes>,
    ) -> Result<reqwest::Response, TransportError> {
        let at = self.base.as_str().trim_end_matches('/').to_owned();
        let unreachable = |reason: String| TransportError::Unreachable { at: at.clone(), reason };
        let url = reqwest::Url::parse(&format!("{at}{path}")).map_err(|error| unreachable(error.to_string()))?;
        let mut request = self.client.request(method, url);
        if let Some(token) = &*self.token.lock().await {
            request = request.bearer_auth(token);
        }
        if let Some(body) = body {
            request = request.header(http::header::CONTENT_TYPE, "application/json").body(body);
        }
        request.send().await.map_err(|error| unreachable(innermost(&error)))
    }
}

impl Transport for Url {
    fn send(
        &self,
        method: http::Method,
        path: String,
        body: Option<Bytes>,
    ) -> BoxFuture<'_, Result<Answer, TransportError>> {
        async move {
            let mut response = self.once(method.clone(), &path, body.clone()).await?;
            // A token that has ended is answered like none.
            if let (reqwest::StatusCode::UNAUTHORIZED, Some(source)) = (response.status(), &self.source) {
                let token = source.token().await.map_err(|failure| TransportError::Token(Box::new(failure)))?;
                *self.token.lock().await = Some(token);
                response = self.once(method, &path, body).await?;
            }
            let status = response.status().as_u16();
            let body = response.bytes_stream().map_err(|error| TransportError::BrokeOff(innermost(&error))).boxed();
            Ok(Answer { status, body })
        }
        .boxed()
    }
}

/// What really happened: reqwest's own texts repeat the address and hide the cause.
fn innermost(error: &dyn Error) -> String {
    let mut cause = error;
    while let Some(source) = cause.source() {
        cause = source;
    }
    cause.to_string()
}
