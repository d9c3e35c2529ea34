//! The agent, however it is reached: one [`Transport`] that carries requests, one [`Agent`] that speaks its API.
//!
//! ```text
//! commands ──▶ Agent (typed calls, events) ──▶ Transport ─┬─ url         reqwest to --agent-url
//!                                                         └─ in_process  the agent's own router (--embedded, demo)
//! ```

pub(crate) mod api;
pub(crate) mod cluster;
pub(crate) mod embedded;
pub(crate) mod in_process;
pub(crate) mod snapshot;
pub(crate) mod sse;
pub(crate) mod token;
pub(crate) mod url;

use bytes::Bytes;
use futures::future::BoxFuture;
use futures::stream::BoxStream;

use crate::failure::Failure;
pub(crate) use api::Agent;

/// Why no answer came.
#[derive(Debug, thiserror::Error)]
pub(crate) enum TransportError {
    /// The address is none.
    #[error("the agent's address {url:?} is not one: {reason}")]
    Address {
        /// As given.
        url: String,
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
    /// The agent asks for a token, and none could be had.
    #[error("{0}")]
    Token(Box<Failure>),
    /// The answer ended early.
    #[error("the agent's answer broke off: {0}")]
    BrokeOff(String),
}

/// An answer: its status, and its body as it comes.
pub(crate) struct Answer {
    /// The HTTP status.
    pub(crate) status: u16,
    /// Pieces of the body.
    pub(crate) body: BoxStream<'static, Result<Bytes, TransportError>>,
}

/// Carries a request to the agent and the answer back.
pub(crate) trait Transport: std::fmt::Debug + Send + Sync {
    /// Sends. `path` begins with `/`; an answer with any status is no error.
    fn send(
        &self,
        method: http::Method,
        path: String,
        body: Option<Bytes>,
    ) -> BoxFuture<'_, Result<Answer, TransportError>>;
}
