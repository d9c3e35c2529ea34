//! The agent behind an address: `--agent-url`.

use std::error::Error;
use std::time::Duration;

use bytes::Bytes;
use futures::future::BoxFuture;
use futures::{FutureExt, StreamExt, TryStreamExt};
use tokio::sync::Mutex;

use super::api::VERSION_PATH;
use super::token::Source;
use super::{Answer, Transport, TransportError};

/// Long enough for a busy agent behind a slow port-forward; an agent that is not there says so at once.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// For an answer that the agent need not think about, and with which every command begins: a port that takes connections
/// and never answers is found out by it.
const FIRST_ANSWER_TIMEOUT: Duration = Duration::from_secs(10);
/// From one piece of an answer to the next. An agent that plans for a large cluster is quiet for seconds; events come with
/// a sign of life every 15 s.
const SILENCE_TIMEOUT: Duration = Duration::from_secs(60);

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
        // It would be repeated in every hint and message.
        if !base.username().is_empty() || base.password().is_some() {
            let url = format!("{}://…@{}", base.scheme(), base.host_str().unwrap_or_default());
            return Err(TransportError::Address { url, reason: "it must not hold a user or a password".to_owned() });
        }
        let client = reqwest::Client::builder()
            .connect_timeout(CONNECT_TIMEOUT)
            .read_timeout(SILENCE_TIMEOUT)
            // The agent sends nobody elsewhere: a login page in front of it does.
            .redirect(reqwest::redirect::Policy::none())
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
        if path == VERSION_PATH {
            request = request.timeout(FIRST_ANSWER_TIMEOUT);
        }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn an_agent_that_takes_the_connection_and_says_nothing_is_given_up() {
        let _ = rustls::crypto::ring::default_provider().install_default();
        // The system takes the connection; nobody accepts it.
        let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a free port");
        let url = format!("http://{}", listener.local_addr().expect("it is bound"));
        let url = Url::new(&url, None, None).expect("an address");
        for path in ["/version", "/v1/nodes"] {
            let Err(error) = url.send(http::Method::GET, path.to_owned(), None).await else { panic!("an answer") };
            assert!(error.to_string().ends_with("timed out"), "{error}");
        }
    }

    #[test]
    fn a_password_in_the_address_is_refused_and_not_repeated() {
        let made = Url::new("http://someone:secret@127.0.0.1:8470", None, None);
        let Err(refused) = made else { panic!("a refusal") };
        let message = refused.to_string();
        assert!(
            message.contains("password") && !message.contains("secret") && !message.contains("someone"),
            "{message}"
        );
    }
}
