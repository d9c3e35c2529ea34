//! Claims for Pods that find no room: as few and as cheap as take them all, within the pools' limits.

use std::{collections::BTreeMap, sync::Arc};

use jiff::Timestamp;
use serde_json::{Value, json};

use super::{DISRUPTED, State, ZONE, claim::Choice, claims_of, is_daemon, say};
use crate::{
    clock,
    controllers::pod_of,
    kind::Kind,
    object,
    quantity::{self, Amounts},
    scheduler::{
        self,
        pod::PodInfo,
        world::{NodeInfo, World},
    },
    store::Store,
};

/// A claim in the making.
struct Open {
    choices: Vec<Choice>,
    pods: Vec<Arc<PodInfo>>,
    name: String,
}

/// A pool that may grow.
struct Pool {
    object: Arc<Value>,
    choices: Vec<Choice>,
    /// What its limits leave, `nodes` among them.
    left: Amounts,
}

impl State {
    /// Makes claims once the Pods that came together are there; answers when that is.
    pub(super) fn provision(&mut self, store: &mut Store, now: Timestamp) -> Option<Timestamp> {
        self.replicate(store, now);
        let pending: Vec<Arc<Value>> = store.iter(Kind::Pod).filter(|pod| wants_room(pod)).cloned().collect();
        self.considered.retain(|uid| pending.iter().any(|pod| object::uid(pod) == uid));
        if pending.is_empty() {
            self.batch = None;
            return None;
        }
        let new = pending.iter().any(|pod| !self.considered.contains(object::uid(pod)));
        let Some(since) = self.batch else {
            // What was dealt with is looked at again with the next change of anything: its node may have been lost.
            let wait = if new { self.settings.batch } else { self.settings.retry };
            self.batch = Some(now);
            return Some(clock::after(now, wait));
        };
        let wait = if new { self.settings.batch } else { self.settings.retry };
        let due = clock::after(since, wait);
        if due > now {
            return Some(due);
        }
        self.batch = None;
        self.considered = pending.iter().map(|pod| object::uid(pod).to_owned()).collect();
        self.schedule(store, &pending, now);
        None
    }

    /// Static pools have as many nodes as they say, whatever Pods there are.
    fn replicate(&mut self, store: &mut Store, now: Timestamp) {
        let pools: Vec<Arc<Value>> = store.iter(Kind::NodePool).cloned().collect();
        for pool in pools.iter().filter(|pool| !object::terminating(pool)) {
            let Some(wanted) = object::number(pool, "/spec/replicas") else { continue };
            let there = claims_of(store, object::name(pool)).iter().filter(|it| !object::terminating(it)).count();
            let wanted = usize::try_from(wanted).unwrap_or(0);
            let choices = Choice::all(pool, &self.settings.types, &self.settings.zones);
            for _ in there..wanted {
                if let Some(choice) = choices.first() {
                    self.claim(store, pool, choice, now);
                }
            }
        }
    }

    fn claim(&mut self, store: &mut Store, pool: &Value, choice: &Choice, now: Timestamp) -> Option<String> {
        let made = store.create(Kind::NodeClaim, choice.claim(pool)).ok()?;
        let name = object::name(&made).to_owned();
        self.choices.insert(name.clone(), (choice.clone(), now));
        Some(name)
    }

    fn schedule(&mut self, store: &mut Store, pending: &[Arc<Value>], now: Timestamp) {
        let mut pools = self.pools(store);
        let mut world = self.world(store);
        world.nodes.extend(domains(&pools));
        let daemons: Vec<PodInfo> = store.iter(Kind::DaemonSet).map(|set| PodInfo::of(&pod_of(set))).collect();
        let mut opened: Vec<Open> = Vec::new();
        let mut infos: Vec<(Arc<PodInfo>, &Arc<Value>)> =
            pending.iter().map(|pod| (self.cache.info(pod), pod)).collect();
        // The largest first, as Karpenter's queue has it.
        infos.sort_by_key(|(pod, _)| std::cmp::Reverse(pod.requests.get("cpu").copied().unwrap_or(0)));
        for (pod, object) in infos {
            if let Some(why) = invalid(object) {
                self.tell(store, object, &why);
                continue;
            }
            let base = world.nodes.len() - opened.len();
            if let Some(at) = (0..base).find(|&at| scheduler::fits(&pod, &world, at).is_ok()) {
                world.add(at, pod);
                continue;
            }
            let joined =
                (0..opened.len()).any(|number| join(&mut opened[number], base + number, &mut world, &pod, &daemons));
            if joined {
                continue;
            }
            if let Err(why) = open(&mut pools, &mut opened, &mut world, &pod, &daemons) {
                self.tell(store, object, &why);
            }
        }
        for Open { choices, pods, .. } in opened {
            let (Some(choice), Some(pool)) =
                (choices.first(), pools.iter().find(|pool| object::name(&pool.object) == choices[0].pool))
            else {
                continue;
            };
            let Some(name) = self.claim(store, &pool.object, choice, now) else { continue };
            for pod in pods {
                if let Some(pod) = store.get(Kind::Pod, &pod.key.0, &pod.key.1).cloned() {
                    let message = format!("Pod should schedule on: nodeclaim/{name}");
                    say(store, Kind::Pod, &pod, "Normal", "Nominated", &message);
                }
            }
        }
    }

    /// The pools that may grow, by weight.
    fn pools(&self, store: &Store) -> Vec<Pool> {
        let grows = |pool: &&Arc<Value>| {
            !object::terminating(pool) && object::ready(pool) && object::number(pool, "/spec/replicas").is_none()
        };
        let mut objects: Vec<Arc<Value>> = store.iter(Kind::NodePool).filter(grows).cloned().collect();
        objects.sort_by_key(|pool| std::cmp::Reverse(object::number(pool, "/spec/weight").unwrap_or(0)));
        let pool = |object: Arc<Value>| {
            let mut left = quantity::amounts(object.pointer("/spec/limits"));
            let claims = claims_of(store, object::name(&object));
            for claim in claims.iter().filter(|claim| !object::terminating(claim)) {
                let choice = self.choices.get(object::name(claim)).map(|(choice, _)| json!(choice.of.capacity));
                let charged = choice.unwrap_or_else(|| claim["status"]["capacity"].clone());
                charge(&mut left, &quantity::amounts(Some(&charged)));
            }
            let choices = Choice::all(&object, &self.settings.types, &self.settings.zones);
            Pool { object, choices, left }
        };
        objects.into_iter().map(pool).collect()
    }

    /// The cluster as it will be: nodes on their way are Ready, and claims that have none yet are nodes.
    fn world(&mut self, store: &Store) -> World {
        let mut world = World::of(store, &mut self.cache);
        for node in store.iter(Kind::Node) {
            let going = object::terminating(node)
                || object::list(node, "/spec/taints").iter().any(|taint| taint["key"] == DISRUPTED);
            if let Some(node) = world.node(object::name(node)) {
                node.unschedulable |= going;
                node.taints.retain(|taint| taint["key"] != "node.kubernetes.io/not-ready");
            }
        }
        for claim in store.iter(Kind::NodeClaim).filter(|claim| !object::terminating(claim)) {
            let known = store.get(Kind::Node, "", object::text(claim, "/status/nodeName")).is_some();
            if let (false, Some((choice, _))) = (known, self.choices.get(object::name(claim))) {
                world.nodes.push(NodeInfo::of(&choice.node(object::name(claim))));
            }
        }
        world
    }

    /// Says on the Pod why no node comes for it; once for each reason.
    fn tell(&mut self, store: &mut Store, pod: &Value, why: &str) {
        let uid = object::uid(pod);
        if self.told.get(uid).is_some_and(|told| told == why) {
            return;
        }
        self.told.insert(uid.to_owned(), why.to_owned());
        let message = format!("Failed to schedule pod, {why}");
        say(store, Kind::Pod, pod, "Warning", "FailedScheduling", &message);
    }
}

/// A node in each zone that a pool may have, which takes nothing: for Karpenter a zone counts before a node is in it.
fn domains(pools: &[Pool]) -> Vec<NodeInfo> {
    let mut zones: BTreeMap<(String, String), NodeInfo> = BTreeMap::new();
    for choice in pools.iter().flat_map(|pool| &pool.choices) {
        let zone = choice.labels[ZONE].as_str().unwrap_or_default().to_owned();
        zones.entry((choice.pool.clone(), zone.clone())).or_insert_with(|| {
            let mut node = NodeInfo::of(&choice.node(&format!("{} in {zone}", choice.pool)));
            node.allocatable.clear();
            node
        });
    }
    zones.into_values().collect()
}

/// Puts a Pod into a claim in the making, if some machine takes all of them.
fn join(open: &mut Open, at: usize, world: &mut World, pod: &Arc<PodInfo>, daemons: &[PodInfo]) -> bool {
    let mut fitting = Vec::new();
    for choice in &open.choices {
        place(choice, &open.name, at, world, &open.pods, daemons);
        if scheduler::fits(pod, world, at).is_ok() {
            fitting.push(choice.clone());
        }
    }
    let fits = !fitting.is_empty();
    if fits {
        open.choices = fitting;
        open.pods.push(pod.clone());
    }
    place(&open.choices[0], &open.name, at, world, &open.pods, daemons);
    fits
}

/// Begins a claim for a Pod, of the first pool that has a machine for it.
fn open(
    pools: &mut [Pool],
    opened: &mut Vec<Open>,
    world: &mut World,
    pod: &Arc<PodInfo>,
    daemons: &[PodInfo],
) -> Result<(), String> {
    let mut reasons = Vec::new();
    let at = world.nodes.len();
    for pool in pools {
        let name = object::name(&pool.object).to_owned();
        if pool.left.get("nodes").is_some_and(|left| *left <= 0) {
            reasons.push(format!("node limits have been exhausted for nodepool (NodePool={name})"));
            continue;
        }
        let affordable: Vec<_> = pool.choices.iter().filter(|choice| afforded(&pool.left, choice)).cloned().collect();
        if affordable.is_empty() {
            reasons.push(format!("all available instance types exceed limits for nodepool (NodePool={name})"));
            continue;
        }
        let mut open = Open { choices: affordable.clone(), pods: Vec::new(), name: format!("{name}-new-{at}") };
        world.nodes.push(NodeInfo::of(&open.choices[0].node(&open.name)));
        if join(&mut open, at, world, pod, daemons) {
            // The dearest of them may be what comes of it.
            let mut dearest = Amounts::new();
            for choice in &affordable {
                for (resource, amount) in quantity::amounts(Some(&json!(choice.of.capacity))) {
                    let most = dearest.entry(resource).or_default();
                    *most = (*most).max(amount);
                }
            }
            charge(&mut pool.left, &dearest);
            opened.push(open);
            return Ok(());
        }
        world.put(at, Vec::new());
        world.nodes.pop();
        reasons.push(format!("incompatible with nodepool \"{name}\", no instance type met all requirements"));
    }
    Err(reasons.join("; "))
}

/// Has the machine stand in the world as this choice, with these Pods and its daemons on it.
fn place(choice: &Choice, name: &str, at: usize, world: &mut World, pods: &[Arc<PodInfo>], daemons: &[PodInfo]) {
    world.put(at, Vec::new());
    world.nodes[at] = NodeInfo::of(&choice.node(name));
    let daemons = daemons.iter().filter(|daemon| scheduler::suits(daemon, &world.nodes[at]));
    let all = daemons.map(|daemon| Arc::new(daemon.clone())).chain(pods.iter().cloned()).collect();
    world.put(at, all);
}

fn afforded(left: &Amounts, choice: &Choice) -> bool {
    let capacity = quantity::amounts(Some(&json!(choice.of.capacity)));
    left.iter().all(|(resource, left)| capacity.get(resource).is_none_or(|amount| amount <= left))
}

/// Takes a machine off what is left.
fn charge(left: &mut Amounts, capacity: &Amounts) {
    for (resource, left) in left {
        *left -= if resource == "nodes" { 1 } else { capacity.get(resource).copied().unwrap_or(0) };
    }
}

fn wants_room(pod: &Value) -> bool {
    let unschedulable = object::list(pod, "/status/conditions")
        .iter()
        .any(|it| it["type"] == "PodScheduled" && it["status"] == "False" && it["reason"] == "Unschedulable");
    unschedulable
        && !is_daemon(pod)
        && object::active(pod)
        && object::node_name(pod).is_empty()
        && object::text(pod, "/status/nominatedNodeName").is_empty()
}

/// Why Karpenter does not look at a Pod at all.
fn invalid(pod: &Value) -> Option<String> {
    let terms = "/spec/affinity/nodeAffinity/requiredDuringSchedulingIgnoredDuringExecution/nodeSelectorTerms";
    let terms = object::list(pod, terms).iter();
    let asked = terms.flat_map(|term| object::list(term, "/matchExpressions")).map(|it| object::text(it, "/key"));
    let selected = object::map(pod, "/spec/nodeSelector").into_iter().flatten().map(|(key, _)| &**key);
    let restricted = asked.chain(selected).any(|key| key == "kubernetes.io/hostname");
    restricted.then(|| {
        "ignoring pod, label kubernetes.io/hostname is restricted; specify a well known label or a custom label that \
         does not use a restricted domain"
            .to_owned()
    })
}
