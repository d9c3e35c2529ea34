//! Rotations followed to their end: progress shown, time limit and Ctrl-C honoured.

use std::collections::BTreeMap;
use std::time::Duration;

use futures::{FutureExt, StreamExt};
use rotate_agent::clock::Clock;
use rotate_shared::{Code, Phase, Rotation, exit};
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use super::session::{Connected, Session};
use crate::connect::Agent;
use crate::failure::Failure;
use crate::output::progress::Progress;

/// More rotations than this are asked for together, every [`POLL`], instead of by a connection each.
const MOST_STREAMS: usize = 16;
const POLL: Duration = Duration::from_secs(2);
/// An agent that changes its leader is back within its lease; one that is silent for longer is gone.
const PATIENCE: u32 = 12;
const RETRY: Duration = Duration::from_secs(5);

/// How following ended, with the last known states in the order asked for.
#[derive(Debug)]
pub(super) enum Followed {
    /// All are over.
    Over(Vec<Rotation>),
    /// The time was up.
    TimedOut(Vec<Rotation>),
    /// A person wanted out.
    Interrupted(Vec<Rotation>),
}

impl Followed {
    /// The last known states.
    pub(super) fn rotations(&self) -> &[Rotation] {
        match self {
            Self::Over(rotations) | Self::TimedOut(rotations) | Self::Interrupted(rotations) => rotations,
        }
    }
}

/// Follows these rotations. `each` sees every new state.
///
/// # Errors
///
/// The agent is gone for good, or `each` failed.
pub(super) async fn until_over(
    session: &Session,
    connected: &Connected,
    rotations: Vec<Rotation>,
    timeout: Option<Duration>,
    mut each: impl FnMut(&Rotation) -> Result<(), Failure>,
) -> Result<Followed, Failure> {
    let mut progress = Progress::new(session.console);
    let order: Vec<String> = rotations.iter().map(|rotation| rotation.id.clone()).collect();
    let mut known: BTreeMap<String, Rotation> = BTreeMap::new();
    for rotation in rotations {
        progress.update(&rotation, session.clock.now());
        each(&rotation)?;
        known.insert(rotation.id.clone(), rotation);
    }
    let (mut news, _watchers) = watch(&connected.agent, session.clock, &known);
    let time_is_up = async {
        match timeout {
            Some(timeout) => session.clock.sleep(timeout).await,
            None => std::future::pending().await,
        }
    };
    tokio::pin!(time_is_up);
    let interrupted = interrupted().fuse();
    tokio::pin!(interrupted);
    let states = |known: &BTreeMap<String, Rotation>| order.iter().map(|id| known[id].clone()).collect::<Vec<_>>();
    let followed = loop {
        if known.values().all(|rotation| rotation.phase.is_terminal()) {
            break Followed::Over(states(&known));
        }
        tokio::select! {
            biased;
            () = &mut interrupted => {
                progress.finish();
                let left = match session.embedded() {
                    Some(embedded) => embedded.leave(session, states(&known)).await,
                    None => states(&known),
                };
                break Followed::Interrupted(left);
            }
            news = news.recv() => {
                let Some(news) = news else { break Followed::Over(states(&known)) };
                let rotation = match news {
                    Ok(rotation) => rotation,
                    Err(failure) => {
                        progress.finish();
                        say(session, connected, &states(&known), "The agent was lost");
                        return Err(failure);
                    }
                };
                let new = known.get(&rotation.id) != Some(&rotation);
                if new {
                    progress.update(&rotation, session.clock.now());
                    each(&rotation)?;
                    known.insert(rotation.id.clone(), rotation);
                }
            }
            () = &mut time_is_up => break Followed::TimedOut(states(&known)),
            () = session.clock.sleep(Duration::from_secs(1)) => progress.tick(&known, session.clock.now()),
        }
    };
    progress.finish();
    Ok(followed)
}

/// Ctrl-C.
async fn interrupted() {
    // Where the handler cannot be installed, the process ends at once as without us.
    if tokio::signal::ctrl_c().await.is_err() {
        std::future::pending::<()>().await;
    }
}

/// States as they come, until the watchers are dropped.
fn watch(
    agent: &Agent,
    clock: Clock,
    known: &BTreeMap<String, Rotation>,
) -> (mpsc::Receiver<Result<Rotation, Failure>>, JoinSet<()>) {
    let (sender, receiver) = mpsc::channel(64);
    let mut watchers = JoinSet::new();
    let live: Vec<String> =
        known.values().filter(|rotation| !rotation.phase.is_terminal()).map(|rotation| rotation.id.clone()).collect();
    if live.len() > MOST_STREAMS {
        watchers.spawn(poll(agent.clone(), clock, live, sender));
    } else {
        for id in live {
            watchers.spawn(stream(agent.clone(), clock, id, sender.clone()));
        }
    }
    (receiver, watchers)
}

/// One rotation by its events; a broken connection is made anew, and the present state comes first.
async fn stream(agent: Agent, clock: Clock, id: String, sender: mpsc::Sender<Result<Rotation, Failure>>) {
    let mut failures = 0;
    loop {
        let failure = match agent.events(&id).await {
            Ok(mut events) => {
                let mut broken = None;
                while let Some(event) = events.next().await {
                    match event {
                        Ok(rotation) => {
                            failures = 0;
                            let over = rotation.phase.is_terminal();
                            if sender.send(Ok(rotation)).await.is_err() || over {
                                return;
                            }
                        }
                        Err(failure) => {
                            broken = Some(failure);
                            break;
                        }
                    }
                }
                broken.unwrap_or_else(|| Failure::AgentUnreachable("the agent ended the connection".to_owned()))
            }
            Err(failure) => failure,
        };
        failures += 1;
        let lasting = !matches!(failure, Failure::AgentUnreachable(_)) && !is_passing(&failure);
        if lasting || failures > PATIENCE {
            // Nobody listens any more: nothing is lost.
            let _ = sender.send(Err(failure)).await;
            return;
        }
        clock.sleep(if failures == 1 { Duration::from_millis(200) } else { RETRY }).await;
    }
}

/// Many rotations by asking for all of them.
async fn poll(agent: Agent, clock: Clock, ids: Vec<String>, sender: mpsc::Sender<Result<Rotation, Failure>>) {
    let mut failures = 0;
    loop {
        match agent.rotations().await {
            Ok(rotations) => {
                failures = 0;
                for rotation in rotations.into_iter().filter(|rotation| ids.contains(&rotation.id)) {
                    if sender.send(Ok(rotation)).await.is_err() {
                        return;
                    }
                }
                clock.sleep(POLL).await;
            }
            Err(failure) => {
                failures += 1;
                if failures > PATIENCE {
                    let _ = sender.send(Err(failure)).await;
                    return;
                }
                clock.sleep(RETRY).await;
            }
        }
    }
}

/// Whether asking again may help: the agent is starting, or the API server behind it stumbles.
fn is_passing(failure: &Failure) -> bool {
    matches!(failure, Failure::Problem(problem) if matches!(problem.code, Code::NotReady | Code::UpstreamFailed))
}

/// The exit code of rotations that are over.
pub(super) fn exit_code(rotations: &[Rotation]) -> u8 {
    match rotations {
        rotations if rotations.iter().all(|rotation| rotation.phase == Phase::Succeeded) => exit::DONE,
        [rotation] => single(rotation),
        rotations => {
            // Where all ended alike, their code says more than that some did.
            let mut codes = rotations.iter().map(single);
            let first = codes.next().unwrap_or(exit::DONE);
            if codes.all(|code| code == first) { first } else { exit::PARTIAL }
        }
    }
}

fn single(rotation: &Rotation) -> u8 {
    let code = rotation.outcome.as_ref().and_then(|outcome| outcome.code);
    match rotation.phase {
        Phase::Succeeded => exit::DONE,
        Phase::Stopped => exit::PARTIAL,
        Phase::RolledBack => match code {
            // Blockers that came up before the first eviction: nothing is left of the attempt.
            Some(code) if is_blocker(code) => exit::BLOCKED,
            _ => exit::NO_SURGE,
        },
        _ => exit::ERROR,
    }
}

fn is_blocker(code: Code) -> bool {
    // Codes are declared, and so ordered, by what they are: blockers stand between these two.
    (Code::Blocked..Code::PlaceholderRefused).contains(&code)
}

/// After an interruption or a timeout: what goes on without us, and the next command to type.
pub(super) fn say_how_to_go_on(session: &Session, connected: &Connected, followed: &Followed) {
    let after = match followed {
        Followed::Over(_) => return,
        Followed::TimedOut(_) => "The time to wait is over",
        Followed::Interrupted(_) => "Interrupted",
    };
    say(session, connected, followed.rotations(), after);
}

/// After beginning without waiting: the next command to type.
pub(super) fn say_how_to_follow(session: &Session, connected: &Connected, rotations: &[Rotation]) {
    say(session, connected, rotations, "Begun");
}

fn say(session: &Session, connected: &Connected, rotations: &[Rotation], after: &str) {
    let live: Vec<&Rotation> = rotations.iter().filter(|rotation| !rotation.phase.is_terminal()).collect();
    let reference = match live.as_slice() {
        [] => return,
        [rotation] => format!(" {}", rotation.id),
        [rotation, ..] => rotation.batch.as_ref().map_or_else(String::new, |batch| format!(" batch/{batch}")),
    };
    let console = &session.console;
    let flags = session.flags_again();
    if connected.embedded {
        let nodes: Vec<&str> = live.iter().map(|rotation| rotation.node.as_str()).collect();
        console.note(&format!(
            "{after}. Nothing runs while this command is away. Go on with: kubectl rotate node {}{flags}",
            nodes.join(" ")
        ));
        return;
    }
    console
        .note(&format!("{after}; it goes on in the agent. Follow it with: kubectl rotate status{reference} -w{flags}"));
    if !reference.is_empty() {
        console.note(&format!("End it with: kubectl rotate cancel{reference}{flags}"));
    }
}

#[cfg(test)]
mod tests;
