//! List and watch as a stream of objects that are read trimmed.
//!
//! ```text
//! Api ──▶ Frames ──▶ envelope ──Event(Object: bytes)──▶ reflect (one task a Source) ──read, then──▶ Cache::write
//! requests  bytes      objects cut out                    │ revision, backoff, stall, relist │
//!                                                         └────────────▶ Health ◀────────────┘
//! ```
//!
//! The first list is streamed as the beginning of the watch where the server can do that, else read in pages. A list that
//! has to be taken again (the server has forgotten our resourceVersion) is applied over what is there and sweeps the rest
//! at its end: readers never see an empty cache, and a list that breaks off sweeps nothing. What of an answer is trusted:
//! `docs/decisions/011-how-the-cluster-is-read.md`.

mod api;
mod backoff;
mod encoding;
mod envelope;
mod frames;
mod health;
mod lookup;
mod reflect;
mod resource;
mod scopes;
mod source;
mod told;

#[cfg(test)]
mod tests;

use std::fmt;
use std::time::Duration;

use kube::Client;
use tokio::task::{AbortHandle, JoinSet};

pub use self::health::{FeedHealth, Health};
pub use self::lookup::{attach_limits, claims, list_node_pods, volumes};
pub use self::source::Source;

pub(crate) use self::reflect::SILENCE;
pub(crate) use self::source::escaped;

use self::api::Api;
use self::encoding::Object;
use self::reflect::reflect;
use self::resource::Resource;
use super::decode::DecodeError;
use super::index::Kind;
use super::{Cache, Node, Pdb, Pod};
use crate::client::said;
use crate::clock::Clock;

/// Why a list or a watch ended.
#[derive(Debug, thiserror::Error)]
pub enum FeedError {
    /// No answer, or it broke off.
    #[error("reach the API server: {}", said(.0))]
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
    /// Neither JSON nor protobuf.
    #[error(
        "read {path}: it is answered as {content_type:?}, which is not the plain JSON or protobuf that was asked for"
    )]
    ContentType {
        /// What was asked for.
        path: String,
        /// What the server says it answers.
        content_type: String,
    },
    /// A list that was streamed ended before its end.
    #[error("read a whole list: the server ended it before its last object")]
    BrokenOff,
    /// The server watches, but does not begin with what there is.
    #[error("stream a list: the server ignores sendInitialEvents")]
    NotStreamed,
    /// The server sends all Pods where a part was asked for.
    #[error(
        "divide the Pods among several watches: the API server does not confirm shardSelector, for which it needs the \
         feature gate ShardedListAndWatch"
    )]
    NotSharded,
    /// A single object, where there is no going on without it.
    #[error(transparent)]
    Decode(#[from] DecodeError),
}

impl FeedError {
    /// Whether the server does not stream lists, rather than not now: without the feature gate `WatchList` the parameters
    /// are invalid, and what is between us and a server may drop them.
    fn refuses_streams(&self) -> bool {
        match self {
            Self::NotStreamed => true,
            Self::Refused { status: 400 | 422, .. } => true,
            Self::Refused { status: 403, message, .. } => message.contains("WatchList"),
            _ => false,
        }
    }

    /// The status with which the server refuses.
    fn status(&self) -> Option<u16> {
        match self {
            Self::Refused { status, .. } => Some(*status),
            _ => None,
        }
    }

    /// How long the server wants to be left alone, as far as it is granted.
    fn retry_after(&self) -> Duration {
        match self {
            Self::Refused { retry_after, .. } => retry_after.unwrap_or_default().min(LONGEST_PAUSE),
            _ => Duration::ZERO,
        }
    }
}

/// The longest that a server is left alone because it says so. API servers ask for seconds; what a proxy says must not keep
/// a cache old for a day.
const LONGEST_PAUSE: Duration = Duration::from_secs(300);

/// How lists and watches are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// Whether protobuf is asked for, with JSON behind it. It is a third of the bytes and a fraction of the work.
    /// Default true.
    pub protobuf: bool,
    /// Whether lists are streamed where the server does that. Default true.
    pub stream: bool,
    /// Over how many watches the Pods are divided; the server must have the feature gate `ShardedListAndWatch`.
    /// Default 1: not at all.
    pub shards: u8,
    /// Objects in a page of a list; 0 reads a list in one piece. Default [`Options::PAGE`].
    pub page: u32,
}

impl Options {
    /// As kubectl. At 8 KB a Pod, about 4 MB are held at a time.
    pub const PAGE: u32 = 500;
}

impl Default for Options {
    fn default() -> Self {
        Self { protobuf: true, stream: true, shards: 1, page: Self::PAGE }
    }
}

/// What a feed says.
#[derive(Debug)]
enum Event {
    /// The object is new or has changed.
    Applied(Object),
    /// The object is gone.
    Deleted(Object),
    /// Nothing else has changed up to this resourceVersion.
    Bookmark {
        /// Up to which.
        revision: Box<str>,
        /// Everything there is has been sent: the list within the watch ends here.
        initial_end: bool,
    },
    /// Of a type that we do not know.
    Unknown(Box<str>),
}

/// A part of a list.
#[derive(Debug)]
struct Page {
    /// What it holds.
    objects: Vec<Object>,
    /// The resourceVersion of the whole list.
    revision: Box<str>,
    /// How to ask for the next part.
    next: Option<String>,
    /// The shard that the server confirms.
    shard: Option<Box<str>>,
}

/// The tasks that keep a cache up to date. Dropping it ends them.
pub struct Feeds {
    api: Api,
    cache: Cache,
    clock: Clock,
    tasks: JoinSet<String>,
}

/// Asks whether the server divides Pods among this many watches.
///
/// # Errors
///
/// [`FeedError::NotSharded`] where it does not; whatever else keeps us from asking.
pub async fn confirm_shards(client: Client, shards: u8) -> Result<(), FeedError> {
    let api = Api::new(client, Options::default());
    for source in Source::shards(shards) {
        api.confirm(&source).await?;
    }
    Ok(())
}

// === impl Feeds ===

impl Feeds {
    /// Nothing is read yet.
    #[must_use]
    pub fn new(client: Client, options: Options, cache: Cache, clock: Clock) -> Self {
        Self { api: Api::new(client, options), cache, clock, tasks: JoinSet::new() }
    }

    /// Starts reading nodes, disruption budgets and Pods into the cache: all of them, but for Pods where the cache is
    /// scoped.
    #[must_use]
    pub fn run(client: Client, cache: Cache, clock: Clock) -> Self {
        Self::run_with(client, Options::default(), cache, clock)
    }

    /// The same, read in this way.
    #[must_use]
    pub fn run_with(client: Client, options: Options, cache: Cache, clock: Clock) -> Self {
        let mut feeds = Self::new(client, options, cache, clock);
        for kind in [Kind::Nodes, Kind::Pdbs] {
            feeds.start(Source::all(kind));
        }
        if feeds.cache.read().covers_cluster() {
            for source in Source::shards(options.shards) {
                feeds.start(source);
            }
        } else {
            feeds.tasks.spawn(scopes::follow(feeds.api.clone(), feeds.cache.clone(), clock));
        }
        feeds
    }

    /// Starts reading this too, until the handle aborts it. What was read stays in the cache.
    pub fn start(&mut self, source: Source) -> AbortHandle {
        let (api, cache, clock) = (self.api.clone(), self.cache.clone(), self.clock);
        match source.kind {
            Kind::Pods => self.spawn::<Pod>(reflect::<Pod>(api, source, cache, clock)),
            Kind::Nodes => self.spawn::<Node>(reflect::<Node>(api, source, cache, clock)),
            Kind::Pdbs => self.spawn::<Pdb>(reflect::<Pdb>(api, source, cache, clock)),
        }
    }

    fn spawn<R: Resource>(&mut self, feed: impl Future<Output = FeedError> + Send + 'static) -> AbortHandle {
        self.tasks.spawn(async { ended::<R>(&feed.await) })
    }

    /// Waits until a task ends by itself, which none does unless going on would be wrong: what is no longer read. Those
    /// that were aborted are not meant.
    pub async fn ended(&mut self) -> String {
        loop {
            match self.tasks.join_next().await {
                Some(Ok(ended)) => return ended,
                Some(Err(error)) if error.is_cancelled() => {}
                Some(Err(error)) => return format!("a feed: {error}"),
                None => return "every feed".to_owned(),
            }
        }
    }
}

/// What has ended, and why.
fn ended<R: Resource>(error: &FeedError) -> String {
    format!("the feed of {}, which failed to {error},", R::NAME)
}

impl fmt::Debug for Feeds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Feeds").field("tasks", &self.tasks).finish_non_exhaustive()
    }
}
