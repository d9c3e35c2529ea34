//! Which group a node is of: by the labels of those who manage groups, and by the names that clouds give them.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use crate::cache::{Node, State};

/// Whose label a group is known by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Manager {
    /// A managed node group of EKS.
    Eks,
    /// A node pool of GKE: one group a zone.
    Gke,
    /// A node pool of AKS.
    Aks,
    /// A group of one's own, by a label that the agent was told of.
    Own,
}

/// A group of equal nodes, as its label names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Group<'a> {
    /// Whose label it is known by.
    pub manager: Manager,
    /// The label's value.
    pub name: &'a str,
}

/// What the agent was told about autoscaled groups.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Labels whose values name groups of one's own. Default none.
    pub labels: Vec<String>,
    /// Namespace and name of the ConfigMap in which cluster-autoscaler tells of its groups. Default
    /// `kube-system/cluster-autoscaler-status`.
    pub status: (String, String),
    /// Whether a hook ends machines. Default not.
    pub hook: bool,
}

/// Labels of managed node groups, which cluster-autoscaler scales.
pub(in crate::provider) const LABELS: [(&str, Manager); 4] = [
    ("eks.amazonaws.com/nodegroup", Manager::Eks),
    ("cloud.google.com/gke-nodepool", Manager::Gke),
    ("kubernetes.azure.com/agentpool", Manager::Aks),
    ("agentpool", Manager::Aks),
];

/// How many hexadecimal digits end the name of a GKE instance group, before `-grp`.
const GKE_HASH: usize = 8;
/// How long a UUID is.
const UUID: usize = 36;

impl Default for Settings {
    fn default() -> Self {
        let status = ("kube-system".to_owned(), "cluster-autoscaler-status".to_owned());
        Self { labels: Vec::new(), status, hook: false }
    }
}

// === impl Manager ===

impl Manager {
    /// What it is called, in lower case.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Eks => "eks",
            Self::Gke => "gke",
            Self::Aks => "aks",
            Self::Own => "own",
        }
    }
}

// === impl Group ===

impl<'a> Group<'a> {
    /// The group of a node; a label of one's own comes first.
    #[must_use]
    pub fn of(node: &'a Node, settings: &Settings) -> Option<Self> {
        let own = settings.labels.iter().map(|label| (&**label, Manager::Own));
        let mut labels = own.chain(LABELS);
        labels.find_map(|(label, manager)| Some(Self { manager, name: node.label(label).filter(|it| !it.is_empty())? }))
    }

    /// The groups that nodes are of.
    #[must_use]
    pub fn all(state: &'a State, settings: &Settings) -> BTreeSet<Self> {
        state.nodes().filter_map(|node| Self::of(node, settings)).collect()
    }

    /// Whether a cloud's group of this name is one of it. `node` is any of its nodes: GKE and AKS name nodes after
    /// their groups, which tells even where names are cut short.
    #[must_use]
    pub fn is_called(&self, name: &str, node: Option<&Node>) -> bool {
        let last = name.rsplit('/').next().unwrap_or(name);
        let named_after = |stem: &str| {
            let rest = node.and_then(|node| node.name.strip_prefix(stem));
            rest.is_some_and(|rest| rest.starts_with(|first: char| first == '-' || first.is_ascii_alphanumeric()))
        };
        match self.manager {
            Manager::Eks => {
                let rest = last.strip_prefix("eks-").and_then(|rest| rest.strip_prefix(self.name));
                rest.and_then(|rest| rest.strip_prefix('-')).is_some_and(is_uuid) || last == self.name
            }
            Manager::Gke => match last.strip_suffix("-grp") {
                Some(stem) => {
                    let base = stem.rsplit_once('-').filter(|(_, hash)| hash.len() == GKE_HASH && is_hex(hash));
                    named_after(&format!("{stem}-"))
                        || base.is_some_and(|(base, _)| base.ends_with(&format!("-{}", self.name)))
                }
                None => last == self.name,
            },
            Manager::Aks => match last.strip_suffix("-vmss") {
                Some(stem) => {
                    let rest = stem.strip_prefix("aks-").and_then(|rest| rest.strip_prefix(self.name));
                    named_after(last) || rest.and_then(|rest| rest.strip_prefix('-')).is_some_and(is_hex)
                }
                None => last == self.name,
            },
            Manager::Own => name == self.name || last == self.name,
        }
    }

    /// As it is called in a plan.
    #[must_use]
    pub fn in_words(&self) -> String {
        match self.manager {
            Manager::Own => format!("group {}", self.name),
            manager => format!("group {} ({})", self.name, manager.name()),
        }
    }
}

/// The zone in the name of a group that is one zone's: GKE's groups are called by their address.
pub(super) fn zone_in(name: &str) -> Option<&str> {
    let mut parts = name.split('/');
    parts.find(|part| *part == "zones")?;
    parts.next()
}

fn is_hex(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_hexdigit())
}

fn is_uuid(text: &str) -> bool {
    text.len() == UUID && text.bytes().all(|byte| byte.is_ascii_hexdigit() || byte == b'-')
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::surge::testing;

    fn group(manager: Manager, name: &str) -> Group<'_> {
        Group { manager, name }
    }

    #[test]
    fn groups_are_found_under_the_names_that_clouds_give_them() {
        let uuid = "2c1f9d3b-a8e2-4f11-9c3e-8b7a6d5e4f30";
        let mig = "https://www.googleapis.com/compute/v1/projects/p/zones/us-east1-b/instanceGroups/";
        for (group, name) in [
            (group(Manager::Eks, "workers"), format!("eks-workers-{uuid}")),
            (group(Manager::Gke, "pool-1"), format!("{mig}gke-prod-pool-1-abc12345-grp")),
            (group(Manager::Aks, "nodepool1"), "aks-nodepool1-32450193-vmss".to_owned()),
            (group(Manager::Own, "web"), "web".to_owned()),
            (group(Manager::Own, "md-0"), "MachineDeployment/default/md-0".to_owned()),
        ] {
            assert!(group.is_called(&name, None), "{name}");
        }
        for (group, name) in [
            (group(Manager::Eks, "work"), format!("eks-workers-{uuid}")),
            (group(Manager::Eks, "workers"), format!("eks-workers-spot-{uuid}")),
            (group(Manager::Gke, "pool-2"), format!("{mig}gke-prod-pool-1-abc12345-grp")),
            (group(Manager::Aks, "nodepool"), "aks-nodepool1-32450193-vmss".to_owned()),
            (group(Manager::Own, "web"), "web-2".to_owned()),
        ] {
            assert!(!group.is_called(&name, None), "{name}");
        }
    }

    #[test]
    fn a_nodes_own_name_tells_where_names_are_cut_short() {
        let node = |name| testing::node(name, &json!({}));
        let gke = group(Manager::Gke, "a-very-long-name-of-a-pool");
        assert!(gke.is_called("gke-prod-a-very-lon-abc12345-grp", Some(&node("gke-prod-a-very-lon-abc12345-x7fq"))));
        assert!(!gke.is_called("gke-prod-a-very-lon-abc12345-grp", Some(&node("gke-prod-a-very-lon-99912345-x7fq"))));
        let aks = group(Manager::Aks, "np");
        assert!(aks.is_called("aks-np-1-vmss", Some(&node("aks-np-1-vmss000002"))));
    }

    #[test]
    fn a_label_of_ones_own_comes_first() {
        let labels = json!({ "metadata": { "labels": { "agentpool": "p", "team/group": "web" } } });
        let node = testing::node("n", &labels);
        assert_eq!(Group::of(&node, &Settings::default()), Some(group(Manager::Aks, "p")));
        let settings = Settings { labels: vec!["team/group".to_owned()], ..Settings::default() };
        assert_eq!(Group::of(&node, &settings), Some(group(Manager::Own, "web")));
    }

    #[test]
    fn the_zone_of_a_gke_group_is_in_its_address() {
        assert_eq!(zone_in("https://x/projects/p/zones/us-east1-b/instanceGroups/g"), Some("us-east1-b"));
        assert_eq!(zone_in("eks-web"), None);
    }
}
