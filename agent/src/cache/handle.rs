//! The handle that readers hold on the cache.

use std::sync::Arc;

use parking_lot::{RwLock, RwLockReadGuard};
use tokio::sync::watch;

use super::State;

/// A shared, cheaply cloned handle. Only the feed task writes.
#[derive(Clone, Debug)]
pub struct Cache {
    state: Arc<RwLock<State>>,
    changed: Arc<watch::Sender<u64>>,
}

impl Cache {
    /// A handle on this state.
    #[must_use]
    pub fn new(state: State) -> Self {
        Self { state: Arc::new(RwLock::new(state)), changed: Arc::new(watch::Sender::new(0)) }
    }

    /// Reads. Never hold the guard across an await.
    #[must_use]
    pub fn read(&self) -> RwLockReadGuard<'_, State> {
        self.state.read()
    }

    /// Writes, then tells the subscribers.
    pub(crate) fn write<T>(&self, change: impl FnOnce(&mut State) -> T) -> T {
        let result = change(&mut self.state.write());
        self.changed.send_modify(|revision| *revision += 1);
        result
    }

    /// A receiver that sees each change (several may come as one).
    #[must_use]
    pub fn subscribe(&self) -> watch::Receiver<u64> {
        self.changed.subscribe()
    }
}
