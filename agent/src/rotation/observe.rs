//! Takes an observation out of the cache, the record, and what is remembered of our own calls. Decides nothing.

mod machine;
mod needs;
mod passed_over;
mod room;
mod surge_nodes;

use std::collections::{BTreeMap, BTreeSet};

use jiff::{SignedDuration, Timestamp};
use rotate_shared::plan::{Disposition, Notice};
use rotate_shared::{Amounts, Code, Phase, SurgeMode, names};

use self::machine::machine;
use self::needs::needs;
pub(super) use self::room::placeholders;
use self::room::{explain, rooms, unheard};
use self::surge_nodes::surge_nodes;
use super::execute::gate::BETWEEN_REFUSALS;
use super::memory::{Evicting, Memory};
use super::observation::{Barrier, Budget, Fresh, Leaving, NodeSeen, Observation, Slot, Unread, Verdicts};
use super::progress::{self, Known, Whereabouts, whereabouts};
use super::record::{Move, Record};
use super::scopes;
use super::store::Entry;
use crate::cache::volumes::ClaimKey;
use crate::cache::{Kind, Node, Pod, State};
use crate::drain::blockers::{self, Allowance};
use crate::drain::order;
use crate::provider;
use crate::surge::classify::{self, Context};
use crate::surge::constraints::{self, Reach};
use crate::surge::promise::promise;

/// How long a disruption budget is closed before one of its Pods is asked for all the same.
const POLL_AFTER: SignedDuration = SignedDuration::from_secs(60);

/// Takes an observation. `slot` is what the queue says of this rotation.
pub(super) fn observe(entry: &Entry, state: &State, memory: &Memory, slot: Slot, now: Timestamp) -> Observation {
    let known = Known { entry, state, memory, now };
    let record = &entry.record;
    let synced = [Kind::Pods, Kind::Nodes, Kind::Pdbs].into_iter().all(|kind| state.has_read(kind));
    if !synced {
        return Observation { slot, ..Observation::default() };
    }
    let node = state.node(&record.node).filter(|node| *node.uid == *record.node_uid);
    let ours = placeholders(state, &record.id);
    let failures = memory.failures.values().map(|failure| failure.notice.clone()).collect();
    if let Some(scope) = scopes::unread(record, state) {
        return Observation {
            synced,
            unread: Some(Unread { scope, error: None }),
            slot,
            node: node.map_or(NodeSeen::Gone, |node| see_node(record, node, memory)),
            machine: machine(&known, &ours, node.map(|node| &**node)),
            room: rooms(&known, &ours).into_iter().map(|room| room.seen).collect(),
            surge_nodes: surge_nodes(&known, &ours),
            failures,
            ..Observation::default()
        };
    }
    let (leaving, budgets) = leaving(&known);
    let groups = progress::owners(&known);
    let mut rooms = rooms(&known, &ours);
    let needs = needs(&known, &groups, &rooms);
    explain(&known, &needs, &mut rooms);
    let passed_over = passed_over::passed_over(&known);
    let (verdicts, shutting_down) = match node {
        // Nothing is judged before it could be acted on: classes are cheap, constraints are not.
        Some(node) if record.phase() != Phase::Queued => verdicts(&known, node),
        _ => (Verdicts::default(), Vec::new()),
    };
    Observation {
        synced,
        unread: None,
        slot,
        node: node.map_or(NodeSeen::Gone, |node| see_node(record, node, memory)),
        machine: machine(&known, &ours, node.map(|node| &**node)),
        foreign_cordon: node
            .is_some_and(|node| node.unschedulable && !node.annotations.contains_key(names::CORDONED_BY)),
        barrier: barrier(&known),
        verdicts,
        leaving,
        shutting_down,
        arriving: arriving(&known),
        refused_until: memory.refused_at.and_then(|at| at.checked_add(BETWEEN_REFUSALS).ok()),
        budgets,
        owners: groups.into_iter().map(|group| group.seen).collect(),
        needs,
        unheard: unheard(&known, &rooms),
        room: rooms.into_iter().map(|room| room.seen).collect(),
        surge_nodes: surge_nodes(&known, &ours),
        passed_over,
        failures,
    }
}

/// What a node carries of a rotation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Marks {
    /// Cordoned, and marked as this rotation's.
    pub(super) marked: bool,
    /// Anything of this rotation's.
    pub(super) traces: bool,
}

/// What the cache shows of a rotation's marks.
pub(super) fn marks(record: &Record, node: &Node) -> Marks {
    let carries =
        |key: &str| node.annotations.get(key).is_some_and(|value| value.split(':').next() == Some(&*record.id));
    Marks {
        marked: carries(names::ROTATION) && node.unschedulable,
        traces: [names::ROTATION, names::CORDONED_BY, names::PROTECTED_BY].into_iter().any(carries),
    }
}

fn see_node(record: &Record, node: &Node, memory: &Memory) -> NodeSeen {
    // Until the cache shows it, our own patch is believed.
    let believed = memory.marks.map(|(marked, _)| Marks { marked, traces: marked });
    let Marks { marked, traces } = believed.unwrap_or_else(|| marks(record, node));
    NodeSeen::Here { marked, traces, deleting: node.deleting }
}

/// Whether everything that the last list of this phase showed is in the cache.
fn barrier(known: &Known<'_>) -> Barrier {
    let Some((listed, _)) = &known.memory.listed else { return Barrier::Open };
    let in_cache: BTreeSet<_> = known.state.pods_on(&known.entry.record.node).into_iter().map(|pod| pod.uid).collect();
    if listed.iter().all(|uid| in_cache.contains(&**uid)) { Barrier::Passed } else { Barrier::Open }
}

/// Pods that the scheduler intends to put on the candidate, as the cache shows them and as they were last listed.
fn arriving(known: &Known<'_>) -> Vec<String> {
    let pods = known.state.arriving_on(&known.entry.record.node);
    let seen = pods.iter().filter(|pod| !pod.is_placeholder()).map(Pod::path);
    let all: BTreeSet<_> = seen.chain(known.memory.arriving.iter().cloned()).collect();
    all.into_iter().collect()
}

// === Pods on the candidate ===

/// Pods to move that are on the candidate, and the budgets that they are under.
fn leaving(known: &Known<'_>) -> (Vec<Leaving>, Vec<Budget>) {
    let Known { entry, state, memory, now } = *known;
    let mut pods: Vec<(&Move, Pod, bool)> = Vec::new();
    for moved in entry.record.moves() {
        let terminating = match whereabouts(moved, state, memory) {
            Whereabouts::Here => false,
            Whereabouts::Leaving => true,
            Whereabouts::Gone | Whereabouts::Finished => continue,
        };
        let waited_for = |pod: &Pod| !classify::is_given_up(pod, &entry.record.options, now);
        pods.extend(state.pod(&moved.uid).filter(waited_for).map(|pod| (moved, pod, terminating)));
    }
    let turns: Vec<_> =
        pods.iter().map(|(moved, pod, _)| order::Turn::of(pod, moved.class.as_deref().unwrap_or_default())).collect();
    let mut rank = vec![0; pods.len()];
    for (place, group) in order::groups(&turns).into_iter().enumerate() {
        for member in group {
            rank[member] = place;
        }
    }
    let node = state.node(&entry.record.node);
    let context = node.map(|node| Context::new(node, &memory.volumes, &entry.record.options, now));
    let mut budgets = Budgets::default();
    let leaving = pods.iter().zip(rank).map(|((moved, pod, terminating), rank)| {
        let (budget, several_budgets) = budgets.of(pod, *terminating, state, memory, now);
        let blocked = context.as_ref().map_or_else(Vec::new, |context| classify::classify(pod, context).blockers);
        Leaving {
            uid: moved.uid.clone(),
            namespace: moved.namespace.clone(),
            name: moved.name.clone(),
            class: moved.class.clone(),
            rank,
            terminating: *terminating,
            asked: *terminating && is_asked(pod, memory),
            budget,
            several_budgets,
            blocked,
            refused: memory.refused.get(&moved.uid).cloned(),
        }
    });
    let leaving = leaving.collect();
    (leaving, budgets.list)
}

/// Whether nothing is known but that its eviction was asked for: it may be refused yet.
fn is_asked(pod: &Pod, memory: &Memory) -> bool {
    pod.deleted.is_none() && memory.evicting.get(&*pod.uid) == Some(&Evicting::Sent)
}

/// Budgets met so far, each once.
#[derive(Debug, Default)]
struct Budgets {
    list: Vec<Budget>,
    by_uid: BTreeMap<String, usize>,
}

impl Budgets {
    /// The budget that must allow the Pod's eviction, or what to say where there are several.
    fn of(
        &mut self,
        pod: &Pod,
        terminating: bool,
        state: &State,
        memory: &Memory,
        now: Timestamp,
    ) -> (Option<usize>, Option<Notice>) {
        let pdbs = state.pdbs_selecting(pod);
        let allowance = blockers::allowance(pod, &pdbs);
        let (pdb, allowed) = match &allowance {
            Allowance::Free => return (None, None),
            Allowance::Budget { pdb, allowed } => (*pdb, *allowed),
            Allowance::Never { pdb } => (*pdb, 0),
            Allowance::Many { .. } => return (None, blockers::notice(pod, &allowance).map(|(_, notice)| notice)),
        };
        let index = *self.by_uid.entry(pdb.uid.to_string()).or_insert_with(|| {
            // Where it allows some, it is our own evictions that use them up.
            let open = || Notice {
                code: Code::PodDisruptionBudget,
                object: blockers::object(pdb),
                message: format!("{}; evictions that it allowed are on their way", blockers::numbers(pdb)),
                remedy: String::new(),
            };
            let notice = blockers::notice(pod, &allowance).map_or_else(open, |(_, notice)| notice);
            let closed = memory.closed_since.get(&*pdb.uid);
            self.list.push(Budget {
                allowed,
                closed: notice,
                poll_at: Some(closed.map_or(now, |since| *since).saturating_add(POLL_AFTER).unwrap_or(Timestamp::MAX)),
            });
            self.list.len() - 1
        });
        // Evictions that the budget's status may not count yet.
        if terminating && memory.evicting.contains_key(&*pod.uid) {
            self.list[index].allowed -= 1;
        }
        (Some(index), None)
    }
}

/// The verdicts on Pods that are not in the record, and the paths of those that only have to be waited for.
fn verdicts(known: &Known<'_>, node: &Node) -> (Verdicts, Vec<String>) {
    let Known { entry, state, memory, now } = *known;
    let record = &entry.record;
    let context = Context::new(node, &memory.volumes, &record.options, now);
    let recorded: BTreeSet<&str> = record.moves().iter().map(|moved| &*moved.uid).collect();
    let mut new = classify::classify_node(state, &context);
    new.retain(|(pod, verdict)| {
        let moves = matches!(verdict.disposition, Disposition::Evict | Disposition::Wait | Disposition::Block);
        moves && !recorded.contains(&*pod.uid)
    });

    let unknown = unknown_claims(new.iter().map(|(pod, _)| pod), memory);
    if !unknown.is_empty() {
        return (Verdicts { unknown_claims: unknown, ..Verdicts::default() }, Vec::new());
    }
    let mut verdicts = Verdicts::default();
    let mut shutting_down = Vec::new();
    if record.surge.is_none() {
        // Where room may come from is not known before.
        let Some((objects, _)) = &memory.provider else { return (verdicts, shutting_down) };
        let planned = promise(state, &context, objects).moves;
        // What a budget allows now is waited for; it is no verdict.
        let lasting = |notice: &Notice| notice.code != Code::PodDisruptionBudget;
        verdicts.blockers = planned.blockers.into_iter().filter(lasting).collect();
        verdicts.warnings = planned.warnings.into_iter().filter(lasting).collect();
        let driver = provider::driver(record.provider);
        let explained = driver.explain(node, state, objects, &record.options, now);
        verdicts.blockers.extend(explained.blockers);
        verdicts.warnings.extend(explained.warnings);
        for judged in planned.pods.iter().filter(|judged| judged.leaves()) {
            let class = planned.classes.iter().find(|class| Some(&class.id) == judged.class.as_ref());
            let room = class.map(|class| (class.requests.to_amounts(), class.placement.clone()));
            if judged.disposition == Disposition::Wait && room.is_none() {
                shutting_down.push(judged.pod.path());
            } else {
                verdicts.fresh.push(fresh(&judged.pod, room));
            }
        }
    } else {
        for (pod, verdict) in new {
            verdicts.blockers.extend(verdict.blockers.iter().cloned());
            if verdict.disposition == Disposition::Block {
                continue;
            }
            let mut room = None;
            if verdict.reserved && record.options.surge != SurgeMode::None {
                match constraints::translate(&pod, node, state, &memory.volumes, Reach::Own) {
                    Ok(placement) => room = Some((pod.shape.requests.to_amounts(), placement)),
                    Err(refused) if record.options.force || verdict.disposition == Disposition::Wait => {
                        let unreserved = |notice| Notice { code: Code::NotReserved, remedy: String::new(), ..notice };
                        verdicts.warnings.extend(refused.into_iter().map(unreserved));
                    }
                    Err(refused) => {
                        verdicts.blockers.extend(refused);
                        continue;
                    }
                }
            }
            if verdict.disposition == Disposition::Wait && room.is_none() {
                shutting_down.push(pod.path());
                continue;
            }
            verdicts.warnings.extend(verdict.warnings);
            verdicts.fresh.push(fresh(&pod, room));
        }
    }
    note_siblings(known, &mut verdicts.fresh);
    (verdicts, shutting_down)
}

fn fresh(pod: &Pod, room: Option<(Amounts, constraints::Placement)>) -> Fresh {
    Fresh {
        uid: pod.uid.to_string(),
        namespace: pod.namespace.to_string(),
        name: pod.name.to_string(),
        owner: pod.owner.clone(),
        room,
        siblings: Vec::new(),
    }
}

fn unknown_claims<'a>(pods: impl Iterator<Item = &'a Pod>, memory: &Memory) -> Vec<ClaimKey> {
    let mut claims = BTreeSet::new();
    for pod in pods {
        claims.extend(pod.claims.iter().map(|claim| (Box::from(&*pod.namespace), claim.clone())));
    }
    claims.retain(|claim| !memory.volumes.claims.contains_key(claim));
    claims.into_iter().collect()
}

/// Notes which Pods of the same owners stand elsewhere already although they were created after the rotation was asked
/// for: it may have been queued for long.
fn note_siblings(known: &Known<'_>, fresh: &mut [Fresh]) {
    let Known { entry, state, memory, .. } = *known;
    let moving: BTreeSet<String> = fresh.iter().map(|fresh| fresh.uid.clone()).collect();
    let mut by_owner: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for fresh in fresh {
        let Some(owner) = &fresh.owner else { continue };
        let siblings = by_owner.entry(format!("{}/{}", fresh.namespace, owner.uid)).or_insert_with(|| {
            let pods = progress::pods_of(state, memory, &fresh.namespace, owner);
            let young = pods.iter().filter(|pod| pod.created >= entry.created && !moving.contains(&*pod.uid));
            young.map(|pod| pod.uid.to_string()).collect()
        });
        fresh.siblings.clone_from(siblings);
    }
}

impl Memory {
    /// Notes which budgets are closed, and since when.
    pub(super) fn note_budgets(&mut self, entry: &Entry, state: &State, now: Timestamp) {
        let mut closed = BTreeSet::new();
        for moved in entry.record.moves() {
            let Some(pod) = state.pod(&moved.uid) else { continue };
            for pdb in state.pdbs_selecting(&pod) {
                if pdb.allowed <= 0 || !pdb.current {
                    closed.insert(pdb.uid.to_string());
                }
            }
        }
        self.closed_since.retain(|uid, _| closed.contains(uid));
        for uid in closed {
            self.closed_since.entry(uid).or_insert(now);
        }
    }

    /// Notes that an eviction is on its way: the poll of its budget starts over.
    pub(super) fn note_evicting(&mut self, uid: &str, state: &State, now: Timestamp) {
        self.evicting.insert(uid.to_owned(), Evicting::Sent);
        if let Some(pod) = state.pod(uid) {
            for pdb in state.pdbs_selecting(&pod) {
                if let Some(since) = self.closed_since.get_mut(&*pdb.uid) {
                    *since = now;
                }
            }
        }
    }

    /// Notes that it was turned back after all: the poll of its budget is still due.
    pub(super) fn note_withheld(&mut self, uid: &str, state: &State, now: Timestamp) {
        self.evicting.remove(uid);
        if let Some(pod) = state.pod(uid) {
            for pdb in state.pdbs_selecting(&pod) {
                if let Some(since) = self.closed_since.get_mut(&*pdb.uid) {
                    *since = now.saturating_sub(POLL_AFTER).unwrap_or(Timestamp::MIN);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests;
