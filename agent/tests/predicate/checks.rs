//! Random clusters, and what must hold on each, whoever schedules there.

use std::collections::BTreeSet;

use proptest::prelude::*;
use rotate_agent::cache::{Pod, State, Volumes, decode};
use rotate_agent::surge::placeholder::{self, Placeholder};
use rotate_agent::surge::{constraints, fit};
use rotate_shared::names;
use serde_json::{Value, json};

/// Namespace of the workloads.
pub(crate) const NAMESPACE: &str = "shop";
const ZONE: &str = "topology.kubernetes.io/zone";

/// A cluster that schedules.
pub(crate) trait Cluster {
    /// Creates a Pod.
    async fn create(&self, pod: Value) -> Value;
    /// The node that the scheduler chose, or `None` once it said that there is none.
    async fn decided(&self, namespace: &str, name: &str) -> Option<String>;
    /// The node that a Pod is bound to within a few seconds, preemption included.
    async fn landed(&self, namespace: &str, name: &str) -> Option<String>;
    /// Deletes a Pod and waits until it is gone.
    async fn delete(&self, namespace: &str, name: &str);
    /// Cordons a node.
    async fn cordon(&self, node: &str);
    /// All nodes and all Pods.
    async fn objects(&self) -> (Vec<Value>, Vec<Value>);
}

/// What a check came across.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Seen {
    /// Pods that found a node.
    pub(crate) placed: u32,
    /// Pods that found none.
    pub(crate) pending: u32,
}

impl std::ops::AddAssign for Seen {
    fn add_assign(&mut self, other: Self) {
        self.placed += other.placed;
        self.pending += other.pending;
    }
}

/// Creates the Pods of a scene one after another; those that find no place are deleted again.
pub(crate) async fn populate(cluster: &impl Cluster, scene: &Scene) {
    for (place, workload) in scene.pods.iter().enumerate() {
        let name = format!("pod-{place}");
        cluster.create(scene.pod(*workload, &name)).await;
        if cluster.decided(NAMESPACE, &name).await.is_none() {
            cluster.delete(NAMESPACE, &name).await;
        }
    }
}

/// A Pod fits where the scheduler puts it, and nowhere if the scheduler finds no node.
pub(crate) async fn predicate_agrees(
    cluster: &impl Cluster,
    scene: &Scene,
    subject: usize,
    cordoned: Option<&str>,
) -> Result<Seen, String> {
    populate(cluster, scene).await;
    if let Some(cordoned) = cordoned {
        cluster.cordon(cordoned).await;
    }
    let state = state_of(cluster).await;
    let subject = read(&cluster.create(scene.pod(subject, "subject")).await);
    let verdict = |node: &str| {
        let node = state.node(node).expect("a node of the cluster");
        fit::fits(&subject, node, &state, &BTreeSet::new())
    };
    match cluster.decided(NAMESPACE, "subject").await {
        Some(node) => match verdict(&node) {
            Ok(()) => Ok(Seen { placed: 1, pending: 0 }),
            Err(misfit) => Err(format!("the scheduler took {node}, where we say: {misfit}")),
        },
        None => match state.nodes().find(|node| verdict(&node.name).is_ok()) {
            None => Ok(Seen { placed: 0, pending: 1 }),
            Some(node) => Err(format!("the scheduler found no node, we {}", node.name)),
        },
    }
}

/// Empties a node Pod by Pod, each with a placeholder of its own: where the placeholder runs the Pod may run, and its
/// replacement finds room.
pub(crate) async fn promise_is_kept(cluster: &impl Cluster, scene: &Scene) -> Result<Seen, String> {
    populate(cluster, scene).await;
    let (_, pods) = cluster.objects().await;
    let on = |pod: &Value| pod["spec"]["nodeName"].as_str().map(str::to_owned);
    let mut seen = Seen::default();
    let Some(candidate) = pods.iter().find_map(on) else { return Ok(seen) };
    cluster.cordon(&candidate).await;
    let originals = pods.iter().filter(|pod| on(pod).as_ref() == Some(&candidate));
    for (place, object) in originals.enumerate() {
        let state = state_of(cluster).await;
        let original = read(object);
        let node = state.node(&candidate).expect("the candidate is there");
        let Ok(placement) =
            constraints::translate(&original, node, &state, &Volumes::default(), constraints::Reach::Own)
        else {
            continue;
        };
        let room = cluster.create(placeholder_of(&original, placement)).await;
        let [room, room_uid] = ["name", "uid"].map(|field| room["metadata"][field].as_str().unwrap_or_default());
        let Some(held) = cluster.decided(names::ROOM_NAMESPACE, room).await else {
            seen.pending += 1;
            cluster.delete(names::ROOM_NAMESPACE, room).await;
            continue;
        };
        seen.placed += 1;
        if held == candidate {
            return Err(format!("the placeholder of {} is on the candidate", original.name));
        }
        let state = state_of(cluster).await;
        let host = state.node(&held).expect("a node of the cluster");
        fit::fits(&original, host, &state, &BTreeSet::from([room_uid, &*original.uid])).map_err(|misfit| {
            format!("the placeholder of {} is held on {held}, where we say: {misfit}", original.name)
        })?;

        cluster.delete(NAMESPACE, &original.name).await;
        let workload = APPS.iter().position(|app| object["metadata"]["labels"]["app"] == *app).expect("a known app");
        let replacement = format!("replacement-{place}");
        cluster.create(scene.pod(workload, &replacement)).await;
        if cluster.landed(NAMESPACE, &replacement).await.is_none() {
            return Err(format!("{} had room on {held}, and its replacement found none", original.name));
        }
        // Where its replacement went elsewhere it is still there; the scheduler may have taken it otherwise.
        cluster.delete(names::ROOM_NAMESPACE, room).await;
    }
    Ok(seen)
}

/// What our cache would know of the cluster.
async fn state_of(cluster: &impl Cluster) -> State {
    let (nodes, pods) = cluster.objects().await;
    let mut state = State::default();
    for node in nodes {
        state.apply_node(decode::node(&node.to_string()).expect("a node that can be read"));
    }
    for pod in pods {
        state.apply_pod(&read(&pod).view());
    }
    state
}

/// A Pod as our cache reads it.
pub(crate) fn read(pod: &Value) -> Pod {
    decode::pod(&pod.to_string()).expect("a Pod that can be read").to_pod()
}

fn placeholder_of(original: &Pod, placement: constraints::Placement) -> Value {
    let manifest = placeholder::manifest(&Placeholder {
        name: names::placeholder_name("0123456789", &original.uid, 0),
        rotation: "0123456789".to_owned(),
        class: "a".to_owned(),
        pod_uid: original.uid.to_string(),
        requests: original.shape.requests.clone(),
        placement,
        deadline_seconds: 3600,
        image: "registry.example/rotate-agent:0.1.0".to_owned(),
    });
    serde_json::to_value(manifest).expect("a Pod is JSON")
}

/// The class that placeholders belong to.
pub(crate) fn priority_class() -> Value {
    json!({
        "apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass",
        "metadata": { "name": names::PRIORITY_CLASS },
        "value": names::PLACEHOLDER_PRIORITY, "preemptionPolicy": "Never",
    })
}

// === random clusters ===

/// A node.
#[derive(Clone, Debug)]
pub(crate) struct Machine {
    pub(crate) zone: &'static str,
    pub(crate) cpu: u32,
    pub(crate) gpu: bool,
    pub(crate) tainted: bool,
}

fn machine() -> impl Strategy<Value = Machine> {
    let zones = prop::sample::select(&["a", "b", "c"][..]);
    (zones, 1..4_u32, any::<bool>(), prop::bool::weighted(0.2)).prop_map(|(zone, cpu, gpu, tainted)| Machine {
        zone,
        cpu,
        gpu,
        tainted,
    })
}

/// What all Pods of a workload have.
#[derive(Clone, Debug)]
pub(crate) struct Workload {
    spec: Value,
}

fn choice(values: &'static [&'static str]) -> impl Strategy<Value = &'static str> {
    prop::sample::select(values)
}

fn term(key: &str, app: &str) -> Value {
    json!({ "topologyKey": key, "labelSelector": { "matchLabels": { "app": app } } })
}

const KEYS: &[&str] = &["kubernetes.io/hostname", ZONE];
const APPS: &[&str] = &["app-0", "app-1", "app-2"];

/// The workload `app`.
fn workload(app: &'static str) -> impl Strategy<Value = Workload> {
    let apart = prop::option::weighted(0.4, (choice(KEYS), choice(APPS)));
    let together = prop::option::weighted(0.3, (choice(KEYS), choice(APPS)));
    let spread = prop::option::weighted(0.4, (choice(KEYS), 1..3, any::<bool>(), any::<bool>(), 0..4));
    let node = (prop::bool::weighted(0.2), prop::bool::weighted(0.3), prop::option::weighted(0.2, 8000..8002_u16));
    let size = prop::sample::select(&["0", "300m", "700m", "1500m"][..]);
    (apart, together, spread, node, size).prop_map(move |(apart, together, spread, (gpu, tolerant, port), cpu)| {
        let mut container =
            json!({ "name": "app", "image": "registry.example/app:1", "resources": { "requests": { "cpu": cpu } } });
        if let Some(port) = port {
            container["ports"] = json!([{ "containerPort": port, "hostPort": port }]);
        }
        let mut spec = json!({ "containers": [container], "terminationGracePeriodSeconds": 0, "affinity": {} });
        if let Some((key, of)) = apart {
            spec["affinity"]["podAntiAffinity"] =
                json!({ "requiredDuringSchedulingIgnoredDuringExecution": [term(key, of)] });
        }
        if let Some((key, of)) = together {
            spec["affinity"]["podAffinity"] =
                json!({ "requiredDuringSchedulingIgnoredDuringExecution": [term(key, of)] });
        }
        if let Some((key, skew, ignores_affinity, honors_taints, domains)) = spread {
            spec["topologySpreadConstraints"] = json!([{
                "maxSkew": skew,
                "topologyKey": key,
                "whenUnsatisfiable": "DoNotSchedule",
                "labelSelector": { "matchLabels": { "app": app } },
                "nodeAffinityPolicy": if ignores_affinity { "Ignore" } else { "Honor" },
                "nodeTaintsPolicy": if honors_taints { "Honor" } else { "Ignore" },
            }]);
            if domains > 0 {
                spec["topologySpreadConstraints"][0]["minDomains"] = json!(domains);
            }
        }
        if gpu {
            spec["nodeSelector"] = json!({ "gpu": "true" });
        }
        if tolerant {
            spec["tolerations"] = json!([{ "key": "dedicated", "operator": "Exists" }]);
        }
        Workload { spec }
    })
}

/// A cluster to be, and its Pods.
#[derive(Clone, Debug)]
pub(crate) struct Scene {
    pub(crate) machines: Vec<Machine>,
    workloads: Vec<Workload>,
    /// Of which workload each Pod is, in the order of creation.
    pub(crate) pods: Vec<usize>,
}

/// Any of them.
pub(crate) fn scene() -> impl Strategy<Value = Scene> {
    let [one, two, three] = [APPS[0], APPS[1], APPS[2]].map(workload);
    let machines = prop::collection::vec(machine(), 2..6);
    (machines, (one, two, three), prop::collection::vec(0..3_usize, 1..10))
        .prop_map(|(machines, (one, two, three), pods)| Scene { machines, workloads: vec![one, two, three], pods })
}

impl Scene {
    /// A Pod of a workload.
    pub(crate) fn pod(&self, workload: usize, name: &str) -> Value {
        json!({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": { "namespace": NAMESPACE, "name": name, "labels": { "app": APPS[workload] } },
            "spec": self.workloads[workload].spec,
        })
    }
}
