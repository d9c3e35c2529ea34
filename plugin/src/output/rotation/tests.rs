//! Rotations in words.

use rotate_shared::rotation::{Outcome, PhaseSpan, Progress, RequestedBy};
use rotate_shared::{API_VERSION, Code, Options};

use super::*;

/// Some rotation, for tests to vary.
pub(crate) fn rotation() -> Rotation {
    let at = |text: &str| text.parse::<Timestamp>().expect("a time");
    let started = at("2026-01-02T03:04:05Z");
    Rotation {
        api_version: API_VERSION.to_owned(),
        kind: "Rotation".to_owned(),
        id: "4f0c2a9b1e".to_owned(),
        batch: None,
        node: "worker-1".to_owned(),
        node_uid: "u".to_owned(),
        provider: Provider::Unmanaged,
        phase: Phase::Draining,
        paused: false,
        cancelling: false,
        options: Options::default(),
        created_at: started,
        phases: vec![
            PhaseSpan { phase: Phase::Surging, started_at: started, finished_at: Some(at("2026-01-02T03:05:00Z")) },
            PhaseSpan { phase: Phase::Draining, started_at: at("2026-01-02T03:05:00Z"), finished_at: None },
        ],
        progress: Progress { to_move: 5, reserved: 3, evicted: 2, landed: 1, uncounted: false },
        waiting: vec![Waiting {
            code: Code::PodDisruptionBudget,
            object: "PodDisruptionBudget shop/cart".to_owned(),
            message: "needs 3 healthy, has 3 (allows 0)".to_owned(),
            since: at("2026-01-02T03:05:00Z"),
            remedy: String::new(),
        }],
        warnings: Vec::new(),
        moved: Vec::new(),
        outcome: None,
        requested_by: RequestedBy::default(),
        revision: 7,
    }
}

/// Two minutes and ten seconds into the wait above.
pub(crate) fn now() -> Timestamp {
    "2026-01-02T03:07:10Z".parse().expect("a time")
}

#[test]
fn a_wait_names_its_blocker_and_its_age() {
    assert_eq!(
        wait(&rotation().waiting[0], now()),
        "waiting 2m10s: PodDisruptionBudget shop/cart: needs 3 healthy, has 3 (allows 0)"
    );
}

#[test]
fn the_table_has_a_line_a_rotation() {
    assert_eq!(
        table(&[rotation()], now(), false, true),
        "ID           NODE       PHASE      MOVED   AGE    MESSAGE\n\
         4f0c2a9b1e   worker-1   Draining   1/5     3m5s   waiting 2m10s: PodDisruptionBudget shop/cart: needs 3 \
         healthy, has 3 (allows 0)\n"
    );
}

#[test]
fn what_the_cluster_says_cannot_steer_the_terminal() {
    let mut rotation = rotation();
    rotation.waiting[0].message = "\u{1b}[2Jgone".to_owned();
    assert!(!table(&[rotation.clone()], now(), true, true).contains('\u{1b}'));
    assert!(!detail(&rotation, now()).contains('\u{1b}'));
}

#[test]
fn the_detail_shows_phases_with_their_times() {
    let text = detail(&rotation(), now());
    for line in [
        "Phase:       Draining\n",
        "Progress:    2 of 5 Pods evicted, 1 landed, room held for 3\n",
        "  Surging    2026-01-02T03:04:05Z   55s\n",
        "  Draining   2026-01-02T03:05:00Z   2m10s so far\n",
        "  waiting 2m10s: PodDisruptionBudget shop/cart: needs 3 healthy, has 3 (allows 0)\n",
    ] {
        assert!(text.contains(line), "{line:?} in:\n{text}");
    }
}

#[test]
fn an_end_says_how_it_ended() {
    let outcome = Outcome { code: Some(Code::Reserving), message: "no room came within 15m".to_owned() };
    let rotation = Rotation { phase: Phase::RolledBack, outcome: Some(outcome), ..rotation() };
    assert_eq!(result(&rotation), "not rotated, everything is as it was found: no room came within 15m");
    assert_eq!(result(&Rotation { phase: Phase::Succeeded, outcome: None, ..rotation }), "rotated");
}

#[test]
fn nothing_is_said_of_pods_that_nobody_counted() {
    let figures = |phase, progress| {
        let rotation = Rotation { phase, progress, phases: Vec::new(), ..rotation() };
        (super::progress(&rotation), moved(&rotation))
    };
    let none = Progress::default();
    let said = |text: &str, column: &str| (text.to_owned(), column.to_owned());
    assert_eq!(figures(Phase::Surging, none), said("the Pods to move are not counted yet", "-"));
    for phase in [Phase::RollingBack, Phase::RolledBack, Phase::Superseded] {
        assert_eq!(figures(phase, none), said("no Pod was evicted", "-"));
    }
    assert_eq!(figures(Phase::Draining, none), said("no Pods to move", "0/0"));
    let unseen = Progress { to_move: 2, uncounted: true, ..none };
    assert_eq!(figures(Phase::Draining, unseen), said("2 Pods, how many of them moved is not known", "?/2"));
}
