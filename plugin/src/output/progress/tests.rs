//! What is said without a terminal.

use super::*;
use crate::output::rotation::tests::{now, rotation};

fn said(rotation: &Rotation) -> Vec<String> {
    plain(rotation, now()).into_iter().map(|line| line.text).collect()
}

#[test]
fn a_state_and_each_of_its_waits_are_a_line() {
    assert_eq!(
        said(&rotation()),
        [
            "node/worker-1 draining: 2 of 5 Pods evicted, 1 landed, room held for 3",
            "node/worker-1 waiting 2m10s: PodDisruptionBudget shop/cart needs 3 healthy, has 3 (allows 0)",
        ]
    );
}

#[test]
fn a_wait_that_only_grows_older_is_not_said_again() {
    let keys = |now| plain(&rotation(), now).into_iter().map(|line| line.key).collect::<Vec<_>>();
    assert_eq!(keys(now()), keys(now() + jiff::SignedDuration::from_secs(60)));
}

#[test]
fn an_end_says_how_long_it_took() {
    let mut rotation = rotation();
    rotation.phase = rotate_shared::Phase::Succeeded;
    rotation.phases.push(rotate_shared::rotation::PhaseSpan {
        phase: rotation.phase,
        started_at: now(),
        finished_at: None,
    });
    assert_eq!(said(&rotation), ["node/worker-1 succeeded after 3m5s"]);
}
