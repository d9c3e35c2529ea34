//! The control API, its authentication, and the ops port.
//!
//! ```text
//! in process ───────────────────┐
//!                               ▼
//! control port ─▶ listener ─▶ auth ─▶ control::router ─▶ cache, views (read) · records (written)
//! TLS port ─────▶ listener ─▶ auth ────▲
//! ops port ─────▶ listener ──────────▶ ops::router ─▶ counts only: no node or Pod names
//! ```
//!
//! Handlers read the cache and the rotations' views and write records and requests; they never call into the engine.

mod auth;
mod budget;
mod control;
mod create;
mod events;
mod extract;
mod health;
mod idempotency;
mod limits;
pub(crate) mod listener;
mod looks;
mod metrics;
mod nodes;
mod openapi;
mod ops;
mod plans;
mod problem;
mod rotations;
mod slots;
mod state;
mod strict;
mod targets;
#[cfg(test)]
pub(crate) mod testing;
pub(crate) mod traffic;

#[cfg(test)]
pub(crate) use auth::needs;
pub(crate) use auth::{guard, guard_open};
pub(crate) use control::router as control_router;
pub(crate) use looks::Looks;
pub(crate) use ops::router as ops_router;
pub(crate) use state::Api;
