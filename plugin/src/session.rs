//! What every verb starts from: the console, the clock, and the flags that lead to an agent. How it is reached by them is
//! [`connect`](crate::connect)'s business.

use std::sync::Mutex;

use futures::FutureExt;
use futures::future::BoxFuture;
use rotate_agent::PodCache;
use rotate_agent::clock::Clock;

use crate::cli::{AgentFlags, ConnectionFlags};
use crate::failure::Failure;
use crate::output::Console;

/// The surroundings of one command.
pub(crate) struct Session {
    /// Where output goes.
    pub(crate) console: Console,
    /// What time it is.
    pub(crate) clock: Clock,
    /// Where the agent is said to be.
    pub(crate) agent: AgentFlags,
    /// Where the cluster is said to be.
    pub(crate) connection: ConnectionFlags,
    at_end: Mutex<Vec<BoxFuture<'static, ()>>>,
}

impl std::fmt::Debug for Session {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Session")
            .field("agent", &self.agent)
            .field("connection", &self.connection)
            .finish_non_exhaustive()
    }
}

impl Session {
    /// A session over these flags.
    pub(crate) fn new(console: Console, agent: AgentFlags, connection: ConnectionFlags) -> Self {
        Self { console, clock: Clock::system(), agent, connection, at_end: Mutex::default() }
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

    /// Has this done at the end of the command, however it ends.
    pub(crate) fn at_end(&self, act: impl Future<Output = ()> + Send + 'static) {
        self.at_end.lock().expect("nobody panics while holding it").push(act.boxed());
    }

    /// Does what is to be done at the end.
    pub(crate) async fn end(self) {
        let acts = self.at_end.into_inner().expect("nobody panics while holding it");
        for act in acts {
            act.await;
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
