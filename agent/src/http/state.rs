//! What the handlers work with.

use std::sync::Arc;
use std::time::Duration;

use http::{HeaderValue, header};
use kube::Client;
use parking_lot::RwLockReadGuard;
use rotate_shared::{Code, Rotation};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::auth::Purse;
use super::idempotency::Settling;
use super::looks::Looks;
use super::problem::Refusal;
use super::traffic::Traffic;
use crate::cache::{Cache, State};
use crate::clock::Clock;
use crate::lease::Term;
use crate::probe::Probe;
use crate::provider::Reader;
use crate::rotation::store::{Entry, Store};
use crate::rotation::views::Views;

/// Everything that handlers read or write, cheaply cloned.
#[derive(Clone)]
pub(crate) struct Api {
    pub(crate) cache: Cache,
    pub(crate) views: Views,
    pub(crate) store: Store,
    pub(crate) looks: Looks,
    pub(crate) term: watch::Receiver<Option<Term>>,
    pub(crate) client: Client,
    pub(crate) reader: Reader,
    pub(crate) probe: Probe,
    pub(crate) clock: Clock,
    pub(crate) traffic: Arc<Traffic>,
    pub(crate) settling: Arc<Settling>,
    /// Cancelled when the agent shuts down: answers that would go on end.
    pub(crate) closing: CancellationToken,
}

impl Api {
    /// The cache, once it has seen the whole cluster. Never hold the guard across an await.
    pub(super) fn state(&self) -> Result<RwLockReadGuard<'_, State>, Refusal> {
        match self.unsynced() {
            None => Ok(self.cache.read()),
            Some(reason) => Err(not_ready(&format!("{reason}{}", self.why_unsynced()))),
        }
    }

    /// The rotations, once the records were read.
    pub(super) fn rotations(&self) -> Result<&Views, Refusal> {
        if self.views.loaded() {
            Ok(&self.views)
        } else {
            Err(not_ready("the rotations' records are still being read"))
        }
    }

    /// A rotation as shown. One that this agent has not heard of may have been begun through another a moment ago: that
    /// costs a look at the API server, which `purse` pays for.
    pub(super) async fn rotation(&self, id: &str, purse: Option<&Purse>) -> Result<Arc<Rotation>, Refusal> {
        if let Some(rotation) = self.rotations()?.get(id) {
            return Ok(rotation);
        }
        purse.map_or(Ok(()), Purse::pay_for_a_look)?;
        let entry = self.looks.record(id).await?;
        self.noticed(std::slice::from_ref(&entry)).await;
        Ok(self.now_shown(&entry))
    }

    /// Waits a moment for the engine to take notice of records just written.
    pub(super) async fn noticed(&self, entries: &[Arc<Entry>]) {
        let mut shown = self.views.subscribe();
        let all = shown.wait_for(|shown| {
            let id = |entry: &Arc<Entry>| shown.as_ref().is_some_and(|shown| shown.contains_key(&entry.record.id));
            entries.iter().all(id)
        });
        let _ = tokio::time::timeout(NOTICE, all).await;
    }

    /// Waits a moment for the engine to take notice of a wish just written: no later state that is told may be without it.
    pub(super) async fn taken_in(&self, entry: &Entry) {
        let mut shown = self.views.subscribe();
        let (paused, cancels) = (entry.request.paused, entry.request.cancel.is_some());
        let taken_in = shown.wait_for(|shown| {
            shown.as_ref().and_then(|shown| shown.get(&entry.record.id)).is_some_and(|rotation| {
                rotation.phase.is_terminal() || rotation.paused == paused && (rotation.cancelling || !cancels)
            })
        });
        let _ = tokio::time::timeout(NOTICE, taken_in).await;
    }

    /// A rotation as shown, or as its record says where the engine has not taken notice yet.
    pub(super) fn now_shown(&self, entry: &Entry) -> Arc<Rotation> {
        self.views.get(&entry.record.id).unwrap_or_else(|| Arc::new(self.show(entry)))
    }

    /// A rotation whose record was just changed: the record's own word, and what was last observed.
    pub(super) fn show(&self, entry: &Entry) -> Rotation {
        let last = self.views.get(&entry.record.id);
        let (progress, waiting) = last.as_ref().map(|last| (last.progress, last.waiting.clone())).unwrap_or_default();
        let revision = last.map_or(0, |last| last.revision);
        Rotation { revision, ..entry.record.view(&entry.request, progress, waiting) }
    }
}

/// The engine looks at records within tens of milliseconds; a busy API server may make it a second.
const NOTICE: Duration = Duration::from_secs(2);

fn not_ready(what: &str) -> Refusal {
    let refusal = Refusal::new(Code::NotReady, format!("{what}; try again in a moment"));
    refusal.header(header::RETRY_AFTER, HeaderValue::from_static("1"))
}

// kube's client has no `Debug`.
impl std::fmt::Debug for Api {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Api").field("cache", &self.cache).field("views", &self.views).finish_non_exhaustive()
    }
}
