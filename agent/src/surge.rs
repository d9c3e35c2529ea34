//! Which Pods count, how much room they need, where it may be, and whether it is held.
//!
//! Everything here is a pure function over values; [`crate::rotation`] acts on the answers.

pub mod classify;
pub mod constraints;
pub(crate) mod do_not_disrupt;
pub mod fit;
pub mod matching;
pub mod moves;
mod pin;
pub mod placeholder;
pub mod plan;
pub(crate) mod promise;
pub mod requests;
mod room;
mod single;
mod terms;
#[cfg(test)]
pub(crate) mod testing;
pub mod told;
