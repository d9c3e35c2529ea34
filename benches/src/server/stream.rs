//! Watches: what there is, then what happens.

use std::sync::Arc;
use std::time::Duration;

use axum::body::Bytes;
use futures::stream::{self, Stream};
use jiff::SignedDuration;
use rotate_agent::clock::Clock;

use super::Query;
use super::objects::{Kind, Objects};
use crate::wire::{Encoding, added, bookmark};

/// How much is made at a time.
const CHUNK: usize = 64 << 10;
/// How long a watch waits before it looks for events again.
const TICK: Duration = Duration::from_millis(20);
/// How often a watch says how far it is.
const BOOKMARKS: SignedDuration = SignedDuration::from_secs(60);

struct Watch {
    objects: Arc<Objects>,
    kind: Kind,
    encoding: Encoding,
    clock: Clock,
    /// The next object of the initial state and its round; `None`: it has been told.
    initial: Option<(usize, u64)>,
    /// Events told so far.
    told: u64,
    ends: Option<jiff::Timestamp>,
    bookmark: jiff::Timestamp,
}

/// The frames of a watch.
pub(super) fn frames(
    objects: Arc<Objects>,
    kind: Kind,
    encoding: Encoding,
    query: &Query,
    clock: Clock,
) -> impl Stream<Item = Result<Bytes, std::convert::Infallible>> + use<> {
    let now = clock.now();
    let seconds = |seconds: u64| SignedDuration::from_secs(i64::try_from(seconds).unwrap_or(i64::MAX / 2));
    let round = objects.round(clock);
    let told = match (query.initial, query.since.as_deref()) {
        (false, Some(since)) => Objects::events_at(since),
        _ => round * super::objects::EVENTS,
    };
    let watch = Watch {
        initial: query.initial.then_some((0, round)),
        ends: query.timeout.map(|timeout| now.saturating_add(seconds(timeout)).unwrap_or(jiff::Timestamp::MAX)),
        bookmark: now,
        objects,
        kind,
        encoding,
        clock,
        told,
    };
    stream::unfold(watch, |mut watch| async { Some((Ok(watch.next().await?), watch)) })
}

impl Watch {
    async fn next(&mut self) -> Option<Bytes> {
        loop {
            let mut chunk = Vec::new();
            if let Some((number, round)) = self.initial {
                self.initial = self.put_initial(number, round, &mut chunk);
                return Some(chunk.into());
            }
            let now = self.clock.now();
            if self.ends.is_some_and(|ends| now >= ends) {
                return None;
            }
            let happened = if self.kind == Kind::Pods { self.objects.events(self.clock) } else { self.told };
            while self.told < happened && chunk.len() < CHUNK {
                self.objects.put_event(self.told, self.encoding, &mut chunk);
                self.told += 1;
            }
            if chunk.is_empty() && now.duration_since(self.bookmark) >= BOOKMARKS {
                self.put_bookmark(false, &mut chunk);
            }
            if !chunk.is_empty() {
                return Some(chunk.into());
            }
            self.clock.sleep(TICK).await;
        }
    }

    /// Tells a part of the initial state. Answers what comes next.
    fn put_initial(&mut self, number: usize, round: u64, chunk: &mut Vec<u8>) -> Option<(usize, u64)> {
        let count = self.objects.count(self.kind);
        let mut object = Vec::new();
        for number in number..count {
            if chunk.len() >= CHUNK {
                return Some((number, round));
            }
            object.clear();
            self.objects.put(self.kind, number, round, self.encoding, &mut object);
            added(self.encoding, &object, chunk);
        }
        self.put_bookmark(true, chunk);
        None
    }

    fn put_bookmark(&mut self, complete: bool, chunk: &mut Vec<u8>) {
        self.bookmark = self.clock.now();
        let revision = Objects::event_revision(self.told);
        bookmark(self.encoding, self.kind.api_version(), self.kind.name(), &revision, complete, chunk);
    }
}
