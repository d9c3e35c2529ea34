//! The feed on a real API server: each way of reading gives the same cache, and nothing that happens on the way is lost.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use k8s_openapi::api::core::v1;
use kube::api::{Api, DeleteParams, ListParams};
use kube::{Client, ResourceExt};
use rotate_agent::cache::feed::{self, FeedError, FeedHealth, Feeds, Options};
use rotate_agent::cache::{Cache, Kind, Node, Pod, State};
use rotate_agent::clock::Clock;
use tokio::process::Command;

use crate::harness::ControlPlane;
use crate::harness::credentials::User;
use crate::harness::nodes::FakeNode;
use crate::harness::proxy::Proxy;
use crate::harness::wait::eventually;
use crate::harness::workloads::{self, Workload};

const SOON: Duration = Duration::from_secs(30);

/// A cache that is being fed.
struct Fed {
    cache: Cache,
    _feeds: Feeds,
}

impl Fed {
    fn start(client: &Client, options: Options) -> Self {
        let cache = Cache::new(State::default());
        Self { _feeds: Feeds::run_with(client.clone(), options, cache.clone(), Clock::system()), cache }
    }

    async fn synced(client: &Client, options: Options) -> Result<Self> {
        let fed = Self::start(client, options);
        tokio::time::timeout(SOON, fed.cache.synced()).await.with_context(|| format!("{:?}", fed.health()))?;
        Ok(fed)
    }

    fn health(&self) -> FeedHealth {
        self.cache.health().of(Kind::Pods)
    }

    /// The Pods of a namespace, by UID.
    fn pods(&self, namespace: &str) -> Vec<Pod> {
        let mut pods: Vec<_> = self.cache.read().pods().filter(|pod| &*pod.namespace == namespace).collect();
        pods.sort_by(|a, b| a.uid.cmp(&b.uid));
        pods
    }

    /// The nodes whose names begin with this.
    fn nodes(&self, prefix: &str) -> Vec<Node> {
        let state = self.cache.read();
        state.nodes().filter(|node| node.name.starts_with(prefix)).map(|node| Node::clone(node)).collect()
    }

    /// Waits until the Pods of a namespace are those that the API server lists, and none else.
    async fn follows(&self, client: &Client, namespace: &str) -> Result<()> {
        let pods = Api::<v1::Pod>::namespaced(client.clone(), namespace);
        eventually(&format!("the cache to follow: {:?}", self.health()), SOON, async || {
            let listed = pods.list(&ListParams::default()).await?;
            let mut listed: Vec<_> = listed.items.iter().map(|pod| (pod.uid(), pod.resource_version())).collect();
            listed.sort();
            let cached = self.pods(namespace);
            let same = cached.len() == listed.len()
                && cached.iter().zip(&listed).all(|(pod, (uid, _))| Some(&*pod.uid) == uid.as_deref());
            Ok(same.then_some(()))
        })
        .await
    }
}

pub(crate) async fn every_way_of_reading_gives_the_same_cache(plane: &ControlPlane) -> Result<()> {
    let client = plane.client().await?;
    let ns = "feed";
    workloads::namespace(&client, ns).await?;
    for name in ["feed-1", "feed-2"] {
        FakeNode::new(name).label("pool", ns).allocatable("cpu", "16").create_ready(&client).await?;
    }
    let in_feed = |spec: &mut v1::PodSpec| spec.node_selector = Some([("pool".to_owned(), ns.to_owned())].into());
    Workload::new(ns, "web", 20).spec(in_feed).deployment(&client).await?;
    Workload::new(ns, "state", 3).spec(in_feed).stateful_set(&client).await?;
    workloads::running(&client, ns, "web", 20, SOON).await?;
    workloads::running(&client, ns, "state", 3, SOON).await?;

    let first = Fed::synced(&client, Options::default()).await?;
    let (pods, nodes) = (first.pods(ns), first.nodes("feed-"));
    ensure!(pods.len() == 23 && nodes.len() == 2, "{} Pods, {} nodes", pods.len(), nodes.len());
    ensure!(first.health().unreadable == 0 && first.health().lists == 1);
    for (protobuf, stream, shards) in
        [(true, false, 1), (false, true, 1), (false, false, 1), (true, true, 4), (true, false, 4)]
    {
        let options = Options { protobuf, stream, shards, ..Options::default() };
        let fed = Fed::synced(&client, options).await?;
        ensure!(fed.pods(ns) == pods, "{options:?}");
        ensure!(fed.nodes("feed-") == nodes, "{options:?}");
        let health = fed.health();
        ensure!(health.errors == 0 && health.unreadable == 0 && health.unknown == 0, "{options:?} {health:?}");
        ensure!(health.lists == u64::from(shards), "{options:?} {health:?}");
    }

    let sharded = Fed::synced(&client, Options { shards: 4, ..Options::default() }).await?;
    let health = sharded.cache.health();
    let shards: Vec<_> = health.feeds().filter(|(source, _)| source.kind == Kind::Pods).collect();
    ensure!(shards.len() == 4 && shards.iter().all(|(_, feed)| feed.objects > 0), "{shards:?}");
    // A Pod that comes through two shards would be read twice; one that changes meanwhile is, so that the last word is had
    // by a cluster in which nothing happens.
    let counted = eventually("a moment without changes", SOON, async || {
        let fed = Fed::synced(&client, Options { shards: 4, ..Options::default() }).await?;
        let cached = u64::try_from(fed.cache.read().pods().count())?;
        Ok((fed.health().objects == cached).then_some(cached))
    });
    ensure!(counted.await? >= 23);
    Api::<v1::Pod>::namespaced(client.clone(), ns).delete(&pods[0].name, &DeleteParams::default()).await?;
    sharded.follows(&client, ns).await?;
    first.follows(&client, ns).await?;
    Ok(())
}

pub(crate) async fn a_feed_survives_whatever_happens_to_its_connections() -> Result<()> {
    let mut plane = ControlPlane::start().await?;
    let client = plane.client().await?;
    let ns = "cut";
    workloads::namespace(&client, ns).await?;
    let workload = Workload::new(ns, "web", 5);
    workload.deployment(&client).await?;
    let proxy = Proxy::to(&plane.server()).await?;
    let fed = Fed::synced(&plane.client_through(proxy.url()).await?, Options::default()).await?;
    fed.follows(&client, ns).await?;

    // A dropped connection goes on from where it was.
    ensure!(proxy.cut() >= 1, "the feeds come by the proxy");
    delete_one(&client, ns).await?;
    fed.follows(&client, ns).await?;
    let health = fed.health();
    ensure!(health.lists == 1 && health.errors >= 1, "{health:?}");

    // A server that comes back may have forgotten our resourceVersion: then what is there is listed over it.
    plane.restart_apiserver().await?;
    let client = plane.client().await?;
    delete_one(&client, ns).await?;
    fed.follows(&client, ns).await?;
    ensure!(fed.health().lists == 2, "{:?}", fed.health());
    eventually("the feeds to be connected", SOON, async || Ok(fed.health().connected.then_some(()))).await?;

    // One without the feature gates lists in pages, and says that it divides nothing.
    plane.restart_apiserver_with("ShardedListAndWatch=false,WatchList=false").await?;
    let client = plane.client().await?;
    let mark = plane.audit().mark()?;
    let paged = Fed::synced(&client, Options::default()).await?;
    let alike = eventually("both to read the same", SOON, async || Ok((paged.pods(ns) == fed.pods(ns)).then_some(())));
    alike.await?;
    ensure!(paged.health().errors == 0 && paged.health().lists == 1, "{:?}", paged.health());
    let asked = plane.audit().of(User::Admin.name(), mark)?;
    let streams = asked.iter().filter(|it| it.uri.contains("sendInitialEvents") && it.uri.contains("/pods?"));
    ensure!(streams.map(|it| it.code()).eq([422]), "asked to stream once, and refused");
    ensure!(asked.iter().any(|it| it.uri.starts_with("/api/v1/pods?limit=500")));
    let refused = feed::confirm_shards(client.clone(), 4).await;
    ensure!(matches!(refused, Err(FeedError::NotSharded)), "{refused:?}");
    let agent = Command::new(env!("CARGO_BIN_EXE_rotate-agent"))
        .args(["--pod-shards=4", "--control-addr=127.0.0.1:0", "--ops-addr=127.0.0.1:0", "--kubeconfig"])
        .arg(plane.kubeconfig_path())
        .kill_on_drop(true)
        .output();
    let ended = tokio::time::timeout(SOON, agent).await.context("the agent refuses to start")??;
    let said = String::from_utf8_lossy(&ended.stderr);
    ensure!(ended.status.code() == Some(1), "{said}");
    ensure!(said.contains("--pod-shards=4") && said.contains("feature gate ShardedListAndWatch"), "{said}");
    fed.follows(&client, ns).await?;
    Ok(())
}

/// Deletes some Pod, which its owner replaces.
async fn delete_one(client: &Client, namespace: &str) -> Result<()> {
    let pods = Api::<v1::Pod>::namespaced(client.clone(), namespace);
    let some = pods.list(&ListParams::default()).await?.items.into_iter().next().context("there are Pods")?;
    pods.delete(&some.name_any(), &DeleteParams::default()).await?;
    Ok(())
}
