//! The feed against the simulated cluster, whose watches are cut, whose history is forgotten, which refuses for a while.

use std::time::Duration;

use kube::Client;
use rotate_sim::{NodeSpec, Settings, Sim, objects};
use serde_json::Value;

use crate::cache::feed::{FeedError, Feeds, confirm_shards, list_node_pods};
use crate::cache::index::Kind;
use crate::cache::{Cache, Pod, State, decode};
use crate::clock::Clock;

struct Fed {
    sim: Sim,
    client: Client,
    cache: Cache,
    clock: Clock,
    _feeds: Feeds,
}

async fn fed() -> Fed {
    let sim = Sim::start(Settings::default());
    let client = Client::new(sim.router(), "default");
    let clock = Clock::starting_at(sim.now());
    for number in 0..4 {
        sim.add_node(NodeSpec::new(format!("n{number}")).cpu("8").memory("32Gi"));
    }
    sim.create(objects::namespace("shop", &Value::Null));
    sim.create(objects::deployment("cart", "shop", 12, objects::template("cart", "500m", "1Gi")));
    sim.create(objects::disruption_budget("cart", "shop", "cart", "minAvailable", 3.into()));
    let cache = Cache::new(State::default());
    let feeds = Feeds::run(client.clone(), cache.clone(), clock);
    cache.synced().await;
    Fed { sim, client, cache, clock, _feeds: feeds }
}

impl Fed {
    async fn wait(&self, seconds: u64) {
        self.clock.sleep(Duration::from_secs(seconds)).await;
    }

    /// Everything in the cache is what the cluster holds.
    fn assert_same(&self) {
        let by_uid = |mut pods: Vec<Pod>| {
            pods.sort_by(|a, b| a.uid.cmp(&b.uid));
            pods
        };
        let read =
            |plural: &str| self.sim.list(plural).into_iter().map(|object| object.to_string()).collect::<Vec<_>>();
        let state = self.cache.read();
        let pods: Vec<_> = read("pods").iter().map(|json| decode::pod(json).unwrap().to_pod()).collect();
        assert!(pods.len() >= 12);
        assert_eq!(by_uid(state.pods().collect()), by_uid(pods));
        let nodes: Vec<_> = read("nodes").iter().map(|json| decode::node(json).unwrap()).collect();
        assert!(state.nodes().map(|node| &**node).eq(&nodes));
        let budgets: Vec<_> = read("poddisruptionbudgets").iter().map(|json| decode::pdb(json).unwrap()).collect();
        assert!(state.pdbs().eq(&budgets));
    }
}

#[tokio::test(start_paused = true)]
async fn the_cache_holds_what_the_cluster_holds() {
    let fed = fed().await;
    fed.wait(10).await;
    fed.assert_same();
    let movable: u32 = (0..4).map(|number| fed.cache.read().movable(&format!("n{number}")).pods).sum();
    assert_eq!(movable, 12);
    let listed = list_node_pods(&fed.client, "n1").await.unwrap();
    assert_eq!(listed, fed.cache.read().pods_on("n1"));
    assert!(!listed.is_empty());
}

#[tokio::test(start_paused = true)]
async fn whatever_happens_to_the_connection_the_cache_catches_up() {
    let fed = fed().await;
    for round in 0..60_u32 {
        let pods = fed.sim.list("pods");
        let name = pods[round as usize % pods.len()]["metadata"]["name"].as_str().unwrap().to_owned();
        fed.sim.delete("pods", "shop", &name);
        match round % 6 {
            0 => fed.sim.faults().drop_watches(),
            1 => {
                fed.sim.faults().drop_watches();
                fed.sim.faults().compact();
            }
            2 => fed.sim.faults().fail("GET", "pods", 500, 2),
            3 => {
                fed.sim.faults().refuse(true);
                fed.sim.faults().drop_watches();
            }
            4 => fed.sim.faults().refuse(false),
            _ => {
                let unschedulable = round % 12 == 5;
                fed.sim.edit("nodes", "", "n2", |node| node["spec"]["unschedulable"] = unschedulable.into());
            }
        }
        fed.wait(u64::from(round % 4)).await;
    }
    fed.sim.faults().clear();
    fed.wait(60).await;
    fed.assert_same();
    let health = fed.cache.health();
    assert!(health.of(Kind::Pods).errors > 0 && health.of(Kind::Pods).lists > 1, "{health:?}");
    assert!(health.kinds().all(|(_, feed)| feed.connected), "{health:?}");
}

#[tokio::test(start_paused = true)]
async fn a_quiet_cluster_costs_at_most_a_request_in_four_minutes_for_each_kind() {
    let fed = fed().await;
    fed.wait(60).await;
    let before = fed.sim.requests().len();
    fed.wait(3600).await;
    let asked = fed.sim.requests().len() - before;
    // The first watch, which began with the list, lasts half an hour and more.
    assert!((15..=27).contains(&asked), "asked {asked} times in an hour");
    assert!(fed.cache.health().kinds().all(|(_, feed)| feed.errors == 0 && feed.stalls == 0));
}

#[tokio::test(start_paused = true)]
async fn a_server_that_knows_no_shards_is_told_apart_from_one_that_divides() {
    let sim = Sim::start(Settings::default());
    let refused = confirm_shards(Client::new(sim.router(), "default"), 4).await.unwrap_err();
    assert!(matches!(refused, FeedError::NotSharded), "{refused}");
    assert!(refused.to_string().contains("feature gate ShardedListAndWatch"), "{refused}");
    assert!(confirm_shards(Client::new(sim.router(), "default"), 1).await.is_ok(), "nothing is asked for");
}

#[tokio::test(start_paused = true)]
async fn the_list_is_streamed_by_a_server_that_speaks_only_json() {
    let fed = fed().await;
    let asked: Vec<_> = fed.sim.requests().into_iter().filter(|request| request.path == "/api/v1/pods").collect();
    assert_eq!(asked.len(), 1);
    assert!(asked[0].query.contains("sendInitialEvents=true"), "{}", asked[0].query);
    assert_eq!(fed.cache.health().of(Kind::Pods).lists, 1);
}
