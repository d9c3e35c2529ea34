//! `kubectl rotate pause` and `resume`.

use rotate_shared::exit;

use super::{Ended, status};
use crate::args::RotationRef;
use crate::cli::IdArgs;
use crate::connect::embedded::Role;
use crate::output::Format;
use crate::session::Session;

/// Which of the two.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Hold {
    /// Nothing new is begun.
    Pause,
    /// It goes on.
    Resume,
}

pub(super) async fn run(session: &Session, args: &IdArgs, hold: Hold) -> Ended {
    let printing = args.output.resolve()?;
    let reference = RotationRef::parse(&args.id)?;
    let connected = session.connect(Role::Wish).await?;
    let mut rotations = connected.agent.find(&reference).await?;
    if matches!(reference, RotationRef::Batch(_)) {
        rotations.retain(|rotation| !rotation.phase.is_terminal());
    }
    let mut held = Vec::new();
    for rotation in &rotations {
        held.push(match hold {
            Hold::Pause => connected.agent.pause(&rotation.id).await?,
            Hold::Resume => connected.agent.resume(&rotation.id).await?,
        });
    }
    if printing.format != Format::Table {
        let single = !matches!(reference, RotationRef::Batch(_));
        status::print(&session.console, &held, single, printing, session.clock.now())?;
        return Ok(exit::DONE);
    }
    for rotation in &held {
        let done = if hold == Hold::Pause { "paused" } else { "resumed" };
        session.console.data(&format!("rotation/{} {done}\n", rotation.id))?;
        if connected.embedded && hold == Hold::Resume {
            session.console.note(&format!(
                "It goes on where an agent holds the Lease; without one: kubectl rotate node {} --embedded",
                rotation.node
            ));
        }
    }
    Ok(exit::DONE)
}
