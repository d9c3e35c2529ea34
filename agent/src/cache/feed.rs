//! List and watch of one resource as a stream of trimmed objects.
//!
//! ```text
//! Feed (API server, JSON) ──pages, then events──▶ reflect (one task a kind) ──▶ Cache::write
//!                                                    │ revision, backoff, stall        │
//!                                                    └──────────────▶ Health ◀─────────┘
//! ```
//!
//! A list that has to be taken again (the server has forgotten our resourceVersion) is applied over what is there and
//! sweeps the rest at its end: readers never see an empty cache.

mod backoff;
mod health;
mod json;
mod lines;
mod lookup;
mod reflect;
mod resource;
mod scopes;
mod source;

#[cfg(test)]
mod tests;

use std::fmt;
use std::future::Future;
use std::time::Duration;

use futures::stream::BoxStream;
use kube::Client;
use tokio::task::{AbortHandle, JoinSet};

pub use self::health::{FeedHealth, Health};
pub use self::lookup::{claims, list_node_pods, volumes};
pub use self::source::Source;

use self::json::JsonFeed;
use self::reflect::reflect;
use self::resource::Resource;
use super::decode::{DecodeError, Identity};
use super::index::{Kind, Unreadable};
use super::{Cache, Node, Pdb, Pod};
use crate::clock::Clock;

/// Why a list or a watch ended.
#[derive(Debug, thiserror::Error)]
pub enum FeedError {
    /// No answer, or it broke off.
    #[error("reach the API server: {0}")]
    Unreachable(#[source] kube::Error),
    /// Nothing came for longer than a live connection allows.
    #[error("hear from the API server for {} s", .0.as_secs())]
    Silent(Duration),
    /// The server refuses.
    #[error("read {path}: {status} {message}")]
    Refused {
        /// What was asked for.
        path: String,
        /// The HTTP status.
        status: u16,
        /// What the server says.
        message: String,
        /// How long it wants to be left alone.
        retry_after: Option<Duration>,
    },
    /// The server no longer knows the resourceVersion, or the continuation, that we ask from.
    #[error("go on from a resourceVersion that the API server has forgotten")]
    Gone,
    /// The answer is not what it should be.
    #[error("read the answer to {path}: {source}")]
    Malformed {
        /// What was asked for.
        path: String,
        /// Where and why.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// A single object, where there is no going on without it.
    #[error(transparent)]
    Decode(#[from] DecodeError),
}

impl FeedError {
    /// How long the server wants to be left alone.
    fn retry_after(&self) -> Duration {
        match self {
            Self::Refused { retry_after, .. } => retry_after.unwrap_or_default(),
            _ => Duration::ZERO,
        }
    }
}

/// What a feed says.
#[derive(Debug)]
pub(super) enum Event<T> {
    /// The object is new or has changed.
    Applied(T, Option<Box<str>>),
    /// The object is gone.
    Deleted(Identity),
    /// Nothing has changed up to this resourceVersion.
    Bookmark(Box<str>),
    /// The object is new or has changed, and cannot be read.
    Unreadable(Unreadable),
}

/// A part of a list.
#[derive(Debug)]
pub(super) struct Page<T> {
    /// What it holds.
    pub(super) events: Vec<Event<T>>,
    /// The resourceVersion of the whole list.
    pub(super) revision: Box<str>,
    /// How to ask for the next part.
    pub(super) next: Option<String>,
}

/// Events as they come, those that came together in one piece.
pub(super) type Events<T> = BoxStream<'static, Result<Vec<Event<T>>, FeedError>>;

/// Where objects come from. One implementation an encoding; what is kept is the same.
pub(super) trait Feed: Clone + Send + Sync + 'static {
    /// A part of the list, from the beginning or from where an earlier part ended.
    fn list<R: Resource>(
        &self,
        source: &Source,
        next: Option<&str>,
    ) -> impl Future<Output = Result<Page<R::Object>, FeedError>> + Send;

    /// Changes since this resourceVersion. The server ends it after `timeout`.
    fn watch<R: Resource>(
        &self,
        source: &Source,
        since: &str,
        timeout: Duration,
    ) -> impl Future<Output = Result<Events<R::Object>, FeedError>> + Send;
}

/// The tasks that keep a cache up to date. Dropping it ends them.
pub struct Feeds {
    client: Client,
    cache: Cache,
    clock: Clock,
    tasks: JoinSet<&'static str>,
}

// === impl Feeds ===

impl Feeds {
    /// Nothing is read yet.
    #[must_use]
    pub fn new(client: Client, cache: Cache, clock: Clock) -> Self {
        Self { client, cache, clock, tasks: JoinSet::new() }
    }

    /// Starts reading nodes, disruption budgets and Pods into the cache: all of them, but for Pods where the cache is
    /// scoped.
    #[must_use]
    pub fn run(client: Client, cache: Cache, clock: Clock) -> Self {
        let mut feeds = Self::new(client, cache, clock);
        for kind in [Kind::Nodes, Kind::Pdbs] {
            feeds.start(Source::all(kind));
        }
        if feeds.cache.read().covers_cluster() {
            feeds.start(Source::all(Kind::Pods));
        } else {
            feeds.tasks.spawn(scopes::follow(feeds.client.clone(), feeds.cache.clone(), clock));
        }
        feeds
    }

    /// Starts reading this too, until the handle aborts it. What was read stays in the cache.
    pub fn start(&mut self, source: Source) -> AbortHandle {
        let (feed, cache, clock) = (JsonFeed::new(self.client.clone()), self.cache.clone(), self.clock);
        match source.kind {
            Kind::Pods => self.tasks.spawn(reflect::<Pod, _>(feed, source, cache, clock)),
            Kind::Nodes => self.tasks.spawn(reflect::<Node, _>(feed, source, cache, clock)),
            Kind::Pdbs => self.tasks.spawn(reflect::<Pdb, _>(feed, source, cache, clock)),
        }
    }

    /// Waits until a task ends, which none does but by a defect: the kind that is no longer read. Those that were aborted
    /// are no defect.
    pub async fn ended(&mut self) -> String {
        loop {
            match self.tasks.join_next().await {
                Some(Ok(kind)) => return format!("the feed of {kind}"),
                Some(Err(error)) if error.is_cancelled() => {}
                Some(Err(error)) => return format!("a feed: {error}"),
                None => return "every feed".to_owned(),
            }
        }
    }
}

impl fmt::Debug for Feeds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Feeds").field("tasks", &self.tasks).finish_non_exhaustive()
    }
}
