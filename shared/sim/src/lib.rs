//! A simulated Kubernetes cluster: its API, scheduler, kubelets and controllers, in one process.
//!
//! ```text
//!  client ──▶ api ──▶ store ──▶ watches ──▶ client
//!                       ▲ │
//!                       │ ▼ each change wakes
//!          scheduler, kubelet, controllers        every change also writes the log
//! ```
//!
//! Time is tokio's: under a paused runtime the cluster runs as fast as it can, and the same seed gives the same run.

mod access;
mod admission;
mod api;
mod clock;
mod cluster;
mod controllers;
mod faults;
mod figures;
mod kind;
mod kubelet;
mod log;
mod object;
pub mod objects;
mod quantity;
mod random;
mod requests;
mod scheduler;
mod settings;
mod sim;
mod status;
mod store;

pub use faults::{Effect, Fault, Faults};
pub use figures::{Figures, Select, figures};
pub use kubelet::{NEVER_STARTS, POD_START, READY_AFTER, RUNS_FOR};
pub use log::{Event, LogEntry};
pub use objects::NodeSpec;
pub use quantity::{Amounts, requests as pod_requests};
pub use requests::RequestEntry;
pub use settings::{Access, Identity, InstanceType, Karpenter, Provisioner, Rule, Settings};
pub use sim::Sim;
