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
mod create;
mod events;
mod extract;
mod health;
mod metrics;
mod nodes;
mod ops;
mod plans;
mod problem;
mod rotations;
mod state;
mod targets;
#[cfg(test)]
pub(crate) mod testing;

#[cfg(test)]
pub(crate) use auth::needs;
pub(crate) use auth::{guard, guard_open};
pub(crate) use control::router as control_router;
pub(crate) use ops::router as ops_router;
pub(crate) use state::Api;
