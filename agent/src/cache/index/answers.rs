//! What the state is asked.

use std::collections::HashMap;
use std::sync::Arc;

use jiff::Timestamp;

use super::build::{Builder, labels_of};
use super::codec::Reader;
use super::node::NodeSlot;
use super::{Counts, Id, State, Sum, shape, told};
use crate::cache::selector::Labels;
use crate::cache::shape::PodTerm;
use crate::cache::{Node, Pdb, Pod, Shape};
use crate::surge::classify::Blocked;
use crate::surge::do_not_disrupt;

/// Pods of a namespace that keep others away, all in the same way.
#[derive(Clone, Debug)]
pub struct AntiAffine<'a> {
    /// Their namespace.
    pub namespace: &'a Arc<str>,
    /// Their shape.
    pub shape: ShapeId,
    /// Their required anti-affinity terms.
    pub terms: Vec<PodTerm<&'a str>>,
    /// How many they are.
    pub pods: u32,
}

/// A shape, as long as the state is not written to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ShapeId(Id);

/// What is on a node, counted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// All Pods bound to it, finished ones too.
    pub pods: u32,
    /// What would have to move off it, as [`State::movable`] says.
    pub movable: Sum,
    /// Pods that stand in the way of a rotation with default options: those that [`crate::surge::classify::classify`] blocks
    /// without a look at their volumes.
    pub blocked: u32,
}

impl State {
    /// The node with this name.
    #[must_use]
    pub fn node(&self, name: &str) -> Option<&Arc<Node>> {
        self.nodes.find(name)?.object.as_ref()
    }

    /// All nodes, by name.
    pub fn nodes(&self) -> impl Iterator<Item = &Arc<Node>> {
        self.nodes.known()
    }

    /// The Pod with this UID.
    #[must_use]
    pub fn pod(&self, uid: &str) -> Option<Pod> {
        self.find_pod(uid).map(|id| Builder::new(self).build(id))
    }

    /// All Pods, in no order. Builds each, and remembers what their templates share: not for every question.
    pub fn pods(&self) -> impl Iterator<Item = Pod> {
        let mut builder = Builder::new(self);
        self.table.iter().map(move |id| builder.build(*id))
    }

    /// Pods bound to a node, finished ones too, by namespace and name.
    #[must_use]
    pub fn pods_on(&self, node: &str) -> Vec<Pod> {
        let slot = self.nodes.find(node);
        self.build_all(slot.map_or(&[][..], |slot| slot.pods.all()).iter().copied())
    }

    /// Whether the scheduler intends to put any Pod on any node: without, [`State::arriving_on`] is empty everywhere.
    #[must_use]
    pub(crate) fn nominates(&self) -> bool {
        !self.nominated.is_empty()
    }

    /// Pods that the scheduler intends to put on a node (`status.nominatedNodeName`) and has not bound, by namespace
    /// and name.
    #[must_use]
    pub fn arriving_on(&self, node: &str) -> Vec<Pod> {
        let Some(id) = self.nodes.id(node) else { return Vec::new() };
        let mut pods = self.build_all(self.nominated.range((id, 0)..=(id, Id::MAX)).map(|(_, pod)| *pod));
        pods.retain(|pod| pod.node.is_none() && !pod.phase.is_finished());
        pods
    }

    /// Pods whose controlling owner has this UID, by name.
    #[must_use]
    pub fn pods_of_owner(&self, owner_uid: &str) -> Vec<Pod> {
        let Some(uid) = self.uids.find(owner_uid) else { return Vec::new() };
        let templates = self.templates.of_owner(uid);
        self.build_all(templates.flat_map(|template| self.pods_of(template)).map(|(id, _)| id))
    }

    /// Pods of a namespace with labels that are wanted, by name. Asks once for Pods that are alike and builds only what is
    /// wanted: a namespace may have ten thousand.
    pub(crate) fn pods_labelled(&self, namespace: &str, wanted: impl Fn(&Labels) -> bool) -> Vec<Pod> {
        let mut answers = HashMap::new();
        let mut ids = Vec::new();
        for template in self.templates.of_namespace(namespace) {
            let key = &template.key;
            let by_name = told::by_name(key.told);
            let owner = if key.told == 0 { None } else { self.owner(key) };
            let alike = || wanted(&labels_of(self, key, "", owner.as_ref()));
            if key.told == 0 && !*answers.entry(key.labels).or_insert_with(alike)
                || key.told != 0 && !by_name && !alike()
            {
                continue;
            }
            let own = |tail| wanted(&labels_of(self, key, &self.templates.name(key, tail), owner.as_ref()));
            ids.extend(self.pods_of(template).filter(|(_, pod)| !by_name || own(pod.tail)).map(|(id, _)| id));
        }
        self.build_all(ids)
    }

    /// Pods of a namespace that have one of these shapes, by name.
    pub(crate) fn pods_shaped(&self, namespace: &str, shapes: &[ShapeId]) -> Vec<Pod> {
        let templates = self.templates.of_namespace(namespace);
        let wanted = templates.filter(|template| shapes.contains(&ShapeId(template.key.shape)));
        self.build_all(wanted.flat_map(|template| self.pods_of(template)).map(|(id, _)| id))
    }

    /// Pods of a namespace, by name.
    #[must_use]
    pub fn pods_in(&self, namespace: &str) -> Vec<Pod> {
        let templates = self.templates.of_namespace(namespace);
        self.build_all(templates.flat_map(|template| self.pods_of(template)).map(|(id, _)| id))
    }

    /// Namespaces that have Pods.
    pub fn namespaces(&self) -> impl Iterator<Item = &str> {
        self.templates.namespaces.names()
    }

    /// Bound, unfinished Pods that have required anti-affinity terms, by namespace and shape.
    pub fn anti_affine(&self) -> impl Iterator<Item = AntiAffine<'_>> {
        self.anti_affine.iter().map(|(&(namespace, shape), &pods)| AntiAffine {
            namespace: self.templates.namespaces.name(namespace),
            shape: ShapeId(shape),
            terms: shape::anti_affinity(self.templates.shapes.get(shape)),
            pods,
        })
    }

    /// Disruption budgets of the Pod's namespace that select it, by UID.
    #[must_use]
    pub fn pdbs_selecting(&self, pod: &Pod) -> Vec<&Pdb> {
        let selects = |pdb: &&Pdb| pdb.selector.as_ref().is_some_and(|selector| selector.matches(&pod.labels));
        self.budgets.of(&pod.namespace).filter(selects).collect()
    }

    /// All disruption budgets, by namespace.
    pub fn pdbs(&self) -> impl Iterator<Item = &Pdb> {
        self.budgets.all()
    }

    /// What the Pods bound to a node and not finished hold there: O(1).
    #[must_use]
    pub fn usage(&self, node: &str) -> Sum {
        self.nodes.find(node).map(|slot| slot.sums.usage.sum()).unwrap_or_default()
    }

    /// What would have to move off a node (candidate requests, [`crate::surge::classify::counts`]): O(1).
    #[must_use]
    pub fn movable(&self, node: &str) -> Sum {
        self.nodes.find(node).map(|slot| slot.sums.movable.sum()).unwrap_or_default()
    }

    /// What is on a node, counted: O(1), except that Pods which are marked as not to be disrupted until some time are asked
    /// for it.
    #[must_use]
    pub fn tally(&self, node: &str, now: Timestamp) -> Tally {
        let Some(slot) = self.nodes.find(node) else { return Tally::default() };
        let marked = if slot.sums.dated == 0 { 0 } else { self.still_marked(slot, now) };
        Tally {
            pods: u32::try_from(slot.pods.all().len()).unwrap_or(u32::MAX),
            movable: slot.sums.movable.sum(),
            blocked: slot.sums.blocked + marked,
        }
    }

    fn still_marked(&self, slot: &NodeSlot, now: Timestamp) -> u32 {
        let pods = slot.pods.all().iter().map(|id| self.pods.get(*id));
        let dated = pods.filter(|pod| pod.place().part().blocked == Blocked::Dated).filter(|pod| {
            let bytes = self.templates.shapes.get(self.templates.get(pod.template).key.shape);
            let shape: Shape<&str> = shape::read(Reader::new(bytes, &slot.name));
            shape.do_not_disrupt.is_some_and(|mark| do_not_disrupt::holds(mark, now).is_some())
        });
        dated.fold(0, |count, _| count + 1)
    }

    /// Whether a node hosts anything but DaemonSet, mirror, finished Pods and placeholders (the absorb guard): O(1).
    /// A pinned Pod is real, and so is one that cannot be read, and what may be on a node whose Pods are not read.
    #[must_use]
    pub fn hosts_real_pods(&self, node: &str) -> bool {
        let known = self.nodes.find(node).is_some_and(|slot| slot.sums.real > 0);
        known || self.has_unreadable(node) || !self.covers_node(node)
    }

    /// How much is kept.
    #[must_use]
    pub fn counts(&self) -> Counts {
        Counts {
            pods: self.table.len(),
            nodes: self.nodes.known_len(),
            pdbs: self.budgets.len(),
            namespaces: self.templates.namespaces.len(),
            owners: self.templates.owners(),
            shapes: self.templates.shapes.len(),
            label_sets: self.templates.labels.len(),
        }
    }
}
