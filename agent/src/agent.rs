//! The agent as one value: it owns every task; dropping it ends them all.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use axum::Router;
use kube::Client;
use rotate_shared::names;
use tokio::net::TcpListener;
use tokio::task::JoinSet;
use tokio_util::sync::{CancellationToken, DropGuard};

use crate::cache::feed::Feeds;
use crate::cache::{Cache, State};
use crate::clock::Clock;
use crate::http;
use crate::lease::{self, Election, Times};
use crate::rotation::store::Store;
use crate::rotation::views::Views;
use crate::rotation::{Engine, EngineConfig};

/// How long answers that are under way may take once the agent is asked to end.
const GRACE: Duration = Duration::from_secs(10);

/// How an agent is set up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// Namespace of the records and the Lease. Default [`names::NAMESPACE`].
    pub namespace: String,
    /// Image that placeholders pause in. Default [`Config::PAUSE_IMAGE`].
    pub placeholder_image: String,
    /// How many nodes may be in work at once, over all batches. Default [`Config::MAX_CONCURRENT`].
    pub max_concurrent: u32,
    /// How many finished rotations are kept. Default [`Config::HISTORY_LIMIT`].
    pub history_limit: usize,
}

impl Config {
    /// What the kubelet itself pauses in.
    pub const PAUSE_IMAGE: &str = "registry.k8s.io/pause:3.10";
    /// A guard against a batch that asks for too much, not a pace: batches are one at a time by default.
    pub const MAX_CONCURRENT: u32 = 10;
    /// A record is some 10 KiB: a few megabytes in all.
    pub const HISTORY_LIMIT: usize = 200;
}

impl Default for Config {
    fn default() -> Self {
        Self {
            namespace: names::NAMESPACE.to_owned(),
            placeholder_image: Self::PAUSE_IMAGE.to_owned(),
            max_concurrent: Self::MAX_CONCURRENT,
            history_limit: Self::HISTORY_LIMIT,
        }
    }
}

/// Where an agent listens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Listen {
    /// The control API. Port 0 takes any that is free.
    pub control: SocketAddr,
    /// Whether its callers must show a token.
    pub authenticate: bool,
    /// Health and metrics. Port 0 takes any that is free.
    pub ops: SocketAddr,
}

/// Why an agent cannot go on.
#[derive(Debug, thiserror::Error)]
pub enum AgentError {
    /// The port is taken, or not ours to take.
    #[error("listen on {addr}: {source}")]
    Listen {
        /// Where.
        addr: SocketAddr,
        /// Why not.
        #[source]
        source: io::Error,
    },
    /// A task that must not end has ended.
    #[error("go on: {0} ended")]
    TaskEnded(String),
}

/// A running agent. Its tasks live as long as this value: dropping it is the kill.
#[derive(Debug)]
pub struct Agent {
    api: http::Api,
    // Each ends only by a defect.
    tasks: JoinSet<String>,
    // Each ends only by a defect, or once `closing` is cancelled.
    servers: JoinSet<String>,
    // Followers' connections are not in `servers`: they end by this.
    _closing: DropGuard,
}

impl Agent {
    /// Starts the agent's tasks on the present runtime.
    #[must_use]
    pub fn start(config: Config, client: Client, clock: Clock) -> Self {
        let store = Store::new(client.clone(), &config.namespace, clock);
        let cache = Cache::new(State::default());
        let views = Views::default();
        let closing = CancellationToken::new();
        let mut feeds = Feeds::run(client.clone(), cache.clone(), clock);
        let mut tasks = JoinSet::new();
        tasks.spawn(async move { feeds.ended().await });
        let watched = store.clone();
        tasks.spawn(async move {
            watched.run().await;
            "the watch of the records".to_owned()
        });
        let times = Times::default();
        let identity = lease::identity(clock);
        let election = Election::new(client.clone(), &config.namespace, names::AGENT, &identity, times, clock);
        let term = election.subscribe();
        let stop = closing.clone().cancelled_owned();
        tasks.spawn(async move {
            election.run(stop).await;
            "the election".to_owned()
        });
        let engine = EngineConfig {
            placeholder_image: config.placeholder_image,
            max_concurrent: config.max_concurrent,
            history_limit: config.history_limit,
            effect_timeout: times.wait,
        };
        let engine = Engine::new(engine, client.clone(), cache.clone(), store.clone(), views.clone(), term, clock);
        tasks.spawn(async move {
            engine.run().await;
            "the engine".to_owned()
        });
        let guard = closing.clone().drop_guard();
        let api = http::Api { cache, views, store, client, clock, closing };
        Self { api, tasks, servers: JoinSet::new(), _closing: guard }
    }

    /// Opens the ports; the addresses returned are those taken.
    ///
    /// # Errors
    ///
    /// A port cannot be taken.
    pub async fn listen(&mut self, listen: Listen) -> Result<Listen, AgentError> {
        let (control, control_addr) = bind(listen.control).await?;
        let (ops, ops_addr) = bind(listen.ops).await?;
        let router = self.router();
        let router = if listen.authenticate {
            http::guard(router, self.api.client.clone(), self.api.clock)
        } else {
            http::guard_open(router)
        };
        self.serve("the control port", control, router);
        self.serve("the ops port", ops, http::ops_router(self.api.clone()));
        Ok(Listen { control: control_addr, ops: ops_addr, ..listen })
    }

    fn serve(&mut self, name: &'static str, listener: TcpListener, router: Router) {
        let closing = self.api.closing.clone().cancelled_owned();
        self.servers.spawn(async move {
            if let Err(error) = axum::serve(listener, router).with_graceful_shutdown(closing).await {
                tracing::error!(error = %error, "{name} failed");
            }
            name.to_owned()
        });
    }

    /// The control API without authentication, for callers in this process.
    pub fn router(&self) -> Router {
        http::control_router(self.api.clone())
    }

    /// The rotations as shown to people.
    #[must_use]
    pub fn views(&self) -> &Views {
        &self.api.views
    }

    /// Waits until a task ends that must not.
    pub async fn failed(&mut self) -> AgentError {
        let ended = tokio::select! {
            Some(ended) = self.tasks.join_next() => ended,
            Some(ended) = self.servers.join_next() => ended,
            else => return std::future::pending().await,
        };
        AgentError::TaskEnded(ended.unwrap_or_else(|error| error.to_string()))
    }

    /// Ends in order: no new requests, those under way are answered, the lead is given up.
    pub async fn shutdown(mut self) {
        self.api.closing.cancel();
        let all = async { while self.servers.join_next().await.is_some() {} };
        if tokio::time::timeout(GRACE, all).await.is_err() {
            tracing::warn!("some requests were not answered in time");
        }
        // The election is the only one that ends of its own accord, once it has given the lead up.
        let _ = tokio::time::timeout(GRACE, self.tasks.join_next()).await;
    }
}

async fn bind(addr: SocketAddr) -> Result<(TcpListener, SocketAddr), AgentError> {
    let failed = |source| AgentError::Listen { addr, source };
    let listener = TcpListener::bind(addr).await.map_err(failed)?;
    let bound = listener.local_addr().map_err(failed)?;
    Ok((listener, bound))
}

#[cfg(test)]
mod tests;
