use super::*;
use crate::rotation::observation::SurgeNode;

fn claim() -> Removal {
    Removal::NodeClaim { name: "surge-1".to_owned(), uid: "uid-claim".to_owned() }
}

/// A node that came for the placeholder of `p1` and is protected, as Karpenter brings them.
fn came() -> SurgeNode {
    SurgeNode {
        name: "new".to_owned(),
        uid: "uid-new".to_owned(),
        protected: true,
        unused: Some(true),
        removal: Some(claim()),
        ..SurgeNode::default()
    }
}

fn protect() -> Effect {
    Effect::Protect { node: "new".to_owned(), uid: "uid-new".to_owned() }
}

fn unprotect() -> Effect {
    Effect::Unprotect { node: "new".to_owned(), uid: "uid-new".to_owned() }
}

fn give_back() -> Effect {
    Effect::GiveBack { node: "new".to_owned(), uid: "uid-new".to_owned(), removal: claim() }
}

fn with(case: Case, node: SurgeNode) -> Case {
    case.with(|case| case.seen.surge_nodes = vec![node])
}

/// A rotation that is rolled back, its placeholders gone.
fn rolled_back(node: SurgeNode) -> Case {
    with(Case::in_phase(Phase::RollingBack), node).with(|case| {
        case.seen.node = NodeSeen::Here { marked: false, traces: false, deleting: false };
    })
}

#[test]
fn a_node_that_came_for_a_placeholder_is_protected_while_it_is_held() {
    let unprotected = SurgeNode { holds: true, protected: false, unused: Some(true), ..came() };
    for phase in [Phase::Surging, Phase::Draining] {
        let case = with(Case::in_phase(phase).covered(&["p1"]), unprotected.clone());
        // Surging goes on to Draining, which is written first.
        let effects = if phase == Phase::Surging { step_of_uncovered(&case) } else { case.effects() };
        assert!(effects.contains(&protect()), "{phase}");
    }
    for other in [
        SurgeNode { protected: true, ..unprotected.clone() },
        SurgeNode { others: true, ..unprotected.clone() },
        SurgeNode { leaving: true, ..unprotected.clone() },
        SurgeNode { holds: false, ..unprotected },
    ] {
        let case = with(Case::in_phase(Phase::Draining).covered(&["p1"]), other.clone());
        assert!(!case.effects().contains(&protect()), "{other:?}");
    }
}

/// The effects while room is still on its way.
fn step_of_uncovered(case: &Case) -> Vec<Effect> {
    let uncovered = case.clone().with(|case| {
        case.seen.room = vec![in_state("p1", RoomState::Coming { message: None })];
        case.seen.needs = vec![Need { coming: uids(&["p1"]), ..need("p1", &[]) }];
    });
    uncovered.effects()
}

#[test]
fn an_unused_node_is_given_back_after_its_placeholders_are_gone_and_then_loses_our_protection() {
    let held = rolled_back(came()).with(|case| case.seen.room = vec![held("p1")]);
    assert_eq!(released(&held.effects()), ["room-p1"]);
    assert!(!held.effects().contains(&give_back()), "what it is used for shows only then");
    let free = rolled_back(came());
    assert_eq!(free.effects(), [give_back()]);
    let given_back = rolled_back(SurgeNode { given_back: true, ..came() });
    assert_eq!(given_back.effects(), [unprotect()]);
    assert_eq!(rolled_back(SurgeNode { given_back: true, protected: false, ..came() }).next(), Phase::RolledBack);
    assert_eq!(rolled_back(SurgeNode { leaving: true, ..came() }).next(), Phase::RolledBack, "its marks go with it");
}

#[test]
fn a_node_that_hosts_anything_real_or_was_there_before_is_never_given_back() {
    for node in [
        SurgeNode { unused: Some(false), ..came() },
        SurgeNode { removal: None, ..came() },
        SurgeNode { removal: Some(Removal::NodeObject), ..came() },
        SurgeNode { removal: Some(Removal::Left { to: "to its autoscaler".to_owned(), within: None }), ..came() },
        SurgeNode { removal: Some(Removal::Hook { provider_id: "aws:///i-1".to_owned() }), ..came() },
    ] {
        assert_eq!(rolled_back(node.clone()).effects(), [unprotect()], "{node:?}");
    }
}

#[test]
fn what_is_not_known_of_a_node_is_waited_for_and_then_said() {
    let unread = rolled_back(SurgeNode { unused: None, ..came() });
    assert_eq!((unread.effects(), unread.waits()), (vec![], vec![Code::NotReady]));
    let unknown =
        rolled_back(SurgeNode { removal: None, ..came() }).with(|case| case.seen.machine = Machine::default());
    assert_eq!((unknown.effects(), unknown.waits()), (vec![], vec![Code::NotReady]));
    for case in [unread, unknown] {
        let record = case.with(|case| case.now = at(10 + 301)).step().record.unwrap();
        assert_eq!(record.warnings[0].code, Code::NotGivenBack);
        assert_eq!(record.phase(), Phase::RollingBack);
    }
}

#[test]
fn what_stands_behind_a_young_node_is_read_anew_before_it_is_given_back() {
    for removal in [claim(), Removal::NodeObject] {
        let stale = rolled_back(SurgeNode { stale: true, removal: Some(removal), ..came() });
        assert_eq!((stale.effects(), stale.waits()), (vec![Effect::ReadProvider], vec![Code::NotReady]));
    }
}

#[test]
fn a_give_back_that_is_refused_for_ever_is_said_and_ends() {
    let refused = rolled_back(SurgeNode { failed: true, ..came() });
    assert_eq!(refused.effects(), [give_back()]);
    let late = refused.with(|case| case.now = at(10 + 301));
    let record = late.step().record.unwrap();
    assert!(record.warnings[0].message.ends_with("it is not given back: its removal is refused"));
    assert_eq!(late.with(|case| case.record = record).effects(), [unprotect()]);
}

#[test]
fn every_end_takes_our_protection_off() {
    let used = SurgeNode { unused: Some(false), ..came() };
    let kept = with(Case::in_phase(Phase::Removing), used.clone()).with(|case| {
        case.record.options.then = Some(Then::Keep);
        case.seen.barrier = Barrier::Passed;
    });
    assert_eq!(kept.effects(), [unprotect(), Effect::Unmark { uncordon: false }]);
    let deleted = with(Case::in_phase(Phase::Removing), used).with(|case| {
        case.record.options.then = Some(Then::Delete);
        case.seen.node = NodeSeen::Gone;
        case.seen.machine.gone = true;
    });
    assert_eq!(deleted.effects(), [unprotect()]);
}
