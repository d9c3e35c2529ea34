//! The rotation state machine: records, the pure step, and what carries its effects out.

pub mod record;
pub mod store;
pub mod views;
