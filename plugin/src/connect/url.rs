//! The agent behind an address: `--agent-url`.

use std::path::Path;
use std::time::Duration;

use futures::future::BoxFuture;
use futures::{FutureExt, StreamExt, TryStreamExt};
use rotate_shared::causes::innermost;
use rotate_shared::host;

use super::token::Source;
use super::{Answer, Ask, SILENCE, Transport, TransportError};
use crate::secret::without_credentials;

/// Long enough for a busy agent behind a slow port-forward; an agent that is not there says so at once.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// What to do about a certificate that does not match.
const STRANGER: &str = ". Nothing was sent. If it is the agent's certificate, give the file of the authority that signed it \
                        with --agent-ca";

/// How rustls says that what answered is no TLS.
const PLAIN: &str = "InvalidContentType";

/// Requests by reqwest.
#[derive(Debug)]
pub(crate) struct Url {
    client: reqwest::Client,
    base: reqwest::Url,
    /// Where a token comes from once the agent asks for one.
    source: Option<Source>,
    /// What to do where nobody answers.
    hint: String,
}

impl Url {
    /// Prepares; asks nobody yet.
    ///
    /// # Errors
    ///
    /// The address is none, or not of HTTP.
    pub(crate) fn new(url: &str, source: Option<Source>, hint: String) -> Result<Self, TransportError> {
        let said = |reason: String| TransportError::Address { url: without_credentials(url).into_owned(), reason };
        let address = |reason: String| said(format!("not one: {reason}"));
        let form = || "it begins with http:// or https:// and names a host".to_owned();
        let base = reqwest::Url::parse(url).map_err(|error| match url.contains("://") {
            true => address(error.to_string()),
            false => address(form()),
        })?;
        if !matches!(base.scheme(), "http" | "https") || base.host_str().is_none() {
            return Err(address(form()));
        }
        if base.query().is_some() || base.fragment().is_some() {
            return Err(address("what is asked for is put behind it: it must have no ? and no #".to_owned()));
        }
        // It would be repeated in every hint and message.
        if !base.username().is_empty() || base.password().is_some() {
            return Err(address("it must not hold a user or a password".to_owned()));
        }
        if source.is_some() && base.scheme() == "http" && !host::is_loopback(base.host_str().unwrap_or_default()) {
            return Err(said(
                "refused: a token would go there in clear: begin it with https:// (--agent-ca names the authority of the agent's \
                 certificate), or leave --agent-url out and the agent is reached through the API server"
                    .to_owned(),
            ));
        }
        // Reading all that the system trusts takes longer than the request.
        let none = (base.scheme() == "http").then(Vec::new);
        let client = client(&base, none).map_err(|error| address(innermost(&error)))?;
        // A port of another machine is not a forwarded one.
        let hint = if host::is_loopback(base.host_str().unwrap_or_default()) { hint } else { String::new() };
        Ok(Self { client, base, source, hint })
    }

    /// Knows the agent by what these authorities have signed, and by nothing else.
    ///
    /// # Errors
    ///
    /// The file holds no certificates, or the address has no use for them.
    pub(crate) fn trusting(mut self, file: &Path) -> Result<Self, TransportError> {
        let unusable = |reason: String| TransportError::Authority { file: file.to_owned(), reason };
        if self.base.scheme() != "https" {
            return Err(unusable("certificates go with an address that begins with https://".to_owned()));
        }
        let pem = std::fs::read(file).map_err(|error| unusable(error.to_string()))?;
        let authorities = reqwest::Certificate::from_pem_bundle(&pem).map_err(|error| unusable(innermost(&error)))?;
        if authorities.is_empty() {
            return Err(unusable("it holds no certificate in PEM form".to_owned()));
        }
        self.client = client(&self.base, Some(authorities)).map_err(|error| unusable(innermost(&error)))?;
        Ok(self)
    }

    fn no_tls(&self) -> String {
        match host::is_loopback(self.base.host_str().unwrap_or_default()) {
            true => "what listens there speaks no TLS: begin the address with http://".to_owned(),
            false => {
                "what listens there speaks no TLS: the agent does on a port of its own, 8443 unless told otherwise"
                    .to_owned()
            }
        }
    }

    async fn once(&self, ask: Ask, token: Option<&str>) -> Result<reqwest::Response, TransportError> {
        let at = self.base.as_str().trim_end_matches('/');
        let unreachable = |reason: String| TransportError::Unreachable { at: at.to_owned(), reason };
        let url = reqwest::Url::parse(&format!("{at}{}", ask.path)).map_err(|error| unreachable(error.to_string()))?;
        let (headers, patience) = (ask.headers(), ask.patience());
        let mut request = self.client.request(ask.method, url).headers(headers);
        if let Some(token) = token {
            request = request.bearer_auth(token);
        }
        if let Some(body) = ask.body {
            request = request.body(body);
        }
        let sent = tokio::time::timeout(patience, request.send()).await;
        let sent = sent.map_err(|_| unreachable(format!("it says nothing for {} s", patience.as_secs())))?;
        sent.map_err(|error| {
            let cause = innermost(&error);
            if self.base.scheme() == "https" && cause.contains(PLAIN) {
                return unreachable(self.no_tls());
            }
            let hint = match error.is_connect() {
                true if cause.contains("invalid peer certificate") => STRANGER,
                true => self.hint.as_str(),
                false => "",
            };
            unreachable(format!("{cause}{hint}"))
        })
    }
}

/// Trusts the system's authorities unless others are given.
fn client(base: &reqwest::Url, authorities: Option<Vec<reqwest::Certificate>>) -> reqwest::Result<reqwest::Client> {
    let mut client = reqwest::Client::builder()
        .connect_timeout(CONNECT_TIMEOUT)
        .read_timeout(SILENCE)
        // The agent sends nobody elsewhere: a login page in front of it does.
        .redirect(reqwest::redirect::Policy::none());
    if host::is_loopback(base.host_str().unwrap_or_default()) {
        // No proxy of the environment finds this machine, and it would be shown tokens.
        client = client.no_proxy();
    }
    match authorities {
        Some(authorities) => client.tls_certs_only(authorities).build(),
        None => client.build(),
    }
}

impl Transport for Url {
    fn send(&self, ask: Ask) -> BoxFuture<'_, Result<Answer, TransportError>> {
        async move {
            let source = self.source.as_ref().filter(|_| !ask.is_open());
            // Before the agent has asked for a token it is shown none: one for development asks for none.
            let held = match source {
                Some(source) => source.held().await,
                None => None,
            };
            let mut response = self.once(ask.clone(), held.as_deref()).await?;
            // A token that has ended is answered like none.
            if let (reqwest::StatusCode::UNAUTHORIZED, Some(source)) = (response.status(), source) {
                let token = source.instead_of(held.as_deref()).await?;
                response = self.once(ask, Some(&token)).await?;
            }
            let status = response.status().as_u16();
            let (version, retry_after) = (super::version(response.headers()), super::retry_after(response.headers()));
            let body = response.bytes_stream().map_err(|error| TransportError::BrokeOff(innermost(&error))).boxed();
            Ok(Answer { status, version, retry_after, body })
        }
        .boxed()
    }
}

#[cfg(test)]
mod tests;
