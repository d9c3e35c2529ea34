//! What is written in the management cluster. Every call may be made again after a crash, and adds nothing twice.
//!
//! A rotation that has a replica on loan is in the MachineDeployment's annotation [`ORDERED_BY`]; it gets there and the
//! replicas rise in one write, it leaves and they sink in one write. A Machine is marked to be the one that goes only
//! while its rotation stands there: marked by us and not on loan means that the replica was given back.

use std::collections::BTreeSet;

use http::Request;
use kube::Client;
use serde_json::{Value, json};

use super::super::{Removal, Settlement};
use super::management::{Management, ManagementError, PATIENCE, all, get, path};
use super::objects::{DELETE_MACHINE, Key, List, ORDERED_BY, Wire, orders};
use super::ordered_of;

/// How often an object that others write at the same time is read anew.
const ATTEMPTS: u32 = 4;

// === impl Management ===

impl Management {
    /// Takes a Machine away as its removal says.
    ///
    /// # Errors
    ///
    /// The management cluster's; [`ManagementError::Missing`] where the removal is of no Machine.
    pub async fn remove(&self, rotation: &str, removal: &Removal) -> Result<(), ManagementError> {
        let Removal::Machine { namespace, name, uid, shrink, .. } = removal else {
            return Err(ManagementError::Missing("the Machine".to_owned()));
        };
        let machine = Key::new(namespace, name);
        match shrink {
            Some(deployment) => self.shrink(rotation, &machine, uid, &Key::new(namespace, deployment)).await,
            None => self.delete(&machine, uid).await,
        }
    }

    /// Settles what was ordered.
    ///
    /// # Errors
    ///
    /// The management cluster's.
    pub async fn settle(&self, rotation: &str, settlement: &Settlement) -> Result<(), ManagementError> {
        match settlement {
            Settlement::GiveBack(order) => self.give_back(rotation, &ordered_of(order)).await,
            Settlement::Return(_, removal) => self.remove(rotation, removal).await,
            Settlement::Keep(order) => self.keep(rotation, &ordered_of(order)).await,
        }
    }

    /// Orders one more replica, once for each rotation.
    ///
    /// # Errors
    ///
    /// The management cluster's; no such MachineDeployment.
    pub async fn order(&self, rotation: &str, deployment: &Key) -> Result<(), ManagementError> {
        let open = self.opened(deployment).await?;
        open.change("machinedeployments", deployment, |wire| loan(wire, rotation, 1)).await?.found()
    }

    /// Has a Machine go, and its MachineDeployment have one replica less.
    ///
    /// # Errors
    ///
    /// The management cluster's; no such MachineDeployment.
    pub async fn shrink(
        &self,
        rotation: &str,
        machine: &Key,
        uid: &str,
        deployment: &Key,
    ) -> Result<(), ManagementError> {
        let open = self.opened(deployment).await?;
        let ours = mark(rotation);
        let found: Option<Wire> = get(&open.client, &path(open.version, "machines", machine)).await?;
        let Some(found) = found.filter(|found| uid.is_empty() || found.metadata.uid == uid) else {
            // Taken by other hands: what its MachineDeployment has in its stead is given back while it is no node yet.
            return match open.give_back(rotation, deployment).await {
                Err(ManagementError::Joined(_)) => open.keep(rotation, deployment).await,
                done => done,
            };
        };
        open.unmark(rotation, deployment, Some(&machine.name)).await?;
        if found.metadata.annotations.get(DELETE_MACHINE) != Some(&ours) {
            open.change("machinedeployments", deployment, |wire| loan(wire, rotation, 0)).await?.found()?;
            let marked = |wire: &Wire| {
                let is_ours = wire.metadata.uid == found.metadata.uid
                    && wire.metadata.annotations.get(DELETE_MACHINE) != Some(&ours);
                is_ours.then(|| json!({ "metadata": { "annotations": { DELETE_MACHINE: ours } } }))
            };
            open.change("machines", machine, marked).await?;
        }
        open.change("machinedeployments", deployment, |wire| repay(wire, rotation, true)).await.map(drop)
    }

    /// Deletes a Machine; what owns it makes another.
    ///
    /// # Errors
    ///
    /// The management cluster's.
    pub async fn delete(&self, machine: &Key, uid: &str) -> Result<(), ManagementError> {
        let open = self.opened(machine).await?;
        let path = path(open.version, "machines", machine);
        let options = json!({ "apiVersion": "v1", "kind": "DeleteOptions", "preconditions": { "uid": uid } });
        match open.send(Request::delete(&path), &path, &options).await {
            // Another one has its name: the one that was meant is gone.
            Err(ManagementError::Api { source: kube::Error::Api(status), .. }) if matches!(status.code, 404 | 409) => {
                Ok(())
            }
            done => done,
        }
    }

    /// Gives back a replica that was ordered and that has not become a node.
    ///
    /// # Errors
    ///
    /// The management cluster's; [`ManagementError::Joined`] where it has become a node meanwhile.
    pub async fn give_back(&self, rotation: &str, deployment: &Key) -> Result<(), ManagementError> {
        self.opened(deployment).await?.give_back(rotation, deployment).await
    }

    /// Keeps a replica that was ordered: somebody's Pods run on it.
    ///
    /// # Errors
    ///
    /// The management cluster's.
    pub async fn keep(&self, rotation: &str, deployment: &Key) -> Result<(), ManagementError> {
        self.opened(deployment).await?.keep(rotation, deployment).await
    }

    /// The loans that are noted on the MachineDeployments of these Clusters: of what, and for which rotation.
    ///
    /// # Errors
    ///
    /// The management cluster's.
    pub async fn loans(&self, clusters: &BTreeSet<Key>) -> Result<Vec<(Key, String)>, ManagementError> {
        let loans = tokio::time::timeout(PATIENCE, self.try_loans(clusters)).await;
        loans.unwrap_or(Err(ManagementError::TimedOut(PATIENCE)))
    }

    async fn try_loans(&self, clusters: &BTreeSet<Key>) -> Result<Vec<(Key, String)>, ManagementError> {
        let mut loans = Vec::new();
        for cluster in clusters {
            let Open { client, version } = self.opened(cluster).await?;
            let of_it = format!("?labelSelector=cluster.x-k8s.io%2Fcluster-name%3D{}", cluster.name);
            let path = format!("{}{of_it}", all(version, "machinedeployments", &cluster.namespace));
            let deployments: Option<List<Wire>> = get(&client, &path).await?;
            for wire in deployments.map_or_else(Vec::new, |list| list.items) {
                let key = Key::new(&cluster.namespace, &wire.metadata.name);
                loans.extend(orders(&wire.metadata.annotations).into_iter().map(|rotation| (key.clone(), rotation)));
            }
        }
        Ok(loans)
    }

    /// Settles what a rotation that does not live any more has left: back goes what is no node yet, and only where that
    /// is wanted.
    ///
    /// # Errors
    ///
    /// The management cluster's.
    pub async fn settle_leftover(&self, rotation: &str, deployment: &Key, back: bool) -> Result<(), ManagementError> {
        let open = self.opened(deployment).await?;
        if back {
            match open.give_back(rotation, deployment).await {
                Err(ManagementError::Joined(_)) => {}
                done => return done,
            }
        }
        open.keep(rotation, deployment).await
    }

    async fn opened(&self, about: &Key) -> Result<Open, ManagementError> {
        let client = self.open().await?;
        let version = self.version(&client, &about.namespace).await?;
        Ok(Open { client, version })
    }
}

/// The management cluster, for the length of one call.
struct Open {
    client: Client,
    version: &'static str,
}

/// What became of a change.
enum Changed {
    /// It is as wanted.
    Done,
    /// There is no such object: `kind namespace/name`.
    Missing(String),
}

impl Changed {
    fn found(self) -> Result<(), ManagementError> {
        match self {
            Self::Done => Ok(()),
            Self::Missing(object) => Err(ManagementError::Missing(object)),
        }
    }
}

// === impl Open ===

impl Open {
    /// Reads an object, and patches it if there is anything to change. The patch carries the resourceVersion: what others
    /// write in between is seen.
    async fn change(
        &self,
        kind: &str,
        key: &Key,
        change: impl Fn(&Wire) -> Option<Value>,
    ) -> Result<Changed, ManagementError> {
        let path = path(self.version, kind, key);
        for _ in 0..ATTEMPTS {
            let Some(wire) = get::<Wire>(&self.client, &path).await? else {
                return Ok(Changed::Missing(format!("{} {key}", kind.trim_end_matches('s'))));
            };
            let Some(mut patch) = change(&wire) else { return Ok(Changed::Done) };
            patch["metadata"]["resourceVersion"] = json!(wire.metadata.resource_version);
            match self.send(Request::patch(&path), &path, &patch).await {
                Err(ManagementError::Api { source: kube::Error::Api(status), .. }) if status.code == 409 => {}
                done => return done.map(|()| Changed::Done),
            }
        }
        Err(ManagementError::Contended(path))
    }

    async fn send(&self, request: http::request::Builder, path: &str, body: &Value) -> Result<(), ManagementError> {
        let merge = request.method_ref() == Some(&http::Method::PATCH);
        let form = if merge { "application/merge-patch+json" } else { "application/json" };
        let request = request.header("content-type", form).body(body.to_string().into_bytes());
        let request = request.map_err(|source| ManagementError::Request { path: path.to_owned(), source })?;
        let sent = self.client.request_text(request).await;
        sent.map(drop).map_err(|source| ManagementError::Api { path: path.to_owned(), source })
    }

    /// The Machines of a MachineDeployment.
    async fn machines(&self, deployment: &Key) -> Result<Vec<Wire>, ManagementError> {
        let members = format!(
            "{}?labelSelector=cluster.x-k8s.io%2Fdeployment-name%3D{}",
            all(self.version, "machines", &deployment.namespace),
            deployment.name
        );
        let machines: Option<List<Wire>> = get(&self.client, &members).await?;
        Ok(machines.map_or_else(Vec::new, |list| list.items))
    }

    /// Takes this rotation's marks off all Machines but one, while it has a replica on loan: a crash has left them on what
    /// may have become a node with Pods since.
    async fn unmark(&self, rotation: &str, deployment: &Key, but: Option<&str>) -> Result<(), ManagementError> {
        let wire: Option<Wire> = get(&self.client, &path(self.version, "machinedeployments", deployment)).await?;
        if !wire.is_some_and(|wire| orders(&wire.metadata.annotations).contains(rotation)) {
            return Ok(());
        }
        let ours = mark(rotation);
        let is_ours = |wire: &Wire| wire.metadata.annotations.get(DELETE_MACHINE) == Some(&ours);
        let machines = self.machines(deployment).await?;
        for machine in machines.iter().filter(|machine| is_ours(machine) && Some(&*machine.metadata.name) != but) {
            let key = Key::new(&deployment.namespace, &machine.metadata.name);
            let off =
                |wire: &Wire| is_ours(wire).then(|| json!({ "metadata": { "annotations": { DELETE_MACHINE: null } } }));
            self.change("machines", &key, off).await?;
        }
        Ok(())
    }

    async fn give_back(&self, rotation: &str, deployment: &Key) -> Result<(), ManagementError> {
        let wire: Option<Wire> = get(&self.client, &path(self.version, "machinedeployments", deployment)).await?;
        let Some(wire) = wire.filter(|wire| orders(&wire.metadata.annotations).contains(rotation)) else {
            return Ok(());
        };
        let mut machines = self.machines(deployment).await?;
        machines.retain(|machine| machine.metadata.deletion_timestamp.is_none());
        let wanted = usize::try_from(wire.spec.replicas.unwrap_or(1)).unwrap_or(usize::MAX);
        let is_node = |machine: &Wire| machine.status.node_ref.as_ref().is_some_and(|node| !node.name.is_empty());
        let coming = machines.iter().filter(|machine| !is_node(machine));
        let newest = coming.max_by(|one, other| {
            let age = |machine: &Wire| (machine.metadata.creation_timestamp.clone(), machine.metadata.name.clone());
            age(one).cmp(&age(other))
        });
        if newest.is_none() && machines.len() >= wanted {
            return Err(ManagementError::Joined(deployment.to_string()));
        }
        self.unmark(rotation, deployment, newest.map(|newest| &*newest.metadata.name)).await?;
        // Marked, so that one that becomes a node at this moment does not leave the choice to the deletion order.
        if let Some(newest) = newest {
            let key = Key::new(&deployment.namespace, &newest.metadata.name);
            let ours = mark(rotation);
            let marked = |wire: &Wire| {
                let is_marked = wire.metadata.annotations.get(DELETE_MACHINE) == Some(&ours);
                (!is_marked).then(|| json!({ "metadata": { "annotations": { DELETE_MACHINE: ours } } }))
            };
            self.change("machines", &key, marked).await?;
        }
        self.change("machinedeployments", deployment, |wire| repay(wire, rotation, true)).await.map(drop)
    }

    async fn keep(&self, rotation: &str, deployment: &Key) -> Result<(), ManagementError> {
        self.unmark(rotation, deployment, None).await?;
        self.change("machinedeployments", deployment, |wire| repay(wire, rotation, false)).await.map(drop)
    }
}

/// The value of a Machine's mark.
fn mark(rotation: &str) -> String {
    format!("kubectl-rotate:{rotation}")
}

/// Notes that the rotation has a replica on loan, and lends this many; `None`: it has one already.
fn loan(wire: &Wire, rotation: &str, replicas: u32) -> Option<Value> {
    let mut orders = orders(&wire.metadata.annotations);
    if !orders.insert(rotation.to_owned()) {
        return None;
    }
    let orders: Vec<_> = orders.into_iter().collect();
    let mut patch = json!({ "metadata": { "annotations": { ORDERED_BY: orders.join(",") } } });
    if replicas > 0 {
        patch["spec"] = json!({ "replicas": wire.spec.replicas.unwrap_or(1).saturating_add(replicas) });
    }
    Some(patch)
}

/// Takes the rotation's loan off, with the replica or without; `None`: it has none.
fn repay(wire: &Wire, rotation: &str, shrink: bool) -> Option<Value> {
    let mut orders = orders(&wire.metadata.annotations);
    if !orders.remove(rotation) {
        return None;
    }
    let orders: Vec<_> = orders.into_iter().collect();
    let left = if orders.is_empty() { Value::Null } else { json!(orders.join(",")) };
    let mut patch = json!({ "metadata": { "annotations": { ORDERED_BY: left } } });
    if shrink {
        patch["spec"] = json!({ "replicas": wire.spec.replicas.unwrap_or(1).saturating_sub(1) });
    }
    Some(patch)
}

#[cfg(test)]
mod tests;
