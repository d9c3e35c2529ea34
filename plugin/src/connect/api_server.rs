//! The API server as a program talks to it: what its flags and kubeconfig mean is [`cluster`]'s business.

use std::fmt;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use kube::Client;
use rotate_agent::client::{Server, said, unfit};
use tokio::runtime::Handle;
use tokio::time::timeout;

use super::{cluster, trace};
use crate::cli::ConnectionFlags;
use crate::failure::Failure;
use crate::output::console;
use crate::secret::without_credentials;

/// A credential plugin is asked for this long before a person is told what is waited for.
const WONDERS: Duration = Duration::from_secs(5);

/// The API server, connected to: nothing has been asked yet.
#[derive(Clone)]
pub(crate) struct ApiServer {
    /// Asks it.
    pub(crate) client: Client,
    /// Opens connections through it that may be silent for longer than an answer may take.
    pub(crate) patient: Client,
    /// Where it is, as it may be repeated.
    pub(crate) server: String,
    /// The flags that lead to it again.
    pub(crate) again: String,
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
        let (flags, runtime) = (flags.clone(), Handle::current());
        let asked = Arc::new(OnceLock::new());
        let asks = Arc::clone(&asked);
        // kube waits for files and for the credential plugin without letting anything else go on: Ctrl-C would not be heard.
        let mut connected = tokio::task::spawn_blocking(move || runtime.block_on(Self::connect_here(&flags, &asks)));
        let connected = match timeout(WONDERS, &mut connected).await {
            Ok(connected) => connected,
            Err(_) => {
                if let Some(plugin) = asked.get() {
                    console::aside(&format!("Waiting for the credential plugin {plugin} …"));
                }
                connected.await
            }
        };
        connected.unwrap_or_else(|error| Err(Failure::Other(format!("prepare to ask the API server: {error}"))))
    }

    /// Says which credential plugin it asks, where there is one.
    async fn connect_here(flags: &ConnectionFlags, asks: &OnceLock<String>) -> Result<Self, Failure> {
        let config = cluster::config(flags).await?;
        let (url, answer_within) = (config.cluster_url.to_string(), config.read_timeout);
        let url = without_credentials(&url).into_owned();
        let plugin = config.auth_info.exec.as_ref().and_then(|exec| exec.command.clone());
        if let Some(plugin) = &plugin {
            // Only the first is told of.
            let _ = asks.set(plugin.clone());
        }
        let server = Server::new(config).map_err(|error| unusable(&error, plugin))?;
        // A `--request-timeout` is about requests: it must not end a connection that is forwarded.
        let client = client(&server, answer_within, &url)?;
        let patient = if answer_within.is_some() { self::client(&server, None, &url)? } else { client.clone() };
        Ok(Self { client, patient, server: url, again: flags.again() })
    }
}

/// A client that tells of its requests where `-v` asks for it.
fn client(server: &Server, answer_within: Option<Duration>, url: &str) -> Result<Client, Failure> {
    let builder = server.builder(answer_within).map_err(|error| unusable(&error, None))?;
    Ok(builder.with_layer(&tower::layer::layer_fn(|inner| trace::Traced::new(inner, url))).build())
}

/// kube does not say which program it could not run: the credential plugin is named here.
fn unusable(error: &kube::Error, plugin: Option<String>) -> Failure {
    let why = match (error, plugin) {
        (kube::Error::Auth(error), Some(command)) => format!("credential plugin {command}: {}", unfit(error)),
        _ => said(error),
    };
    Failure::Cluster(format!("the kubeconfig cannot be used: {why}"))
}
