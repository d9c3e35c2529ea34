//! The loop: observe, step, write the record, carry effects out.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use rotate_shared::plan::Notice;
use rotate_shared::rotation::{Progress, Waiting};
use rotate_shared::{Code, Phase};
use tokio::sync::watch;
use tokio::task::JoinSet;

use super::ages::{Ages, Look};
use super::effect::Effect;
use super::execute::{Done, ExecuteError, Executor, Subject};
use super::history;
use super::memory::Memory;
use super::observation::Slot;
use super::observe::observe;
use super::record::Record;
use super::recover::{self, Leftovers};
use super::scopes;
use super::slots::slots;
use super::step::step;
use super::store::{Entry, Records, Store, StoreError};
use super::views::Views;
use crate::cache::Cache;
use crate::clock::Clock;
use crate::lease::Term;
use crate::provider::Reader;
use crate::provider::cluster_autoscaler::hook::Hook;

/// Changes within this time are looked at together.
const COALESCE: Duration = Duration::from_millis(20);
/// Timeouts and backoffs are looked at this often.
const TICK: Duration = Duration::from_secs(1);
/// How soon the same effect may be asked for again after it succeeded: the cache needs a moment.
const SETTLE: SignedDuration = SignedDuration::from_millis(250);
/// How soon the deletion of an old record is tried again after it failed.
const PRUNE_AGAIN: SignedDuration = SignedDuration::from_secs(30);
/// How often leftovers are looked for.
const RECOVER_EVERY: SignedDuration = SignedDuration::from_mins(5);

/// How the engine is set up.
#[derive(Clone, Debug)]
pub struct EngineConfig {
    /// Reads what providers keep.
    pub reader: Reader,
    /// What ends the machines of nodes that an autoscaler would keep. Default nothing.
    pub hook: Option<Hook>,
    /// The image of placeholders.
    pub placeholder_image: String,
    /// How many nodes may be in work at once.
    pub max_concurrent: u32,
    /// How many finished rotations are kept.
    pub history_limit: usize,
    /// How long one call may take: at most a third of the lease, so that a deposed leader's last call has ended before
    /// the next leader acts.
    pub effect_timeout: Duration,
}

/// The rotation engine. One task runs it and owns all of its state; dropping that task is the kill.
#[derive(Debug)]
pub struct Engine {
    config: EngineConfig,
    executor: Executor,
    cache: Cache,
    store: Store,
    views: Views,
    lease: watch::Receiver<Option<Term>>,
    clock: Clock,
    memories: BTreeMap<String, Memory>,
    ages: BTreeMap<String, Ages>,
    tasks: JoinSet<Ended>,
    /// Keys of tasks that are on their way.
    busy: BTreeSet<String>,
    /// Keys of what was done a moment ago, until it may be done again.
    rested: BTreeMap<String, Timestamp>,
    term: Option<u64>,
    recovered_at: Option<Timestamp>,
}

/// A task's result.
#[derive(Debug)]
enum Ended {
    Effect { rotation: String, node: String, done: Box<(Effect, Result<Done, ExecuteError>)> },
    Saved { rotation: String, result: Result<(), StoreError> },
    Pruned { key: String, result: Result<(), StoreError> },
    Recovered(Result<usize, StoreError>),
}

// === impl Engine ===

impl Engine {
    /// An engine that acts while `lease` shows a term. [`Store::run`] and the cache's feed must be running.
    #[must_use]
    pub fn new(
        config: EngineConfig,
        client: kube::Client,
        cache: Cache,
        store: Store,
        views: Views,
        lease: watch::Receiver<Option<Term>>,
        clock: Clock,
    ) -> Self {
        let (image, reader, timeout) = (config.placeholder_image.clone(), config.reader.clone(), config.effect_timeout);
        let scoped = !cache.read().covers_cluster();
        Self {
            executor: Executor { client, reader, image, timeout, scoped, hook: config.hook.clone(), clock },
            config,
            cache,
            store,
            views,
            lease,
            clock,
            memories: BTreeMap::new(),
            ages: BTreeMap::new(),
            tasks: JoinSet::new(),
            busy: BTreeSet::new(),
            rested: BTreeMap::new(),
            term: None,
            recovered_at: None,
        }
    }

    /// Runs for as long as it is polled.
    pub async fn run(mut self) {
        let mut cache = self.cache.subscribe();
        let mut records = self.store.subscribe();
        let mut lease = self.lease.clone();
        loop {
            let clock = self.clock;
            let began = clock.now();
            self.pass();
            // At most a fifth of a processor, however large the cluster is and however fast it changes.
            let rest = Duration::try_from(clock.now().duration_since(began)).unwrap_or_default() * 4;
            tokio::select! {
                changed = cache.changed() => changed.expect("the engine holds the cache itself"),
                changed = records.changed() => changed.expect("the engine holds the store itself"),
                // An election that has ended leaves the last word standing.
                Ok(()) = lease.changed() => {}
                Some(ended) = self.tasks.join_next() => self.absorb(ended),
                () = clock.sleep(TICK) => {}
            }
            clock.sleep(rest.max(COALESCE)).await;
            while let Some(ended) = self.tasks.try_join_next() {
                self.absorb(ended);
            }
            cache.mark_unchanged();
            records.mark_unchanged();
        }
    }

    /// Looks at everything once.
    fn pass(&mut self) {
        let Some(records) = self.store.subscribe().borrow().clone() else { return };
        let now = self.clock.now();
        let acts = self.leads(now);
        self.look(&records, acts, now);
        if acts {
            self.prune(&records);
            self.recover(now);
        }
    }

    /// Whether this agent may act. On the loss of the lease everything that is on its way is dropped.
    fn leads(&mut self, now: Timestamp) -> bool {
        let term = self.lease.borrow().filter(|term| now < term.acts_until);
        let number = term.map(|term| term.number);
        if self.term != number {
            self.tasks.abort_all();
            // An aborted task may still have ended; what it says belongs to another term.
            self.tasks.detach_all();
            self.busy.clear();
            self.rested.clear();
            self.memories.clear();
            self.ages.values_mut().for_each(Ages::begin_term);
            self.recovered_at = None;
            self.term = number;
        }
        term.is_some_and(|term| term.acts_from <= now)
    }

    /// Judges each rotation and shows it. Who does not act comes to the same figures, and leaves it at that.
    fn look(&mut self, records: &Records, acts: bool, now: Timestamp) {
        self.rested.retain(|_, until| *until > now);
        let is_live = |id: &String| records.get(id).is_some_and(|entry| entry.record.is_live());
        self.memories.retain(|id, _| is_live(id));
        self.ages.retain(|id, _| is_live(id));
        let pairs = records.values().map(|entry| (&entry.record, &entry.request));
        let is_being_written = |record: &Record| self.busy.contains(&format!("{SAVE}/{}", record.id));
        let mut slots = slots(pairs, self.config.max_concurrent, is_being_written);
        let mut views = Vec::with_capacity(records.len());
        for entry in records.values() {
            let (progress, waiting) = if entry.record.is_live() {
                let slot = slots.remove(&entry.record.id).unwrap_or_default();
                self.advance(entry, slot, acts, now)
            } else {
                (Progress::default(), Vec::new())
            };
            views.push(entry.record.view(&entry.request, progress, waiting));
        }
        self.views.publish(views);
        self.ask_for_scopes(records);
    }

    /// Says which Pods the live rotations need to see, where the cache does not read all.
    fn ask_for_scopes(&self, records: &Records) {
        let state = self.cache.read();
        if !state.covers_cluster() {
            let needed =
                records.values().map(|entry| scopes::needed(entry, &state, self.memories.get(&entry.record.id)));
            self.cache.wanted().by_rotations(needed.flatten().collect());
        }
    }

    /// One step of one rotation.
    fn advance(&mut self, entry: &Arc<Entry>, slot: Slot, acts: bool, now: Timestamp) -> (Progress, Vec<Waiting>) {
        let record = &entry.record;
        let memory = self.memories.entry(record.id.clone()).or_default();
        let (taken, read) = {
            let state = self.cache.read();
            memory.refresh(record, &state, now);
            if scopes::unread(record, &state).is_none() {
                memory.note_missing(entry, &state, now);
                memory.note_budgets(entry, &state, now);
            }
            let mut seen = observe(entry, &state, memory, slot, now);
            let asked = memory.asked_to_leave(&state);
            drop(state);
            if let Some(unread) = &mut seen.unread {
                unread.error = self.cache.health().error_of(&unread.scope);
            }
            let mut taken = step(record, &entry.request, &seen, now);
            if taken.progress.uncounted {
                // What was last counted stands until it can be counted anew.
                let last = self.views.get(&record.id).map(|shown| shown.progress);
                taken.progress = last.filter(|last| !last.uncounted).unwrap_or(taken.progress);
            } else {
                // A refusal would take it back: shown is what has left for good or is on its way for certain.
                taken.progress.evicted = taken.progress.evicted.saturating_sub(asked);
            }
            (taken, seen.synced && seen.unread.is_none())
        };
        let saving = format!("{SAVE}/{}", record.id);
        if acts && !self.busy.contains(&saving) {
            let failing = memory.failures.get(SAVE).is_some_and(|failure| failure.until > now);
            if let Some(next) = taken.record.filter(|_| !failing && !self.rested.contains_key(&saving)) {
                self.save(saving, Arc::clone(entry), next);
            }
            for effect in taken.effects {
                self.start(record, effect, now);
            }
        }
        let look = Look { record, request: &entry.request, progress: taken.progress, read, now };
        let waiting = self.ages.entry(record.id.clone()).or_default().date(&look, taken.waiting);
        (taken.progress, waiting)
    }

    fn save(&mut self, key: String, entry: Arc<Entry>, next: Record) {
        let rotation = next.id.clone();
        if next.phase() != entry.record.phase() {
            tracing::info!(rotation, node = next.node, from = %entry.record.phase(), to = %next.phase(), "phase");
        }
        let (store, timeout) = (self.store.clone(), self.config.effect_timeout);
        self.busy.insert(key);
        self.tasks.spawn(async move {
            let saved = tokio::time::timeout(timeout, store.save(&entry, &next)).await;
            let result = saved.unwrap_or(Err(StoreError::TimedOut { doing: "write the record" }));
            Ended::Saved { rotation, result: result.map(drop) }
        });
    }

    fn start(&mut self, record: &Record, effect: Effect, now: Timestamp) {
        let key = format!("{}/{}", record.id, effect.key());
        let Some(memory) = self.memories.get_mut(&record.id) else { return };
        let failing = memory.failures.get(&effect.key()).is_some_and(|failure| failure.until > now);
        if self.busy.contains(&key) || self.rested.contains_key(&key) || failing {
            return;
        }
        memory.begin(&record.id, &effect, &self.cache.read(), now);
        tracing::debug!(rotation = record.id, "{}", effect.describe(&record.node));
        self.busy.insert(key);
        let (executor, subject) = (self.executor.clone(), Subject::of(record, &memory.gate));
        self.tasks.spawn(async move {
            let result = executor.execute(&subject, &effect).await;
            Ended::Effect { rotation: subject.rotation, node: subject.node, done: Box::new((effect, result)) }
        });
    }

    fn absorb(&mut self, ended: Result<Ended, tokio::task::JoinError>) {
        let now = self.clock.now();
        match ended {
            Ok(Ended::Effect { rotation, node, done }) => {
                let (effect, result) = *done;
                let key = format!("{rotation}/{}", effect.key());
                self.busy.remove(&key);
                if result.is_ok() {
                    self.rested.insert(key, now + SETTLE);
                }
                if let Some(memory) = self.memories.get_mut(&rotation) {
                    memory.end(&node, &effect, result, &self.cache.read(), now);
                }
            }
            Ok(Ended::Saved { rotation, result }) => {
                let key = format!("{SAVE}/{rotation}");
                self.busy.remove(&key);
                let Some(memory) = self.memories.get_mut(&rotation) else { return };
                match result {
                    Ok(()) => _ = memory.failures.remove(SAVE),
                    // The watch brings what was written instead.
                    Err(StoreError::Conflict(_)) => {
                        tracing::debug!(rotation, "the record was changed meanwhile");
                        self.rested.insert(key, now + SETTLE);
                    }
                    Err(error) => {
                        tracing::warn!(rotation, error = %error, "failed to write the record");
                        memory.fail(SAVE, now, |times| Notice {
                            code: Code::ApiError,
                            object: format!("Rotation {rotation}"),
                            message: format!("failed to {error}{times}"),
                            remedy: String::new(),
                        });
                    }
                }
            }
            Ok(Ended::Pruned { key, result }) => {
                self.busy.remove(&key);
                if let Err(error) = result {
                    tracing::warn!(error = %error, "failed to delete an old record");
                    self.rested.insert(key, now + PRUNE_AGAIN);
                }
            }
            Ok(Ended::Recovered(result)) => {
                self.busy.remove(RECOVER);
                match result {
                    Ok(0) => {}
                    Ok(count) => tracing::info!(count, "removed what no live rotation owns"),
                    Err(error) => tracing::warn!(error = %error, "failed to look for leftovers"),
                }
            }
            Err(error) if error.is_panic() => {
                tracing::error!(error = %error, "a call of the engine panicked");
                // Which one is not known: all of them are asked for again.
                self.busy.clear();
                self.memories.clear();
            }
            Err(_) => {}
        }
    }

    /// Deletes the oldest finished records beyond the limit.
    fn prune(&mut self, records: &Records) {
        for entry in history::beyond(records, self.config.history_limit) {
            let key = format!("prune/{}", entry.record.id);
            if !self.rested.contains_key(&key) && self.busy.insert(key.clone()) {
                let (store, timeout) = (self.store.clone(), self.config.effect_timeout);
                self.tasks.spawn(async move {
                    let pruned = tokio::time::timeout(timeout, store.delete(&entry)).await;
                    Ended::Pruned {
                        key,
                        result: pruned.unwrap_or(Err(StoreError::TimedOut { doing: "delete the record" })),
                    }
                });
            }
        }
    }

    /// Looks for what no live rotation owns, at the start of a term and every few minutes.
    fn recover(&mut self, now: Timestamp) {
        let due = self.recovered_at.is_none_or(|at| now.duration_since(at) >= RECOVER_EVERY);
        if !due || self.busy.contains(RECOVER) {
            return;
        }
        let Some(leftovers) = Leftovers::in_cache(&self.cache.read()) else { return };
        self.recovered_at = Some(now);
        self.busy.insert(RECOVER.to_owned());
        let (executor, store) = (self.executor.clone(), self.store.clone());
        self.tasks.spawn(async move { Ended::Recovered(recover::recover(&executor, &store, leftovers).await) });
    }
}

const RECOVER: &str = "recover";
const SAVE: &str = "save";

/// Whether a rotation in this phase keeps its cordon for good.
pub(super) fn keeps_cordon(record: &Record) -> bool {
    matches!(record.phase(), Phase::Stopped | Phase::Succeeded | Phase::Failed)
}
