//! The rotation state machine: records, the pure step, and what carries its effects out.
//!
//! ```text
//!            ┌────────── store (ConfigMaps) ◀── people's requests
//!            ▼
//! cache ─▶ observe ─▶ step ─▶ record written first, then execute ─▶ API server
//!            ▲                                                 │
//!            └─ Memory: what calls answered, until the cache shows it
//! ```

mod ages;
mod engine;
mod execute;
mod history;
mod memory;
mod observe;
mod progress;
mod recover;
pub(crate) mod scopes;
mod slots;
#[cfg(test)]
mod testing;

pub mod effect;
pub mod observation;
pub mod record;
pub mod step;
pub mod store;
pub mod views;

pub use engine::{Engine, EngineConfig};
pub use execute::marks::take_all_off;
