//! cluster-autoscaler: groups of equal nodes, known by the labels of those who manage them.
//!
//! ```text
//! labels of nodes ──▶ groups ──┐
//! ConfigMap of the autoscaler ─▶ status ──▶ growth (Headroom) ──▶ plan
//! ConfigMap rotate-groups ─────▶ templates ┘
//! ```
//!
//! Why so: `docs/decisions/015-what-an-autoscalers-group-may-bring.md`.
//!
//! The autoscaler itself is not asked for anything: placeholders make it bring nodes, and an empty node that is left alone
//! makes it take one away. Where that is not wanted, a [`hook`] outside the cluster ends the machine.

pub mod groups;
mod growth;
pub mod hook;
pub mod keeper;
pub mod outlook;
pub mod status;
pub mod templates;

use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use rotate_shared::options::Then;
use rotate_shared::plan::Notice;
use rotate_shared::{Code, Options};

use self::groups::{Group, Settings};
use self::growth::{Growing, Known};
use self::status::Status;
use self::templates::{Templates, zone_of};
use super::{Driver, Explained, Headroom, Order, ProviderObjects, Removal};
use crate::cache::{Node, State};

/// How long the autoscaler leaves a node that it does not need (`--scale-down-unneeded-time`), and nothing after it has
/// added one (`--scale-down-delay-after-add`): both 10 min where nobody said otherwise.
pub const UNNEEDED: SignedDuration = SignedDuration::from_mins(10);

/// cluster-autoscaler's driver.
#[derive(Clone, Copy, Debug)]
pub struct ClusterAutoscaler;

/// What is known of autoscaled groups beside their nodes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Objects {
    /// What the agent was told.
    pub settings: Arc<Settings>,
    /// What the autoscaler tells.
    pub status: Status,
    /// What nodes of the groups were like.
    pub templates: Arc<Templates>,
}

impl Driver for ClusterAutoscaler {
    fn detect(&self, node: &Node, objects: &ProviderObjects) -> bool {
        Group::of(node, &objects.autoscaler.settings).is_some()
    }

    fn order(&self, _candidate: &Node, _objects: &ProviderObjects) -> Option<Order> {
        None
    }

    fn headroom(&self, state: &State, objects: &ProviderObjects, now: Timestamp) -> Vec<Headroom> {
        growth::headroom(&objects.autoscaler, state, now)
    }

    fn default_then(&self, candidate: &Node, objects: &ProviderObjects) -> Then {
        match self.remove(candidate, objects) {
            Removal::Hook { .. } => Then::Delete,
            _ => Then::Keep,
        }
    }

    fn remove(&self, node: &Node, objects: &ProviderObjects) -> Removal {
        match &node.provider_id {
            Some(id) if objects.autoscaler.settings.hook => Removal::Hook { provider_id: id.to_string() },
            _ => Removal::NodeObject,
        }
    }

    fn left(&self, node: &Node, state: &State, objects: &ProviderObjects, now: Timestamp) -> Option<Removal> {
        Some(objects.autoscaler.left(node, state, now))
    }

    fn taken(&self, node: &Node, _objects: &ProviderObjects) -> Option<String> {
        let marked = node.taints.iter().any(|taint| &*taint.key == TO_BE_DELETED);
        marked.then(|| format!("cluster-autoscaler takes it away: Node {} has the taint {TO_BE_DELETED}", node.name))
    }

    fn explain(
        &self,
        candidate: &Node,
        state: &State,
        objects: &ProviderObjects,
        options: &Options,
        now: Timestamp,
    ) -> Explained {
        let mut warnings = Vec::new();
        if let Some(unseen) = unseen(candidate, state, &objects.autoscaler, now) {
            warnings.push(unseen);
        }
        if options.then == Some(Then::Delete) && self.remove(candidate, objects) == Removal::NodeObject {
            warnings.push(Notice {
                code: Code::MachineRunsOn,
                object: format!("Node {}", candidate.name),
                message: "only the Node object is deleted: the machine behind it runs on, and is paid for, until \
                          cluster-autoscaler removes it as unregistered after about 15 min; it does not at its group's \
                          minimum"
                    .to_owned(),
                remedy:
                    "--then=keep leaves the empty node to the autoscaler; an agent with --remover-hook ends machines"
                        .to_owned(),
            });
        }
        let unreadable = objects.autoscaler.templates.unreadable.iter().map(|why| Notice {
            code: Code::StaleTemplate,
            object: format!("ConfigMap {}", rotate_shared::names::GROUPS),
            message: format!("what nodes of a group were like cannot be read: {why}"),
            remedy: "it is written anew as soon as a node of the group is seen".to_owned(),
        });
        warnings.extend(unreadable);
        Explained { warnings, ..Explained::default() }
    }
}

/// The taint of a node that the autoscaler is taking away.
const TO_BE_DELETED: &str = "ToBeDeletedByClusterAutoscaler";

/// Says why the autoscaler is not known to bring nodes of the candidate's group, or to take them away.
fn unseen(candidate: &Node, state: &State, objects: &Objects, now: Timestamp) -> Option<Notice> {
    let group = Group::of(candidate, &objects.settings)?;
    let (namespace, name) = &objects.settings.status;
    let (why, remedy) = match objects.status.told(now) {
        Err(why) => (
            format!("ConfigMap {namespace}/{name}, in which cluster-autoscaler tells of its groups, {why}"),
            "see whether cluster-autoscaler runs, with --write-status-configmap; --autoscaler-status=NAMESPACE/NAME of \
             the agent says where else it tells"
                .to_owned(),
        ),
        Ok(told) => {
            if !Known::new(objects, state).growing(&group, told, now).is_empty() {
                return None;
            }
            let names = told.groups.iter().map(|group| &*group.name).take(5).collect::<Vec<_>>().join(", ");
            (
                format!("cluster-autoscaler tells of {} groups and of none that it could be ({names})", told.groups.len()),
                "let the autoscaler look after it; where the groups are one's own, --node-group-label=KEY of the agent \
                 names the label that has the autoscaler's name of the group as its value"
                    .to_owned(),
            )
        }
    };
    Some(Notice {
        code: Code::AutoscalerUnseen,
        object: group.in_words(),
        message: format!("{why}: nobody is known to bring nodes to this group or to take them away"),
        remedy,
    })
}

impl Objects {
    /// The candidate's group as the autoscaler tells of it.
    fn growing_of<'a>(&'a self, node: &'a Node, state: &'a State, now: Timestamp) -> Option<Growing<'a>> {
        let group = Group::of(node, &self.settings)?;
        let growing = Known::new(self, state).growing(&group, self.status.told(now).ok()?, now);
        let zone = zone_of(&group, node);
        let mut growing = growing.into_iter();
        growing.find(|growing| zone.is_none() || growing.nodes.iter().any(|member| member.name == node.name))
    }

    /// What becomes of an empty node of a group that nobody is asked to take away.
    #[must_use]
    pub fn left(&self, node: &Node, state: &State, now: Timestamp) -> Removal {
        let Some(growing) = self.growing_of(node, state, now) else {
            return Removal::Left {
                to: "nobody: no autoscaler is known to look after its group".to_owned(),
                within: None,
            };
        };
        let (group, min) = (growing.in_words(), growing.status.min);
        if growing.size() <= min {
            let to = format!("cluster-autoscaler, which keeps it: {group} has its minimum of {min} nodes");
            return Removal::Left { to, within: None };
        }
        let to =
            format!("cluster-autoscaler, which takes nodes of {group} away once it has not needed them for 10 min");
        Removal::Left { to, within: Some(UNNEEDED) }
    }
}

#[cfg(test)]
mod tests;
