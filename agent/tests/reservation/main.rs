//! The promise on generated clusters: what the plan has room for moves and gets it, and what it has none for it says.
//!
//! ```text
//! case.rs ──▶ Case: nodes, Pods with their nodes, volumes
//! stage.rs ─▶ plan ─┬─▶ blockers: NoRoom, ConstraintUnsupported ──▶ nothing is touched
//!                   └─▶ none ──▶ a whole rotation by the production agent ──▶ every Pod has a node, none of them the candidate
//! ```
//!
//! On the simulator each case has a cluster of its own; on the real control plane all share one, several at a time.
//! `ROTATE_CASES` and `ROTATE_SEED` ask for more and for others, `ROTATE_CASE` for a single one.

#[expect(dead_code, reason = "the control plane's own tests use all of it")]
#[path = "../controlplane/harness.rs"]
mod harness;

#[path = "../scenarios/booting.rs"]
mod booting;

mod case;
mod random;
mod simulated;
mod stage;

use std::collections::BTreeMap;
use std::process::ExitCode;

use anyhow::{Result, ensure};
use futures::{StreamExt, stream};
use libtest_mimic::{Arguments, Failed, Trial};
use rotate_agent::clock::Clock;

use case::Case;
use harness::ControlPlane;
use simulated::Simulated;
use stage::{Outcome, Stage};

/// How many cases the control plane plays where `ROTATE_CASES` does not say.
const CASES: usize = 200;
/// How many the simulator plays: fewer, since the others are the proof.
const SIMULATED: usize = 60;
/// How many share the control plane at a time: more only wait for each other on two cores.
const AT_ONCE: usize = 10;

fn main() -> ExitCode {
    let arguments = Arguments::from_args();
    let real = Trial::test("control_plane::room_that_is_promised_is_there", || on_control_plane().map_err(failed));
    let real = match harness::binaries() {
        Some(_) => real,
        None => real.with_kind("not built: run agent/tests/controlplane/build").with_ignored_flag(true),
    };
    let simulated = Trial::test("simulator::room_that_is_promised_is_there", || on_simulator().map_err(failed));
    libtest_mimic::run(&arguments, vec![simulated, real]).exit_code()
}

fn failed(error: anyhow::Error) -> Failed {
    format!("{error:#}").into()
}

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

/// The cases that are asked for; those of which nothing would move are passed over.
fn cases(usual: usize) -> impl Iterator<Item = Case> {
    let seed = number("ROTATE_SEED").unwrap_or(1);
    let one = number("ROTATE_CASE").and_then(|one| usize::try_from(one).ok());
    let asked = number("ROTATE_CASES").and_then(|asked| usize::try_from(asked).ok());
    let count = if one.is_some() { 1 } else { asked.unwrap_or(usual) };
    (one.unwrap_or(0)..).filter_map(move |number| Case::generate(seed, number)).take(count)
}

fn on_simulator() -> Result<()> {
    let mut results = Vec::new();
    for case in cases(SIMULATED) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build()?;
        let played = runtime.block_on(async {
            let cluster = Simulated::start();
            let stage = Stage::new(cluster.client(), cluster.clock(), 1).await?;
            stage.play(&case).await
        });
        results.push((case, played));
    }
    judge(results)
}

fn on_control_plane() -> Result<()> {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    let results = runtime.block_on(async {
        let plane = ControlPlane::start().await?;
        let stage = &Stage::new(plane.client().await?, Clock::system(), AT_ONCE).await?;
        let played = stream::iter(cases(CASES)).map(|case| async move {
            let played = stage.play(&case).await;
            (case, played)
        });
        anyhow::Ok(played.buffer_unordered(AT_ONCE).collect::<Vec<_>>().await)
    })?;
    judge(results)
}

/// Whether all promises were kept, and whether the cases put them to the test.
#[expect(clippy::print_stderr, reason = "what was put to the test is worth a look")]
fn judge(results: Vec<(Case, Result<Outcome>)>) -> Result<()> {
    let (mut broken, mut moved, mut refused) = (Vec::new(), Vec::new(), BTreeMap::<String, usize>::new());
    let (mut pairs, mut unfit, mut pods) = (0, 0, 0);
    let all = results.len();
    for (case, played) in results {
        pairs += case.pairs.0;
        unfit += case.pairs.1;
        match played {
            Err(error) => broken.push(format!("{}: {error:#}", case.name)),
            Ok(Outcome::Refused(blockers)) => {
                let code = blockers.first().map(|blocker| blocker.code.to_string()).unwrap_or_default();
                *refused.entry(code).or_default() += 1;
            }
            Ok(Outcome::Moved) => {
                pods += case.moving;
                moved.push(case);
            }
        }
    }
    let kinds = case::count(moved.iter().map(|case| case.kinds.clone()));
    eprintln!(
        "{all} cases: {} moved ({pods} Pods), refused {refused:?}, {} broken; {unfit} of {pairs} pairs unfit; {kinds:?}",
        moved.len(),
        broken.len(),
    );
    ensure!(broken.is_empty(), "{} promises were broken:\n{}", broken.len(), broken.join("\n\n"));
    if all >= CASES {
        ensure!(unfit * 10 >= pairs * 3, "only {unfit} of {pairs} pairs of a Pod and a node are unfit");
        for (kind, count) in kinds {
            ensure!(count * 10 >= all, "only {count} of {all} cases were of the kind {kind:?} and moved");
        }
    }
    Ok(())
}
