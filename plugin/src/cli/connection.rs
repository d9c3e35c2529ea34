//! Where the agent and the cluster are: the flags that every verb has.

use std::path::PathBuf;

use clap::Args;
use clap::builder::{OsStringValueParser, TypedValueParser as _};
use rotate_agent::PodCache;

use super::GoDuration;
use super::switch::{Switch, SwitchArg as _};
use crate::secret::Secret;

/// Where the agent is.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Agent")]
pub(crate) struct AgentFlags {
    /// Where the agent's control port answers, as http://127.0.0.1:8470; without it a port is forwarded to the agent's Pod
    #[arg(long, global = true, env = "ROTATE_AGENT_URL", hide_env_values = true, value_name = "URL")]
    pub(crate) agent_url: Option<String>,
    /// Path to a cert file for the authority that signed the certificate of the agent at --agent-url
    #[arg(
        long,
        global = true,
        env = "ROTATE_AGENT_CA",
        hide_env_values = true,
        value_name = "FILE",
        hide_short_help = true
    )]
    pub(crate) agent_ca: Option<PathBuf>,
    /// The agent's namespace
    #[arg(long, global = true, default_value = rotate_shared::names::NAMESPACE, value_name = "NAMESPACE", value_parser = namespace, hide_short_help = true)]
    pub(crate) agent_namespace: String,
    /// Run the agent inside this command, with your kubeconfig, for as long as it runs
    #[arg(long, global = true, switch(Switch::Off))]
    pub(crate) embedded: bool,
    /// Which Pods the agent inside this command reads: scoped, those that its rotations and plans are about; or cluster,
    /// all of them
    #[arg(
        long,
        global = true,
        value_enum,
        value_name = "scoped|cluster",
        hide_possible_values = true,
        hide_short_help = true
    )]
    pub(crate) pod_cache: Option<PodCache>,
    /// Objects in a page of the lists that this command reads itself, 0 for lists in one piece
    #[arg(long, global = true, default_value_t = rotate_agent::cache::feed::Options::PAGE, value_name = "N", hide_short_help = true)]
    pub(crate) chunk_size: u32,
}

/// kubectl's own connection flags.
#[derive(Args, Clone, Debug, Default)]
#[command(next_help_heading = "Connection, as in kubectl")]
pub(crate) struct ConnectionFlags {
    /// Path to the kubeconfig file
    #[arg(long, global = true, value_name = "FILE", value_parser = OsStringValueParser::new().map(PathBuf::from), hide_short_help = true)]
    pub(crate) kubeconfig: Option<PathBuf>,
    /// The name of the kubeconfig context to use
    #[arg(long, global = true, value_name = "NAME", hide_short_help = true)]
    pub(crate) context: Option<String>,
    /// The name of the kubeconfig cluster to use
    #[arg(long, global = true, value_name = "NAME", hide_short_help = true)]
    pub(crate) cluster: Option<String>,
    /// The name of the kubeconfig user to use
    #[arg(long, global = true, value_name = "NAME", hide_short_help = true)]
    pub(crate) user: Option<String>,
    /// The address and port of the Kubernetes API server
    #[arg(long, short = 's', global = true, value_name = "URL", hide_short_help = true)]
    pub(crate) server: Option<String>,
    /// Server name to use for server certificate validation
    #[arg(long, global = true, value_name = "NAME", hide_short_help = true)]
    pub(crate) tls_server_name: Option<String>,
    /// Do not check the server's certificate: insecure
    #[arg(long, global = true, switch(Switch::Ungiven), hide_short_help = true)]
    pub(crate) insecure_skip_tls_verify: Option<bool>,
    /// Path to a certificate file of the certificate authority
    #[arg(long, global = true, value_name = "FILE", hide_short_help = true)]
    pub(crate) certificate_authority: Option<String>,
    /// Path to a client certificate file for TLS
    #[arg(long, global = true, value_name = "FILE", hide_short_help = true)]
    pub(crate) client_certificate: Option<String>,
    /// Path to a client key file for TLS
    #[arg(long, global = true, value_name = "FILE", hide_short_help = true)]
    pub(crate) client_key: Option<String>,
    /// Bearer token for authentication
    #[arg(long, global = true, value_name = "TOKEN", hide_short_help = true)]
    pub(crate) token: Option<Secret>,
    /// User to impersonate
    #[arg(long = "as", global = true, value_name = "USER", hide_short_help = true)]
    pub(crate) impersonate: Option<String>,
    /// UID to impersonate
    #[arg(long, global = true, value_name = "UID", hide_short_help = true)]
    pub(crate) as_uid: Option<String>,
    /// Group to impersonate; may be given several times
    #[arg(long, global = true, value_name = "GROUP", hide_short_help = true)]
    pub(crate) as_group: Vec<String>,
    /// User extra to impersonate, KEY=VALUE; may be given several times
    #[arg(long, global = true, value_name = "KEY=VALUE", hide_short_help = true)]
    pub(crate) as_user_extra: Vec<String>,
    /// How long to wait for a single request, 0 for ever
    #[arg(long, global = true, value_name = "DURATION", value_parser = GoDuration::or_seconds, hide_short_help = true)]
    pub(crate) request_timeout: Option<GoDuration>,
    /// Accepted and without effect: nodes have no namespace
    #[arg(long, short = 'n', global = true, value_name = "NAMESPACE", hide_short_help = true)]
    pub(crate) namespace: Option<String>,
    /// How much to log: 6 shows requests, 8 their bodies, without tokens
    #[arg(
        long = "v",
        short = 'v',
        global = true,
        value_name = "LEVEL",
        default_value = "0",
        hide_default_value = true,
        hide_short_help = true
    )]
    pub(crate) verbosity: u8,
}

/// It becomes part of paths: what no API server takes for a namespace is let nowhere.
fn namespace(text: &str) -> Result<String, String> {
    let fine = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    match text {
        "" => Ok(rotate_shared::names::NAMESPACE.to_owned()),
        name if name.len() <= 63 && name.chars().all(fine) && !name.starts_with('-') && !name.ends_with('-') => {
            Ok(name.to_owned())
        }
        _ => Err("it is not the name of a namespace".to_owned()),
    }
}
