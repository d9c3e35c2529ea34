//! The control API of a whole agent on the simulated cluster, in process and under a paused clock.

mod world;

mod access;
mod batches;
mod rotations;
