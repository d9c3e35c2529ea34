//! The handle that readers hold on the cache.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::{RwLock, RwLockReadGuard};
use tokio::sync::watch;

use super::feed::Health;
use super::wanted::{Hold, Wanted};
use super::{Partition, State};
#[cfg(test)]
use super::{feed::Source, index::Kind};

/// A shared, cheaply cloned handle. Only the feeds write: one task for each kind, its own objects.
#[derive(Clone, Debug)]
pub struct Cache {
    state: Arc<RwLock<State>>,
    changed: Arc<watch::Sender<u64>>,
    health: Arc<watch::Sender<Health>>,
    wanted: Wanted,
}

impl Cache {
    /// A handle on this state.
    #[must_use]
    pub fn new(state: State) -> Self {
        Self {
            state: Arc::new(RwLock::new(state)),
            changed: Arc::new(watch::Sender::new(0)),
            health: Arc::new(watch::Sender::new(Health::default())),
            wanted: Wanted::default(),
        }
    }

    /// A handle on a state that stands for a cluster that was read whole.
    #[cfg(test)]
    pub(crate) fn read_whole(state: State) -> Self {
        let cache = Self::new(state);
        cache.note(|health| {
            for kind in [Kind::Pods, Kind::Nodes, Kind::Pdbs] {
                let feed = health.begin(&Source::all(kind));
                health.feed_mut(feed).synced = true;
            }
        });
        cache
    }

    /// Reads. Never hold the guard across an await.
    pub fn read(&self) -> RwLockReadGuard<'_, State> {
        self.state.read()
    }

    /// Writes, then tells the subscribers. For the feeds only.
    pub(crate) fn write<T>(&self, change: impl FnOnce(&mut State) -> T) -> T {
        let result = change(&mut self.state.write());
        self.changed.send_modify(|revision| *revision += 1);
        result
    }

    /// How the feeds that write here are doing.
    #[must_use]
    pub fn health(&self) -> Health {
        self.health.borrow().clone()
    }

    /// Whether every kind was read completely once.
    #[must_use]
    pub fn is_synced(&self) -> bool {
        self.health.borrow().is_synced()
    }

    /// Waits until every kind was read completely once.
    pub async fn synced(&self) {
        // The sender lives as long as this handle.
        let _ = self.health.subscribe().wait_for(Health::is_synced).await;
    }

    /// Which scopes are to be read, where not every Pod is.
    #[must_use]
    pub fn wanted(&self) -> &Wanted {
        &self.wanted
    }

    /// Has scopes read, and waits until they are. They stay read for as long as the answer lives. At once where every Pod
    /// is read anyway.
    ///
    /// # Errors
    ///
    /// One of them that was not read within `patience`.
    pub async fn hold(&self, scopes: BTreeSet<Partition>, patience: Duration) -> Result<Hold, Partition> {
        let mut changed = self.subscribe();
        let hold = self.wanted.hold(scopes);
        let unread = || hold.scopes().find(|scope| !self.read().covers(scope)).cloned();
        let all_read = async { while unread().is_some() && changed.changed().await.is_ok() {} };
        // Asked again after the wait: the last of them may have come together with its end.
        let _ = tokio::time::timeout(patience, all_read).await;
        match unread() {
            None => Ok(hold),
            Some(scope) => Err(scope),
        }
    }

    /// Notes how a feed is doing.
    pub(super) fn note<T>(&self, change: impl FnOnce(&mut Health) -> T) -> T {
        let mut noted = None;
        self.health.send_if_modified(|health| {
            let before = health.is_synced();
            noted = Some(change(health));
            before != health.is_synced()
        });
        noted.expect("a change is made")
    }

    /// A receiver that sees each change (several may come as one).
    #[must_use]
    pub fn subscribe(&self) -> watch::Receiver<u64> {
        self.changed.subscribe()
    }
}
