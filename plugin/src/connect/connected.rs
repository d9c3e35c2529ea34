//! Which agent a command's flags mean, and the way to it.

use kube::Client;
use rotate_agent::lease::{self, Rival};
use rotate_shared::names;

use super::api_server::ApiServer;
use super::embedded::{Embedded, Role};
use super::forward::Forward;
use super::token::{self, Account, Source};
use super::url::Url;
use super::{Agent, TransportError};
use crate::cli::ConnectionFlags;
use crate::failure::Failure;
use crate::secret::Secret;
use crate::session::{Session, UNBEGUN};

/// An agent to talk to.
pub(crate) struct Connected {
    /// Speaks its API.
    pub(crate) agent: Agent,
    /// Whether it runs in this process, and ends with it.
    pub(crate) embedded: bool,
    /// The way to the Lease of whoever acts instead of an agent in this process.
    lease: Option<Client>,
}

// kube's client has no `Debug`.
impl std::fmt::Debug for Connected {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Connected")
            .field("agent", &self.agent)
            .field("embedded", &self.embedded)
            .finish_non_exhaustive()
    }
}

impl Connected {
    /// An agent outside of this process.
    pub(crate) fn remote(agent: Agent) -> Self {
        Self { agent, embedded: false, lease: None }
    }

    /// Who holds the Lease, for an agent in this process that does not; `None`: nobody.
    ///
    /// # Errors
    ///
    /// The Lease cannot be read.
    pub(crate) async fn rival(&self) -> Result<Option<Rival>, Failure> {
        let Some(client) = &self.lease else { return Ok(None) };
        let read = lease::rival(client.clone(), names::NAMESPACE, names::AGENT).await;
        read.map_err(|error| Failure::Other(format!("failed to {error}")))
    }
}

impl Session {
    /// The agent that is said to be at `--agent-url`; `None` without that flag. Asks nobody yet.
    ///
    /// # Errors
    ///
    /// What is said contradicts itself or is no address.
    fn agent_at_url(&self, account: Account) -> Result<Option<Agent>, Failure> {
        if self.agent.pod_cache.is_some() && !self.agent.embedded {
            return Err(Failure::Usage(
                "--pod-cache says how an agent inside this command reads: it goes with --embedded".to_owned(),
            ));
        }
        if self.agent.agent_ca.is_some() && self.agent.agent_url.is_none() {
            return Err(Failure::Usage(
                "--agent-ca says by which certificate the agent at an address is known: it goes with --agent-url"
                    .to_owned(),
            ));
        }
        let Some(url) = &self.agent.agent_url else { return Ok(None) };
        if self.agent.embedded {
            return Err(Failure::Usage(
                "--agent-url and --embedded together are not clear: give one of them".to_owned(),
            ));
        }
        let (given, connection) = self.credentials();
        let source = Source::new(connection, self.agent.agent_namespace.clone(), account, self.clock);
        let source = source.beginning_with(given);
        let hint = format!(". Is the port forwarded? As in: {}", self.port_forward());
        let transport = Url::new(url, Some(source), hint).and_then(|url| match &self.agent.agent_ca {
            Some(file) => url.trusting(file),
            None => Ok(url),
        });
        let transport = transport.map_err(|error| match error {
            TransportError::Address { .. } | TransportError::Authority { .. } => Failure::Usage(error.to_string()),
            _ => error.into(),
        })?;
        Ok(Some(self.speaking(Agent::new(transport, self.clock))))
    }

    /// The agent that is installed in the cluster, behind a port-forward. Asks nobody yet.
    ///
    /// # Errors
    ///
    /// The kubeconfig is of no use.
    async fn agent_in_cluster(&self, account: Account, needed: bool) -> Result<Agent, Failure> {
        let (given, connection) = self.credentials();
        let cluster = ApiServer::connect(&connection).await?;
        let namespace = &self.agent.agent_namespace;
        let source = Source::of(cluster.clone(), namespace.clone(), account, self.clock).beginning_with(given);
        Ok(self.speaking(Agent::new(Forward::new(cluster, namespace.clone(), source, needed), self.clock)))
    }

    /// `--token` for the agent, where it is made out to it, and the flags for the API server. A token for the API server
    /// must not be shown to the agent.
    fn credentials(&self) -> (Option<Secret>, ConnectionFlags) {
        let given = self.connection.token.clone().filter(|token| token::is_for_agent(token));
        let token = self.connection.token.clone().filter(|_| given.is_none());
        (given, ConnectionFlags { token, ..self.connection.clone() })
    }

    fn speaking(&self, agent: Agent) -> Agent {
        agent.patient(self.connection.request_timeout.map(|timeout| timeout.0)).reached_by(self.cluster_again())
    }

    /// An agent outside of this process: at `--agent-url`, else the installed one. `None` with `--embedded`.
    ///
    /// # Errors
    ///
    /// The flags contradict each other, or the kubeconfig is of no use.
    pub(crate) async fn remote_agent(&self, account: Account) -> Result<Option<Agent>, Failure> {
        self.remote(account, false).await
    }

    async fn remote(&self, account: Account, needed: bool) -> Result<Option<Agent>, Failure> {
        match self.agent_at_url(account)? {
            Some(agent) => Ok(Some(agent)),
            None if self.agent.embedded => Ok(None),
            None => self.agent_in_cluster(account, needed).await.map(Some),
        }
    }

    /// An agent that can act: remote, or inside this process with `--embedded`.
    ///
    /// # Errors
    ///
    /// There is none: says how to get to one.
    pub(crate) async fn connect(&self, role: Role) -> Result<Connected, Failure> {
        if let Some(agent) = self.until_interrupted(UNBEGUN, self.remote(role.account(), true)).await? {
            return Ok(Connected::remote(agent));
        }
        let embedded = Embedded::start(self, role).await?;
        let (agent, lease) = (embedded.agent(), Some(embedded.client()));
        // It gives its Lease up, so that the next one need not wait for it.
        self.at_end(embedded.end());
        Ok(Connected { agent, embedded: true, lease })
    }

    fn port_forward(&self) -> String {
        let (agent, port) = (rotate_shared::names::AGENT, rotate_shared::names::CONTROL_PORT);
        format!("kubectl -n {} port-forward deploy/{agent} {port}", self.agent.agent_namespace)
    }
}
