//! cluster-autoscaler: groups of equal nodes, known by the labels of those who manage them.

use jiff::Timestamp;
use rotate_shared::options::Then;
use rotate_shared::plan::Notice;
use rotate_shared::{Code, Options};

use super::{Driver, Explained, Headroom, Order, ProviderObjects, Removal, machine_runs_on};
use crate::cache::{Node, State};

/// Labels of managed node groups, which cluster-autoscaler scales: EKS, GKE, AKS.
pub(super) const GROUP_LABELS: [&str; 3] =
    ["eks.amazonaws.com/nodegroup", "cloud.google.com/gke-nodepool", "kubernetes.azure.com/agentpool"];

/// cluster-autoscaler's driver.
#[derive(Clone, Copy, Debug)]
pub struct ClusterAutoscaler;

/// cluster-autoscaler's objects.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Objects {}

impl Driver for ClusterAutoscaler {
    fn detect(&self, node: &Node) -> bool {
        GROUP_LABELS.iter().any(|label| node.label(label).is_some())
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
        let remedy = "afterwards cluster-autoscaler removes it as unneeded, unless its group is at the minimum";
        let warning = Notice {
            code: Code::ProviderUnsupported,
            object: format!("Node {}", candidate.name),
            message: "cluster-autoscaler's group is not driven yet: once empty, the node stays, cordoned".to_owned(),
            remedy: remedy.to_owned(),
        };
        Explained { warnings: vec![warning], ..Explained::default() }
    }
}
