//! The same knowledge as the state's, kept plainly.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use rotate_shared::Options;

use super::super::{AntiAffine, Held, Partition, State, Sum, Tally};
use super::event::{Happened, moments, owner_uid};
use crate::cache::{Node, Pod, Volumes};
use crate::surge::classify::{self, Context};

/// Pods by UID, nodes by name, and what the lists that are open have held.
#[derive(Debug, Default)]
pub(super) struct Model {
    pub(super) pods: BTreeMap<String, Pod>,
    pub(super) nodes: BTreeMap<String, Node>,
    seen: BTreeMap<u8, BTreeSet<String>>,
}

impl Model {
    /// One of the Pods that are known, if any.
    pub(super) fn pick(&self, number: u8) -> Option<Pod> {
        let count = self.pods.len();
        if count == 0 { None } else { self.pods.values().nth(usize::from(number) % count).cloned() }
    }

    pub(super) fn apply(&mut self, pod: Pod) -> Vec<Happened> {
        let namesake = self.pods.values().any(|other| is_namesake(&pod, other));
        match self.pods.insert(pod.uid.to_string(), pod.clone()) {
            None if namesake => vec![Happened::Add, Happened::Recreation],
            None => vec![Happened::Add],
            Some(before) => {
                let moved = (before.node != pod.node).then_some(Happened::Move);
                let resized = (before.shape.requests != pod.shape.requests).then_some(Happened::Resize);
                moved.into_iter().chain(resized).collect()
            }
        }
    }

    pub(super) fn remove(&mut self, uid: &str) -> Option<Happened> {
        for seen in self.seen.values_mut() {
            seen.remove(uid);
        }
        match self.pods.remove(uid) {
            Some(pod) if !self.pods.values().any(|other| is_namesake(&pod, other)) => None,
            _ => Some(Happened::OutOfOrderDelete),
        }
    }

    pub(super) fn begin(&mut self, slot: u8) {
        self.seen.insert(slot, BTreeSet::new());
    }

    pub(super) fn mark(&mut self, slot: u8, uid: &str) {
        self.seen.entry(slot).or_default().insert(uid.to_owned());
    }

    pub(super) fn end(&mut self, slot: u8, partition: &Partition) -> usize {
        let seen = self.seen.remove(&slot).unwrap_or_default();
        self.remove_where(|pod| Self::is_held(partition, pod) && !seen.contains(&*pod.uid))
    }

    pub(super) fn keep(&mut self, partitions: &[Partition]) -> usize {
        self.remove_where(|pod| !partitions.iter().any(|partition| Self::is_held(partition, pod)))
    }

    fn remove_where(&mut self, gone: impl Fn(&Pod) -> bool) -> usize {
        let gone: Vec<_> = self.pods.values().filter(|pod| gone(pod)).map(|pod| Arc::clone(&pod.uid)).collect();
        for uid in &gone {
            self.remove(uid);
        }
        gone.len()
    }

    pub(super) fn is_held(partition: &Partition, pod: &Pod) -> bool {
        partition.holds(&Held { namespace: &pod.namespace, node: pod.node.as_deref(), uid: &pod.uid })
    }

    fn pods(&self, keep: impl Fn(&Pod) -> bool) -> Vec<Pod> {
        self.pods.values().filter(|pod| keep(pod)).cloned().collect()
    }

    /// Every answer of the state is what counting says.
    pub(super) fn assert_equals(&self, state: &State) {
        assert_eq!(sorted(state.pods().collect()), self.pods(|_| true));
        assert!(state.nodes().map(|node| &**node).eq(self.nodes.values()));
        (0..5).for_each(|number| self.assert_node_equals(state, &format!("n{number}")));
        for uid in (1..6).map(owner_uid) {
            let owned = self.pods(|pod| pod.owner.as_ref().is_some_and(|owner| *owner.uid == *uid));
            assert_eq!(sorted(state.pods_of_owner(&uid)), owned, "Pods of {uid}");
        }
        for namespace in ["even", "odd", "none"] {
            assert_eq!(sorted(state.pods_in(namespace)), self.pods(|pod| &*pod.namespace == namespace));
            for key in ["statefulset.kubernetes.io/pod-name", "job-name"] {
                let wanted = |value: Option<&str>| value.is_some_and(|value| value.starts_with("web"));
                let labelled = self.pods(|pod| &*pod.namespace == namespace && wanted(pod.labels.get(key)));
                assert_eq!(sorted(state.pods_labelled(namespace, |labels| wanted(labels.get(key)))), labelled);
            }
        }
        self.assert_anti_affine_equals(state);
        self.assert_counts_equal(state);
    }

    fn assert_node_equals(&self, state: &State, name: &str) {
        let object = self.nodes.get(name);
        let on = self.pods(|pod| pod.node.as_deref() == Some(name));
        let sum = |keep: &dyn Fn(&Pod) -> bool| {
            let mut sum = Sum::default();
            for pod in on.iter().filter(|pod| keep(pod)) {
                sum.pods += 1;
                sum.requests.add(&pod.shape.requests);
            }
            sum
        };
        assert_eq!(state.usage(name), sum(&Pod::holds_room), "usage of {name}");
        assert_eq!(state.movable(name), sum(&|pod| classify::counts(pod, object)), "movable of {name}");
        assert_eq!(state.hosts_real_pods(name), on.iter().any(classify::is_real), "real Pods of {name}");
        let real = u32::try_from(on.iter().filter(|pod| classify::is_real(pod)).count()).unwrap();
        assert_eq!(state.nodes.find(name).map_or(0, |slot| slot.sums.real), real, "number of real Pods of {name}");
        if let Some(object) = object {
            let (volumes, options) = (Volumes::default(), Options::default());
            for now in moments() {
                let context = Context::new(object, &volumes, &options, now);
                let blocked = on.iter().filter(|pod| !classify::classify(pod, &context).blockers.is_empty()).count();
                let (pods, blocked) = (u32::try_from(on.len()).unwrap(), u32::try_from(blocked).unwrap());
                let movable = state.movable(name);
                assert_eq!(state.tally(name, now), Tally { pods, movable, blocked }, "Pods of {name} at {now}");
            }
        }
        assert_eq!(sorted(state.pods_on(name)), on, "Pods of {name}");
        let arrives = |pod: &Pod| pod.nominated.as_deref() == Some(name) && pod.node.is_none();
        let arriving = self.pods(|pod| arrives(pod) && !pod.phase.is_finished());
        assert_eq!(sorted(state.arriving_on(name)), arriving, "arriving on {name}");
    }

    fn assert_anti_affine_equals(&self, state: &State) {
        let mut expected = BTreeMap::new();
        for pod in self.pods(|pod| pod.holds_room() && !pod.shape.anti_affinity.is_empty()) {
            *expected.entry((pod.namespace, pod.shape.anti_affinity.clone())).or_insert(0) += 1;
        }
        let mut found = BTreeMap::new();
        for AntiAffine { namespace, terms, pods, shape } in state.anti_affine() {
            let terms = terms.iter().map(|term| term.map(Box::from)).collect();
            *found.entry((Arc::clone(namespace), terms)).or_insert(0) += pods;
            let shaped = state.pods_shaped(namespace, &[shape]).iter().filter(|pod| pod.holds_room()).count();
            assert_eq!(u32::try_from(shaped), Ok(pods));
        }
        assert_eq!(found, expected);
    }

    fn assert_counts_equal(&self, state: &State) {
        let counts = state.counts();
        let distinct =
            |of: &dyn Fn(&Pod) -> Option<String>| self.pods.values().filter_map(of).collect::<BTreeSet<_>>().len();
        assert_eq!((counts.pods, counts.nodes), (self.pods.len(), self.nodes.len()));
        assert_eq!(counts.namespaces, distinct(&|pod| Some(pod.namespace.to_string())));
        let namespaces: BTreeSet<_> = self.pods.values().map(|pod| &*pod.namespace).collect();
        assert_eq!(state.namespaces().collect::<BTreeSet<_>>(), namespaces);
        assert_eq!(counts.owners, distinct(&|pod| Some(pod.owner.as_ref()?.uid.to_string())));
        // Shapes that differ in nothing but the name of each Pod's own node are one.
        let shape = |pod: &Pod| match &pod.node {
            Some(node) => format!("{:?}", pod.shape).replace(&format!("{node:?}"), "its own node"),
            None => format!("{:?}", pod.shape),
        };
        assert_eq!(counts.shapes, distinct(&|pod| Some(shape(pod))));
    }
}

fn is_namesake(one: &Pod, other: &Pod) -> bool {
    one.uid != other.uid && one.namespace == other.namespace && one.name == other.name
}

fn sorted(mut pods: Vec<Pod>) -> Vec<Pod> {
    pods.sort_by(|a, b| a.uid.cmp(&b.uid));
    pods
}
