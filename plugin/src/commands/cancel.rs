//! `kubectl rotate cancel`: ends rotations.

use rotate_shared::{CancelRequest, Phase, Rotation, exit};

use super::follow::Followed;
use super::{Ended, each, follow, status};
use crate::args::RotationRef;
use crate::cli::CancelArgs;
use crate::connect::embedded::Role;
use crate::output::Format;
use crate::session::Session;

pub(super) async fn run(session: &Session, args: &CancelArgs) -> Ended {
    let printing = args.output.resolve()?;
    let reference = RotationRef::parse(&args.id)?;
    let connected = session.connect(Role::End).await?;
    let request = CancelRequest { uncordon: args.uncordon };
    let cancel = async |rotation: &Rotation| connected.agent.cancel(&rotation.id, request).await;
    let mut asked = each::ask(session, &connected, &reference, cancel).await?;
    if connected.embedded {
        // Nobody else may be there to carry it out once this command is gone.
        let followed = follow::until_over(session, &connected, asked.done, None, |_| Ok(())).await?;
        asked.done = followed.rotations().to_vec();
        if let Followed::Interrupted(_) = followed {
            session.console.note(&format!("To go on: kubectl rotate cancel {}{}", args.id, session.flags_again()));
            return Ok(exit::INTERRUPTED);
        }
    }
    if printing.format != Format::Table {
        let single = !matches!(reference, RotationRef::Batch(_));
        status::print(&session.console, &asked.done, single, printing, session.clock.now())?;
        return Ok(asked.end(&session.console));
    }
    for rotation in &asked.done {
        session.console.data(&format!("rotation/{} cancelled\n", rotation.id))?;
        session.console.note(&meaning(rotation, args.uncordon, &session.cluster_again()));
        for pod in &rotation.moved {
            session.console.note(&format!("  moved: {pod}"));
        }
    }
    Ok(asked.end(&session.console))
}

/// What the end means for the cluster.
fn meaning(rotation: &Rotation, uncordon: bool, again: &str) -> String {
    let evicted = rotation.progress.evicted;
    match rotation.phase {
        Phase::Queued | Phase::Cancelled => "Nothing had been touched.".to_owned(),
        Phase::Surging | Phase::RollingBack | Phase::RolledBack => {
            "Nothing had been evicted: the cluster goes back to as it was found.".to_owned()
        }
        _ => format!(
            "{evicted} of {} Pods were evicted already; no more will be. node/{} {}",
            rotation.progress.to_move,
            rotation.node,
            if uncordon {
                "is uncordoned.".to_owned()
            } else {
                format!("stays cordoned; to lift that: kubectl uncordon {}{again}", rotation.node)
            }
        ),
    }
}
