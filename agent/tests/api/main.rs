//! The control API of a whole agent on the simulated cluster: in process and under a paused clock, over sockets, and as a
//! process.

// clippy takes helpers for parts of tests only within what is marked as such.
#[cfg(test)]
mod guarded;
#[cfg(test)]
mod program;
#[cfg(test)]
mod world;

#[cfg(test)]
mod access;
#[cfg(test)]
mod batches;
#[cfg(test)]
mod hostile;
#[cfg(test)]
#[cfg(target_os = "linux")]
mod pause;
#[cfg(test)]
mod process;
#[cfg(test)]
mod rotations;
