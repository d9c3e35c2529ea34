//! Whole rotations by the agent on the simulated cluster, in process and under a paused clock.

mod check;
mod world;

mod drain;
mod faults;
mod pressure;
mod restart;
mod surge;
