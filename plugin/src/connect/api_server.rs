//! The API server as a program talks to it: what its flags and kubeconfig mean is [`cluster`]'s business.

use std::fmt;

use kube::client::ClientBuilder;
use kube::{Client, Config};

use super::{cluster, trace};
use crate::cli::ConnectionFlags;
use crate::failure::Failure;

/// The API server, connected to: nothing has been asked yet.
#[derive(Clone)]
pub(crate) struct ApiServer {
    /// Asks it.
    pub(crate) client: Client,
    /// Opens connections through it that may be silent for longer than an answer may take.
    pub(crate) patient: Client,
    /// Where it is.
    pub(crate) server: String,
}

impl fmt::Debug for ApiServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ApiServer").field("server", &self.server).finish_non_exhaustive()
    }
}

impl ApiServer {
    /// The one that these flags mean.
    ///
    /// # Errors
    ///
    /// A kubeconfig that is of no use, and none at all.
    pub(crate) async fn connect(flags: &ConnectionFlags) -> Result<Self, Failure> {
        let config = cluster::config(flags).await?;
        let server = config.cluster_url.to_string();
        // A `--request-timeout` is about requests: it must not end a connection that is forwarded.
        let limited = flags.request_timeout.is_some_and(|timeout| !timeout.0.is_zero());
        let mut unlimited = config.clone();
        unlimited.read_timeout = None;
        let client = client(config)?;
        let patient = if limited { self::client(unlimited)? } else { client.clone() };
        Ok(Self { client, patient, server })
    }
}

/// A client that tells of its requests where `-v` asks for it.
fn client(config: Config) -> Result<Client, Failure> {
    let server = config.cluster_url.to_string();
    let plugin = config.auth_info.exec.as_ref().and_then(|exec| exec.command.clone());
    let builder = ClientBuilder::try_from(rotate_agent::client::prudent(config)).map_err(|error| {
        // kube does not say which program it could not run.
        let whose = match (&error, plugin) {
            (kube::Error::Auth(_), Some(command)) => format!("credential plugin {command}: "),
            _ => String::new(),
        };
        Failure::Cluster(format!("the kubeconfig cannot be used: {whose}{error}"))
    })?;
    Ok(builder.with_layer(&tower::layer::layer_fn(|inner| trace::Traced::new(inner, &server))).build())
}
