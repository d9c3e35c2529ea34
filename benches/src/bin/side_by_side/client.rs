//! A client's process.

use std::collections::BTreeMap;
use std::hash::Hash;
use std::io::Write as _;
use std::time::Duration;

use futures::StreamExt as _;
use k8s_openapi::api::core::v1::{Node, Pod};
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use kube::runtime::reflector::{self, Lookup, Store};
use kube::runtime::{WatchStreamExt as _, watcher};
use kube::{Api, Client};
use rotate_agent::cache::feed::Feeds;
use rotate_agent::cache::{Cache, State};
use rotate_agent::clock::Clock;
use rotate_benches::alloc;

use super::Reader;
use super::process::{self, Figures};

/// Reads the cluster, and writes one line of figures once all is there and a while has passed.
pub(super) fn run(reader: Reader, url: http::Uri, settle: u64) -> anyhow::Result<()> {
    // Everything happens on this thread: its counters are the process's.
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let clock = Clock::system();
        let client = rotate_agent::client::production(kube::Config::new(url))?;
        let before = (alloc::counts(), process::cpu("self")?);
        let started = clock.now();
        let (kept, pods) = match reader {
            Reader::Ours | Reader::OursJson | Reader::Agent => ours(client, clock).await,
            Reader::Reflector => theirs(client, |_| {}).await?,
            Reader::ReflectorCleared => theirs(client, clear).await?,
        };
        let ready = clock.now().duration_since(started).unsigned_abs();
        let cpu = process::cpu("self")? - before.1;
        let after = alloc::counts();
        clock.sleep(Duration::from_secs(settle)).await;
        let figures = Figures {
            pods,
            ready,
            cpu,
            settled_cpu: process::cpu("self")? - before.1,
            kept: Some(alloc::counts().live - before.0.live),
            allocations: Some(after.allocations - before.0.allocations),
            peak_rss: process::memory("self", "VmHWM")?,
            rss: process::memory("self", "VmRSS")?,
        };
        drop(kept);
        writeln!(std::io::stdout(), "{}", figures.to_line())?;
        Ok(())
    })
}

/// What must live until the figures are taken.
type Kept = Box<dyn std::any::Any>;

async fn ours(client: Client, clock: Clock) -> (Kept, usize) {
    let cache = Cache::new(State::default());
    let feeds = Feeds::run(client, cache.clone(), clock);
    cache.synced().await;
    let pods = cache.read().counts().pods;
    (Box::new((cache, feeds)), pods)
}

/// The same three kinds that our cache reads, each in a store of kube's.
async fn theirs(client: Client, change: fn(&mut Pod)) -> anyhow::Result<(Kept, usize)> {
    let mut tasks = tokio::task::JoinSet::new();
    let pods = reflect::<Pod>(&client, change, &mut tasks);
    let nodes = reflect::<Node>(&client, |_| {}, &mut tasks);
    let budgets = reflect::<PodDisruptionBudget>(&client, |_| {}, &mut tasks);
    pods.wait_until_ready().await?;
    nodes.wait_until_ready().await?;
    budgets.wait_until_ready().await?;
    let count = pods.len();
    Ok((Box::new((tasks, pods, nodes, budgets)), count))
}

fn reflect<K>(client: &Client, change: fn(&mut K), tasks: &mut tokio::task::JoinSet<()>) -> Store<K>
where
    K: kube::Resource<DynamicType = ()> + Lookup<DynamicType = ()>,
    K: Clone + std::fmt::Debug + serde::de::DeserializeOwned + Send + Sync + 'static,
    <K as Lookup>::DynamicType: Eq + Hash + Clone,
{
    let (store, writer) = reflector::store();
    let events = watcher(Api::<K>::all(client.clone()), watcher::Config::default()).default_backoff().modify(change);
    let events = events.reflect(writer);
    tasks.spawn(async move { events.for_each(|_| std::future::ready(())).await });
    store
}

/// What people clear to save memory.
fn clear(pod: &mut Pod) {
    pod.metadata.managed_fields = None;
    pod.metadata.annotations = Some(BTreeMap::new());
    pod.status = None;
}
