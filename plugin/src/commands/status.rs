//! `kubectl rotate status`: what is going on, or one rotation in detail, or followed to its end.

use std::time::Duration;

use jiff::Timestamp;
use rotate_agent::lease::Rival;
use rotate_shared::{API_VERSION, Rotation, RotationList, exit};

use super::Ended;
use super::follow::{self, Followed};
use crate::args::{Printing, RotationRef};
use crate::cli::StatusArgs;
use crate::connect::Connected;
use crate::connect::embedded::Role;
use crate::failure::Failure;
use crate::output::{Console, Format, age, format, rotation as text};
use crate::session::Session;

pub(super) async fn run(session: &Session, args: &StatusArgs) -> Ended {
    let printing = args.output.resolve()?;
    let reference = args.id.as_deref().map(RotationRef::parse).transpose()?;
    let look = async {
        let connected = session.connect(Role::Look).await?;
        let mut looks = 0;
        let mut rotations = loop {
            let rotations = match &reference {
                Some(reference) => connected.agent.find(reference).await?,
                None => connected.agent.rotations().await?,
            };
            looks += 1;
            // An agent in this process begins to read the Pods of rotations once it knows of them.
            let counted = rotations.iter().all(|rotation| rotation.phase.is_terminal() || !rotation.progress.uncounted);
            if counted || !connected.embedded || looks == LOOKS {
                break rotations;
            }
            session.clock.sleep(LOOK).await;
        };
        if args.watch && reference.is_none() {
            rotations.retain(|rotation| !rotation.phase.is_terminal());
        }
        Ok((connected, rotations))
    };
    let (connected, rotations) = session.until_interrupted("", look).await?;
    if rotations.is_empty() && matches!(printing.format, Format::Table | Format::Wide | Format::Name) {
        session.console.note("No rotations found");
        return Ok(exit::DONE);
    }
    let single = reference.as_ref().is_some_and(|reference| !reference.is_batch());
    if !args.watch {
        print(&session.console, &rotations, single, printing, session.clock.now())?;
        session.until_interrupted("", idle(session, &connected, &rotations)).await?;
        return Ok(exit::DONE);
    }
    session.until_interrupted("", idle(session, &connected, &rotations)).await?;
    let each = |rotation: &Rotation| state(&session.console, rotation, printing);
    let followed = follow::until_over(session, &connected, rotations, None, each).await?;
    if !is_streamed(printing) {
        print(&session.console, followed.rotations(), single, printing, session.clock.now())?;
    }
    follow::say_how_to_go_on(session, &connected, &followed);
    Ok(match &followed {
        Followed::Over(rotations) => follow::exit_code(rotations),
        Followed::TimedOut(_) => exit::TIMED_OUT,
        Followed::Interrupted(_) => exit::INTERRUPTED,
    })
}

/// How often an agent in this process is looked at before it is shown what it has counted so far.
const LOOKS: u32 = 15;
const LOOK: Duration = Duration::from_millis(200);

/// Who leads renews the Lease every two seconds.
const RENEWS: Duration = Duration::from_secs(3);

/// Says so where nobody works on what is shown.
async fn idle(session: &Session, connected: &Connected, rotations: &[Rotation]) -> Result<(), Failure> {
    let live: Vec<&Rotation> = rotations.iter().filter(|rotation| !rotation.phase.is_terminal()).collect();
    if !connected.embedded || live.is_empty() {
        return Ok(());
    }
    // Who may not read it is shown the rotations all the same.
    let Ok(mut rival) = connected.rival().await else { return Ok(()) };
    if let Some(Rival { renewed, valid, .. }) = &rival {
        let silent = |renewed| session.clock.now().duration_since(renewed) > *valid;
        if !renewed.is_none_or(silent) {
            return Ok(());
        }
        // It may be the clocks that differ.
        session.clock.sleep(RENEWS).await;
        let Ok(again) = connected.rival().await else { return Ok(()) };
        if again.is_some() && again != rival {
            return Ok(());
        }
        rival = again;
    }
    let heard = rival.and_then(|rival| Some((rival.holder, rival.renewed?)));
    let heard = heard.map(|(holder, renewed)| {
        format!(": {holder}, which holds the Lease, was last heard of {} ago", age::since(renewed, session.clock.now()))
    });
    let (which, id) = match live.as_slice() {
        [rotation] => (format!("rotation/{}", rotation.id), rotation.id.as_str()),
        _ => ("these rotations".to_owned(), "ID"),
    };
    let (heard, flags) = (heard.unwrap_or_default(), session.flags_again());
    let nodes: Vec<&str> = live.iter().map(|rotation| rotation.node.as_str()).collect();
    session.console.note(&format!(
        "No agent works on {which}{heard}. Go on with: kubectl rotate node {}{flags}\n\
         End it with: kubectl rotate cancel {id}{flags}",
        nodes.join(" ")
    ));
    Ok(())
}

/// Whether each state is printed as it comes, so that nothing is left to print at the end.
pub(super) fn is_streamed(printing: Printing) -> bool {
    matches!(printing.format, Format::Json | Format::Yaml)
}

/// A state as it comes: JSON is one object a line, YAML a document each. The other formats show the end only.
pub(super) fn state(console: &Console, rotation: &Rotation, printing: Printing) -> Result<(), Failure> {
    match printing.format {
        Format::Json => console.object(&format::json_line(rotation)),
        Format::Yaml => console.object(&format!("---\n{}", format::yaml(rotation))),
        Format::Table | Format::Wide | Format::Name => Ok(()),
    }
}

/// Prints rotations as asked: one in detail or as an object, several as a table or list.
pub(super) fn print(
    console: &Console,
    rotations: &[Rotation],
    single: bool,
    printing: Printing,
    now: Timestamp,
) -> Result<(), Failure> {
    let list = || RotationList {
        api_version: API_VERSION.to_owned(),
        kind: "RotationList".to_owned(),
        items: rotations.to_vec(),
    };
    let text = match (printing.format, rotations) {
        (Format::Json, [rotation]) if single => format::json(rotation),
        (Format::Json, _) => format::json(&list()),
        (Format::Yaml, [rotation]) if single => format::yaml(rotation),
        (Format::Yaml, _) => format::yaml(&list()),
        (Format::Name, rotations) => rotations.iter().map(|rotation| format!("rotation/{}\n", rotation.id)).collect(),
        (Format::Table, [rotation]) if single => console.folded(console.led(&text::detail(rotation, now)).into_owned()),
        (Format::Table, rotations) => text::table(rotations, now, false, printing.headers),
        (Format::Wide, rotations) => text::table(rotations, now, true, printing.headers),
    };
    console.formatted(printing.format, &text)
}
