//! Where room would come from: a preview, from the largest class down.
//!
//! ```text
//! existing nodes ──▶ new nodes that others of these Pods need already ──▶ one more new node of a pool or group
//! ```
//!
//! The scheduler decides in the end, and which of the nodes with room it takes is its own affair. So room counts as there
//! only if it is found whether the nodes are filled in the order of their names, the emptiest first, or the fullest first.
//! Each Pod is counted against what the ones before it took.

mod packing;

use std::collections::BTreeMap;

use rotate_shared::plan::Room;

use self::packing::{Order, Packing};
use super::moves::{Moves, RoomClass};
use crate::cache::{Node, State, Volumes};
use crate::provider::Headroom;

/// Where the room of every class would come from.
#[derive(Debug, Default)]
pub(super) struct Preview {
    /// For each class of the moves, in their order.
    pub(super) rooms: Vec<Vec<Room>>,
    /// The classes that there is not room enough for.
    pub(super) missing: Vec<Missing>,
    /// How many Pods need a new node.
    pub(super) on_new_nodes: u32,
    /// How many new nodes those are.
    pub(super) new_nodes: u32,
    /// The same, by the source of their headroom.
    pub(super) brought: BTreeMap<String, u32>,
}

/// A class without room enough.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Missing {
    /// Its short name.
    pub(super) class: String,
    /// `namespace/name` of the first of its Pods without room.
    pub(super) pod: String,
    /// How many of its Pods are without.
    pub(super) pods: u32,
    /// What comes nearest, and why it will not do.
    pub(super) why: String,
}

impl Preview {
    /// Where the room that is missing would come from is not known.
    pub(super) fn leave_open(&mut self, moves: &Moves) {
        self.missing.clear();
        for (class, rooms) in moves.classes.iter().zip(&mut self.rooms) {
            let pods = moves.pods.iter().filter(|judged| judged.class.as_deref() == Some(&class.id)).count();
            let found: u32 = rooms.iter().map(|room| room.count).sum();
            let open = u32::try_from(pods).unwrap_or(u32::MAX).saturating_sub(found);
            if open > 0 {
                rooms.push(Room { node: None, new_node: None, count: open });
            }
        }
    }

    /// For how many Pods it is not known where their room would come from.
    pub(super) fn open(&self) -> u32 {
        let rooms = self.rooms.iter().flatten();
        rooms.filter(|room| room.node.is_none() && room.new_node.is_none()).map(|room| room.count).sum()
    }
}

/// Previews the room for the Pods that leave `candidate`.
pub(super) fn preview(
    state: &State,
    candidate: &Node,
    volumes: &Volumes,
    moves: &Moves,
    headroom: &[Headroom],
) -> Preview {
    if !state.covers_cluster() {
        return not_looked_for(moves);
    }
    let mut preview = Packing::new(state, candidate, volumes, headroom, Order::ByName).pack(moves);
    let reserved = moves.pods.iter().filter(|judged| judged.class.is_some()).count();
    for order in [Order::EmptiestFirst, Order::FullestFirst] {
        if reserved > 1 && preview.missing.is_empty() {
            preview.missing = Packing::new(state, candidate, volumes, headroom, order).pack(moves).missing;
            for missing in &mut preview.missing {
                missing.why = format!("it suffices only if the scheduler happens to choose well; else {}", missing.why);
            }
        }
    }
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

#[cfg(test)]
mod tests;
