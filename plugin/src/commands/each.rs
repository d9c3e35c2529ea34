//! One request for each rotation that a person means: of a batch all that are not over, and none less because another failed.

use rotate_shared::{Code, Phase, Rotation, exit};

use crate::args::RotationRef;
use crate::connect::Connected;
use crate::failure::Failure;
use crate::output::{Console, escape};
use crate::session::{Session, UNBEGUN};

/// What came of it.
#[derive(Debug, Default)]
pub(super) struct Asked {
    /// The rotations that did it, as they are now.
    pub(super) done: Vec<Rotation>,
    failed: Vec<(Rotation, Failure)>,
    /// Those that were not asked any more.
    left: Vec<Rotation>,
}

/// Asks each.
///
/// # Errors
///
/// They cannot be found; of a single one, whatever the agent refuses.
pub(super) async fn ask(
    session: &Session,
    connected: &Connected,
    reference: &RotationRef,
    request: impl AsyncFn(&Rotation) -> Result<Rotation, Failure>,
) -> Result<Asked, Failure> {
    let found = session.until_interrupted(UNBEGUN, connected.agent.find(reference)).await?;
    let mut asked = Asked::default();
    let again = session.flags_again();
    let request = async |rotation: &Rotation| {
        let meaning =
            format!("while it was asked; what came of it, kubectl rotate status {}{again} shows", rotation.id);
        session.until_interrupted(&meaning, request(rotation)).await
    };
    if !reference.is_batch() {
        for rotation in &found {
            asked.done.push(request(rotation).await?);
        }
        return Ok(asked);
    }
    let mut batch = in_turn(found).into_iter();
    for rotation in batch.by_ref() {
        match request(&rotation).await {
            Ok(now) => asked.done.push(now),
            Err(failure) if is_over(&failure) => {}
            Err(failure) => {
                let goes_on = matches!(failure, Failure::Problem(_));
                asked.failed.push((rotation, failure));
                if !goes_on {
                    // Nobody answers, and would not answer for the others either.
                    break;
                }
            }
        }
    }
    asked.left = batch.collect();
    Ok(asked)
}

/// Those that are not over. The queued ones come first: a place that comes free must not go to one of them meanwhile.
fn in_turn(mut batch: Vec<Rotation>) -> Vec<Rotation> {
    batch.retain(|rotation| !rotation.phase.is_terminal());
    batch.sort_by_key(|rotation| rotation.phase != Phase::Queued);
    batch
}

/// Whether it ended by itself before its turn came: of a batch, that is as good.
fn is_over(failure: &Failure) -> bool {
    matches!(failure, Failure::Problem(problem) if problem.code == Code::WrongPhase)
}

impl Asked {
    /// Says which failed and why; gives the exit code.
    pub(super) fn end(self, console: &Console) -> u8 {
        if self.done.is_empty() && self.failed.is_empty() {
            console.note("All of them are over.");
        }
        for (rotation, failure) in &self.failed {
            let why = escape::line(&failure.to_string());
            console.note(&format!("error: rotation/{} of node/{}: {why}", rotation.id, rotation.node));
        }
        for rotation in &self.left {
            console.note(&format!("rotation/{} of node/{}: not asked any more", rotation.id, rotation.node));
        }
        self.exit_code()
    }

    /// Whether a person wanted out: nothing is asked after that, so it is the last failure.
    pub(super) fn is_interrupted(&self) -> bool {
        self.failed.last().is_some_and(|(_, failure)| failure.exit_code() == exit::INTERRUPTED)
    }

    fn exit_code(&self) -> u8 {
        if self.is_interrupted() {
            return exit::INTERRUPTED;
        }
        let mut codes = self.failed.iter().map(|(_, failure)| failure.exit_code());
        match codes.next() {
            None => exit::DONE,
            Some(_) if !self.done.is_empty() => exit::PARTIAL,
            Some(first) if codes.all(|code| code == first) => first,
            Some(_) => exit::ERROR,
        }
    }
}

#[cfg(test)]
mod tests;
