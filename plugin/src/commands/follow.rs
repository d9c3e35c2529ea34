//! Rotations followed to their end: progress shown, time limit and Ctrl-C honoured.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use futures::{FutureExt, StreamExt};
use jiff::{SignedDuration, Timestamp};
use rotate_agent::clock::Clock;
use rotate_shared::{Code, Phase, Problem, Rotation, exit};
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use crate::connect::api::Told;
use crate::connect::embedded;
use crate::connect::{Agent, Connected};
use crate::failure::Failure;
use crate::output::progress::Progress;
use crate::session::Session;

/// More rotations than this are asked for together, every [`POLL`], instead of by a connection each.
const MOST_STREAMS: usize = 16;
const POLL: Duration = Duration::from_secs(2);
/// The first attempt to go on after a connection broke; each further one waits twice as long, up to [`RETRY`].
const FIRST_RETRY: Duration = Duration::from_millis(200);
const RETRY: Duration = Duration::from_secs(5);
/// An agent that changes its leader, or whose Pods are all replaced, is back by then; one that is silent for longer is
/// gone.
const PATIENCE: SignedDuration = SignedDuration::from_mins(5);
/// What lasted this long was a connection, and no failed attempt at one.
const LASTING: SignedDuration = SignedDuration::from_secs(10);

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

/// What the watchers tell.
#[derive(Debug)]
enum News {
    /// The present state of a rotation.
    State(Box<Rotation>),
    /// The connection that tells of this rotation, or of all, broke; it is made anew.
    Lost(String, Failure),
    /// It is there again.
    Back(String),
    /// It cannot be made anew.
    Over(Failure),
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
    for rotation in &rotations {
        progress.update(rotation, session.clock.now());
        each(rotation)?;
    }
    let (mut news, _watchers) = watch(&connected.agent, session.clock, &rotations);
    let time_is_up = async {
        match timeout {
            Some(timeout) => session.clock.sleep(timeout).await,
            None => std::future::pending().await,
        }
    };
    tokio::pin!(time_is_up);
    let interrupted = session.interrupts.times(1).fuse();
    tokio::pin!(interrupted);
    let mut lost = BTreeSet::new();
    let followed = loop {
        if progress.states().iter().all(|rotation| rotation.phase.is_terminal()) {
            break Followed::Over(progress.states().to_vec());
        }
        tokio::select! {
            biased;
            () = &mut interrupted => {
                progress.finish();
                let states = progress.states().to_vec();
                break Followed::Interrupted(match connected.embedded {
                    true => embedded::leave(session, &connected.agent, states).await,
                    false => states,
                });
            }
            news = news.recv() => {
                let Some(news) = news else { break Followed::Over(progress.states().to_vec()) };
                let rotation = match news {
                    News::State(rotation) => *rotation,
                    News::Lost(which, failure) => {
                        // Several connections to one agent break together: that is said once.
                        if lost.is_empty() {
                            session.console.note(&format!("The connection to the agent broke, trying to go on: {failure}"));
                        }
                        lost.insert(which);
                        continue;
                    }
                    News::Back(which) => {
                        if lost.remove(&which) && lost.is_empty() {
                            session.console.note("Following again.");
                        }
                        continue;
                    }
                    News::Over(failure) => {
                        progress.finish();
                        // Of one that is gone there is nothing to follow; others of its batch go on.
                        match &failure {
                            Failure::Problem(problem) if problem.code == Code::NotFound => {
                                if rotations.len() > 1 {
                                    say(session, connected, progress.states(), "Following ended");
                                }
                            }
                            _ => say(session, connected, progress.states(), "The agent was lost"),
                        }
                        return Err(failure);
                    }
                };
                if progress.update(&rotation, session.clock.now()) {
                    each(&rotation)?;
                }
            }
            () = &mut time_is_up => break Followed::TimedOut(progress.states().to_vec()),
            () = session.clock.sleep(Duration::from_secs(1)) => progress.tick(session.clock.now()),
        }
    };
    progress.finish();
    Ok(followed)
}

/// States as they come, until the watchers are dropped.
fn watch(agent: &Agent, clock: Clock, known: &[Rotation]) -> (mpsc::Receiver<News>, JoinSet<()>) {
    let (sender, receiver) = mpsc::channel(64);
    let mut watchers = JoinSet::new();
    let live: Vec<String> =
        known.iter().filter(|rotation| !rotation.phase.is_terminal()).map(|rotation| rotation.id.clone()).collect();
    if live.len() > MOST_STREAMS {
        watchers.spawn(poll(agent.clone(), clock, live, sender));
    } else {
        for id in live {
            watchers.spawn(stream(agent.clone(), clock, id, sender.clone()));
        }
    }
    (receiver, watchers)
}

/// One rotation by its events. A connection that broke is made anew, and goes on after the last event.
async fn stream(agent: Agent, clock: Clock, id: String, sender: mpsc::Sender<News>) {
    let mut retry = Retry::new(clock);
    let mut last = None;
    loop {
        let failure = match agent.events(&id, last.clone()).await {
            Ok(mut events) => {
                let opened = clock.now();
                if retry.is_lost() && sender.send(News::Back(id.clone())).await.is_err() {
                    return;
                }
                let mut broken = None;
                while let Some(told) = events.next().await {
                    match told {
                        Ok(Told { event, rotation }) => {
                            retry.succeeded();
                            last = event;
                            let over = rotation.phase.is_terminal();
                            if sender.send(News::State(Box::new(rotation))).await.is_err() || over {
                                return;
                            }
                        }
                        Err(failure) => {
                            broken = Some(failure);
                            break;
                        }
                    }
                }
                if clock.now().duration_since(opened) >= LASTING {
                    retry.succeeded();
                    // An end in order: as when the token with which it began has ended. Only what then fails is news.
                    if broken.is_none() {
                        continue;
                    }
                }
                broken.unwrap_or_else(|| Failure::AgentUnreachable("the agent ended the connection".to_owned()))
            }
            Err(failure) => {
                // What the event led to is no longer there: without it the present state comes.
                if matches!(&failure, Failure::Problem(problem) if problem.status == 410) {
                    last = None;
                }
                failure
            }
        };
        if !retry.goes_on(failure, &id, &sender).await {
            return;
        }
    }
}

/// Many rotations by asking for all of them.
async fn poll(agent: Agent, clock: Clock, ids: Vec<String>, sender: mpsc::Sender<News>) {
    let mut retry = Retry::new(clock);
    // Those that are not over, and since when they are not there.
    let mut live: BTreeMap<String, Option<Timestamp>> = ids.into_iter().map(|id| (id, None)).collect();
    while !live.is_empty() {
        match agent.rotations().await {
            Ok(rotations) => {
                if retry.is_lost() && sender.send(News::Back(String::new())).await.is_err() {
                    return;
                }
                retry.succeeded();
                let now = clock.now();
                live.values_mut().for_each(|missing| *missing = missing.or(Some(now)));
                for rotation in rotations {
                    let Some(missing) = live.get_mut(&rotation.id) else { continue };
                    *missing = None;
                    if rotation.phase.is_terminal() {
                        live.remove(&rotation.id);
                    }
                    if sender.send(News::State(Box::new(rotation))).await.is_err() {
                        return;
                    }
                }
                // As with a single one: what another agent does not see yet is waited for.
                let gone =
                    live.iter().find(|(_, missing)| missing.is_some_and(|since| now.duration_since(since) >= LASTING));
                if let Some((id, _)) = gone {
                    let problem = Problem::new(Code::NotFound, format!("rotations {id:?} not found"));
                    let _ = sender.send(News::Over(problem.into())).await;
                    return;
                }
                clock.sleep(POLL).await;
            }
            Err(failure) => {
                if !retry.goes_on(failure, "", &sender).await {
                    return;
                }
            }
        }
    }
}

/// How a broken connection is made anew: with growing pauses, until the patience is used up.
struct Retry {
    clock: Clock,
    since: Option<Timestamp>,
    pause: Duration,
}

impl Retry {
    fn new(clock: Clock) -> Self {
        Self { clock, since: None, pause: FIRST_RETRY }
    }

    fn is_lost(&self) -> bool {
        self.since.is_some()
    }

    fn succeeded(&mut self) {
        *self = Self::new(self.clock);
    }

    /// Tells of the failure and waits; not where asking again cannot help, or nobody listens any more.
    async fn goes_on(&mut self, failure: Failure, which: &str, sender: &mpsc::Sender<News>) -> bool {
        let now = self.clock.now();
        let lost = now.duration_since(*self.since.get_or_insert(now));
        // Another agent may see a record a moment later than the one that has told of it.
        let unseen = matches!(&failure, Failure::Problem(problem) if problem.code == Code::NotFound) && lost < LASTING;
        if !(is_passing(&failure) || unseen) || lost >= PATIENCE {
            let _ = sender.send(News::Over(failure)).await;
            return false;
        }
        if sender.send(News::Lost(which.to_owned(), failure)).await.is_err() {
            return false;
        }
        self.clock.sleep(self.pause).await;
        self.pause = (self.pause * 2).min(RETRY);
        true
    }
}

/// Whether asking again may help: the way to the agent is broken, the agent is starting, the API server stumbles.
fn is_passing(failure: &Failure) -> bool {
    match failure {
        Failure::AgentUnreachable(_) | Failure::Cluster(_) => true,
        Failure::Problem(problem) => {
            matches!(problem.code, Code::NotReady | Code::UpstreamFailed | Code::TooManyRequests)
                || problem.status == 410
        }
        _ => false,
    }
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
        console.prose(format!(
            "{after}. Nothing runs while this command is away. Go on with: kubectl rotate node {}{flags}",
            nodes.join(" ")
        ));
        return;
    }
    console
        .prose(format!("{after}; it goes on in the agent. Follow it with: kubectl rotate status{reference} -w{flags}"));
    if !reference.is_empty() {
        console.prose(format!("End it with: kubectl rotate cancel{reference}{flags}"));
    }
}

#[cfg(test)]
mod tests;
