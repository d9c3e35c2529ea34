//! A server that speaks as much of the Kubernetes API as a cache reads: lists in pages, streamed lists, watches with
//! bookmarks, in JSON and in protobuf; Pods come and go at a given rate.
//!
//! ```text
//! /api/v1/{pods,nodes}, /apis/policy/v1/poddisruptionbudgets ──▶ Objects (made when asked for, by revision)
//! TokenReview, SubjectAccessReview ──▶ every token is good, and may everything
//! everything else ──▶ Records (a small store: Leases and ConfigMaps of the agent)
//! ```

mod objects;
mod records;
mod reviews;
mod stream;

use std::sync::Arc;

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::response::Response;
use http::header::{ACCEPT, CONTENT_TYPE};
use http::{Method, Request, StatusCode};
use rotate_agent::clock::Clock;

pub use objects::Objects;

use objects::Kind;
use records::Records;

use crate::wire::{Encoding, list};

/// Which encodings a server speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Speaks {
    /// What the client prefers.
    Both,
    /// JSON, whatever the client prefers.
    JsonOnly,
}

#[derive(Clone)]
struct Served {
    objects: Arc<Objects>,
    records: Arc<Records>,
    speaks: Speaks,
    clock: Clock,
}

/// What is asked of a list or a watch.
#[derive(Debug, Default)]
struct Query {
    limit: Option<usize>,
    next: Option<String>,
    since: Option<String>,
    watch: bool,
    initial: bool,
    timeout: Option<u64>,
}

/// The server's routes.
pub fn router(objects: Arc<Objects>, speaks: Speaks, clock: Clock) -> Router {
    Router::new().fallback(answer).with_state(Served { objects, records: Arc::default(), speaks, clock })
}

async fn answer(State(served): State<Served>, request: Request<Body>) -> Response {
    let query = Query::read(request.uri().query().unwrap_or_default());
    let kind = Kind::at(request.uri().path()).filter(|_| request.method() == Method::GET);
    let Some(kind) = kind else {
        if let Some(review) = reviews::Review::of(&request) {
            return review.answer(request).await;
        }
        return served.records.answer(request, query.watch, query.timeout, served.clock).await;
    };
    let accepted = request.headers().get(ACCEPT).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let protobuf = served.speaks == Speaks::Both && accepted.contains("application/vnd.kubernetes.protobuf");
    let encoding = if protobuf { Encoding::Protobuf } else { Encoding::Json };
    if query.watch {
        let frames = stream::frames(served.objects, kind, encoding, &query, served.clock);
        return respond(StatusCode::OK, encoding.watch_type(), Body::from_stream(frames));
    }
    respond(StatusCode::OK, encoding.content_type(), page(&served.objects, kind, encoding, &query, served.clock).into())
}

/// A page of a list; `continue` says of which revision, and where it goes on.
fn page(objects: &Objects, kind: Kind, encoding: Encoding, query: &Query, clock: Clock) -> Bytes {
    let (round, from) = match query.next.as_deref().and_then(|next| next.split_once('-')) {
        Some((round, from)) => (round.parse().unwrap_or_default(), from.parse().unwrap_or_default()),
        None => (objects.round(clock), 0),
    };
    let count = objects.count(kind);
    let end = query.limit.map_or(count, |limit| count.min(from + limit));
    let mut bytes = Vec::new();
    let mut ends = Vec::with_capacity(end - from);
    for number in from..end {
        objects.put(kind, number, round, encoding, &mut bytes);
        ends.push(bytes.len());
    }
    let starts = std::iter::once(0).chain(ends.iter().copied());
    let members = starts.zip(&ends).map(|(start, end)| &bytes[start..*end]);
    let next = if end < count { format!("{round}-{end}") } else { String::new() };
    list(encoding, kind.api_version(), kind.name(), &Objects::revision(round), &next, members).into()
}

fn respond(status: StatusCode, content_type: &str, body: Body) -> Response {
    let response = Response::builder().status(status).header(CONTENT_TYPE, content_type).body(body);
    response.expect("a response of constant parts")
}

impl Query {
    fn read(text: &str) -> Self {
        let mut query = Self::default();
        for (key, value) in text.split('&').filter_map(|pair| pair.split_once('=')) {
            let is = value == "true" || value == "1";
            match key {
                "limit" => query.limit = value.parse().ok().filter(|limit| *limit > 0),
                "continue" => query.next = Some(value.to_owned()).filter(|next| !next.is_empty()),
                "resourceVersion" => query.since = Some(value.to_owned()),
                "watch" => query.watch = is,
                "sendInitialEvents" => query.initial = is,
                "timeoutSeconds" => query.timeout = value.parse().ok(),
                _ => {}
            }
        }
        query
    }
}

#[cfg(test)]
mod tests;
