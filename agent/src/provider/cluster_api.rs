//! Cluster API: a Machine stands behind a node, usually in another cluster.
//!
//! ```text
//! node (annotations) ──▶ Standing: whose Machine it is ──▶ order | headroom | removal | notices
//!                            ▲
//! management cluster ──read──┘      act: what is written there
//! ```
//!
//! Where an autoscaler keeps a MachineDeployment's size, placeholders are order enough; elsewhere one replica more is
//! ordered for the rotation, and goes back with the candidate's Machine.

mod act;
mod explain;
mod management;
mod objects;

use jiff::Timestamp;
use rotate_shared::options::Then;
use rotate_shared::plan::Provider;
use rotate_shared::{Options, names};

pub use management::{Management, ManagementError};
pub use objects::{
    CLUSTER_NAME, CLUSTER_NAMESPACE, Cluster, Deployment, Key, Machine, OWNER_KIND, OWNER_NAME, Objects, Reach,
};

use super::{Driver, Explained, Headroom, Loan, NewNode, Order, ProviderObjects, Removal};
use crate::cache::{Node, State};

/// Cluster API's driver.
#[derive(Clone, Copy, Debug)]
pub struct ClusterApi;

/// What is known of a node's Machine.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Standing<'a> {
    /// Nobody told us where it is.
    NotConfigured,
    /// It cannot be asked for, because of this.
    Unreadable(&'a str),
    /// There is none, although the node names it.
    Missing(Key),
    /// A MachineDeployment's.
    Worker { machine: Key, seen: &'a Machine, key: Key, deployment: &'a Deployment },
    /// Another owner's, or nobody's.
    Other { machine: Key, seen: &'a Machine, owner: Owner<'a> },
}

/// What owns a Machine that no MachineDeployment owns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Owner<'a> {
    /// A MachineSet that stands alone: it replaces what is deleted.
    Set(&'a str),
    /// What keeps the control plane: kind and name.
    ControlPlane(&'a str, &'a str),
    /// A MachinePool, which the infrastructure scales.
    Pool(&'a str),
    /// Something unknown: kind and name.
    Unknown(&'a str, &'a str),
    /// Nothing.
    Nobody,
}

/// The Machine that a removal takes away.
pub(super) fn machine_removed(removal: &Removal) -> Option<Key> {
    match removal {
        Removal::Machine { namespace, name, .. } => Some(Key::new(namespace, name)),
        _ => None,
    }
}

/// The MachineDeployment that an order is of.
pub(crate) fn ordered_of(order: &Order) -> Key {
    let Order::MachineDeployment { namespace, name, .. } = order;
    Key::new(namespace, name)
}

/// Where the node's Cluster is.
pub(super) fn cluster_of(node: &Node) -> Option<Key> {
    objects::cluster_of(node)
}

/// Whose Machine the node's is.
fn standing<'a>(node: &Node, objects: &'a Objects) -> Standing<'a> {
    match &objects.reach {
        Reach::NotConfigured => return Standing::NotConfigured,
        Reach::Failed(why) => return Standing::Unreadable(why),
        Reach::Read => {}
    }
    let Some(machine) = objects::machine_of(node) else {
        return Standing::Unreadable("the node does not say in which namespace its Machine is");
    };
    let Some(seen) = objects.machines.get(&machine) else { return Standing::Missing(machine) };
    let owner = match &seen.owner {
        Some((kind, name)) if seen.control_plane => Owner::ControlPlane(kind, name),
        None if seen.control_plane => Owner::ControlPlane("", ""),
        None => Owner::Nobody,
        Some((kind, name)) if kind == "MachinePool" => Owner::Pool(name),
        Some((kind, name)) if kind != "MachineSet" => Owner::Unknown(kind, name),
        Some((_, set)) => {
            let of = objects.sets.get(&Key::new(&machine.namespace, set)).and_then(Option::as_deref);
            let key = of.map(|name| Key::new(&machine.namespace, name));
            match key.and_then(|key| Some((objects.deployments.get(&key)?, key))) {
                Some((deployment, key)) => return Standing::Worker { machine, seen, key, deployment },
                None => Owner::Set(set),
            }
        }
    };
    Standing::Other { machine, seen, owner }
}

/// The rotation whose marks the node carries: as its candidate, or as a node that came for it.
fn rotation_of(node: &Node) -> Option<&str> {
    let mark = node.annotations.get(names::ROTATION).or_else(|| node.annotations.get(names::PROTECTED_BY))?;
    mark.split(':').next()
}

/// Whether the rotation whose marks the node carries has a replica on loan.
fn has_ordered(node: &Node, deployment: &Deployment) -> bool {
    rotation_of(node).is_some_and(|rotation| deployment.ordered_by.contains(rotation))
}

/// Why no replica can be ordered of a MachineDeployment, in words; `None`: one can.
fn unorderable(objects: &Objects, key: &Key, deployment: &Deployment) -> Option<String> {
    if let Some(why) = objects.paused(key, deployment) {
        return Some(why);
    }
    let fixed = objects.is_fixed(key, deployment);
    let cluster = &deployment.cluster;
    fixed.then(|| format!("the topology of Cluster {}/{cluster} says how many replicas it has", key.namespace))
}

impl Driver for ClusterApi {
    fn detect(&self, node: &Node, _objects: &ProviderObjects) -> bool {
        node.annotations.contains_key(names::CLUSTER_API_MACHINE)
    }

    fn order(&self, candidate: &Node, objects: &ProviderObjects) -> Option<Order> {
        let objects = &objects.cluster_api;
        let Standing::Worker { key, deployment, .. } = standing(candidate, objects) else { return None };
        let possible = deployment.bounds.is_none() && unorderable(objects, &key, deployment).is_none();
        (possible && !has_ordered(candidate, deployment)).then(|| Order::MachineDeployment {
            namespace: key.namespace,
            name: key.name,
            version: objects.version.clone(),
            replicas: deployment.replicas.saturating_add(1),
        })
    }

    fn headroom(&self, state: &State, objects: &ProviderObjects, _now: Timestamp) -> Vec<Headroom> {
        let objects = &objects.cluster_api;
        let asked = |key: &Key| {
            let of = |machine: &Key, seen: &Machine| {
                let (kind, set) = seen.owner.as_ref()?;
                let set = (kind == "MachineSet").then(|| Key::new(&machine.namespace, set))?;
                Some(Key::new(&machine.namespace, objects.sets.get(&set)?.as_deref()?))
            };
            objects.machines.iter().any(|(machine, seen)| of(machine, seen).as_ref() == Some(key))
        };
        let of = |(key, deployment): (&Key, &Deployment)| {
            let (left, limit) = match (deployment.bounds, objects.paused(key, deployment)) {
                (_, Some(why)) => (0, why),
                (Some((_, maximum)), None) => {
                    let limit = format!("its maximum is {maximum}, it has {} replicas", deployment.replicas);
                    (maximum.saturating_sub(deployment.replicas), limit)
                }
                // Only the candidate's own is ordered of.
                (None, None) if !asked(key) => return None,
                (None, None) => match unorderable(objects, key, deployment) {
                    Some(why) => (0, why),
                    None => (1, "one replica is ordered for a rotation".to_owned()),
                },
            };
            let members = state.nodes().filter(|node| objects.deployment_of(node).as_ref() == Some(key));
            let members: Vec<&Node> = members.map(|node| &**node).collect();
            Some(Headroom {
                source: format!("MachineDeployment {key}"),
                nodes_left: Some(left),
                resources_left: rotate_shared::Amounts::new(),
                limit,
                shapes: NewNode::like(&members, state).into_iter().collect(),
            })
        };
        objects.deployments.iter().filter_map(of).collect()
    }

    fn default_then(&self, candidate: &Node, objects: &ProviderObjects) -> Then {
        match standing(candidate, &objects.cluster_api) {
            // What cannot be read at this moment blocks a removal, and does not change what is meant by none being said.
            Standing::Worker { .. } | Standing::Other { owner: Owner::Set(_), .. } | Standing::Unreadable(_) => {
                Then::Delete
            }
            Standing::NotConfigured | Standing::Missing(_) | Standing::Other { .. } => Then::Keep,
        }
    }

    fn remove(&self, node: &Node, objects: &ProviderObjects) -> Removal {
        let objects = &objects.cluster_api;
        let removal = |machine: Key, seen: &Machine, shrink| Removal::Machine {
            namespace: machine.namespace,
            name: machine.name,
            uid: seen.uid.clone(),
            version: objects.version.clone(),
            shrink,
        };
        // What came for a rotation is settled with its order, or left to the autoscaler that brought it.
        if !node.annotations.contains_key(names::ROTATION) && node.annotations.contains_key(names::PROTECTED_BY) {
            return Removal::Left { to: "to its MachineDeployment".to_owned(), within: None };
        }
        match standing(node, objects) {
            Standing::NotConfigured | Standing::Missing(_) => Removal::NodeObject,
            Standing::Unreadable(why) => {
                Removal::Left { to: format!("whoever reaches its Machine: {why}"), within: None }
            }
            Standing::Worker { machine, seen, key, deployment } => {
                let shrink = has_ordered(node, deployment).then_some(key.name);
                removal(machine, seen, shrink)
            }
            Standing::Other { machine, seen, owner: Owner::Set(_) | Owner::Nobody } => removal(machine, seen, None),
            Standing::Other { owner, .. } => Removal::Left { to: owner.to_string(), within: None },
        }
    }

    fn removal(&self, node: &Node, since: Timestamp, state: &State, objects: &ProviderObjects) -> Removal {
        let mut removal = self.remove(node, objects);
        let (Standing::Worker { key, deployment, .. }, Removal::Machine { shrink, .. }) =
            (standing(node, &objects.cluster_api), &mut removal)
        else {
            return removal;
        };
        // Where its autoscaler has grown it since, nothing has to come in the candidate's place.
        let minimum = deployment.bounds.map_or(u32::MAX, |(minimum, _)| minimum);
        let came = |other: &Node| {
            let same = objects.cluster_api.deployment_of(other).as_ref() == Some(&key);
            other.name != node.name && other.created >= since && same
        };
        if deployment.replicas > minimum && state.nodes().any(|other| came(other)) {
            *shrink = Some(key.name);
        }
        removal
    }

    fn is_gone(&self, removal: &Removal, objects: &ProviderObjects) -> bool {
        let objects = &objects.cluster_api;
        let there = |machine: Key| objects.reach != Reach::Read || objects.machines.contains_key(&machine);
        !machine_removed(removal).is_some_and(there)
    }

    fn loan(&self, order: &Order, rotation: &str, since: Timestamp, state: &State, objects: &ProviderObjects) -> Loan {
        let objects = &objects.cluster_api;
        match &objects.reach {
            Reach::Read => {}
            Reach::NotConfigured => return Loan::Unknown("no management cluster is known any more".to_owned()),
            Reach::Failed(why) => return Loan::Unknown(why.clone()),
        }
        let key = ordered_of(order);
        // A MachineDeployment that is gone has nothing to be given back to.
        let Some(deployment) = objects.deployments.get(&key) else { return Loan::Settled };
        if !deployment.ordered_by.contains(rotation) {
            return Loan::Settled;
        }
        // Times are of whole seconds: one of the same second was there before, since none boots in less.
        let came = |node: &Node| node.created > since && objects.deployment_of(node).as_ref() == Some(&key);
        let came: Vec<_> = state.nodes().filter(|node| came(node)).collect();
        // Which node came for which of several orders nobody can tell: whichever is idle serves.
        let idle = came.iter().find(|node| {
            let others = rotation_of(node).is_some_and(|of| of != rotation);
            !others && !state.hosts_real_pods(&node.name)
        });
        match idle.and_then(|node| Some((node, objects::machine_of(node)?))) {
            Some((node, machine)) => Loan::Idle(
                node.name.to_string(),
                Removal::Machine {
                    namespace: machine.namespace,
                    name: machine.name,
                    uid: String::new(),
                    version: objects.version.clone(),
                    shrink: Some(key.name),
                },
            ),
            None if came.len() < deployment.ordered_by.len() => Loan::Coming,
            None => Loan::InUse,
        }
    }

    fn taken(&self, node: &Node, objects: &ProviderObjects) -> Option<String> {
        let (Standing::Worker { machine, seen, .. } | Standing::Other { machine, seen, .. }) =
            standing(node, &objects.cluster_api)
        else {
            return None;
        };
        let since = seen.deleted.as_ref()?;
        Some(format!("Machine {machine} is being deleted since {since}"))
    }

    fn explain(
        &self,
        candidate: &Node,
        _state: &State,
        objects: &ProviderObjects,
        options: &Options,
        _now: Timestamp,
    ) -> Explained {
        let then = super::then(options, Provider::ClusterApi, candidate, objects);
        explain::explain(candidate, &objects.cluster_api, then)
    }
}

impl std::fmt::Display for Owner<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Set(name) => write!(f, "MachineSet {name}"),
            Self::Pool(name) => write!(f, "MachinePool {name}"),
            Self::ControlPlane("", _) => f.write_str("whoever keeps the control plane"),
            Self::ControlPlane(kind, name) | Self::Unknown(kind, name) => write!(f, "{kind} {name}"),
            Self::Nobody => f.write_str("nobody"),
        }
    }
}

#[cfg(test)]
mod tests;
