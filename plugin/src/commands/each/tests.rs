//! A batch of which some fail.

use std::sync::{Arc, Mutex};

use bytes::Bytes;
use clap::Parser as _;
use futures::future::BoxFuture;
use futures::{FutureExt, StreamExt};
use rotate_agent::clock::Clock;
use rotate_shared::{API_VERSION, CancelRequest, Problem, RotationList};

use super::*;
use crate::called::Called;
use crate::cli::Cli;
use crate::connect::{Agent, Answer, Ask, Transport, TransportError};
use crate::output::rotation::tests::rotation;

/// An agent with a batch of rotations, each with what it answers when it is to be cancelled.
#[derive(Clone, Debug)]
struct Batch {
    members: Arc<Vec<(Rotation, Answers)>>,
    asked: Arc<Mutex<Vec<String>>>,
}

#[derive(Clone, Copy, Debug)]
enum Answers {
    Cancelled,
    Refused(Code),
    Nothing,
}

impl Batch {
    fn new(members: &[(&str, Phase, Answers)]) -> Self {
        let member = |(id, phase, answers): &(&str, Phase, Answers)| {
            (Rotation { id: (*id).to_owned(), phase: *phase, ..rotation() }, *answers)
        };
        Self { members: Arc::new(members.iter().map(member).collect()), asked: Arc::default() }
    }

    async fn cancel(&self) -> Result<Asked, Failure> {
        let connected = Connected::remote(Agent::new(self.clone(), Clock::system()));
        let batch = RotationRef::parse("batch/f9b09ffcf2")?;
        let cancel = async |rotation: &Rotation| connected.agent.cancel(&rotation.id, CancelRequest::default()).await;
        let cli = Cli::try_parse_from(["kubectl-rotate"]).expect("well formed");
        let session = Session::new(Console::of_process(Called::Rotate), cli.agent, cli.connection);
        ask(&session, &connected, &batch, cancel).await
    }

    fn asked(&self) -> Vec<String> {
        self.asked.lock().expect("nobody panics with it").clone()
    }
}

impl Transport for Batch {
    fn send(&self, ask: Ask) -> BoxFuture<'_, Result<Answer, TransportError>> {
        let json = |status, body| {
            let body = futures::stream::iter([Ok(Bytes::from(body))]).boxed();
            Ok(Answer { status, version: Some(env!("CARGO_PKG_VERSION").to_owned()), retry_after: None, body })
        };
        let answer = match ask.path.strip_suffix("/cancel").and_then(|path| path.rsplit('/').next()) {
            None if ask.path == "/version" => {
                json(200, serde_json::to_vec(&rotate_shared::VersionInfo::current()).expect("JSON"))
            }
            None => {
                let items = self.members.iter().map(|(rotation, _)| rotation.clone()).collect();
                let list = RotationList { api_version: API_VERSION.into(), kind: "RotationList".into(), items };
                json(200, serde_json::to_vec(&list).expect("JSON"))
            }
            Some(id) => {
                self.asked.lock().expect("nobody panics with it").push(id.to_owned());
                let (rotation, answers) = self.members.iter().find(|(rotation, _)| rotation.id == id).expect("known");
                match answers {
                    Answers::Cancelled => json(200, serde_json::to_vec(rotation).expect("JSON")),
                    Answers::Refused(code) => {
                        let problem = Problem::new(*code, "no");
                        json(problem.status, serde_json::to_vec(&problem).expect("JSON"))
                    }
                    Answers::Nothing => {
                        Err(TransportError::Unreachable { at: "x".to_owned(), reason: "gone".to_owned() })
                    }
                }
            }
        };
        futures::future::ready(answer).boxed()
    }
}

fn ids(rotations: &[Rotation]) -> Vec<&str> {
    rotations.iter().map(|rotation| rotation.id.as_str()).collect()
}

#[tokio::test]
async fn the_queued_ones_come_first_and_what_is_over_is_not_asked() {
    let batch = Batch::new(&[
        ("a", Phase::Draining, Answers::Cancelled),
        ("b", Phase::Queued, Answers::Cancelled),
        ("c", Phase::Queued, Answers::Cancelled),
        ("d", Phase::Succeeded, Answers::Refused(Code::WrongPhase)),
    ]);
    let asked = batch.cancel().await.expect("they are found");
    assert_eq!(batch.asked(), ["b", "c", "a"]);
    assert_eq!((ids(&asked.done), asked.exit_code()), (vec!["b", "c", "a"], exit::DONE));
}

#[tokio::test]
async fn one_that_ends_by_itself_meanwhile_is_no_failure() {
    let batch = Batch::new(&[
        ("a", Phase::Settling, Answers::Refused(Code::WrongPhase)),
        ("b", Phase::Draining, Answers::Cancelled),
    ]);
    let asked = batch.cancel().await.expect("they are found");
    assert_eq!((ids(&asked.done), asked.exit_code()), (vec!["b"], exit::DONE));
}

#[tokio::test]
async fn one_that_fails_leaves_none_of_the_others_out() {
    let batch = Batch::new(&[
        ("a", Phase::Draining, Answers::Refused(Code::UpstreamFailed)),
        ("b", Phase::Draining, Answers::Cancelled),
    ]);
    let asked = batch.cancel().await.expect("they are found");
    assert_eq!(batch.asked(), ["a", "b"]);
    assert_eq!((ids(&asked.done), asked.exit_code()), (vec!["b"], exit::PARTIAL));
}

#[tokio::test]
async fn where_all_fail_alike_their_code_is_told() {
    let refused = Answers::Refused(Code::Forbidden);
    let batch = Batch::new(&[("a", Phase::Draining, refused), ("b", Phase::Draining, refused)]);
    let asked = batch.cancel().await.expect("they are found");
    assert_eq!(asked.exit_code(), exit::NOT_AUTHORISED);
}

#[tokio::test]
async fn where_nobody_answers_any_more_the_rest_is_not_asked_but_named() {
    let batch = Batch::new(&[
        ("a", Phase::Draining, Answers::Cancelled),
        ("b", Phase::Draining, Answers::Nothing),
        ("c", Phase::Draining, Answers::Cancelled),
    ]);
    let asked = batch.cancel().await.expect("they are found");
    assert_eq!(batch.asked(), ["a", "b"]);
    assert_eq!((ids(&asked.left), asked.exit_code()), (vec!["c"], exit::PARTIAL));
}

#[tokio::test]
async fn an_interruption_after_a_refusal_is_one_all_the_same() {
    let batch = Batch::new(&[("a", Phase::Draining, Answers::Refused(Code::UpstreamFailed))]);
    let mut asked = batch.cancel().await.expect("they are found");
    asked.failed.push((rotation(), Failure::Interrupted(String::new())));
    assert_eq!(asked.exit_code(), exit::INTERRUPTED);
}
