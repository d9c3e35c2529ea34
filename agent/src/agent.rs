//! The agent as one value: it owns every task; dropping it ends them all.

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use kube::Client;
use rotate_shared::names;
use tokio::sync::watch;
use tokio::task::{AbortHandle, JoinSet};
use tokio_util::sync::{CancellationToken, DropGuard};

use crate::cache::feed::{Feeds, Options};
use crate::cache::{Cache, State};
use crate::clock::Clock;
use crate::http;
use crate::http::listener::Listener;
#[cfg(feature = "tls")]
use crate::http::listener::tls;
use crate::http::traffic::Port;
use crate::lease::{self, Election, Rival, Times};
use crate::probe::{Probe, Standing};
use crate::provider::Reader;
use crate::provider::cluster_api::Management;
use crate::provider::cluster_autoscaler::groups::Settings as Groups;
use crate::provider::cluster_autoscaler::hook::Hook;
use crate::provider::cluster_autoscaler::keeper::Keeper;
use crate::rotation::store::Store;
use crate::rotation::views::Views;
use crate::rotation::{Engine, EngineConfig};

/// How long answers that are under way may take once the agent is asked to end.
const GRACE: Duration = Duration::from_secs(10);

const ELECTION: &str = "the election";

/// How an agent is set up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// How this process appears in the Lease; no other may have the same. Default [`lease::identity`].
    pub identity: Option<String>,
    /// Whether it may act. Without, it never stands for election: it shows what the records say and takes in wishes, for
    /// whoever leads. Default true.
    pub acts: bool,
    /// Whether the objects that it needs are in the cluster, or created before it begins anything. Default there.
    pub standing: Standing,
    /// Namespace of the records and the Lease. Default [`names::NAMESPACE`].
    pub namespace: String,
    /// Image that placeholders pause in. Default [`Config::PAUSE_IMAGE`].
    pub placeholder_image: String,
    /// How many nodes may be in work at once, over all batches. Default [`Config::MAX_CONCURRENT`].
    pub max_concurrent: u32,
    /// How many finished rotations are kept. Default [`Config::HISTORY_LIMIT`].
    pub history_limit: usize,
    /// Which Pods are read. Default all.
    pub pod_cache: PodCache,
    /// Over how many watches the Pods are divided; above 1 the API server must have the feature gate
    /// `ShardedListAndWatch`. Default 1.
    pub pod_shards: u8,
    /// Objects in a page of a list; 0 reads a list in one piece. Default [`Options::PAGE`].
    pub chunk_size: u32,
    /// Autoscaled groups beside those of EKS, GKE and AKS, and where their autoscaler tells of them.
    pub groups: Groups,
    /// What ends the machines of nodes that an autoscaler would keep. Default nothing.
    pub hook: Option<Hook>,
    /// The kubeconfig file of the cluster that Cluster API's objects are in. Default none.
    pub management_kubeconfig: Option<PathBuf>,
}

/// Which Pods an agent reads: `docs/decisions/009-scoped-cache.md`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum PodCache {
    /// All Pods of the cluster
    #[default]
    Cluster,
    /// Only those that rotations and plans are about: less to read, and no sums over the fleet
    Scoped,
}

impl Config {
    /// What the kubelet itself pauses in.
    pub const PAUSE_IMAGE: &str = "registry.k8s.io/pause:3.10";
    /// A guard against a batch that asks for too much, not a pace: batches are one at a time by default.
    pub const MAX_CONCURRENT: u32 = 5;
    /// A record is some 10 KiB: a few megabytes in all.
    pub const HISTORY_LIMIT: usize = 200;
}

impl Default for Config {
    fn default() -> Self {
        Self {
            identity: None,
            acts: true,
            standing: Standing::Installed,
            namespace: names::NAMESPACE.to_owned(),
            placeholder_image: Self::PAUSE_IMAGE.to_owned(),
            max_concurrent: Self::MAX_CONCURRENT,
            history_limit: Self::HISTORY_LIMIT,
            pod_cache: PodCache::default(),
            pod_shards: 1,
            chunk_size: Options::PAGE,
            groups: Groups::default(),
            hook: None,
            management_kubeconfig: None,
        }
    }
}

/// Where an agent listens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Listen {
    /// The control API. Port 0 takes any that is free.
    pub control: SocketAddr,
    /// Whether its callers must show a token.
    pub authenticate: bool,
    /// Health and metrics. Port 0 takes any that is free.
    pub ops: SocketAddr,
}

/// Why an agent cannot go on.
#[derive(Debug, thiserror::Error)]
pub enum AgentError {
    /// The port is taken, or not ours to take.
    #[error("listen on {addr}: {source}")]
    Listen {
        /// Where.
        addr: SocketAddr,
        /// Why not.
        #[source]
        source: io::Error,
    },
    /// The certificate of the TLS port cannot be used.
    #[cfg(feature = "tls")]
    #[error(transparent)]
    Certificate(#[from] tls::CertificateError),
    /// Rotations go forward in another process; `None`: in none that the Lease names.
    #[error("lead: {} does", .0.as_deref().unwrap_or("an agent that could not be asked for"))]
    Led(Option<String>),
    /// A task that must not end has ended.
    #[error("go on: {0} ended")]
    TaskEnded(String),
}

/// A running agent. Its tasks live as long as this value: dropping it is the kill.
#[derive(Debug)]
pub struct Agent {
    api: http::Api,
    holder: watch::Receiver<Option<String>>,
    rival: watch::Receiver<Option<Rival>>,
    // Feeds, records, election, engine: each ends only by a defect, or by `resign`.
    tasks: JoinSet<&'static str>,
    engine: AbortHandle,
    // Each ends only by a defect, or by `api.closing`.
    servers: JoinSet<&'static str>,
    resign: CancellationToken,
    // What requests have begun in tasks of their own ends by this.
    _closing: DropGuard,
}

impl Agent {
    /// Starts the agent's tasks on the present runtime.
    #[must_use]
    pub fn start(config: Config, client: Client, clock: Clock) -> Self {
        let management = config.management_kubeconfig.as_deref().map(Management::file);
        Self::start_managed(config, client, management, clock)
    }

    /// The same with a way to the management cluster that is there already.
    #[must_use]
    pub fn start_managed(config: Config, client: Client, management: Option<Management>, clock: Clock) -> Self {
        let times = Times::default();
        let identity = config.identity.unwrap_or_else(|| lease::identity(clock));
        let election = Election::new(client.clone(), &config.namespace, names::AGENT, &identity, times, clock);
        let (term, holder, rival) = (election.subscribe(), election.holder(), election.rival());
        let cache = Cache::new(match config.pod_cache {
            PodCache::Cluster => State::default(),
            PodCache::Scoped => State::scoped(),
        });
        let store = Store::new(client.clone(), &config.namespace, clock);
        let views = Views::default();
        let probe = Probe::new(client.clone(), config.placeholder_image.clone(), config.standing, clock);
        let groups = Arc::new(Groups { hook: config.hook.is_some(), ..config.groups });
        let keeper =
            Keeper::new(client.clone(), &config.namespace, cache.clone(), Arc::clone(&groups), term.clone(), clock);
        let reader = Reader::new(client.clone(), clock)
            .with_groups(groups, keeper.remembered())
            .with_management(management, cache.clone());
        let engine = EngineConfig {
            reader: reader.clone(),
            hook: config.hook,
            placeholder_image: config.placeholder_image,
            max_concurrent: config.max_concurrent,
            history_limit: config.history_limit,
            effect_timeout: times.wait,
        };
        let engine =
            Engine::new(engine, client.clone(), cache.clone(), store.clone(), views.clone(), term.clone(), clock);
        let resign = CancellationToken::new();
        let options = Options { shards: config.pod_shards, page: config.chunk_size, ..Options::default() };
        let mut feeds = Feeds::run_with(client.clone(), options, cache.clone(), clock);

        let mut tasks = JoinSet::new();
        tasks.spawn(async move {
            let ended = feeds.ended().await;
            tracing::error!("{ended} ended");
            "a feed"
        });
        tasks.spawn(async move {
            keeper.run().await;
            "the keeper of groups"
        });
        let records = store.clone();
        tasks.spawn(async move {
            records.run().await;
            "the watch of the records"
        });
        let resigned = resign.clone().cancelled_owned();
        let acts = config.acts;
        tasks.spawn(async move {
            if acts {
                election.run(resigned).await;
            } else {
                resigned.await;
            }
            ELECTION
        });
        let engine = tasks.spawn(async move {
            engine.run().await;
            "the engine"
        });
        let closing = CancellationToken::new();
        let traffic = Arc::default();
        let looks = http::Looks::new(store.clone());
        let api = http::Api {
            cache,
            views,
            store,
            looks,
            term,
            client,
            reader,
            probe,
            clock,
            traffic,
            settling: Arc::default(),
            closing,
        };
        let closing = api.closing.clone().drop_guard();
        Self { api, holder, rival, tasks, engine, servers: JoinSet::new(), resign, _closing: closing }
    }

    /// Opens the ports; the addresses returned are those taken.
    ///
    /// # Errors
    ///
    /// A port cannot be taken.
    pub async fn listen(&mut self, listen: Listen) -> Result<Listen, AgentError> {
        let control = self.bind(Port::Control, listen.control).await?;
        let ops = self.bind(Port::Ops, listen.ops).await?;
        let taken = Listen { control: control.addr(), ops: ops.addr(), ..listen };
        let router = if listen.authenticate { self.guarded() } else { self.open() };
        self.serve("the control port", control, router);
        self.serve("the ops port", ops, http::ops_router(self.api.clone()));
        Ok(taken)
    }

    /// Opens the control API over TLS, to callers with a token; the address returned is the one taken.
    ///
    /// # Errors
    ///
    /// The certificate cannot be used, or the port cannot be taken.
    #[cfg(feature = "tls")]
    pub async fn listen_tls(&mut self, addr: SocketAddr, files: tls::Files) -> Result<SocketAddr, AgentError> {
        let certificate = tls::Certificate::read(files)?;
        let listener = self.bind(Port::Tls, addr).await?.with_tls(certificate.acceptor()?);
        let addr = listener.addr();
        let router = self.guarded();
        self.serve("the TLS port", listener, router);
        let (clock, traffic, closing) = (self.api.clock, Arc::clone(&self.api.traffic), self.api.closing.clone());
        self.servers.spawn(async move {
            tokio::select! {
                () = certificate.watch(clock, &traffic) => {}
                () = closing.cancelled() => {}
            }
            "the watch of the certificate"
        });
        Ok(addr)
    }

    async fn bind(&self, port: Port, addr: SocketAddr) -> Result<Listener, AgentError> {
        let bound = Listener::bind(port, addr, self.api.clock, Arc::clone(&self.api.traffic)).await;
        bound.map_err(|source| AgentError::Listen { addr, source })
    }

    /// Each port that has it has limits of its own.
    fn guarded(&self) -> Router {
        http::guard(self.router(), self.api.client.clone(), self.api.clock, Arc::clone(&self.api.traffic))
    }

    fn open(&self) -> Router {
        http::guard_open(self.router(), self.api.clock, Arc::clone(&self.api.traffic))
    }

    fn serve(&mut self, name: &'static str, listener: Listener, router: Router) {
        let closing = self.api.closing.clone();
        self.servers.spawn(async move {
            listener.serve(router, closing).await;
            name
        });
    }

    /// The control API without authentication, for callers in this process.
    pub fn router(&self) -> Router {
        http::control_router(self.api.clone())
    }

    /// The rotations as shown to people.
    #[must_use]
    pub fn views(&self) -> &Views {
        &self.api.views
    }

    /// Waits until the cluster and the records were read: from here on requests are answered.
    pub async fn ready(&self) {
        self.api.cache.synced().await;
        // The sender lives as long as this value.
        let _ = self.api.views.subscribe().wait_for(Option::is_some).await;
    }

    /// Waits until this agent leads: from here on rotations go forward.
    ///
    /// # Errors
    ///
    /// [`AgentError::Led`] where another agent still holds the Lease after `patience`. One that has just died holds it
    /// for another 15 s.
    pub async fn leads(&self, patience: Duration) -> Result<(), AgentError> {
        let mut term = self.api.term.clone();
        let leads = async { term.wait_for(Option::is_some).await.is_ok() };
        if tokio::time::timeout(patience, leads).await.unwrap_or(false) {
            return Ok(());
        }
        Err(AgentError::Led(self.holder.borrow().clone()))
    }

    /// Who else holds the Lease, as last seen.
    #[must_use]
    pub fn rival(&self) -> Option<Rival> {
        self.rival.borrow().clone()
    }

    /// Waits until a task ends that must not.
    pub async fn failed(&mut self) -> AgentError {
        let ended = tokio::select! {
            Some(ended) = self.tasks.join_next() => ended,
            Some(ended) = self.servers.join_next() => ended,
            else => return std::future::pending().await,
        };
        AgentError::TaskEnded(ended.map_or_else(|error| error.to_string(), ToOwned::to_owned))
    }

    /// Ends in order: nothing new is begun, requests under way are answered, the lead is given up.
    pub async fn shutdown(mut self) {
        self.api.closing.cancel();
        self.engine.abort();
        // Whoever takes the Lease acts at once: no call of ours may be on its way by then.
        while let Some(ended) = self.tasks.join_next().await {
            if ended.is_err_and(|error| error.is_cancelled()) {
                break;
            }
        }
        self.resign.cancel();
        let all = async {
            while self.servers.join_next().await.is_some() {}
            while self.tasks.join_next().await.is_some_and(|ended| ended.ok() != Some(ELECTION)) {}
        };
        if tokio::time::timeout(GRACE, all).await.is_err() {
            tracing::warn!("some requests were not answered in time");
        }
    }
}

#[cfg(test)]
mod tests;
