//! Which exit code an end has, and connections that break meanwhile.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use futures::future::BoxFuture;
use rotate_shared::Problem;
use rotate_shared::rotation::Outcome;

use super::*;
use crate::connect::{Answer, Ask, Transport, TransportError};
use crate::output::rotation::tests::rotation;

fn ended(phase: Phase, code: Option<Code>) -> Rotation {
    let outcome = Some(Outcome { code, message: String::new() });
    Rotation { phase, outcome, ..rotation() }
}

#[test]
fn each_end_has_its_documented_exit_code() {
    for (phase, code, wanted) in [
        (Phase::Succeeded, None, exit::DONE),
        (Phase::RolledBack, Some(Code::Reserving), exit::NO_SURGE),
        (Phase::RolledBack, Some(Code::PlaceholderRefused), exit::NO_SURGE),
        (Phase::RolledBack, None, exit::NO_SURGE),
        (Phase::RolledBack, Some(Code::BarePod), exit::BLOCKED),
        (Phase::RolledBack, Some(Code::ReturnsToNode), exit::BLOCKED),
        (Phase::Stopped, None, exit::PARTIAL),
        (Phase::Cancelled, None, exit::ERROR),
        (Phase::Failed, Some(Code::ApiError), exit::ERROR),
        (Phase::Superseded, None, exit::ERROR),
    ] {
        assert_eq!(exit_code(&[ended(phase, code)]), wanted, "{phase} {code:?}");
    }
}

#[test]
fn several_that_ended_differently_are_partial() {
    let (good, bad) = (ended(Phase::Succeeded, None), ended(Phase::RolledBack, None));
    assert_eq!(exit_code(&[good.clone(), good.clone()]), exit::DONE);
    assert_eq!(exit_code(&[good, bad.clone()]), exit::PARTIAL);
    assert_eq!(exit_code(&[bad.clone(), bad]), exit::NO_SURGE);
}

/// What an agent does with one request for events.
enum Does {
    /// It tells of these states under these ids, then the connection breaks.
    Tells(Vec<(&'static str, Rotation)>),
    /// It tells of this state under this id, and ends in order after a while.
    Ends(&'static str, Box<Rotation>),
    /// It refuses.
    Refuses(Problem),
    /// It cannot be reached.
    IsGone,
}

/// Does one thing after the other, and is gone after the last. Remembers after which event it was asked to go on.
#[derive(Clone, Default)]
struct Script {
    does: Arc<Mutex<VecDeque<Does>>>,
    asked: Arc<Mutex<Vec<Option<String>>>>,
}

impl std::fmt::Debug for Script {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Script")
    }
}

impl Script {
    fn new(does: impl IntoIterator<Item = Does>) -> Self {
        let script = Self::default();
        script.does.lock().expect("nobody panics with it").extend(does);
        script
    }

    fn asked_after(&self) -> Vec<Option<String>> {
        self.asked.lock().expect("nobody panics with it").clone()
    }
}

impl Transport for Script {
    fn send(&self, ask: Ask) -> BoxFuture<'_, Result<Answer, TransportError>> {
        self.asked.lock().expect("nobody panics with it").push(ask.last_event);
        let version = Some(env!("CARGO_PKG_VERSION").to_owned());
        let next = self.does.lock().expect("nobody panics with it").pop_front();
        let answer = match next.unwrap_or(Does::IsGone) {
            Does::IsGone => Err(TransportError::Unreachable { at: "x".to_owned(), reason: "gone".to_owned() }),
            Does::Refuses(problem) => {
                let body = Bytes::from(serde_json::to_vec(&problem).expect("JSON"));
                Ok(Answer {
                    status: problem.status,
                    version,
                    retry_after: None,
                    body: futures::stream::iter([Ok(body)]).boxed(),
                })
            }
            Does::Ends(id, rotation) => {
                let json = serde_json::to_string(&rotation).expect("JSON");
                let event = Ok(Bytes::from(format!("id: {id}\ndata: {json}\n\n")));
                let end = async {
                    Clock::system().sleep(Duration::from_secs(600)).await;
                    None
                };
                let end = futures::stream::once(end).filter_map(std::future::ready);
                Ok(Answer {
                    status: 200,
                    version,
                    retry_after: None,
                    body: futures::stream::iter([event]).chain(end).boxed(),
                })
            }
            Does::Tells(states) => {
                let event = |(id, rotation): (&str, Rotation)| {
                    let json = serde_json::to_string(&rotation).expect("JSON");
                    Ok(Bytes::from(format!("id: {id}\ndata: {json}\n\n")))
                };
                let pieces: Vec<_> = states.into_iter().map(event).collect();
                let broken = Err(TransportError::BrokeOff("cut".to_owned()));
                let body = futures::stream::iter(pieces).chain(futures::stream::iter([broken]));
                Ok(Answer { status: 200, version, retry_after: None, body: body.boxed() })
            }
        };
        futures::future::ready(answer).boxed()
    }
}

/// Follows one rotation; gives what was told of it, in short.
async fn told(script: &Script) -> Vec<String> {
    let clock = Clock::system();
    let agent = Agent::new(script.clone(), clock);
    all_told(|sender| stream(agent, clock, "a".to_owned(), sender)).await
}

/// What is told until nothing more is, in short.
async fn all_told<F: Future<Output = ()> + Send + 'static>(
    follow: impl FnOnce(mpsc::Sender<News>) -> F,
) -> Vec<String> {
    let (sender, mut receiver) = mpsc::channel(64);
    let following = tokio::spawn(follow(sender));
    let mut told = Vec::new();
    while let Some(news) = receiver.recv().await {
        told.push(match news {
            News::State(rotation) => rotation.phase.to_string(),
            News::Lost(..) => "lost".to_owned(),
            News::Back(_) => "back".to_owned(),
            News::Over(failure) => failure.to_string(),
        });
    }
    following.await.expect("it ends");
    told
}

fn at(phase: Phase) -> Rotation {
    Rotation { phase, ..rotation() }
}

#[tokio::test(start_paused = true)]
async fn a_broken_connection_is_made_anew_and_goes_on_after_the_last_event() {
    let script = Script::new([
        Does::Tells(vec![("x-1", at(Phase::Surging)), ("x-2", at(Phase::Draining))]),
        Does::IsGone,
        Does::Refuses(Problem::new(Code::NotReady, "starting")),
        Does::Tells(vec![("y-1", at(Phase::Settling))]),
        Does::Tells(vec![("y-2", at(Phase::Succeeded))]),
    ]);
    assert_eq!(
        told(&script).await,
        ["Surging", "Draining", "lost", "lost", "lost", "back", "Settling", "lost", "back", "Succeeded"]
    );
    let after: Vec<_> = script.asked_after().into_iter().map(|id| id.unwrap_or_default()).collect();
    assert_eq!(after, ["", "x-2", "x-2", "x-2", "y-1"]);
}

#[tokio::test(start_paused = true)]
async fn a_stream_that_ends_in_order_is_begun_anew_without_a_word() {
    let script = Script::new([
        Does::Ends("x-1", Box::new(at(Phase::Draining))),
        Does::Ends("x-2", Box::new(at(Phase::Settling))),
        Does::Tells(vec![("x-3", at(Phase::Succeeded))]),
    ]);
    assert_eq!(told(&script).await, ["Draining", "Settling", "Succeeded"]);
    assert_eq!(script.asked_after(), [None, Some("x-1".to_owned()), Some("x-2".to_owned())]);
}

#[tokio::test(start_paused = true)]
async fn an_event_that_is_no_longer_there_is_not_gone_on_after() {
    let gone = Problem { status: 410, ..Problem::new(Code::BadRequest, "too old") };
    let script = Script::new([
        Does::Tells(vec![("x-1", at(Phase::Surging))]),
        Does::Refuses(gone),
        Does::Tells(vec![("x-9", at(Phase::Succeeded))]),
    ]);
    assert_eq!(told(&script).await, ["Surging", "lost", "lost", "back", "Succeeded"]);
    assert_eq!(script.asked_after(), [None, Some("x-1".to_owned()), None]);
}

#[tokio::test(start_paused = true)]
async fn an_agent_that_stays_away_is_given_up_after_minutes_and_not_after_thousands_of_requests() {
    let script = Script::new([Does::Tells(vec![("x-1", at(Phase::Surging))])]);
    let told = told(&script).await;
    assert_eq!(told.last().map(String::as_str), Some("no agent answered at x: gone"));
    assert!((60..80).contains(&script.asked_after().len()), "{}", script.asked_after().len());
}

#[tokio::test(start_paused = true)]
async fn a_record_that_another_agent_does_not_see_yet_is_waited_for_but_not_for_long() {
    let not_found = || Does::Refuses(Problem::new(Code::NotFound, "it is not there"));
    let script = Script::new([not_found(), Does::Tells(vec![("x-1", at(Phase::Succeeded))])]);
    assert_eq!(told(&script).await, ["lost", "back", "Succeeded"]);
    let script = Script::new(std::iter::repeat_with(not_found).take(100));
    assert_eq!(told(&script).await.last().map(String::as_str), Some("it is not there"));
    assert!(script.asked_after().len() < 10, "{}", script.asked_after().len());
}

#[tokio::test(start_paused = true)]
async fn what_asking_again_cannot_help_ends_the_following_at_once() {
    let script = Script::new([Does::Refuses(Problem::new(Code::Forbidden, "you may not"))]);
    assert_eq!(told(&script).await, ["you may not"]);
}

#[tokio::test(start_paused = true)]
async fn an_agent_that_is_asked_too_much_for_a_while_is_followed_again() {
    let busy = || Does::Refuses(Problem::new(Code::TooManyRequests, "too many"));
    let told_after = async |times: usize| {
        let end = Does::Tells(vec![("x-1", at(Phase::Succeeded))]);
        told(&Script::new(std::iter::repeat_with(busy).take(times).chain([end]))).await
    };
    assert_eq!(told_after(5).await, ["Succeeded"], "nobody need know");
    assert_eq!(told_after(45).await, ["lost", "back", "Succeeded"]);
}

/// Lists these rotations, one list after the other; the last stays. `None`: it cannot be reached.
#[derive(Debug)]
struct Lists(Mutex<VecDeque<Option<Vec<Rotation>>>>);

impl Transport for Lists {
    fn send(&self, _: Ask) -> BoxFuture<'_, Result<Answer, TransportError>> {
        let mut lists = self.0.lock().expect("nobody panics with it");
        let next = if lists.len() > 1 { lists.pop_front().flatten() } else { lists[0].clone() };
        let answer = match next {
            None => Err(TransportError::Unreachable { at: "x".to_owned(), reason: "gone".to_owned() }),
            Some(items) => {
                let list = serde_json::json!({"apiVersion": rotate_shared::API_VERSION, "kind": "RotationList", "items": items});
                let body = futures::stream::iter([Ok(Bytes::from(list.to_string()))]).boxed();
                let version = Some(env!("CARGO_PKG_VERSION").to_owned());
                Ok(Answer { status: 200, version, retry_after: None, body })
            }
        };
        futures::future::ready(answer).boxed()
    }
}

/// Asks for rotations `a` and `b` together; gives what was told of them, and how many seconds that took.
async fn polled(lists: impl IntoIterator<Item = Option<Vec<Rotation>>>) -> (Vec<String>, i64) {
    let clock = Clock::system();
    let agent = Agent::new(Lists(Mutex::new(lists.into_iter().collect())), clock);
    let begun = clock.now();
    let ids = ["a", "b"].map(str::to_owned).to_vec();
    let told = all_told(|sender| poll(agent, clock, ids, sender)).await;
    (told, clock.now().duration_since(begun).as_secs())
}

fn named(id: &str, phase: Phase) -> Rotation {
    Rotation { id: id.to_owned(), ..at(phase) }
}

#[tokio::test(start_paused = true)]
async fn of_many_one_that_is_gone_is_waited_for_but_not_for_long() {
    let both = || Some(vec![named("a", Phase::Draining), named("b", Phase::Draining)]);
    let one = || Some(vec![named("a", Phase::Succeeded)]);
    let (told, seconds) = polled([both(), one()]).await;
    assert_eq!(told, ["Draining", "Draining", "Succeeded", "rotations \"b\" not found"]);
    assert_eq!(seconds, 12);
    // For a moment only: it is there again.
    let (told, _) = polled([one(), None, Some(vec![named("b", Phase::Succeeded)])]).await;
    assert_eq!(told, ["Succeeded", "lost", "back", "Succeeded"]);
}

#[tokio::test(start_paused = true)]
async fn of_many_those_that_are_over_need_not_be_there_any_longer() {
    let left = |phase| Some(vec![named("b", phase)]);
    let begun = Some(vec![named("a", Phase::Succeeded), named("b", Phase::Draining)]);
    let later = std::iter::repeat_n(left(Phase::Draining), 30).chain([left(Phase::Succeeded)]);
    let (told, seconds) = polled([begun].into_iter().chain(later)).await;
    assert_eq!((told.len(), told.last().map(String::as_str), seconds), (33, Some("Succeeded"), 64));
}
