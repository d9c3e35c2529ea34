use super::*;

fn notice(code: Code) -> Notice {
    super::notice(code, "the agent", "1 of 1 in work")
}

#[test]
fn a_queued_rotation_begins_once_it_has_a_slot() {
    assert_eq!(Case::in_phase(Phase::Queued).next(), Phase::Surging);
}

#[test]
fn without_a_slot_it_says_who_has_it() {
    let wait = Slot::Wait(notice(Code::WaitingForSlot));
    let case = Case::in_phase(Phase::Queued).with(|case| case.seen.slot = wait);
    assert_eq!(case.waits(), [Code::WaitingForSlot]);
    assert_eq!(case.effects(), []);
}

#[test]
fn a_paused_one_stays_in_the_queue() {
    let case = Case::in_phase(Phase::Queued).paused();
    assert_eq!(case.waits(), [Code::Paused]);
    assert!(case.step().waiting[0].remedy.starts_with("kubectl rotate resume "));
}

#[test]
fn a_cancelled_one_ends_untouched_even_while_paused() {
    let case = Case::in_phase(Phase::Queued).paused().cancelled();
    assert_eq!(case.next(), Phase::Cancelled);
    assert_eq!(case.step().record.unwrap().outcome.unwrap().code, None);
}

#[test]
fn the_end_of_its_batch_ends_it() {
    let case = Case::in_phase(Phase::Queued).with(|case| case.seen.slot = Slot::Closed(notice(Code::WaitingForSlot)));
    let record = case.step().record.unwrap();
    assert_eq!(record.phase(), Phase::Cancelled);
    assert_eq!(record.outcome.unwrap().code, Some(Code::WaitingForSlot));
}

#[test]
fn a_node_that_is_gone_is_superseded() {
    let case = Case::in_phase(Phase::Queued).with(|case| case.seen.node = NodeSeen::Gone);
    assert_eq!(case.next(), Phase::Superseded);
}
