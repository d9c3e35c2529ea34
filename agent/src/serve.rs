//! The agent as a process: its log, its client, its signals.

use anyhow::{Context as _, bail};
use kube::config::{KubeConfigOptions, Kubeconfig};
use tracing_subscriber::EnvFilter;

use crate::agent::{Agent, Listen};
use crate::cache::feed::{self, FeedError};
use crate::cli::{Cli, Command, LogFormat, Run};
use crate::clock::Clock;
use crate::signals::Signals;

/// Does what the command line says, until a signal ends it.
///
/// # Errors
///
/// The agent cannot start, or cannot go on.
pub async fn run(cli: Cli) -> anyhow::Result<()> {
    let mut signals = Signals::new().context("failed to listen for signals")?;
    match cli.command {
        Some(Command::Pause) => signals.next().await,
        None => agent(cli.run, signals).await?,
    }
    Ok(())
}

/// What is logged where `RUST_LOG` says nothing. kube tells of each request that fails; whoever asked tells what failed, and
/// why, and of the same thing once.
const FILTER: &str = "info,kube_client::client::builder=off";

async fn agent(run: Run, mut signals: Signals) -> anyhow::Result<()> {
    log(run.log_format);
    let config = run.config()?;
    let client = crate::client::production(kube_config(&run).await?).context("failed to set up the API client")?;
    refuse_ignored_shards(&client, config.pod_shards).await?;
    let mut agent = Agent::start(config, client, Clock::system());
    let listen = Listen { control: run.control_addr, authenticate: !run.insecure_dev_no_auth, ops: run.ops_addr };
    let listening = agent.listen(listen).await?;
    #[cfg(feature = "tls")]
    if let Some((addr, files)) = run.tls() {
        let tls = agent.listen_tls(addr, files).await.context("failed to open the TLS port")?;
        tracing::info!(%tls, "listening with TLS");
    }
    if run.insecure_dev_no_auth {
        tracing::warn!("the control port answers every program on this machine: for development only");
    }
    tracing::info!(control = %listening.control, ops = %listening.ops, version = env!("CARGO_PKG_VERSION"), "started");
    tokio::select! {
        error = agent.failed() => return Err(error.into()),
        () = signals.next() => {}
    }
    tracing::info!("ending");
    agent.shutdown().await;
    Ok(())
}

/// A server that ignores the shards is told of before anything is begun. One that cannot be asked now is asked again by
/// each feed.
async fn refuse_ignored_shards(client: &kube::Client, shards: u8) -> anyhow::Result<()> {
    match feed::confirm_shards(client.clone(), shards).await {
        Err(error @ FeedError::NotSharded) => bail!("--pod-shards={shards}: failed to {error}"),
        Err(error) => {
            tracing::warn!("failed to {error}");
            Ok(())
        }
        Ok(()) => Ok(()),
    }
}

async fn kube_config(run: &Run) -> anyhow::Result<kube::Config> {
    let Some(path) = &run.kubeconfig else {
        return kube::Config::infer().await.context("failed to find a kubeconfig or a service account");
    };
    let kubeconfig = Kubeconfig::read_from(path).with_context(|| format!("failed to read {}", path.display()))?;
    let config = kube::Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await;
    config.with_context(|| format!("failed to use {}", path.display()))
}

fn log(format: LogFormat) {
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new(FILTER));
    let log = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr);
    match format {
        LogFormat::Text => log.init(),
        LogFormat::Json => log.json().init(),
    }
}
