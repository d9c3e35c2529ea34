//! Karpenter: NodePools bring nodes, a NodeClaim stands behind each.

use jiff::Timestamp;
use rotate_shared::options::Then;
use rotate_shared::plan::Notice;
use rotate_shared::{Code, Options};

use super::{Driver, Explained, Headroom, Order, ProviderObjects, Removal};
use crate::cache::{Node, State};

/// The label that Karpenter puts on its nodes.
const POOL: &str = "karpenter.sh/nodepool";

/// Karpenter's driver.
#[derive(Clone, Copy, Debug)]
pub struct Karpenter;

/// Karpenter's objects.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Objects {}

impl Driver for Karpenter {
    fn detect(&self, node: &Node) -> bool {
        node.label(POOL).is_some()
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
            return Explained::default();
        }
        let warning = Notice {
            code: Code::ProviderUnsupported,
            object: format!("Node {}", candidate.name),
            message: "Karpenter's NodeClaim is not driven yet: once empty, the node stays, cordoned".to_owned(),
            remedy: format!(
                "afterwards: kubectl delete node {}, upon which Karpenter ends the instance",
                candidate.name
            ),
        };
        Explained { warnings: vec![warning], ..Explained::default() }
    }
}
