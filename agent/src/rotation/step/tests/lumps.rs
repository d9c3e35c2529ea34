use super::*;

fn cpu(milli_cpu: i64) -> Resources {
    Resources { milli_cpu, ..Resources::default() }
}

/// Pods of half a CPU each that share one placeholder of this size.
fn sharing(pods: &[&str], offers: i64) -> Case {
    Case::in_phase(Phase::Draining).covered(pods).with(|case| {
        case.record.options.surge = SurgeMode::Single;
        let sum = cpu(500 * i64::try_from(pods.len()).unwrap());
        case.record.surge.as_mut().unwrap().classes[0].requests = sum.to_amounts();
        case.seen.room = vec![Room { offers: cpu(offers), ..held("lump") }];
        case.seen.needs = pods.iter().map(|pod| Need { requests: cpu(500), ..need(pod, &["lump"]) }).collect();
    })
}

fn sizes(effects: &[Effect]) -> Vec<Resources> {
    let sizes = effects.iter().filter_map(|effect| match effect {
        Effect::Reserve(reservation) => Some(Resources::from(&reservation.class.requests)),
        _ => None,
    });
    sizes.collect()
}

#[test]
fn one_placeholder_of_the_sum_is_created() {
    let case = sharing(&["p1", "p2", "p3"], 0).with(|case| case.seen.room.clear());
    let case = case.with(|case| case.seen.needs.iter_mut().for_each(|need| need.serves.clear()));
    let effects = case.effects();
    assert_eq!((reserved(&effects), sizes(&effects)), (vec!["p1"], vec![cpu(1500)]));
    let coming = case.with(|case| {
        case.seen.room = vec![Room { offers: cpu(1500), ..in_state("lump", RoomState::Coming { message: None }) }];
        case.seen.needs.iter_mut().for_each(|need| need.coming = uids(&["lump"]));
    });
    assert_eq!(coming.effects(), []);
}

#[test]
fn all_pods_that_the_placeholder_covers_leave_at_once() {
    assert_eq!(evicted(&sharing(&["p1", "p2", "p3"], 1500).effects()), ["p1", "p2", "p3"]);
}

#[test]
fn what_is_on_its_way_counts_against_the_placeholder() {
    let case = sharing(&["p1", "p2", "p3"], 1000).with(|case| {
        case.seen.leaving[2].terminating = true;
        case.seen.needs[2].pending = Some(Pending::default());
        case.seen.owners = vec![cart(1, 0, 0)];
    });
    let effects = case.effects();
    assert_eq!(evicted(&effects), ["p1"], "p3 is first, then there is room for one");
    assert_eq!(sizes(&effects), [cpu(500)], "and the rest gets its own");
}

#[test]
fn nothing_is_held_anew_for_those_that_have_all_left_and_are_about_to_land() {
    let case = sharing(&["p1", "p2"], 0).with(|case| {
        case.seen.room.clear();
        case.seen.leaving.clear();
        case.seen.owners = vec![cart(2, 0, 0)];
        for need in &mut case.seen.needs {
            need.serves.clear();
            need.pending = Some(Pending::default());
        }
    });
    let step = case.step();
    assert_eq!(sizes(&step.effects), []);
    assert!(step.waiting.iter().all(|wait| wait.code != Code::ReReserving));
}

#[test]
fn a_placeholder_that_is_lost_with_pods_left_is_replaced_by_one_for_what_has_not_landed() {
    let lost = sharing(&["p1", "p2", "p3"], 0).with(|case| {
        case.seen.room.clear();
        case.seen.needs.iter_mut().for_each(|need| need.serves.clear());
        case.seen.leaving[0].terminating = true;
        case.seen.needs[0].pending = Some(Pending::default());
        case.seen.owners = vec![cart(1, 0, 0)];
    });
    let effects = lost.effects();
    assert_eq!((evicted(&effects), reserved(&effects), sizes(&effects)), (vec![], vec!["p2"], vec![cpu(1500)]));
    let landing = lost.with(|case| case.seen.needs[0].pending.as_mut().unwrap().landing = true);
    assert_eq!(sizes(&landing.effects()), [], "it is given a moment to land");
}

#[test]
fn a_placeholder_of_the_size_that_was_planned_covers_all_even_where_a_node_offers_less_than_their_sum() {
    let case = sharing(&["p1", "p2", "p3"], 1200).with(|case| {
        case.record.surge.as_mut().unwrap().classes[0].requests = cpu(1200).to_amounts();
    });
    assert_eq!(evicted(&case.effects()), ["p1", "p2", "p3"]);
    let lost = case.with(|case| {
        case.seen.room.clear();
        case.seen.needs.iter_mut().for_each(|need| need.serves.clear());
    });
    assert_eq!(sizes(&lost.effects()), [cpu(1200)], "a larger one would fit nowhere");
}

// === refused evictions ===

#[test]
fn after_a_refusal_nothing_is_asked_for_five_seconds() {
    let case = sharing(&["p1", "p2", "p3"], 1500).with(|case| case.seen.refused_until = Some(at(25)));
    assert_eq!(evicted(&case.effects()), Vec::<&str>::new());
    let later = case.with(|case| case.now = at(25));
    assert_eq!(evicted(&later.effects()), ["p1", "p2", "p3"]);
}
