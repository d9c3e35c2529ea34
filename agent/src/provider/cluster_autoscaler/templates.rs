//! What nodes of a group are like: from those that are there, and remembered for when none is.
//!
//! An empty group grows by what its cloud says of it, and the autoscaler forgets the nodes it saw when it restarts. What a
//! real node of the group was like is kept in the ConfigMap `rotate-groups`, a key a group.

use std::collections::{BTreeMap, BTreeSet};

use jiff::{SignedDuration, Timestamp};
use rotate_shared::{Amounts, names};
use serde::{Deserialize, Serialize};

use super::groups::{Group, Manager, Settings};
use crate::cache::selector::Taint;
use crate::cache::{Node, State};
use crate::provider::headroom::lasts;

/// A template that nothing else has changed in is written again after this long, so that its age can be told.
const SEEN_AGAIN: SignedDuration = SignedDuration::from_hours(24);
/// A group of which no node was seen for this long is forgotten.
const FORGOTTEN: SignedDuration = SignedDuration::from_hours(24 * 90);

/// What a node of a group is like.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Template {
    /// Whose label the group is known by.
    pub manager: Manager,
    /// The group's name.
    pub group: String,
    /// Its zone, where groups have one each.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub zone: Option<String>,
    /// The least that any of its nodes offers.
    pub allocatable: Amounts,
    /// The fewest Pods that any of them takes.
    pub max_pods: i64,
    /// The labels that all of them have.
    pub labels: BTreeMap<String, String>,
    /// The labels in which they differ, now or before.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub varying: BTreeSet<String>,
    /// The taints that all of them have.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub taints: Vec<Taint>,
    /// When one of them was last seen.
    pub seen_at: Timestamp,
    /// Which one.
    pub source: String,
}

/// The templates of all groups, by [`Template::key`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Templates {
    /// Those that were understood.
    pub known: BTreeMap<String, Template>,
    /// Why others, or all, are not known.
    pub unreadable: Vec<String>,
}

// === impl Template ===

impl Template {
    /// What the Ready nodes of a group have in common; `None` where none is Ready.
    #[must_use]
    pub fn of(group: &Group<'_>, zone: Option<&str>, nodes: &[&Node], now: Timestamp) -> Option<Self> {
        let mut ready = nodes.iter().filter(|node| node.ready && !node.deleting);
        let first = ready.next()?;
        let own = |key: &str| key == names::HOSTNAME || key.starts_with("kubectl-rotate.dev/");
        let labels = first.labels.iter().filter(|(key, _)| !own(key));
        let mut labels: BTreeMap<String, String> =
            labels.map(|(key, value)| (key.to_owned(), value.to_owned())).collect();
        let mut taints: Vec<Taint> = first.taints.iter().filter(|taint| lasts(taint)).cloned().collect();
        let (mut allocatable, mut max_pods) = (first.allocatable.clone(), first.max_pods);
        let mut varying = BTreeSet::new();
        for node in ready {
            let differs = |(key, value): (&String, &String)| node.label(key) != Some(value);
            varying.extend(labels.iter().filter(|label| differs(*label)).map(|(key, _)| key.clone()));
            let more = node.labels.iter().map(|(key, _)| key).filter(|key| !own(key) && !labels.contains_key(*key));
            varying.extend(more.map(ToOwned::to_owned));
            labels.retain(|key, _| !varying.contains(key));
            taints.retain(|taint| node.taints.contains(taint));
            allocatable.minimum(&node.allocatable);
            max_pods = max_pods.min(node.max_pods);
        }
        Some(Self {
            manager: group.manager,
            group: group.name.to_owned(),
            zone: zone.map(ToOwned::to_owned),
            allocatable: allocatable.to_amounts(),
            max_pods,
            labels,
            varying,
            taints,
            seen_at: now,
            source: first.name.to_string(),
        })
    }

    /// As its key in the ConfigMap.
    #[must_use]
    pub fn key(&self) -> String {
        key(&self.as_group(), self.zone.as_deref())
    }

    /// The group that it is of.
    #[must_use]
    pub fn as_group(&self) -> Group<'_> {
        Group { manager: self.manager, name: &self.group }
    }

    /// With what was known of the group before: a group that once had nodes in two zones may get one in either.
    #[must_use]
    fn after(mut self, before: &Self) -> Self {
        self.varying.extend(before.varying.iter().cloned());
        let moved =
            |key: &String| is_zone(key) && before.labels.get(key).is_some_and(|old| self.labels.get(key) != Some(old));
        let moved: Vec<String> = self.labels.keys().filter(|key| moved(key)).cloned().collect();
        self.varying.extend(moved);
        self
    }

    /// Whether the two differ in more than in when a node was seen.
    fn differs(&self, other: &Self) -> bool {
        let same = Self { seen_at: other.seen_at, source: other.source.clone(), ..self.clone() };
        same != *other || self.seen_at.duration_since(other.seen_at) >= SEEN_AGAIN
    }
}

/// A key of a group, as ConfigMaps allow them.
pub(super) fn key(group: &Group<'_>, zone: Option<&str>) -> String {
    let zone = zone.map_or_else(String::new, |zone| format!(".{zone}"));
    format!("{}.{}{zone}", group.manager.name(), group.name)
}

/// The zone that tells a node's group apart from others of its pool.
pub(super) fn zone_of<'a>(group: &Group<'_>, node: &'a Node) -> Option<&'a str> {
    node.label(names::ZONE).filter(|_| group.manager == Manager::Gke)
}

fn is_zone(key: &str) -> bool {
    key == names::ZONE || key.ends_with("/zone")
}

// === impl Templates ===

impl Templates {
    /// Reads the ConfigMap's data.
    #[must_use]
    pub fn read(data: &BTreeMap<String, String>) -> Self {
        let mut templates = Self::default();
        for (key, text) in data {
            match serde_json::from_str::<Template>(text) {
                Ok(template) if template.key() == *key => drop(templates.known.insert(key.clone(), template)),
                Ok(template) => templates.unreadable.push(format!("{key}: it is of {}", template.key())),
                Err(error) => templates.unreadable.push(format!("{key}: {error}")),
            }
        }
        templates
    }

    /// What of the ConfigMap's data has to be written for what is seen now: values to set, and `None` for keys to
    /// delete. Empty where there is nothing new.
    #[must_use]
    pub fn changes(&self, state: &State, settings: &Settings, now: Timestamp) -> BTreeMap<String, Option<String>> {
        let mut changes = BTreeMap::new();
        for (key, seen) in seen(state, settings, now) {
            let before = self.known.get(&key);
            let seen = before.map_or_else(|| seen.clone(), |before| seen.clone().after(before));
            if before.is_none_or(|before| seen.differs(before)) {
                let text = serde_json::to_string(&seen).expect("a template is JSON");
                changes.insert(key, Some(text));
            }
        }
        let forgotten = |template: &&Template| now.duration_since(template.seen_at) >= FORGOTTEN;
        let old = self.known.values().filter(forgotten).map(Template::key);
        let old: Vec<String> = old.filter(|key| !changes.contains_key(key)).collect();
        changes.extend(old.into_iter().map(|key| (key, None)));
        changes
    }

    /// The template of a group: from its nodes, with what was known before; else as remembered.
    #[must_use]
    pub fn of(&self, group: &Group<'_>, zone: Option<&str>, nodes: &[&Node], now: Timestamp) -> Option<Template> {
        let before = self.known.get(&key(group, zone));
        match (Template::of(group, zone, nodes, now), before) {
            (Some(seen), Some(before)) => Some(seen.after(before)),
            (Some(seen), None) => Some(seen),
            (None, before) => before.cloned(),
        }
    }
}

/// The templates of the groups that have Ready nodes, by key.
fn seen(state: &State, settings: &Settings, now: Timestamp) -> BTreeMap<String, Template> {
    let mut members: BTreeMap<(Group<'_>, Option<&str>), Vec<&Node>> = BTreeMap::new();
    for node in state.nodes() {
        if let Some(group) = Group::of(node, settings) {
            members.entry((group, zone_of(&group, node))).or_default().push(node);
        }
    }
    let template =
        |((group, zone), nodes): ((Group<'_>, Option<&str>), Vec<&Node>)| Template::of(&group, zone, &nodes, now);
    members.into_iter().filter_map(template).map(|template| (template.key(), template)).collect()
}

#[cfg(test)]
mod tests;
