//! The control API, its authentication, and the ops port.
//!
//! ```text
//! in process ───────────────────┐
//!                               ▼
//! control port ──▶ auth ──▶ control::router ──▶ cache, views (read) · records (written)
//! ops port ───────────────▶ ops::router     ──▶ counts only: no node or Pod names
//! ```
//!
//! Handlers read the cache and the rotations' views and write records and requests; they never call into the engine.

mod auth;
mod control;
mod events;
mod extract;
mod ops;
mod problem;
mod rotations;
mod state;
#[cfg(test)]
mod testing;

pub(crate) use auth::{guard, guard_open};
pub(crate) use control::router as control_router;
pub(crate) use ops::router as ops_router;
pub(crate) use state::Api;
