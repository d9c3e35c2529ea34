//! `kubectl rotate demo`: the whole system in one process, on a simulated cluster, told as a story.
//!
//! ```text
//! world (rotate-sim) ◀──API── agent (rotate-agent) ◀──in process── this command
//!        │ event log                    │ rotation
//!        └──────▶ story: sentences ◀────┘            and after it: figures, from the log alone
//! ```

mod act;
mod drain;
mod story;
mod world;

use rotate_shared::{OptionsRequest, exit};
use rotate_sim::Figures;

use super::Ended;
use crate::session::Session;
use world::{CANDIDATE, World};

pub(super) async fn run(session: &Session) -> Ended {
    let console = session.console;
    let tell = |text: &str| console.data(&console.folded(format!("{text}\n")));
    tell(world::INTRODUCTION)?;
    // Both start at once, so that nobody waits for the second one.
    let (first, second) = tokio::join!(World::build(), World::build());

    tell(&format!("\n▌ 1. kubectl rotate node {CANDIDATE}\n"))?;
    let rotated = act::rotate(&first, session.clock, OptionsRequest::default(), &mut |line| tell(line)).await?;

    tell(&format!("\n▌ 2. The same cluster as it was, and kubectl drain {CANDIDATE}\n"))?;
    let drained = drain::drain(&second, session.clock, &mut |line| tell(line)).await?;

    tell(&summary(&rotated, &drained))?;
    Ok(exit::DONE)
}

/// Both acts side by side.
fn summary(rotated: &Figures, drained: &Figures) -> String {
    let seconds = |act: &Figures| format!("{:.1} s", act.longest_unscheduled.as_secs_f64());
    let lacking = |act: &Figures| format!("{} of {}", act.lacked_room, act.moved);
    let line = |what: &str, left: &str, right: &str| format!("  {what:<44}{left:>16}{right:>16}\n");
    format!(
        "\n▌ From the cluster's event log\n\n{}{}{}",
        line("", "kubectl rotate", "kubectl drain"),
        line("longest time a moved Pod was unscheduled", &seconds(rotated), &seconds(drained)),
        line("moved Pods that ever lacked room", &lacking(rotated), &lacking(drained)).trim_end(),
    )
}

#[cfg(test)]
mod tests;
