use super::*;

const UNMARKED: NodeSeen = NodeSeen::Here { marked: false, traces: false, deleting: false };

fn settling() -> Case {
    Case::in_phase(Phase::Settling).moving(&["p1", "p2"])
}

fn removing(then: Option<Then>) -> Case {
    Case::in_phase(Phase::Removing).moving(&["p1"]).with(|case| {
        case.record.options.then = then;
        case.record.options.reboot_timeout_seconds = 0;
        case.seen.barrier = Barrier::Passed;
        case.seen.owners = vec![cart(1, 1, 1)];
    })
}

// === Settling ===

#[test]
fn it_settles_once_every_replacement_is_ready() {
    let half = settling().with(|case| case.seen.owners = vec![cart(2, 2, 1)]);
    assert_eq!(half.waits(), [Code::WaitingForReplacement]);
    assert_eq!(half.message(), "1 of 2 replacements are Ready");
    let ready = half.with(|case| case.seen.owners = vec![cart(2, 2, 2)]);
    assert_eq!(ready.next(), Phase::Removing);
}

#[test]
fn an_owner_that_wants_fewer_is_settled() {
    let case = settling().with(|case| case.seen.owners = vec![OwnerSeen { satisfied: true, ..cart(2, 0, 0) }]);
    assert_eq!(case.next(), Phase::Removing);
}

#[test]
fn replacements_that_do_not_become_ready_end_in_a_warning() {
    let case = settling().with(|case| {
        case.seen.owners = vec![cart(2, 2, 1)];
        case.now = at(10 + 301);
    });
    let record = case.step().record.unwrap();
    // The warning is written with the change of phase.
    assert_eq!(record.phase(), Phase::Removing);
    assert_eq!(record.warnings[0].code, Code::SettleTimedOut);
    assert_eq!(record.warnings[0].message, "1 of 2 replacements are Ready after 5m");
}

#[test]
fn room_is_held_for_replacements_that_have_not_landed() {
    let case = settling().with(|case| {
        case.seen.owners = vec![cart(2, 1, 1)];
        case.seen.needs = vec![pending("p1", &["p1"])];
        case.seen.room = vec![held("p1"), held("p2")];
    });
    assert_eq!(released(&case.effects()), ["room-p2"]);
}

#[test]
fn a_pod_that_appears_while_settling_is_drained_first() {
    let case = settling().with(|case| case.seen.verdicts.fresh = vec![fresh("late")]);
    assert_eq!(case.next(), Phase::Draining);
    let case = settling().with(|case| case.seen.leaving = vec![leaving("p1", 0)]);
    assert_eq!(case.next(), Phase::Draining);
}

#[test]
fn a_pause_holds_the_settling() {
    let case = settling().paused().with(|case| case.seen.owners = vec![cart(2, 2, 2)]);
    assert_eq!(case.waits(), [Code::Paused]);
}

/// Somebody has lifted the cordon; our marks are there still.
const LIFTED: NodeSeen = NodeSeen::Here { marked: false, traces: true, deleting: false };

#[test]
fn a_cordon_that_is_lifted_on_the_way_is_put_back_before_anything_is_concluded() {
    let settling = settling().with(|case| {
        case.seen.owners = vec![cart(2, 2, 2)];
        case.seen.node = LIFTED;
    });
    assert_eq!(settling.effects(), [Effect::Mark]);
    for then in [None, Some(Then::Delete), Some(Then::Uncordon)] {
        assert_eq!(removing(then).with(|case| case.seen.node = LIFTED).effects(), [Effect::Mark]);
    }
}

// === Removing ===

#[test]
fn nothing_is_removed_before_a_consistent_list_showed_nothing_to_move() {
    for then in [None, Some(Then::Delete), Some(Then::Uncordon)] {
        let case = removing(then).with(|case| case.seen.barrier = Barrier::Open);
        assert_eq!(case.effects(), [Effect::List]);
    }
}

#[test]
fn a_kept_node_loses_our_marks_and_keeps_the_cordon() {
    let case = removing(None);
    assert_eq!(case.effects(), [Effect::Unmark { uncordon: false }]);
    let done = case.with(|case| case.seen.node = UNMARKED);
    let record = done.step().record.unwrap();
    assert_eq!(record.phase(), Phase::Succeeded);
    assert_eq!(
        record.outcome.unwrap().message,
        "drained; the node stays, cordoned; kubectl uncordon cand takes it back into service"
    );
    assert_eq!(record.moved, ["shop/p1"]);
    assert_eq!(record.progress.unwrap().landed, 1);
}

#[test]
fn an_uncordoned_node_is_uncordoned() {
    let case = removing(Some(Then::Uncordon));
    assert_eq!(case.effects(), [Effect::Unmark { uncordon: true }]);
}

#[test]
fn a_cordon_that_is_not_ours_is_not_said_to_be_lifted() {
    let case = removing(Some(Then::Uncordon)).with(|case| {
        case.seen.node = UNMARKED;
        case.seen.foreign_cordon = true;
    });
    let outcome = case.step().record.unwrap().outcome.unwrap();
    assert_eq!(outcome.message, "drained; the node stays cordoned, as it was found");

    let mut stopped = Case::in_phase(Phase::Draining).moving(&["p1"]).cancelled();
    stopped.request.cancel = Some(CancelRequest { uncordon: true });
    stopped.seen.foreign_cordon = true;
    let outcome = stopped.step().record.unwrap().outcome.unwrap();
    assert!(outcome.message.ends_with("; the node stays cordoned, as it was found"), "{}", outcome.message);
}

#[test]
fn pods_that_come_once_the_node_is_uncordoned_do_not_begin_it_all_over() {
    let case = removing(Some(Then::Uncordon)).with(|case| {
        case.seen.node = UNMARKED;
        case.seen.verdicts.fresh = vec![fresh("new")];
    });
    assert_eq!(case.next(), Phase::Succeeded);
}

#[test]
fn a_deleted_node_goes_after_its_placeholders_and_ends_the_rotation_when_it_is_gone() {
    let case = removing(Some(Then::Delete)).with(|case| case.seen.room = vec![held("p1")]);
    assert_eq!(released(&case.effects()), ["room-p1"]);
    let clean = case.with(|case| case.seen.room.clear());
    assert_eq!(clean.effects(), [Effect::Remove(Removal::NodeObject)]);
    let deleting = clean.with(|case| {
        case.seen.node = NodeSeen::Here { marked: true, traces: true, deleting: true };
    });
    assert_eq!(deleting.waits(), [Code::NodeLeaving]);
    assert_eq!(deleting.effects(), []);
    let gone = deleting.with(|case| case.seen.node = NodeSeen::Gone);
    let record = gone.step().record.unwrap();
    assert_eq!(record.phase(), Phase::Succeeded);
    assert_eq!(record.warnings[0].code, Code::MachineRunsOn);
}

#[test]
fn an_arriving_pod_holds_the_removal_and_is_named() {
    let case = removing(Some(Then::Delete)).with(|case| case.seen.arriving = vec!["shop/late".to_owned()]);
    assert_eq!(case.effects(), []);
    assert_eq!(case.waits(), [Code::ArrivingPod]);
    assert_eq!(case.message(), "the scheduler is about to place it on node cand");
}

#[test]
fn a_pod_that_was_bound_late_is_drained_before_the_removal() {
    let case = removing(Some(Then::Delete)).with(|case| case.seen.verdicts.fresh = vec![fresh("late")]);
    assert_eq!(case.next(), Phase::Draining);
}

#[test]
fn a_pause_holds_the_removal() {
    assert_eq!(removing(Some(Then::Delete)).paused().waits(), [Code::Paused]);
    assert_eq!(removing(None).paused().effects(), []);
}

#[test]
fn a_cancel_before_the_removal_stops_it() {
    let record = removing(Some(Then::Delete)).cancelled().step().record.unwrap();
    assert_eq!(record.ending.unwrap().phase, Phase::Stopped);
}

// === Stopped and Superseded ===

#[test]
fn a_cancel_before_the_first_eviction_rolls_back() {
    let case = Case::in_phase(Phase::Draining).covered(&["p1"]).cancelled();
    assert_eq!(case.next(), Phase::RollingBack);
}

#[test]
fn a_cancel_after_the_first_eviction_stops_evicting_and_waits_for_what_is_on_its_way() {
    let case = Case::in_phase(Phase::Draining).covered(&["p1", "p2"]).cancelled().with(|case| {
        case.seen.leaving[1].terminating = true;
        case.seen.needs[1].pending = Some(Pending::default());
        case.seen.owners = vec![cart(1, 0, 0)];
    });
    let record = case.step().record.unwrap();
    assert_eq!(record.phase(), Phase::Draining);
    assert_eq!(record.outcome.as_ref().unwrap().message, "cancelled after 1 Pod had moved; the node stays cordoned");

    let stopping = case.with(|case| case.record = record);
    let effects = stopping.effects();
    assert_eq!(evicted(&effects), Vec::<&str>::new());
    assert_eq!(released(&effects), ["room-p1"], "the Pod that stays needs none");
    assert_eq!(stopping.waits(), [Code::WaitingForReplacement]);

    let landed = stopping.clone().with(|case| {
        case.seen.needs.remove(1);
        case.seen.leaving.remove(1);
        case.seen.owners = vec![cart(1, 1, 1)];
    });
    let effects = landed.effects();
    assert_eq!(released(&effects), ["room-p1", "room-p2"]);
    assert!(effects.contains(&Effect::Unmark { uncordon: false }));

    let clean = landed.with(|case| {
        case.seen.room.clear();
        case.seen.node = UNMARKED;
    });
    let record = clean.step().record.unwrap();
    assert_eq!(record.phase(), Phase::Stopped);
    assert_eq!(record.moved, ["shop/p2"], "what moved is listed");

    let overdue = stopping.with(|case| case.now = at(1000));
    assert!(overdue.effects().contains(&Effect::Unmark { uncordon: false }), "it does not wait for ever");
}

#[test]
fn a_cancel_may_lift_the_cordon_even_after_it_was_asked_for() {
    let case = Case::in_phase(Phase::Draining).moving(&["p1"]).cancelled();
    let record = case.step().record.unwrap();
    let case = case.with(|case| {
        case.record = record;
        case.request.cancel = Some(CancelRequest { uncordon: true });
    });
    assert!(case.effects().contains(&Effect::Unmark { uncordon: true }));
}

#[test]
fn a_node_lost_at_any_time_is_superseded_after_its_replacements_have_landed() {
    for phase in [Phase::Surging, Phase::Draining, Phase::Settling, Phase::Removing] {
        let case = Case::in_phase(phase).moving(&["p1"]).with(|case| {
            case.seen.node = NodeSeen::Gone;
            case.seen.needs = vec![pending("p1", &["p1"])];
            case.seen.room = vec![held("p1")];
        });
        let record = case.step().record.unwrap();
        assert_eq!(record.ending.as_ref().unwrap().phase, Phase::Superseded, "{phase}");
        let case = case.with(|case| case.record = record);
        assert_eq!(case.effects(), [], "its room is held while it is on its way");
        let landed = case.with(|case| case.seen.needs.clear());
        assert_eq!(released(&landed.effects()), ["room-p1"]);
        let clean = landed.with(|case| case.seen.room.clear());
        assert_eq!(clean.next(), Phase::Superseded);
    }
}

#[test]
fn the_room_of_pods_that_are_lost_with_their_node_is_held_until_their_replacements_have_landed() {
    let case = Case::in_phase(Phase::Draining).covered(&["p1"]).with(|case| case.seen.node = NodeSeen::Gone);
    let record = case.step().record.unwrap();
    let case = case.with(|case| case.record = record);
    assert_eq!(case.effects(), []);
    assert_eq!(case.waits(), [Code::NodeLeaving]);
    let overdue = case.with(|case| case.now = at(1000));
    assert_eq!(released(&overdue.effects()), ["room-p1"], "but not for ever");
}

#[test]
fn an_end_that_is_on_its_way_cannot_be_paused() {
    let case = Case::in_phase(Phase::Draining).moving(&["p1"]).cancelled();
    let record = case.step().record.unwrap();
    let case = case.paused().with(|case| case.record = record);
    assert!(case.effects().contains(&Effect::Unmark { uncordon: false }));
}
