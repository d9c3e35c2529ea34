//! The agent, however it is reached: one [`Transport`] that carries requests, one [`Agent`] that speaks its API.
//!
//! ```text
//! commands ──▶ Agent (typed calls, events) ──▶ Transport ─┬─ forward     HTTP over a port-forward to one of its Pods
//!                                                         ├─ url         reqwest to --agent-url
//!                                                         └─ in_process  the agent's own router (--embedded, demo)
//! ```
//!
//! The first two show the agent a [`token`] that the API server gives out for it.

pub(crate) mod api;
pub(crate) mod api_server;
pub(crate) mod cluster;
mod connected;
pub(crate) mod embedded;
pub(crate) mod forward;
pub(crate) mod in_process;
pub(crate) mod objects;
mod proxy;
pub(crate) mod snapshot;
pub(crate) mod sse;
pub(crate) mod token;
pub(crate) mod trace;
pub(crate) mod url;

use std::time::Duration;

use bytes::Bytes;
use futures::future::BoxFuture;
use futures::stream::BoxStream;
use http::{HeaderMap, Method};
use rotate_shared::names;

use crate::failure::Failure;
pub(crate) use api::Agent;
pub(crate) use connected::Connected;

/// From one piece of an answer to the next.
const SILENCE: Duration = Duration::from_secs(60);
/// From one event to the next, with a sign of life every 15 s: two of them were lost. Not every kubelet ends a forward when
/// its Pod has gone.
const EVENT_SILENCE: Duration = Duration::from_secs(40);
/// For the beginning of an answer that is in the agent's memory already.
const READ: Duration = Duration::from_secs(15);
/// For one that it must think about: a plan for a large cluster, or records to write.
const THOUGHT: Duration = Duration::from_secs(60);

/// Why no answer came.
#[derive(Debug, thiserror::Error)]
pub(crate) enum TransportError {
    /// The address is none.
    #[error("the agent's address {url:?} is {reason}")]
    Address {
        /// As given.
        url: String,
        /// What it is instead.
        reason: String,
    },
    /// What the agent's certificate is to be checked with cannot be used.
    #[error("--agent-ca={}: {reason}", .file.display())]
    Authority {
        /// As given.
        file: std::path::PathBuf,
        /// Why not.
        reason: String,
    },
    /// Nobody answered.
    #[error("no agent answered at {at}: {reason}")]
    Unreachable {
        /// Where.
        at: String,
        /// Why.
        reason: String,
    },
    /// The API server, which leads to the agent and gives out its tokens, refused or cannot be asked.
    #[error("{0}")]
    Cluster(Box<Failure>),
    /// The answer ended early.
    #[error("the agent's answer broke off: {0}")]
    BrokeOff(String),
}

impl From<TransportError> for Failure {
    fn from(error: TransportError) -> Self {
        match error {
            TransportError::Cluster(failure) => *failure,
            error => Self::AgentUnreachable(error.to_string()),
        }
    }
}

/// What the agent is asked.
#[derive(Clone, Debug)]
pub(crate) struct Ask {
    /// The HTTP method.
    pub(crate) method: Method,
    /// Path and query; begins with `/`.
    pub(crate) path: String,
    /// JSON.
    pub(crate) body: Option<Bytes>,
    /// The id of the last event that was seen, where events are asked for again.
    pub(crate) last_event: Option<String>,
    /// By which the agent knows it again where it is sent anew: it does nothing twice.
    pub(crate) key: Option<String>,
}

/// An answer: its status, and its body as it comes.
pub(crate) struct Answer {
    /// The HTTP status.
    pub(crate) status: u16,
    /// The version that the agent says it is of.
    pub(crate) version: Option<String>,
    /// How long to wait before the same is asked again.
    pub(crate) retry_after: Option<Duration>,
    /// Pieces of the body.
    pub(crate) body: BoxStream<'static, Result<Bytes, TransportError>>,
}

/// Carries a request to the agent and the answer back.
pub(crate) trait Transport: std::fmt::Debug + Send + Sync {
    /// Sends. An answer with any status is no error.
    fn send(&self, ask: Ask) -> BoxFuture<'_, Result<Answer, TransportError>>;

    /// What it means that nothing came of a request within so many seconds.
    fn late(&self, seconds: f64) -> Failure {
        Failure::AgentUnreachable(format!("the agent did not answer within {seconds} s"))
    }
}

// === impl Ask ===

impl Ask {
    /// A request without a body.
    pub(crate) fn new(method: Method, path: impl Into<String>) -> Self {
        Self { method, path: path.into(), body: None, last_event: None, key: None }
    }

    /// Whether anything is changed by it, so that a transport must not send it twice.
    fn changes(&self) -> bool {
        self.method != Method::GET && self.path != "/v1/plans"
    }

    /// Whether the agent answers it to everybody.
    fn is_open(&self) -> bool {
        ["/version", "/livez"].contains(&self.path.as_str())
    }

    /// How long the beginning of the answer may take.
    fn patience(&self) -> Duration {
        if self.method == Method::GET { READ } else { THOUGHT }
    }

    /// How long the answer may be silent once it has begun.
    fn silence(&self) -> Duration {
        if self.path.ends_with("/events") { EVENT_SILENCE } else { SILENCE }
    }

    /// Its headers but for the token.
    fn headers(&self) -> HeaderMap {
        let mut headers = HeaderMap::new();
        if self.body.is_some() {
            headers.insert(http::header::CONTENT_TYPE, http::HeaderValue::from_static("application/json"));
        }
        // What cannot be a header was not an id: without it the present state comes, which is never wrong.
        if let Some(Ok(last)) = self.last_event.as_deref().map(http::HeaderValue::from_str) {
            headers.insert("last-event-id", last);
        }
        if let Some(Ok(key)) = self.key.as_deref().map(http::HeaderValue::from_str) {
            headers.insert("idempotency-key", key);
        }
        headers
    }
}

/// The version in the headers of an answer.
fn version(headers: &HeaderMap) -> Option<String> {
    headers.get(names::VERSION_HEADER)?.to_str().ok().map(str::to_owned)
}

/// What an answer asks to wait: a number of seconds. The other form, a date, is the clock of somebody else.
fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    let seconds = headers.get(http::header::RETRY_AFTER)?.to_str().ok()?.trim().parse().ok()?;
    Some(Duration::from_secs(seconds))
}
