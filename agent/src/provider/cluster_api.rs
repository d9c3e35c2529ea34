//! Cluster API: a Machine stands behind a node, usually in another cluster.

use jiff::Timestamp;
use rotate_shared::options::Then;
use rotate_shared::plan::Notice;
use rotate_shared::{Code, Options, names};

use super::{Driver, Explained, Headroom, Order, ProviderObjects, Removal, machine_runs_on};
use crate::cache::{Node, State};

/// Cluster API's driver.
#[derive(Clone, Copy, Debug)]
pub struct ClusterApi;

/// Cluster API's objects.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Objects {}

impl Driver for ClusterApi {
    fn detect(&self, node: &Node) -> bool {
        node.annotations.contains_key(names::CLUSTER_API_MACHINE)
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
        if options.then.is_some_and(|then| then != Then::Keep) {
            return Explained {
                warnings: machine_runs_on(candidate, options).into_iter().collect(),
                ..Explained::default()
            };
        }
        let machine = candidate.annotations.get(names::CLUSTER_API_MACHINE).map_or("", |name| &**name);
        let warning = Notice {
            code: Code::ProviderUnsupported,
            object: format!("Node {}", candidate.name),
            message: "Cluster API's Machine is not driven yet: once empty, the node stays, cordoned".to_owned(),
            remedy: format!("afterwards, in the management cluster: kubectl delete machine {machine}"),
        };
        Explained { warnings: vec![warning], ..Explained::default() }
    }
}
