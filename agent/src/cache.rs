//! The Pods, nodes and disruption budgets of the cluster, trimmed, indexed, and summed up by node.
//!
//! ```text
//! feed (list + watch) ──bytes──▶ decode ──Pod──▶ index::State ──▶ answers
//!                                                   │ interns Shape, Labels, names
//! ```
//!
//! One task for each kind writes its own objects into the [`State`]; readers take a [`Cache::read`] guard, never across
//! an await.

pub mod coverage;
pub mod decode;
pub mod feed;
pub mod index;
pub mod nodes;
pub mod pdbs;
pub mod pod;
pub mod resources;
pub mod selector;
pub mod shape;
pub mod snapshot;
pub mod volumes;
pub mod wanted;

mod handle;

pub use handle::Cache;
pub use index::{Kind, Partition, State};
pub use nodes::Node;
pub use pdbs::Pdb;
pub use pod::{Owner, Pod, PodPhase};
pub use resources::Resources;
pub use shape::Shape;
pub use volumes::Volumes;
