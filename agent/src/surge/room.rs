//! Where room would come from: a preview, first fit from the largest class down.
//!
//! The scheduler decides in the end. What is shown here exists by our own predicate at this moment, each Pod counted
//! against what the ones before it took.

use std::collections::BTreeSet;
use std::sync::Arc;

use rotate_shared::Code;
use rotate_shared::names::ROOM_NAMESPACE;
use rotate_shared::plan::{Notice, Room};

use super::constraints::{self, Placement};
use super::fit::{Cluster, in_words};
use super::moves::{Moves, RoomClass};
use super::terms;
use crate::cache::resources::Shortfall;
use crate::cache::shape::PodTerm;
use crate::cache::{Node, Pod, Resources, State};

/// Where the room of every class would come from.
#[derive(Debug, Default)]
pub(super) struct Preview {
    /// For each class of the moves, in their order.
    pub(super) rooms: Vec<Vec<Room>>,
    /// For how many Pods no node has room.
    pub(super) unplaced: u32,
    /// How many nodes like the candidate those would fill.
    pub(super) new_nodes: u32,
    /// Pods that would not even fit on an empty node like the candidate.
    pub(super) blockers: Vec<Notice>,
}

/// Previews the room for the Pods that leave `candidate`.
pub(super) fn preview(state: &State, candidate: &Node, moves: &Moves) -> Preview {
    if !state.covers_cluster() {
        return not_looked_for(moves);
    }
    let mut preview = Preview::default();
    let mut placed: Vec<Pod> = Vec::new();
    let mut gone = BTreeSet::new();
    let mut offered = NewNodes::like(candidate, state);
    for class in &moves.classes {
        let members = moves.pods.iter().filter(|judged| judged.class.as_deref() == Some(&class.id));
        let mut nodes = state.nodes().filter(|node| node.name != candidate.name).peekable();
        let mut rooms: Vec<Room> = Vec::new();
        for pod in members.map(|judged| &judged.pod) {
            gone.insert(&*pod.uid);
            let question = Cluster { state, gone: &gone, placed: &placed }.ask(pod);
            // What has no room for one Pod of a class has none for the next.
            while nodes.next_if(|node| !serves(&class.placement, node) || question.fits(node).is_err()).is_some() {}
            let room = match nodes.peek() {
                Some(node) => {
                    placed.push(Pod { node: Some(Arc::clone(&node.name)), ..pod.clone() });
                    Room { node: Some(node.name.to_string()), new_node: None, count: 1 }
                }
                None => {
                    preview.unplaced += 1;
                    if let Err(blocker) = offered.place(class, pod) {
                        preview.blockers.push(blocker);
                        break;
                    }
                    Room { node: None, new_node: Some(offered.in_words(&class.placement)), count: 1 }
                }
            };
            match rooms.last_mut().filter(|last| (&last.node, &last.new_node) == (&room.node, &room.new_node)) {
                Some(last) => last.count += 1,
                None => rooms.push(room),
            }
        }
        preview.rooms.push(rooms);
    }
    preview.new_nodes = u32::try_from(offered.filled.len()).unwrap_or(u32::MAX);
    preview
}

/// The preview where the Pods of other nodes are not read: any of them may have room, or none.
fn not_looked_for(moves: &Moves) -> Preview {
    let somewhere = |class: &RoomClass| {
        let pods = moves.pods.iter().filter(|judged| judged.class.as_deref() == Some(&class.id)).count();
        vec![Room { node: None, new_node: None, count: u32::try_from(pods).unwrap_or(u32::MAX) }]
    };
    Preview { rooms: moves.classes.iter().map(somewhere).collect(), ..Preview::default() }
}

/// Whether a placeholder with this placement may be on the node as far as the node's labels go.
fn serves(placement: &Placement, node: &Node) -> bool {
    placement.node_selector.iter().all(|expression| expression.matches(node.label(&expression.key)))
        && placement
            .node_affinity
            .as_ref()
            .is_none_or(|terms| terms.iter().any(|term| term.matches(&node.name, &node.labels)))
}

/// Nodes that would have to join, each like the candidate with its DaemonSets on it.
#[derive(Debug)]
struct NewNodes<'a> {
    candidate: &'a Node,
    /// What one offers after its DaemonSets; `Err`: they alone take more than there is.
    offer: Result<Resources, Shortfall>,
    slots: i64,
    filled: Vec<Filled>,
}

#[derive(Debug)]
struct Filled {
    free: Resources,
    slots: i64,
    classes: Vec<Placement>,
}

impl<'a> NewNodes<'a> {
    fn like(candidate: &'a Node, state: &State) -> Self {
        let mut daemons = Resources::default();
        let mut slots = candidate.max_pods;
        let comes_along = |pod: &Pod| {
            pod.holds_room() && (pod.shape.mirror || pod.owner.as_ref().is_some_and(crate::cache::Owner::is_daemon_set))
        };
        for pod in state.pods_on(&candidate.name).iter().filter(|pod| comes_along(pod)) {
            daemons.add(&pod.shape.requests);
            slots -= 1;
        }
        let offer = daemons.fits_in(&candidate.allocatable).map(|()| {
            let mut free = candidate.allocatable.clone();
            free.subtract(&daemons);
            free
        });
        Self { candidate, offer, slots, filled: Vec::new() }
    }

    fn place(&mut self, class: &RoomClass, pod: &Pod) -> Result<(), Notice> {
        let too_small = |message| Notice {
            code: Code::NodeTooSmall,
            object: format!("Pod {}", pod.path()),
            message,
            remedy: "--surge=none evicts Pods without room held for them".to_owned(),
        };
        let offer = self.offer.as_ref().map_err(|short| {
            let [need, free] = [short.need, short.free].map(|amount| in_words(&short.resource, amount));
            too_small(format!(
                "no node has room, and on one like this the DaemonSets alone need {need} {} of {free}",
                short.resource
            ))
        })?;
        class.requests.fits_in(offer).map_err(|short| {
            let [need, free] = [short.need, short.free].map(|amount| in_words(&short.resource, amount));
            too_small(format!(
                "no node has room: needs {need} {}, one like this offers {free} after its DaemonSets",
                short.resource
            ))
        })?;
        if self.slots < 1 {
            return Err(too_small(
                "no node has room, and one like this takes no Pods beside its DaemonSets".to_owned(),
            ));
        }
        let room = self.filled.iter().position(|node| {
            node.slots > 0
                && class.requests.fits_in(&node.free).is_ok()
                && node.classes.iter().all(|other| !exclude(other, &class.placement))
        });
        let place = room.unwrap_or_else(|| {
            self.filled.push(Filled { free: offer.clone(), slots: self.slots, classes: Vec::new() });
            self.filled.len() - 1
        });
        let node = &mut self.filled[place];
        node.free.subtract(&class.requests);
        node.slots -= 1;
        node.classes.push(class.placement.clone());
        Ok(())
    }

    fn in_words(&self, placement: &Placement) -> String {
        if !serves(placement, self.candidate) {
            return format!("one with {}", constraints::describe(placement).join("; "));
        }
        let offer = self.offer.clone().unwrap_or_default().to_amounts();
        let amounts: Vec<_> = offer.iter().map(|(name, amount)| format!("{name} {amount}")).collect();
        format!("like {}: {} after its DaemonSets", self.candidate.name, amounts.join(", "))
    }
}

/// Whether two placeholders cannot share a host.
fn exclude(one: &Placement, other: &Placement) -> bool {
    let ports = one.host_ports.iter().any(|port| other.host_ports.iter().any(|taken| taken.conflicts(port)));
    let repels = |one: &Placement, other: &Placement| {
        let apart =
            |term: &PodTerm| terms::selects(term, ROOM_NAMESPACE, ROOM_NAMESPACE, &other.labels) != terms::Selected::No;
        one.anti_affinity.iter().any(apart)
    };
    ports || repels(one, other) || repels(other, one)
}
