//! Records as `ConfigMap`s in the agent's namespace: `rotation-<id>` with the engine's word under `record` and people's
//! wishes under `request`.
//!
//! Two writers, two keys. All patches carry the resourceVersion that was last seen: the engine never acts on a request it
//! has not read, and of two people who ask at once neither is forgotten.

mod create;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use futures::{StreamExt, TryStreamExt};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{Api, DeleteParams, ListParams, Patch, PatchParams, Preconditions, WatchEvent, WatchParams};
use rotate_shared::{CancelRequest, names};
use serde_json::json;
use tokio::sync::watch;

use super::record::{Record, Request};
use crate::client::said;
use crate::clock::Clock;

pub use create::Created;
pub(crate) use create::WRITE;

const RECORD: &str = "record";
const REQUEST: &str = "request";

/// How long one answer may take: a caller over HTTP waits about as long.
const PATIENCE: Duration = Duration::from_secs(30);
/// How long a watch is asked to last.
const WATCH: Duration = Duration::from_secs(60);
/// How long a watch may say nothing. The API server ends it before: a longer silence is a connection that died without
/// telling, and people's wishes would never be heard of.
const SILENCE: Duration = Duration::from_secs(WATCH.as_secs() + 15);

/// A record as stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The engine's word.
    pub record: Record,
    /// People's wishes.
    pub request: Request,
    /// When the API server stored it first, by its clock.
    pub created: Timestamp,
    /// `metadata.resourceVersion`.
    pub version: String,
}

/// All records by id.
pub type Records = Arc<BTreeMap<String, Arc<Entry>>>;

/// All records at one moment.
#[derive(Debug)]
pub(super) struct Listed {
    pub(super) entries: Vec<Entry>,
    /// Ids of those that cannot be read: another version of us may have written them, and may be rotating.
    pub(super) unreadable: BTreeSet<String>,
    /// `metadata.resourceVersion` of the list.
    version: String,
}

/// What a person may ask of a rotation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wish {
    /// Hold it.
    Pause,
    /// Let it go on.
    Resume,
    /// End it.
    Cancel(CancelRequest),
    /// End it and put back what it changed, as the rest of its batch could not be begun.
    TakeBack,
}

/// Why a record cannot be read or written.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The node has a live rotation.
    #[error("create the record: rotation {0} of this node is live")]
    AlreadyRotating(String),
    /// No such record.
    #[error("find rotation {0}")]
    NotFound(String),
    /// The rotation is over.
    #[error("change rotation {id} of node {node}: it is over: {how}")]
    Finished {
        /// The rotation.
        id: String,
        /// Its node.
        node: String,
        /// How it ended.
        how: String,
    },
    /// Somebody wrote it since it was read.
    #[error("write rotation {0}: it was changed meanwhile")]
    Conflict(String),
    /// The API server was silent.
    #[error("{doing}: no answer in time")]
    TimedOut {
        /// What was tried.
        doing: &'static str,
    },
    /// Another version of us, or a person, wrote something that we do not understand.
    #[error("read {object}: {message}")]
    Malformed {
        /// The `ConfigMap`.
        object: String,
        /// What is wrong.
        message: String,
    },
    /// The API server did not answer as expected.
    #[error("{doing}: {}", said(source))]
    Api {
        /// What was tried.
        doing: &'static str,
        /// Why it failed.
        #[source]
        source: kube::Error,
    },
}

/// A cheaply cloned handle. [`Store::run`] keeps the watched records; everything else asks the API server.
#[derive(Clone)]
pub struct Store {
    api: Api<ConfigMap>,
    clock: Clock,
    records: Arc<watch::Sender<Option<Records>>>,
}

// kube's client has no `Debug`.
impl std::fmt::Debug for Store {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Store").field("records", &self.records).finish_non_exhaustive()
    }
}

// === impl Store ===

impl Store {
    /// Records in this namespace.
    #[must_use]
    pub fn new(client: kube::Client, namespace: &str, clock: Clock) -> Self {
        Self { api: Api::namespaced(client, namespace), clock, records: Arc::new(watch::Sender::new(None)) }
    }

    /// The watched records; `None` until they were listed first.
    #[must_use]
    pub fn subscribe(&self) -> watch::Receiver<Option<Records>> {
        self.records.subscribe()
    }

    /// Lists and watches the records for as long as it is polled.
    pub async fn run(&self) {
        let mut failures = 0;
        loop {
            match self.follow().await {
                Ok(()) => failures = 0,
                Err(error) => {
                    failures += 1;
                    tracing::warn!(error = %error, failures, "the records cannot be watched; trying again");
                }
            }
            self.clock.sleep(Duration::from_millis(100 << failures.min(6))).await;
        }
    }

    /// One list and the watch from there, until it ends.
    async fn follow(&self) -> Result<(), StoreError> {
        const DOING: &str = "watch the records";
        let Listed { entries, mut version, .. } = self.list_all().await?;
        self.replace(entries, &version);
        loop {
            let seconds = u32::try_from(WATCH.as_secs()).expect("a minute");
            let params = WatchParams::default().labels(names::ROTATION).timeout(seconds);
            let events = within(PATIENCE, DOING, self.api.watch(&params, &version)).await?;
            let mut events = events.map_err(|source| api(DOING, source))?.boxed();
            while let Some(event) =
                within(SILENCE, DOING, events.try_next()).await?.map_err(|source| api(DOING, source))?
            {
                match event {
                    WatchEvent::Added(object) | WatchEvent::Modified(object) => {
                        version = object.metadata.resource_version.clone().unwrap_or(version);
                        match read(&object) {
                            Ok(entry) => self.keep(entry),
                            Err(error) => tracing::warn!(error = %error, "a record cannot be read"),
                        }
                    }
                    WatchEvent::Deleted(object) => {
                        version = object.metadata.resource_version.clone().unwrap_or(version);
                        self.forget(id(&object).unwrap_or_default());
                    }
                    WatchEvent::Bookmark(bookmark) => version = bookmark.metadata.resource_version,
                    // 410: what we had is too old; list again.
                    WatchEvent::Error(_) => return Ok(()),
                }
            }
            self.clock.sleep(Duration::from_millis(50)).await;
        }
    }

    /// All records, consistently. What cannot be read is left out and logged.
    ///
    /// # Errors
    ///
    /// The API server did not answer as expected.
    pub async fn list(&self) -> Result<Vec<Entry>, StoreError> {
        Ok(self.list_all().await?.entries)
    }

    pub(super) async fn list_all(&self) -> Result<Listed, StoreError> {
        let params = ListParams::default().labels(names::ROTATION);
        let doing = "list the records";
        let list = within(PATIENCE, doing, self.api.list(&params)).await?.map_err(|source| api(doing, source))?;
        let version = list.metadata.resource_version.unwrap_or_default();
        let mut listed = Listed { entries: Vec::new(), unreadable: BTreeSet::new(), version };
        for object in &list.items {
            match read(object) {
                Ok(entry) => listed.entries.push(entry),
                Err(error) => {
                    tracing::warn!(error = %error, "a record cannot be read");
                    listed.unreadable.extend(id(object).map(ToOwned::to_owned));
                }
            }
        }
        Ok(listed)
    }

    /// Reads one record, consistently.
    ///
    /// # Errors
    ///
    /// [`StoreError::NotFound`], or the API server did not answer as expected.
    pub async fn get(&self, id: &str) -> Result<Entry, StoreError> {
        match within(PATIENCE, "read the record", self.api.get_opt(&name(id))).await? {
            Ok(Some(object)) => read(&object),
            Ok(None) => Err(StoreError::NotFound(id.to_owned())),
            Err(source) => Err(api("read the record", source)),
        }
    }

    /// Writes down what a person asks of a rotation.
    ///
    /// # Errors
    ///
    /// [`StoreError::NotFound`], [`StoreError::Finished`], or the API server did not answer as expected.
    pub async fn request(&self, id: &str, wish: Wish, now: Timestamp) -> Result<Entry, StoreError> {
        for _ in 0..5 {
            let entry = self.get(id).await?;
            if !entry.record.is_live() {
                return Err(finished(entry.record));
            }
            let mut request = entry.request.clone();
            match wish {
                Wish::Pause => {
                    request.paused_at = if request.paused { request.paused_at } else { Some(now) };
                    request.paused = true;
                }
                Wish::Resume if request.paused => {
                    request.paused = false;
                    request.paused_at = None;
                    request.resumed_at = Some(now);
                }
                Wish::Resume => {}
                Wish::TakeBack => {
                    request.cancel = Some(CancelRequest { uncordon: true });
                    request.taken_back = true;
                }
                Wish::Cancel(cancel) => {
                    let uncordon = cancel.uncordon || request.cancel.is_some_and(|cancel| cancel.uncordon);
                    request.cancel = Some(CancelRequest { uncordon });
                }
            }
            if request == entry.request {
                return Ok(entry);
            }
            match self.patch(&entry, REQUEST, &text(&request, id)?).await {
                Err(StoreError::Conflict(_)) => {}
                done => return done,
            }
        }
        Err(StoreError::Conflict(id.to_owned()))
    }

    /// Writes the engine's word over the entry it was derived from.
    ///
    /// # Errors
    ///
    /// [`StoreError::Conflict`] where the entry is not the present one, or the API server did not answer as expected.
    pub async fn save(&self, entry: &Entry, record: &Record) -> Result<Entry, StoreError> {
        self.patch(entry, RECORD, &text(record, &record.id)?).await
    }

    /// Deletes a record, if it is still this one.
    ///
    /// # Errors
    ///
    /// The API server did not answer as expected.
    pub async fn delete(&self, entry: &Entry) -> Result<(), StoreError> {
        let preconditions = Preconditions { resource_version: Some(entry.version.clone()), uid: None };
        let params = DeleteParams { preconditions: Some(preconditions), ..DeleteParams::default() };
        match within(PATIENCE, "delete the record", self.api.delete(&name(&entry.record.id), &params)).await? {
            Ok(_) => {}
            Err(kube::Error::Api(status)) if status.is_not_found() => {}
            Err(source) => return Err(conflict(&entry.record.id, "delete the record", source)),
        }
        self.forget(&entry.record.id);
        Ok(())
    }

    async fn patch(&self, entry: &Entry, key: &str, value: &str) -> Result<Entry, StoreError> {
        let id = &entry.record.id;
        let patch = Patch::Merge(json!({ "metadata": { "resourceVersion": entry.version }, "data": { key: value } }));
        let (doing, name) = ("write the record", name(id));
        let patched = within(PATIENCE, doing, self.api.patch(&name, &PatchParams::default(), &patch)).await?;
        let entry = read(&patched.map_err(|source| conflict(id, doing, source))?)?;
        self.keep(entry.clone());
        Ok(entry)
    }

    /// Takes in a complete list of this version. What is known to be newer, our own writes since, stays.
    fn replace(&self, entries: Vec<Entry>, version: &str) {
        self.records.send_modify(|records| {
            let mut next = by_id(entries);
            for (id, known) in records.iter().flat_map(|records| records.iter()) {
                if later(&known.version, version).unwrap_or(false) {
                    next.insert(id.clone(), Arc::clone(known));
                }
            }
            *records = Some(Arc::new(next));
        });
    }

    /// Takes in an entry, unless a newer one is known: our own writes and the watch overtake each other.
    fn keep(&self, entry: Entry) {
        self.records.send_if_modified(|records| {
            let Some(records) = records else { return false };
            let known = records.get(&entry.record.id);
            if known.is_some_and(|known| !newer(&entry.version, &known.version)) {
                return false;
            }
            Arc::make_mut(records).insert(entry.record.id.clone(), Arc::new(entry));
            true
        });
    }

    fn forget(&self, id: &str) {
        self.records.send_if_modified(|records| {
            records
                .as_mut()
                .is_some_and(|records| records.contains_key(id) && Arc::make_mut(records).remove(id).is_some())
        });
    }
}

/// Whether a resourceVersion is later than another of the same kind of object. Since Kubernetes 1.35 they are decimal
/// numbers by contract, and with etcd they always were; a server whose versions are not numbers is believed as it comes.
fn newer(one: &str, other: &str) -> bool {
    later(one, other).unwrap_or(one != other)
}

/// `None`: they cannot be compared.
fn later(one: &str, other: &str) -> Option<bool> {
    Some(one.parse::<u128>().ok()? > other.parse::<u128>().ok()?)
}

/// kube's client waits for ever.
async fn within<T>(time: Duration, doing: &'static str, call: impl Future<Output = T>) -> Result<T, StoreError> {
    tokio::time::timeout(time, call).await.map_err(|_| StoreError::TimedOut { doing })
}

fn name(id: &str) -> String {
    format!("{}{id}", names::RECORD_PREFIX)
}

/// The id of the rotation whose record an object is, by its name.
fn id(object: &ConfigMap) -> Option<&str> {
    object.metadata.name.as_deref()?.strip_prefix(names::RECORD_PREFIX)
}

fn by_id(entries: Vec<Entry>) -> BTreeMap<String, Arc<Entry>> {
    entries.into_iter().map(|entry| (entry.record.id.clone(), Arc::new(entry))).collect()
}

fn text<T: serde::Serialize>(value: &T, id: &str) -> Result<String, StoreError> {
    serde_json::to_string(value).map_err(|error| StoreError::Malformed { object: name(id), message: error.to_string() })
}

fn object(record: &Record) -> Result<ConfigMap, StoreError> {
    let mut object = ConfigMap::default();
    object.metadata.name = Some(name(&record.id));
    object.metadata.labels = Some(BTreeMap::from([(names::ROTATION.to_owned(), record.id.clone())]));
    object.data = Some(BTreeMap::from([
        (RECORD.to_owned(), text(record, &record.id)?),
        (REQUEST.to_owned(), text(&Request::default(), &record.id)?),
    ]));
    Ok(object)
}

fn read(object: &ConfigMap) -> Result<Entry, StoreError> {
    let malformed = |message: String| StoreError::Malformed {
        object: format!("ConfigMap {}", object.metadata.name.as_deref().unwrap_or("without a name")),
        message,
    };
    let data = |key: &str| object.data.as_ref().and_then(|data| data.get(key));
    let record = data(RECORD).ok_or_else(|| malformed(format!("data.{RECORD} is missing")))?;
    let record: Record = serde_json::from_str(record).map_err(|error| malformed(format!("data.{RECORD}: {error}")))?;
    if record.phases.is_empty() {
        return Err(malformed("no phase".to_owned()));
    }
    if object.metadata.name.as_deref() != Some(&name(&record.id)) {
        return Err(malformed(format!("the record is that of {}", record.id)));
    }
    // A request that cannot be read must not let the rotation go on as if nobody had asked for anything.
    let request = data(REQUEST).map_or_else(|| Ok(Request::default()), |text| serde_json::from_str(text));
    let request = request.unwrap_or_else(|error| {
        tracing::warn!(rotation = record.id, error = %error, "the request cannot be read: holding the rotation");
        Request { paused: true, ..Request::default() }
    });
    Ok(Entry {
        created: object.metadata.creation_timestamp.as_ref().map_or(record.created_at, |time| time.0),
        version: object.metadata.resource_version.clone().unwrap_or_default(),
        record,
        request,
    })
}

fn api(doing: &'static str, source: kube::Error) -> StoreError {
    StoreError::Api { doing, source }
}

fn conflict(id: &str, doing: &'static str, source: kube::Error) -> StoreError {
    match &source {
        kube::Error::Api(status) if status.is_conflict() => StoreError::Conflict(id.to_owned()),
        kube::Error::Api(status) if status.is_not_found() => StoreError::NotFound(id.to_owned()),
        _ => api(doing, source),
    }
}

fn finished(record: Record) -> StoreError {
    let how = match &record.outcome {
        Some(outcome) if !outcome.message.is_empty() => format!("{}, {}", record.phase(), outcome.message),
        _ => record.phase().to_string(),
    };
    StoreError::Finished { id: record.id, node: record.node, how }
}

#[cfg(test)]
mod tests;
