//! The rotation state machine: records, the pure step, and what carries its effects out.

pub mod views;
