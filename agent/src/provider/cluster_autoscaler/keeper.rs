//! Keeps what nodes of groups were like in the ConfigMap `rotate-groups`: read at the start, written by the leader alone,
//! and only where something changed.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::Client;
use kube::api::{Api, Patch, PatchParams, PostParams};
use parking_lot::RwLock;
use rotate_shared::names;
use serde_json::json;
use tokio::sync::watch;

use super::groups::Settings;
use super::templates::Templates;
use crate::cache::Cache;
use crate::client::said;
use crate::clock::Clock;
use crate::lease::Term;

/// How often it is looked for what has changed.
const EVERY: Duration = Duration::from_secs(180);
/// How long it is not looked for again: terms change with each renewal, every few seconds, and to look means to look at
/// every node.
const REST: Duration = Duration::from_secs(15);
/// As long as any call of a leader may take.
const PATIENCE: Duration = Duration::from_secs(5);

/// What is remembered, shared with those who plan.
#[derive(Clone, Debug, Default)]
pub struct Remembered(Arc<RwLock<Arc<Templates>>>);

/// Reads and writes what is remembered. One task runs it.
pub struct Keeper {
    remembered: Remembered,
    maps: Api<ConfigMap>,
    cache: Cache,
    settings: Arc<Settings>,
    term: watch::Receiver<Option<Term>>,
    clock: Clock,
    /// What the ConfigMap's version was when it was read, if it was there; `None` in the outer: it is to be read.
    version: Option<Option<String>>,
}

// kube's client has no `Debug`.
impl std::fmt::Debug for Keeper {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Keeper").field("version", &self.version).finish_non_exhaustive()
    }
}

// === impl Remembered ===

impl Remembered {
    /// As last read or written.
    #[must_use]
    pub fn get(&self) -> Arc<Templates> {
        Arc::clone(&self.0.read())
    }

    fn set(&self, templates: Templates) {
        *self.0.write() = Arc::new(templates);
    }
}

// === impl Keeper ===

impl Keeper {
    /// A keeper of the ConfigMap in this namespace.
    #[must_use]
    pub fn new(
        client: Client,
        namespace: &str,
        cache: Cache,
        settings: Arc<Settings>,
        term: watch::Receiver<Option<Term>>,
        clock: Clock,
    ) -> Self {
        let maps = Api::namespaced(client, namespace);
        Self { remembered: Remembered::default(), maps, cache, settings, term, clock, version: None }
    }

    /// What is remembered.
    #[must_use]
    pub fn remembered(&self) -> Remembered {
        self.remembered.clone()
    }

    /// Runs for as long as it is polled.
    pub async fn run(mut self) {
        self.cache.synced().await;
        let (clock, mut term) = (self.clock, self.term.clone());
        let (mut led, mut due) = (None, Timestamp::MIN);
        loop {
            let number = term.borrow_and_update().map(|term| term.number);
            if number != led {
                // Whoever led before may have written.
                self.version = None;
                (led, due) = (number, Timestamp::MIN);
            }
            if self.version.is_none() {
                self.read().await;
            }
            if self.leads() && clock.now() >= due {
                due = clock.now().saturating_add(REST).unwrap_or(Timestamp::MAX);
                self.write().await;
            }
            tokio::select! {
                () = clock.sleep(EVERY) => {}
                Ok(()) = term.changed() => {}
            }
        }
    }

    fn leads(&self) -> bool {
        let now = self.clock.now();
        self.term.borrow().is_some_and(|term| term.acts_from <= now && now < term.acts_until)
    }

    async fn read(&mut self) {
        match within(self.maps.get_opt(names::GROUPS)).await {
            Ok(map) => {
                let map = map.unwrap_or_default();
                self.version = Some(map.metadata.resource_version);
                self.remembered.set(Templates::read(&map.data.unwrap_or_default()));
            }
            Err(error) => {
                tracing::warn!("failed to read ConfigMap {}: {error}", names::GROUPS);
                let known = self.remembered.get().known.clone();
                self.remembered.set(Templates { known, unreadable: vec![error] });
            }
        }
    }

    /// Writes what has changed, if anything has.
    async fn write(&mut self) {
        let Some(version) = self.version.clone() else { return };
        let changes = self.remembered.get().changes(&self.cache.read(), &self.settings, self.clock.now());
        if changes.is_empty() {
            return;
        }
        let written = match &version {
            Some(version) => {
                let patch = json!({ "metadata": { "resourceVersion": version }, "data": changes });
                within(self.maps.patch(names::GROUPS, &PatchParams::default(), &Patch::Merge(&patch))).await
            }
            None => {
                let data: BTreeMap<_, _> = changes.into_iter().filter_map(|(key, text)| Some((key, text?))).collect();
                let mut map = ConfigMap { data: Some(data), ..ConfigMap::default() };
                map.metadata.name = Some(names::GROUPS.to_owned());
                within(self.maps.create(&PostParams::default(), &map)).await
            }
        };
        match written {
            Ok(map) => {
                self.version = Some(map.metadata.resource_version);
                self.remembered.set(Templates::read(&map.data.unwrap_or_default()));
            }
            Err(error) => {
                tracing::warn!("failed to write ConfigMap {}: {error}", names::GROUPS);
                // By other hands, or by an agent that led before: what they wrote comes first.
                self.version = None;
            }
        }
    }
}

async fn within<T>(call: impl Future<Output = Result<T, kube::Error>>) -> Result<T, String> {
    match tokio::time::timeout(PATIENCE, call).await {
        Ok(answer) => answer.map_err(|error| said(&error)),
        Err(_) => Err(format!("no answer within {PATIENCE:?}")),
    }
}

#[cfg(test)]
mod tests;
