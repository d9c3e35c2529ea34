//! One generated cluster: a candidate with Pods to move, other nodes, and Pods on those.
//!
//! Every Pod is given its node beforehand, one where our own predicate says that it may be; what fits nowhere is left out.
//! So a case is the same on every cluster, and nothing waits for a scheduler before the rotation does. A case's nodes are
//! told by a label and a taint, its zones by their names and its Pods by their namespace: several can share a cluster.

use std::collections::{BTreeMap, BTreeSet};

use rotate_agent::cache::{Pod, State, decode};
use rotate_agent::surge::fit;
use serde_json::{Value, json};

use crate::random::Random;

const HOST: &str = "kubernetes.io/hostname";
const ZONE: &str = "topology.kubernetes.io/zone";
/// The extended resource.
pub(crate) const GPU: &str = "example.com/gpu";
/// Label and taint of a case's nodes.
const CASE: &str = "reservation-case";
/// Priority classes, their values, and whether they preempt.
pub(crate) const PRIORITIES: [(&str, i32, &str); 3] = [
    ("reservation-high", 1000, "PreemptLowerPriority"),
    ("reservation-low", -5, "PreemptLowerPriority"),
    ("reservation-patient", 10, "Never"),
];

/// What restricts where a Pod may be, beside its size.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Kind {
    Selector,
    NodeAffinity,
    Toleration,
    HostPort,
    SpreadZone,
    SpreadHost,
    PodAffinity,
    AntiZone,
    AntiHost,
    ForeignAnti,
    Extended,
    Volume,
    Priority,
}

/// All of them.
pub(crate) const KINDS: [Kind; 13] = [
    Kind::Selector,
    Kind::NodeAffinity,
    Kind::Toleration,
    Kind::HostPort,
    Kind::SpreadZone,
    Kind::SpreadHost,
    Kind::PodAffinity,
    Kind::AntiZone,
    Kind::AntiHost,
    Kind::ForeignAnti,
    Kind::Extended,
    Kind::Volume,
    Kind::Priority,
];

/// A generated cluster.
#[derive(Clone, Debug)]
pub(crate) struct Case {
    /// Its name: of the namespace, and the beginning of its nodes' names.
    pub(crate) name: String,
    /// Nodes; the first is the candidate.
    pub(crate) nodes: Vec<Value>,
    /// Volumes that are bound to the claims of the same place.
    pub(crate) volumes: Vec<Value>,
    pub(crate) claims: Vec<Value>,
    /// Pods, each with its node.
    pub(crate) pods: Vec<Value>,
    /// ReplicaSets of those that have one; they adopt the Pods that are there.
    pub(crate) sets: Vec<Value>,
    /// What restricts the Pods to move.
    pub(crate) kinds: BTreeSet<Kind>,
    /// How many Pods are to move.
    pub(crate) moving: usize,
    /// How many pairs of a Pod to move and another node there are, and on how many of them it does not fit.
    pub(crate) pairs: (usize, usize),
}

/// A workload to be.
struct Template {
    app: String,
    replicas: usize,
    spec: Value,
}

struct Draft {
    random: Random,
    name: String,
    state: State,
    nodes: Vec<Value>,
    pods: Vec<Value>,
    volumes: Vec<Value>,
    claims: Vec<Value>,
    kinds: BTreeSet<Kind>,
}

impl Case {
    /// The case of this number; none if nothing of it would move.
    pub(crate) fn generate(seed: u64, number: usize) -> Option<Self> {
        let random = Random::new(seed.wrapping_mul(1_000_003).wrapping_add(number as u64));
        let mut draft = Draft {
            random,
            name: format!("case-{number}"),
            state: State::default(),
            nodes: Vec::new(),
            pods: Vec::new(),
            volumes: Vec::new(),
            claims: Vec::new(),
            kinds: BTreeSet::new(),
        };
        draft.machines();
        draft.residents();
        let mut sets = Vec::new();
        let mut moving = 0;
        for place in 0..2 + draft.random.below(2) {
            let Some(template) = draft.template(place) else { continue };
            let (there, on_candidate) = draft.place(&template);
            if there > 0 {
                sets.push(draft.set(&template, there));
            }
            moving += on_candidate;
        }
        if moving == 0 {
            return None;
        }
        let pairs = draft.pairs();
        let Draft { name, nodes, pods, volumes, claims, kinds, .. } = draft;
        Some(Self { name, nodes, volumes, claims, pods, sets, kinds, moving, pairs })
    }

    /// The candidate's name.
    pub(crate) fn candidate(&self) -> &str {
        self.nodes[0]["metadata"]["name"].as_str().expect("a node has a name")
    }
}

// === impl Draft ===

impl Draft {
    fn zone(&self, zone: &str) -> String {
        format!("{}-{zone}", self.name)
    }

    fn machines(&mut self) {
        let others = 4 + self.random.below(4);
        for place in 0..=others {
            let candidate = place == 0;
            let zone = self.random.one(&["a", "b", "c"]);
            let cpu = if candidate { 16 } else { 2 + self.random.below(5) };
            let name = format!("{}-n{place}", self.name);
            let mut taints = vec![json!({ "key": CASE, "value": self.name, "effect": "NoSchedule" })];
            if !candidate && self.random.chance(20) {
                taints.push(json!({ "key": "dedicated", "value": "yes", "effect": "NoSchedule" }));
            }
            let mut allocatable = json!({
                "cpu": cpu.to_string(), "memory": "16Gi", "ephemeral-storage": "100Gi",
                "pods": if candidate || self.random.chance(85) { "110" } else { "4" },
            });
            if candidate || self.random.chance(50) {
                allocatable[GPU] = json!((1 + self.random.below(3)).to_string());
            }
            let pool = if candidate || self.random.chance(65) { "web" } else { "batch" };
            let node = json!({
                "apiVersion": "v1", "kind": "Node",
                "metadata": {
                    "name": name,
                    "labels": {
                        HOST: name, ZONE: self.zone(zone), CASE: self.name, "pool": pool,
                        "size": cpu.to_string(), "kubernetes.io/os": "linux",
                    },
                    "annotations": { "kwok.x-k8s.io/node": "fake" },
                },
                "spec": { "taints": taints, "providerID": format!("test:///{name}") },
                "status": {
                    "allocatable": allocatable.clone(), "capacity": allocatable,
                    "conditions": [{ "type": "Ready", "status": "False", "reason": "KubeletNotReady" }],
                    "nodeInfo": {
                        "architecture": "amd64", "operatingSystem": "linux", "kubeletVersion": "v1.36.3",
                        "bootID": "b", "containerRuntimeVersion": "c", "kernelVersion": "k", "kubeProxyVersion": "",
                        "machineID": "m", "osImage": "o", "systemUUID": "s",
                    },
                },
            });
            let mut ready = with_uid(&node, &name);
            ready["status"]["conditions"][0]["status"] = json!("True");
            self.state.apply_node(decode::node(&ready.to_string()).expect("a node that can be read"));
            self.nodes.push(node);
        }
    }

    /// Pods on the other nodes that stay: load, company, guards that keep others off.
    fn residents(&mut self) {
        for place in 0..2 + self.random.below(4) {
            let app = self.random.one(&["db", "db", "load", "guard", "guard"]);
            let cpu = self.random.one(&["0", "100m", "500m"]);
            let mut spec = self.spec(cpu);
            if app == "guard" {
                let of = self.random.one(&["app-0", "app-1", "app-2"]);
                let key = self.random.one(&[HOST, HOST, ZONE]);
                spec["affinity"]["podAntiAffinity"] = required(key, of);
            }
            if self.random.chance(15) {
                spec["containers"][0]["ports"] = json!([{ "containerPort": 8000, "hostPort": 8000 }]);
            }
            spec["tolerations"]
                .as_array_mut()
                .expect("a list")
                .push(json!({ "key": "dedicated", "operator": "Exists" }));
            let fitting: Vec<String> =
                self.fitting(&spec, app).into_iter().filter(|node| !self.is_candidate(node)).collect();
            if let Some(node) = (!fitting.is_empty()).then(|| fitting[self.random.below(fitting.len())].clone()) {
                self.bind(&format!("{app}-{place}"), app, &spec, &node);
            }
        }
    }

    /// What every Pod of the case has.
    fn spec(&self, cpu: &str) -> Value {
        json!({
            "terminationGracePeriodSeconds": 0,
            "containers": [{
                "name": "app", "image": "registry.example/app:1",
                "resources": { "requests": { "cpu": cpu, "memory": "64Mi" } },
            }],
            "nodeSelector": { CASE: self.name },
            "tolerations": [{ "key": CASE, "operator": "Equal", "value": self.name, "effect": "NoSchedule" }],
            "affinity": {},
        })
    }

    /// A workload that may be on the candidate, if some of the attempts gives one.
    fn template(&mut self, place: usize) -> Option<Template> {
        let app = format!("app-{place}");
        for _ in 0..6 {
            let cpu = self.random.one(&["100m", "200m", "400m", "700m"]);
            let mut spec = self.spec(cpu);
            for _ in 0..1 + self.random.below(3) {
                // Once more each: affinity is refused more often than the others, for company that is nowhere else, and
                // extended resources run out.
                let more = [Kind::PodAffinity, Kind::Extended];
                let kind = if self.random.chance(13) { self.random.one(&more) } else { self.random.one(&KINDS) };
                self.constrain(&mut spec, &app, kind);
            }
            let fitting = self.fitting(&spec, &app);
            if fitting.first().is_some_and(|node| self.is_candidate(node)) {
                return Some(Template { app, replicas: 1 + self.random.below(3), spec });
            }
        }
        None
    }

    fn constrain(&mut self, spec: &mut Value, app: &str, kind: Kind) {
        let own_zone = self.nodes[0]["metadata"]["labels"][ZONE].clone();
        match kind {
            Kind::Selector => spec["nodeSelector"]["pool"] = json!("web"),
            Kind::NodeAffinity => {
                let expression = match self.random.below(3) {
                    0 => json!({ "key": "pool", "operator": "NotIn", "values": ["batch"] }),
                    1 => json!({ "key": "size", "operator": "Gt", "values": ["1"] }),
                    _ => json!({ "key": ZONE, "operator": "In", "values": [own_zone, self.zone("b")] }),
                };
                let terms = json!([{ "matchExpressions": [expression] }]);
                spec["affinity"]["nodeAffinity"] =
                    json!({ "requiredDuringSchedulingIgnoredDuringExecution": { "nodeSelectorTerms": terms } });
            }
            Kind::Toleration => {
                let toleration = match self.random.below(3) {
                    0 => json!({ "key": "dedicated", "value": "yes", "effect": "NoSchedule" }),
                    1 => json!({ "key": "dedicated", "operator": "Exists" }),
                    // Of everything would be of the cordon, too: such a Pod comes back to the candidate.
                    _ => json!({ "key": "dedicated", "operator": "Exists", "effect": "NoSchedule" }),
                };
                spec["tolerations"].as_array_mut().expect("a list").push(toleration);
            }
            Kind::HostPort => {
                let port = 8000 + self.random.below(2);
                spec["containers"][0]["ports"] = json!([{ "containerPort": port, "hostPort": port }]);
            }
            Kind::SpreadZone | Kind::SpreadHost => {
                let key = if kind == Kind::SpreadZone { ZONE } else { HOST };
                let mut spread = json!({
                    "maxSkew": 1 + self.random.below(2), "topologyKey": key, "whenUnsatisfiable": "DoNotSchedule",
                    "labelSelector": { "matchLabels": { "app": app } },
                    "nodeTaintsPolicy": self.random.one(&["Honor", "Ignore"]),
                });
                if self.random.chance(20) {
                    spread["minDomains"] = json!(2);
                }
                spec["topologySpreadConstraints"] = json!([spread]);
            }
            Kind::PodAffinity => {
                let of = if self.random.chance(60) { "db" } else { app };
                let key = self.random.one(&[HOST, ZONE, ZONE]);
                spec["affinity"]["podAffinity"] = required(key, of);
            }
            Kind::AntiZone | Kind::AntiHost => {
                let key = if kind == Kind::AntiZone { ZONE } else { HOST };
                let of = if self.random.chance(70) { app } else { "db" };
                spec["affinity"]["podAntiAffinity"] = required(key, of);
            }
            // The guards have it; see `place`.
            Kind::ForeignAnti => {}
            Kind::Extended => {
                let amounts = json!({ GPU: "1" });
                spec["containers"][0]["resources"]["limits"] = amounts;
                spec["containers"][0]["resources"]["requests"][GPU] = json!("1");
            }
            Kind::Volume => {
                let claim = format!("data-{app}");
                let mut zones = vec![own_zone];
                if self.random.chance(40) {
                    zones.push(json!(self.zone("c")));
                }
                if !self.claims.iter().any(|known| known["metadata"]["name"] == *claim) {
                    self.volume(&claim, &zones);
                }
                spec["volumes"] = json!([{ "name": "data", "persistentVolumeClaim": { "claimName": claim } }]);
            }
            Kind::Priority => spec["priorityClassName"] = json!(self.random.one(&PRIORITIES).0),
        }
    }

    fn volume(&mut self, claim: &str, zones: &[Value]) {
        let volume = format!("{}-{claim}", self.name);
        self.volumes.push(json!({
            "apiVersion": "v1", "kind": "PersistentVolume",
            "metadata": { "name": volume },
            "spec": {
                "capacity": { "storage": "1Gi" }, "accessModes": ["ReadWriteMany"], "storageClassName": "",
                "claimRef": { "namespace": self.name, "name": claim },
                "csi": { "driver": "csi.example.com", "volumeHandle": volume },
                "nodeAffinity": { "required": { "nodeSelectorTerms": [
                    { "matchExpressions": [{ "key": ZONE, "operator": "In", "values": zones }] },
                ] } },
            },
        }));
        self.claims.push(json!({
            "apiVersion": "v1", "kind": "PersistentVolumeClaim",
            "metadata": { "namespace": self.name, "name": claim },
            "spec": {
                "accessModes": ["ReadWriteMany"], "storageClassName": "", "volumeName": volume,
                "resources": { "requests": { "storage": "1Gi" } },
            },
        }));
    }

    /// Binds the Pods of a workload, most of them to the candidate. How many there are, and how many of them there.
    fn place(&mut self, template: &Template) -> (usize, usize) {
        let (mut there, mut on_candidate) = (0, 0);
        for number in 0..template.replicas {
            let fitting = self.fitting(&template.spec, &template.app);
            let Some(first) = fitting.first().cloned() else { break };
            let stays = self.is_candidate(&first) && (number == 0 || self.random.chance(60));
            let node = if stays { first } else { fitting[self.random.below(fitting.len())].clone() };
            if self.is_candidate(&node) {
                on_candidate += 1;
            }
            self.bind(&format!("{}-{number}", template.app), &template.app, &template.spec, &node);
            there += 1;
        }
        if on_candidate > 0 {
            self.note_kinds(template);
        }
        (there, on_candidate)
    }

    fn note_kinds(&mut self, template: &Template) {
        let spec = &template.spec;
        let spreads = |key: &str| spec["topologySpreadConstraints"][0]["topologyKey"] == *key;
        let term = |kind: &str| {
            spec["affinity"][kind]["requiredDuringSchedulingIgnoredDuringExecution"][0]["topologyKey"].as_str()
        };
        let guarded = self.pods.iter().any(|pod| {
            let anti = &pod["spec"]["affinity"]["podAntiAffinity"];
            let of = &anti["requiredDuringSchedulingIgnoredDuringExecution"][0]["labelSelector"]["matchLabels"]["app"];
            pod["metadata"]["labels"]["app"] != *template.app && *of == *template.app
        });
        let found = [
            (Kind::Selector, !spec["nodeSelector"]["pool"].is_null()),
            (Kind::NodeAffinity, !spec["affinity"]["nodeAffinity"].is_null()),
            (Kind::Toleration, spec["tolerations"].as_array().is_some_and(|all| all.len() > 1)),
            (Kind::HostPort, !spec["containers"][0]["ports"].is_null()),
            (Kind::SpreadZone, spreads(ZONE)),
            (Kind::SpreadHost, spreads(HOST)),
            (Kind::PodAffinity, term("podAffinity").is_some()),
            (Kind::AntiZone, term("podAntiAffinity") == Some(ZONE)),
            (Kind::AntiHost, term("podAntiAffinity") == Some(HOST)),
            (Kind::ForeignAnti, guarded),
            (Kind::Extended, !spec["containers"][0]["resources"]["limits"].is_null()),
            (Kind::Volume, !spec["volumes"].is_null()),
            (Kind::Priority, !spec["priorityClassName"].is_null()),
        ];
        self.kinds.extend(found.into_iter().filter(|(_, there)| *there).map(|(kind, _)| kind));
    }

    fn is_candidate(&self, node: &str) -> bool {
        self.nodes[0]["metadata"]["name"] == *node
    }

    /// Nodes on which a Pod may be, the candidate first.
    fn fitting(&self, spec: &Value, app: &str) -> Vec<String> {
        let pod = self.read(&self.pod("asking", app, spec));
        let names = self.nodes.iter().filter_map(|node| node["metadata"]["name"].as_str());
        names.filter(|name| self.fits(&pod, spec, name)).map(str::to_owned).collect()
    }

    fn fits(&self, pod: &Pod, spec: &Value, node: &str) -> bool {
        let node = self.state.node(node).expect("a node of the case");
        let claim = &spec["volumes"][0]["persistentVolumeClaim"]["claimName"];
        let volume = self.volumes.iter().zip(&self.claims).find(|(_, known)| known["metadata"]["name"] == *claim);
        let reachable = volume.is_none_or(|(volume, _)| {
            let terms = &volume["spec"]["nodeAffinity"]["required"]["nodeSelectorTerms"];
            let zones = terms[0]["matchExpressions"][0]["values"].as_array().expect("the volume's zones");
            zones.iter().any(|zone| zone.as_str() == node.label(ZONE))
        });
        reachable && fit::fits(pod, node, &self.state, &BTreeSet::from([&*pod.uid])).is_ok()
    }

    fn bind(&mut self, name: &str, app: &str, spec: &Value, node: &str) {
        let mut pod = self.pod(name, app, spec);
        pod["spec"]["nodeName"] = json!(node);
        self.state.apply_pod(&self.read(&pod).view());
        self.pods.push(pod);
    }

    fn pod(&self, name: &str, app: &str, spec: &Value) -> Value {
        json!({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": { "namespace": self.name, "name": name, "labels": { "app": app } },
            "spec": spec,
        })
    }

    /// As the cache would, once it runs.
    fn read(&self, pod: &Value) -> Pod {
        let name = pod["metadata"]["name"].as_str().expect("a Pod has a name");
        let mut object = with_uid(pod, name);
        object["status"] = json!({ "phase": "Running" });
        decode::pod(&object.to_string()).expect("a Pod that can be read").to_pod()
    }

    fn set(&self, template: &Template, replicas: usize) -> Value {
        let labels = json!({ "app": template.app });
        json!({
            "apiVersion": "apps/v1", "kind": "ReplicaSet",
            "metadata": { "namespace": self.name, "name": template.app },
            "spec": {
                "replicas": replicas,
                "selector": { "matchLabels": labels },
                "template": { "metadata": { "labels": labels }, "spec": template.spec },
            },
        })
    }

    fn pairs(&self) -> (usize, usize) {
        let mut pairs = (0, 0);
        let on_candidate =
            self.pods.iter().filter(|pod| self.is_candidate(pod["spec"]["nodeName"].as_str().unwrap_or_default()));
        for object in on_candidate {
            let pod = self.read(object);
            for node in &self.nodes[1..] {
                let name = node["metadata"]["name"].as_str().expect("a node has a name");
                pairs.0 += 1;
                pairs.1 += usize::from(!self.fits(&pod, &object["spec"], name));
            }
        }
        pairs
    }
}

fn with_uid(object: &Value, uid: &str) -> Value {
    let mut object = object.clone();
    object["metadata"]["uid"] = json!(uid);
    object["metadata"]["creationTimestamp"] = json!("2026-01-05T00:00:00Z");
    object
}

fn required(key: &str, app: &str) -> Value {
    json!({ "requiredDuringSchedulingIgnoredDuringExecution":
        [{ "topologyKey": key, "labelSelector": { "matchLabels": { "app": app } } }] })
}

/// How often each kind occurs.
pub(crate) fn count(kinds: impl Iterator<Item = BTreeSet<Kind>>) -> BTreeMap<Kind, usize> {
    let mut counts: BTreeMap<_, _> = KINDS.iter().map(|kind| (*kind, 0)).collect();
    for kind in kinds.flatten() {
        *counts.entry(kind).or_default() += 1;
    }
    counts
}
