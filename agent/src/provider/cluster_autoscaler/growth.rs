//! What each group may still grow by, and with which nodes.

use std::collections::BTreeMap;

use jiff::Timestamp;
use rotate_shared::{Amounts, names};

use super::Objects;
use super::groups::{Group, Manager, zone_in};
use super::status::{GroupStatus, Told};
use super::templates::{Template, zone_of};
use crate::cache::{Node, Resources, State};
use crate::provider::headroom::{self, unborn};
use crate::provider::{Headroom, NewNode};

/// How many nodes of a group are looked at for what their DaemonSets take: they are equal.
const LOOKED_AT: usize = 10;

/// The groups that are known, and their nodes.
#[derive(Debug)]
pub(super) struct Known<'a> {
    objects: &'a Objects,
    groups: BTreeMap<Group<'a>, Vec<&'a Node>>,
}

/// A group of the cloud's that grows as one.
#[derive(Debug)]
pub(super) struct Growing<'a> {
    pub(super) group: Group<'a>,
    pub(super) status: &'a GroupStatus,
    /// Its nodes, as far as their zone tells.
    pub(super) nodes: Vec<&'a Node>,
    /// What its next node is like; `None`: none was ever seen.
    pub(super) template: Option<Template>,
}

// === impl Known ===

impl<'a> Known<'a> {
    /// Groups that have nodes, and those that had.
    pub(super) fn new(objects: &'a Objects, state: &'a State) -> Self {
        let mut groups: BTreeMap<Group<'a>, Vec<&'a Node>> = BTreeMap::new();
        for template in objects.templates.known.values() {
            groups.entry(template.as_group()).or_default();
        }
        for node in state.nodes() {
            if let Some(group) = Group::of(node, &objects.settings) {
                groups.entry(group).or_default().push(node);
            }
        }
        Self { objects, groups }
    }

    /// All of them.
    pub(super) fn groups(&self) -> impl Iterator<Item = &Group<'a>> {
        self.groups.keys()
    }

    /// The nodes of a group, over all zones.
    pub(super) fn nodes_of(&self, group: &Group<'a>) -> &[&'a Node] {
        self.groups.get(group).map_or(&[], Vec::as_slice)
    }

    /// What a group is in the cloud: one for each zone with GKE. Empty where the autoscaler does not tell of it.
    pub(super) fn growing(&self, group: &Group<'a>, told: &'a Told, now: Timestamp) -> Vec<Growing<'a>> {
        let mine = told.groups.iter().filter(|status| self.owner_of(status).as_ref() == Some(group));
        let one = |status: &'a GroupStatus| {
            let zone = zone_in(&status.name).filter(|_| group.manager == Manager::Gke);
            let here = |node: &&&Node| zone.is_none() || node.label(names::ZONE) == zone;
            let nodes: Vec<_> = self.nodes_of(group).iter().filter(here).copied().collect();
            let template = self.objects.templates.of(group, zone, &nodes, now);
            Growing { group: *group, status, nodes, template }
        };
        mine.map(one).collect()
    }

    /// The group that a name in the status means. Of two that it may mean the longer name is meant: `pool-a` of cluster
    /// `c`, not `a` of cluster `c-pool`.
    fn owner_of(&self, status: &GroupStatus) -> Option<Group<'a>> {
        let called = |(group, nodes): &(&Group<'a>, &Vec<&Node>)| {
            let zone = zone_in(&status.name);
            let near = nodes.iter().find(|node| zone.is_none() || zone_of(group, node) == zone);
            group.is_called(&status.name, near.or(nodes.first()).copied())
        };
        let found = self.groups.iter().filter(called);
        found.map(|(group, _)| *group).max_by_key(|group| group.name.len())
    }
}

// === impl Growing ===

impl Growing<'_> {
    /// As it is called in a plan.
    pub(super) fn in_words(&self) -> String {
        match zone_in(&self.status.name).filter(|_| self.group.manager == Manager::Gke) {
            Some(zone) => format!("{} in {zone}", self.group.in_words()),
            None => self.group.in_words(),
        }
    }

    /// How many nodes it has, those on their way counted. What the autoscaler tells may be older than the nodes are.
    pub(super) fn size(&self) -> u32 {
        self.status.target.max(u32::try_from(self.nodes.len()).unwrap_or(u32::MAX))
    }

    fn headroom(&self, state: &State) -> Headroom {
        let GroupStatus { max, held_up, .. } = self.status;
        let size = self.size();
        let limit = format!("{} has {size} of at most {max} nodes", self.in_words());
        let (left, limit) = match held_up {
            Some(why) => (0, format!("{limit}, and {why}")),
            None => (max.saturating_sub(size), limit),
        };
        Headroom {
            source: self.in_words(),
            nodes_left: Some(left),
            resources_left: Amounts::new(),
            limit,
            shapes: self.template.iter().map(|template| shape(template, &self.nodes, state)).collect(),
        }
    }
}

/// The headroom of every group.
pub(super) fn headroom(objects: &Objects, state: &State, now: Timestamp) -> Vec<Headroom> {
    let known = Known::new(objects, state);
    let told = objects.status.told(now);
    let of_group = |group| match &told {
        Err(why) => vec![none(objects, &known, group, state, now, format!("the autoscaler's status {why}"))],
        Ok(told) => {
            let growing = known.growing(group, told, now);
            if growing.is_empty() {
                let why = "the autoscaler does not tell of it".to_owned();
                return vec![none(objects, &known, group, state, now, why)];
            }
            growing.iter().map(|growing| growing.headroom(state)).collect()
        }
    };
    known.groups().flat_map(of_group).collect()
}

/// A group of which nobody is known to bring nodes.
fn none<'a>(
    objects: &Objects,
    known: &Known<'a>,
    group: &Group<'a>,
    state: &State,
    now: Timestamp,
    why: String,
) -> Headroom {
    let nodes = known.nodes_of(group);
    let template = objects.templates.of(group, None, nodes, now);
    Headroom {
        source: group.in_words(),
        nodes_left: Some(0),
        resources_left: Amounts::new(),
        limit: why,
        shapes: template.iter().map(|template| shape(template, nodes, state)).collect(),
    }
}

/// A node of a template. Where nodes differ in a label, it has the value of one of them.
fn shape(template: &Template, nodes: &[&Node], state: &State) -> NewNode {
    let (daemons, daemon_pods) = daemons(state, nodes);
    let differing = template.varying.iter().filter_map(|key| {
        let value = nodes.iter().find_map(|node| node.label(key))?;
        Some((&**key, value))
    });
    let labels = template.labels.iter().map(|(key, value)| (&**key, &**value));
    let labels: BTreeMap<&str, &str> = differing.chain(labels).collect();
    let node = unborn(labels, &template.taints, Resources::from(&template.allocatable), template.max_pods);
    NewNode {
        node,
        daemons,
        daemon_pods,
        charged: Amounts::new(),
        uncertain: template.varying.iter().map(|key| (&**key).into()).collect(),
    }
}

/// The most that DaemonSets and mirror Pods take on any of these nodes; of an empty group on any node at all.
fn daemons(state: &State, nodes: &[&Node]) -> (Resources, i64) {
    let others: Vec<_> = if nodes.is_empty() { state.nodes().map(|node| &**node).collect() } else { Vec::new() };
    headroom::daemons(state, nodes.iter().chain(&others).take(LOOKED_AT).map(|node| &*node.name))
}

#[cfg(test)]
mod tests;
