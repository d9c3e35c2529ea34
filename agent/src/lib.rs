//! The agent: holds the Pods of the cluster in little memory, reserves room, rotates nodes, answers over HTTP.
//!
//! ```text
//! watch ──▶ cache ──▶ rotation::observe ──▶ rotation::step ──▶ rotation::execute ──▶ API server
//!             ▲                                                                         │
//!             └────────────────────────── watch ◀───────────────────────────────────────┘
//! ```

pub mod access;
pub mod bootstrap;
pub mod cache;
pub mod cli;
pub mod clock;
pub mod drain;
pub mod http;
pub mod lease;
pub mod probe;
pub mod provider;
pub mod rotation;
pub mod serve;
pub mod surge;

mod agent;
pub mod client;
pub mod signals;

#[cfg(feature = "tls")]
pub use http::listener::tls::{CertificateError, Files as CertificateFiles};

pub use agent::{Agent, AgentError, Config, Listen, PodCache};
