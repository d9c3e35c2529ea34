//! Puts placeholders on nodes one after another, in one order of nodes.

use std::collections::BTreeSet;
use std::sync::Arc;

use rotate_shared::plan::Room;
use rotate_shared::{Amounts, Quantity, names};

use super::{Missing, Preview};
use crate::cache::volumes::ClaimKey;
use crate::cache::{Node, Pod, PodPhase, Resources, Shape, State, Volumes};
use crate::provider::{Headroom, NewNode};
use crate::surge::fit::{self, Cluster, Misfit, Question};
use crate::surge::moves::{Moves, RoomClass};

/// Which of the nodes with room is taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Order {
    /// The first by name.
    ByName,
    /// As the scheduler does where nobody has told it otherwise.
    EmptiestFirst,
    /// As it does where it is told to pack.
    FullestFirst,
}

/// A cluster that fills up.
#[derive(Debug)]
pub(super) struct Packing<'a> {
    state: &'a State,
    candidate: &'a Node,
    volumes: &'a Volumes,
    headroom: &'a [Headroom],
    order: Order,
    /// All but the candidate.
    nodes: Vec<Spare>,
    /// New nodes so far, and for each which headroom brings it, as what.
    joined: Vec<Arc<Node>>,
    kinds: Vec<(usize, &'a NewNode)>,
    /// For each headroom what the new nodes count against its limits.
    charged: Vec<Amounts>,
    /// The placeholders so far.
    held: Vec<Pod>,
    /// The Pods so far, as moved.
    moved: Vec<Pod>,
    /// Their originals.
    gone: BTreeSet<Arc<str>>,
}

#[derive(Debug)]
struct Spare {
    node: Arc<Node>,
    free: Resources,
}

/// Pods that look for room, all of it on one node.
#[derive(Clone, Copy, Debug)]
struct Asker<'p> {
    pods: &'p [&'p Pod],
    placeholder: &'p Pod,
    /// The first, by UID.
    own: &'p BTreeSet<&'p str>,
    /// They and those before them.
    gone: &'p BTreeSet<&'p str>,
}

/// Where there is room.
#[derive(Debug)]
enum Place<'a> {
    /// On a node that exists.
    Existing(Arc<str>),
    /// On a new node that another Pod needs already.
    Joined(usize),
    /// On one more new node.
    New(Arc<Node>, usize, &'a NewNode),
}

/// Why nodes would not do: the one that comes nearest counts.
#[derive(Debug, Default)]
struct Misses {
    nearest: Option<(usize, String)>,
    sources: Vec<String>,
}

// === impl Packing ===

impl<'a> Packing<'a> {
    pub(super) fn new(
        state: &'a State,
        candidate: &'a Node,
        volumes: &'a Volumes,
        headroom: &'a [Headroom],
        order: Order,
    ) -> Self {
        let others = state.nodes().filter(|node| node.name != candidate.name);
        let spare = |node: &Arc<Node>| {
            let mut free = node.allocatable.clone();
            free.subtract(&state.usage(&node.name).requests);
            Spare { node: Arc::clone(node), free }
        };
        Self {
            state,
            candidate,
            volumes,
            headroom,
            order,
            nodes: others.map(spare).collect(),
            joined: Vec::new(),
            kinds: Vec::new(),
            charged: vec![Amounts::new(); headroom.len()],
            held: Vec::new(),
            moved: Vec::new(),
            gone: BTreeSet::new(),
        }
    }

    /// Places what moves, class by class.
    pub(super) fn pack(mut self, moves: &Moves) -> Preview {
        let mut preview = Preview::default();
        for class in &moves.classes {
            let mut rooms: Vec<Room> = Vec::new();
            let mut missing: Option<Missing> = None;
            // What has no room for one Pod of a class has none for the next, unless that depends on where Pods are.
            let mut full = BTreeSet::new();
            let members: Vec<&Pod> = moves
                .pods
                .iter()
                .filter(|judged| judged.class.as_deref() == Some(&class.id))
                .map(|judged| &judged.pod)
                .collect();
            for pods in members.chunks(if class.shared { members.len().max(1) } else { 1 }) {
                let count = u32::try_from(pods.len()).unwrap_or(u32::MAX);
                match self.place(class, pods, &mut full) {
                    Ok(room) => {
                        preview.on_new_nodes += if room.new_node.is_some() { count } else { 0 };
                        let same = |last: &&mut Room| (&last.node, &last.new_node) == (&room.node, &room.new_node);
                        match rooms.last_mut().filter(same) {
                            Some(last) => last.count += count,
                            None => rooms.push(room),
                        }
                    }
                    Err(why) => {
                        let first = || Missing { class: class.id.clone(), pod: pods[0].path(), pods: 0, why };
                        missing.get_or_insert_with(first).pods += count;
                    }
                }
            }
            preview.rooms.push(rooms);
            preview.missing.extend(missing);
        }
        preview.new_nodes = u32::try_from(self.joined.len()).unwrap_or(u32::MAX);
        for (source, _) in &self.kinds {
            *preview.brought.entry(self.headroom[*source].source.clone()).or_default() += 1;
        }
        preview
    }

    /// Finds room for Pods that share one placeholder.
    fn place(&mut self, class: &RoomClass, pods: &[&Pod], full: &mut BTreeSet<Arc<str>>) -> Result<Room, String> {
        let placeholder = placeholder(class, pods[0]);
        let count = u32::try_from(pods.len()).unwrap_or(u32::MAX);
        self.sort(&class.requests);
        let at = match self.find(pods, &placeholder, full)? {
            Place::Existing(name) => {
                self.take(&name, pods, placeholder);
                return Ok(Room { node: Some(name.to_string()), new_node: None, count });
            }
            Place::Joined(at) => at,
            Place::New(node, source, kind) => {
                for (resource, amount) in &kind.charged {
                    let sum = self.charged[source].entry(resource.clone()).or_insert(Quantity::ZERO);
                    *sum = *sum + *amount;
                }
                self.joined.push(node);
                self.kinds.push((source, kind));
                self.joined.len() - 1
            }
        };
        let (node, source) = (&self.joined[at], &self.headroom[self.kinds[at].0].source);
        let room = Room { node: None, new_node: Some(in_words(node, source)), count };
        self.take(&Arc::clone(&node.name), pods, placeholder);
        Ok(room)
    }

    /// Where the Pods have room, or why nowhere.
    fn find(&self, pods: &[&Pod], placeholder: &Pod, full: &mut BTreeSet<Arc<str>>) -> Result<Place<'a>, String> {
        let own = BTreeSet::from([&*pods[0].uid]);
        let gone = self.gone.iter().map(|uid| &**uid).chain(pods.iter().map(|pod| &*pod.uid)).collect();
        let asker = Asker { pods, placeholder, own: &own, gone: &gone };
        let questions = self.questions(&asker, &self.joined);
        let others_matter = pods.iter().any(|pod| !pod.shape.spread.is_empty() || !pod.shape.affinity.is_empty());
        let mut misses = Misses::default();
        for Spare { node, .. } in &self.nodes {
            if full.contains(&node.name) {
                continue;
            }
            match self.judge(&asker, &questions, node, &self.joined) {
                Ok(()) => return Ok(Place::Existing(Arc::clone(&node.name))),
                Err(miss) => misses.note(&node.name, miss),
            }
            if !others_matter {
                full.insert(Arc::clone(&node.name));
            }
        }
        for (at, (node, (_, kind))) in self.joined.iter().zip(&self.kinds).enumerate() {
            if is_certain(&questions, kind).is_ok() && self.judge(&asker, &questions, node, &self.joined).is_ok() {
                return Ok(Place::Joined(at));
            }
        }
        for (source, headroom) in self.headroom.iter().enumerate() {
            match self.new_node_of(source, &asker) {
                Ok((node, kind)) => return Ok(Place::New(node, source, kind)),
                Err(why) => misses.sources.push(format!("{}: {why}", headroom.source)),
            }
        }
        Err(misses.in_words())
    }

    /// A node would do if it took the placeholder beside the originals; its Pod in the placeholder's stead; and the Pod
    /// again once the others have moved.
    fn questions<'q>(&'q self, asker: &Asker<'q>, joined: &'q [Arc<Node>]) -> [Question<'q>; 3] {
        let now = Cluster { state: self.state, gone: const { &BTreeSet::new() }, placed: &self.held, joined };
        [
            now.ask(asker.placeholder),
            Cluster { gone: asker.own, ..now }.ask(asker.pods[0]),
            Cluster { gone: asker.gone, placed: &self.moved, ..now }.ask(asker.pods[0]),
        ]
    }

    /// Whether the node takes the placeholder, and then one Pod after another.
    fn judge(
        &self,
        asker: &Asker<'_>,
        questions: &[Question<'_>; 3],
        node: &Arc<Node>,
        joined: &[Arc<Node>],
    ) -> Result<(), (usize, Misfit)> {
        questions.iter().try_for_each(|question| question.judge(node))?;
        self.attaches(asker, node)?;
        for (place, pod) in asker.pods.iter().enumerate().skip(1) {
            let before =
                asker.pods[..place].iter().map(|pod| Pod { node: Some(Arc::clone(&node.name)), ..(*pod).clone() });
            let placed: Vec<Pod> = self.moved.iter().cloned().chain(before).collect();
            Cluster { state: self.state, gone: asker.gone, placed: &placed, joined }.ask(pod).judge(node)?;
        }
        Ok(())
    }

    /// The cheapest kind of node that this pool or group may still bring and that would do.
    fn new_node_of(&self, source: usize, asker: &Asker<'_>) -> Result<(Arc<Node>, &'a NewNode), String> {
        let headroom = &self.headroom[source];
        let brought = self.kinds.iter().filter(|(of, _)| *of == source).count();
        if headroom.nodes_left.is_some_and(|left| brought >= usize::try_from(left).unwrap_or(usize::MAX)) {
            return Err(headroom.limit.clone());
        }
        if headroom.shapes.is_empty() {
            return Err("no node of it was seen, so that nothing can be promised of one".to_owned());
        }
        let name = format!("{} #{}", headroom.source, self.joined.len() + 1);
        let mut kinds: Vec<&'a NewNode> = headroom.shapes.iter().collect();
        kinds.sort_by_key(|kind| Resources::from(&kind.charged).milli_cpu);
        let mut nearest: Option<(usize, String)> = None;
        let mut note = |passed, why: String| {
            if nearest.as_ref().is_none_or(|(other, _)| *other < passed) {
                nearest = Some((passed, why));
            }
        };
        for kind in kinds {
            let node = Arc::new(kind.joined_as(&name));
            if let Err(misfit) = fit::suffices(&kind.daemons, &kind.node.allocatable) {
                note(0, format!("its DaemonSets alone do not fit: {misfit}"));
                continue;
            }
            // Asked first because it is cheap: what other Pods mean is counted anew for each node that might join.
            if let Err(miss) = suits(asker.placeholder, &node) {
                note(miss.0, miss.1.0);
                continue;
            }
            let joined: Vec<_> = self.joined.iter().chain([&node]).cloned().collect();
            let questions = self.questions(asker, &joined);
            let judged = is_certain(&questions, kind)
                .map_err(|key| (2, format!("which {key} a new node gets is not known")))
                .and_then(|()| {
                    self.judge(asker, &questions, &node, &joined).map_err(|(passed, misfit)| (passed, misfit.0))
                });
            match judged {
                Err((passed, why)) => note(passed, why),
                Ok(()) if self.exceeds(source, kind) => note(usize::MAX, headroom.limit.clone()),
                Ok(()) => return Ok((node, kind)),
            }
        }
        Err(nearest.map(|(_, why)| why).unwrap_or_default())
    }

    /// Whether one more node of this kind would exceed a limit of its pool or group.
    fn exceeds(&self, source: usize, kind: &NewNode) -> bool {
        kind.charged.iter().any(|(resource, charge)| {
            let before = self.charged[source].get(resource).copied().unwrap_or(Quantity::ZERO);
            self.headroom[source].resources_left.get(resource).is_some_and(|left| before + *charge > *left)
        })
    }

    /// Whether the node takes the Pods' volumes; one that has not joined as many as the candidate.
    fn attaches(&self, asker: &Asker<'_>, node: &Node) -> Result<(), (usize, Misfit)> {
        let keys = |pod: &Pod| -> Vec<ClaimKey> {
            pod.claims.iter().map(|claim| (Box::from(&*pod.namespace), claim.clone())).collect()
        };
        let wanted: Vec<ClaimKey> = asker.pods.iter().flat_map(|pod| keys(pod)).collect();
        let limits = self.volumes.limits.get(&*node.name).or_else(|| self.volumes.limits.get(&*self.candidate.name));
        let (false, Some(limits)) = (wanted.is_empty(), limits) else { return Ok(()) };
        let there = self.state.pods_on(&node.name);
        let moved = self.moved.iter().filter(|pod| pod.node.as_deref() == Some(&*node.name));
        let others = there.iter().filter(|pod| pod.holds_room()).chain(moved).map(|pod| pod.claims.len()).sum();
        self.volumes.attach(limits, &wanted, others).map_err(|(driver, limit)| {
            let message = format!("too many volumes: {others} claims are mounted there, {driver} takes {limit}");
            (4, Misfit(message))
        })
    }

    fn take(&mut self, node: &Arc<str>, pods: &[&Pod], placeholder: Pod) {
        let requests = placeholder.shape.requests.clone();
        self.held.push(Pod { node: Some(Arc::clone(node)), ..placeholder });
        for pod in pods {
            self.moved.push(Pod { node: Some(Arc::clone(node)), ..(*pod).clone() });
            self.gone.insert(Arc::clone(&pod.uid));
        }
        if let Some(spare) = self.nodes.iter_mut().find(|spare| spare.node.name == *node) {
            spare.free.subtract(&requests);
        }
    }

    /// By what would be left: the scheduler scores nodes as if the Pod were on them.
    fn sort(&mut self, requests: &Resources) {
        let emptiness = |spare: &Spare| {
            let share = |free: i64, of: i64| if of > 0 { free.saturating_mul(1000) / of } else { 0 };
            share(spare.free.milli_cpu - requests.milli_cpu, spare.node.allocatable.milli_cpu)
                + share((spare.free.memory - requests.memory) >> 10, spare.node.allocatable.memory >> 10)
        };
        match self.order {
            Order::ByName => {}
            Order::EmptiestFirst => self.nodes.sort_by_key(|spare| std::cmp::Reverse(emptiness(spare))),
            Order::FullestFirst => self.nodes.sort_by_key(emptiness),
        }
    }
}

// === impl Misses ===

impl Misses {
    fn note(&mut self, node: &str, (passed, misfit): (usize, Misfit)) {
        if self.nearest.as_ref().is_none_or(|(nearest, _)| *nearest < passed) {
            self.nearest = Some((passed, format!("node {node}: {misfit}")));
        }
    }

    fn in_words(&mut self) -> String {
        let nearest = self.nearest.take().map_or_else(|| "there is no other node".to_owned(), |(_, words)| words);
        [nearest].into_iter().chain(self.sources.drain(..)).collect::<Vec<_>>().join("; ")
    }
}

/// A new node, for a plan.
fn in_words(node: &Node, source: &str) -> String {
    let amounts = node.allocatable.to_amounts();
    let amounts: Vec<_> = amounts.iter().map(|(name, amount)| format!("{name} {amount}")).collect();
    format!("{source}: {} after its DaemonSets", amounts.join(", "))
}

/// Whether none of the answers depends on what is not known of the node; else the label.
fn is_certain<'n>(questions: &[Question<'_>; 3], kind: &'n NewNode) -> Result<(), &'n str> {
    let mut uncertain = kind.uncertain.iter().map(|key| &**key);
    let asked = uncertain.find(|key| questions.iter().any(|question| question.looks_at(key)));
    asked.map_or(Ok(()), Err)
}

/// Whether an empty node would do, other Pods aside.
fn suits(pod: &Pod, node: &Node) -> Result<(), (usize, Misfit)> {
    fit::selected(pod, node).map_err(|misfit| (1, misfit))?;
    fit::tolerated(pod, node).map_err(|misfit| (2, misfit))?;
    fit::suffices(&pod.shape.requests, &node.allocatable).map_err(|misfit| (4, misfit))
}

/// The placeholder of a class as the cache would show it.
fn placeholder(class: &RoomClass, pod: &Pod) -> Pod {
    let placement = &class.placement;
    Pod {
        namespace: names::ROOM_NAMESPACE.into(),
        name: Arc::clone(&pod.name),
        uid: format!("room of {}", pod.uid).into(),
        created: pod.created,
        deleted: None,
        node: None,
        nominated: None,
        owner: None,
        phase: PodPhase::Running,
        ready: true,
        unschedulable: None,
        labels: Arc::new(placement.labels.clone()),
        claims: Arc::from([]),
        shape: Arc::new(Shape {
            requests: class.requests.clone(),
            priority: names::PLACEHOLDER_PRIORITY,
            node_selector: placement.node_selector.clone(),
            node_affinity: placement.node_affinity.clone(),
            tolerations: placement.tolerations.clone(),
            host_ports: placement.host_ports.clone(),
            affinity: placement.affinity.clone(),
            anti_affinity: placement.anti_affinity.clone(),
            ..Shape::default()
        }),
    }
}
