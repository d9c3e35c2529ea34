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
            "node/worker-1 waiting 2m10s: PodDisruptionBudget shop/cart: needs 3 healthy, has 3 (allows 0)",
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

#[test]
fn a_failure_that_was_warned_of_comes_with_its_remedy_and_is_not_told_again() {
    let blocker = |object: &str| Notice {
        code: rotate_shared::Code::NoRoom,
        object: object.to_owned(),
        message: "no room for 3 of 3".to_owned(),
        remedy: "add a node".to_owned(),
    };
    let outcome =
        rotate_shared::rotation::Outcome { code: None, message: "Pod shop/web: no room for 3 of 3".to_owned() };
    let mut rotation = Rotation { outcome: Some(outcome), phase: Phase::RolledBack, ..rotation() };
    rotation.warnings = vec![blocker("Pod shop/web"), blocker("Node worker-1")];
    let said = said(&rotation);
    assert_eq!(
        said[..2],
        [
            "Warning: node/worker-1: Pod shop/web: no room for 3 of 3\n      → add a node",
            "Warning: node/worker-1: no room for 3 of 3\n      → add a node",
        ]
    );
    assert!(said[2].starts_with("node/worker-1 rolled back after ") && !said[2].contains(':'), "{}", said[2]);
}

// === on a terminal ===

use std::io;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use rotate_shared::Phase;

/// Rotations of as many nodes, in these phases.
fn rotations(phases: &[Phase]) -> Vec<Rotation> {
    let one = |(place, phase): (usize, &Phase)| Rotation {
        id: format!("id-{place}"),
        node: format!("worker-{place}"),
        phase: *phase,
        ..rotation()
    };
    phases.iter().enumerate().map(one).collect()
}

fn framed(rotations: &[Rotation], rows: usize, columns: usize) -> Vec<String> {
    frame::frame(rotations, now(), Size { rows, columns })
}

#[test]
fn one_node_is_shown_with_all_that_it_waits_for_and_nothing_of_it_is_cut_off() {
    assert_eq!(
        framed(&[rotation()], 24, 60),
        [
            "node/worker-1 draining, 2 of 5 Pods evicted, 1 landed, room",
            "held for 3 (3m5s)",
            "    waiting 2m10s: PodDisruptionBudget shop/cart: needs 3",
            "      healthy, has 3 (allows 0)",
        ]
    );
}

#[test]
fn several_nodes_are_a_line_each_above_a_summary_and_those_that_are_over_only_counted() {
    let rotations = rotations(&[Phase::Succeeded, Phase::Queued, Phase::Draining, Phase::RolledBack]);
    assert_eq!(
        framed(&rotations, 24, 200),
        [
            "node/worker-2   draining   1/5 moved   2m10s   waiting 2m10s: PodDisruptionBudget shop/cart: needs 3 healthy, \
             has 3 (allows 0)",
            "node/worker-1   queued     -           2m10s   waiting 2m10s: PodDisruptionBudget shop/cart: needs 3 healthy, \
             has 3 (allows 0)",
            "[##########----------] 4 nodes: 1 done, 1 not done, 1 in work, 1 queued (3m5s)",
        ]
    );
}

#[test]
fn what_all_names_end_with_is_left_out_where_lines_would_be_cut_off() {
    let mut rotations = rotations(&[Phase::Draining, Phase::Draining]);
    for rotation in &mut rotations {
        rotation.node.push_str(".eu-west-1.compute.internal");
    }
    let wide = framed(&rotations, 24, 200);
    assert!(wide[1].starts_with("node/worker-1.eu-west-1.compute.internal   draining"), "{wide:#?}");
    let narrow = framed(&rotations, 24, 80);
    assert_eq!(narrow[1], "node/worker-1   draining   1/5 moved   2m10s   waiting 2m10s: PodDisruptionBud…");
    rotations[0].node = "other".to_owned();
    assert!(framed(&rotations, 24, 80)[1].starts_with("node/worker-1.eu-west-1"));
}

#[test]
fn no_frame_is_larger_than_the_terminal_however_small() {
    let many = rotations(&[Phase::Draining; 30]);
    for (rows, columns) in [(24, 80), (50, 200), (5, 20), (2, 3), (1, 1)] {
        for rotations in [&many[..], &many[..1], &many[..3]] {
            let lines = framed(rotations, rows, columns);
            assert!(lines.len() < rows.max(2), "{rows}: {lines:#?}");
            assert!(lines.iter().all(|line| line.chars().count() < columns.max(2)), "{columns}: {lines:#?}");
        }
    }
    let lines = framed(&many, 24, 80);
    assert_eq!(lines[21..], ["and 9 more not shown", "[--------------------] 30 nodes: 30 in work (3m5s)"]);
}

/// A terminal that keeps what it is sent.
#[derive(Clone, Default)]
struct Sent(Arc<Mutex<Vec<u8>>>);

impl io::Write for Sent {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Sent {
    fn taken(&self) -> String {
        String::from_utf8(std::mem::take(&mut *self.0.lock().unwrap())).expect("text")
    }
}

#[test]
fn lines_end_where_their_text_ends_and_are_cleared_whatever_became_of_the_width() {
    let (sent, columns) = (Sent::default(), Arc::new(AtomicUsize::new(20)));
    let now = Arc::clone(&columns);
    let screen = Screen::new(Box::new(sent.clone()), Box::new(move || (24, now.load(Ordering::Relaxed))));
    let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::term_like_with_hz(Box::new(screen), 255));
    bar.set_style(ProgressStyle::with_template("{msg}").expect("well formed"));
    // What came before it was shown at all is of no interest.
    bar.set_message("0123456789\nabc");
    bar.force_draw();
    sent.taken();

    bar.force_draw();
    assert_eq!(sent.taken(), "\u{1b}[1A\r\u{1b}[J0123456789\r\nabc");
    // The first of the two takes up three rows now.
    columns.store(4, Ordering::Relaxed);
    bar.force_draw();
    assert_eq!(sent.taken(), "\u{1b}[3A\r\u{1b}[J0123456789\r\nabc");
    columns.store(200, Ordering::Relaxed);
    bar.suspend(|| assert_eq!(sent.taken(), "\u{1b}[1A\r\u{1b}[J"));
    assert_eq!(sent.taken(), "0123456789\r\nabc");
    bar.finish_and_clear();
    assert_eq!(sent.taken(), "\u{1b}[1A\r\u{1b}[J");
}
