//! How the feeds are doing.

use std::sync::Arc;

use jiff::Timestamp;

use super::Source;
use crate::cache::index::{Kind, Partition};

/// How one feed is doing, or all those of a kind together.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FeedHealth {
    /// A complete list was read once: what is answered is what the cluster held at some time.
    pub synced: bool,
    /// A watch is open and the server speaks.
    pub connected: bool,
    /// When the server last said anything: an event, a bookmark, a list. Of several feeds, the one silent the longest.
    pub last_heard: Option<Timestamp>,
    /// How many objects the list that is under way has brought so far.
    pub reading: Option<u64>,
    /// How many objects were read since the start, in lists and as they changed.
    pub objects: u64,
    /// The resourceVersion up to which everything was read.
    pub revision: Option<Arc<str>>,
    /// How often a list or a watch failed.
    pub errors: u64,
    /// What the last of them was.
    pub last_error: Option<Arc<str>>,
    /// The HTTP status of the API server's answer, where the last of them was one.
    pub last_status: Option<u16>,
    /// How often an open watch fell silent and was given up.
    pub stalls: u64,
    /// How often a complete list was read.
    pub lists: u64,
    /// How many objects could not be read since the start.
    pub unreadable: u64,
    /// How many events were of a type that we do not know.
    pub unknown: u64,
}

/// How all feeds are doing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Health {
    feeds: Vec<(FeedId, Source, FeedHealth)>,
    begun: FeedId,
    /// What was counted by feeds that have ended, by kind: counters never fall.
    ended: [FeedHealth; KINDS.len()],
}

/// Tells feeds apart, also two of the same source of which one is ending.
pub(super) type FeedId = u64;

const KINDS: [Kind; 3] = [Kind::Pods, Kind::Nodes, Kind::Pdbs];

// === impl Health ===

impl Health {
    /// Whether every kind was read completely once, as far as it must be.
    #[must_use]
    pub fn is_synced(&self) -> bool {
        KINDS.into_iter().all(|kind| self.has_synced(kind))
    }

    fn has_synced(&self, kind: Kind) -> bool {
        let mut essential = self.feeds().filter(|(source, _)| source.kind == kind && source.essential).peekable();
        essential.peek().is_some() && essential.all(|(_, feed)| feed.synced)
    }

    /// All kinds, the feeds of each taken together.
    pub fn kinds(&self) -> impl Iterator<Item = (Kind, FeedHealth)> {
        KINDS.into_iter().map(|kind| (kind, self.of(kind)))
    }

    /// The feeds that run.
    pub fn feeds(&self) -> impl Iterator<Item = (&Source, &FeedHealth)> {
        self.feeds.iter().map(|(_, source, feed)| (source, feed))
    }

    /// Why the last try to read a part of the Pods failed, as long as it was not read.
    #[must_use]
    pub fn error_of(&self, part: &Partition) -> Option<Arc<str>> {
        let reads = |source: &Source| source.kind == Kind::Pods && source.partition == *part;
        let feed = self.feeds().find(|(source, feed)| reads(source) && !feed.synced);
        feed.and_then(|(_, feed)| feed.last_error.clone())
    }

    /// The feeds of a kind taken together: synced and connected as all of them are; no feed at all is not synced.
    #[must_use]
    pub fn of(&self, kind: Kind) -> FeedHealth {
        let of_kind = || self.feeds().filter(move |(source, _)| source.kind == kind);
        let mut all = self.ended[kind as usize].clone();
        all.synced = self.has_synced(kind);
        all.connected = of_kind().any(|(source, _)| source.essential) && of_kind().all(|(_, feed)| feed.connected);
        all.last_heard = of_kind().filter_map(|(_, feed)| feed.last_heard).min();
        all.revision = self.revision(kind);
        for (_, feed) in of_kind() {
            all.add(feed);
        }
        all
    }

    /// The resourceVersion up to which all feeds of a kind have read; none before each that is essential has read a whole
    /// list.
    pub(super) fn revision(&self, kind: Kind) -> Option<Arc<str>> {
        let of_kind = || self.feeds().filter(move |(source, _)| source.kind == kind);
        if of_kind().any(|(source, feed)| source.essential && feed.revision.is_none()) {
            return None;
        }
        // They are numbers since 1.35 at the latest, without leading zeros: longer ones are greater.
        of_kind().filter_map(|(_, feed)| feed.revision.clone()).min_by(|a, b| (a.len(), a).cmp(&(b.len(), b)))
    }

    pub(in crate::cache) fn begin(&mut self, source: &Source) -> FeedId {
        self.begun += 1;
        self.feeds.push((self.begun, source.clone(), FeedHealth::default()));
        self.begun
    }

    pub(in crate::cache) fn end(&mut self, feed: FeedId) {
        if let Some(at) = self.feeds.iter().position(|(id, ..)| *id == feed) {
            let (_, source, feed) = self.feeds.swap_remove(at);
            let ended = &mut self.ended[source.kind as usize];
            ended.add(&feed);
            ended.reading = None;
        }
    }

    pub(in crate::cache) fn feed_mut(&mut self, feed: FeedId) -> &mut FeedHealth {
        let feed = self.feeds.iter_mut().find(|(id, ..)| *id == feed).map(|(.., health)| health);
        feed.expect("a feed that runs has begun and not ended")
    }
}

// === impl FeedHealth ===

impl FeedHealth {
    /// Adds what another counted.
    fn add(&mut self, other: &Self) {
        self.objects += other.objects;
        self.errors += other.errors;
        self.stalls += other.stalls;
        self.lists += other.lists;
        self.unreadable += other.unreadable;
        self.unknown += other.unknown;
        if let Some(read) = other.reading {
            self.reading = Some(self.reading.unwrap_or(0) + read);
        }
        if other.last_error.is_some() {
            self.last_error.clone_from(&other.last_error);
            self.last_status = other.last_status;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn begun(health: &mut Health, sources: &[Source]) -> Vec<FeedId> {
        sources.iter().map(|source| health.begin(source)).collect()
    }

    #[test]
    fn a_kind_is_synced_once_all_its_essential_feeds_are() {
        let mut health = Health::default();
        assert!(!health.is_synced(), "nothing is read at all");
        let mut sources = Source::shards(2);
        sources.extend([Source::all(Kind::Nodes), Source::all(Kind::Pdbs)]);
        let feeds = begun(&mut health, &sources);
        health.begin(&Source::pods(Partition::Node("n1".into())).beside());
        feeds.iter().skip(1).for_each(|feed| health.feed_mut(*feed).synced = true);
        assert!(!health.is_synced());
        health.feed_mut(feeds[0]).synced = true;
        assert!(health.is_synced(), "what is read beside is not waited for");
    }

    #[test]
    fn feeds_of_a_kind_are_counted_together_and_counts_outlive_them() {
        let mut health = Health::default();
        let shards = Source::shards(2);
        let feeds = begun(&mut health, &shards);
        for (id, number) in feeds.iter().zip([3, 4]) {
            let feed = health.feed_mut(*id);
            feed.errors = number;
            feed.reading = Some(number);
            feed.last_heard = Some(Timestamp::from_second(i64::try_from(number).unwrap()).unwrap());
        }
        let all = health.of(Kind::Pods);
        assert_eq!((all.errors, all.reading), (7, Some(7)));
        assert_eq!(all.last_heard, Some(Timestamp::from_second(3).unwrap()));
        health.end(feeds[0]);
        let all = health.of(Kind::Pods);
        assert_eq!((all.errors, all.reading), (7, Some(4)));
    }
}
