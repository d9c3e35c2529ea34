//! The demo under a stopped clock: its figures, and the order of its story.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::Timestamp;
use rotate_agent::clock::Clock;
use rotate_shared::options::SurgeMode;
use rotate_sim::{Event, LogEntry};

use super::*;

/// An act with everything that it said.
struct Played {
    figures: Figures,
    lines: Vec<String>,
    log: Vec<LogEntry>,
    since: Timestamp,
}

async fn rotated(options: OptionsRequest) -> Played {
    let world = World::build().await;
    let since = world.sim.now();
    let mut lines = Vec::new();
    let mut tell = |line: &str| {
        lines.push(line.to_owned());
        Ok(())
    };
    let figures = act::rotate(&world, Clock::starting_at(since), options, &mut tell).await.expect("it goes well");
    Played { figures, lines, log: world.sim.log(), since }
}

async fn drained() -> Played {
    let world = World::build().await;
    let since = world.sim.now();
    let mut lines = Vec::new();
    let mut tell = |line: &str| {
        lines.push(line.to_owned());
        Ok(())
    };
    let figures = drain::drain(&world, Clock::starting_at(since), &mut tell).await.expect("it goes well");
    Played { figures, lines, log: world.sim.log(), since }
}

/// The figures once more and by another way: each Pod's life is put together first, then looked at.
fn recomputed(played: &Played) -> Figures {
    #[derive(Default)]
    struct Life {
        created: Option<Timestamp>,
        bound: Option<Timestamp>,
        lacked: bool,
        counts: bool,
    }
    let mut lives: BTreeMap<String, Life> = BTreeMap::new();
    for LogEntry { at, event } in &played.log {
        match event.clone() {
            Event::PodCreated { namespace, uid, .. } => {
                let life = lives.entry(uid).or_default();
                life.created = Some(*at);
                life.counts = namespace == "shop" && *at >= played.since;
            }
            Event::PodBound { uid, .. } => lives.entry(uid).or_default().bound = Some(*at),
            Event::PodUnschedulable { uid, .. } => lives.entry(uid).or_default().lacked = true,
            _ => {}
        }
    }
    lives.retain(|_, life| life.counts);
    let waited = lives.values().map(|life| {
        let (created, bound) = (life.created.expect("it was created"), life.bound.expect("all are bound in the end"));
        Duration::try_from(bound.duration_since(created)).expect("bound after it was created")
    });
    Figures {
        longest_unscheduled: waited.max().unwrap_or_default(),
        lacked_room: lives.values().filter(|life| life.lacked).count(),
        moved: lives.len(),
    }
}

#[tokio::test(start_paused = true)]
async fn a_rotation_leaves_no_pod_without_room_and_the_log_says_so_twice() {
    let played = rotated(OptionsRequest::default()).await;
    assert_eq!(played.figures, recomputed(&played));
    assert_eq!(played.figures.moved, 3);
    assert_eq!(played.figures.lacked_room, 0, "{:#?}", played.lines);
    assert!(played.figures.longest_unscheduled <= Duration::from_millis(500), "{:?}", played.figures);
}

#[tokio::test(start_paused = true)]
async fn without_a_surge_both_figures_are_worse() {
    let with = rotated(OptionsRequest::default()).await;
    let without = rotated(OptionsRequest { surge: Some(SurgeMode::None), ..OptionsRequest::default() }).await;
    assert_eq!(without.figures, recomputed(&without));
    assert_eq!(without.figures.moved, with.figures.moved);
    assert!(without.figures.longest_unscheduled > with.figures.longest_unscheduled);
    assert!(without.figures.lacked_room > with.figures.lacked_room);
}

#[tokio::test(start_paused = true)]
async fn a_plain_drain_lets_every_pod_wait_for_the_new_node() {
    let played = drained().await;
    assert_eq!(played.figures, recomputed(&played));
    assert_eq!((played.figures.moved, played.figures.lacked_room), (3, 3));
    assert_eq!(played.figures.longest_unscheduled, Duration::from_secs(9));
}

#[tokio::test(start_paused = true)]
async fn the_story_is_told_in_the_order_of_its_promises() {
    let lines = rotated(OptionsRequest::default()).await.lines;
    let position = |part: &str| {
        lines.iter().position(|line| line.contains(part)).unwrap_or_else(|| panic!("{part:?} in {lines:#?}"))
    };
    let order = [
        "worker-1 is cordoned",
        "3 placeholder Pods ask for",
        "the autoscaler orders a new one",
        "worker-new-1 is ready",
        "Placeholder 1 of 3 holds room on worker-new-1",
        "Placeholder 3 of 3 holds room on worker-new-1",
        "Room for all 3 Pods is held",
        "is evicted from worker-1",
        "lands on worker-new-1",
        "node/worker-1 rotated",
    ];
    let positions: Vec<usize> = order.iter().map(|part| position(part)).collect();
    assert!(positions.is_sorted(), "{positions:?} of {lines:#?}");
}

#[tokio::test(start_paused = true)]
async fn the_demo_takes_less_than_a_minute() {
    // About the time of the worlds: an agent does not take an autoscaler's word that is dated years ahead.
    let since = World::build().await.sim.now();
    let clock = Clock::starting_at(since);
    let _worlds = tokio::join!(World::build(), World::build());
    let ignore = &mut |_: &str| Ok(());
    let first = World::build().await;
    act::rotate(&first, clock, OptionsRequest::default(), ignore).await.expect("it goes well");
    let second = World::build().await;
    drain::drain(&second, clock, ignore).await.expect("it goes well");
    // Three builds, of which the demo waits for one.
    let took = clock.now().duration_since(since);
    assert!(took.as_secs() < 45, "{took}");
}

#[tokio::test(start_paused = true)]
async fn no_line_is_wider_than_a_terminal() {
    let lines = rotated(OptionsRequest::default()).await.lines;
    let text = format!("{}\n{}", world::INTRODUCTION, lines.join("\n"));
    let wide: Vec<&str> = text.lines().filter(|line| line.chars().count() > 79).collect();
    assert!(wide.is_empty(), "{wide:#?}");
}

#[test]
fn the_last_lines_set_both_side_by_side() {
    let figures =
        |millis, lacked_room| Figures { longest_unscheduled: Duration::from_millis(millis), lacked_room, moved: 3 };
    assert_eq!(
        summary(&figures(120, 0), &figures(9_000, 3)),
        "
▌ From the cluster's event log

                                                kubectl rotate   kubectl drain
  longest time a moved Pod was unscheduled               0.1 s           9.0 s
  moved Pods that ever lacked room                      0 of 3          3 of 3"
    );
}
