//! The state after any events equals a full recount.

mod event;
mod model;

use std::collections::BTreeMap;

use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::{TestRng, TestRunner};

use self::event::{Event, Happened, OpenLists, any_event, owner_uid, play, uid};
use self::model::Model;
use super::{Counts, State};

fn config(cases: u32) -> ProptestConfig {
    ProptestConfig { cases, failure_persistence: None, ..ProptestConfig::default() }
}

fn any_events() -> impl Strategy<Value = Vec<Event>> {
    proptest::collection::vec(any_event(), 1..50)
}

/// Plays the events and compares; then takes everything away, and compares with nothing.
fn equals_a_full_recount(events: &[Event], mut state: State) {
    let (mut model, mut open) = (Model::default(), OpenLists::default());
    for event in events {
        play(event, &mut state, &mut model, &mut open);
    }
    model.assert_equals(&state);
    drop(open);
    for event in [Event::relist_of_nothing(), Event::RelistNodes(vec![])] {
        play(&event, &mut state, &mut model, &mut OpenLists::default());
    }
    model.assert_equals(&state);
    assert_eq!(state.counts(), Counts::default());
    assert_nothing_is_left(&state);
}

fn assert_nothing_is_left(state: &State) {
    let templates = &state.templates;
    let pools = [&templates.kinds, &templates.texts, &templates.labels, &templates.claims, &templates.shapes];
    assert!(pools.iter().all(|pool| pool.len() == 0));
    assert!(state.extras.is_empty() && state.nominated.is_empty() && state.anti_affine.is_empty());
    for number in 0..event::NAMES {
        assert!((0..3).all(|generation| state.find_pod(&uid(number, generation)).is_none()));
        assert!(state.nodes.id(&format!("n{number}")).is_none());
        assert_eq!(state.pods_of_owner(&owner_uid(number)), []);
    }
}

proptest! {
    #![proptest_config(config(1_000))]

    #[test]
    fn any_sequence_of_events_equals_a_full_recount(events in any_events()) {
        equals_a_full_recount(&events, State::default());
    }
}

#[test]
fn a_planted_off_by_one_is_found() {
    let property = |events: Vec<Event>| {
        equals_a_full_recount(&events, State { planted_fault: true, ..State::default() });
        Ok(())
    };
    // What is found need not be made small: it is thrown away.
    let config = ProptestConfig { max_shrink_iters: 0, ..config(200) };
    let runner = || TestRunner::new_with_rng(config.clone(), TestRng::deterministic_rng(config.rng_algorithm));
    let found = runner().run(&any_events(), property);
    assert!(found.is_err(), "a Pod that leaves its node for another stays one of its real Pods");
    let sound = |events: Vec<Event>| {
        equals_a_full_recount(&events, State::default());
        Ok(())
    };
    assert!(runner().run(&any_events(), sound).is_ok(), "the same events without the fault");
}

#[test]
fn each_kind_of_event_happens_often_enough() {
    let mut runner = TestRunner::deterministic();
    let mut happened = BTreeMap::<_, u32>::new();
    let mut total = 0;
    for _ in 0..200 {
        let events = any_events().new_tree(&mut runner).unwrap().current();
        let (mut state, mut model, mut open) = (State::default(), Model::default(), OpenLists::default());
        for event in &events {
            total += 1;
            for kind in play(event, &mut state, &mut model, &mut open) {
                *happened.entry(kind).or_default() += 1;
            }
        }
    }
    for kind in Happened::ALL {
        let times = happened.get(&kind).copied().unwrap_or_default();
        assert!(times * 20 >= total, "{kind:?} happened {times} times in {total} events: {happened:?}");
    }
}
