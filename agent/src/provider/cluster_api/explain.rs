//! What a person should know before a Cluster API node is rotated.

use rotate_shared::options::Then;
use rotate_shared::plan::Notice;
use rotate_shared::{Code, names};

use super::objects::{Deployment, Key, Machine, Objects};
use super::{Owner, Standing, standing, unorderable};
use crate::cache::Node;
use crate::provider::Explained;

/// Explains a rotation of the candidate that ends like this.
pub(super) fn explain(candidate: &Node, objects: &Objects, then: Then) -> Explained {
    let mut told = Told { node: format!("Node {}", candidate.name), then, explained: Explained::default() };
    match standing(candidate, objects) {
        Standing::NotConfigured => told.not_configured(candidate),
        Standing::Unreadable(why) => told.unreadable(why),
        Standing::Missing(machine) => told.missing(&machine),
        Standing::Worker { machine, seen, key, deployment } => {
            told.machine(&machine, seen);
            told.worker(objects, seen, &key, deployment);
        }
        Standing::Other { machine, seen, owner } => {
            told.machine(&machine, seen);
            told.other(objects, candidate, &machine, owner);
        }
    }
    told.explained
}

/// What is told, being gathered.
struct Told {
    node: String,
    then: Then,
    explained: Explained,
}

// === impl Told ===

impl Told {
    fn removes(&self) -> bool {
        self.then == Then::Delete
    }

    fn block(&mut self, code: Code, object: &str, message: impl Into<String>, remedy: impl Into<String>) {
        self.explained.blockers.push(notice(code, object, message.into(), remedy.into()));
    }

    fn warn(&mut self, code: Code, object: &str, message: impl Into<String>, remedy: impl Into<String>) {
        self.explained.warnings.push(notice(code, object, message.into(), remedy.into()));
    }

    fn not_configured(&mut self, candidate: &Node) {
        let machine = candidate.annotations.get(names::CLUSTER_API_MACHINE).map_or("", |name| &**name);
        let namespace = super::objects::machine_of(candidate).map(|key| format!(" -n {}", key.namespace));
        let by_hand =
            format!("in the management cluster: kubectl delete machine {machine}{}", namespace.unwrap_or_default());
        let node = self.node.clone();
        if self.removes() {
            let message =
                "no management cluster is known: only the Node object is deleted, the machine behind it runs on";
            return self.warn(Code::MachineRunsOn, &node, message, by_hand);
        }
        let message = "Cluster API's Machine stands behind it, and no management cluster is known: nothing is ordered, \
                       and the empty node stays";
        let remedy = format!("start the agent with --management-kubeconfig; or afterwards, {by_hand}");
        self.warn(Code::ProviderUnsupported, &node, message, remedy);
    }

    fn unreadable(&mut self, why: &str) {
        let message =
            format!("Cluster API's Machine stands behind it, and its management cluster cannot be read: {why}");
        let node = self.node.clone();
        if self.removes() {
            let remedy = "see that the agent's --management-kubeconfig is right and the cluster up; or --then=keep, and \
                          delete the Machine later";
            return self.block(Code::ProviderUnreadable, &node, message, remedy);
        }
        self.warn(Code::ProviderUnreadable, &node, message, "nothing can be ordered until it answers");
    }

    fn missing(&mut self, machine: &Key) {
        let message =
            format!("its Machine {machine} does not exist: nothing is ordered, and nobody takes the node away");
        let remedy = "--then=delete deletes the Node object once it is empty";
        let node = self.node.clone();
        self.warn(Code::ProviderUnsupported, &node, message, if self.removes() { "" } else { remedy });
    }

    /// What is the case whoever owns the Machine.
    fn machine(&mut self, machine: &Key, seen: &Machine) {
        let object = format!("Machine {machine}");
        if let Some(since) = &seen.deleted {
            let message = format!("it is being deleted since {since}: Cluster API drains the node itself");
            self.block(Code::NodeDeleting, &object, message, "");
        } else if let Some(marked) = seen.marked.as_deref().filter(|marked| !marked.starts_with("kubectl-rotate:")) {
            let message = format!("it carries delete-machine={marked:?}: it goes first when somebody scales down");
            self.warn(Code::NodeLeaving, &object, message, "");
        }
        if seen.paused && self.removes() {
            self.block(Code::ProviderPaused, &object, "it is paused: it would not be deleted", unpause(&object));
        }
        if seen.phase == "Failed" {
            self.warn(Code::NodeLeaving, &object, "its phase is Failed: Cluster API may replace it by itself", "");
        }
    }

    fn worker(&mut self, objects: &Objects, seen: &Machine, key: &Key, deployment: &Deployment) {
        let object = format!("MachineDeployment {key}");
        if let Some(why) = objects.paused(key, deployment) {
            let message = format!("{why}: nothing is ordered, and nothing is taken away");
            if self.removes() && seen.deleted.is_none() {
                self.block(Code::ProviderPaused, &object, message, unpause(&object));
            } else {
                self.warn(Code::ProviderPaused, &object, message, "");
            }
            return;
        }
        let replicas = deployment.replicas;
        if deployment.up_to_date < replicas {
            let message = format!(
                "{} of its {replicas} Machines are of its present template: a rollout replaces the others anyway",
                deployment.up_to_date
            );
            self.warn(
                Code::RolloutInProgress,
                &object,
                message,
                "wait for it, or go on: the new node is of the present template",
            );
        }
        match deployment.bounds {
            Some((minimum, maximum)) if replicas >= maximum => {
                let message = format!("{replicas} of {minimum}..{maximum} replicas: it cannot grow for the rotation");
                self.warn(
                    Code::GroupAtLimit,
                    &object,
                    message,
                    "raise its maximum by one, or make room on other nodes",
                );
            }
            Some(_) => {}
            None => {
                if let Some(why) = unorderable(objects, key, deployment) {
                    let message = format!("{why}: no replica can be ordered");
                    self.warn(
                        Code::GroupAtLimit,
                        &object,
                        message,
                        "raise it by one there first, where there is no room",
                    );
                }
            }
        }
    }

    fn other(&mut self, objects: &Objects, candidate: &Node, machine: &Key, owner: Owner<'_>) {
        let cluster = super::objects::cluster_of(candidate);
        let paused = cluster.as_ref().and_then(|key| objects.clusters.get(key)).is_some_and(|cluster| cluster.paused);
        let object = format!("Machine {machine}");
        if let Some(cluster) = cluster.filter(|_| paused && self.removes()) {
            let cluster = format!("Cluster {cluster}");
            return self.block(
                Code::ProviderPaused,
                &cluster,
                "it is paused: nothing is taken away",
                unpause(&cluster),
            );
        }
        let keep = "--then=keep leaves the empty node, cordoned";
        match owner {
            Owner::Set(set) => {
                let message = format!("MachineSet {set} stands alone: nothing is ordered; what is deleted is replaced");
                self.warn(Code::ProviderUnsupported, &object, message, "");
            }
            Owner::ControlPlane(..) | Owner::Pool(_) | Owner::Unknown(..) if self.removes() => {
                let message = format!("it belongs to {owner}, which decides itself which Machine goes");
                self.block(Code::ProviderUnsupported, &object, message, keep);
            }
            Owner::Nobody if self.removes() => {
                self.warn(Code::ProviderUnsupported, &object, "nothing owns it: it is deleted, and not replaced", keep);
            }
            _ => {
                let message = format!("it belongs to {owner}: nothing is ordered, and the empty node stays");
                self.warn(Code::ProviderUnsupported, &object, message, "");
            }
        }
    }
}

fn notice(code: Code, object: &str, message: String, remedy: String) -> Notice {
    Notice { code, object: object.to_owned(), message, remedy }
}

fn unpause(object: &str) -> String {
    format!("lift the pause of {object} in the management cluster; or --then=keep leaves the empty node, cordoned")
}
