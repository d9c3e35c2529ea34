//! The same cluster read by our cache, by our agent, and by kube's `reflector`, each in a process of its own, from a
//! server in a process of its own.

mod client;
mod parent;
mod process;
mod requests;
mod serve;
mod table;

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};
use rotate_benches::alloc::Counting;

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Reads one cluster with several clients and shows what it costs each
#[derive(Debug, Parser)]
struct Cli {
    #[command(subcommand)]
    command: Option<Command>,
    #[command(flatten)]
    run: Run,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Only serve the cluster, until terminated
    Serve(Cluster),
    /// What a request costs the agent's binary while Pods come and go
    Requests(requests::Load),
    /// Only read it, and write one line of figures
    Read {
        /// As which client
        #[arg(value_enum)]
        reader: Reader,
        /// From where
        url: http::Uri,
        /// Seconds between being ready and the last figures
        #[arg(long, default_value_t = 5)]
        settle: u64,
    },
}

/// How the clients are compared.
#[derive(Debug, Args)]
struct Run {
    #[command(flatten)]
    cluster: Cluster,
    /// Only these clients
    #[arg(long, value_enum, value_delimiter = ',')]
    only: Vec<Reader>,
    /// How often each reads; shown is the run with the median of CPU time
    #[arg(long, default_value_t = 1)]
    runs: usize,
    /// Seconds between being ready and the last figures
    #[arg(long, default_value_t = 5)]
    settle: u64,
    /// The agent's binary; by default beside this one
    #[arg(long)]
    agent: Option<PathBuf>,
}

/// What is served.
#[derive(Clone, Copy, Debug, Args)]
struct Cluster {
    /// Pods
    #[arg(long, default_value_t = 50_000)]
    pods: usize,
    /// Nodes; by default one for ten Pods, at most 5,000
    #[arg(long)]
    nodes: Option<usize>,
    /// Pods replaced each second
    #[arg(long, default_value_t = 0)]
    churn: u64,
    /// Pods that share as little as can be
    #[arg(long)]
    hostile: bool,
    /// Where to listen; any free port without
    #[arg(long, default_value = "127.0.0.1:0")]
    listen: SocketAddr,
}

/// A client.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Reader {
    /// Our cache, as it prefers: protobuf
    Ours,
    /// Our cache, from a server that speaks only JSON
    OursJson,
    /// The agent's binary
    Agent,
    /// kube's reflector with whole Pods
    Reflector,
    /// kube's reflector, managed fields, status and annotations cleared
    ReflectorCleared,
}

fn main() -> anyhow::Result<()> {
    rustls::crypto::ring::default_provider().install_default().expect("nothing has installed another one");
    let cli = Cli::parse();
    match cli.command {
        Some(Command::Serve(cluster)) => serve::run(cluster),
        Some(Command::Requests(load)) => requests::run(&load),
        Some(Command::Read { reader, url, settle }) => client::run(reader, url, settle),
        None => parent::run(&cli.run),
    }
}
