//! The agent's API, typed.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::StreamExt;
use futures::stream::BoxStream;
use http::Method;
use rotate_agent::clock::Clock;
use rotate_shared::plan::PlanRequest;
use rotate_shared::{
    CacheInfo, CancelRequest, Code, NodeList, Plan, PlanList, Problem, Rotation, RotationList, RotationRequest,
    VersionInfo,
};
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::sse::Decoder;
use super::{Answer, Transport, TransportError};
use crate::args::RotationRef;
use crate::failure::Failure;

/// Answers are a few kilobytes a Pod or node; what is longer is not ours.
const LARGEST_ANSWER: usize = 256 << 20;

/// Where every agent of every version tells its own.
pub(super) const VERSION_PATH: &str = "/version";

/// How often an agent that has just started is asked again.
const AGAIN: Duration = Duration::from_millis(500);
/// How many times: it reads a cluster of usual size well within that.
const TIMES: u32 = 20;

/// An agent that answers.
#[derive(Clone, Debug)]
pub(crate) struct Agent {
    transport: Arc<dyn Transport>,
    clock: Clock,
    /// How long an answer may take; following a rotation has no limit.
    patience: Option<Duration>,
}

impl Agent {
    /// An agent behind this transport, whatever its version.
    pub(crate) fn new(transport: impl Transport + 'static, clock: Clock) -> Self {
        Self { transport: Arc::new(transport), clock, patience: None }
    }

    /// Bounds each request, as `--request-timeout` says.
    pub(crate) fn patient(mut self, patience: Option<Duration>) -> Self {
        self.patience = patience.filter(|patience| !patience.is_zero());
        self
    }

    /// The agent's version.
    pub(crate) async fn version(&self) -> Result<VersionInfo, Failure> {
        self.call(Method::GET, VERSION_PATH.to_owned(), None::<&()>).await
    }

    /// Refuses an agent that is more than one minor version away.
    pub(crate) async fn check_version(&self) -> Result<(), Failure> {
        let (ours, theirs) = (VersionInfo::current(), self.version().await?);
        if ours.compatible_with(&theirs) {
            return Ok(());
        }
        Err(Failure::OtherVersion(format!(
            "the agent is version {}, this is kubectl-rotate {}: at most one minor version may lie between them; \
             upgrade the older one",
            theirs.version, ours.version
        )))
    }

    /// What the agent's cache holds, and what keeps it from being whole.
    pub(crate) async fn cache(&self) -> Result<CacheInfo, Failure> {
        self.call(Method::GET, "/v1/cache".to_owned(), None::<&()>).await
    }

    /// Plans, one a node.
    pub(crate) async fn plan(&self, request: &PlanRequest) -> Result<Vec<Plan>, Failure> {
        let list: PlanList = self.call(Method::POST, "/v1/plans".to_owned(), Some(request)).await?;
        Ok(list.items)
    }

    /// Begins rotations, one a node.
    pub(crate) async fn rotate(&self, request: &RotationRequest) -> Result<Vec<Rotation>, Failure> {
        let list: RotationList = self.call(Method::POST, "/v1/rotations".to_owned(), Some(request)).await?;
        Ok(list.items)
    }

    /// All rotations.
    pub(crate) async fn rotations(&self) -> Result<Vec<Rotation>, Failure> {
        self.filtered("").await
    }

    async fn filtered(&self, query: &str) -> Result<Vec<Rotation>, Failure> {
        let list: RotationList = self.call(Method::GET, format!("/v1/rotations{query}"), None::<&()>).await?;
        Ok(list.items)
    }

    /// One rotation.
    pub(crate) async fn rotation(&self, id: &str) -> Result<Rotation, Failure> {
        self.call(Method::GET, format!("/v1/rotations/{id}"), None::<&()>).await
    }

    /// The rotations that are meant: one by id, all of a batch, the live or last one of a node.
    pub(crate) async fn find(&self, reference: &RotationRef) -> Result<Vec<Rotation>, Failure> {
        let found = match reference {
            RotationRef::Id(id) => return Ok(vec![self.rotation(id).await?]),
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
        self.call(Method::GET, format!("/v1/nodes{query}"), None::<&()>).await
    }

    /// The states of a rotation as they come, the present one first. Ends where the connection ends.
    pub(crate) async fn events(&self, id: &str) -> Result<BoxStream<'static, Result<Rotation, Failure>>, Failure> {
        let answer = self.transport.send(Method::GET, format!("/v1/rotations/{id}/events"), None).await?;
        let answer = refused(answer).await?;
        let mut decoder = Decoder::default();
        let events = answer.body.flat_map(move |piece| {
            let events: Vec<Result<Rotation, Failure>> = match piece {
                Ok(piece) => decoder.feed(&piece).iter().map(|event| read(event.as_bytes())).collect(),
                Err(error) => vec![Err(error.into())],
            };
            futures::stream::iter(events)
        });
        Ok(events.boxed())
    }

    async fn call<B: Serialize, T: DeserializeOwned>(
        &self,
        method: Method,
        path: String,
        body: Option<&B>,
    ) -> Result<T, Failure> {
        let body = body.map(|body| serde_json::to_vec(body).expect("wire types can be written as JSON"));
        let body = body.map(Bytes::from);
        let mut times = 0;
        let answer = loop {
            let answer = async {
                let answer = self.transport.send(method.clone(), path.clone(), body.clone()).await?;
                let answer = refused(answer).await?;
                Ok::<_, Failure>(whole(answer).await?)
            };
            let answer = match self.patience {
                None => answer.await,
                Some(patience) => tokio::time::timeout(patience, answer).await.unwrap_or_else(|_| {
                    let seconds = patience.as_secs_f64();
                    Err(Failure::AgentUnreachable(format!("the agent did not answer within {seconds} s")))
                }),
            };
            match answer {
                Err(Failure::Problem(problem)) if problem.code == Code::NotReady && times < TIMES => {
                    times += 1;
                    self.clock.sleep(AGAIN).await;
                }
                answer => break answer?,
            }
        };
        read(&answer)
    }
}

/// Turns an answer that is a refusal into a failure.
async fn refused(answer: Answer) -> Result<Answer, Failure> {
    if (200..300).contains(&answer.status) {
        return Ok(answer);
    }
    let status = answer.status;
    let body = whole(answer).await?;
    match serde_json::from_slice::<Problem>(&body) {
        Ok(problem) => Err(problem.into()),
        // Something else than the agent listens there, or a proxy answers for it.
        Err(_) => Err(Failure::AgentUnreachable(format!("what answered is not the agent: HTTP status {status}"))),
    }
}

async fn whole(mut answer: Answer) -> Result<Vec<u8>, TransportError> {
    let mut body = Vec::new();
    while let Some(piece) = answer.body.next().await {
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
mod tests {
    use super::*;

    #[test]
    fn a_selector_survives_the_query() {
        assert_eq!(encoded("a in (b,c),d!=é"), "a%20in%20%28b%2Cc%29%2Cd%21%3D%C3%A9");
    }
}
