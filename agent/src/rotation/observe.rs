//! Takes an observation out of the cache, the record, and what is remembered of our own calls. Decides nothing.

mod passed_over;

use std::collections::{BTreeMap, BTreeSet};

use jiff::{SignedDuration, Timestamp};
use rotate_shared::plan::{Disposition, Notice};
use rotate_shared::{Amounts, Code, Phase, SurgeMode, names};

use super::memory::{Evicting, Memory};
use super::observation::{
    Barrier, Budget, Fresh, Leaving, Need, NodeSeen, Observation, Pending, Room, RoomState, Slot, Verdicts,
};
use super::progress::{self, Known, Whereabouts, whereabouts};
use super::record::{Move, Record, RoomClass};
use super::store::Entry;
use crate::cache::volumes::ClaimKey;
use crate::cache::{Kind, Node, Pod, PodPhase, Resources, State};
use crate::drain::blockers::{self, Allowance};
use crate::drain::order;
use crate::surge::classify::{self, Context};
use crate::surge::{constraints, fit, moves};

/// How long a disruption budget is closed before one of its Pods is asked for all the same.
const POLL_AFTER: SignedDuration = SignedDuration::from_secs(60);

/// How long a replacement may leave the room that is held for it untaken: preemption takes 0.1 to 2 s (measured).
const STUCK: SignedDuration = SignedDuration::from_secs(10);

/// Takes an observation. `slot` is what the queue says of this rotation.
pub(super) fn observe(entry: &Entry, state: &State, memory: &Memory, slot: Slot, now: Timestamp) -> Observation {
    let known = Known { entry, state, memory, now };
    let record = &entry.record;
    let synced = [Kind::Pods, Kind::Nodes, Kind::Pdbs].iter().all(|kind| state.revision(*kind).is_some());
    if !synced {
        return Observation { slot, ..Observation::default() };
    }
    let node = state.node(&record.node).filter(|node| *node.uid == *record.node_uid);
    let (leaving, budgets) = leaving(&known);
    let groups = progress::owners(&known);
    let mut rooms = rooms(&known);
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
        slot,
        node: node.map_or(NodeSeen::Gone, |node| see_node(record, node, memory)),
        barrier: barrier(&known),
        verdicts,
        leaving,
        shutting_down,
        arriving: state.arriving_on(&record.node).iter().filter(|pod| !pod.is_placeholder()).map(Pod::path).collect(),
        budgets,
        owners: groups.into_iter().map(|group| group.seen).collect(),
        needs,
        room: rooms.into_iter().map(|room| room.seen).collect(),
        reserving: !memory.reserving.is_empty(),
        passed_over,
        failures: memory.failures.values().map(|failure| failure.notice.clone()).collect(),
    }
}

fn see_node(record: &Record, node: &Node, memory: &Memory) -> NodeSeen {
    let carries =
        |key: &str| node.annotations.get(key).is_some_and(|value| value.split(':').next() == Some(&*record.id));
    let traces = [names::ROTATION, names::CORDONED_BY, names::PROTECTED_BY].into_iter().any(carries);
    // Until the cache shows it, our own patch is believed.
    let (marked, traces) = match memory.marks {
        Some((marked, _)) => (marked, marked),
        None => (carries(names::ROTATION) && node.unschedulable, traces),
    };
    NodeSeen::Here { marked, traces, deleting: node.deleting }
}

/// Whether everything that the last list of this phase showed is in the cache.
fn barrier(known: &Known<'_>) -> Barrier {
    let Some((listed, _)) = &known.memory.listed else { return Barrier::Open };
    let in_cache: BTreeSet<_> = known.state.pods_on(&known.entry.record.node).into_iter().map(|pod| pod.uid).collect();
    if listed.iter().all(|uid| in_cache.contains(&**uid)) { Barrier::Passed } else { Barrier::Open }
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
        pods.extend(state.pod(&moved.uid).map(|pod| (moved, pod, terminating)));
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
    let mut budgets = Budgets::default();
    let leaving = pods.iter().zip(rank).map(|((moved, pod, terminating), rank)| {
        let (budget, several_budgets) = budgets.of(pod, *terminating, state, memory, now);
        let context = node.map(|node| Context { node, volumes: &memory.volumes, options: &entry.record.options, now });
        let blocked = context.map_or_else(Vec::new, |context| classify::classify(pod, &context).blockers);
        Leaving {
            uid: moved.uid.clone(),
            namespace: moved.namespace.clone(),
            name: moved.name.clone(),
            class: moved.class.clone(),
            rank,
            terminating: *terminating,
            budget,
            several_budgets,
            blocked,
            refused: memory.refused.get(&moved.uid).cloned(),
        }
    });
    let leaving = leaving.collect();
    (leaving, budgets.list)
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
    let context = Context { node, volumes: &memory.volumes, options: &record.options, now };
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
        let planned = moves::moves(state, &context);
        // What a budget allows now is waited for; it is no verdict.
        let lasting = |notice: &Notice| notice.code != Code::PodDisruptionBudget;
        verdicts.blockers = planned.blockers.into_iter().filter(lasting).collect();
        verdicts.warnings = planned.warnings.into_iter().filter(lasting).collect();
        verdicts.warnings.extend(crate::provider::notices(node, record.provider, &record.options));
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
                match constraints::translate(&pod, node, state, &memory.volumes) {
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

// === room ===

/// A placeholder with what it offers.
#[derive(Debug)]
struct RoomKnown<'a> {
    seen: Room,
    /// Its class; `None`: it is not one that the record knows.
    class: Option<&'a RoomClass>,
    /// It is ending because we deleted it.
    released: bool,
    pod: Option<Pod>,
}

fn rooms<'a>(known: &Known<'a>) -> Vec<RoomKnown<'a>> {
    let Known { entry, state, memory, .. } = *known;
    let record = &entry.record;
    let mut rooms = Vec::new();
    let waking = |pod: &Pod| memory.waking.as_deref() == Some(&*pod.name);
    for pod in placeholders(state, &record.id).into_iter().filter(|pod| !waking(pod)) {
        let label = |key: &str| pod.labels.get(key).map(|value| value.to_string()).unwrap_or_default();
        let released = memory.released.contains_key(&*pod.uid);
        let state = if released { RoomState::Ending } else { room_state(&pod, &record.node, state) };
        rooms.push(RoomKnown {
            seen: Room { name: pod.name.to_string(), uid: pod.uid.to_string(), pod_uid: label(names::POD_UID), state },
            class: record.class(&label(names::CLASS)),
            released,
            pod: Some(pod),
        });
    }
    for (name, created) in &memory.created {
        let released = memory.released.contains_key(&created.uid);
        let state = if released { RoomState::Ending } else { RoomState::Coming { message: None } };
        rooms.push(RoomKnown {
            seen: Room { name: name.clone(), uid: created.uid.clone(), pod_uid: created.pod_uid.clone(), state },
            class: record.class(&created.class),
            released,
            pod: None,
        });
    }
    rooms
}

/// Placeholders of a rotation, by name.
pub(super) fn placeholders(state: &State, rotation: &str) -> Vec<Pod> {
    let mut pods = state.pods_in(names::ROOM_NAMESPACE);
    pods.retain(|pod| pod.labels.get(names::ROTATION).is_some_and(|label| **label == *rotation));
    pods
}

fn room_state(pod: &Pod, candidate: &str, state: &State) -> RoomState {
    let lost = |why: String| RoomState::Lost { why };
    if pod.deleted.is_some() {
        return RoomState::Ending;
    }
    if pod.phase.is_finished() {
        return lost("it ended before it was needed".to_owned());
    }
    let Some(name) = &pod.node else {
        return RoomState::Coming { message: pod.unschedulable.as_ref().map(ToString::to_string) };
    };
    if **name == *candidate {
        return lost("it was placed on the candidate itself".to_owned());
    }
    let node = state.node(name);
    match (pod.phase, node) {
        (_, Some(node)) if node.deleting => lost(format!("node {name} is being deleted")),
        (_, Some(node)) if node.unschedulable => lost(format!("node {name} is cordoned")),
        (PodPhase::Running, Some(node)) if node.ready => RoomState::Held { node: name.to_string(), misfit: None },
        // A node that is still joining: the kubelet starts the Pod once it is Ready.
        (PodPhase::Pending, _) => RoomState::Coming { message: Some(format!("node {name} has not started it yet")) },
        (_, Some(_)) => lost(format!("node {name} is not Ready")),
        (_, None) => lost(format!("node {name} is gone")),
    }
}

/// Says why a held placeholder does not serve the Pod that it was made for.
fn explain(known: &Known<'_>, needs: &[Need], rooms: &mut [RoomKnown<'_>]) {
    for RoomKnown { seen: Room { uid, pod_uid, state, .. }, .. } in rooms {
        let RoomState::Held { node, misfit } = state else { continue };
        let its = needs.iter().find(|need| need.uid == *pod_uid);
        if its.is_none_or(|need| need.serves.contains(uid)) {
            continue;
        }
        let (original, node) = (known.memory.original(pod_uid), known.state.node(node));
        if let (Some(original), Some(node)) = (original, node) {
            let gone = BTreeSet::from([&**uid, &**pod_uid]);
            *misfit = fit::fits(original, node, known.state, &gone).err().map(|misfit| misfit.0);
        }
    }
}

// === needs ===

fn needs(known: &Known<'_>, groups: &[progress::Group<'_>], rooms: &[RoomKnown<'_>]) -> Vec<Need> {
    let Known { entry, state, memory, now } = *known;
    let mut wanted: Vec<(&Move, Option<Pending>, Option<Pod>)> = Vec::new();
    for group in groups {
        for (moved, replacement) in &group.pending {
            let pending = Pending {
                pod: replacement.as_ref().map(Pod::path),
                nominated: replacement.as_ref().is_some_and(|pod| is_nominated(pod, &entry.record.node, state)),
                cannot_preempt: replacement.as_ref().is_some_and(cannot_preempt),
                stuck: memory
                    .missing
                    .get(&group.seen.uid)
                    .is_some_and(|missing| now.duration_since(missing.since) > STUCK),
                overdue: group.seen.overdue,
            };
            let pod = replacement.clone().or_else(|| memory.original(&moved.uid).cloned());
            wanted.push((moved, Some(pending), pod));
        }
    }
    for moved in entry.record.moves() {
        if whereabouts(moved, state, memory) == Whereabouts::Here {
            wanted.push((moved, None, state.pod(&moved.uid)));
        }
    }
    let mut judge = Judge { known, answers: BTreeMap::new() };
    let needs = wanted.into_iter().filter_map(|(moved, pending, pod)| {
        let class = entry.record.class(moved.class.as_ref()?)?;
        let pod = pod.as_ref();
        let exists = pending.as_ref().is_none_or(|pending| pending.pod.is_some());
        let serves = rooms.iter().filter(|room| judge.serves(moved, class, pod, room));
        let serves: BTreeSet<String> = serves.map(|room| room.seen.uid.clone()).collect();
        let coming = rooms.iter().filter(|room| will_serve(class, exists && pending.is_some(), room));
        let (attempt, not_before) = next_attempt(known, moved);
        Some(Need {
            uid: moved.uid.clone(),
            path: format!("{}/{}", moved.namespace, moved.name),
            class: class.id.clone(),
            coming: coming.map(|room| room.seen.uid.clone()).collect(),
            serves,
            attempt,
            not_before,
            pending,
        })
    });
    needs.collect()
}

/// Whether the scheduler has cleared a place for it.
fn is_nominated(pod: &Pod, candidate: &str, state: &State) -> bool {
    pod.nominated
        .as_ref()
        .is_some_and(|node| **node != *candidate && state.node(node).is_some_and(|node| node.takes_pods()))
}

/// Whether the scheduler would leave it Pending behind a placeholder.
fn cannot_preempt(pod: &Pod) -> bool {
    pod.shape.never_preempts || pod.shape.priority <= names::PLACEHOLDER_PRIORITY || pod.shape.scheduler.is_some()
}

/// Whether a placeholder that does not run yet, or is being preempted for a replacement, will do.
fn will_serve(class: &RoomClass, being_replaced: bool, room: &RoomKnown<'_>) -> bool {
    let state = match room.seen.state {
        RoomState::Coming { .. } => true,
        RoomState::Ending => being_replaced && !room.released,
        _ => false,
    };
    state
        && room.class.is_some_and(|offered| {
            offered.id == class.id || (offered.placement == class.placement && fits_in(class, offered))
        })
}

fn fits_in(need: &RoomClass, offered: &RoomClass) -> bool {
    resources(&need.requests).fits_in(&resources(&offered.requests)).is_ok()
}

fn resources(amounts: &Amounts) -> Resources {
    Resources::from_amounts(amounts.iter().map(|(name, quantity)| (&**name, *quantity)))
}

/// Answers whether a Pod would run in a placeholder's place, asking only once for Pods that are alike.
struct Judge<'a> {
    known: &'a Known<'a>,
    answers: BTreeMap<(String, String, String), bool>,
}

impl Judge<'_> {
    fn serves(&mut self, moved: &Move, class: &RoomClass, pod: Option<&Pod>, room: &RoomKnown<'_>) -> bool {
        let RoomState::Held { node, .. } = &room.seen.state else { return false };
        let Some(offered) = room.class else { return false };
        let Some(pod) = pod else { return offered.id == class.id };
        let Some(placeholder) = &room.pod else { return false };
        if pod.shape.requests.fits_in(&placeholder.shape.requests).is_err() {
            return false;
        }
        // Pods of one class and owner differ in nothing that decides where they may run.
        let owner = pod.owner.as_ref().map_or(&*pod.uid, |owner| &*owner.uid);
        let kind = format!("{}/{owner}/{}/{:p}", pod.namespace, class.id, pod.shape);
        let key = (kind, node.clone(), offered.id.clone());
        if let Some(answer) = self.answers.get(&key) {
            return *answer;
        }
        let gone = BTreeSet::from([&*room.seen.uid, &*moved.uid]);
        let state = self.known.state;
        let answer = state.node(node).is_some_and(|node| fit::fits(pod, node, state, &gone).is_ok());
        self.answers.insert(key, answer);
        answer
    }
}

/// The number of the next placeholder for a Pod, and when it may be created: the first few at once, then more slowly.
fn next_attempt(known: &Known<'_>, moved: &Move) -> (u32, Option<Timestamp>) {
    let prefix = names::placeholder_name(&known.entry.record.id, &moved.uid, 0);
    let prefix = prefix.trim_end_matches('0');
    let number = |pod: &Pod| pod.name.strip_prefix(prefix)?.parse::<u32>().ok();
    let seen = placeholders(known.state, &known.entry.record.id).iter().filter_map(number).max();
    let remembered = known.memory.attempts.get(&moved.uid);
    let last = seen.max(remembered.map(|(attempt, _)| *attempt));
    let attempt = last.map_or(0, |last| last + 1);
    let wait = SignedDuration::from_secs(1 << attempt.saturating_sub(3).min(5));
    let not_before = remembered.filter(|_| attempt > 2).and_then(|(_, at)| at.checked_add(wait).ok());
    (attempt, not_before)
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
}

#[cfg(test)]
mod tests;
