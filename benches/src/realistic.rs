//! A realistic cluster, the same each time: objects as an API server sends them, in JSON and in protobuf, each Pod made
//! when it is asked for.
//!
//! ```text
//! number of a Pod ──▶ Workload ──(Stage, Encoding)──▶ Piece, encoded once ─┐
//!                 └──▶ Identity (name, uid, node, times …) ───────────────┴─fill──▶ bytes
//! ```

mod fields;
mod identity;
mod node;
mod owner;
mod pdb;
mod pod;
mod random;
mod spec;
mod workload;

use std::collections::HashMap;
use std::sync::{Arc, PoisonError, RwLock};

pub use identity::{Place, node_name};
pub use pod::Stage;
pub use random::mix;
pub use workload::{Control, Workload};

use identity::Identity;
use serde_json::Value;

use crate::wire::{Encoding, Piece, Widths};

/// A cluster of this many Pods and nodes.
#[derive(Debug)]
pub struct Realistic {
    pods: usize,
    nodes: usize,
    workloads: Vec<Workload>,
    /// Those that have a disruption budget.
    budgets: Vec<usize>,
    pieces: RwLock<HashMap<Key, Arc<Piece>>>,
}

/// What Pods with the same piece have in common: the workload's place, the length of what differs in length, the stage.
type Key = (usize, Widths, Stage, Encoding);

impl Realistic {
    /// 60 % of the Pods are of up to a thousand Deployments, 15 % of StatefulSets, 15 % of Jobs (half of them have a Job
    /// each), 10 % of DaemonSets.
    #[must_use]
    pub fn new(pods: usize, nodes: usize) -> Self {
        Self::of(workload::of_cluster(pods, nodes), nodes)
    }

    /// Pods that share as little as can be: three quarters are a workflow engine's, each with labels of its own, the
    /// rest have no controller.
    #[must_use]
    pub fn hostile(pods: usize, nodes: usize) -> Self {
        Self::of(workload::hostile(pods), nodes)
    }

    /// As many nodes as a cluster of this many Pods has: one for ten Pods, at most 5,000.
    #[must_use]
    pub fn nodes_for(pods: usize) -> usize {
        (pods / 10).clamp(10, 5_000)
    }

    fn of(workloads: Vec<Workload>, nodes: usize) -> Self {
        let pods = workloads.last().map_or(0, |last| last.first + last.pods);
        let budgets = (0..workloads.len()).filter(|at| pdb::has(&workloads[*at])).collect();
        Self { pods, nodes, workloads, budgets, pieces: RwLock::default() }
    }

    /// How many Pods.
    #[must_use]
    pub fn pods(&self) -> usize {
        self.pods
    }

    /// How many nodes.
    #[must_use]
    pub fn nodes(&self) -> usize {
        self.nodes
    }

    /// The workloads, in the order in which the API server lists their Pods.
    #[must_use]
    pub fn workloads(&self) -> &[Workload] {
        &self.workloads
    }

    /// The node with this number.
    #[must_use]
    pub fn node(&self, number: usize, encoding: Encoding) -> Vec<u8> {
        encoding.encode(&node::node(number as u64))
    }

    /// How many disruption budgets.
    #[must_use]
    pub fn budgets(&self) -> usize {
        self.budgets.len()
    }

    /// The disruption budget with this number.
    ///
    /// # Panics
    ///
    /// If there is none.
    #[must_use]
    pub fn pdb(&self, number: usize, encoding: Encoding) -> Vec<u8> {
        encoding.encode(&pdb::pdb(&self.workloads[self.budgets[number]]))
    }

    /// The stage of a Pod that is not replaced at the moment.
    #[must_use]
    pub fn settled(&self, pod: usize) -> Stage {
        let workload = &self.workloads[self.workload_of(pod)];
        if workload.control == Control::CronJob && !pod.is_multiple_of(4) { Stage::Succeeded } else { Stage::Ready }
    }

    /// Appends a Pod as it is when nothing happens.
    pub fn put_pod(&self, pod: usize, encoding: Encoding, out: &mut Vec<u8>) {
        self.put(Place { pod, generation: 0 }, self.settled(pod), pod as u64, encoding, out);
    }

    /// Appends a Pod as of this revision.
    pub fn put(&self, place: Place, stage: Stage, revision: u64, encoding: Encoding, out: &mut Vec<u8>) {
        let at = self.workload_of(place.pod);
        let workload = &self.workloads[at];
        let ordinal = if has_ordinal(workload.control) { digits(place.pod - workload.first) } else { 0 };
        let piece = self.piece((at, Widths { ordinal }, stage, encoding));
        piece.fill(&Identity::new(workload, place, self.nodes, revision), out);
    }

    /// Makes what all Pods are copied from, so that no one who asks for a Pod pays for it.
    pub fn prepare(&self, encoding: Encoding) {
        for (at, workload) in self.workloads.iter().enumerate() {
            let widths = if has_ordinal(workload.control) { 1..=digits(workload.pods - 1) } else { 0..=0 };
            for ordinal in widths {
                let stages = if workload.control == Control::CronJob {
                    [Stage::Ready, Stage::Succeeded]
                } else {
                    [Stage::Ready; 2]
                };
                for stage in stages {
                    self.piece((at, Widths { ordinal }, stage, encoding));
                }
            }
        }
    }

    fn workload_of(&self, pod: usize) -> usize {
        assert!(pod < self.pods, "there are {} Pods, none has number {pod}", self.pods);
        self.workloads.partition_point(|workload| workload.first <= pod) - 1
    }

    fn piece(&self, key: Key) -> Arc<Piece> {
        if let Some(piece) = self.pieces.read().unwrap_or_else(PoisonError::into_inner).get(&key) {
            return Arc::clone(piece);
        }
        let (at, widths, stage, encoding) = key;
        let object: Value = pod::pod(&self.workloads[at], stage);
        let piece = Arc::new(match encoding {
            Encoding::Json => Piece::json(&object, widths),
            Encoding::Protobuf => Piece::protobuf(&object, widths),
        });
        self.pieces.write().unwrap_or_else(PoisonError::into_inner).insert(key, Arc::clone(&piece));
        piece
    }
}

fn has_ordinal(control: Control) -> bool {
    matches!(control, Control::StatefulSet | Control::IndexedJob)
}

fn digits(number: usize) -> usize {
    number.checked_ilog10().map_or(1, |log| log as usize + 1)
}

#[cfg(test)]
mod tests;
