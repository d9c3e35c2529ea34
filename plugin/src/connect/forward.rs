//! The agent behind the API server: HTTP over a port-forward to one of its Pods, inside this process.
//!
//! ```text
//!  LIST its Pods ──▶ ready ones ──▶ port-forward to the first that takes it ──▶ HTTP/1.1 on that stream
//!                        ▲                    │ none left                 │ idle: kept for the next request
//!                        └──── LIST again ◀───┘◀────── broken ────────────┘
//! ```
//!
//! No local port is bound, and each connection is a forward of its own. Which agent leads does not matter: all of them
//! answer, and all write the same records.

mod pods;

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use futures::future::BoxFuture;
use futures::stream::BoxStream;
use futures::{FutureExt, StreamExt};
use http::{HeaderValue, Request, StatusCode, header};
use http_body_util::{BodyExt, BodyStream, Full, Limited};
use hyper::body::Incoming;
use hyper::client::conn::http1::{self, SendRequest};
use hyper_util::rt::TokioIo;
use tokio::time::timeout;

use super::api_server::ApiServer;
use super::token::Source;
use super::{Answer, Ask, READ, Transport, TransportError};
use crate::failure::Failure;
use pods::{KubePods, Line, Pods};

/// For a forward to be set up: the API server asks a kubelet, which asks a container runtime.
const FORWARD: Duration = Duration::from_secs(15);
/// For what the kubelet says of a forward that has broken.
const LAST_WORDS: Duration = Duration::from_millis(500);
/// An agent says no more than that it lives.
const SIGN_OF_LIFE: usize = 64 << 10;
/// How often a request that was not answered is sent anew: each of two agents may go away meanwhile, and one come.
const TRIES: usize = 4;
/// Whom the agent is told that it is: what it listens as.
const HOST: HeaderValue = HeaderValue::from_static("localhost");

/// Requests over port-forwards.
pub(crate) struct Forward {
    shared: Arc<Shared>,
    source: Source,
}

struct Shared {
    pods: Box<dyn Pods>,
    namespace: String,
    /// Where the API server is, as it may be repeated.
    server: String,
    /// Whether a forward was ever set up.
    reached: AtomicBool,
    /// Ready Pods that have not failed since they were listed.
    known: Mutex<Vec<String>>,
    /// Connections that wait for a request.
    idle: Mutex<Vec<Connection>>,
}

/// A forward, and HTTP on it. Ends when it is dropped.
struct Connection {
    pod: String,
    sender: SendRequest<Full<Bytes>>,
    /// What the kubelet says when it breaks.
    last_words: BoxFuture<'static, Option<String>>,
}

/// Why a request was not answered.
struct Broken {
    /// Whether the agent may have got it nevertheless.
    sent: bool,
    /// Whether it has only been silent: what it thinks about it need not do twice.
    late: bool,
    reason: String,
}

impl std::fmt::Debug for Forward {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Forward").field("namespace", &self.shared.namespace).finish_non_exhaustive()
    }
}

// === impl Forward ===

impl Forward {
    /// To the agents in this namespace, with tokens of this source. `needed`: nothing goes on without one of them, so that it is
    /// worth a request why there is none. Asks nobody yet.
    pub(crate) fn new(cluster: ApiServer, namespace: String, source: Source, needed: bool) -> Self {
        let role = source.role();
        let server = cluster.server.clone();
        Self::over(Box::new(KubePods::new(cluster, namespace.clone(), role, needed)), namespace, server, source)
    }

    fn over(pods: Box<dyn Pods>, namespace: String, server: String, source: Source) -> Self {
        let (known, idle) = Default::default();
        let shared = Shared { pods, namespace, server, reached: AtomicBool::new(false), known, idle };
        Self { shared: Arc::new(shared), source }
    }

    async fn answer(&self, ask: Ask) -> Result<Answer, TransportError> {
        self.shared.look().await?;
        let (mut token, mut connection) = if ask.is_open() {
            (None, Some(self.shared.connection(&ask).await?))
        } else {
            // Neither needs the other: a person waits for the longer of the two.
            let (token, connection) = tokio::join!(self.source.token(), self.shared.connection(&ask));
            (Some(token?), Some(connection?))
        };
        let mut renewed = false;
        let mut tries = 0;
        loop {
            let on = match connection.take() {
                Some(connection) => connection,
                None => self.shared.connection(&ask).await?,
            };
            let answer = match self.shared.send(on, &ask, token.as_deref()).await {
                Ok(answer) => answer,
                Err(broken) if broken.sent && ask.changes() => {
                    return Err(self.shared.unreachable(format!(
                        "{}; whether it got the request is not known, kubectl rotate status shows it",
                        broken.reason
                    )));
                }
                Err(broken) if tries + 1 == TRIES || (broken.late && ask.method != http::Method::GET) => {
                    return Err(self.shared.unreachable(broken.reason));
                }
                Err(_) => {
                    tries += 1;
                    continue;
                }
            };
            if answer.status == StatusCode::UNAUTHORIZED && token.is_some() && !renewed {
                renewed = true;
                token = Some(self.source.instead_of(token.as_deref()).await?);
                continue;
            }
            return Ok(answer);
        }
    }
}

impl Transport for Forward {
    fn send(&self, ask: Ask) -> BoxFuture<'_, Result<Answer, TransportError>> {
        self.answer(ask).boxed()
    }

    fn late(&self, seconds: f64) -> Failure {
        let Shared { server, known, reached, .. } = &*self.shared;
        if reached.load(Ordering::Relaxed) {
            return Failure::AgentUnreachable(format!("the agent did not answer within {seconds} s"));
        }
        if lock(known).is_empty() {
            return Failure::Cluster(format!("the API server at {server} did not answer within {seconds} s"));
        }
        Failure::AgentUnreachable(format!("the API server at {server} opened no way to the agent within {seconds} s"))
    }
}

// === impl Shared ===

impl Shared {
    fn unreachable(&self, reason: String) -> TransportError {
        TransportError::Unreachable { at: format!("any Pod of namespace {}", self.namespace), reason }
    }

    /// Knows at least one Pod from now on.
    async fn look(&self) -> Result<(), TransportError> {
        if !lock(&self.known).is_empty() {
            return Ok(());
        }
        let ready = self.pods.ready().await.map_err(|failure| TransportError::Cluster(Box::new(failure)))?;
        *lock(&self.known) = ready;
        Ok(())
    }

    /// Leaves a Pod alone until Pods are listed again.
    fn forget(&self, pod: &str) {
        lock(&self.known).retain(|known| known != pod);
    }

    /// One that is idle, or a new one. What must not be sent twice gets one on which an agent has just answered.
    async fn connection(&self, ask: &Ask) -> Result<Connection, TransportError> {
        loop {
            let Some(mut connection) = lock(&self.idle).pop() else { break };
            if connection.sender.ready().await.is_ok() {
                return Ok(connection);
            }
        }
        let mut reason = String::new();
        // A list that was made before may be stale: once it is used up, Pods are listed anew, and that list is the last.
        for _ in 0..2 {
            self.look().await?;
            loop {
                let Some(pod) = lock(&self.known).first().cloned() else { break };
                match self.open(&pod, ask.changes()).await {
                    Ok(connection) => return Ok(connection),
                    // Another Pod is no answer to that.
                    Err(failure @ (Failure::NotLoggedIn(_) | Failure::NotAuthorised(_))) => {
                        return Err(TransportError::Cluster(Box::new(failure)));
                    }
                    Err(failure) => {
                        tracing::debug!("Pod {pod}: {failure}");
                        reason = format!("Pod {pod}: {failure}");
                        self.forget(&pod);
                    }
                }
            }
        }
        Err(self.unreachable(reason))
    }

    async fn open(&self, pod: &str, sure: bool) -> Result<Connection, Failure> {
        let opened = timeout(FORWARD, async {
            let Line { stream, last_words } = self.pods.open(pod).await?;
            let shaken = http1::handshake(TokioIo::new(stream)).await;
            let (sender, connection) = shaken.map_err(|error| Failure::AgentUnreachable(error.to_string()))?;
            // Whoever has sent a request is told of its errors.
            tokio::spawn(connection.map(drop));
            Ok::<_, Failure>(Connection { pod: pod.to_owned(), sender, last_words })
        });
        let late = || Failure::AgentUnreachable(format!("no port-forward within {} s", FORWARD.as_secs()));
        let connection = opened.await.map_err(|_| late())??;
        self.reached.store(true, Ordering::Relaxed);
        if !sure {
            return Ok(connection);
        }
        // A kubelet takes a forward before it knows whether anybody listens.
        let (connection, answer) = self
            .exchange(connection, &Ask::new(http::Method::GET, "/livez"), None)
            .await
            .map_err(|broken| Failure::AgentUnreachable(broken.reason))?;
        // Else there is no next request on this connection; its text does not matter.
        let whole = timeout(READ, Limited::new(answer.into_body(), SIGN_OF_LIFE).collect()).await;
        let whole =
            whole.map_err(|_| Failure::AgentUnreachable(format!("no sign of life within {} s", READ.as_secs())))?;
        whole.map_err(|error| Failure::AgentUnreachable(error.to_string()))?;
        Ok(connection)
    }

    /// Sends on this connection, which is idle again once the answer was read to its end.
    async fn send(self: &Arc<Self>, connection: Connection, ask: &Ask, token: Option<&str>) -> Result<Answer, Broken> {
        let (connection, response) = self.exchange(connection, ask, token).await?;
        let (head, body) = response.into_parts();
        let (version, retry_after) = (super::version(&head.headers), super::retry_after(&head.headers));
        let body = Arc::clone(self).body(connection, body, ask.silence());
        Ok(Answer { status: head.status.as_u16(), version, retry_after, body })
    }

    async fn exchange(
        &self,
        mut connection: Connection,
        ask: &Ask,
        token: Option<&str>,
    ) -> Result<(Connection, http::Response<Incoming>), Broken> {
        let unsent = |reason: String| Broken { sent: false, late: false, reason };
        let body = Full::new(ask.body.clone().unwrap_or_default());
        let request = Request::builder().method(ask.method.clone()).uri(&ask.path).body(body);
        let mut request = request.map_err(|error| unsent(error.to_string()))?;
        *request.headers_mut() = ask.headers();
        request.headers_mut().insert(header::HOST, HOST);
        if let Some(token) = token {
            let bearer = HeaderValue::try_from(format!("Bearer {token}"));
            let mut bearer = bearer.map_err(|_| unsent("the token cannot be sent".to_owned()))?;
            bearer.set_sensitive(true);
            request.headers_mut().insert(header::AUTHORIZATION, bearer);
        }
        let answered = async {
            connection.sender.ready().await.map_err(|error| unsent(error.to_string()))?;
            connection.sender.try_send_request(request).await.map_err(|mut error| Broken {
                sent: error.take_message().is_none(),
                ..unsent(error.error().to_string())
            })
        };
        let patience = ask.patience();
        let answered = timeout(patience, answered).await.unwrap_or_else(|_| {
            Err(Broken { sent: true, late: true, reason: format!("it says nothing for {} s", patience.as_secs()) })
        });
        match answered {
            Ok(response) => Ok((connection, response)),
            Err(broken) => {
                self.forget(&connection.pod);
                let words = timeout(LAST_WORDS, connection.last_words).await.ok().flatten();
                let reason = format!("Pod {}: {}", connection.pod, words.as_deref().unwrap_or(&broken.reason).trim());
                Err(Broken { reason, ..broken })
            }
        }
    }

    /// The pieces of an answer.
    fn body(
        self: Arc<Self>,
        connection: Connection,
        body: Incoming,
        silence: Duration,
    ) -> BoxStream<'static, Result<Bytes, TransportError>> {
        let state = Some((self, connection, BodyStream::new(body)));
        let pieces = futures::stream::unfold(state, move |state| async move {
            let (shared, connection, mut pieces) = state?;
            loop {
                let reason = match timeout(silence, pieces.next()).await {
                    Ok(None) => {
                        lock(&shared.idle).push(connection);
                        return None;
                    }
                    Ok(Some(Ok(frame))) => match frame.into_data() {
                        Ok(data) => return Some((Ok(data), Some((shared, connection, pieces)))),
                        // Trailers; the agent sends none.
                        Err(_) => continue,
                    },
                    Ok(Some(Err(error))) => rotate_shared::causes::whole(&error),
                    Err(_) => format!("nothing came for {} s", silence.as_secs()),
                };
                shared.forget(&connection.pod);
                return Some((Err(TransportError::BrokeOff(format!("Pod {}: {reason}", connection.pod))), None));
            }
        });
        pieces.boxed()
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().expect("nobody panics while holding it")
}

#[cfg(test)]
mod tests;
