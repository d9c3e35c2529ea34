//! An autoscaler: adds nodes for Pods that find no room, as cluster-autoscaler does for one group.

use std::{collections::HashMap, sync::Arc};

use jiff::Timestamp;
use serde_json::{Value, json};

use super::create;
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
}

impl State {
    pub(super) fn new(provisioner: Provisioner) -> Self {
        Self { provisioner, cache: Cache::default(), coming: Vec::new(), brought: 0, told: HashMap::new() }
    }

    pub(super) fn reconcile(&mut self, store: &mut Store) -> Option<Timestamp> {
        let now = store.now();
        self.advance(store, now);
        for _ in 0..self.needed(store) {
            self.brought += 1;
            let name = format!("{}-{}", self.provisioner.prefix, self.brought);
            self.coming.push(Coming::Ordered { name, registers: clock::after(now, self.provisioner.register) });
        }
        let times = self.coming.iter().map(|coming| match coming {
            Coming::Ordered { registers, .. } => *registers,
            Coming::Booting { ready, .. } => *ready,
        });
        times.min()
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
                Ok(()) if self.brought + new < self.provisioner.max => {
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
        world.nodes.push(NodeInfo::of(&self.node(name)));
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
