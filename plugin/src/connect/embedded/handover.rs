//! An agent in this process ends with its command: how its rotations are left, and taken up by the next one.

use rotate_shared::{CancelRequest, Phase, Rotation};

use super::LOOK;
use crate::args::Target;
use crate::connect::Agent;
use crate::failure::Failure;
use crate::session::Session;

/// Takes up what an earlier run left: live rotations of these nodes. `None` where there are none.
///
/// # Errors
///
/// The agent refuses.
pub(crate) async fn resume(
    session: &Session,
    agent: &Agent,
    target: &Target,
) -> Result<Option<Vec<Rotation>>, Failure> {
    let names = match target {
        Target::Names(_) => target.names(),
        Target::Selector(selector) => {
            agent.nodes(Some(selector)).await?.items.into_iter().map(|node| node.name).collect()
        }
    };
    let mut live = agent.rotations().await?;
    live.retain(|rotation| !rotation.phase.is_terminal() && names.contains(&rotation.node));
    if live.is_empty() {
        return Ok(None);
    }
    let mut resumed = Vec::new();
    for rotation in live {
        session.console.note(&format!("Going on with rotation/{} of node/{}.", rotation.id, rotation.node));
        resumed.push(if rotation.paused { agent.resume(&rotation.id).await? } else { rotation });
    }
    let begun = |name: &String| resumed.iter().any(|found| found.node == *name);
    let others: Vec<_> = names.into_iter().filter(|name| !begun(name)).collect();
    if !others.is_empty() {
        session.console.note(&format!("Not begun, type the command again for: {}", others.join(" ")));
    }
    Ok(Some(resumed))
}

/// The first Ctrl-C: pauses, and as long as nothing was evicted offers to put everything back. A second Ctrl-C ends
/// it at once. Gives the states in which it leaves them.
pub(crate) async fn leave(session: &Session, agent: &Agent, mut states: Vec<Rotation>) -> Vec<Rotation> {
    tokio::select! {
        () = hold(session, agent, &states) => {}
        () = session.interrupts.times(2) => return states,
    }
    for state in &mut states {
        if let Ok(now) = agent.rotation(&state.id).await {
            *state = now;
        }
    }
    states
}

async fn hold(session: &Session, agent: &Agent, states: &[Rotation]) {
    let console = session.console;
    let live: Vec<&Rotation> = states.iter().filter(|rotation| !rotation.phase.is_terminal()).collect();
    console.note("Pausing; Ctrl-C again ends at once.");
    let mut untouched = true;
    for rotation in &live {
        match agent.pause(&rotation.id).await {
            Ok(paused) => {
                untouched &= matches!(paused.phase, Phase::Queued | Phase::Surging);
                console.note(&format!("rotation/{} paused", rotation.id));
            }
            Err(failure) => console.failure(&failure),
        }
    }
    if !untouched {
        return;
    }
    if !console.is_interactive() {
        for rotation in &live {
            console.note(&format!(
                "Nothing was evicted yet. To put everything back: kubectl rotate cancel {}{}",
                rotation.id,
                session.flags_again()
            ));
        }
        return;
    }
    let asked = tokio::task::spawn_blocking(move || console.confirm("Nothing was evicted yet. Put everything back?"));
    if !matches!(asked.await, Ok(Ok(true))) {
        return;
    }
    for rotation in &live {
        if let Err(failure) = agent.cancel(&rotation.id, CancelRequest::default()).await {
            console.failure(&failure);
            continue;
        }
        loop {
            match agent.rotation(&rotation.id).await {
                Ok(state) if state.phase.is_terminal() => {
                    console.note(&format!("node/{} {}", state.node, crate::output::rotation::result(&state)));
                    break;
                }
                Ok(_) => session.clock.sleep(LOOK).await,
                Err(failure) => {
                    console.failure(&failure);
                    break;
                }
            }
        }
    }
}
