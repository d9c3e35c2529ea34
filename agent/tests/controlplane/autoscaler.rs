//! A stand-in for a cluster autoscaler: late nodes for Pods that don't fit.
//!
//! It looks at Pods that the scheduler called unschedulable, packs them into the nodes that still boot, and registers one
//! more node where they don't fit. Like cluster-autoscaler it ignores Pods of priority below −10, tells of its group in a
//! ConfigMap and on Pods, and takes empty nodes away, down to a minimum. It knows requests, node
//! selectors and required node affinity with `In`; it knows nothing of taints, spread or affinity between Pods, so that a
//! Pod which its node turns out not to serve gets another once the node has been Ready for a while.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::time::Duration;

use anyhow::Result;
use k8s_openapi::api::core::v1::{ConfigMap, Event, Node, NodeSelectorTerm, Pod, PodSpec};
use kube::api::{Api, ListParams, Patch, PatchParams};
use kube::{Client, ResourceExt};
use rotate_agent::clock::Clock;
use serde_json::json;
use tokio::task::JoinHandle;
use tokio::time::{Instant, MissedTickBehavior, interval};

use super::nodes::{FakeNode, is_ready};

/// cluster-autoscaler's default for `--expendable-pods-priority-cutoff`.
const CUTOFF: i32 = -10;
/// How often it looks; the real ones take 10 s and 1 s.
const LOOK_EVERY: Duration = Duration::from_millis(250);
/// How long a Pod has to wait before a node comes for it. A replacement is unschedulable for some tenths of a second before
/// the scheduler has cleared a place for it; the real ones, with their 10 s, do not see that.
const WAITS_FOR: Duration = Duration::from_secs(1);
/// How long after its boot a node may take to receive the Pods it was made for.
pub(crate) const SETTLES_WITHIN: Duration = Duration::from_secs(5);

/// The label that the nodes of a group with a name carry.
pub(crate) const GROUP_LABEL: &str = "eks.amazonaws.com/nodegroup";

/// What an autoscaler tells of a group.
#[derive(Clone, Debug)]
pub(crate) struct Group {
    /// The value of [`GROUP_LABEL`] on its nodes.
    pub(crate) name: String,
    pub(crate) min: usize,
    pub(crate) max: usize,
}

impl Group {
    pub(crate) fn new(name: &str, min: usize, max: usize) -> Self {
        Self { name: name.to_owned(), min, max }
    }

    /// How many nodes it has.
    pub(crate) async fn size(&self, client: &Client) -> Result<usize> {
        let members = ListParams::default().labels(&format!("{GROUP_LABEL}={}", self.name));
        Ok(Api::<Node>::all(client.clone()).list(&members).await?.items.len())
    }

    /// Tells of it where cluster-autoscaler does, in the form of 1.30 and later.
    pub(crate) async fn tell(&self, client: &Client, clock: Clock) -> Result<()> {
        let (size, now) = (self.size(client).await?, clock.now());
        let status = format!(
            "time: {time}\nautoscalerStatus: Running\nclusterWide:\n  health:\n    status: Healthy\nnodeGroups:\n\
             - name: eks-{name}-5ec1d2a0-0000-4000-8000-000000000000\n  health:\n    status: Healthy\n    nodeCounts:\n\
             \x20     registered:\n        total: {size}\n        ready: {size}\n    cloudProviderTarget: {size}\n\
             \x20   minSize: {min}\n    maxSize: {max}\n    lastProbeTime: \"{now}\"\n  scaleUp:\n    status: NoActivity\n",
            time = now.strftime("%Y-%m-%d %H:%M:%S.%9f +0000 UTC"),
            name = self.name,
            min = self.min,
            max = self.max,
        );
        let map = json!({
            "apiVersion": "v1", "kind": "ConfigMap",
            "metadata": { "namespace": "kube-system", "name": STATUS }, "data": { "status": status },
        });
        let maps = Api::<ConfigMap>::namespaced(client.clone(), "kube-system");
        if maps.get_opt(STATUS).await?.is_some() {
            maps.patch(STATUS, &PatchParams::default(), &Patch::Merge(&map)).await?;
        } else {
            maps.create(&Default::default(), &serde_json::from_value(map)?).await?;
        }
        Ok(())
    }
}

/// Keeps it from taking a node away.
const PROTECTED: &str = "cluster-autoscaler.kubernetes.io/scale-down-disabled";
/// Where it tells.
const STATUS: &str = "cluster-autoscaler-status";
/// How often it tells; the real one 10 s.
const TELL_EVERY: Duration = Duration::from_secs(2);

/// A group of equal nodes that grows.
pub(crate) struct Autoscaler {
    client: Client,
    group: Option<(Group, Clock)>,
    told: Option<Instant>,
    template: FakeNode,
    prefix: String,
    boot: Duration,
    made: Vec<Booting>,
    /// What its cloud says of its nodes, as long as it has seen none.
    described: Option<FakeNode>,
    /// How long it leaves a node that it does not need, and since when it does not need which.
    unneeded: Option<Duration>,
    idle: BTreeMap<String, Instant>,
    /// Pods that were told why no node comes for them.
    refused: BTreeSet<String>,
    waiting: Waiting,
}

/// Pods for which the scheduler found no node, by UID, and since when they are seen to wait.
#[derive(Default)]
pub(crate) struct Waiting(HashMap<String, Instant>);

/// A growing group; dropping it ends the growth and leaves the nodes.
pub(crate) struct Growing(JoinHandle<Result<()>>);

/// A node it made, and the Pods it was made for.
struct Booting {
    since: Instant,
    left: Room,
    pods: Vec<String>,
}

/// What is left on a node, by resource; milli-units, since CPU needs them.
type Room = HashMap<String, i128>;

// === impl Autoscaler ===

impl Autoscaler {
    /// A group whose nodes are `PREFIX-1`, `PREFIX-2` … like the template and get Ready after `boot`.
    pub(crate) fn new(client: Client, prefix: &str, template: FakeNode, boot: Duration) -> Self {
        Self {
            client,
            group: None,
            told: None,
            template,
            prefix: prefix.to_owned(),
            boot,
            made: Vec::new(),
            described: None,
            unneeded: None,
            idle: BTreeMap::new(),
            refused: BTreeSet::new(),
            waiting: Waiting::default(),
        }
    }

    /// Has it tell of its group, whose label its nodes carry.
    pub(crate) fn group(mut self, group: Group, clock: Clock) -> Self {
        self.template = self.template.label(GROUP_LABEL, &group.name);
        self.group = Some((group, clock));
        self
    }

    /// Has it take its nodes to be like this for as long as it has seen none of them.
    pub(crate) fn described(mut self, node: FakeNode) -> Self {
        self.described = Some(node);
        self
    }

    /// Has it take nodes away that were without Pods for so long.
    pub(crate) fn unneeded(mut self, after: Duration) -> Self {
        self.unneeded = Some(after);
        self
    }

    /// Starts to watch for Pods. It has told of its group when this returns: a plan made at once finds it.
    pub(crate) async fn start(mut self) -> Result<Growing> {
        self.tell().await?;
        Ok(Growing(tokio::spawn(async move {
            let mut tick = interval(LOOK_EVERY);
            tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
            loop {
                tick.tick().await;
                self.look().await?;
                self.shrink().await?;
                self.tell().await?;
            }
        })))
    }

    async fn look(&mut self) -> Result<()> {
        let unbound = ListParams::default().fields("spec.nodeName=,status.phase=Pending");
        let pending = Api::<Pod>::all(self.client.clone()).list(&unbound).await?;
        let (template, boot) = (self.template.clone(), self.boot);
        let size = match &self.group {
            Some((group, _)) => group.size(&self.client).await?,
            None => 0,
        };
        let mut room = self.group.as_ref().map_or(usize::MAX, |(group, _)| group.max.saturating_sub(size));
        if size > 0 {
            self.described = None;
        }
        let waiting = self.waiting.lasting(&pending.items);
        for pod in waiting.into_iter().filter(|pod| is_served(pod, &template)) {
            let uid = pod.uid().unwrap_or_default();
            let mut booting = self.made.iter_mut().filter(|made| made.since.elapsed() < boot + SETTLES_WITHIN);
            let wanted = requests(pod);
            if booting.any(|made| made.pods.contains(&uid) || made.take(&uid, &wanted)) {
                continue;
            }
            let mut next = Booting { since: Instant::now(), left: self.capacity(), pods: Vec::new() };
            if room > 0 && next.take(&uid, &wanted) {
                room -= 1;
                let name = format!("{}-{}", self.prefix, self.made.len() + 1);
                template.clone().renamed(&name).ready_after(boot).create(&self.client).await?;
                self.made.push(next);
            } else {
                self.refuse(pod, if room == 0 { "max node group size reached" } else { "Insufficient resources" })
                    .await?;
            }
        }
        Ok(())
    }

    /// Says on the Pod, once, why no node comes for it.
    async fn refuse(&mut self, pod: &Pod, why: &str) -> Result<()> {
        let (uid, namespace) = (pod.uid().unwrap_or_default(), pod.namespace().unwrap_or_default());
        if self.group.is_none() || !self.refused.insert(uid.clone()) {
            return Ok(());
        }
        let event = json!({
            "apiVersion": "v1", "kind": "Event",
            "metadata": { "generateName": format!("{}.", pod.name_any()), "namespace": namespace },
            "involvedObject": {
                "apiVersion": "v1", "kind": "Pod", "namespace": namespace, "name": pod.name_any(), "uid": uid,
            },
            "reason": "NotTriggerScaleUp", "type": "Normal", "source": { "component": "cluster-autoscaler" },
            "message": format!("pod didn't trigger scale-up: 1 {why}"),
        });
        let events = Api::<Event>::namespaced(self.client.clone(), &namespace);
        events.create(&Default::default(), &serde_json::from_value(event)?).await?;
        Ok(())
    }

    /// Takes away nodes that were empty for long enough, are not protected, and are more than the minimum.
    async fn shrink(&mut self) -> Result<()> {
        let (Some(after), Some((group, _))) = (self.unneeded, &self.group) else { return Ok(()) };
        let nodes = Api::<Node>::all(self.client.clone());
        let members = nodes.list(&ListParams::default().labels(&format!("{GROUP_LABEL}={}", group.name))).await?.items;
        let pods = Api::<Pod>::all(self.client.clone()).list(&ListParams::default()).await?.items;
        let mut spare = members.len().saturating_sub(group.min);
        for node in members {
            let name = node.name_any();
            let hosts = |pod: &Pod| pod.spec.as_ref().is_some_and(|spec| spec.node_name.as_ref() == Some(&name));
            let protected = node.annotations().get(PROTECTED).is_some_and(|value| value == "true");
            if protected || !is_ready(&node) || pods.iter().any(hosts) {
                self.idle.remove(&name);
            } else if self.idle.entry(name.clone()).or_insert_with(Instant::now).elapsed() >= after && spare > 0 {
                nodes.delete(&name, &Default::default()).await?;
                self.idle.remove(&name);
                spare -= 1;
            }
        }
        Ok(())
    }

    async fn tell(&mut self) -> Result<()> {
        if let Some((group, clock)) = &self.group
            && self.told.is_none_or(|told| told.elapsed() >= TELL_EVERY)
        {
            group.tell(&self.client, *clock).await?;
            self.told = Some(Instant::now());
        }
        Ok(())
    }

    fn capacity(&self) -> Room {
        let names = ["cpu", "memory", "ephemeral-storage", "pods", "nvidia.com/gpu"];
        let node = self.described.as_ref().unwrap_or(&self.template);
        names.into_iter().map(|name| (name.to_owned(), milli(node.quantity(name)))).collect()
    }
}

// === impl Waiting ===

impl Waiting {
    /// Those of all Pods that wait and have waited for long enough.
    pub(crate) fn lasting<'p>(&mut self, pods: &'p [Pod]) -> Vec<&'p Pod> {
        let mut waiting: Vec<&Pod> = pods.iter().filter(|pod| is_unschedulable(pod)).collect();
        let uid = |pod: &Pod| pod.uid().unwrap_or_default();
        self.0.retain(|known, _| waiting.iter().any(|pod| uid(pod) == *known));
        waiting.retain(|pod| self.0.entry(uid(pod)).or_insert_with(Instant::now).elapsed() >= WAITS_FOR);
        waiting
    }
}

// === impl Booting ===

impl Booting {
    /// Gives the Pod its room, if there is enough.
    fn take(&mut self, uid: &str, wanted: &Room) -> bool {
        let left = |name: &String| self.left.get(name).copied().unwrap_or(0);
        if wanted.iter().any(|(name, much)| *much > left(name)) {
            return false;
        }
        for (name, much) in wanted {
            *self.left.entry(name.clone()).or_default() -= much;
        }
        self.pods.push(uid.to_owned());
        true
    }
}

// === impl Growing ===

impl Growing {
    /// Whether it has failed.
    pub(crate) fn failed(&self) -> bool {
        self.0.is_finished()
    }
}

impl Drop for Growing {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Whether such a node is wanted for the Pod.
fn is_served(pod: &Pod, template: &FakeNode) -> bool {
    let spec = pod.spec.clone().unwrap_or_default();
    spec.priority.unwrap_or(0) >= CUTOFF && admits(&spec, template.labels())
}

/// Whether the scheduler found no node for it. One that it makes room for by preemption has one, as good as.
fn is_unschedulable(pod: &Pod) -> bool {
    if pod.status.as_ref().is_some_and(|status| status.nominated_node_name.is_some()) {
        return false;
    }
    let conditions = pod.status.iter().flat_map(|status| status.conditions.iter().flatten());
    conditions.into_iter().any(|it| it.type_ == "PodScheduled" && it.reason.as_deref() == Some("Unschedulable"))
}

fn requests(pod: &Pod) -> Room {
    let mut sum = Room::from([("pods".to_owned(), 1000)]);
    for container in pod.spec.iter().flat_map(|spec| &spec.containers) {
        let requests = container.resources.iter().flat_map(|resources| resources.requests.iter().flatten());
        for (name, quantity) in requests {
            *sum.entry(name.clone()).or_default() += milli(&quantity.0);
        }
    }
    sum
}

/// Whether a node with these labels would do for the node selector and for one of the required terms.
fn admits(spec: &PodSpec, labels: &BTreeMap<String, String>) -> bool {
    let selected = spec.node_selector.iter().flatten().all(|(key, value)| labels.get(key) == Some(value));
    let affinity = spec.affinity.as_ref().and_then(|affinity| affinity.node_affinity.as_ref());
    let required = affinity.and_then(|it| it.required_during_scheduling_ignored_during_execution.as_ref());
    selected && required.is_none_or(|it| it.node_selector_terms.iter().any(|term| meets(term, labels)))
}

fn meets(term: &NodeSelectorTerm, labels: &BTreeMap<String, String>) -> bool {
    term.match_expressions.iter().flatten().filter(|it| it.operator == "In").all(|it| {
        let values = it.values.as_deref().unwrap_or_default();
        labels.get(&it.key).is_some_and(|label| values.contains(label))
    })
}

/// The quantities that these tests write: whole numbers with no suffix, `m`, or a binary one.
fn milli(quantity: &str) -> i128 {
    let digits = quantity.trim_end_matches(|letter: char| !letter.is_ascii_digit());
    let scale = match &quantity[digits.len()..] {
        "m" => 1,
        "" => 1000,
        "Ki" => 1000 << 10,
        "Mi" => 1000 << 20,
        "Gi" => 1000 << 30,
        other => panic!("the test autoscaler does not read the suffix {other:?}"),
    };
    digits.parse::<i128>().expect("the test autoscaler reads whole numbers") * scale
}
