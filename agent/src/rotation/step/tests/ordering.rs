use super::*;
use crate::provider::{Loan, Order, Settlement};

fn order() -> Order {
    Order::MachineDeployment {
        namespace: "fleet".to_owned(),
        name: "web".to_owned(),
        version: "v1beta2".to_owned(),
        replicas: 3,
    }
}

/// A placeholder for which the scheduler has found no room, on a node of which one more could be ordered.
fn without_room() -> Case {
    Case::in_phase(Phase::Surging).moving(&["p1"]).with(|case| {
        let message = Some("0/2 nodes are available: 2 Insufficient cpu.".to_owned());
        case.seen.needs = vec![Need { coming: uids(&["r1"]), ..need("p1", &[]) }];
        case.seen.room = vec![in_state("r1", RoomState::Coming { message })];
        case.seen.machine.order = Some(order());
        case.seen.machine.no_room = true;
    })
}

fn ordered(loan: Loan) -> Case {
    without_room().with(|case| {
        case.record.order = Some(order());
        case.seen.machine.loan = loan;
        case.seen.machine.order = None;
    })
}

/// The same, being rolled back, with nothing but the order left.
fn rolling_back(loan: Loan) -> Case {
    ordered(loan).with(|case| {
        case.record.enter(Phase::RollingBack, at(1));
        case.seen.room = Vec::new();
        case.seen.node = NodeSeen::Here { marked: false, traces: false, deleting: false };
    })
}

#[test]
fn a_node_is_ordered_once_the_scheduler_has_found_no_room_and_is_written_down_before() {
    let unknown = without_room().with(|case| case.seen.machine.no_room = false);
    assert_eq!(unknown.step().record, None, "the scheduler has not said anything yet");
    let case = without_room();
    let record = case.step().record.expect("it is written down");
    assert_eq!(record.order, Some(order()));
    let written = case.with(|case| case.record = record);
    assert_eq!(written.effects(), [Effect::Order(order())]);
}

#[test]
fn what_was_ordered_is_waited_for_and_not_ordered_again() {
    for loan in [Loan::Coming, Loan::Idle("n".to_owned(), Removal::NodeObject), Loan::InUse, Loan::Settled] {
        let case = ordered(loan);
        assert_eq!(case.effects(), []);
        assert_eq!(case.waits(), [Code::Reserving, Code::Reserving]);
    }
    let unknown = ordered(Loan::Unknown("no answer".to_owned()));
    assert_eq!((unknown.effects(), unknown.waits()), (vec![], vec![Code::Reserving, Code::ProviderUnreadable]));
}

#[test]
fn where_nothing_may_be_ordered_nothing_is() {
    let case = without_room().with(|case| case.seen.machine.order = None);
    assert_eq!((case.step().record, case.effects()), (None, vec![]));
}

#[test]
fn an_order_goes_back_before_the_roll_back_ends() {
    let coming = rolling_back(Loan::Coming);
    assert_eq!(coming.effects(), [Effect::Settle(Settlement::GiveBack(order()))]);
    let idle = rolling_back(Loan::Idle("web-3".to_owned(), Removal::NodeObject));
    let settlement = Settlement::Return("web-3".to_owned(), Removal::NodeObject);
    assert_eq!(idle.effects(), [Effect::Settle(settlement)]);
    let unread = rolling_back(Loan::Coming).with(|case| case.seen.machine = Machine::default());
    assert_eq!((unread.effects(), unread.waits()), (vec![Effect::ReadProvider], vec![Code::NotReady]));
    let unknown = rolling_back(Loan::Unknown("no answer".to_owned()));
    assert_eq!((unknown.effects(), unknown.waits()), (vec![], vec![Code::ProviderUnreadable]));
    assert_eq!(rolling_back(Loan::Settled).next(), Phase::RolledBack);
}

#[test]
fn an_order_that_can_never_be_read_again_is_said_and_does_not_hold_up_the_end() {
    let patient = rolling_back(Loan::Unknown("no answer".to_owned())).with(|case| case.now = at(1 + 15 * 60));
    assert_eq!((patient.step().record, patient.waits()), (None, vec![Code::ProviderUnreadable]));
    let late = patient.with(|case| case.now = at(2 + 15 * 60));
    let record = late.step().record.expect("it is said, and ends");
    let [warning] = &record.warnings[..] else { panic!("{:?}", record.warnings) };
    assert_eq!(warning.code, Code::NotGivenBack);
    assert_eq!(warning.message, "it may keep the replica that was ordered: no answer");
    assert_eq!(record.phase(), Phase::RolledBack);
}

#[test]
fn a_node_that_somebody_uses_is_kept_and_said() {
    let used = rolling_back(Loan::InUse);
    let record = used.step().record.expect("it is said");
    assert_eq!(record.warnings.iter().map(|warning| warning.code).collect::<Vec<_>>(), [Code::NotGivenBack]);
    let said = used.with(|case| case.record = record);
    assert_eq!(said.effects(), [Effect::Settle(Settlement::Keep(order()))]);
}

#[test]
fn what_pods_have_moved_to_is_kept_when_the_rotation_is_stopped() {
    let stopped = ordered(Loan::Coming).with(|case| {
        case.record.ending = Some(Ending { phase: Phase::Stopped, since: at(0), uncordon: false });
        case.record.warn(notice(Code::NotGivenBack, "MachineDeployment fleet/web", "said"));
        case.seen.room = Vec::new();
        case.seen.needs = Vec::new();
        case.seen.node = NodeSeen::Here { marked: false, traces: false, deleting: false };
    });
    assert_eq!(stopped.effects(), [Effect::Settle(Settlement::Keep(order()))]);
}

#[test]
fn what_goes_with_the_candidates_machine_is_not_settled_beside_it() {
    let removal = Removal::Machine {
        namespace: "fleet".to_owned(),
        name: "web-1".to_owned(),
        uid: "uid-web-1".to_owned(),
        version: "v1beta2".to_owned(),
        shrink: Some("web".to_owned()),
    };
    let going = Case::in_phase(Phase::Removing).moving(&["p1"]).with(|case| {
        case.record.options.then = Some(Then::Delete);
        case.record.order = Some(order());
        case.record.removal = Some(removal.clone());
        case.seen.machine.loan = Loan::InUse;
        case.seen.machine.asked = Some(Asked { since: at(0), accepted: Some(at(0)) });
        case.seen.node = NodeSeen::Gone;
        case.seen.owners = vec![cart(1, 1, 1)];
    });
    assert_eq!((going.effects(), going.waits()), (vec![], vec![Code::NodeLeaving]));
    let gone = going.with(|case| {
        case.seen.machine.gone = true;
        case.seen.machine.loan = Loan::Settled;
    });
    assert_eq!(gone.next(), Phase::Succeeded);
}
