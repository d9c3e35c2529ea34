//! Requests to the API server: plain ones with their paths named, no discovery; protobuf where it is spoken, else JSON.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use futures::stream::BoxStream;
use futures::{StreamExt, stream};
use http::header::{ACCEPT, ACCEPT_ENCODING, CONTENT_ENCODING, CONTENT_TYPE, RETRY_AFTER};
use http::{HeaderMap, Request, Response, StatusCode};
use http_body_util::BodyExt;
use kube::Client;
use kube::client::Body;
use tokio::time::timeout;

use super::encoding::Encoding;
use super::envelope::{self, Frame, Unexpected};
use super::frames::Frames;
use super::source::{escaped, shard_selector};
use super::{Event, FeedError, Options, Page, Source};
use crate::cache::index::Partition;

/// The longest answer that is taken: half a megabyte for each object of a page of usual length.
const LONGEST_ANSWER: usize = 256 << 20;
/// The longest refusal that is read for what it says; of a longer one only the status is told.
const LONGEST_REFUSAL: usize = 1 << 20;
/// How long one answer may take, a page of a list or the head of a watch.
pub(super) const PATIENCE: Duration = Duration::from_secs(60);

const JSON: &str = "application/json";
const PROTOBUF: &str = "application/vnd.kubernetes.protobuf, application/json";
const PROTOBUF_WATCH: &str =
    "application/vnd.kubernetes.protobuf;stream=watch, application/json;stream=watch, application/json";

/// Events as they come, those that came together in one piece.
pub(super) type Events = BoxStream<'static, Result<Vec<Event>, FeedError>>;

/// From where a watch begins.
#[derive(Clone, Copy, Debug)]
pub(super) enum From<'a> {
    /// What has changed since this resourceVersion.
    Revision(&'a str),
    /// Everything there is, then what changes: a streaming list.
    Everything,
}

/// The API server, as the feeds ask it.
#[derive(Clone)]
pub(super) struct Api {
    client: Client,
    options: Options,
    /// The server has refused to stream a list: what all feeds of this process remember.
    pages_only: Arc<AtomicBool>,
}

// === impl Api ===

impl Api {
    pub(super) fn new(client: Client, options: Options) -> Self {
        Self { client, options, pages_only: Arc::new(AtomicBool::new(!options.stream)) }
    }

    /// Whether lists are streamed as far as is known.
    pub(super) fn streams(&self) -> bool {
        !self.pages_only.load(Ordering::Relaxed)
    }

    /// Lists are not streamed here. Answers whether that is news.
    pub(super) fn remember_pages(&self) -> bool {
        !self.pages_only.swap(true, Ordering::Relaxed)
    }

    /// The JSON text of one object.
    pub(super) async fn text(&self, path: &str) -> Result<String, FeedError> {
        let (_, body) = patiently(async {
            let (encoding, body) = self.send(path, JSON).await?;
            Ok((encoding, whole(path, body, LONGEST_ANSWER).await?))
        })
        .await?;
        String::from_utf8(body.into()).map_err(|error| malformed(path, error))
    }

    /// A part of the list, from the beginning or from where an earlier part ended.
    pub(super) async fn page(&self, source: &Source, next: Option<&str>) -> Result<Page, FeedError> {
        let mut path = format!("{}?limit={}{}", source.path(), self.options.page, source.query());
        if let Some(next) = next {
            path.push_str("&continue=");
            path.push_str(&escaped(next));
        }
        let page = self.list(&path).await?;
        if next.is_some() && page.next.as_deref() == next {
            return Err(malformed(&path, "it goes on where it began: the list would never end"));
        }
        Ok(page)
    }

    /// Changes, as long as the server tells them; it ends by itself after this time.
    pub(super) async fn watch(&self, source: &Source, from: From<'_>, length: Duration) -> Result<Events, FeedError> {
        let from = match from {
            From::Revision(revision) => format!("resourceVersion={}", escaped(revision)),
            From::Everything => "sendInitialEvents=true&resourceVersionMatch=NotOlderThan".to_owned(),
        };
        let path = format!(
            "{}?watch=true&allowWatchBookmarks=true&{from}&timeoutSeconds={}{}",
            source.path(),
            length.as_secs(),
            source.query(),
        );
        let accept = if self.options.protobuf { PROTOBUF_WATCH } else { JSON };
        let (encoding, body) = patiently(self.send(&path, accept)).await?;
        let watch = Watch { body, frames: Frames::new(encoding), encoding, failed: VecDeque::new(), path };
        Ok(stream::unfold(watch, Watch::next).boxed())
    }

    /// Whether the server applies the shard of this source: one that does not know the parameter ignores it, and would
    /// send everything. Nothing is asked where the source is no shard.
    pub(super) async fn confirm(&self, source: &Source) -> Result<(), FeedError> {
        let Partition::Shard(range) = source.partition else { return Ok(()) };
        let path = format!("{}?limit=1{}", source.path(), source.query());
        let page = self.list(&path).await?;
        if page.shard.as_deref() == Some(&*shard_selector(range)) { Ok(()) } else { Err(FeedError::NotSharded) }
    }

    async fn list(&self, path: &str) -> Result<Page, FeedError> {
        let accept = if self.options.protobuf { PROTOBUF } else { JSON };
        let (encoding, answer) = patiently(async {
            let (encoding, body) = self.send(path, accept).await?;
            Ok((encoding, whole(path, body, LONGEST_ANSWER).await?))
        })
        .await?;
        envelope::page(encoding, &answer).map_err(|error| malformed(path, error))
    }

    async fn send(&self, path: &str, accept: &str) -> Result<(Encoding, Body), FeedError> {
        let request = Request::get(path)
            .header(ACCEPT, accept)
            // kube's decompression reads only the first member of the gzip streams that servers from 1.37 on send.
            .header(ACCEPT_ENCODING, "identity")
            .body(Body::empty())
            .map_err(|error| malformed(path, error))?;
        let response = self.client.send(request).await.map_err(FeedError::Unreachable)?;
        let content_type = text(response.headers(), CONTENT_TYPE).unwrap_or_default().to_owned();
        let encoding = Encoding::of(&content_type);
        if !response.status().is_success() {
            return Err(refused(path, encoding, response).await);
        }
        if let Some(compression) = text(response.headers(), CONTENT_ENCODING).filter(|coding| *coding != "identity") {
            let content_type = format!("{content_type}, compressed with {compression}");
            return Err(FeedError::ContentType { path: path.to_owned(), content_type });
        }
        match encoding {
            Some(encoding) if encoding == Encoding::Json || accept != JSON => Ok((encoding, response.into_body())),
            _ => Err(FeedError::ContentType { path: path.to_owned(), content_type }),
        }
    }
}

/// Within the time that an answer may take.
async fn patiently<T>(answer: impl Future<Output = Result<T, FeedError>>) -> Result<T, FeedError> {
    timeout(PATIENCE, answer).await.unwrap_or(Err(FeedError::Silent(PATIENCE)))
}

/// The whole body, in one piece and only once.
async fn whole(path: &str, mut body: Body, longest: usize) -> Result<Bytes, FeedError> {
    let mut whole = BytesMut::new();
    while let Some(frame) = body.frame().await {
        let bytes = frame.map_err(FeedError::Unreachable)?.into_data().unwrap_or_default();
        if whole.len() + bytes.len() > longest {
            return Err(malformed(path, format!("it is longer than {longest} bytes")));
        }
        whole.extend_from_slice(&bytes);
    }
    Ok(whole.freeze())
}

async fn refused(path: &str, encoding: Option<Encoding>, response: Response<Body>) -> FeedError {
    let status = response.status();
    if status == StatusCode::GONE {
        return FeedError::Gone;
    }
    let seconds = text(response.headers(), RETRY_AFTER).and_then(|seconds| seconds.parse().ok());
    // That it refuses is known; why, only as far as it says.
    let body = whole(path, response.into_body(), LONGEST_REFUSAL).await.unwrap_or_default();
    let said = encoding.map(|encoding| envelope::status(encoding, &body)).unwrap_or_default();
    FeedError::Refused {
        path: path.to_owned(),
        status: status.as_u16(),
        retry_after: seconds.map(Duration::from_secs).or_else(|| said.retry_after()),
        message: said.message.unwrap_or_else(|| status.canonical_reason().unwrap_or_default().to_owned()),
    }
}

fn text(headers: &HeaderMap, name: http::HeaderName) -> Option<&str> {
    headers.get(name)?.to_str().ok()
}

fn malformed(path: &str, source: impl Into<Unexpected>) -> FeedError {
    FeedError::Malformed { path: path.to_owned(), source: source.into() }
}

/// An open watch.
struct Watch {
    body: Body,
    frames: Frames,
    encoding: Encoding,
    /// An error that came behind events which are told first; the watch ends with it.
    failed: VecDeque<FeedError>,
    path: String,
}

// === impl Watch ===

impl Watch {
    async fn next(mut self) -> Option<(Result<Vec<Event>, FeedError>, Self)> {
        loop {
            if let Some(error) = self.failed.pop_front() {
                self.body = Body::empty();
                self.frames = Frames::new(self.encoding);
                return Some((Err(error), self));
            }
            let mut frames = Vec::new();
            match self.body.frame().await {
                Some(Ok(frame)) => {
                    if let Err(error) = self.frames.feed(frame.into_data().unwrap_or_default(), &mut frames) {
                        self.failed.push_back(malformed(&self.path, error));
                    }
                }
                Some(Err(error)) => self.failed.push_back(FeedError::Unreachable(error)),
                None => match self.frames.finish() {
                    Ok(()) => return None,
                    Err(error) => self.failed.push_back(malformed(&self.path, error)),
                },
            }
            let mut events = Vec::with_capacity(frames.len());
            for frame in &frames {
                match self.event(frame) {
                    Ok(event) => events.push(event),
                    Err(error) => {
                        self.failed.push_front(error);
                        break;
                    }
                }
            }
            if !events.is_empty() {
                return Some((Ok(events), self));
            }
        }
    }

    fn event(&self, frame: &Bytes) -> Result<Event, FeedError> {
        let said = match envelope::frame(self.encoding, frame) {
            Ok(Frame::Event(event)) => return Ok(event),
            Ok(Frame::Error(status)) => status,
            Err(error) => return Err(malformed(&self.path, error)),
        };
        if said.is_gone() {
            return Err(FeedError::Gone);
        }
        Err(FeedError::Refused {
            path: self.path.clone(),
            status: said.code.unwrap_or(500),
            retry_after: said.retry_after(),
            message: said.message.unwrap_or_else(|| "the watch ended with an error and no message".to_owned()),
        })
    }
}
