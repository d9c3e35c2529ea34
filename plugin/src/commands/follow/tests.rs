//! Which exit code an end has.

use rotate_shared::rotation::Outcome;

use super::*;
use crate::output::rotation::tests::rotation;

fn ended(phase: Phase, code: Option<Code>) -> Rotation {
    let outcome = Some(Outcome { code, message: String::new() });
    Rotation { phase, outcome, ..rotation() }
}

#[test]
fn each_end_has_its_documented_exit_code() {
    for (phase, code, wanted) in [
        (Phase::Succeeded, None, exit::DONE),
        (Phase::RolledBack, Some(Code::Reserving), exit::NO_SURGE),
        (Phase::RolledBack, Some(Code::PlaceholderRefused), exit::NO_SURGE),
        (Phase::RolledBack, None, exit::NO_SURGE),
        (Phase::RolledBack, Some(Code::BarePod), exit::BLOCKED),
        (Phase::RolledBack, Some(Code::ReturnsToNode), exit::BLOCKED),
        (Phase::Stopped, None, exit::PARTIAL),
        (Phase::Cancelled, None, exit::ERROR),
        (Phase::Failed, Some(Code::ApiError), exit::ERROR),
        (Phase::Superseded, None, exit::ERROR),
    ] {
        assert_eq!(exit_code(&[ended(phase, code)]), wanted, "{phase} {code:?}");
    }
}

#[test]
fn several_that_ended_differently_are_partial() {
    let (good, bad) = (ended(Phase::Succeeded, None), ended(Phase::RolledBack, None));
    assert_eq!(exit_code(&[good.clone(), good.clone()]), exit::DONE);
    assert_eq!(exit_code(&[good, bad.clone()]), exit::PARTIAL);
    assert_eq!(exit_code(&[bad.clone(), bad]), exit::NO_SURGE);
}
