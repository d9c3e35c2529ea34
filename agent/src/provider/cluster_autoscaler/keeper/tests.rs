use jiff::Timestamp;
use rotate_sim::{NodeSpec, Settings as SimSettings, Sim, objects};

use super::*;
use crate::cache::State;
use crate::surge::testing;

const EPOCH: &str = "2026-01-05T00:00:00Z";

struct World {
    sim: Sim,
    cache: Cache,
    term: watch::Sender<Option<Term>>,
    remembered: Remembered,
    clock: Clock,
}

fn term(number: u64) -> Option<Term> {
    Some(Term { number, acts_from: Timestamp::UNIX_EPOCH, acts_until: Timestamp::MAX })
}

impl World {
    fn start(state: State) -> Self {
        let epoch: Timestamp = EPOCH.parse().unwrap();
        let sim = Sim::start(SimSettings { epoch: Some(epoch), ..SimSettings::default() });
        sim.create(objects::namespace(names::NAMESPACE, &json!({})));
        let clock = Clock::starting_at(epoch);
        let (term, receiver) = watch::channel(None);
        let cache = Cache::read_whole(state);
        let client = Client::new(sim.router(), "default");
        let keeper = Keeper::new(client, names::NAMESPACE, cache.clone(), Arc::default(), receiver, clock);
        let remembered = keeper.remembered();
        tokio::spawn(keeper.run());
        Self { sim, cache, term, remembered, clock }
    }

    async fn pass(&self, minutes: u64) {
        self.clock.sleep(Duration::from_secs(60 * minutes)).await;
    }

    fn writes(&self) -> usize {
        self.sim.requests().iter().filter(|request| request.method != "GET").count()
    }
}

fn web(name: &str, cpu: &str) -> crate::cache::Node {
    let object = NodeSpec::new(name).label("eks.amazonaws.com/nodegroup", "web").cpu(cpu).ready();
    testing::node(name, &object)
}

#[tokio::test(start_paused = true)]
async fn the_leader_alone_writes_and_only_what_is_new() {
    let world = World::start(testing::state([web("n1", "4")], []));
    world.pass(10).await;
    assert_eq!(world.writes(), 0, "nobody leads");
    world.term.send_replace(term(1));
    world.pass(60).await;
    assert_eq!(world.writes(), 1);
    let map = world.sim.get("configmaps", names::NAMESPACE, names::GROUPS).unwrap();
    assert!(map["data"]["eks.web"].as_str().unwrap().contains(r#""source":"n1""#), "{map}");
    world.cache.write(|state| state.apply_node(web("n2", "8")));
    world.cache.write(|state| state.apply_node(web("n1", "2")));
    world.pass(60).await;
    assert_eq!(world.writes(), 2);
    assert_eq!(world.remembered.get().known["eks.web"].allocatable["cpu"].to_string(), "2");
}

#[tokio::test(start_paused = true)]
async fn a_renewed_lease_is_no_reason_to_look_at_all_nodes_again() {
    let world = World::start(testing::state([web("n1", "4")], []));
    let renew = async |seconds: u64| {
        for _ in 0..seconds / 2 {
            world.term.send_replace(term(1));
            world.clock.sleep(Duration::from_secs(2)).await;
        }
    };
    renew(4).await;
    assert_eq!(world.writes(), 1);
    world.cache.write(|state| state.apply_node(web("n1", "2")));
    renew(8).await;
    assert_eq!(world.writes(), 1);
    renew(8).await;
    assert_eq!(world.writes(), 2);
}

#[tokio::test(start_paused = true)]
async fn without_groups_nothing_is_written_ever() {
    let world = World::start(testing::state([testing::node("n1", &json!({}))], []));
    world.term.send_replace(term(1));
    world.pass(24 * 60).await;
    assert_eq!(world.writes(), 0);
}

#[tokio::test(start_paused = true)]
async fn what_another_leader_wrote_comes_first() {
    let world = World::start(testing::state([web("n1", "4")], []));
    world.term.send_replace(term(1));
    world.pass(10).await;
    world.sim.edit("configmaps", names::NAMESPACE, names::GROUPS, |map| {
        let text = map["data"]["eks.web"].as_str().unwrap().replace(r#""zone":"a""#, r#""zone":"b""#);
        map["data"]["eks.web"] =
            json!(text.replace(r#"topology.kubernetes.io/zone":"a""#, r#"topology.kubernetes.io/zone":"b""#));
    });
    world.cache.write(|state| state.apply_node(web("n1", "8")));
    world.pass(10).await;
    let template = world.remembered.get().known["eks.web"].clone();
    assert_eq!(template.allocatable["cpu"].to_string(), "8");
    assert!(template.varying.contains(names::ZONE), "{template:?}");
}

#[tokio::test(start_paused = true)]
async fn a_map_that_cannot_be_read_is_told_and_read_again() {
    let world = World::start(testing::state([web("n1", "4")], []));
    world.pass(1).await;
    world.sim.faults().fail("GET", names::GROUPS, 403, 1);
    world.term.send_replace(term(1));
    world.pass(1).await;
    assert_eq!(world.remembered.get().unreadable.len(), 1);
    world.pass(4).await;
    assert_eq!(world.remembered.get().unreadable, [""; 0]);
    assert_eq!(world.writes(), 1);
}
