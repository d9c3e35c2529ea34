//! The loop that keeps one kind up to date.

use std::marker::PhantomData;
use std::time::Duration;

use futures::StreamExt;
use tokio::time::timeout;

use super::backoff::{Backoff, between};
use super::health::FeedId;
use super::resource::Resource;
use super::{Event, Feed, FeedError, FeedHealth, Source};
use crate::cache::index::{Kind, Relist};
use crate::cache::{Cache, State};
use crate::clock::Clock;

/// How long a watch is asked to last, at least and at most. Jittered, so that watches opened together do not end
/// together.
const WATCH: (Duration, Duration) = (Duration::from_secs(240), Duration::from_secs(300));
/// How long an open watch may say nothing. On a quiet kind the API server sends the first bookmark after two minutes and
/// then one a minute (measured on 1.36.3): three minutes mean a connection that died without telling. The socket alone
/// would show it only after the watch's own time.
pub(super) const SILENCE: Duration = Duration::from_secs(180);
/// A watch that lasted this long did its work: the next one follows at once.
const WORKED: Duration = Duration::from_secs(5);

/// Lists once, then watches for ever.
pub(super) async fn reflect<R: Resource, F: Feed>(feed: F, source: Source, cache: Cache, clock: Clock) -> &'static str {
    let registered = Registered::new(&source, &cache);
    let mut reflector =
        Reflector::<R, F> { feed, source, registered, cache, clock, since: None, heard: false, kind: PhantomData };
    let mut backoff = Backoff::default();
    loop {
        let started = clock.now();
        let result = match reflector.since.clone() {
            None => reflector.list().await,
            Some(since) => reflector.watch(&since).await,
        };
        let worked = clock.now().duration_since(started).unsigned_abs() >= WORKED;
        if std::mem::take(&mut reflector.heard) || worked {
            backoff.reset();
        }
        let wait = match result {
            Ok(Ended::ListComplete) => continue,
            Ok(Ended::ByServer) if worked => continue,
            // A server that ends every watch at once must not be asked in a tight loop.
            Ok(Ended::ByServer) => backoff.failed(),
            Err(error) => {
                let wait = backoff.failed().max(error.retry_after());
                reflector.failed(&error, wait);
                wait
            }
        };
        clock.sleep(wait).await;
    }
}

/// How a list or a watch ended well.
enum Ended {
    /// The list was read to its end.
    ListComplete,
    /// The watch had its time.
    ByServer,
}

/// A feed's entry in the health, as long as it runs.
struct Registered {
    feed: FeedId,
    cache: Cache,
}

struct Reflector<R, F> {
    feed: F,
    source: Source,
    registered: Registered,
    cache: Cache,
    clock: Clock,
    /// From where to watch; `None`: list first.
    since: Option<Box<str>>,
    /// The present watch has said something.
    heard: bool,
    kind: PhantomData<fn() -> R>,
}

// === impl Registered ===

impl Registered {
    fn new(source: &Source, cache: &Cache) -> Self {
        Self { feed: cache.note(|health| health.begin(source)), cache: cache.clone() }
    }
}

impl Drop for Registered {
    fn drop(&mut self) {
        self.cache.note(|health| health.end(self.feed));
    }
}

// === impl Reflector ===

impl<R: Resource, F: Feed> Reflector<R, F> {
    /// Reads the complete list, page by page, and forgets what it does not hold.
    async fn list(&mut self) -> Result<Ended, FeedError> {
        let partition = self.source.partition.clone();
        let relist = self.cache.write(|state| state.begin_relist(R::KIND, partition));
        let mut next: Option<String> = None;
        loop {
            let page = self.feed.list::<R>(&self.source, next.as_deref()).await?;
            self.note(|health, now| health.last_heard = Some(now));
            self.apply(page.events, None, Some(&relist));
            next = page.next;
            if next.is_none() {
                let revision = page.revision;
                let gone = self.cache.write(|state| {
                    state.set_revision(R::KIND, &revision);
                    state.mark_younger(&relist, &revision);
                    let gone = state.end_relist(relist);
                    if R::KIND == Kind::Pods {
                        state.cover(self.source.partition.clone());
                    }
                    gone
                });
                tracing::debug!(kind = R::NAME, revision = &*revision, gone, "list complete");
                self.since = Some(revision);
                self.note(|health, _| {
                    health.synced = true;
                    health.lists += 1;
                });
                return Ok(Ended::ListComplete);
            }
        }
    }

    /// Follows changes until the watch ends.
    async fn watch(&mut self, since: &str) -> Result<Ended, FeedError> {
        let length = between(WATCH.0, WATCH.1);
        let mut events = self.feed.watch::<R>(&self.source, since, length).await?;
        self.note(|health, now| {
            health.connected = true;
            health.last_heard = Some(now);
        });
        loop {
            match timeout(SILENCE, events.next()).await {
                Ok(Some(Ok(events))) => {
                    self.heard = true;
                    self.note(|health, now| health.last_heard = Some(now));
                    let revision = revision(&events);
                    self.apply(events, revision.as_deref(), None);
                    self.since = revision.or(self.since.take());
                }
                Ok(Some(Err(error))) => return Err(error),
                Ok(None) => return Ok(Ended::ByServer),
                Err(_) => {
                    self.note(|health, _| health.stalls += 1);
                    return Err(FeedError::Silent(SILENCE));
                }
            }
        }
    }

    /// Takes in what came, all of it or none of it visible.
    fn apply(&self, events: Vec<Event<R::Object>>, revision: Option<&str>, relist: Option<&Relist>) {
        let unreadable = self.cache.write(|state| {
            let unreadable = events.into_iter().map(|event| apply_one::<R>(state, event, relist)).sum::<u64>();
            if let Some(revision) = revision {
                state.set_revision(R::KIND, revision);
            }
            unreadable
        });
        if unreadable > 0 {
            self.note(|health, _| health.unreadable += unreadable);
        }
    }

    fn failed(&mut self, error: &FeedError, wait: Duration) {
        if matches!(error, FeedError::Gone) {
            // What has been forgotten stays forgotten; after anything else we go on from where we were.
            self.since = None;
            tracing::info!(kind = R::NAME, "the server has forgotten our resourceVersion: listing again");
        } else {
            tracing::warn!(kind = R::NAME, wait_ms = wait.as_millis(), "failed to {error}");
        }
        self.note(|health, _| {
            health.connected = false;
            health.errors += 1;
            health.last_error = Some(error.to_string().into());
        });
    }

    fn note(&self, change: impl FnOnce(&mut FeedHealth, jiff::Timestamp)) {
        let now = self.clock.now();
        self.cache.note(|health| change(health.feed_mut(self.registered.feed), now));
    }
}

/// Takes in one event. Answers how many could not be read.
fn apply_one<R: Resource>(state: &mut State, event: Event<R::Object>, relist: Option<&Relist>) -> u64 {
    match event {
        Event::Applied(object, _) => {
            let uid = relist.map(|_| Box::from(R::uid(&object)));
            R::apply(state, object);
            if let (Some(relist), Some(uid)) = (relist, uid) {
                state.mark_seen(relist, &uid);
            }
        }
        Event::Deleted(object) => R::remove(state, &object),
        Event::Bookmark(_) => {}
        Event::Unreadable(note) => {
            tracing::warn!(kind = R::NAME, object = note.object.path(), "failed to {}", note.message);
            let uid = note.object.uid.clone();
            state.note_unreadable(note);
            if let Some(relist) = relist {
                state.mark_seen(relist, &uid);
            }
            return 1;
        }
    }
    0
}

/// Up to where these events lead.
fn revision<T>(events: &[Event<T>]) -> Option<Box<str>> {
    let of = |event: &Event<T>| match event {
        Event::Applied(_, revision) => revision.clone(),
        Event::Bookmark(revision) => Some(revision.clone()),
        Event::Deleted(object) => object.revision.clone(),
        Event::Unreadable(note) => note.object.revision.clone(),
    };
    events.iter().rev().find_map(of)
}
