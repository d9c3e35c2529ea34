//! Flags for a command to type next, so that it goes where this one went: quoted for a shell, and without secrets.

use std::path::Path;

use rotate_agent::PodCache;
use rotate_shared::names;

use super::{AgentFlags, ConnectionFlags};
use crate::secret::without_credentials;

impl ConnectionFlags {
    /// Those that lead to the same cluster as the same user, as kubectl takes them too; each after a space.
    pub(crate) fn again(&self) -> String {
        // Each is named, so that a new one is not forgotten.
        let Self {
            kubeconfig,
            context,
            cluster,
            user,
            server,
            tls_server_name,
            insecure_skip_tls_verify,
            certificate_authority,
            client_certificate,
            client_key,
            token: _,
            impersonate,
            as_uid,
            as_group,
            as_user_extra,
            request_timeout: _,
            namespace: _,
            verbosity: _,
        } = self;
        let mut again = Again::default();
        again.path("--kubeconfig", kubeconfig.as_deref());
        again.one("--context", context.as_deref());
        again.one("--cluster", cluster.as_deref());
        again.one("--user", user.as_deref());
        again.one("--server", server.as_deref().map(without_credentials).as_deref());
        again.one("--tls-server-name", tls_server_name.as_deref());
        match insecure_skip_tls_verify {
            Some(true) => again.0.push_str(" --insecure-skip-tls-verify"),
            Some(false) => again.0.push_str(" --insecure-skip-tls-verify=false"),
            None => {}
        }
        again.one("--certificate-authority", certificate_authority.as_deref());
        again.one("--client-certificate", client_certificate.as_deref());
        again.one("--client-key", client_key.as_deref());
        again.one("--as", impersonate.as_deref());
        again.one("--as-uid", as_uid.as_deref());
        for group in as_group {
            again.one("--as-group", Some(group));
        }
        for extra in as_user_extra {
            again.one("--as-user-extra", Some(extra));
        }
        again.0
    }
}

impl AgentFlags {
    /// Those that lead to the same agent; each after a space.
    pub(crate) fn again(&self) -> String {
        let Self { agent_url, agent_ca, agent_namespace, embedded, pod_cache, chunk_size: _ } = self;
        let mut again = Again::default();
        if *embedded {
            again.0.push_str(" --embedded");
        }
        if *pod_cache == Some(PodCache::Cluster) {
            again.0.push_str(" --pod-cache=cluster");
        }
        again.one("--agent-url", agent_url.as_deref().map(without_credentials).as_deref());
        again.path("--agent-ca", agent_ca.as_deref());
        again.one("--agent-namespace", Some(agent_namespace.as_str()).filter(|name| *name != names::NAMESPACE));
        again.0
    }
}

/// What is typed again.
#[derive(Debug, Default)]
struct Again(String);

impl Again {
    fn one(&mut self, flag: &str, value: Option<&str>) {
        if let Some(value) = value {
            self.0.push_str(&format!(" {flag} {}", quoted(value)));
        }
    }

    fn path(&mut self, flag: &str, value: Option<&Path>) {
        self.one(flag, value.map(|path| path.display().to_string()).as_deref());
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
    use clap::{CommandFactory as _, Parser as _};

    use super::*;
    use crate::cli::Cli;

    #[test]
    fn a_word_is_quoted_only_where_a_shell_would_mind() {
        assert_eq!(quoted("http://127.0.0.1:8470"), "http://127.0.0.1:8470");
        assert_eq!(quoted("my context"), "'my context'");
        assert_eq!(quoted("a'b"), r"'a'\''b'");
        assert_eq!(quoted(""), "''");
    }

    #[test]
    fn every_flag_is_typed_again_but_the_token_and_what_leads_nowhere() {
        let command = Cli::command();
        let mut line = vec!["kubectl-rotate".to_owned()];
        let mut expected = Vec::new();
        for flag in command.get_arguments().filter_map(clap::Arg::get_long) {
            let value = match flag {
                "help" => continue,
                "insecure-skip-tls-verify" | "embedded" => "true",
                "pod-cache" => "cluster",
                "request-timeout" => "1s",
                "chunk-size" | "v" => "7",
                "namespace" | "agent-namespace" => "other",
                _ => "a b",
            };
            line.push(format!("--{flag}={value}"));
            if !["token", "request-timeout", "chunk-size", "v", "namespace"].contains(&flag) {
                expected.push(match value {
                    "true" => format!("--{flag}"),
                    "cluster" => format!("--{flag}={value}"),
                    "other" => format!("--{flag} other"),
                    _ => format!("--{flag} 'a b'"),
                });
            }
        }
        let cli = Cli::try_parse_from(line).expect("well formed");
        let again = cli.agent.again() + &cli.connection.again();
        for flag in &expected {
            assert!(again.contains(&format!(" {flag}")), "{flag}: {again}");
        }
        assert_eq!(again.matches(" --").count(), expected.len(), "{again}");
    }

    #[test]
    fn a_password_in_an_address_is_left_out() {
        let cli = Cli::try_parse_from(["kubectl-rotate", "--server", "https://someone:secret@a"]).expect("well formed");
        assert_eq!(cli.connection.again(), " --server 'https://…@a'");
        let cli =
            Cli::try_parse_from(["kubectl-rotate", "--agent-url", "http://someone:secret@a"]).expect("well formed");
        assert_eq!(cli.agent.again(), " --agent-url 'http://…@a'");
    }

    #[test]
    fn what_may_be_given_several_times_is_typed_as_often() {
        let line = ["kubectl-rotate", "--as-group", "a", "--as-group", "b", "--as-user-extra", "scope=x y"];
        let cli = Cli::try_parse_from(line).expect("well formed");
        assert_eq!(cli.connection.again(), " --as-group a --as-group b --as-user-extra 'scope=x y'");
    }
}
