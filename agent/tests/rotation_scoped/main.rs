//! The whole rotations of `tests/rotation`, by an agent that reads only the Pods that they are about.

#![expect(clippy::unwrap_used, reason = "what cannot be set up fails the test")]

use rotate_agent::PodCache;

#[path = "../rotation/check.rs"]
mod check;
#[path = "../rotation/guard.rs"]
mod guard;
#[path = "../reservation/random.rs"]
mod random;
#[path = "../rotation/world.rs"]
mod world;

#[path = "../rotation/chaos.rs"]
mod chaos;
#[path = "../rotation/drain.rs"]
mod drain;
#[path = "../rotation/faults.rs"]
mod faults;
#[path = "../rotation/hook.rs"]
mod hook;
#[path = "../rotation/leaders.rs"]
mod leaders;
#[path = "../rotation/pressure.rs"]
mod pressure;
#[path = "../rotation/restart.rs"]
mod restart;
#[path = "../rotation/single.rs"]
mod single;
#[path = "../rotation/surge.rs"]
mod surge;

mod scopes;

/// What every agent in here reads.
const POD_CACHE: PodCache = PodCache::Scoped;
