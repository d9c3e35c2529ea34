//! The server's process.

use std::io::Write as _;
use std::sync::Arc;

use anyhow::Context as _;
use rotate_agent::clock::Clock;
use rotate_benches::realistic::Realistic;
use rotate_benches::server::{Objects, Speaks, router};
use rotate_benches::wire::Encoding;
use tokio::net::TcpListener;

use super::Cluster;

/// Serves until it is killed; its first line says where: whatever the client prefers, and only JSON.
pub(super) fn run(cluster: Cluster) -> anyhow::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(serve(cluster))
}

async fn serve(cluster: Cluster) -> anyhow::Result<()> {
    let nodes = cluster.nodes.unwrap_or(Realistic::nodes_for(cluster.pods));
    let make = if cluster.hostile { Realistic::hostile } else { Realistic::new };
    let realistic = make(cluster.pods, nodes);
    realistic.prepare(Encoding::Protobuf);
    realistic.prepare(Encoding::Json);
    let clock = Clock::system();
    let objects = Arc::new(Objects::new(realistic, cluster.churn, clock));
    let both = TcpListener::bind(cluster.listen).await.context("failed to listen")?;
    let json = TcpListener::bind((cluster.listen.ip(), 0)).await.context("failed to listen")?;
    writeln!(std::io::stdout(), "http://{} http://{}", both.local_addr()?, json.local_addr()?)?;
    tokio::try_join!(
        axum::serve(both, router(Arc::clone(&objects), Speaks::Both, clock)),
        axum::serve(json, router(objects, Speaks::JsonOnly, clock)),
    )?;
    Ok(())
}
