//! How many bytes the cache keeps for a Pod: counted, not estimated.
//!
//! ```text
//! nothing ──nodes, budgets──▶ live ──Pods──▶ live      bytes for Pods = the difference: index by node, names, labels …
//! ```
//!
//! [`crate::alloc::Counting`] must be the allocator, and everything must happen on one thread.

use rotate_agent::cache::State;
use rotate_agent::cache::decode::{self, Encoded};

use crate::alloc;
use crate::realistic::Realistic;
use crate::wire::{self, Encoding};

/// What a cluster costs in the cache. Bytes are those asked of the allocator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Footprint {
    /// How many Pods.
    pub pods: usize,
    /// How many nodes.
    pub nodes: usize,
    /// What nodes and disruption budgets keep.
    pub node_bytes: i64,
    /// What Pods keep on top of that.
    pub pod_bytes: i64,
    /// The most that was allocated while Pods came in, on top of nodes and budgets, one decoded Pod included.
    pub peak_bytes: i64,
}

impl Footprint {
    /// Bytes for each Pod.
    #[must_use]
    pub fn bytes_a_pod(&self) -> f64 {
        ratio(self.pod_bytes, self.pods)
    }

    /// Bytes for each node, its share of the budgets included.
    #[must_use]
    pub fn bytes_a_node(&self) -> f64 {
        ratio(self.node_bytes, self.nodes)
    }
}

#[expect(clippy::cast_precision_loss, reason = "bytes of a machine's memory are far below 2⁵³")]
fn ratio(bytes: i64, among: usize) -> f64 {
    bytes as f64 / among as f64
}

/// Puts the cluster into a cache and counts. Pods are made in batches of this many; `around` is given the taking in of
/// each batch, to do it and, maybe, to see how long it takes.
#[must_use]
pub fn measure(
    cluster: &Realistic,
    encoding: Encoding,
    batch: usize,
    mut around: impl FnMut(&mut dyn FnMut()),
) -> (State, Footprint) {
    cluster.prepare(encoding);
    // Reused for each batch, and there before anything is counted.
    let mut buffer = Vec::with_capacity(batch * LARGEST);
    let mut ends = Vec::with_capacity(batch);
    let (mut state, node_bytes) = alloc::bytes_kept(|| surroundings(cluster, encoding));
    alloc::reset_peak();
    let before = alloc::counts();
    for first in (0..cluster.pods()).step_by(batch) {
        buffer.clear();
        ends.clear();
        for pod in first..cluster.pods().min(first + batch) {
            cluster.put_pod(pod, encoding, &mut buffer);
            ends.push(buffer.len());
        }
        around(&mut || {
            let starts = std::iter::once(0).chain(ends.iter().copied());
            starts.zip(&ends).for_each(|(start, end)| apply(&mut state, encoding, &buffer[start..*end]));
        });
    }
    let after = alloc::counts();
    let footprint = Footprint {
        pods: cluster.pods(),
        nodes: cluster.nodes(),
        node_bytes,
        pod_bytes: after.live - before.live,
        peak_bytes: after.peak - before.live,
    };
    (state, footprint)
}

/// No Pod is larger.
const LARGEST: usize = 12 << 10;

/// A cache that knows the cluster's nodes and budgets.
#[must_use]
pub fn surroundings(cluster: &Realistic, encoding: Encoding) -> State {
    let mut state = State::default();
    for number in 0..cluster.nodes() {
        let object = cluster.node(number, encoding);
        state.apply_node(decode::node(encoded(encoding, &object)).expect("a node can be read"));
    }
    for number in 0..cluster.budgets() {
        let object = cluster.pdb(number, encoding);
        state.apply_pdb(decode::pdb(encoded(encoding, &object)).expect("a budget can be read"));
    }
    state
}

/// Takes in one Pod.
pub fn apply(state: &mut State, encoding: Encoding, object: &[u8]) {
    state.apply_pod(&decode::pod(encoded(encoding, object)).expect("a Pod can be read"));
}

/// An object of [`Realistic`] as the decoder takes it.
#[must_use]
pub fn encoded(encoding: Encoding, object: &[u8]) -> Encoded<'_> {
    match encoding {
        Encoding::Json => Encoded::Json(std::str::from_utf8(object).expect("JSON is text")),
        Encoding::Protobuf => Encoded::Protobuf(wire::message_of(object)),
    }
}
