//! What stands behind a node: who brings new ones, and who takes this one away.

use rotate_shared::options::Then;
use rotate_shared::plan::{Notice, Provider};
use rotate_shared::{Code, Options, names};

use crate::cache::Node;

/// The label that Karpenter puts on its nodes.
const KARPENTER_POOL: &str = "karpenter.sh/nodepool";
/// Labels of managed node groups, which cluster-autoscaler scales: EKS, GKE, AKS.
const GROUP_LABELS: [&str; 3] =
    ["eks.amazonaws.com/nodegroup", "cloud.google.com/gke-nodepool", "kubernetes.azure.com/agentpool"];

/// Detects the provider by the node's labels and annotations.
#[must_use]
pub fn detect(node: &Node) -> Provider {
    if node.label(KARPENTER_POOL).is_some() {
        Provider::Karpenter
    } else if node.annotations.contains_key(names::CLUSTER_API_MACHINE) {
        Provider::ClusterApi
    } else if GROUP_LABELS.iter().any(|label| node.label(label).is_some()) {
        Provider::ClusterAutoscaler
    } else {
        Provider::Unmanaged
    }
}

/// What becomes of the empty node: as asked, or kept: only the unmanaged way is driven so far.
#[must_use]
pub fn then(options: &Options, _provider: Provider) -> Then {
    options.then.unwrap_or(Then::Keep)
}

/// Whether anything is known that would make a node for Pods that find none.
#[must_use]
pub fn makes_nodes(provider: Provider) -> bool {
    provider != Provider::Unmanaged
}

/// What a person should know about the end of the node.
#[must_use]
pub fn notices(node: &Node, provider: Provider, options: &Options) -> Vec<Notice> {
    let about = |code, message: &str, remedy: String| Notice {
        code,
        object: format!("Node {}", node.name),
        message: message.to_owned(),
        remedy,
    };
    match (then(options, provider), provider) {
        (Then::Delete, Provider::Karpenter) | (Then::Uncordon, _) | (Then::Keep, Provider::Unmanaged) => Vec::new(),
        (Then::Delete, _) => {
            let message = "only the Node object is deleted: the machine behind it runs on, and is paid for";
            vec![about(Code::MachineRunsOn, message, "remove the machine where it was made".to_owned())]
        }
        (Then::Keep, Provider::Karpenter) => {
            let message = "Karpenter's NodeClaim is not driven yet: once empty, the node stays, cordoned";
            let remedy =
                format!("afterwards: kubectl delete node {}, upon which Karpenter ends the instance", node.name);
            vec![about(Code::ProviderUnsupported, message, remedy)]
        }
        (Then::Keep, Provider::ClusterApi) => {
            let message = "Cluster API's Machine is not driven yet: once empty, the node stays, cordoned";
            let machine = node.annotations.get(names::CLUSTER_API_MACHINE).map_or("", |name| &**name);
            let remedy = format!("afterwards, in the management cluster: kubectl delete machine {machine}");
            vec![about(Code::ProviderUnsupported, message, remedy)]
        }
        (Then::Keep, Provider::ClusterAutoscaler) => {
            let message = "cluster-autoscaler's group is not driven yet: once empty, the node stays, cordoned";
            let remedy = "afterwards cluster-autoscaler removes it as unneeded, unless its group is at the minimum";
            vec![about(Code::ProviderUnsupported, message, remedy.to_owned())]
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::surge::testing;

    fn labelled(label: &str) -> Node {
        testing::node("cand", &json!({ "metadata": { "labels": { label: "pool" } } }))
    }

    fn machine() -> Node {
        testing::node("cand", &json!({ "metadata": { "annotations": { "cluster.x-k8s.io/machine": "web-7f" } } }))
    }

    #[test]
    fn providers_are_known_by_what_they_leave_on_their_nodes() {
        assert_eq!(detect(&labelled("karpenter.sh/nodepool")), Provider::Karpenter);
        for label in GROUP_LABELS {
            assert_eq!(detect(&labelled(label)), Provider::ClusterAutoscaler, "{label}");
        }
        assert_eq!(detect(&machine()), Provider::ClusterApi);
        assert_eq!(detect(&testing::node("cand", &json!({}))), Provider::Unmanaged);
    }

    #[test]
    fn the_node_is_kept_unless_something_else_is_asked_for() {
        assert_eq!(then(&Options::default(), Provider::Karpenter), Then::Keep);
        let options = Options { then: Some(Then::Delete), ..Options::default() };
        assert_eq!(then(&options, Provider::Unmanaged), Then::Delete);
    }

    #[test]
    fn deleting_a_plain_node_warns_that_its_machine_runs_on() {
        let node = testing::node("cand", &json!({}));
        let options = Options { then: Some(Then::Delete), ..Options::default() };
        let codes: Vec<_> = notices(&node, Provider::Unmanaged, &options).iter().map(|notice| notice.code).collect();
        assert_eq!(codes, [Code::MachineRunsOn]);
        assert!(notices(&node, Provider::Unmanaged, &Options::default()).is_empty());
    }

    #[test]
    fn a_provider_that_is_not_driven_is_said_with_the_command_that_removes_the_node() {
        let [notice] = &notices(&machine(), Provider::ClusterApi, &Options::default())[..] else {
            panic!("one notice")
        };
        assert_eq!(notice.code, Code::ProviderUnsupported);
        assert!(notice.remedy.ends_with("kubectl delete machine web-7f"), "{}", notice.remedy);
    }
}
