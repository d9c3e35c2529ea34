//! What a rotation does to the sizes of groups, and what an empty group may turn out to be.

use std::collections::{BTreeMap, BTreeSet};

use jiff::{SignedDuration, Timestamp};
use rotate_shared::options::Then;
use rotate_shared::plan::{GroupSize, Notice, Provider};
use rotate_shared::{Code, names};

use super::Objects;
use super::groups::Group;
use super::growth::{Growing, Known};
use super::templates::Template;
use crate::cache::{Node, Resources, State};

/// After this long, nodes of a group may well be of another kind: images are renewed about weekly.
const STALE: SignedDuration = SignedDuration::from_hours(24 * 7);

/// What a rotation needs.
#[derive(Clone, Copy, Debug)]
pub struct Demand<'a> {
    /// How many new nodes, by the source of their headroom.
    pub brought: &'a BTreeMap<String, u32>,
    /// What each class of Pods requests.
    pub requests: &'a [&'a Resources],
    /// What becomes of the candidate.
    pub then: Then,
}

/// Sizes, and what deserves a look.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Outlook {
    /// The groups whose sizes change, and the candidate's.
    pub groups: Vec<GroupSize>,
    /// What deserves a look.
    pub warnings: Vec<Notice>,
}

impl Objects {
    /// What becomes of the groups while the candidate is rotated, and afterwards.
    #[must_use]
    pub fn outlook(&self, candidate: &Node, state: &State, demand: &Demand<'_>, now: Timestamp) -> Outlook {
        let mut outlook = Outlook::default();
        let Ok(told) = self.status.told(now) else { return outlook };
        let own = Group::of(candidate, &self.settings);
        let known = Known::new(self, state);
        for growing in known.groups().flat_map(|group| known.growing(group, told, now)) {
            let brought = demand.brought.get(&growing.in_words()).copied().unwrap_or(0);
            let is_own = own == Some(growing.group) && growing.nodes.iter().any(|node| node.name == candidate.name);
            if !is_own && brought == 0 {
                continue;
            }
            let size = size(&growing, brought, is_own && demand.then != Then::Uncordon);
            if is_own && brought == 0 && demand.then == Then::Keep && size.nodes > 0 && size.after == size.nodes {
                outlook.warnings.push(at_minimum(candidate, &size));
            }
            if is_own && size.after == 0 {
                outlook.warnings.push(emptied(&growing, candidate));
            }
            if brought > 0 && growing.nodes.is_empty() {
                outlook.warnings.extend(from_zero(&growing, demand.requests, now));
            }
            outlook.groups.push(size);
        }
        outlook
    }
}

/// A group's size; `loses`: the candidate is one of its nodes, and goes if it may.
fn size(growing: &Growing<'_>, brought: u32, loses: bool) -> GroupSize {
    let status = growing.status;
    let nodes = growing.size();
    let during = nodes.saturating_add(brought);
    let after = if loses { during.saturating_sub(1).max(status.min.min(during)) } else { during };
    GroupSize {
        name: growing.in_words(),
        provider: Provider::ClusterAutoscaler,
        nodes,
        min: status.min,
        max: status.max,
        during,
        after,
    }
}

fn at_minimum(candidate: &Node, size: &GroupSize) -> Notice {
    Notice {
        code: Code::GroupAtMinimum,
        object: format!("Node {}", candidate.name),
        message: format!(
            "{} has {} nodes and its minimum is {}: cluster-autoscaler does not take the empty node away",
            size.name, size.nodes, size.min
        ),
        remedy: "lower the group's minimum; or end the machine where it was made, and the group gets another"
            .to_owned(),
    }
}

fn emptied(growing: &Growing<'_>, candidate: &Node) -> Notice {
    let lacking = lacking([&candidate.allocatable]);
    Notice {
        code: Code::GroupEmpty,
        object: format!("Node {}", candidate.name),
        message: format!(
            "it is the last node of {}: without it, and once the autoscaler has restarted, the group's next node is what \
             its cloud says of it, which may lack {}",
            growing.in_words(),
            in_words(&lacking)
        ),
        remedy: "tell the cloud what its nodes have (tags such as \
                 k8s.io/cluster-autoscaler/node-template/resources/ephemeral-storage), or give the group a minimum of 1"
            .to_owned(),
    }
}

/// Of a group without nodes that is to bring some: what the autoscaler may not know it to have, and how old what we know is.
fn from_zero(growing: &Growing<'_>, requests: &[&Resources], now: Timestamp) -> Vec<Notice> {
    let lacking = lacking(requests.iter().copied());
    let mut notices = Vec::new();
    if !lacking.is_empty() {
        notices.push(Notice {
            code: Code::GroupEmpty,
            object: growing.in_words(),
            message: format!(
                "it has no node: the autoscaler goes by what its cloud says of it, and brings none for Pods that need {} \
                 where that is not said",
                in_words(&lacking)
            ),
            remedy: "where placeholders then find no room, the rotation is rolled back and nothing was evicted; or give the \
                     group one node first"
                .to_owned(),
        });
    }
    if let Some(template) = growing.template.as_ref().filter(|template| now.duration_since(template.seen_at) >= STALE) {
        notices.push(Notice {
            code: Code::StaleTemplate,
            object: growing.in_words(),
            message: format!("it has no node, and what they were like is known from {}", source(template, now)),
            remedy: format!("see whether that still holds: it is kept in ConfigMap {}", names::GROUPS),
        });
    }
    notices
}

fn source(template: &Template, now: Timestamp) -> String {
    let age = now.duration_since(template.seen_at).as_hours() / 24;
    format!("node {}, last seen {age} days ago", template.source)
}

/// Resources that clouds do not say by themselves.
fn lacking<'a>(amounts: impl IntoIterator<Item = &'a Resources>) -> BTreeSet<String> {
    let mut lacking = BTreeSet::new();
    for amounts in amounts {
        if amounts.ephemeral_storage > 0 {
            lacking.insert("ephemeral-storage".to_owned());
        }
        lacking.extend(amounts.other.keys().map(ToString::to_string));
    }
    lacking
}

fn in_words(resources: &BTreeSet<String>) -> String {
    let names: Vec<_> = resources.iter().map(|name| &**name).collect();
    match &*names {
        [] => "labels and taints".to_owned(),
        names => names.join(", "),
    }
}

#[cfg(test)]
mod tests;
