//! Production API clients.

use std::time::Duration;

use kube::{Client, Config};

/// How long a request may take to reach the API server.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// A client for everything that decides by itself what to try again.
///
/// kube's own retries are off: they ask up to fifteen times after a 429, so that an eviction that a disruption budget
/// refuses would hide for minutes and load the API server meanwhile. How long an answer may take is up to each caller: a
/// watch may be silent for minutes.
///
/// # Errors
///
/// The configuration's certificates or credentials cannot be used.
pub fn production(config: Config) -> kube::Result<Client> {
    Client::try_from(prudent(config))
}

/// The configuration of such a client.
#[must_use]
pub fn prudent(mut config: Config) -> Config {
    config.default_retry = false;
    config.connect_timeout = Some(CONNECT_TIMEOUT);
    config
}

/// What an API error says to people.
pub(crate) fn said(error: &kube::Error) -> String {
    match error {
        kube::Error::Api(status) if !status.message.is_empty() => status.message.clone(),
        kube::Error::Api(status) => format!("{} {}", status.code, status.reason),
        other => other.to_string(),
    }
}
