//! The cluster's state: objects by kind, one counter of versions, and a history for watches.

use std::{
    collections::{BTreeMap, VecDeque},
    sync::Arc,
};

use jiff::Timestamp;
use serde_json::{Value, json};
use tokio::sync::watch;

use crate::{
    clock::{self, Clock},
    kind::Kind,
    log::{self, Event, LogEntry},
    object,
    random::Random,
    status::Failure,
};

pub(crate) mod selector;

/// Namespace (empty for cluster-wide kinds) and name.
pub(crate) type Key = (String, String);

/// One change of one object, as the history keeps it.
#[derive(Clone, Debug)]
pub(crate) struct Change {
    pub(crate) version: u64,
    pub(crate) old: Option<Arc<Value>>,
    /// After the change; of a deletion, the last state with the deletion's version.
    pub(crate) new: Arc<Value>,
    pub(crate) deleted: bool,
}

#[derive(Debug, Default)]
struct Shelf {
    objects: BTreeMap<Key, Arc<Value>>,
    history: VecDeque<Change>,
    version: u64,
    /// Changes up to this version are forgotten.
    compacted: u64,
}

/// Everything the cluster knows. Whoever holds the lock around it writes; every write is one change.
#[derive(Debug)]
pub(crate) struct Store {
    clock: Clock,
    version: u64,
    shelves: BTreeMap<Kind, Shelf>,
    history_limit: usize,
    random: Random,
    log: Vec<LogEntry>,
    changed: watch::Sender<u64>,
    /// The rest of each list that was read in part, by its token.
    pages: BTreeMap<u64, Page>,
    next_page: u64,
}

/// How the tokens of lists read in part begin.
pub(crate) const PAGE: &str = "page-";

/// The version of a list, and the items still to be read.
pub(crate) type Page = (u64, Vec<Arc<Value>>);

impl Store {
    pub(crate) fn new(clock: Clock, seed: u64, history_limit: usize) -> Self {
        Self {
            clock,
            version: 1,
            shelves: BTreeMap::new(),
            history_limit,
            random: Random::new(seed),
            log: Vec::new(),
            changed: watch::Sender::new(1),
            pages: BTreeMap::new(),
            next_page: 1,
        }
    }

    pub(crate) fn now(&self) -> Timestamp {
        self.clock.now()
    }

    /// The version of the last change of anything.
    pub(crate) fn version(&self) -> u64 {
        self.version
    }

    /// The version of the last change of one of these kinds.
    pub(crate) fn version_of(&self, kinds: &[Kind]) -> u64 {
        kinds.iter().filter_map(|kind| self.shelves.get(kind)).map(|shelf| shelf.version).max().unwrap_or(0)
    }

    /// Wakes at each change.
    pub(crate) fn subscribe(&self) -> watch::Receiver<u64> {
        self.changed.subscribe()
    }

    pub(crate) fn log(&self) -> &[LogEntry] {
        &self.log
    }

    pub(crate) fn record(&mut self, event: Event) {
        let at = self.now();
        self.log.push(LogEntry { at, event });
    }

    pub(crate) fn random(&mut self) -> &mut Random {
        &mut self.random
    }

    // === reading ===

    pub(crate) fn get(&self, kind: Kind, namespace: &str, name: &str) -> Option<&Arc<Value>> {
        self.shelves.get(&kind)?.objects.get(&(namespace.to_owned(), name.to_owned()))
    }

    pub(crate) fn iter(&self, kind: Kind) -> impl Iterator<Item = &Arc<Value>> {
        self.shelves.get(&kind).into_iter().flat_map(|shelf| shelf.objects.values())
    }

    /// Changes of a kind after `version`; an error where they are no longer all known.
    pub(crate) fn changes(&self, kind: Kind, version: u64) -> Result<impl Iterator<Item = &Change>, u64> {
        let shelf = self.shelves.get(&kind);
        let compacted = shelf.map_or(0, |shelf| shelf.compacted);
        if version < compacted {
            return Err(compacted);
        }
        let changes = shelf.into_iter().flat_map(move |shelf| {
            let start = shelf.history.partition_point(|change| change.version <= version);
            shelf.history.range(start..)
        });
        Ok(changes)
    }

    // === writing ===

    /// Keeps the rest of a list for the token returned.
    pub(crate) fn suspend(&mut self, version: u64, rest: Vec<Arc<Value>>) -> String {
        const KEPT: usize = 64;
        let token = self.next_page;
        self.next_page += 1;
        self.pages.insert(token, (version, rest));
        while self.pages.len() > KEPT {
            self.pages.pop_first();
        }
        format!("{PAGE}{token}")
    }

    /// The rest of a list; a token stays good until history is forgotten.
    pub(crate) fn resume(&mut self, token: &str) -> Option<Page> {
        self.pages.get(&token.strip_prefix(PAGE)?.parse().ok()?).cloned()
    }

    /// Forgets all history.
    pub(crate) fn compact(&mut self) {
        self.pages.clear();
        let version = self.version;
        for kind in Kind::all() {
            let shelf = self.shelves.entry(kind).or_default();
            shelf.history.clear();
            shelf.compacted = version;
        }
    }

    /// Adds an object; fills in what the API server fills in for every kind.
    pub(crate) fn create(&mut self, kind: Kind, mut object: Value) -> Result<Arc<Value>, Failure> {
        let key = self.prepare(kind, &mut object);
        if self.get(kind, &key.0, &key.1).is_some() {
            return Err(Failure::already_exists(kind, &key.1));
        }
        Ok(self.commit(kind, key, None, object))
    }

    /// What [`Self::create`] would add.
    pub(crate) fn prepare(&mut self, kind: Kind, object: &mut Value) -> Key {
        if object::name(object).is_empty() && !object::text(object, "/metadata/generateName").is_empty() {
            let name = format!("{}{}", object::text(object, "/metadata/generateName"), self.random.suffix());
            object["metadata"]["name"] = json!(name);
        }
        object["apiVersion"] = json!(kind.api_version());
        object["kind"] = json!(kind.name());
        object["metadata"]["uid"] = json!(self.random.uid());
        object["metadata"]["creationTimestamp"] = json!(clock::seconds(self.now()));
        if kind.has_generation() {
            object["metadata"]["generation"] = json!(1);
        }
        object::remove(object, "/metadata", "deletionTimestamp");
        (object::namespace(object).to_owned(), object::name(object).to_owned())
    }

    /// Changes an object that exists; a change that changes nothing makes no new version.
    pub(crate) fn update(&mut self, kind: Kind, key: &Key, change: impl FnOnce(&mut Value)) -> Option<Arc<Value>> {
        let old = self.shelves.get(&kind)?.objects.get(key)?.clone();
        let mut new = (*old).clone();
        change(&mut new);
        Some(self.replace(kind, key, old, new))
    }

    /// Puts `new` in the place of `old`, bumping the generation with the spec.
    pub(crate) fn replace(&mut self, kind: Kind, key: &Key, old: Arc<Value>, mut new: Value) -> Arc<Value> {
        if new == *old {
            return old;
        }
        if kind.has_generation() && new.get("spec") != old.get("spec") {
            new["metadata"]["generation"] = json!(object::number(&old, "/metadata/generation").unwrap_or(0) + 1);
        }
        let finalised = object::terminating(&new)
            && object::list(&new, "/metadata/finalizers").is_empty()
            && !object::list(&old, "/metadata/finalizers").is_empty();
        let new = self.commit(kind, key.clone(), Some(old), new);
        if finalised && (kind != Kind::Pod || object::number(&new, "/metadata/deletionGracePeriodSeconds") == Some(0)) {
            self.remove(kind, key);
        }
        new
    }

    /// Deletes as the API server does: Pods with their grace, objects with finalizers once those are gone.
    pub(crate) fn delete(&mut self, kind: Kind, key: &Key, grace: Option<i64>) -> Option<Arc<Value>> {
        let old = self.shelves.get(&kind)?.objects.get(key)?.clone();
        let grace = if kind == Kind::Pod { pod_grace(&old, grace) } else { 0 };
        // A namespace goes once it is empty.
        let held = kind == Kind::Namespace || !object::list(&old, "/metadata/finalizers").is_empty();
        if grace == 0 && !held {
            return self.remove(kind, key);
        }
        if object::number(&old, "/metadata/deletionGracePeriodSeconds").is_some_and(|present| present <= grace) {
            return Some(old);
        }
        let at = clock::after(self.now(), std::time::Duration::from_secs(u64::try_from(grace).unwrap_or(0)));
        self.update(kind, key, |object| {
            object["metadata"]["deletionTimestamp"] = json!(clock::seconds(at));
            object["metadata"]["deletionGracePeriodSeconds"] = json!(grace);
            if kind == Kind::Namespace {
                object["status"]["phase"] = json!("Terminating");
            }
        })
    }

    /// Takes an object away at once.
    pub(crate) fn remove(&mut self, kind: Kind, key: &Key) -> Option<Arc<Value>> {
        let old = self.shelves.get_mut(&kind)?.objects.remove(key)?;
        let mut last = (*old).clone();
        self.version += 1;
        last["metadata"]["resourceVersion"] = json!(self.version.to_string());
        let last = Arc::new(last);
        for event in log::events(kind, Some(&old), None) {
            self.record(event);
        }
        self.push(kind, Change { version: self.version, old: Some(old), new: last.clone(), deleted: true });
        Some(last)
    }

    fn commit(&mut self, kind: Kind, key: Key, old: Option<Arc<Value>>, mut object: Value) -> Arc<Value> {
        self.version += 1;
        object["metadata"]["resourceVersion"] = json!(self.version.to_string());
        for event in log::events(kind, old.as_deref(), Some(&object)) {
            self.record(event);
        }
        let object = Arc::new(object);
        self.shelves.entry(kind).or_default().objects.insert(key, object.clone());
        self.push(kind, Change { version: self.version, old, new: object.clone(), deleted: false });
        object
    }

    fn push(&mut self, kind: Kind, change: Change) {
        let limit = self.history_limit;
        let shelf = self.shelves.entry(kind).or_default();
        shelf.version = change.version;
        shelf.history.push_back(change);
        while shelf.history.len() > limit {
            shelf.compacted = shelf.history.pop_front().expect("it is longer than its limit").version;
        }
        self.changed.send_replace(self.version);
    }
}

/// A Pod that has no node, or has ended, needs no time to end.
pub(crate) fn pod_grace(pod: &Value, asked: Option<i64>) -> i64 {
    if object::node_name(pod).is_empty() || object::finished(pod) {
        return 0;
    }
    asked.or_else(|| object::number(pod, "/spec/terminationGracePeriodSeconds")).unwrap_or(30).max(0)
}
