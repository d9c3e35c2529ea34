//! What the API, the controllers and a test's handle share.

use std::{fmt, sync::Arc};

use parking_lot::{Mutex, MutexGuard};
use tokio::sync::watch;

use crate::{
    clock::Clock,
    faults::State,
    requests::{Inspector, RequestEntry},
    settings::{Access, Settings},
    store::Store,
};

/// Tells every watch to end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Signal {
    /// Raised to end the watches that are open now.
    pub(crate) watches: u64,
    /// The cluster is gone.
    pub(crate) stopped: bool,
}

/// The whole cluster. The store's lock is never held across an await.
pub(crate) struct Cluster {
    pub(crate) clock: Clock,
    pub(crate) settings: Settings,
    pub(crate) signal: watch::Sender<Signal>,
    pub(crate) access: Mutex<Access>,
    pub(crate) faults: Mutex<State>,
    pub(crate) requests: Mutex<Vec<RequestEntry>>,
    pub(crate) inspectors: Mutex<Vec<Arc<Inspector>>>,
    store: Mutex<Store>,
}

impl Cluster {
    pub(crate) fn new(settings: Settings) -> Self {
        let clock = Clock::new(settings.epoch);
        Self {
            clock,
            signal: watch::Sender::new(Signal::default()),
            access: Mutex::new(settings.access.clone()),
            faults: Mutex::new(State::default()),
            requests: Mutex::new(Vec::new()),
            inspectors: Mutex::new(Vec::new()),
            store: Mutex::new(Store::new(clock, settings.seed, settings.history)),
            settings,
        }
    }

    pub(crate) fn store(&self) -> MutexGuard<'_, Store> {
        self.store.lock()
    }
}

impl fmt::Debug for Cluster {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Cluster").field("settings", &self.settings).finish_non_exhaustive()
    }
}
