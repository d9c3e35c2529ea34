//! The loop that keeps one source up to date.

use std::marker::PhantomData;
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use jiff::Timestamp;
use tokio::time::timeout;

use super::api::{Api, Events, From, PATIENCE};
use super::backoff::{Backoff, between};
use super::health::FeedId;
use super::resource::{Resource, mark};
use super::told::{Told, brief};
use super::{Event, FeedError, FeedHealth, Object, Source};
use crate::cache::decode::{self, DecodeError, Identity};
use crate::cache::index::{Kind, Partition, Relist, Unreadable, shard_hash};
use crate::cache::{Cache, State};
use crate::clock::Clock;

/// How long a watch is asked to last, at least and at most. Jittered, so that watches opened together do not end
/// together.
const WATCH: (Duration, Duration) = (Duration::from_secs(240), Duration::from_secs(300));
/// The same for one that begins with a streaming list, which must have time for it over a slow line.
const STREAM: (Duration, Duration) = (Duration::from_secs(1800), Duration::from_secs(2100));
/// How long an open watch may say nothing. On a quiet kind the API server sends the first bookmark after two minutes and
/// then one a minute (measured on 1.36.3): three minutes mean a connection that died without telling. The socket alone
/// would show it only after the watch's own time.
pub(crate) const SILENCE: Duration = Duration::from_secs(180);
/// A watch that lasted this long did its work: the next one follows at once.
const WORKED: Duration = Duration::from_secs(5);
/// Objects that are taken in under one lock: some hundred microseconds, so that readers hardly wait.
const BATCH: usize = 64;
/// Streaming lists that may break off one after the other before the list is read in pages, each of which is asked for
/// by itself.
const BROKEN: u32 = 2;
/// Times that a watch may end in something that cannot be read, from the same resourceVersion, before a list leads
/// past it.
const STUCK: u32 = 3;

/// Lists once, then watches for ever. Ends only where going on would be wrong.
pub(super) fn reflect<R: Resource>(
    api: Api,
    source: Source,
    cache: Cache,
    clock: Clock,
) -> impl Future<Output = FeedError> + Send {
    // Before the task begins: whoever asks meanwhile must know that there is something to wait for.
    let registered = Registered::new(&source, &cache);
    let reflector = Reflector::<R> {
        api,
        source,
        registered,
        cache,
        clock,
        since: None,
        watching: None,
        progress: false,
        broken: 0,
        stuck: 0,
        told: Told::default(),
        kind: PhantomData,
    };
    run(reflector)
}

async fn run<R: Resource>(mut reflector: Reflector<R>) -> FeedError {
    let clock = reflector.clock;
    let mut backoff = Backoff::default();
    loop {
        let result = match reflector.since.clone() {
            None => reflector.sync().await,
            Some(since) => reflector.watch(&since).await,
        };
        let lasted = |since: Timestamp| clock.now().duration_since(since).unsigned_abs();
        let worked = reflector.watching.take().is_some_and(|since| lasted(since) >= WORKED);
        if worked {
            reflector.told.worked();
        }
        if std::mem::take(&mut reflector.progress) || worked {
            backoff.reset();
        }
        let wait = match result {
            Ok(Ended::ListComplete) => continue,
            Ok(Ended::ByServer) if worked => continue,
            // A server that ends every watch at once must not be asked in a tight loop.
            Ok(Ended::ByServer) => backoff.failed(),
            Err(error @ FeedError::NotSharded) => {
                reflector.failed(&error, Duration::ZERO);
                return error;
            }
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

/// An event, read.
enum Change<'a, V> {
    Applied(V),
    Deleted(Identity),
    Unreadable(Unreadable),
    /// Nothing has changed up to this resourceVersion.
    Bookmark(&'a str),
    /// Of a type that we do not know.
    Unknown,
}

/// A feed's entry in the health, as long as it runs.
struct Registered {
    feed: FeedId,
    cache: Cache,
}

struct Reflector<R> {
    api: Api,
    source: Source,
    registered: Registered,
    cache: Cache,
    clock: Clock,
    /// From where to watch; `None`: list first.
    since: Option<Box<str>>,
    /// Since when a watch has been open that tells what changes: of a streaming list, since its end.
    watching: Option<Timestamp>,
    /// Since the last wait, a watch has said something. That a list was read whole does not count: where each watch fails
    /// at once, lists would follow each other without end.
    progress: bool,
    /// Streaming lists that broke off, one after the other.
    broken: u32,
    /// Watches that ended in something that cannot be read, one after the other.
    stuck: u32,
    told: Told,
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

impl<R: Resource> Reflector<R> {
    /// Reads everything, and forgets what is not there any more.
    async fn sync(&mut self) -> Result<Ended, FeedError> {
        self.api.confirm(&self.source).await?;
        if self.api.streams() && self.broken < BROKEN {
            match self.stream().await {
                Err(error) if self.since.is_none() && error.refuses_streams() => {
                    if self.api.remember_pages() {
                        tracing::info!(reason = %error, "lists are read in pages: the server streams none");
                    }
                }
                Err(error) if self.since.is_none() => {
                    self.broken += 1;
                    return Err(error);
                }
                other => return other,
            }
        }
        self.broken = 0;
        self.pages().await
    }

    /// Reads everything as the beginning of a watch, which goes on afterwards.
    async fn stream(&mut self) -> Result<Ended, FeedError> {
        let length = between(STREAM.0, STREAM.1);
        let events = self.api.watch(&self.source, From::Everything, length).await?;
        let relist = self.begin();
        self.follow(events, Some(relist)).await
    }

    /// Reads everything page by page.
    async fn pages(&mut self) -> Result<Ended, FeedError> {
        let relist = self.begin();
        let mut next: Option<String> = None;
        loop {
            let page = self.api.page(&self.source, next.as_deref()).await?;
            let events: Vec<_> = page.objects.into_iter().map(Event::Applied).collect();
            self.apply(&events, Some(&relist)).await?;
            next = page.next;
            if next.is_none() {
                self.complete(relist, page.revision);
                return Ok(Ended::ListComplete);
            }
        }
    }

    /// Follows changes until the watch ends.
    async fn watch(&mut self, since: &str) -> Result<Ended, FeedError> {
        let events = self.api.watch(&self.source, From::Revision(since), between(WATCH.0, WATCH.1)).await?;
        self.follow(events, None).await
    }

    /// Takes in what a watch says, at first as a list if it is one.
    async fn follow(&mut self, mut events: Events, mut relist: Option<Relist>) -> Result<Ended, FeedError> {
        self.note(|health, now| {
            health.connected = true;
            health.last_heard = Some(now);
        });
        if relist.is_none() {
            self.watching = Some(self.clock.now());
        }
        loop {
            let patience = if relist.is_some() { PATIENCE } else { SILENCE };
            let events = match timeout(patience, events.next()).await {
                Ok(Some(events)) => events?,
                Ok(None) if relist.is_some() => return Err(FeedError::BrokenOff),
                Ok(None) => return Ok(Ended::ByServer),
                Err(_) => {
                    self.note(|health, _| health.stalls += 1);
                    return Err(FeedError::Silent(patience));
                }
            };
            let mut rest = &events[..];
            if let Some(list) = relist.take() {
                let bookmark = rest.iter().position(|event| matches!(event, Event::Bookmark { .. }));
                let (initial, behind) = rest.split_at(bookmark.unwrap_or(rest.len()));
                self.apply(initial, Some(&list)).await?;
                match behind.split_first() {
                    None => {
                        relist = Some(list);
                        continue;
                    }
                    Some((Event::Bookmark { revision, initial_end: true }, behind)) => {
                        self.complete(list, revision.clone());
                        self.watching = Some(self.clock.now());
                        rest = behind;
                    }
                    // No server that streams a list sends any other bookmark before its end.
                    Some(_) => return Err(FeedError::NotStreamed),
                }
            }
            self.apply(rest, None).await?;
            self.progress |= !rest.is_empty();
        }
    }

    fn begin(&mut self) -> Relist {
        self.note(|health, _| health.reading = Some(0));
        let partition = self.source.partition.clone();
        self.cache.write(|state| state.begin_relist(R::KIND, partition))
    }

    fn complete(&mut self, relist: Relist, revision: Box<str>) {
        let listed = revision.clone();
        let cache = self.cache.clone();
        let gone = cache.write(|state| {
            state.mark_younger(&relist, &listed);
            let gone = state.end_relist(relist);
            if R::KIND == Kind::Pods {
                state.cover(self.source.partition.clone());
            }
            let oldest = self.advance(revision, |health| {
                health.synced = true;
                health.lists += 1;
                health.reading = None;
            });
            if let Some(oldest) = oldest {
                state.set_revision(R::KIND, &oldest);
            }
            gone
        });
        tracing::debug!(kind = R::NAME, revision = &*listed, gone, "list complete");
        self.broken = 0;
    }

    /// Takes in what came, as a part of a list or as news: some at a time, in order.
    async fn apply(&mut self, events: &[Event], relist: Option<&Relist>) -> Result<(), FeedError> {
        for events in events.chunks(BATCH) {
            self.apply_batch(events, relist)?;
            // A page takes milliseconds to read: whoever asks meanwhile, on the same thread, is answered in between.
            if events.len() == BATCH {
                tokio::task::yield_now().await;
            }
        }
        Ok(())
    }

    fn apply_batch(&mut self, events: &[Event], relist: Option<&Relist>) -> Result<(), FeedError> {
        let changes = events.iter().map(|event| self.read(event)).collect::<Result<Vec<_>, _>>()?;
        let (mut objects, mut unreadable, mut unknown) = (0, 0, 0);
        for change in &changes {
            match change {
                Change::Applied(_) | Change::Deleted(_) => objects += 1,
                Change::Unreadable(_) => unreadable += 1,
                Change::Unknown => unknown += 1,
                Change::Bookmark(_) => {}
            }
        }
        let count = |health: &mut FeedHealth| {
            health.objects += objects;
            health.unreadable += unreadable;
            health.unknown += unknown;
            health.reading = health.reading.map(|sum| sum + objects + unreadable);
        };
        // What a list brings is not told to be everything up to a resourceVersion before its end.
        let revision: Option<Box<str>> = revision::<R>(&changes).filter(|_| relist.is_none()).map(Box::from);
        let cache = self.cache.clone();
        cache.write(|state| {
            changes.into_iter().for_each(|change| apply_one::<R>(state, change, relist));
            let Some(revision) = revision else {
                return self.note(|health, now| {
                    health.last_heard = Some(now);
                    count(health);
                });
            };
            // Behind the changes, under the same lock: another feed of this kind may take it for what all have read.
            if let Some(oldest) = self.advance(revision, count) {
                state.set_revision(R::KIND, &oldest);
            }
        });
        Ok(())
    }

    /// Reads one event, which takes the most time of all and needs no lock.
    fn read<'e>(&mut self, event: &'e Event) -> Result<Change<'e, R::View<'e>>, FeedError> {
        match event {
            Event::Applied(object) => match R::read(object.encoded()) {
                Ok(view) => {
                    self.check_shard(R::uid(&view))?;
                    Ok(Change::Applied(view))
                }
                Err(error) => Ok(Change::Unreadable(self.unreadable(object, &error))),
            },
            Event::Deleted(object) => {
                let identity = decode::identity(object.encoded())?;
                if identity.uid.is_empty() {
                    let object = identity.path();
                    return Err(DecodeError::Missing { kind: R::NAME, object, field: "metadata.uid" }.into());
                }
                Ok(Change::Deleted(identity))
            }
            Event::Bookmark { revision, .. } => Ok(Change::Bookmark(revision)),
            Event::Unknown(kind) => {
                let kind = brief(kind);
                if self.told.first("unknown", &kind) {
                    tracing::warn!(kind = R::NAME, event = &*kind, "skipped a watch event of unknown type");
                }
                Ok(Change::Unknown)
            }
        }
    }

    /// One object that cannot be read must not hold up the others.
    fn unreadable(&mut self, object: &Object, error: &DecodeError) -> Unreadable {
        let (mut identity, node) = decode::fragment(object.encoded());
        if identity.uid.is_empty() {
            // Notes are kept by UID: without one, two such objects are still two, and those of two nodes hold up both.
            identity.uid = format!("{} on {}", identity.path(), node.as_deref().unwrap_or("no node")).into();
        }
        let message = brief(&error.to_string());
        let object = brief(&identity.path());
        if self.told.first("unreadable", &object) {
            tracing::warn!(kind = R::NAME, object = &*object, "failed to {message}");
        }
        Unreadable { kind: R::KIND, object: identity, node, message }
    }

    /// A server that ignores the shard sends what is not in it: each object would come through every watch.
    fn check_shard(&self, uid: &str) -> Result<(), FeedError> {
        match self.source.partition {
            Partition::Shard(range) if !(range.first..=range.last).contains(&shard_hash(uid)) => {
                Err(FeedError::NotSharded)
            }
            _ => Ok(()),
        }
    }

    /// Everything up to this resourceVersion was read. Answers up to where all feeds of this kind have, if they have.
    fn advance(&mut self, revision: Box<str>, change: impl FnOnce(&mut FeedHealth)) -> Option<Arc<str>> {
        let (now, feed) = (self.clock.now(), self.registered.feed);
        self.stuck = 0;
        let own: Arc<str> = Arc::from(&*revision);
        self.since = Some(revision);
        self.cache.note(|health| {
            let entry = health.feed_mut(feed);
            entry.last_heard = Some(now);
            entry.revision = Some(own);
            change(entry);
            health.revision(R::KIND)
        })
    }

    fn failed(&mut self, error: &FeedError, wait: Duration) {
        // What has been forgotten stays forgotten; after anything else we go on from where we were, unless it is in our way.
        match error {
            FeedError::Gone => self.since = None,
            // An object that is gone and cannot be named: only a list tells which it was.
            FeedError::Decode(_) => self.since = None,
            FeedError::Malformed { .. } => {
                self.stuck += 1;
                if self.stuck >= STUCK {
                    self.since = None;
                    self.stuck = 0;
                }
            }
            _ => {}
        }
        let message = brief(&error.to_string());
        if self.told.fails(&message) {
            if matches!(error, FeedError::Gone) {
                tracing::info!(kind = R::NAME, "the server has forgotten our resourceVersion: listing again");
            } else {
                tracing::warn!(kind = R::NAME, wait_ms = wait.as_millis(), "failed to {message}");
            }
        }
        self.note(|health, _| {
            health.connected = false;
            health.reading = None;
            health.errors += 1;
            health.last_error = Some(message.into());
            health.last_status = error.status();
        });
    }

    fn note(&self, change: impl FnOnce(&mut FeedHealth, Timestamp)) {
        let now = self.clock.now();
        self.cache.note(|health| change(health.feed_mut(self.registered.feed), now));
    }
}

/// Takes in one event.
fn apply_one<R: Resource>(state: &mut State, change: Change<'_, R::View<'_>>, relist: Option<&Relist>) {
    match change {
        Change::Applied(object) => R::apply(state, object, relist),
        Change::Deleted(object) => R::remove(state, &object),
        Change::Unreadable(note) => {
            let uid = note.object.uid.clone();
            state.note_unreadable(note);
            mark(state, relist, &uid);
        }
        Change::Bookmark(_) | Change::Unknown => {}
    }
}

/// Up to where these changes lead.
fn revision<'c, R: Resource>(changes: &'c [Change<'_, R::View<'_>>]) -> Option<&'c str> {
    let of = |change: &'c Change<'_, R::View<'_>>| match change {
        Change::Applied(object) => R::revision(object),
        Change::Deleted(object) => object.revision.as_deref(),
        Change::Unreadable(note) => note.object.revision.as_deref(),
        Change::Bookmark(revision) => Some(*revision),
        Change::Unknown => None,
    };
    changes.iter().rev().find_map(of)
}
