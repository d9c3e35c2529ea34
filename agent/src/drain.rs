//! Evictions: in which order, what the API server's answers mean, and what blocks.

pub mod ask;
pub mod blockers;
pub mod deletion;
pub mod evict;
pub mod order;
