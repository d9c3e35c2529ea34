use super::*;

const UNMARKED: NodeSeen = NodeSeen::Here { marked: false, traces: false, deleting: false };

fn surging() -> Case {
    Case::in_phase(Phase::Surging).with(|case| case.seen.barrier = Barrier::Passed)
}

fn blocker() -> Notice {
    notice(Code::BarePod, "Pod shop/bare", "has no controller")
}

#[test]
fn the_node_is_marked_before_anything_else() {
    let case = surging().with(|case| {
        case.seen.node = UNMARKED;
        case.seen.barrier = Barrier::Open;
        case.seen.verdicts.fresh = vec![fresh("p1")];
    });
    assert_eq!(case.effects(), [Effect::Mark]);
}

#[test]
fn the_pods_are_listed_behind_the_cordon_before_they_are_judged() {
    let case = surging().with(|case| {
        case.seen.barrier = Barrier::Open;
        case.seen.verdicts.fresh = vec![fresh("p1")];
    });
    assert_eq!(case.effects(), [Effect::List]);
}

#[test]
fn unknown_claims_are_read_before_the_pods_are_judged() {
    let claims = vec![(Box::from("shop"), Box::from("data"))];
    let case = surging().with(|case| case.seen.verdicts.unknown_claims = claims.clone());
    assert_eq!(case.effects(), [Effect::ReadVolumes(claims)]);
}

#[test]
fn the_pods_to_move_are_written_down_before_room_is_reserved() {
    let case = surging().with(|case| {
        let siblings = vec!["old".to_owned()];
        case.seen.verdicts.fresh = vec![Fresh { siblings, ..fresh("p1") }, fresh("p2")];
        case.seen.verdicts.warnings = vec![notice(Code::JobPod, "Pod shop/p1", "belongs to a Job")];
    });
    let step = case.step();
    let record = step.record.unwrap();
    assert_eq!(record.phase(), Phase::Surging);
    let surge = record.surge.unwrap();
    assert_eq!(surge.moves.iter().map(|moved| &*moved.uid).collect::<Vec<_>>(), ["p1", "p2"]);
    assert_eq!(surge.classes.len(), 1, "equal rooms are one class");
    assert!(surge.moves.iter().all(|moved| moved.class.as_deref() == Some("a") && !moved.returned));
    assert_eq!(surge.known, ["old"]);
    assert_eq!(record.warnings.len(), 1);
}

#[test]
fn pods_with_different_rooms_are_different_classes() {
    let case = surging().with(|case| {
        let placement = Placement { labels: [("a", "b")].into(), ..Placement::default() };
        let other = Fresh { room: Some((Default::default(), placement)), ..fresh("p2") };
        case.seen.verdicts.fresh = vec![fresh("p1"), other, Fresh { room: None, ..fresh("p3") }];
    });
    let surge = case.step().record.unwrap().surge.unwrap();
    let classes: Vec<_> = surge.moves.iter().map(|moved| moved.class.as_deref()).collect();
    assert_eq!(classes, [Some("a"), Some("b"), None]);
}

#[test]
fn without_a_surge_nothing_is_reserved_and_the_drain_begins_at_once() {
    let case = surging().with(|case| {
        case.record.options.surge = SurgeMode::None;
        case.seen.verdicts.fresh = vec![fresh("p1")];
    });
    let record = case.step().record.unwrap();
    assert_eq!(record.moves()[0].class, None);
    let case = case.with(|case| {
        case.record = record;
        case.seen.verdicts = Default::default();
        case.seen.leaving = vec![Leaving { class: None, ..leaving("p1", 0) }];
    });
    assert_eq!(case.next(), Phase::Draining);
}

#[test]
fn a_blocker_rolls_it_back_with_its_reason_and_leaves_the_plan_unwritten() {
    let case = surging().with(|case| {
        case.seen.verdicts.fresh = vec![fresh("p1")];
        case.seen.verdicts.blockers = vec![blocker(), blocker()];
    });
    let record = case.step().record.unwrap();
    assert_eq!(record.phase(), Phase::RollingBack);
    assert_eq!(record.surge, None);
    let outcome = record.outcome.unwrap();
    assert_eq!(outcome.code, Some(Code::BarePod));
    assert_eq!(outcome.message, "Pod shop/bare: has no controller (and 1 more)");
}

#[test]
fn a_blocker_that_comes_late_rolls_it_back_too() {
    let case = surging().moving(&["p1"]).with(|case| case.seen.verdicts.blockers = vec![blocker()]);
    assert_eq!(case.next(), Phase::RollingBack);
}

#[test]
fn a_placeholder_is_created_for_each_pod() {
    let case = surging().moving(&["p1", "p2"]).with(|case| {
        case.seen.needs = vec![need("p1", &[]), Need { attempt: 3, ..need("p2", &[]) }];
    });
    let id = &case.record.id;
    let reservation = |pod: &str, attempt| {
        Effect::Reserve(Reservation {
            name: rotate_shared::names::placeholder_name(id, pod, attempt),
            pod_uid: pod.to_owned(),
            class: class("a"),
        })
    };
    assert_eq!(case.effects(), [reservation("p1", 0), reservation("p2", 3)]);
}

#[test]
fn a_placeholder_on_its_way_is_not_created_again() {
    let case = surging().moving(&["p1"]).with(|case| {
        let message = Some("0/4 nodes are available: insufficient cpu".to_owned());
        case.seen.room = vec![in_state("p1", RoomState::Coming { message })];
        case.seen.needs = vec![Need { coming: uids(&["p1"]), ..need("p1", &[]) }];
    });
    assert_eq!(case.effects(), []);
    assert_eq!(case.message(), "0 of 1 placeholders are running; room-p1: 0/4 nodes are available: insufficient cpu");
    assert_eq!(case.step().waiting[0].object, "Node cand");
}

#[test]
fn a_placeholder_that_is_being_created_is_enough_for_a_need() {
    // The other placeholder runs already, and the matching gives it to the first Pod whoever it was made for.
    let case = surging().covered(&["p1", "p2"]).with(|case| {
        case.seen.room[0] = in_state("p1", RoomState::Creating);
        case.seen.needs[0].serves = uids(&["p2"]);
        for need in &mut case.seen.needs {
            need.coming = uids(&["p1"]);
        }
    });
    assert_eq!(case.effects(), []);
}

#[test]
fn room_that_serves_a_small_pod_too_is_not_reserved_anew_for_the_big_one_while_the_small_ones_own_is_coming() {
    let case = surging().covered(&["small", "big"]).with(|case| {
        case.seen.room[0] = in_state("small", RoomState::Coming { message: None });
        case.seen.needs[0].serves = uids(&["big"]);
        case.seen.needs[0].coming = uids(&["small"]);
    });
    assert_eq!(case.effects(), [], "else each would be reserved anew and given up for ever, in turns");
}

#[test]
fn a_pod_whose_placeholders_keep_failing_waits_longer() {
    let case = surging().moving(&["p1"]).with(|case| {
        case.seen.needs = vec![Need { not_before: Some(at(30)), ..need("p1", &[]) }];
    });
    assert_eq!(case.effects(), []);
    assert_eq!(reserved(&case.with(|case| case.now = at(30)).effects()), ["p1"]);
}

#[test]
fn the_drain_begins_once_all_room_is_held_and_not_before() {
    assert_eq!(surging().covered(&["p1", "p2"]).next(), Phase::Draining);
    let case = surging().covered(&["p1", "p2"]).with(|case| {
        case.seen.room[1].state = RoomState::Coming { message: None };
        case.seen.needs[1].serves.clear();
        case.seen.needs[1].coming = uids(&["p2"]);
    });
    assert_eq!(case.waits(), [Code::Reserving]);
    assert_eq!(case.step().progress.reserved, 1);
}

#[test]
fn held_room_in_which_its_pod_would_not_run_is_not_reserved() {
    let case = surging().covered(&["p1"]).with(|case| {
        case.seen.needs[0].serves.clear();
        case.seen.room[0].state = RoomState::Held { node: "b".to_owned(), misfit: Some("port 80 is taken".to_owned()) };
    });
    let effects = case.effects();
    assert_eq!((released(&effects), reserved(&effects)), (vec!["room-p1"], vec!["p1"]));
    assert!(case.message().ends_with("it runs on node b, where its Pod would not: port 80 is taken"));
}

#[test]
fn a_lost_placeholder_is_replaced() {
    let case = surging().covered(&["p1"]).with(|case| {
        case.seen.needs[0].serves.clear();
        case.seen.room[0].state = RoomState::Lost { why: "node b is not Ready".to_owned() };
    });
    let effects = case.effects();
    assert_eq!((released(&effects), reserved(&effects)), (vec!["room-p1"], vec!["p1"]));
}

#[test]
fn a_late_pod_is_written_down_before_the_drain_begins() {
    let case = surging().covered(&["p1"]).with(|case| case.seen.verdicts.fresh = vec![fresh("late")]);
    let record = case.step().record.unwrap();
    assert_eq!(record.phase(), Phase::Surging);
    assert_eq!(record.moves().len(), 2);
}

#[test]
fn room_that_does_not_come_in_time_rolls_it_back_with_what_was_missing() {
    let case = surging().moving(&["p1"]).with(|case| {
        case.seen.needs = vec![Need { coming: uids(&["p1"]), ..need("p1", &[]) }];
        let message = Some("0/4 nodes are available".to_owned());
        case.seen.room = vec![in_state("p1", RoomState::Coming { message })];
        case.now = at(10 + 901);
    });
    let record = case.step().record.unwrap();
    assert_eq!(record.phase(), Phase::RollingBack);
    let outcome = record.outcome.unwrap();
    assert_eq!(outcome.code, Some(Code::Reserving));
    assert_eq!(
        outcome.message,
        "no room within 15m: 0 of 1 placeholders are running; room-p1: 0/4 nodes are available"
    );
}

#[test]
fn a_refused_placeholder_is_named_as_the_reason() {
    let case = surging().moving(&["p1"]).with(|case| {
        case.seen.needs = vec![need("p1", &[])];
        case.seen.failures = vec![notice(Code::PlaceholderRefused, "Pod kubectl-rotate-room/room-x", "exceeded quota")];
    });
    assert!(case.waits().contains(&Code::PlaceholderRefused));
    let record = case.with(|case| case.now = at(2000)).step().record.unwrap();
    assert_eq!(record.outcome.unwrap().code, Some(Code::PlaceholderRefused));
}

#[test]
fn a_pause_holds_everything_and_its_length_is_no_timeout() {
    let case = surging().moving(&["p1"]).paused().with(|case| {
        case.seen.needs = vec![need("p1", &[])];
        case.now = at(5000);
    });
    assert_eq!(case.effects(), []);
    assert_eq!(case.waits(), [Code::Paused]);
    let resumed = case.with(|case| {
        case.request = Request { resumed_at: Some(at(5000)), ..Request::default() };
        case.now = at(5100);
    });
    assert_eq!(reserved(&resumed.effects()), ["p1"]);
}

#[test]
fn a_cancel_rolls_it_back_even_while_paused() {
    let record = surging().moving(&["p1"]).paused().cancelled().step().record.unwrap();
    assert_eq!(record.phase(), Phase::RollingBack);
    assert_eq!(record.outcome.unwrap().code, None);
}

#[test]
fn a_node_lost_while_surging_supersedes_it() {
    let case = surging().moving(&["p1"]).with(|case| case.seen.node = NodeSeen::Gone);
    let record = case.step().record.unwrap();
    assert_eq!(record.ending.unwrap().phase, Phase::Superseded);
}

#[test]
fn rolling_back_releases_everything_undoes_the_cordon_and_then_ends() {
    let case = Case::in_phase(Phase::RollingBack).covered(&["p1"]);
    let effects = case.effects();
    assert_eq!(released(&effects), ["room-p1"]);
    assert!(effects.contains(&Effect::Unmark { uncordon: true }));
    assert_eq!(evicted(&effects), Vec::<&str>::new());

    let released = case.clone().with(|case| case.seen.room = vec![in_state("p1", RoomState::Ending)]);
    assert_eq!(released.effects(), [Effect::Unmark { uncordon: true }], "it waits until the placeholder is gone");
    let clean = released.with(|case| {
        case.seen.room.clear();
        case.seen.node = UNMARKED;
    });
    assert_eq!(clean.next(), Phase::RolledBack);
    let creating = clean.clone().with(|case| case.seen.room = vec![in_state("p1", RoomState::Creating)]);
    assert_eq!(creating.effects(), [], "a placeholder may still appear");
    let record = clean.step().record.unwrap();
    assert_eq!(record.outcome.unwrap().code, Some(Code::Reserving), "the reason stays");
    assert_eq!(record.moved, Vec::<String>::new());
}

#[test]
fn rolling_back_does_not_need_the_node() {
    let case = Case::in_phase(Phase::RollingBack).with(|case| case.seen.node = NodeSeen::Gone);
    assert_eq!(case.next(), Phase::RolledBack);
}

#[test]
fn a_rollback_cannot_be_paused() {
    let case = Case::in_phase(Phase::RollingBack).covered(&["p1"]).paused();
    assert_eq!(released(&case.effects()), ["room-p1"]);
}
