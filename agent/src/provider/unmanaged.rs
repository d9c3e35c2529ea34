//! Nodes of which nothing is known: nobody brings more, nobody takes them away.

use jiff::Timestamp;
use rotate_shared::Options;
use rotate_shared::options::Then;

use super::{Driver, Explained, Headroom, Order, ProviderObjects, Removal, machine_runs_on};
use crate::cache::{Node, State};

/// The driver of what has no provider.
#[derive(Clone, Copy, Debug)]
pub(super) struct Unmanaged;

impl Driver for Unmanaged {
    fn detect(&self, _node: &Node, _objects: &ProviderObjects) -> bool {
        true
    }

    fn order(&self, _candidate: &Node, _objects: &ProviderObjects) -> Option<Order> {
        None
    }

    fn headroom(&self, _state: &State, _objects: &ProviderObjects, _now: Timestamp) -> Vec<Headroom> {
        Vec::new()
    }

    fn default_then(&self, _candidate: &Node, _objects: &ProviderObjects) -> Then {
        Then::Keep
    }

    fn remove(&self, _node: &Node, _objects: &ProviderObjects) -> Removal {
        Removal::NodeObject
    }

    fn taken(&self, _node: &Node, _objects: &ProviderObjects) -> Option<String> {
        None
    }

    fn explain(
        &self,
        candidate: &Node,
        _state: &State,
        _objects: &ProviderObjects,
        options: &Options,
        _now: Timestamp,
    ) -> Explained {
        Explained { warnings: machine_runs_on(candidate, options).into_iter().collect(), ..Explained::default() }
    }
}
