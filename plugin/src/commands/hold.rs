//! `kubectl rotate pause` and `resume`.

use rotate_shared::Rotation;

use super::{Ended, each, status};
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
    let request = async |rotation: &Rotation| match hold {
        Hold::Pause => connected.agent.pause(&rotation.id).await,
        Hold::Resume => connected.agent.resume(&rotation.id).await,
    };
    let asked = each::ask(session, &connected, &reference, request).await?;
    if printing.format != Format::Table {
        let single = !reference.is_batch();
        status::print(&session.console, &asked.done, single, printing, session.clock.now())?;
        return Ok(asked.end(&session.console));
    }
    for rotation in &asked.done {
        let done = if hold == Hold::Pause { "paused" } else { "resumed" };
        session.console.data(&format!("rotation/{} {done}\n", rotation.id))?;
        if connected.embedded && hold == Hold::Resume {
            session.console.note(&format!(
                "It goes on where an agent holds the Lease; without one: kubectl rotate node {}{}",
                rotation.node,
                session.flags_again()
            ));
        } else if reference.is_batch() {
            session.console.note(&format!("  node/{}", rotation.node));
        }
    }
    Ok(asked.end(&session.console))
}
