//! The agent's command line, as typed.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::{Parser, Subcommand, ValueEnum};
use rotate_shared::names;

#[cfg(feature = "tls")]
use crate::CertificateFiles;
use crate::agent::{Config, PodCache};
use crate::cache::feed::Options;
use crate::probe::Standing;
use crate::provider::cluster_autoscaler::groups::Settings as Groups;
use crate::provider::cluster_autoscaler::hook::{self, Hook, HookError};

/// Holds the Pods of the cluster in little memory, reserves room, rotates nodes, answers over HTTP.
#[derive(Clone, Debug, Parser)]
#[command(name = "rotate-agent", version, args_conflicts_with_subcommands = true)]
pub struct Cli {
    /// What to do instead of running the agent.
    #[command(subcommand)]
    pub command: Option<Command>,
    /// How to run the agent.
    #[command(flatten)]
    pub run: Run,
}

/// What to do instead of running the agent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Subcommand)]
pub enum Command {
    /// Do nothing until terminated: what a placeholder Pod runs
    Pause,
}

/// How to run the agent.
#[derive(Clone, Debug, clap::Args)]
pub struct Run {
    /// Namespace of the records and the Lease
    #[arg(long, env = "ROTATE_NAMESPACE", value_name = "NAME", default_value = names::NAMESPACE)]
    pub namespace: String,
    /// Where the control API listens
    #[arg(long, env = "ROTATE_CONTROL_ADDR", value_name = "ADDR", default_value = names::CONTROL_ADDR)]
    pub control_addr: SocketAddr,
    /// Where health and metrics are served
    #[arg(long, env = "ROTATE_OPS_ADDR", value_name = "ADDR", default_value = names::OPS_ADDR)]
    pub ops_addr: SocketAddr,
    /// File with the certificate of the TLS port, followed by those that sign it; read anew when it changes
    #[cfg(feature = "tls")]
    #[arg(long, env = "ROTATE_TLS_CERT", value_name = "FILE", requires = "tls_key")]
    pub tls_cert: Option<PathBuf>,
    /// File with its private key
    #[cfg(feature = "tls")]
    #[arg(long, env = "ROTATE_TLS_KEY", value_name = "FILE", requires = "tls_cert")]
    pub tls_key: Option<PathBuf>,
    /// Where the control API listens with TLS, once there is a certificate
    #[cfg(feature = "tls")]
    #[arg(long, env = "ROTATE_TLS_ADDR", value_name = "ADDR", default_value = names::TLS_ADDR)]
    pub tls_addr: SocketAddr,
    /// Image that placeholders pause in
    #[arg(long, env = "ROTATE_PLACEHOLDER_IMAGE", value_name = "IMAGE", default_value = Config::PAUSE_IMAGE)]
    pub placeholder_image: String,
    /// How many nodes may be in work at once, over all batches
    #[arg(long, env = "ROTATE_MAX_CONCURRENT", value_name = "N", default_value_t = Config::MAX_CONCURRENT, value_parser = clap::value_parser!(u32).range(1..))]
    pub max_concurrent: u32,
    /// How many finished rotations are kept
    #[arg(long, env = "ROTATE_HISTORY_LIMIT", value_name = "N", default_value_t = Config::HISTORY_LIMIT)]
    pub history_limit: usize,
    /// Which Pods are read
    #[arg(long, env = "ROTATE_POD_CACHE", value_name = "WHICH", value_enum, default_value = "cluster")]
    pub pod_cache: PodCache,
    /// Over how many watches the Pods are divided, a power of two up to 64; above 1 the API server needs the feature gate
    /// ShardedListAndWatch
    #[arg(long, env = "ROTATE_POD_SHARDS", value_name = "N", default_value_t = 1, value_parser = shards)]
    pub pod_shards: u8,
    /// Label whose values are the names of autoscaled groups of one's own; those of EKS, GKE and AKS are known
    #[arg(long, env = "ROTATE_NODE_GROUP_LABEL", value_name = "KEY", value_delimiter = ',')]
    pub node_group_label: Vec<String>,
    /// ConfigMap in which cluster-autoscaler tells of its groups
    #[arg(long, env = "ROTATE_AUTOSCALER_STATUS", value_name = "NAMESPACE/NAME", default_value = AUTOSCALER_STATUS, value_parser = namespaced)]
    pub autoscaler_status: (String, String),
    /// Address of a hook that ends the machines of drained nodes: https, or http on loopback
    #[arg(long, env = "ROTATE_REMOVER_HOOK", value_name = "URL", hide_env_values = true)]
    pub remover_hook: Option<HookUrl>,
    /// File with the secret that signs what the hook is asked
    #[arg(long, env = "ROTATE_REMOVER_HOOK_SECRET_FILE", value_name = "PATH", requires = "remover_hook")]
    pub remover_hook_secret_file: Option<PathBuf>,
    /// Kubeconfig file of the cluster that Cluster API's Machines are in; read anew whenever it changes
    #[arg(long, env = "ROTATE_MANAGEMENT_KUBECONFIG", value_name = "FILE")]
    pub management_kubeconfig: Option<PathBuf>,
    /// Form of the log on stderr
    #[arg(long, env = "ROTATE_LOG_FORMAT", value_name = "FORMAT", value_enum, default_value = "text")]
    pub log_format: LogFormat,
    /// Answer everybody who reaches the control port; only on loopback
    #[arg(long, env = "ROTATE_INSECURE_DEV_NO_AUTH")]
    pub insecure_dev_no_auth: bool,
    /// Kubeconfig file; without it as kubectl finds one, else the Pod's service account
    #[arg(long, env = "ROTATE_KUBECONFIG", value_name = "FILE")]
    pub kubeconfig: Option<PathBuf>,
}

/// Form of the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum LogFormat {
    /// For people.
    Text,
    /// One object a line.
    Json,
}

/// Why what was typed cannot be meant.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum UsageError {
    /// Everybody who reaches the port could drain the cluster.
    #[error("--insecure-dev-no-auth is refused with --control-addr {0}: it must be a loopback address")]
    OpenToOthers(SocketAddr),
    /// There is no watch of all Pods to divide.
    #[error("--pod-shards divides the watch of all Pods: it does not go with --pod-cache=scoped")]
    ShardsOfScopes,
    /// The hook that ends machines cannot be used.
    #[error(transparent)]
    Hook(#[from] HookError),
    /// Its secret cannot be read.
    #[error("--remover-hook-secret-file={path}: {why}")]
    Secret {
        /// The file.
        path: String,
        /// Why not.
        why: String,
    },
}

impl Run {
    /// What is meant by what was typed.
    ///
    /// # Errors
    ///
    /// Flags that contradict each other.
    pub fn config(&self) -> Result<Config, UsageError> {
        if self.insecure_dev_no_auth && !self.control_addr.ip().is_loopback() {
            return Err(UsageError::OpenToOthers(self.control_addr));
        }
        if self.pod_shards > 1 && self.pod_cache == PodCache::Scoped {
            return Err(UsageError::ShardsOfScopes);
        }
        Ok(Config {
            acts: true,
            standing: Standing::Installed,
            identity: None,
            namespace: self.namespace.clone(),
            placeholder_image: self.placeholder_image.clone(),
            max_concurrent: self.max_concurrent,
            history_limit: self.history_limit,
            pod_cache: self.pod_cache,
            pod_shards: self.pod_shards,
            chunk_size: Options::PAGE,
            groups: Groups {
                labels: self.node_group_label.clone(),
                status: self.autoscaler_status.clone(),
                ..Groups::default()
            },
            hook: self.hook()?,
            management_kubeconfig: self.management_kubeconfig.clone(),
        })
    }
}

/// The address of a hook, which may have a password in it.
#[derive(Clone)]
pub struct HookUrl(String);

impl From<String> for HookUrl {
    fn from(url: String) -> Self {
        Self(url)
    }
}

impl std::fmt::Debug for HookUrl {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&hook::shown(&self.0))
    }
}

impl Run {
    /// The hook that ends machines.
    fn hook(&self) -> Result<Option<Hook>, UsageError> {
        let Some(url) = &self.remover_hook else { return Ok(None) };
        let secret = self.remover_hook_secret_file.as_ref().map(|path| {
            let unreadable =
                |error: std::io::Error| UsageError::Secret { path: path.display().to_string(), why: error.to_string() };
            std::fs::read(path).map_err(unreadable)
        });
        Ok(Some(Hook::new(&url.0, secret.transpose()?.as_deref())?))
    }
}

#[cfg(feature = "tls")]
impl Run {
    /// Where to listen with TLS, and with which certificate.
    #[must_use]
    pub fn tls(&self) -> Option<(SocketAddr, CertificateFiles)> {
        let files = CertificateFiles { certificate: self.tls_cert.clone()?, key: self.tls_key.clone()? };
        Some((self.tls_addr, files))
    }
}

/// Where cluster-autoscaler writes unless told otherwise.
const AUTOSCALER_STATUS: &str = "kube-system/cluster-autoscaler-status";

fn namespaced(typed: &str) -> Result<(String, String), String> {
    match typed.split_once('/') {
        Some((namespace, name)) if !namespace.is_empty() && !name.is_empty() && !name.contains('/') => {
            Ok((namespace.to_owned(), name.to_owned()))
        }
        _ => Err("it must be NAMESPACE/NAME".to_owned()),
    }
}

/// A number of watches that divides the hashes evenly, and not more of them than an API server should serve to one client.
fn shards(typed: &str) -> Result<u8, String> {
    match typed.parse::<u8>() {
        Ok(count) if count.is_power_of_two() && count <= 64 => Ok(count),
        _ => Err("it must be 1, 2, 4, 8, 16, 32 or 64".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;

    fn run(args: &[&str]) -> Run {
        Cli::try_parse_from(["rotate-agent"].iter().chain(args)).unwrap().run
    }

    #[test]
    fn the_surface_is_sound() {
        Cli::command().debug_assert();
    }

    #[test]
    fn every_flag_has_an_environment_twin() {
        for arg in Cli::command().get_arguments().filter(|arg| !matches!(arg.get_id().as_str(), "help" | "version")) {
            let flag = arg.get_long().unwrap();
            let twin = format!("ROTATE_{}", flag.replace('-', "_").to_uppercase());
            assert_eq!(arg.get_env().unwrap().to_str().unwrap(), twin);
        }
    }

    #[test]
    fn a_control_port_open_to_others_is_refused_without_authentication() {
        for addr in ["0.0.0.0:8470", "[::]:8470", "10.0.0.1:8470"] {
            let run = run(&["--insecure-dev-no-auth", "--control-addr", addr]);
            assert_eq!(run.config(), Err(UsageError::OpenToOthers(addr.parse().unwrap())));
        }
        for addr in ["127.0.0.1:8470", "127.8.8.8:0", "[::1]:8470"] {
            assert!(run(&["--insecure-dev-no-auth", "--control-addr", addr]).config().is_ok(), "{addr}");
        }
        assert!(run(&["--control-addr", "0.0.0.0:8470"]).config().is_ok(), "with authentication it may be anywhere");
    }

    #[test]
    fn the_password_in_a_hooks_address_is_told_nowhere() {
        for url in ["https://user:word@hooks.example/end", "http://user:word@hooks.example/end"] {
            let run = run(&["--remover-hook", url]);
            let told = format!("{run:?} {:?}", run.config().map_err(|error| error.to_string()));
            assert!(told.contains("hooks.example") && !told.contains("word"), "{told}");
        }
        let help = Cli::command().render_long_help().to_string();
        assert!(help.contains("[env: ROTATE_REMOVER_HOOK]"), "{help}");
    }

    #[test]
    fn shards_of_a_watch_that_there_is_not_are_refused() {
        let run = run(&["--pod-cache", "scoped", "--pod-shards", "4"]);
        assert_eq!(run.config(), Err(UsageError::ShardsOfScopes));
    }

    #[test]
    fn defaults_are_those_of_the_library() {
        assert_eq!(run(&[]).config().unwrap(), Config::default());
    }

    #[test]
    fn groups_of_ones_own_are_known_by_labels_and_their_autoscaler_by_its_status() {
        let config = run(&["--node-group-label", "a/b,c", "--node-group-label", "d"]).config().unwrap();
        assert_eq!(config.groups.labels, ["a/b", "c", "d"]);
        let config = run(&["--autoscaler-status", "scaling/state"]).config().unwrap();
        assert_eq!(config.groups.status, ("scaling".to_owned(), "state".to_owned()));
        for typed in ["state", "/state", "scaling/", "a/b/c"] {
            assert!(Cli::try_parse_from(["rotate-agent", "--autoscaler-status", typed]).is_err(), "{typed}");
        }
    }

    #[test]
    fn a_hook_that_cannot_be_used_safely_is_refused() {
        let open = run(&["--remover-hook", "http://hooks.example/"]).config().unwrap_err();
        assert!(open.to_string().contains("without TLS only on loopback"), "{open}");
        let hook = ["--remover-hook", "http://127.0.0.1:9/", "--remover-hook-secret-file"];
        let none = run(&[&hook[..], &["/nonesuch"]].concat()).config().unwrap_err();
        assert!(none.to_string().starts_with("--remover-hook-secret-file=/nonesuch: "), "{none}");
        assert!(run(&hook[..2]).config().unwrap().hook.is_some());
        assert!(Cli::try_parse_from(["rotate-agent", "--remover-hook-secret-file", "x"]).is_err());
    }

    #[cfg(feature = "tls")]
    #[test]
    fn a_certificate_comes_with_its_key_or_not_at_all() {
        assert_eq!(run(&[]).tls(), None);
        let typed = ["--tls-cert", "/tls/tls.crt", "--tls-key", "/tls/tls.key"];
        let (addr, files) = run(&typed).tls().unwrap();
        assert_eq!((addr.port(), addr.ip().is_unspecified()), (8443, true));
        assert_eq!(files.key, PathBuf::from("/tls/tls.key"));
        for half in [&typed[..2], &typed[2..]] {
            let cli = Cli::try_parse_from([&["rotate-agent"], half].concat());
            assert!(cli.unwrap_err().to_string().contains("required"), "{half:?}");
        }
    }

    #[test]
    fn pods_are_divided_among_a_power_of_two_of_watches() {
        assert_eq!(run(&["--pod-shards", "64"]).config().unwrap().pod_shards, 64);
        for refused in ["0", "3", "128", "256", "two"] {
            let cli = Cli::try_parse_from(["rotate-agent", "--pod-shards", refused]);
            assert!(cli.unwrap_err().to_string().contains("1, 2, 4"), "{refused}");
        }
    }

    #[test]
    fn pause_takes_no_flags_of_the_agent() {
        let cli = Cli::try_parse_from(["rotate-agent", "pause"]).unwrap();
        assert_eq!(cli.command, Some(Command::Pause));
        assert!(Cli::try_parse_from(["rotate-agent", "--max-concurrent", "2", "pause"]).is_err());
        assert!(Cli::try_parse_from(["rotate-agent", "--max-concurrent", "0"]).is_err());
    }
}
