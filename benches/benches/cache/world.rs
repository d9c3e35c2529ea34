//! A cluster in a cache, and what it took to get it there.

use std::time::Duration;

use criterion::measurement::{Measurement as _, WallTime};
use rotate_agent::cache::State;
use rotate_benches::footprint::{self, Footprint};
use rotate_benches::realistic::Realistic;
use rotate_benches::wire::Encoding;

/// Pods whose making is not timed, whose taking in is.
const BATCH: usize = 1_000;

/// A realistic cluster in a cache.
pub(crate) struct World {
    pub(crate) cluster: Realistic,
    pub(crate) state: State,
    pub(crate) grown: Grown,
}

/// What it took to get it there.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Grown {
    pub(crate) footprint: Footprint,
    /// To decode and apply all Pods once, without a network.
    pub(crate) sync: Duration,
}

impl World {
    pub(crate) fn new(pods: usize) -> Self {
        Self::of(Realistic::new(pods, Realistic::nodes_for(pods)))
    }

    pub(crate) fn hostile(pods: usize) -> Self {
        Self::of(Realistic::hostile(pods, Realistic::nodes_for(pods)))
    }

    fn of(cluster: Realistic) -> Self {
        let mut sync = Duration::ZERO;
        let (state, footprint) = footprint::measure(&cluster, Encoding::Protobuf, BATCH, |take_in| {
            let started = WallTime.start();
            take_in();
            sync += WallTime.end(started);
        });
        Self { cluster, state, grown: Grown { footprint, sync } }
    }
}
