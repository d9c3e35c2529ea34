//! Which Pods count, how much room they need, where it may be, and whether it is held.
//!
//! Everything here is a pure function over values; [`crate::rotation`] acts on the answers.

pub mod classify;
pub mod constraints;
pub mod fit;
pub mod matching;
mod pin;
pub mod placeholder;
pub mod plan;
pub mod requests;
mod terms;
