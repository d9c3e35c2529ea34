//! Whole rotations by the agent on the simulated cluster, in process and under a paused clock.

#![expect(clippy::unwrap_used, reason = "what cannot be set up fails the test")]

use rotate_agent::PodCache;

mod check;
mod guard;
#[path = "../reservation/random.rs"]
mod random;
mod world;

mod chaos;
mod drain;
mod faults;
mod hook;
mod karpenter;
mod leaders;
mod pressure;
mod restart;
mod single;
mod surge;

/// What every agent in here reads; `tests/rotation_scoped` runs the same tests with the other.
const POD_CACHE: PodCache = PodCache::Cluster;
