use std::collections::BTreeSet;
use std::time::Duration;

use kube::Client;
use rotate_sim::{NodeSpec, Settings, Sim, objects};
use serde_json::Value;

use super::*;
use crate::cache::feed::Feeds;
use crate::cache::index::Held;
use crate::cache::wanted::Hold;
use crate::cache::{State, decode};

/// A random number generator that needs no crate: SplitMix64.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        usize::try_from((mixed ^ (mixed >> 31)) % limit as u64).unwrap()
    }
}

struct World {
    sim: Sim,
    cache: Cache,
    clock: Clock,
    _feeds: Feeds,
}

fn world() -> World {
    let sim = Sim::start(Settings::default());
    let clock = Clock::starting_at(sim.now());
    for number in 0..4 {
        sim.add_node(NodeSpec::new(format!("n{number}")).cpu("8").memory("32Gi"));
    }
    for namespace in ["shop", "bank"] {
        sim.create(objects::namespace(namespace, &Value::Null));
        sim.create(objects::deployment("cart", namespace, 8, objects::template("cart", "500m", "1Gi")));
    }
    let cache = Cache::new(State::scoped());
    let feeds = Feeds::run(Client::new(sim.router(), "default"), cache.clone(), clock);
    World { sim, cache, clock, _feeds: feeds }
}

impl World {
    async fn wait(&self, seconds: u64) {
        self.clock.sleep(Duration::from_secs(seconds)).await;
    }

    /// What is wanted is covered, and the cache holds the cluster's Pods in there and no others.
    fn assert_holds_what_is_wanted(&self, seed: u64) {
        let state = self.cache.read();
        let wanted = self.cache.wanted().all();
        assert_eq!(state.scopes().cloned().collect::<BTreeSet<_>>(), wanted, "seed {seed}");
        let texts: Vec<_> = self.sim.list("pods").iter().map(ToString::to_string).collect();
        let there = texts.iter().map(|json| decode::pod(json).unwrap().to_pod()).filter(|pod| {
            let held = Held { namespace: &pod.namespace, node: pod.node.as_deref(), uid: &pod.uid };
            wanted.iter().any(|scope| scope.holds(&held))
        });
        let by_uid = |mut pods: Vec<Pod>| {
            pods.sort_by(|a, b| a.uid.cmp(&b.uid));
            pods
        };
        assert_eq!(by_uid(state.pods().collect()), by_uid(there.collect()), "seed {seed}");
    }
}

fn scopes() -> Vec<Partition> {
    let nodes = (0..4).map(|number| Partition::node(&format!("n{number}")));
    nodes.chain(["shop", "bank"].map(Partition::namespace)).collect()
}

#[tokio::test(start_paused = true)]
async fn a_scope_is_read_when_it_is_wanted_and_forgotten_afterwards() {
    let world = world();
    world.wait(10).await;
    assert_eq!(world.cache.read().counts().pods, 0);
    let wanted: BTreeSet<_> = [Partition::node("n1"), Partition::namespace("bank")].into();
    let hold = world.cache.hold(wanted, Duration::from_secs(5)).await.unwrap();
    world.assert_holds_what_is_wanted(0);
    assert!(world.cache.read().counts().pods > 8, "all of a namespace, and the others of a node");
    drop(hold);
    world.wait(29).await;
    assert!(world.cache.read().covers_node("n1"), "it may be wanted again in a moment");
    world.wait(2).await;
    world.assert_holds_what_is_wanted(0);
    assert_eq!(world.cache.read().counts().pods, 0);
    assert!(world.cache.health().is_synced());
}

#[tokio::test(start_paused = true)]
async fn a_scope_that_cannot_be_read_is_told_in_time() {
    let world = world();
    world.sim.faults().fail("GET", "/namespaces/shop/pods", 403, usize::MAX);
    let shop = Partition::namespace("shop");
    let unread = world.cache.hold([shop.clone(), Partition::node("n1")].into(), Duration::from_secs(20)).await;
    assert_eq!(unread.unwrap_err(), shop);
    assert!(world.cache.wanted().all().iter().eq([&Partition::room()]), "nobody wants it any more");
}

#[tokio::test(start_paused = true)]
async fn overlapping_scopes_that_come_and_go_always_end_with_what_the_cluster_holds() {
    for seed in 0..5 {
        let (world, mut random) = (world(), Random(seed));
        let all = scopes();
        let mut held: Vec<Hold> = Vec::new();
        for _ in 0..60 {
            let pods = world.sim.list("pods");
            match random.below(9) {
                0..=2 if !pods.is_empty() => {
                    let pod = &pods[random.below(pods.len())]["metadata"];
                    world.sim.delete("pods", pod["namespace"].as_str().unwrap(), pod["name"].as_str().unwrap());
                }
                3 | 4 => {
                    let wanted: BTreeSet<_> = (0..2).map(|_| all[random.below(all.len())].clone()).collect();
                    held.push(world.cache.wanted().hold(wanted));
                }
                5 if !held.is_empty() => drop(held.swap_remove(random.below(held.len()))),
                6 => world.sim.faults().drop_watches(),
                7 => {
                    world.sim.faults().drop_watches();
                    world.sim.faults().compact();
                }
                // Feeds get out of step with each other.
                _ => {
                    let delay = Duration::from_millis(100 * random.below(30) as u64);
                    world.sim.faults().delay("GET", "/pods", delay, 1 + random.below(3));
                }
            }
            world.clock.sleep(Duration::from_millis(50 * random.below(20) as u64)).await;
        }
        world.sim.faults().clear();
        world.wait(60).await;
        world.assert_holds_what_is_wanted(seed);
        held.clear();
        world.wait(31).await;
        world.assert_holds_what_is_wanted(seed);
    }
}
