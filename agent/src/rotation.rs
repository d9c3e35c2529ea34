//! The rotation state machine: records, the pure step, and what carries its effects out.
//!
//! ```text
//!            ┌────────── store (ConfigMaps) ◀── people's requests
//!            ▼
//! cache ─▶ observe ─▶ step ─▶ record written first, then execute ─▶ API server
//!            ▲ Memory: what calls answered, until the cache shows it
//! ```

pub mod effect;
pub mod observation;
pub mod record;
pub mod step;
pub mod store;
pub mod views;
