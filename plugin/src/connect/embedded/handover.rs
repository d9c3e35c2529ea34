//! An agent in this process ends with its command: how its rotations are left, and taken up by the next one.

use rotate_shared::{CancelRequest, Options, OptionsRequest, Phase, Rotation};

use super::LOOK;
use crate::args::Target;
use crate::connect::Agent;
use crate::failure::Failure;
use crate::session::Session;

/// Takes up what an earlier run left: live rotations of these nodes. `None` where there are none. They go on as they were
/// asked for then; what is asked for now and is not that is told.
///
/// # Errors
///
/// The agent refuses; or another end of a node is asked for now, which must not be passed over.
pub(crate) async fn resume(
    session: &Session,
    agent: &Agent,
    target: &Target,
    options: &OptionsRequest,
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
    if let Some(rotation) = live.iter().find(|rotation| others(options, &rotation.options).contains(&THEN.to_owned())) {
        let then = serde_json::to_value(rotation.options.then).unwrap_or_default();
        let begun = then.as_str().map_or_else(|| format!("without {THEN}"), |then| format!("with {THEN}={then}"));
        let Rotation { id, node, .. } = rotation;
        return Err(Failure::Usage(format!(
            "rotation/{id} of node/{node} was begun {begun} and goes on like that: leave {THEN} out to go on with it, or end it \
             first with: kubectl rotate cancel {id}{}",
            session.flags_again()
        )));
    }
    let mut resumed = Vec::new();
    for rotation in live {
        let passed_over = others(options, &rotation.options);
        let as_asked = match passed_over.as_slice() {
            [] => String::new(),
            flags => format!(" as it was asked for then; not taken: {}", flags.join(", ")),
        };
        session.console.note(&format!("Going on with rotation/{} of node/{}{as_asked}.", rotation.id, rotation.node));
        resumed.push(if rotation.paused { agent.resume(&rotation.id).await? } else { rotation });
    }
    let begun = |name: &String| resumed.iter().any(|found| found.node == *name);
    let others: Vec<_> = names.into_iter().filter(|name| !begun(name)).collect();
    if !others.is_empty() {
        session.console.note(&format!("Not begun, type the command again for: {}", others.join(" ")));
    }
    Ok(Some(resumed))
}

/// What becomes of the node.
const THEN: &str = "--then";

/// The flags that ask for something else than this.
fn others(asked: &OptionsRequest, begun: &Options) -> Vec<String> {
    let fields =
        |options: Result<serde_json::Value, _>| options.unwrap_or_default().as_object().cloned().unwrap_or_default();
    let begun = fields(serde_json::to_value(begun));
    let asked = fields(serde_json::to_value(asked)).into_iter();
    asked.filter(|(field, value)| begun.get(field) != Some(value)).map(|(field, _)| flag(&field)).collect()
}

/// The flag of a field: they have the same words, and a flag's value its own unit.
fn flag(field: &str) -> String {
    let mut flag = "--".to_owned();
    for letter in field.strip_suffix("Seconds").unwrap_or(field).chars() {
        if letter.is_ascii_uppercase() {
            flag.push('-');
        }
        flag.push(letter.to_ascii_lowercase());
    }
    flag
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

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;
    use rotate_shared::options::{SurgeMode, Then};

    use super::*;
    use crate::cli::Cli;

    #[test]
    fn what_is_asked_for_now_and_was_not_then_is_told_by_its_flag() {
        let begun = Options { then: Some(Then::Keep), surge_timeout_seconds: 60, ..Options::default() };
        let asked = OptionsRequest {
            then: Some(Then::Delete),
            force: Some(true),
            surge: Some(SurgeMode::PerPod),
            surge_timeout_seconds: Some(60),
            skip_wait_for_delete_timeout_seconds: Some(5),
            ..OptionsRequest::default()
        };
        assert_eq!(others(&asked, &begun), ["--force", "--skip-wait-for-delete-timeout", "--then"]);
        assert!(others(&OptionsRequest::default(), &begun).is_empty());
    }

    #[test]
    fn every_field_has_its_flag() {
        let command = Cli::command();
        let node = command.find_subcommand("node").expect("a verb");
        let flags: Vec<_> =
            node.get_arguments().filter_map(clap::Arg::get_long).map(|name| format!("--{name}")).collect();
        let all = Options {
            then: Some(Then::Keep),
            pod_selector: Some("a".into()),
            reason: Some("b".into()),
            ..Options::default()
        };
        let fields = serde_json::to_value(all).expect("JSON");
        for field in fields.as_object().expect("an object").keys() {
            assert!(flags.contains(&flag(field)), "{field}: {flags:?}");
        }
    }
}
