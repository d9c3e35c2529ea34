//! What every verb starts from: the console, the clock, and how to get at an agent.

use std::sync::OnceLock;

use rotate_agent::PodCache;
use rotate_agent::clock::Clock;

use crate::cli::{AgentFlags, ConnectionFlags};
use crate::connect::api_server::ApiServer;
use crate::connect::embedded::{Embedded, Role};
use crate::connect::forward::Forward;
use crate::connect::token::{self, Account, Source};
use crate::connect::url::Url;
use crate::connect::{Agent, TransportError};
use crate::failure::Failure;
use crate::output::Console;

/// The surroundings of one command.
#[derive(Debug)]
pub(crate) struct Session {
    /// Where output goes.
    pub(crate) console: Console,
    /// What time it is.
    pub(crate) clock: Clock,
    /// Where the agent is said to be.
    pub(crate) agent: AgentFlags,
    /// Where the cluster is said to be.
    pub(crate) connection: ConnectionFlags,
    embedded: OnceLock<Embedded>,
}

/// An agent to talk to.
#[derive(Debug)]
pub(crate) struct Connected {
    /// Speaks its API.
    pub(crate) agent: Agent,
    /// Whether it runs in this process, and ends with it.
    pub(crate) embedded: bool,
}

impl Session {
    /// A session over these flags.
    pub(crate) fn new(console: Console, agent: AgentFlags, connection: ConnectionFlags) -> Self {
        Self { console, clock: Clock::system(), agent, connection, embedded: OnceLock::new() }
    }

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
    async fn agent_in_cluster(&self, account: Account) -> Result<Agent, Failure> {
        let (given, connection) = self.credentials();
        let cluster = ApiServer::connect(&connection).await?;
        let namespace = &self.agent.agent_namespace;
        let source = Source::of(cluster.clone(), namespace.clone(), account, self.clock).beginning_with(given);
        Ok(self.speaking(Agent::new(Forward::new(cluster, namespace.clone(), source), self.clock)))
    }

    /// `--token` for the agent, where it is made out to it, and the flags for the API server. A token for the API server
    /// must not be shown to the agent.
    fn credentials(&self) -> (Option<String>, ConnectionFlags) {
        let given = self.connection.token.clone().filter(|token| token::is_for_agent(token));
        let token = self.connection.token.clone().filter(|_| given.is_none());
        (given, ConnectionFlags { token, ..self.connection.clone() })
    }

    fn speaking(&self, agent: Agent) -> Agent {
        agent.patient(self.connection.request_timeout.map(|timeout| timeout.0))
    }

    /// An agent outside of this process: at `--agent-url`, else the installed one. `None` with `--embedded`.
    ///
    /// # Errors
    ///
    /// The flags contradict each other, or the kubeconfig is of no use.
    pub(crate) async fn remote_agent(&self, account: Account) -> Result<Option<Agent>, Failure> {
        match self.agent_at_url(account)? {
            Some(agent) => Ok(Some(agent)),
            None if self.agent.embedded => Ok(None),
            None => self.agent_in_cluster(account).await.map(Some),
        }
    }

    /// An agent that can act: remote, or inside this process with `--embedded`.
    ///
    /// # Errors
    ///
    /// There is none: says how to get to one.
    pub(crate) async fn connect(&self, role: Role) -> Result<Connected, Failure> {
        if let Some(agent) = self.remote_agent(role.account()).await? {
            return Ok(Connected { agent, embedded: false });
        }
        let embedded = Embedded::start(self, role).await?;
        let agent = embedded.agent();
        // A command connects once.
        let _ = self.embedded.set(embedded);
        Ok(Connected { agent, embedded: true })
    }

    /// Asks, with no as the answer to everything but `y` and `yes`.
    ///
    /// # Errors
    ///
    /// A usage failure where there is nobody to ask; Ctrl-C, which must not keep an agent in this process from giving
    /// its Lease up.
    pub(crate) async fn confirm(&self, question: &str) -> Result<bool, Failure> {
        let (console, question) = (self.console, question.to_owned());
        let asked = tokio::task::spawn_blocking(move || console.confirm(&question));
        tokio::select! {
            answer = asked => answer.unwrap_or_else(|error| Err(Failure::Other(format!("read the answer: {error}")))),
            _ = tokio::signal::ctrl_c() => {
                self.console.note("");
                Err(Failure::Interrupted)
            }
        }
    }

    /// Which Pods an agent in this process reads: a laptop must not stream all of a large cluster unasked.
    pub(crate) fn pod_cache(&self) -> PodCache {
        self.agent.pod_cache.unwrap_or(PodCache::Scoped)
    }

    /// The agent in this process, once it was started.
    pub(crate) fn embedded(&self) -> Option<&Embedded> {
        self.embedded.get()
    }

    /// Ends what was started: an agent in this process gives its Lease up, so that the next one need not wait for it.
    pub(crate) async fn end(self) {
        if let Some(embedded) = self.embedded.into_inner() {
            embedded.end().await;
        }
    }

    /// The flags that lead to the same agent again, for a command to type next. Secrets are left out.
    pub(crate) fn flags_again(&self) -> String {
        let connection = &self.connection;
        let namespace = self.agent.agent_namespace.clone();
        let kubeconfig = connection.kubeconfig.as_ref().map(|path| path.display().to_string());
        let given = [
            ("--agent-url", self.agent.agent_url.clone()),
            ("--agent-ca", self.agent.agent_ca.as_ref().map(|file| file.display().to_string())),
            ("--agent-namespace", Some(namespace).filter(|name| name != rotate_shared::names::NAMESPACE)),
            ("--kubeconfig", kubeconfig),
            ("--context", connection.context.clone()),
            ("--cluster", connection.cluster.clone()),
            ("--user", connection.user.clone()),
            ("--server", connection.server.clone()),
            ("--as", connection.impersonate.clone()),
        ];
        let mut flags = if self.agent.embedded { " --embedded".to_owned() } else { String::new() };
        if self.agent.pod_cache == Some(PodCache::Cluster) {
            flags.push_str(" --pod-cache=cluster");
        }
        for (flag, value) in given {
            if let Some(value) = value {
                flags.push_str(&format!(" {flag} {}", quoted(&value)));
            }
        }
        flags
    }

    fn port_forward(&self) -> String {
        let (agent, port) = (rotate_shared::names::AGENT, rotate_shared::names::CONTROL_PORT);
        format!("kubectl -n {} port-forward deploy/{agent} {port}", self.agent.agent_namespace)
    }
}

/// A word for a shell.
pub(crate) fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./:@=,".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', r"'\''"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_is_quoted_only_where_a_shell_would_mind() {
        assert_eq!(quoted("http://127.0.0.1:8470"), "http://127.0.0.1:8470");
        assert_eq!(quoted("my context"), "'my context'");
        assert_eq!(quoted("a'b"), r"'a'\''b'");
        assert_eq!(quoted(""), "''");
    }
}
