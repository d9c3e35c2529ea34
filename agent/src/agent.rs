//! The agent as one value: it owns every task; dropping it ends them all.

use axum::Router;
use kube::Client;
use tokio_util::sync::CancellationToken;

use crate::cache::{Cache, State};
use crate::clock::Clock;
use crate::http;
use crate::rotation::views::Views;

/// How an agent is set up.
#[derive(Clone, Debug, Default)]
pub struct Config {}

/// A running agent. Its tasks live as long as this value: dropping it is the kill.
#[derive(Debug)]
pub struct Agent {
    api: http::Api,
}

impl Agent {
    /// Starts the agent's tasks on the present runtime.
    #[must_use]
    pub fn start(_config: Config, client: Client, clock: Clock) -> Self {
        let api = http::Api {
            cache: Cache::new(State::default()),
            views: Views::default(),
            client,
            clock,
            closing: CancellationToken::new(),
        };
        Self { api }
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
}
