//! `kubectl rotate fleet`: nodes with what would have to move off them.

use rotate_shared::exit;

use super::Ended;
use crate::cli::FleetArgs;
use crate::connect::embedded::Role;
use crate::output::{Format, fleet as text, format};
use crate::session::Session;

pub(super) async fn run(session: &Session, args: &FleetArgs) -> Ended {
    let printing = args.output.resolve()?;
    let connected = session.connect(Role::Look).await?;
    let list = connected.agent.nodes(args.select.selector.as_deref()).await?;
    if list.items.is_empty() && !matches!(printing.format, Format::Json | Format::Yaml) {
        session.console.note("No nodes found");
        return Ok(exit::DONE);
    }
    if list.items.iter().any(|node| node.pods.is_none()) {
        session.console.note(
            "Figures marked ? are not known: the agent reads only the Pods that it works on. \
                              --pod-cache=cluster reads all of them.",
        );
    }
    let now = session.clock.now();
    let text = match printing.format {
        Format::Json => format::json(&list),
        Format::Yaml => format::yaml(&list),
        Format::Name => list.items.iter().map(|node| format!("node/{}\n", node.name)).collect(),
        Format::Table => text::table(&list.items, now, false, printing.headers),
        Format::Wide => text::table(&list.items, now, true, printing.headers),
    };
    session.console.formatted(printing.format, &text)?;
    Ok(exit::DONE)
}
