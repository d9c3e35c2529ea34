use super::*;
use crate::cache::Partition;
use crate::rotation::observation::Unread;

/// A rotation whose candidate's Pods are not read: it looks empty, and is not.
fn unread(phase: Phase) -> Case {
    Case::in_phase(phase).moving(&["p1", "p2"]).with(|case| {
        case.seen.unread = Some(Unread { scope: Partition::node("cand"), error: None });
        case.seen.room = vec![held("p1"), held("p2")];
    })
}

#[test]
fn pods_that_are_not_read_are_not_taken_for_gone() {
    for phase in [Phase::Surging, Phase::Draining, Phase::Settling, Phase::Removing] {
        let case = unread(phase);
        assert_eq!(case.waits(), [Code::NotReady], "{phase}");
        assert_eq!(case.message(), "the Pods of node cand are still being read");
        assert_eq!(case.effects(), [], "{phase}: what is held stays held");
        let progress = case.step().progress;
        assert_eq!((progress.to_move, progress.evicted, progress.landed), (2, 0, 0));
    }
}

#[test]
fn why_they_are_not_read_is_said() {
    let case = unread(Phase::Draining).with(|case| {
        let error = Some("read /api/v1/pods: 403 no".into());
        case.seen.unread = Some(Unread { scope: Partition::namespace("shop"), error });
    });
    assert_eq!(case.message(), "the Pods of namespace shop are still being read: failed to read /api/v1/pods: 403 no");
}

#[test]
fn before_the_first_eviction_a_cancel_and_the_timeout_hold_as_always() {
    assert_eq!(unread(Phase::Surging).cancelled().next(), Phase::RollingBack);
    let late = unread(Phase::Surging).with(|case| case.now = at(3600));
    let record = late.step().record.unwrap();
    assert_eq!(record.phase(), Phase::RollingBack);
    let outcome = record.outcome.unwrap();
    assert_eq!(outcome.code, Some(Code::NotReady));
    assert!(outcome.message.ends_with("the Pods of node cand are still being read"), "{}", outcome.message);
    assert_eq!(late.paused().waits(), [Code::Paused, Code::NotReady]);
}

#[test]
fn a_node_that_is_gone_before_anything_was_read_is_superseded() {
    let case = unread(Phase::Surging).with(|case| case.seen.node = NodeSeen::Gone);
    let record = case.step().record.unwrap();
    assert_eq!(record.ending.map(|ending| ending.phase), Some(Phase::Superseded));
}

#[test]
fn afterwards_a_cancel_waits_until_it_is_known_what_has_moved() {
    let case = unread(Phase::Draining).cancelled();
    assert_eq!(case.waits(), [Code::NotReady]);
    assert_eq!(case.effects(), []);
}

#[test]
fn what_is_wound_up_holds_its_room_for_as_long_as_replacements_are_waited_for() {
    let case = unread(Phase::Draining).with(|case| {
        case.record.ending = Some(Ending { phase: Phase::Stopped, since: at(20), uncordon: false });
        case.now = at(60);
    });
    assert_eq!(case.waits(), [Code::NotReady]);
    assert_eq!(case.effects(), []);
    let late = case.with(|case| case.now = at(20 + 301));
    assert_eq!(released(&late.effects()), ["room-p1", "room-p2"]);
    let clean = late.with(|case| {
        case.seen.room.clear();
        case.seen.node = NodeSeen::Here { marked: false, traces: false, deleting: false };
    });
    let record = clean.step().record.unwrap();
    assert_eq!(record.phase(), Phase::Stopped);
    assert!(record.moved.is_empty() && record.progress.is_none(), "how far it was is not known");
}
