//! Seeded runs in which everything happens at the wrong time.

use std::time::Duration;

use rotate_agent::rotation::store::Wish;
use rotate_shared::options::Then;
use rotate_shared::{CancelRequest, Options, Phase, names};
use rotate_sim::{Settings, objects};
use serde_json::json;

use crate::check;
use crate::random::Random;
use crate::world::{World, name_of, options};

async fn run(seed: u64) {
    let mut random = Random::new(seed);
    let settings = Settings {
        seed,
        bind_delay: Duration::from_millis(random.one(&[0, 0, 50, 300])),
        pod_start: Duration::from_millis(random.one(&[200, 1000, 3000])),
        pop_from_backoff: random.chance(80),
        ..Settings::default()
    };
    let mut world = World::with(settings);
    world.node("a", "32");
    let mut replicas = 0;
    for index in 0..1 + random.below(3) {
        let (pods, cpu) = (1 + random.below(3), random.one(&["250m", "500m", "1", "2"]));
        let name = format!("app-{index}");
        let template = objects::template(&name, cpu, "64Mi");
        let set = if random.chance(25) {
            objects::stateful_set(&name, "shop", pods as u32, template)
        } else {
            objects::deployment(&name, "shop", pods as u32, template)
        };
        world.sim.create(set);
        replicas += pods;
    }
    world.until_running("shop", replicas).await;
    for index in 0..1 + random.below(3) {
        world.node(&format!("b-{index}"), random.one(&["1", "2", "4"]));
    }
    for index in 0..3 {
        if random.chance(40) {
            let (name, app) = (format!("budget-{index}"), format!("app-{index}"));
            world.sim.create(objects::disruption_budget(&name, "shop", &app, "maxUnavailable", json!(1)));
        }
    }
    world.pass(2_000).await;

    let then = random.one(&[None, Some(Then::Delete), Some(Then::Uncordon)]);
    let id = world.rotate("a", Options { then, ..options() }).await;
    let mut foreign = 0;
    let mut cancelled = false;
    for _ in 0..random.below(12) {
        let pause = random.below(2_500) as u64;
        world.pass(pause).await;
        disturb(&mut world, &mut random, &id, &mut foreign, &mut cancelled).await;
    }
    // From here on nothing stands in the way: it has to end.
    world.sim.faults().clear();
    world.node("spare", "32");
    let _ = world.store.request(&id, Wish::Resume, world.now()).await;
    let ended = world.until(&id, |rotation| rotation.phase.is_terminal()).await;

    let seen = format!("seed {seed}: {ended:#?}");
    assert_eq!(world.guard.violations(), Vec::<String>::new(), "{seen}");
    let cordoned: &[&str] = match (ended.phase, then) {
        (Phase::Succeeded, Some(Then::Uncordon)) | (Phase::RolledBack | Phase::Cancelled, _) => &[],
        (Phase::Succeeded, Some(Then::Delete)) => {
            assert_eq!(world.sim.get("nodes", "", "a"), None, "{seen}");
            &[]
        }
        (Phase::Succeeded | Phase::Stopped, _) => &["a"],
        _ => panic!("{seen}"),
    };
    assert!(cancelled || !matches!(ended.phase, Phase::Stopped | Phase::Cancelled), "{seen}");
    check::nothing_is_left(&world, cordoned);
    if ended.phase == Phase::Succeeded && then != Some(Then::Uncordon) {
        assert!(!world.nodes_of("shop").contains(&"a".to_owned()), "{seen}");
    }
    assert!(check::record_writes(&world, &id) <= 30, "{seen}");
    world.pass(60_000).await;
    world.until_running("shop", replicas).await;
}

async fn disturb(world: &mut World, random: &mut Random, id: &str, foreign: &mut u32, cancelled: &mut bool) {
    let room = format!("/namespaces/{}/pods", names::ROOM_NAMESPACE);
    match random.below(16) {
        0..3 => {
            *foreign += 1;
            let cpu = random.one(&["250m", "500m", "1"]);
            let name = format!("foreign-{foreign}");
            let replicas = 1 + random.below(2) as u32;
            world.sim.create(objects::deployment(&name, "default", replicas, objects::template(&name, cpu, "16Mi")));
        }
        3 => world.node(&format!("late-{}", random.below(1 << 20)), random.one(&["2", "4"])),
        4 => {
            let (method, path) = random.one(&[
                ("POST", "/eviction"),
                ("PATCH", "/nodes/"),
                ("PATCH", "/configmaps/"),
                ("DELETE", "/pods/"),
            ]);
            world.sim.faults().fail(method, path, random.one(&[500, 503]), 1 + random.below(3));
        }
        5 => world.sim.faults().lose_answers("POST", random.one(&["/eviction", &*room]), 1 + random.below(2)),
        6 => world.sim.faults().lose_answers("PATCH", random.one(&["/nodes/", "/configmaps/"]), 1),
        7 => world.sim.faults().fail("POST", &room, 503, 1 + random.below(3)),
        8 => world.sim.faults().deny("POST", "/eviction", "not now", 1 + random.below(3)),
        9 => {
            if random.chance(50) {
                // Some of what is read comes long after the rest.
                let delay = Duration::from_secs(random.below(20) as u64);
                world.sim.faults().delay("GET", "/pods", delay, 1 + random.below(3));
            }
            world.sim.faults().drop_watches();
            if random.chance(50) {
                world.sim.faults().compact();
            }
        }
        10 | 11 => {
            world.kill_agent();
            world.pass(random.below(30_000) as u64).await;
            if random.chance(50) {
                let delay = Duration::from_secs(random.below(60) as u64);
                world.sim.faults().delay("GET", "/pods", delay, 1 + random.below(3));
            }
            world.start_agent();
        }
        12 => {
            let _ = world.store.request(id, Wish::Pause, world.now()).await;
            world.pass(random.below(20_000) as u64).await;
            let _ = world.store.request(id, Wish::Resume, world.now()).await;
        }
        13 => {
            let pods = world.pods("shop");
            if let Some(pod) = pods.get(random.below(pods.len().max(1))) {
                world.sim.delete("pods", "shop", &name_of(pod));
            }
        }
        14 => {
            let rooms = world.pods(names::ROOM_NAMESPACE);
            if let Some(pod) = rooms.first() {
                world.sim.delete("pods", names::ROOM_NAMESPACE, &name_of(pod));
            }
        }
        _ if random.chance(50) => {
            // Whatever the answer: it may be the answer that was lost.
            *cancelled = true;
            let _ = world.store.request(id, Wish::Cancel(CancelRequest::default()), world.now()).await;
        }
        _ => {}
    }
}

#[tokio::test(start_paused = true)]
async fn whatever_happens_no_pod_loses_its_room_and_the_rotation_ends_clean() {
    // More of them on request: `ROTATE_SEEDS=1000..2000`.
    let seeds = std::env::var("ROTATE_SEEDS").unwrap_or_else(|_| "0..25".to_owned());
    let (from, to) = seeds.split_once("..").unwrap();
    for seed in from.parse().unwrap()..to.parse().unwrap() {
        run(seed).await;
    }
}
