//! The scheduler: finds a node for each Pod without one, making room by preemption where it may.

use std::{collections::HashMap, sync::Arc};

use jiff::Timestamp;
use serde_json::json;

use crate::{
    clock,
    cluster::Cluster,
    kind::Kind,
    log::Event,
    object,
    store::{Key, Store},
};

mod affinity;
mod decide;
mod filters;
mod neighbours;
pub(crate) mod pod;
mod preemption;
mod queue;
mod score;
mod spread;
#[cfg(test)]
mod tests;
mod volumes;
pub(crate) mod world;

use decide::{Decision, decide};
use pod::PodInfo;
use queue::Queue;
use world::{Cache, World};

/// A decision on its way to the API server.
#[derive(Debug)]
struct Assumed {
    pod: Arc<PodInfo>,
    node: String,
    due: Timestamp,
    /// Claims whose volumes are made first.
    claims: Vec<Key>,
}

/// A victim that is to go.
#[derive(Debug)]
struct Sentence {
    victim: Arc<PodInfo>,
    by: String,
    due: Timestamp,
}

#[derive(Debug, Default)]
struct Scheduler {
    queue: Queue,
    cache: Cache,
    assumed: Vec<Assumed>,
    sentences: Vec<Sentence>,
    seen: Seen,
}

/// What the cluster looked like, to tell which changes may help.
#[derive(Debug, Default, PartialEq)]
struct Seen {
    version: u64,
    nodes: HashMap<String, (serde_json::Value, serde_json::Value, serde_json::Value)>,
    volumes: u64,
    bound: HashMap<String, serde_json::Value>,
    waiting: HashMap<String, Key>,
}

/// Runs until the cluster ends.
pub(crate) async fn run(cluster: Arc<Cluster>) {
    let mut scheduler = Scheduler::default();
    let mut changes = cluster.store().subscribe();
    loop {
        changes.mark_unchanged();
        let wake = scheduler.tick(&cluster);
        tokio::select! {
            changed = changes.changed() => if changed.is_err() { return },
            () = cluster.clock.sleep_until(wake) => {}
        }
    }
}

impl Scheduler {
    /// Does all that can be done now; returns when there is more to do without anything happening.
    fn tick(&mut self, cluster: &Cluster) -> Option<Timestamp> {
        let store = &mut *cluster.store();
        let now = store.now();
        self.carry_out(store, now);
        self.observe(store, now);
        let mut view = None;
        // While the store is locked nothing happens but what is decided here, and the view follows that.
        while let Some(uid) = self.queue.pop(now, cluster.settings.pop_from_backoff) {
            let view = view.get_or_insert_with(|| self.view(store));
            self.schedule(store, cluster, view, &uid, now);
        }
        let dues = self.assumed.iter().map(|a| a.due).chain(self.sentences.iter().map(|s| s.due));
        dues.chain(self.queue.next()).min()
    }

    /// Bindings and deletions whose time has come.
    fn carry_out(&mut self, store: &mut Store, now: Timestamp) {
        let due = |at: Timestamp| at <= now;
        for assumed in self.assumed.extract_if(.., |assumed| due(assumed.due)) {
            let pending = store.get(Kind::Pod, &assumed.pod.key.0, &assumed.pod.key.1).is_some_and(|pod| {
                object::uid(pod) == assumed.pod.uid && !object::terminating(pod) && object::node_name(pod).is_empty()
            });
            if pending && store.get(Kind::Node, "", &assumed.node).is_some() {
                volumes::provide(store, &assumed.claims, &assumed.node);
                bind(store, &assumed.pod.key, &assumed.node);
            }
        }
        let sentences: Vec<Sentence> = self.sentences.extract_if(.., |sentence| due(sentence.due)).collect();
        if !sentences.is_empty() {
            // Also where a victim left by itself meanwhile, which nobody would notice again.
            self.queue.wake(false, now);
        }
        for sentence in sentences {
            let key = &sentence.victim.key;
            let there = store.get(Kind::Pod, &key.0, &key.1).is_some_and(|pod| object::uid(pod) == sentence.victim.uid);
            if !there {
                continue;
            }
            store.update(Kind::Pod, key, |pod| {
                let message = "default-scheduler: preempting to accommodate a higher priority pod";
                object::set_condition(pod, "DisruptionTarget", "True", "PreemptionByScheduler", message, now);
            });
            store.record(Event::Preempted { victim: sentence.victim.uid.clone(), by: sentence.by });
            store.delete(Kind::Pod, key, None);
        }
    }

    /// Takes up new Pods, and wakes those that a change may help.
    fn observe(&mut self, store: &Store, now: Timestamp) {
        let version = store.version_of(&[Kind::Node, Kind::Pod, Kind::PersistentVolume, Kind::PersistentVolumeClaim]);
        if version == self.seen.version {
            return;
        }
        let mut seen = Seen {
            version,
            volumes: store.version_of(&[Kind::PersistentVolume, Kind::PersistentVolumeClaim]),
            ..Seen::default()
        };
        for node in store.iter(Kind::Node) {
            let shape =
                (node["spec"].clone(), node["metadata"]["labels"].clone(), node["status"]["allocatable"].clone());
            seen.nodes.insert(object::uid(node).to_owned(), shape);
        }
        let mut waiting = Vec::new();
        for pod in store.iter(Kind::Pod) {
            if !object::node_name(pod).is_empty() {
                if !object::finished(pod) {
                    seen.bound.insert(object::uid(pod).to_owned(), pod["metadata"]["labels"].clone());
                }
            } else if ours(pod) {
                waiting.push(pod.clone());
            }
        }
        let left = self.seen.bound.keys().any(|uid| !seen.bound.contains_key(uid));
        let arrived = seen.bound.iter().any(|(uid, labels)| self.seen.bound.get(uid) != Some(labels));
        if left || seen.nodes != self.seen.nodes || seen.volumes != self.seen.volumes {
            self.queue.wake(false, now);
        } else if arrived {
            self.queue.wake(true, now);
        }
        for uid in self.seen.bound.keys().filter(|uid| !seen.bound.contains_key(*uid)) {
            self.cache.forget(uid);
        }
        waiting.retain(|pod| !self.assumed.iter().any(|assumed| assumed.pod.uid == object::uid(pod)));
        for pod in &waiting {
            let info = self.cache.info(pod);
            self.queue.admit(&info.uid, info.priority, info.minds_neighbours(), now);
            seen.waiting.insert(info.uid.clone(), info.key.clone());
        }
        self.queue.retain(|uid| seen.waiting.contains_key(uid));
        self.seen = seen;
    }

    /// The cluster as decisions see it, what is only assumed included.
    fn view(&mut self, store: &Store) -> View {
        let mut world = World::of(store, &mut self.cache);
        for assumed in &self.assumed {
            if let Some(at) = world.position(&assumed.node) {
                world.add(at, assumed.pod.clone());
            }
        }
        let nominated = store
            .iter(Kind::Pod)
            .filter(|pod| {
                object::node_name(pod).is_empty() && !object::text(pod, "/status/nominatedNodeName").is_empty()
            })
            .filter(|pod| !self.assumed.iter().any(|assumed| assumed.pod.uid == object::uid(pod)))
            .map(|pod| self.cache.info(pod))
            .collect();
        View { world, nominated }
    }

    fn schedule(&mut self, store: &mut Store, cluster: &Cluster, view: &mut View, uid: &str, now: Timestamp) {
        let key = self.seen.waiting.get(uid).cloned();
        let Some(pod) = key.and_then(|key| store.get(Kind::Pod, &key.0, &key.1).cloned()) else { return };
        if self.sentences.iter().any(|sentence| sentence.by == uid) {
            return;
        }
        let info = self.cache.info(&pod);
        match decide(&info, &mut view.world, &view.nominated, store.random()) {
            Decision::Bind(at) => {
                let node = view.world.nodes[at].name.clone();
                view.nominated.retain(|other| other.uid != uid);
                view.world.add(at, info.clone());
                self.queue.remove(uid);
                self.queue.wake(true, now);
                let claims = volumes::waiting(&info, &view.world.claims);
                let settings = &cluster.settings;
                let delay =
                    if claims.is_empty() { settings.bind_delay } else { settings.bind_delay + settings.volume_delay };
                if delay.is_zero() && claims.is_empty() {
                    bind(store, &info.key, &node);
                } else {
                    nominate(store, &info.key, &node);
                    volumes::select_node(store, &claims, &node);
                    self.assumed.push(Assumed { pod: info, node, due: clock::after(now, delay), claims });
                }
            }
            Decision::Preempt(victims, message) => {
                refuse(store, &info.key, &message, now);
                let promised = nominate(store, &info.key, &victims.node);
                view.nominated.retain(|other| other.uid != uid);
                view.nominated.extend(promised.map(|pod| self.cache.info(&pod)));
                let due = clock::after(now, cluster.settings.preemption);
                self.sentences.extend(
                    victims.pods.into_iter().filter(|victim| !victim.terminating).map(|victim| Sentence {
                        victim,
                        by: uid.to_owned(),
                        due,
                    }),
                );
            }
            Decision::Nowhere { message, promised } => {
                if !promised {
                    if !info.nominated.is_empty() {
                        view.nominated.retain(|other| other.uid != uid);
                        store.update(Kind::Pod, &info.key, |pod| object::remove(pod, "/status", "nominatedNodeName"));
                    }
                    let told = object::list(&pod, "/status/conditions").iter().any(|c| c["message"] == message);
                    if !told {
                        store.record(Event::PodUnschedulable { uid: uid.to_owned(), message: message.clone() });
                    }
                }
                refuse(store, &info.key, &message, now);
            }
        }
    }
}

/// What one round of decisions is made on.
#[derive(Debug)]
struct View {
    world: World,
    /// Pods that were promised room and are not there yet.
    nominated: Vec<Arc<PodInfo>>,
}

/// Whether a DaemonSet wants a Pod of its own there: what resources are left does not matter.
pub(crate) fn suits(pod: &PodInfo, node: &world::NodeInfo) -> bool {
    filters::selected(pod, node) && filters::tolerated(pod, node)
}

/// Whether a node takes a Pod as it stands, or the reasons why not.
pub(crate) fn fits(pod: &PodInfo, world: &World, at: usize) -> Result<(), Vec<String>> {
    filters::before(pod, world).map_err(|why| vec![why])?;
    filters::filter(pod, world, at).map_err(|refusal| refusal.reasons)
}

/// Whether a node as it stands would take a Pod, were some others gone.
pub(crate) fn would_fit(store: &Store, pod: &serde_json::Value, node: &str, gone: &[&str]) -> Result<(), Vec<String>> {
    let mut world = World::of(store, &mut Cache::default());
    let at = world.position(node).ok_or_else(|| vec![format!("nodes \"{node}\" not found")])?;
    for at in 0..world.nodes.len() {
        for uid in gone {
            world.remove(at, uid);
        }
    }
    let mut pod = PodInfo::of(pod);
    // A Pod that has a node already is asked about as its replacement would be.
    pod.node.clear();
    fits(&pod, &world, at)
}

/// Ours to schedule: of this scheduler, not gated, neither ended nor going.
fn ours(pod: &serde_json::Value) -> bool {
    object::text(pod, "/spec/schedulerName") == "default-scheduler"
        && object::list(pod, "/spec/schedulingGates").is_empty()
        && object::active(pod)
}

/// Gives a Pod its node, and with it the node's topology as labels.
pub(crate) fn bind(store: &mut Store, key: &Key, node: &str) {
    const TOPOLOGY: &[&str] = &["topology.kubernetes.io/zone", "topology.kubernetes.io/region"];
    let now = store.now();
    let labels: Vec<(&str, String)> = store
        .get(Kind::Node, "", node)
        .into_iter()
        .flat_map(|node| TOPOLOGY.iter().filter_map(|key| Some((*key, object::label(node, key)?.to_owned()))))
        .collect();
    store.update(Kind::Pod, key, |pod| {
        pod["spec"]["nodeName"] = json!(node);
        for (key, value) in labels {
            pod["metadata"]["labels"][key] = json!(value);
        }
        object::remove(pod, "/status", "nominatedNodeName");
        object::set_condition(pod, "PodScheduled", "True", "", "", now);
    });
}

fn nominate(store: &mut Store, key: &Key, node: &str) -> Option<Arc<serde_json::Value>> {
    store.update(Kind::Pod, key, |pod| pod["status"]["nominatedNodeName"] = json!(node))
}

fn refuse(store: &mut Store, key: &Key, message: &str, now: Timestamp) {
    store.update(Kind::Pod, key, |pod| {
        object::set_condition(pod, "PodScheduled", "False", "Unschedulable", message, now);
    });
}
