//! An autoscaler: adds nodes for Pods that find no room, as cluster-autoscaler does for one group, and takes away those
//! that have been without Pods for long enough.

mod status;

use std::{collections::HashMap, sync::Arc};

use jiff::Timestamp;
use serde_json::{Value, json};

use super::{create, key};
use crate::{
    clock,
    kind::Kind,
    object,
    scheduler::{
        self,
        pod::PodInfo,
        world::{Cache, NodeInfo, World},
    },
    settings::Provisioner,
    store::Store,
};

/// A node on its way.
#[derive(Clone, Debug)]
enum Coming {
    /// The machine is ordered.
    Ordered { name: String, registers: Timestamp },
    /// The node is there, not Ready.
    Booting { name: String, ready: Timestamp },
}

/// What this autoscaler has under way.
#[derive(Debug)]
pub(super) struct State {
    provisioner: Provisioner,
    cache: Cache,
    coming: Vec<Coming>,
    brought: usize,
    told: HashMap<String, String>,
    /// Whether it has seen a node of the group: from then on it knows what the next one will be.
    seen: bool,
    /// Nodes without Pods, and since when.
    unneeded: HashMap<String, Timestamp>,
    published: Option<Timestamp>,
}

impl State {
    pub(super) fn new(provisioner: Provisioner) -> Self {
        Self {
            provisioner,
            cache: Cache::default(),
            coming: Vec::new(),
            brought: 0,
            told: HashMap::new(),
            seen: false,
            unneeded: HashMap::new(),
            published: None,
        }
    }

    pub(super) fn reconcile(&mut self, store: &mut Store) -> Option<Timestamp> {
        let now = store.now();
        self.advance(store, now);
        self.seen |= !self.members(store).is_empty();
        for _ in 0..self.needed(store) {
            self.brought += 1;
            let name = format!("{}-{}", self.provisioner.prefix, self.brought);
            self.coming.push(Coming::Ordered { name, registers: clock::after(now, self.provisioner.register) });
        }
        let shrinks = self.shrink(store, now);
        let publishes = self.publish(store, now);
        let times = self.coming.iter().map(|coming| match coming {
            Coming::Ordered { registers, .. } => *registers,
            Coming::Booting { ready, .. } => *ready,
        });
        times.chain(shrinks).chain(publishes).min()
    }

    /// The nodes of the group; of one without a name none is known.
    fn members(&self, store: &Store) -> Vec<Arc<Value>> {
        let Some(group) = &self.provisioner.group else { return Vec::new() };
        let label = |node: &Value| object::label(node, Provisioner::GROUP_LABEL) == Some(group);
        store.iter(Kind::Node).filter(|node| label(node)).cloned().collect()
    }

    /// How many nodes it has or has ordered: what the cloud calls the group's size.
    fn size(&self, store: &Store) -> usize {
        match self.provisioner.group {
            Some(_) => {
                let ordered = self.coming.iter().filter(|coming| matches!(coming, Coming::Ordered { .. })).count();
                self.members(store).len() + ordered
            }
            None => self.brought,
        }
    }

    /// Takes away nodes that have been without Pods for long enough, down to the minimum; answers when to look again. The
    /// real one also takes nodes whose few Pods fit elsewhere.
    fn shrink(&mut self, store: &mut Store, now: Timestamp) -> Option<Timestamp> {
        let after = self.provisioner.unneeded?;
        let members = self.members(store);
        let before = std::mem::take(&mut self.unneeded);
        for node in members.iter().filter(|node| object::ready(node) && is_unneeded(store, node)) {
            let name = object::name(node);
            self.unneeded.insert(name.to_owned(), before.get(name).copied().unwrap_or(now));
        }
        let mut due: Vec<_> =
            self.unneeded.iter().map(|(name, since)| (clock::after(*since, after), name.clone())).collect();
        due.sort();
        let mut spare = self.size(store).saturating_sub(self.provisioner.min);
        for (at, name) in due {
            if spare == 0 {
                return None;
            }
            if at > now {
                return Some(at);
            }
            self.unneeded.remove(&name);
            if let Some(node) = members.iter().find(|node| object::name(node) == name) {
                store.delete(Kind::Node, &key(node), None);
                spare -= 1;
            }
        }
        None
    }

    /// Registers and boots what is due.
    fn advance(&mut self, store: &mut Store, now: Timestamp) {
        let mut still = Vec::new();
        for coming in std::mem::take(&mut self.coming) {
            match coming {
                Coming::Ordered { name, registers } if registers <= now => {
                    create(store, Kind::Node, self.node(&name));
                    still.push(Coming::Booting { name, ready: clock::after(registers, self.provisioner.boot) });
                }
                Coming::Booting { name, ready } if ready <= now => {
                    store.update(Kind::Node, &(String::new(), name), |node| {
                        object::set_condition(node, "Ready", "True", "KubeletReady", "", now);
                    });
                }
                other => still.push(other),
            }
        }
        self.coming = still;
    }

    fn node(&self, name: &str) -> Value {
        let mut node = self.provisioner.template.clone();
        node["metadata"]["name"] = json!(name);
        node["metadata"]["labels"]["kubernetes.io/hostname"] = json!(name);
        node["spec"]["providerID"] = json!(format!("sim://{name}"));
        node["status"]["conditions"] = json!([{"type": "Ready", "status": "False", "reason": "KubeletNotReady"}]);
        node
    }

    /// How many more nodes would take Pods that nothing there or under way takes.
    fn needed(&mut self, store: &mut Store) -> usize {
        let pending: Vec<Arc<Value>> = store.iter(Kind::Pod).filter(|pod| self.wants_room(pod)).cloned().collect();
        if pending.is_empty() {
            return 0;
        }
        let mut world = World::of(store, &mut self.cache);
        let under_way: Vec<String> = self
            .coming
            .iter()
            .map(|coming| match coming {
                Coming::Ordered { name, .. } | Coming::Booting { name, .. } => name.clone(),
            })
            .collect();
        for name in &under_way {
            // As it will be: Ready, and with nothing on it but what is there already.
            let pods = world.position(name).map(|at| {
                let pods = world.nodes[at].pods.clone();
                world.put(at, Vec::new());
                world.nodes.remove(at);
                pods
            });
            let pods = pods.unwrap_or_default();
            self.open(&mut world, name, pods);
        }
        // One that has just become Ready keeps its taint for a moment.
        for node in store.iter(Kind::Node).filter(|node| object::ready(node)) {
            if let Some(node) = world.node(object::name(node)) {
                node.taints.retain(|taint| taint["key"] != "node.kubernetes.io/not-ready");
            }
        }
        let mut new = 0;
        let size = self.size(store);
        let mut pending: Vec<Arc<PodInfo>> = pending.iter().map(|pod| self.cache.info(pod)).collect();
        pending.sort_by_key(|pod| std::cmp::Reverse(pod.priority));
        for pod in &pending {
            let taken = (0..world.nodes.len()).find(|&at| scheduler::fits(pod, &world, at).is_ok());
            if let Some(at) = taken {
                world.add(at, pod.clone());
                continue;
            }
            self.open(&mut world, &format!("{}-{}", self.provisioner.prefix, self.brought + new + 1), Vec::new());
            let at = world.nodes.len() - 1;
            let refused = match scheduler::fits(pod, &world, at) {
                Ok(()) if size + new < self.provisioner.max => {
                    world.add(at, pod.clone());
                    new += 1;
                    continue;
                }
                Ok(()) => "1 max node group size reached".to_owned(),
                Err(reasons) => format!("1 {}", reasons.join(", 1 ")),
            };
            world.nodes.pop();
            self.tell(store, pod, &refused);
        }
        new
    }

    /// Adds a node of the template to the world.
    fn open(&self, world: &mut World, name: &str, pods: Vec<Arc<PodInfo>>) {
        let mut node = self.node(name);
        if let Some(described) = self.provisioner.from_zero.as_ref().filter(|_| !self.seen) {
            node["status"] = described["status"].clone();
            node["metadata"]["labels"] = described["metadata"]["labels"].clone();
            node["spec"]["taints"] = described["spec"]["taints"].clone();
        }
        world.nodes.push(NodeInfo::of(&node));
        world.put(world.nodes.len() - 1, pods);
    }

    fn wants_room(&self, pod: &Value) -> bool {
        let unschedulable = object::list(pod, "/status/conditions")
            .iter()
            .any(|c| c["type"] == "PodScheduled" && c["status"] == "False" && c["reason"] == "Unschedulable");
        let daemon = object::controller(pod).is_some_and(|owner| owner["kind"] == "DaemonSet");
        unschedulable
            && !daemon
            && object::active(pod)
            && object::node_name(pod).is_empty()
            && object::text(pod, "/status/nominatedNodeName").is_empty()
            && object::priority(pod) >= self.provisioner.cutoff
    }

    /// Says on the Pod why no node comes for it; once for each reason.
    fn tell(&mut self, store: &mut Store, pod: &PodInfo, why: &str) {
        if self.told.get(&pod.uid).is_some_and(|told| told == why) {
            return;
        }
        self.told.insert(pod.uid.clone(), why.to_owned());
        let now = clock::seconds(store.now());
        let event = json!({
            "metadata": {"generateName": format!("{}.", pod.key.1), "namespace": pod.key.0},
            "involvedObject": {
                "apiVersion": "v1", "kind": "Pod", "namespace": pod.key.0, "name": pod.key.1, "uid": pod.uid,
            },
            "reason": "NotTriggerScaleUp", "type": "Normal", "count": 1, "firstTimestamp": now, "lastTimestamp": now,
            "message": format!("pod didn't trigger scale-up: {why}"), "source": {"component": "cluster-autoscaler"},
        });
        create(store, Kind::Event, event);
    }
}

/// Whether nothing runs on the node that would have to go elsewhere, and nobody wants it to stay.
fn is_unneeded(store: &Store, node: &Value) -> bool {
    let protected = object::annotation(node, "cluster-autoscaler.kubernetes.io/scale-down-disabled") == Some("true");
    let moves = |pod: &&Arc<Value>| {
        let daemon = object::controller(pod).is_some_and(|owner| owner["kind"] == "DaemonSet");
        object::node_name(pod) == object::name(node) && !object::finished(pod) && !daemon
    };
    !protected && store.iter(Kind::Pod).find(moves).is_none()
}
