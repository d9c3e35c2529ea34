use super::*;

const CLAIM: &str = "cart-7f";

fn claim() -> Removal {
    Removal::NodeClaim { name: CLAIM.to_owned(), uid: "uid-claim".to_owned() }
}

/// An empty node that this takes away.
fn removing(removal: Removal) -> Case {
    Case::in_phase(Phase::Removing).moving(&["p1"]).with(|case| {
        case.record.options.then = Some(Then::Delete);
        case.record.removal = Some(removal.clone());
        case.seen.machine.removal = Some(removal);
        case.seen.barrier = Barrier::Passed;
        case.seen.owners = vec![cart(1, 1, 1)];
    })
}

fn asked(case: Case, accepted: Option<i64>) -> Case {
    case.with(|case| case.seen.machine.asked = Some(Asked { since: at(20), accepted: accepted.map(at) }))
}

fn outcome(case: &Case) -> String {
    case.step().record.expect("it ends").outcome.expect("it says how").message
}

#[test]
fn how_the_node_is_taken_away_is_written_down_before_it_is() {
    let settled = Case::in_phase(Phase::Settling).with(|case| {
        case.record.options.then = Some(Then::Delete);
        case.seen.machine.removal = Some(claim());
    });
    let record = settled.step().record.unwrap();
    assert_eq!((record.phase(), record.removal), (Phase::Removing, Some(claim())));
    let unread = settled.with(|case| case.seen.machine = Machine::default());
    assert_eq!(unread.waits(), [Code::NotReady]);
}

#[test]
fn what_stands_behind_the_node_is_waited_for_while_it_cannot_be_read_and_no_node_is_deleted_instead() {
    let left = Removal::Left { to: "Karpenter, whose NodeClaims may not be read".to_owned(), within: None };
    let settled = Case::in_phase(Phase::Settling).with(|case| {
        case.record.options.then = Some(Then::Delete);
        case.seen.machine.removal = Some(left.clone());
    });
    assert_eq!((settled.step().record, settled.waits()), (None, vec![Code::ProviderUnreadable]));
    let since = settled.record.phase_since();
    let late = settled.with(|case| case.now = since + SignedDuration::from_secs(15 * 60 + 1));
    assert_eq!(late.step().record.unwrap().removal, Some(left.clone()));
    // An earlier version of us wrote none, or the record was written before it could be read.
    let unwritten = removing(left).with(|case| case.record.removal = None);
    assert_eq!((unwritten.step().record, unwritten.waits()), (None, vec![Code::ProviderUnreadable]));
}

#[test]
fn a_claim_is_deleted_and_the_rotation_ends_when_its_instance_is_gone() {
    let case = removing(claim());
    assert_eq!(case.effects(), [Effect::Remove(claim())]);
    let accepted = asked(case, Some(20));
    assert_eq!(accepted.effects(), []);
    assert_eq!(accepted.message(), "NodeClaim cart-7f is being deleted, and the node with it");
    let node_gone = accepted.with(|case| case.seen.node = NodeSeen::Gone);
    assert_eq!(node_gone.message(), "the Node is gone, NodeClaim cart-7f is not yet");
    let gone = node_gone.with(|case| case.seen.machine.gone = true);
    assert_eq!(gone.next(), Phase::Succeeded);
    assert_eq!(outcome(&gone), "drained and deleted; NodeClaim cart-7f is gone");
}

#[test]
fn a_new_leader_that_finds_the_node_going_waits_for_it() {
    let case = removing(claim()).with(|case| {
        case.seen.node = NodeSeen::Here { marked: true, traces: true, deleting: true };
        case.seen.machine.taken = Some("NodeClaim cart-7f was deleted".to_owned());
    });
    assert_eq!(case.effects(), []);
    assert_eq!(case.waits(), [Code::NodeLeaving]);
}

#[test]
fn a_removal_that_shows_nowhere_is_asked_for_again_but_a_hook_is_not() {
    for (removal, again) in [(claim(), true), (Removal::Hook { provider_id: "aws:///i-1".to_owned() }, false)] {
        let case = asked(removing(removal.clone()), Some(20));
        assert_eq!(case.clone().with(|case| case.now = at(60)).effects(), []);
        let later = case.with(|case| case.now = at(80)).effects();
        assert_eq!(later, if again { vec![Effect::Remove(removal)] } else { vec![] });
    }
}

#[test]
fn a_removal_that_is_accepted_while_the_node_stays_for_ever_has_failed() {
    let lie = asked(removing(Removal::Hook { provider_id: "aws:///i-1".to_owned() }), Some(20));
    assert_eq!(lie.clone().with(|case| case.now = at(20 + 900)).waits(), [Code::NodeLeaving]);
    let late = lie.with(|case| case.now = at(20 + 901));
    let record = late.step().record.unwrap();
    assert_eq!(record.ending.as_ref().unwrap().phase, Phase::Failed);
    assert_eq!(record.outcome.as_ref().unwrap().code, Some(Code::RemovalFailed));
    let said = record.outcome.as_ref().unwrap().message.clone();
    let expected =
        "drained, and the removal of machine aws:///i-1 was accepted, but node cand is there still after 15m";
    assert!(said.starts_with(expected), "{said}");
    let ending = late.with(|case| case.record = record);
    assert_eq!(ending.effects(), [Effect::Unmark { uncordon: false }], "the node stays cordoned");
}

#[test]
fn a_removal_that_is_refused_for_ever_has_failed_and_says_what_was_answered() {
    let refused = asked(removing(claim()), None).with(|case| {
        case.seen.failures = vec![notice(Code::ApiError, "Node cand", "failed to delete NodeClaim cart-7f: forbidden")];
    });
    assert_eq!(refused.effects(), [Effect::Remove(claim())], "it is tried as long as it may come about");
    let late = refused.with(|case| case.now = at(20 + 901));
    let said = outcome(&late);
    assert!(said.starts_with("drained, but failed to delete NodeClaim cart-7f: forbidden, for 15m; see"), "{said}");
}

#[test]
fn a_claim_that_outlives_its_node_for_ever_has_failed() {
    let case = asked(removing(claim()), Some(20)).with(|case| {
        case.seen.node = NodeSeen::Gone;
        case.now = at(20 + 901);
    });
    assert!(
        outcome(&case).contains("NodeClaim cart-7f is not after 15m: its machine may run on"),
        "{}",
        outcome(&case)
    );
}

#[test]
fn a_node_that_is_left_to_its_autoscaler_loses_our_marks_and_says_by_when_it_is_gone() {
    let left = Removal::Left {
        to: "cluster-autoscaler, which removes unneeded nodes".to_owned(),
        within: Some(SignedDuration::from_mins(10)),
    };
    let case = removing(left);
    assert_eq!(case.effects(), [Effect::Unmark { uncordon: false }]);
    let done = case.with(|case| case.seen.node = NodeSeen::Here { marked: false, traces: false, deleting: false });
    assert_eq!(done.next(), Phase::Succeeded);
    let expected = format!(
        "drained, and left to cluster-autoscaler, which removes unneeded nodes; expected to be gone by {:.0}",
        at(620)
    );
    assert_eq!(outcome(&done), expected);
    let taken_already = done.with(|case| case.seen.node = NodeSeen::Gone);
    assert_eq!(taken_already.next(), Phase::Succeeded);
}

// === rebooted ===

fn rebooting() -> Case {
    removing(Removal::NodeObject).with(|case| {
        case.record.options.then = Some(Then::Uncordon);
        case.record.boot_id = Some("first".to_owned());
        case.seen.machine.boot_id = Some("first".to_owned());
        case.seen.machine.ready = true;
    })
}

#[test]
fn an_uncordoned_node_is_waited_for_until_it_was_rebooted_and_is_ready() {
    let case = rebooting();
    assert_eq!(case.effects(), []);
    assert_eq!(case.waits(), [Code::WaitingForReboot]);
    assert_eq!(case.message(), "it is empty and waits until 08:15:10Z for its reboot (boot ID first)");
    let told = case.message();
    let later = case.with(|case| case.now = at(12));
    assert_eq!(later.message(), told, "no countdown: nothing has changed");
    let down = later.with(|case| {
        case.seen.machine.boot_id = Some("second".to_owned());
        case.seen.machine.ready = false;
    });
    assert_eq!(down.message(), "it was rebooted and is not Ready yet; it has until 08:15:10Z");
    let up = down.with(|case| case.seen.machine.ready = true);
    assert_eq!(up.effects(), [Effect::Unmark { uncordon: true }]);
    let clean = up.with(|case| case.seen.node = NodeSeen::Here { marked: false, traces: false, deleting: false });
    assert_eq!(outcome(&clean), "drained, rebooted and uncordoned");
}

#[test]
fn a_node_that_is_not_rebooted_in_time_stays_cordoned_and_the_command_is_told() {
    let late = rebooting().with(|case| case.now = at(10 + 901));
    let record = late.step().record.unwrap();
    assert_eq!(record.ending.as_ref().unwrap().phase, Phase::Failed);
    let message = "drained, but node cand was not rebooted after 15m; it stays cordoned: kubectl uncordon cand";
    assert_eq!(record.outcome.as_ref().unwrap().message, message);
    assert_eq!(late.with(|case| case.record = record).effects(), [Effect::Unmark { uncordon: false }]);
}

#[test]
fn the_boot_id_is_noted_when_the_node_is_empty_first() {
    let draining = Case::in_phase(Phase::Draining).with(|case| case.seen.machine.boot_id = Some("first".to_owned()));
    let record = draining.step().record.unwrap();
    assert_eq!(record.boot_id.as_deref(), Some("first"));
    let again = draining.with(|case| {
        case.record.boot_id = Some("first".to_owned());
        case.seen.machine.boot_id = Some("second".to_owned());
    });
    assert_eq!(
        again.step().record.unwrap().boot_id.as_deref(),
        Some("first"),
        "a late Pod does not begin the wait anew"
    );
}

// === taken by other hands ===

const DELETING: NodeSeen = NodeSeen::Here { marked: true, traces: true, deleting: true };

fn taken(phase: Phase) -> Case {
    Case::in_phase(phase).covered(&["p1", "p2"]).with(|case| {
        case.seen.machine.taken = Some("NodeClaim cart-7f was deleted".to_owned());
    })
}

#[test]
fn a_node_that_other_hands_begin_to_take_away_is_superseded_and_nothing_more_is_evicted() {
    for phase in [Phase::Surging, Phase::Draining, Phase::Settling, Phase::Removing] {
        let case = taken(phase);
        let record = case.step().record.unwrap();
        assert_eq!(record.ending.as_ref().unwrap().phase, Phase::Superseded, "{phase}");
        assert_eq!(outcome(&case), "taken by other hands: NodeClaim cart-7f was deleted");
        let case = case.with(|case| case.record = record);
        assert_eq!(case.effects(), [], "{phase}: nothing is evicted, and what is held stays held");
        assert_eq!(case.message(), "other hands take it away: room is held for 2 Pods that are on it still");
    }
    let deleted = Case::in_phase(Phase::Draining).covered(&["p1"]).with(|case| case.seen.node = DELETING);
    assert_eq!(outcome(&deleted), "taken by other hands: Node cand was deleted");
}

#[test]
fn room_is_held_until_the_replacements_of_all_pods_run_and_the_cordon_of_a_node_that_goes_stays() {
    let case = taken(Phase::Draining);
    let record = case.step().record.unwrap();
    let case = case.with(|case| {
        case.record = record;
        case.seen.node = DELETING;
        case.seen.leaving.remove(0);
        case.seen.needs[0].pending = Some(Pending::default());
        case.now = at(20 + 1000);
    });
    assert_eq!(case.effects(), [], "evicting may take others longer than a settling");
    let landed = case.with(|case| {
        case.seen.needs.clear();
        case.seen.leaving.clear();
    });
    assert_eq!(released(&landed.effects()), ["room-p1", "room-p2"]);
    assert!(landed.effects().contains(&Effect::Unmark { uncordon: false }));
}

#[test]
fn a_node_that_other_hands_give_up_is_taken_back_into_service() {
    let case = taken(Phase::Draining);
    let record = case.step().record.unwrap();
    let given_up = case.with(|case| {
        case.record = record;
        case.seen.machine.taken = None;
    });
    assert_eq!(released(&given_up.effects()), ["room-p1", "room-p2"]);
    assert!(given_up.effects().contains(&Effect::Unmark { uncordon: true }));
}

#[test]
fn a_roll_back_is_not_superseded() {
    let case = taken(Phase::RollingBack);
    assert!(case.effects().contains(&Effect::Unmark { uncordon: true }));
}
