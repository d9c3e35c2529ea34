//! The agent's API, typed.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bytes::Bytes;
use futures::StreamExt;
use futures::stream::BoxStream;
use http::Method;
use jiff::{SignedDuration, Timestamp};
use rotate_agent::clock::Clock;
use rotate_shared::plan::PlanRequest;
use rotate_shared::{
    CacheInfo, CancelRequest, Code, NodeList, Plan, PlanList, Problem, Rotation, RotationList, RotationRequest, Skew,
    VersionInfo,
};
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::sse::{Decoder, Event, TooLong};
use super::{Answer, Ask, Transport, TransportError, trace};
use crate::args::RotationRef;
use crate::failure::Failure;

/// Answers are a few kilobytes a Pod or node; what is longer is not ours.
const LARGEST_ANSWER: usize = 256 << 20;

/// How often an agent that has just started is asked again.
const AGAIN: Duration = Duration::from_millis(500);
/// How many times: it reads a cluster of usual size well within that.
const TIMES: u32 = 20;

/// How long an agent that is asked too much is waited for in all.
const BUSY: Duration = Duration::from_secs(30);
/// Where it does not say how long.
const MOMENT: Duration = Duration::from_secs(1);

/// How long an answer that was lost is asked for again: another agent is there at once, a new one within seconds. What was
/// silent for longer is busy with it.
const LOST: SignedDuration = SignedDuration::from_secs(10);

/// An agent that answers.
#[derive(Clone, Debug)]
pub(crate) struct Agent {
    transport: Arc<dyn Transport>,
    clock: Clock,
    /// How long an answer may take; following a rotation has no limit.
    patience: Option<Duration>,
    /// The flags that lead to its cluster again.
    again: String,
    /// Whether its version is known to fit: before that, nothing is changed through it.
    fits: Arc<AtomicBool>,
}

/// A state of a rotation, as its events tell of it.
#[derive(Debug)]
pub(crate) struct Told {
    /// Where to go on after it.
    pub(crate) event: Option<String>,
    /// The state.
    pub(crate) rotation: Rotation,
}

impl Agent {
    /// An agent behind this transport, whatever its version.
    pub(crate) fn new(transport: impl Transport + 'static, clock: Clock) -> Self {
        Self { transport: Arc::new(transport), clock, patience: None, again: String::new(), fits: Arc::default() }
    }

    /// Bounds each request, as `--request-timeout` says.
    pub(crate) fn patient(mut self, patience: Option<Duration>) -> Self {
        self.patience = patience.filter(|patience| !patience.is_zero());
        self
    }

    /// An agent whose cluster these flags lead to.
    pub(crate) fn reached_by(self, again: String) -> Self {
        Self { again, ..self }
    }

    /// The agent's version, whether it fits or not.
    pub(crate) async fn version(&self) -> Result<VersionInfo, Failure> {
        // Where every agent of every version tells its own.
        let answer = self.ask(Ask::new(Method::GET, "/version")).await?;
        if answer.is_success() { read(&answer.body) } else { Err(refusal(answer.status, &answer.body)) }
    }

    /// What the agent's cache holds, and what keeps it from being whole.
    pub(crate) async fn cache(&self) -> Result<CacheInfo, Failure> {
        self.get("/v1/cache".to_owned()).await
    }

    /// Plans, one a node; none where nothing is selected. Those of a large fleet are asked for in pieces, which is no more
    /// than an agent takes. More nodes than `most` are refused before any is planned.
    pub(crate) async fn plan(&self, request: &PlanRequest, most: usize) -> Result<Vec<Plan>, Failure> {
        let names = match &request.selector {
            None => request.nodes.clone(),
            Some(selector) => self.selected(selector).await?,
        };
        if names.len() > most {
            let count = names.len();
            return Err(Failure::Usage(format!(
                "these are {count} nodes, and one command takes {most} at most; nothing was touched. Name or select some of \
                 them at a time"
            )));
        }
        let mut plans = Vec::with_capacity(names.len());
        for names in names.chunks(rotate_shared::plan::NODES_A_REQUEST) {
            let planned = match (self.plan_piece(request, names).await, &request.selector) {
                // Nodes of a fleet come and go: those that went since they were listed are not meant any more.
                (Err(Failure::Problem(problem)), Some(selector)) if problem.code == Code::NotFound => {
                    let still = self.selected(selector).await?;
                    let names: Vec<_> = names.iter().filter(|name| still.contains(name)).cloned().collect();
                    self.plan_piece(request, &names).await?
                }
                (planned, _) => planned?,
            };
            plans.extend(planned);
        }
        Ok(plans)
    }

    async fn plan_piece(&self, request: &PlanRequest, names: &[String]) -> Result<Vec<Plan>, Failure> {
        if names.is_empty() {
            return Ok(Vec::new());
        }
        let piece = PlanRequest { nodes: names.to_vec(), selector: None, ..request.clone() };
        let list: PlanList = self.call(Method::POST, "/v1/plans".to_owned(), Some(&piece)).await?;
        Ok(list.items)
    }

    async fn selected(&self, selector: &str) -> Result<Vec<String>, Failure> {
        Ok(self.nodes(Some(selector)).await?.items.into_iter().map(|node| node.name).collect())
    }

    /// Begins rotations, one a node.
    pub(crate) async fn rotate(&self, request: &RotationRequest) -> Result<Vec<Rotation>, Failure> {
        let ask = Ask { key: Some(random_key()), ..Ask::new(Method::POST, "/v1/rotations") };
        let list: RotationList = self.carry(with_body(ask, Some(request))).await?;
        Ok(list.items)
    }

    /// All rotations.
    pub(crate) async fn rotations(&self) -> Result<Vec<Rotation>, Failure> {
        self.filtered("").await
    }

    async fn filtered(&self, query: &str) -> Result<Vec<Rotation>, Failure> {
        let list: RotationList = self.get(format!("/v1/rotations{query}")).await?;
        Ok(list.items)
    }

    /// One rotation.
    pub(crate) async fn rotation(&self, id: &str) -> Result<Rotation, Failure> {
        self.get(format!("/v1/rotations/{id}")).await
    }

    /// The rotations that are meant: one by id, all of a batch, the live or last one of a node.
    pub(crate) async fn find(&self, reference: &RotationRef) -> Result<Vec<Rotation>, Failure> {
        let found = match reference {
            RotationRef::Id(id) => {
                let found = self.rotation(id).await.map_err(|failure| perhaps_a_node(failure, id))?;
                return Ok(vec![found]);
            }
            RotationRef::Batch(batch) => self.filtered(&format!("?batch={}", encoded(batch))).await?,
            RotationRef::Node(name) => {
                // Live ones first, then the newest.
                let mut all = self.filtered(&format!("?node={}", encoded(name.as_str()))).await?;
                all.truncate(1);
                all
            }
        };
        if found.is_empty() {
            let (kind, name) = match reference {
                RotationRef::Batch(id) => ("batches", id.as_str()),
                RotationRef::Node(name) => ("rotations of node", name.as_str()),
                RotationRef::Id(id) => ("rotations", id.as_str()),
            };
            return Err(Problem::new(Code::NotFound, format!("{kind} {name:?} not found")).into());
        }
        Ok(found)
    }

    /// Ends a rotation.
    pub(crate) async fn cancel(&self, id: &str, request: CancelRequest) -> Result<Rotation, Failure> {
        self.call(Method::POST, format!("/v1/rotations/{id}/cancel"), Some(&request)).await
    }

    /// Holds a rotation.
    pub(crate) async fn pause(&self, id: &str) -> Result<Rotation, Failure> {
        self.call(Method::POST, format!("/v1/rotations/{id}/pause"), None::<&()>).await
    }

    /// Lets a rotation go on.
    pub(crate) async fn resume(&self, id: &str) -> Result<Rotation, Failure> {
        self.call(Method::POST, format!("/v1/rotations/{id}/resume"), None::<&()>).await
    }

    /// The fleet.
    pub(crate) async fn nodes(&self, selector: Option<&str>) -> Result<NodeList, Failure> {
        let query = selector.map(|selector| format!("?selector={}", encoded(selector))).unwrap_or_default();
        self.get(format!("/v1/nodes{query}")).await
    }

    /// The states of a rotation as they come: the present one first, unless it is that of event `last`. Ends where the
    /// connection ends.
    pub(crate) async fn events(
        &self,
        id: &str,
        last: Option<String>,
    ) -> Result<BoxStream<'static, Result<Told, Failure>>, Failure> {
        let ask = Ask { last_event: last, ..Ask::new(Method::GET, format!("/v1/rotations/{id}/events")) };
        let mut put_off = PutOff::default();
        let answer = loop {
            trace::asking(&ask);
            let answer = self.transport.send(ask.clone()).await?;
            if (200..300).contains(&answer.status) {
                break answer;
            }
            let refused = refusal(answer.status, &whole(answer.body).await?);
            let Some(wait) = put_off.busy(&refused, answer.status, answer.retry_after, &ask) else {
                return Err(refused);
            };
            self.clock.sleep(wait).await;
        };
        let body = answer.body;
        self.check(answer.version.as_deref()).await?;
        let mut decoder = Decoder::default();
        let events = body.flat_map(move |piece| {
            let told = |event: Event| {
                let rotation = read(event.data.as_bytes())?;
                Ok(Told { event: event.id, rotation })
            };
            let events: Vec<Result<Told, Failure>> = match piece {
                Ok(piece) => match decoder.feed(&piece) {
                    Ok(events) => events.into_iter().map(told).collect(),
                    Err(TooLong) => vec![Err(TransportError::BrokeOff("an event is far too long".to_owned()).into())],
                },
                Err(error) => vec![Err(error.into())],
            };
            futures::stream::iter(events)
        });
        Ok(events.boxed())
    }

    async fn get<T: DeserializeOwned>(&self, path: String) -> Result<T, Failure> {
        self.call(Method::GET, path, None::<&()>).await
    }

    async fn call<B: Serialize, T: DeserializeOwned>(
        &self,
        method: Method,
        path: String,
        body: Option<&B>,
    ) -> Result<T, Failure> {
        self.carry(with_body(Ask::new(method, path), body)).await
    }

    async fn carry<T: DeserializeOwned>(&self, ask: Ask) -> Result<T, Failure> {
        if ask.changes() {
            self.know_version().await?;
        }
        let mut put_off = PutOff::default();
        let lost_until = self.clock.now().saturating_add(LOST).unwrap_or(Timestamp::MAX);
        let answer = loop {
            let answer = match self.ask(ask.clone()).await {
                Err(Failure::AgentUnreachable(why)) if ask.key.is_some() && self.clock.now() < lost_until => {
                    tracing::debug!("agent {}: {why}, to be asked again", ask.path);
                    self.clock.sleep(AGAIN).await;
                    continue;
                }
                answer => answer?,
            };
            // What an agent of another version refuses or answers need not mean what it seems to.
            if answer.version.is_some() || answer.is_success() {
                self.check(answer.version.as_deref()).await?;
            }
            if answer.is_success() {
                break answer;
            }
            let refused = refusal(answer.status, &answer.body);
            if is_unknown_path(&refused, &ask.path) {
                return Err(other_port(&ask.path));
            }
            let is_of_a_proxy = matches!(refused, Failure::AgentUnreachable(_)) && matches!(answer.status, 502..=504);
            if is_of_a_proxy && ask.key.is_some() && self.clock.now() < lost_until {
                self.clock.sleep(AGAIN).await;
                continue;
            }
            let starting = put_off.starting(&refused);
            let wait = starting.or_else(|| put_off.busy(&refused, answer.status, answer.retry_after, &ask));
            let Some(wait) = wait else { return Err(refused) };
            self.clock.sleep(wait).await;
        };
        read(&answer.body)
    }

    /// Sends, within the time that a person allows.
    async fn ask(&self, ask: Ask) -> Result<Whole, Failure> {
        let answered = async {
            trace::asking(&ask);
            let asked = self.clock.now();
            let path = ask.path.clone();
            let Answer { status, version, retry_after, body } = self.transport.send(ask).await?;
            let body = whole(body).await?;
            trace::answered(&path, status, self.clock.now().duration_since(asked), &body);
            Ok(Whole { status, version, retry_after, body })
        };
        let Some(patience) = self.patience else { return answered.await };
        let begun = self.clock.now();
        match tokio::time::timeout(patience, answered).await {
            Ok(Ok(answer)) => Ok(answer),
            // The way to the agent may have the same time limit: whichever is noticed first.
            Ok(Err(failure)) if self.clock.now().duration_since(begun).unsigned_abs() < patience => Err(failure),
            _ => Err(self.transport.late(patience.as_secs_f64())),
        }
    }

    /// Refuses an agent that is more than one minor version away. One that does not say its version is asked for it.
    async fn check(&self, said: Option<&str>) -> Result<(), Failure> {
        let Some(version) = said else { return self.know_version().await };
        fitting(&VersionInfo::current(), version, &self.again)?;
        self.fits.store(true, Ordering::Relaxed);
        Ok(())
    }

    async fn know_version(&self) -> Result<(), Failure> {
        if self.fits.load(Ordering::Relaxed) {
            return Ok(());
        }
        fitting(&VersionInfo::current(), &self.version().await?.version, &self.again)?;
        self.fits.store(true, Ordering::Relaxed);
        Ok(())
    }
}

fn with_body<B: Serialize>(ask: Ask, body: Option<&B>) -> Ask {
    let body = body.map(|body| serde_json::to_vec(body).expect("wire types can be written as JSON"));
    Ask { body: body.map(Bytes::from), ..ask }
}

/// A key that no other command has.
fn random_key() -> String {
    let mut bytes = [0; 16];
    let random = rustls::crypto::ring::default_provider().secure_random;
    random.fill(&mut bytes).expect("the system has random bytes");
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Whether an agent of that version can be worked with, and which of the two is to be upgraded if not.
fn fitting(ours: &VersionInfo, agent: &str, again: &str) -> Result<(), Failure> {
    let upgrade = match ours.skew(agent) {
        Skew::Fits => return Ok(()),
        Skew::AgentTooOld => format!("Upgrade the agent: kubectl rotate install --apply{again}"),
        Skew::AgentTooNew => "Upgrade this program: kubectl krew upgrade rotate".to_owned(),
        Skew::Unknown => {
            format!("Install the agent that belongs to this program: kubectl rotate install --apply{again}")
        }
    };
    Err(Failure::OtherVersion(format!(
        "the agent is version {agent}, this is kubectl-rotate {}: at most one minor version may lie between them. \
         {upgrade}",
        ours.version
    )))
}

/// An answer that is all there.
struct Whole {
    status: u16,
    version: Option<String>,
    retry_after: Option<Duration>,
    body: Vec<u8>,
}

impl Whole {
    fn is_success(&self) -> bool {
        (200..300).contains(&self.status)
    }
}

/// How often, and how long, one request was put off by the agent.
#[derive(Debug, Default)]
struct PutOff {
    starting: u32,
    waited: Duration,
}

impl PutOff {
    /// How long to wait for an agent that has just started; `None`: no longer, or it is not that.
    fn starting(&mut self, refused: &Failure) -> Option<Duration> {
        let starting = matches!(refused, Failure::Problem(problem) if problem.code == Code::NotReady);
        if !starting || self.starting == TIMES {
            return None;
        }
        self.starting += 1;
        Some(AGAIN)
    }

    /// How long to wait for one that is asked too much, as kubectl waits for an API server; `None`: no longer, or it is not that.
    /// An agent that says so has done nothing; of others, which may stand before it, that is known only where nothing could
    /// be done.
    fn busy(&mut self, refused: &Failure, status: u16, after: Option<Duration>, ask: &Ask) -> Option<Duration> {
        let wait = match refused {
            Failure::Problem(problem) if problem.code == Code::TooManyRequests => after.unwrap_or(MOMENT),
            _ if matches!(status, 429 | 503) && !ask.changes() => after?,
            _ => return None,
        };
        self.waited = self.waited.saturating_add(wait.max(AGAIN));
        tracing::debug!("agent {}: {status}, to be asked again in {} s", ask.path, wait.as_secs());
        (self.waited <= BUSY).then(|| wait.max(AGAIN))
    }
}

/// What is not found and looks like no id may be the name of a node.
fn perhaps_a_node(failure: Failure, id: &str) -> Failure {
    let is_id = id.len() == 10 && id.chars().all(|c| c.is_ascii_hexdigit());
    match failure {
        Failure::Problem(mut problem) if problem.code == Code::NotFound && !is_id => {
            problem.detail.push_str(&format!("; the one of a node is node/{id}"));
            Failure::Problem(problem)
        }
        failure => failure,
    }
}

/// Whether the agent has no such path at all.
fn is_unknown_path(refused: &Failure, path: &str) -> bool {
    let path = path.split('?').next().unwrap_or_default();
    matches!(refused, Failure::Problem(problem)
        if problem.code == Code::NotFound && problem.detail == format!("path {path:?} not found"))
}

/// An agent whose version fits has every path, on its control port.
fn other_port(path: &str) -> Failure {
    Failure::AgentUnreachable(format!(
        "the agent has no {} there: it is its ops port, and what is meant is its control port, {} unless told otherwise",
        path.split('?').next().unwrap_or_default(),
        rotate_shared::names::CONTROL_PORT
    ))
}

/// What an answer that is no success says.
fn refusal(status: u16, body: &[u8]) -> Failure {
    match serde_json::from_slice::<Problem>(body) {
        Ok(problem) => problem.into(),
        // Something else than the agent listens there, or a proxy answers for it.
        Err(_) => Failure::AgentUnreachable(format!("what answered is not the agent: HTTP status {status}")),
    }
}

async fn whole(mut pieces: BoxStream<'static, Result<Bytes, TransportError>>) -> Result<Vec<u8>, TransportError> {
    let mut body = Vec::new();
    while let Some(piece) = pieces.next().await {
        body.extend_from_slice(&piece?);
        if body.len() > LARGEST_ANSWER {
            return Err(TransportError::BrokeOff("it is far too long".to_owned()));
        }
    }
    Ok(body)
}

fn read<T: DeserializeOwned>(body: &[u8]) -> Result<T, Failure> {
    serde_json::from_slice(body)
        .map_err(|error| Failure::AgentUnreachable(format!("what answered is not the agent: {error}")))
}

/// A query value: everything but unreserved characters is encoded.
pub(crate) fn encoded(text: &str) -> String {
    let mut encoded = String::new();
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            encoded.push(char::from(byte));
        } else {
            encoded.push_str(&format!("%{byte:02X}"));
        }
    }
    encoded
}

#[cfg(test)]
mod tests;
