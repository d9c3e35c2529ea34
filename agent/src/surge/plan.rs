//! The plan of one node, from the cache or from saved objects alike.

use jiff::Timestamp;
use rotate_shared::{Options, Plan};

use crate::cache::{State, Volumes};

/// Plans the rotation of a node. `None`: no such node.
#[must_use]
pub fn plan(_state: &State, _node: &str, _volumes: &Volumes, _options: &Options, _now: Timestamp) -> Option<Plan> {
    unimplemented!()
}
