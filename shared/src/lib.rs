//! What kubectl-rotate and its agent say to each other: wire types, names, codes; no I/O.

pub mod cache;
pub mod causes;
mod code;
pub mod exit;
pub mod fleet;
pub mod host;
pub mod names;
mod object;
pub mod options;
pub mod plan;
pub mod problem;
pub mod quantity;
pub mod rotation;
pub mod version;

pub use cache::{CacheInfo, FeedInfo};
pub use code::Code;
pub use fleet::{NodeList, NodeSummary};
pub use object::Object;
pub use options::{Options, OptionsRequest, SurgeMode, Then};
pub use plan::{Plan, PlanList, PlanRequest};
pub use problem::Problem;
pub use quantity::{Amounts, Quantity};
pub use rotation::{CancelRequest, Phase, Rotation, RotationList, RotationRequest};
pub use version::{Skew, VersionInfo};

/// The `apiVersion` of every object that we serve or print.
pub const API_VERSION: &str = "kubectl-rotate.dev/v1";
