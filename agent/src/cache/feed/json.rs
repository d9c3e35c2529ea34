//! The feed over JSON: plain requests with their paths named, no discovery.

use std::collections::VecDeque;
use std::time::Duration;

use futures::{StreamExt, stream};
use http::header::{ACCEPT, ACCEPT_ENCODING, RETRY_AFTER};
use http::{Request, Response, StatusCode};
use http_body_util::BodyExt;
use kube::Client;
use kube::client::Body;
use serde::Deserialize;
use serde_json::value::RawValue;
use tokio::time::timeout;

use super::lines::Lines;
use super::resource::Resource;
use super::source::escaped;
use super::{Event, Events, Feed, FeedError, Page, Source};
use crate::cache::decode::{self, Decode};
use crate::cache::index::Unreadable;

/// Objects in a page: as kubectl. At 8 KB a Pod, about 4 MB are held at a time.
const PAGE: u32 = 500;
/// How long one answer may take, a page of a list or the head of a watch.
const PATIENCE: Duration = Duration::from_secs(60);

/// The feed over JSON.
#[derive(Clone)]
pub(super) struct JsonFeed {
    client: Client,
}

#[derive(Deserialize)]
struct ListWire<'a> {
    #[serde(default)]
    metadata: ListMeta,
    #[serde(borrow, default, deserialize_with = "decode::nullable")]
    items: Vec<&'a RawValue>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct ListMeta {
    resource_version: Box<str>,
    #[serde(rename = "continue")]
    next: Option<String>,
}

#[derive(Deserialize)]
struct Frame<'a> {
    #[serde(rename = "type")]
    kind: Box<str>,
    #[serde(borrow)]
    object: &'a RawValue,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Status {
    code: Option<u16>,
    reason: Option<String>,
    message: Option<String>,
}

// === impl JsonFeed ===

impl JsonFeed {
    pub(super) fn new(client: Client) -> Self {
        Self { client }
    }

    /// The text of one answer.
    pub(super) async fn get(&self, path: &str) -> Result<String, FeedError> {
        let whole = async {
            let response = self.send(path).await?;
            let body = response.into_body().collect().await.map_err(FeedError::Unreachable)?;
            String::from_utf8(body.to_bytes().into()).map_err(|error| malformed(path, error))
        };
        timeout(PATIENCE, whole).await.unwrap_or(Err(FeedError::Silent(PATIENCE)))
    }

    async fn page<R: Resource>(&self, source: &Source, next: Option<&str>) -> Result<Page<R::Object>, FeedError> {
        let mut path = format!("{}?limit={PAGE}{}", source.path(), source.query());
        if let Some(next) = next {
            path.push_str("&continue=");
            path.push_str(&escaped(next));
        }
        let text = self.get(&path).await?;
        let list: ListWire<'_> = serde_json::from_str(&text).map_err(|error| malformed(&path, error))?;
        Ok(Page {
            events: list.items.into_iter().map(|item| read::<R>(item.get())).collect(),
            revision: list.metadata.resource_version,
            next: list.metadata.next.filter(|next| !next.is_empty()),
        })
    }

    async fn send(&self, path: &str) -> Result<Response<Body>, FeedError> {
        let request = Request::get(path)
            .header(ACCEPT, "application/json")
            // kube's decompression reads only the first member of the gzip streams that servers from 1.37 on send.
            .header(ACCEPT_ENCODING, "identity")
            .body(Body::empty())
            .map_err(|error| malformed(path, error))?;
        let response = self.client.send(request).await.map_err(FeedError::Unreachable)?;
        if response.status().is_success() {
            return Ok(response);
        }
        let status = response.status();
        let seconds = response.headers().get(RETRY_AFTER).and_then(|value| value.to_str().ok()?.parse().ok());
        let body = response.into_body().collect().await.map_err(FeedError::Unreachable)?.to_bytes();
        if status == StatusCode::GONE {
            return Err(FeedError::Gone);
        }
        let said: Status = serde_json::from_slice(&body).unwrap_or_default();
        Err(FeedError::Refused {
            path: path.to_owned(),
            status: status.as_u16(),
            message: said.message.unwrap_or_else(|| status.canonical_reason().unwrap_or_default().to_owned()),
            retry_after: seconds.map(Duration::from_secs),
        })
    }
}

impl Feed for JsonFeed {
    async fn list<R: Resource>(&self, source: &Source, next: Option<&str>) -> Result<Page<R::Object>, FeedError> {
        self.page::<R>(source, next).await
    }

    async fn watch<R: Resource>(
        &self,
        source: &Source,
        since: &str,
        length: Duration,
    ) -> Result<Events<R::Object>, FeedError> {
        let path = format!(
            "{}?watch=true&allowWatchBookmarks=true&resourceVersion={}&timeoutSeconds={}{}",
            source.path(),
            escaped(since),
            length.as_secs(),
            source.query(),
        );
        let response = timeout(PATIENCE, self.send(&path)).await.unwrap_or(Err(FeedError::Silent(PATIENCE)))?;
        let state = Watch { body: response.into_body(), lines: Lines::default(), failed: VecDeque::new(), path };
        Ok(stream::unfold(state, |state| state.next::<R>()).boxed())
    }
}

/// An open watch.
struct Watch {
    body: Body,
    lines: Lines,
    /// An error that came behind events which are told first; the watch ends with it.
    failed: VecDeque<FeedError>,
    path: String,
}

impl Watch {
    async fn next<R: Resource>(mut self) -> Option<(Result<Vec<Event<R::Object>>, FeedError>, Self)> {
        if let Some(error) = self.failed.pop_front() {
            self.body = Body::empty();
            return Some((Err(error), self));
        }
        loop {
            let bytes = match self.body.frame().await? {
                Ok(frame) => frame.into_data().unwrap_or_default(),
                Err(error) => {
                    self.body = Body::empty();
                    return Some((Err(FeedError::Unreachable(error)), self));
                }
            };
            let lines = match self.lines.feed(&bytes) {
                Ok(lines) => lines,
                Err(error) => {
                    self.body = Body::empty();
                    let error = malformed(&self.path, error);
                    return Some((Err(error), self));
                }
            };
            let mut events = Vec::with_capacity(lines.len());
            for line in &lines {
                match event::<R>(&self.path, line) {
                    Ok(Some(event)) => events.push(event),
                    Ok(None) => {}
                    Err(error) => {
                        self.failed.push_back(error);
                        break;
                    }
                }
            }
            if events.is_empty()
                && let Some(error) = self.failed.pop_front()
            {
                self.body = Body::empty();
                return Some((Err(error), self));
            }
            if !events.is_empty() {
                return Some((Ok(events), self));
            }
        }
    }
}

/// Reads one line of a watch; `None` where it says nothing that we keep.
fn event<R: Resource>(path: &str, line: &[u8]) -> Result<Option<Event<R::Object>>, FeedError> {
    let line = std::str::from_utf8(line).map_err(|error| malformed(path, error))?;
    let frame: Frame<'_> = serde_json::from_str(line).map_err(|error| malformed(path, error))?;
    let object = frame.object.get();
    match &*frame.kind {
        "ADDED" | "MODIFIED" => Ok(Some(read::<R>(object))),
        "DELETED" => Ok(Some(Event::Deleted(decode::identity(object)?))),
        "BOOKMARK" => Ok(decode::identity(object)?.revision.map(Event::Bookmark)),
        "ERROR" => {
            let said: Status = serde_json::from_str(object).unwrap_or_default();
            if said.code == Some(410) || matches!(said.reason.as_deref(), Some("Expired" | "Gone")) {
                return Err(FeedError::Gone);
            }
            Err(FeedError::Refused {
                path: path.to_owned(),
                status: said.code.unwrap_or(500),
                message: said.message.unwrap_or_else(|| "the watch ended with an error and no message".to_owned()),
                retry_after: None,
            })
        }
        other => {
            tracing::warn!(path, kind = other, "skipped a watch event of unknown type");
            Ok(None)
        }
    }
}

/// Reads one object. One that cannot be read must not hold up the others.
fn read<R: Resource>(json: &str) -> Event<R::Object> {
    match R::Object::decode(json.into()) {
        Ok((object, revision)) => Event::Applied(object, revision),
        Err(error) => {
            let (object, node) = decode::fragment(json);
            Event::Unreadable(Unreadable { kind: R::KIND, object, node, message: error.to_string() })
        }
    }
}

fn malformed(path: &str, source: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> FeedError {
    FeedError::Malformed { path: path.to_owned(), source: source.into() }
}
