//! A hook outside the cluster that ends a node's machine.
//!
//! It is sent `POST` with `{"node","providerID","rotation","attempt"}`, the rotation's id as `Idempotency-Key`, and a
//! signature: `X-Rotate-Signature: v1=HEX` is HMAC-SHA256 under the shared secret over the value of `X-Rotate-Timestamp`
//! (seconds), a dot, and the body. An answer of 2xx means that the machine will end; that is believed once the Node is gone.

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::BoxError;
use axum::body::Body;
use bytes::Bytes;
use http::{HeaderMap, Method, Request, Response, StatusCode, Uri, header};
use http_body_util::{BodyExt, Full, Limited};
use hyper_rustls::{ConfigBuilderExt, HttpsConnectorBuilder};
use hyper_util::client::legacy::Client;
use hyper_util::rt::TokioExecutor;
use jiff::Timestamp;
use parking_lot::Mutex;
use ring::hmac;
use serde::Serialize;
use tower::util::BoxCloneSyncService;
use tower::{Service, ServiceExt};

/// A shorter secret could be guessed.
const SECRET: usize = 16;
/// As much of an answer as a person reads.
const TOLD: usize = 300;

/// What ends machines. Clones are the same hook.
#[derive(Clone)]
pub struct Hook {
    url: Uri,
    key: Option<hmac::Key>,
    client: Caller,
    /// How often it was asked in vain for each rotation.
    attempts: Arc<Mutex<BTreeMap<String, u32>>>,
}

/// What carries a request there.
type Caller = BoxCloneSyncService<Request<Full<Bytes>>, Response<Body>, BoxError>;

/// Which machine is to end.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
struct Ask<'a> {
    node: &'a str,
    #[serde(rename = "providerID")]
    provider_id: &'a str,
    rotation: &'a str,
    /// How many times it was asked before.
    attempt: u32,
}

/// Why a hook cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HookError {
    /// It is no address.
    #[error("--remover-hook={0} is no address: it must be https://…, or http://… on loopback")]
    Address(String),
    /// What is sent could be read, and changed, on the way.
    #[error("--remover-hook={0} is refused: without TLS only on loopback")]
    Open(String),
    /// The secret could be guessed.
    #[error("--remover-hook-secret-file holds {0} bytes: it takes at least {SECRET}")]
    Short(usize),
    /// No certificates to trust were found.
    #[error("--remover-hook: no certificates to trust were found: {0}")]
    Roots(String),
}

/// Why the machine was not accepted to be ended.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// It may be asked again.
    #[error("the hook {0}")]
    Again(String),
    /// It will not do it.
    #[error("the hook {0}; it is not asked again")]
    Final(String),
}

impl Hook {
    /// A hook at an address, with the secret that signs what it is asked.
    ///
    /// # Errors
    ///
    /// An address or a secret that is not safe to use.
    pub fn new(url: &str, secret: Option<&[u8]>) -> Result<Self, HookError> {
        let uri: Uri = url.parse().map_err(|_| HookError::Address(shown(url)))?;
        match (uri.scheme_str(), uri.host()) {
            (Some("https"), Some(_)) => {}
            (Some("http"), Some(host)) if rotate_shared::host::is_loopback(host) => {}
            (Some("http"), Some(_)) => return Err(HookError::Open(shown(url))),
            _ => return Err(HookError::Address(shown(url))),
        }
        let tls = rustls::ClientConfig::builder_with_provider(rustls::crypto::ring::default_provider().into());
        let tls = tls.with_safe_default_protocol_versions().map_err(|error| HookError::Roots(error.to_string()))?;
        let tls = if uri.scheme_str() == Some("https") {
            tls.with_native_roots().map_err(|error| HookError::Roots(error.to_string()))?
        } else {
            tls.with_root_certificates(rustls::RootCertStore::empty())
        };
        let https = HttpsConnectorBuilder::new().with_tls_config(tls.with_no_client_auth());
        let client = Client::builder(TokioExecutor::new()).build(https.https_or_http().enable_http1().build());
        Self::through(client, uri, secret)
    }

    /// A hook that is reached in another way than over the network.
    ///
    /// # Errors
    ///
    /// A secret that is not safe to use.
    pub fn through<S, B>(service: S, url: Uri, secret: Option<&[u8]>) -> Result<Self, HookError>
    where
        S: Service<Request<Full<Bytes>>, Response = Response<B>> + Clone + Send + Sync + 'static,
        S::Future: Send + 'static,
        S::Error: Into<BoxError>,
        B: axum::body::HttpBody<Data = Bytes> + Send + 'static,
        B::Error: Into<BoxError>,
    {
        let key = secret.map(|secret| match secret.trim_ascii() {
            short if short.len() < SECRET => Err(HookError::Short(short.len())),
            secret => Ok(hmac::Key::new(hmac::HMAC_SHA256, secret)),
        });
        let service = service.map_response(|response: Response<B>| response.map(Body::new)).map_err(Into::into);
        let client = BoxCloneSyncService::new(service);
        Ok(Self { url, key: key.transpose()?, client, attempts: Arc::default() })
    }

    /// Asks once for the end of the machine behind a node. Whoever asks bounds the time.
    ///
    /// # Errors
    ///
    /// Anything but an answer of 2xx.
    pub async fn ask(&self, node: &str, provider_id: &str, rotation: &str, now: Timestamp) -> Result<(), Refusal> {
        let attempt = {
            let mut attempts = self.attempts.lock();
            let attempt = attempts.entry(rotation.to_owned()).or_default();
            *attempt += 1;
            *attempt - 1
        };
        let answer = self.call(&Ask { node, provider_id, rotation, attempt }, now).await;
        if !matches!(answer, Err(Refusal::Again(_))) {
            self.attempts.lock().remove(rotation);
        }
        answer
    }

    async fn call(&self, ask: &Ask<'_>, now: Timestamp) -> Result<(), Refusal> {
        let body = serde_json::to_vec(ask).expect("names are JSON");
        let mut request = Request::builder().method(Method::POST).uri(&self.url);
        request = request.header(header::CONTENT_TYPE, "application/json").header("idempotency-key", ask.rotation);
        if let Some(key) = &self.key {
            let timestamp = now.as_second().to_string();
            let signature = signature(key, &timestamp, &body);
            request = request.header("x-rotate-timestamp", timestamp).header("x-rotate-signature", signature);
        }
        let request = request.body(Full::new(Bytes::from(body))).map_err(|error| Refusal::Final(error.to_string()))?;
        let answer = self.client.clone().oneshot(request).await;
        let answer = answer.map_err(|error| Refusal::Again(format!("cannot be reached: {}", causes(&*error))))?;
        let (parts, body) = answer.into_parts();
        if parts.status.is_success() {
            return Ok(());
        }
        let told = Limited::new(body, 64 << 10).collect().await.map(|body| body.to_bytes()).unwrap_or_default();
        Err(refusal(parts.status, &parts.headers, &String::from_utf8_lossy(&told)))
    }
}

// By its address: configurations are compared, and neither a key nor a client can be.
impl PartialEq for Hook {
    fn eq(&self, other: &Self) -> bool {
        self.url == other.url
    }
}

impl Eq for Hook {}

// Neither the key nor the client tells anything that may be told.
impl std::fmt::Debug for Hook {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Hook").field("host", &self.url.host()).finish_non_exhaustive()
    }
}

fn refusal(status: StatusCode, headers: &HeaderMap, body: &str) -> Refusal {
    let words: String = body.split_whitespace().collect::<Vec<_>>().join(" ").chars().take(TOLD).collect();
    let told = if words.is_empty() { String::new() } else { format!(": {words}") };
    let wait = headers.get(header::RETRY_AFTER).and_then(|value| value.to_str().ok());
    let wait = wait.map_or_else(String::new, |wait| format!(", to be asked again after {wait}"));
    let answered = format!("answered {status}{wait}{told}");
    if status.is_server_error() || status == StatusCode::TOO_MANY_REQUESTS || status == StatusCode::REQUEST_TIMEOUT {
        Refusal::Again(answered)
    } else {
        Refusal::Final(answered)
    }
}

fn signature(key: &hmac::Key, timestamp: &str, body: &[u8]) -> String {
    let mut context = hmac::Context::with_key(key);
    context.update(timestamp.as_bytes());
    context.update(b".");
    context.update(body);
    let hex: String = context.sign().as_ref().iter().map(|byte| format!("{byte:02x}")).collect();
    format!("v1={hex}")
}

/// An address as it may be told: without a user, a password, a path or a query, any of which may be secret.
pub(crate) fn shown(url: &str) -> String {
    let (scheme, rest) = url.split_once("://").map_or(("", url), |(scheme, rest)| (scheme, rest));
    // Whatever stands before the last `@` may be part of a password, a slash too.
    let host = rest.rsplit('@').next().unwrap_or_default();
    let end = host.find(['/', '?', '#']).unwrap_or(host.len());
    let hidden = if end < host.len() || host.len() < rest.len() { "/…" } else { "" };
    let separator = if scheme.is_empty() { "" } else { "://" };
    format!("{scheme}{separator}{}{hidden}", &host[..end])
}

/// An error with what is beneath it.
fn causes(error: &dyn std::error::Error) -> String {
    let mut told = error.to_string();
    let mut next = error.source();
    while let Some(cause) = next {
        let words = cause.to_string();
        if !told.contains(&words) {
            told = format!("{told}: {words}");
        }
        next = cause.source();
    }
    told
}

#[cfg(test)]
mod tests;
