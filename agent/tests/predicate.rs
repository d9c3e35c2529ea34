//! Our predicate and our translation of constraints against the simulated scheduler, on random clusters.
//!
//! The simulator has its own scheduler, which shares no code with us.

use std::cell::Cell;
use std::collections::BTreeSet;
use std::time::Duration;

use proptest::prelude::*;
use proptest::test_runner::{Config, TestCaseError, TestRng, TestRunner};
use rotate_agent::cache::{Pod, State, Volumes, decode};
use rotate_agent::surge::placeholder::{self, Placeholder};
use rotate_agent::surge::{constraints, fit};
use rotate_shared::names;
use rotate_sim::{NodeSpec, Settings, Sim, objects};
use serde_json::{Value, json};

const ZONE: &str = "topology.kubernetes.io/zone";
const CASES: u32 = 192;
const SETTLED: Duration = Duration::from_secs(2);

// === random clusters ===

#[derive(Clone, Debug)]
struct Machine {
    zone: &'static str,
    cpu: u32,
    gpu: bool,
    tainted: bool,
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
struct Workload {
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

/// The workload `app`; `everything`: with constraints too that we refuse to promise room for.
fn workload(app: &'static str, everything: bool) -> impl Strategy<Value = Workload> {
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
        if let Some((key, of)) = together.filter(|_| everything) {
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
            if everything && domains > 0 {
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

#[derive(Clone, Debug)]
struct Scene {
    machines: Vec<Machine>,
    workloads: Vec<Workload>,
    /// Of which workload each Pod is, in the order of creation.
    pods: Vec<usize>,
    seed: u64,
}

fn scene(everything: bool) -> impl Strategy<Value = Scene> {
    let [one, two, three] = [APPS[0], APPS[1], APPS[2]].map(|app| workload(app, everything));
    let machines = prop::collection::vec(machine(), 2..6);
    (machines, (one, two, three), prop::collection::vec(0..3_usize, 1..10), any::<u64>()).prop_map(
        |(machines, (one, two, three), pods, seed)| Scene { machines, workloads: vec![one, two, three], pods, seed },
    )
}

impl Scene {
    fn pod(&self, workload: usize, name: &str) -> Value {
        json!({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": { "namespace": "shop", "name": name, "labels": { "app": APPS[workload] } },
            "spec": self.workloads[workload].spec,
        })
    }

    /// The cluster with all Pods where its scheduler put them; those that found no place are gone.
    async fn start(&self) -> Sim {
        let sim = Sim::start(Settings { seed: self.seed, ..Settings::default() });
        for namespace in ["shop", names::ROOM_NAMESPACE] {
            sim.create(objects::namespace(namespace, &json!({})));
        }
        sim.create(json!({
            "apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass",
            "metadata": { "name": names::PRIORITY_CLASS },
            "value": names::PLACEHOLDER_PRIORITY, "preemptionPolicy": "Never",
        }));
        for (place, machine) in self.machines.iter().enumerate() {
            let mut node = NodeSpec::new(format!("node-{place}")).zone(machine.zone).cpu(&machine.cpu.to_string());
            if machine.gpu {
                node = node.label("gpu", "true");
            }
            if machine.tainted {
                node = node.taint("dedicated", "yes", "NoSchedule");
            }
            sim.add_node(node);
        }
        for (place, workload) in self.pods.iter().enumerate() {
            let name = format!("pod-{place}");
            sim.create(self.pod(*workload, &name));
            sim.run_for(SETTLED).await;
            if node_of(&sim, "shop", &name).is_none() {
                sim.delete("pods", "shop", &name);
            }
        }
        sim.run_for(SETTLED).await;
        sim
    }
}

fn node_of(sim: &Sim, namespace: &str, name: &str) -> Option<String> {
    sim.get("pods", namespace, name)?["spec"]["nodeName"].as_str().map(str::to_owned)
}

/// What our cache would know of the cluster.
fn state_of(sim: &Sim) -> State {
    let mut state = State::default();
    for node in sim.list("nodes") {
        state.apply_node(decode::node(&node.to_string()).expect("the simulator's nodes can be read"));
    }
    for pod in sim.list("pods") {
        state.apply_pod(read(&pod));
    }
    state
}

fn read(pod: &Value) -> Pod {
    decode::pod(&pod.to_string()).expect("the simulator's Pods can be read")
}

fn run<T>(case: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build();
    runtime.expect("a runtime of one thread").block_on(case)
}

/// How often either of two things was seen, so that a property that is never put to the test does not pass.
type Seen = [Cell<u32>; 2];

fn note(seen: &Cell<u32>) {
    seen.set(seen.get() + 1);
}

/// Runs a property on the same cases each time.
fn hold<S: Strategy>(cases: &S, property: impl Fn(S::Value, &Seen) -> Result<(), TestCaseError>) -> [u32; 2] {
    let config = Config { cases: CASES, failure_persistence: None, max_shrink_iters: 200, ..Config::default() };
    let rng = TestRng::deterministic_rng(config.rng_algorithm);
    let seen = Seen::default();
    let outcome = TestRunner::new_with_rng(config, rng).run(cases, |case| property(case, &seen));
    outcome.unwrap_or_else(|failure| panic!("{failure}"));
    seen.map(Cell::into_inner)
}

// === the predicate ===

async fn predicate_agrees(
    scene: Scene,
    subject: usize,
    cordoned: Option<usize>,
    [placed, pending]: &Seen,
) -> Result<(), TestCaseError> {
    let sim = scene.start().await;
    if let Some(cordoned) = cordoned {
        sim.edit("nodes", "", &format!("node-{}", cordoned % scene.machines.len()), |node| {
            node["spec"]["unschedulable"] = json!(true);
        });
        sim.run_for(SETTLED).await;
    }
    let state = state_of(&sim);
    let created = sim.create(scene.pod(subject, "subject"));
    let subject = read(&created);
    sim.run_for(SETTLED).await;

    let verdict = |node: &str| {
        let node = state.node(node).expect("a node of the cluster");
        fit::fits(&subject, node, &state, &BTreeSet::new())
    };
    match node_of(&sim, "shop", "subject") {
        Some(node) => {
            note(placed);
            prop_assert_eq!(verdict(&node), Ok(()), "the scheduler took {}", node);
        }
        None => {
            note(pending);
            for node in state.nodes() {
                prop_assert!(verdict(&node.name).is_err(), "the scheduler found no node, we {}", node.name);
            }
        }
    }
    Ok(())
}

#[test]
fn a_pod_fits_where_the_scheduler_puts_it_and_nowhere_if_it_finds_no_node() {
    let cases = (scene(true), 0..3_usize, prop::option::of(0..6_usize));
    let [placed, pending] =
        hold(&cases, |(scene, subject, cordoned), seen| run(predicate_agrees(scene, subject, cordoned, seen)));
    assert!(placed > 50 && pending > 50, "placed {placed} times, pending {pending} times: the cases are lopsided");
}

// === requests ===

fn cpu_and_memory() -> impl Strategy<Value = Value> {
    (prop::option::of(1..900_u32), prop::option::of(1..900_u32)).prop_map(|(cpu, memory)| {
        let mut requests = json!({});
        if let Some(cpu) = cpu {
            requests["cpu"] = json!(format!("{cpu}m"));
        }
        if let Some(memory) = memory {
            requests["memory"] = json!(format!("{memory}Mi"));
        }
        requests
    })
}

fn containers(most: usize, sidecars: bool) -> impl Strategy<Value = Value> {
    let container = (cpu_and_memory(), any::<bool>()).prop_map(move |(requests, sidecar)| {
        let mut container = json!({ "image": "registry.example/app:1", "resources": { "requests": requests } });
        if sidecar && sidecars {
            container["restartPolicy"] = json!("Always");
        }
        container
    });
    prop::collection::vec(container, usize::from(!sidecars)..=most).prop_map(move |mut containers| {
        for (place, container) in containers.iter_mut().enumerate() {
            container["name"] = json!(format!("{}-{place}", if sidecars { "init" } else { "app" }));
        }
        Value::Array(containers)
    })
}

fn demanding() -> impl Strategy<Value = Value> {
    let extra = (prop::option::of(cpu_and_memory()), prop::option::of(cpu_and_memory()));
    (containers(3, false), containers(3, true), extra).prop_map(
        |(containers, init_containers, (overhead, pod_level))| {
            let mut spec = json!({ "containers": containers, "initContainers": init_containers });
            if let Some(overhead) = overhead {
                spec["overhead"] = overhead;
            }
            if let Some(requests) = pod_level {
                spec["resources"] = json!({ "requests": requests });
            }
            json!({
                "apiVersion": "v1", "kind": "Pod",
                "metadata": { "namespace": "default", "name": "subject" },
                "spec": spec,
            })
        },
    )
}

/// Whether the scheduler places the Pod on a node with exactly this much.
async fn is_placed(pod: &Value, milli_cpu: i64, memory: i64) -> bool {
    let sim = Sim::start(Settings::default());
    sim.add_node(NodeSpec::new("exact").cpu(&format!("{milli_cpu}m")).memory(&memory.to_string()));
    sim.create(pod.clone());
    sim.run_for(SETTLED).await;
    node_of(&sim, "default", "subject").is_some()
}

async fn requests_agree(object: Value, [with_cpu, with_memory]: &Seen) -> Result<(), TestCaseError> {
    let sim = Sim::start(Settings::default());
    let requests = read(&sim.create(object.clone())).shape.requests.clone();
    let (cpu, memory) = (requests.milli_cpu, requests.memory);
    prop_assert!(is_placed(&object, cpu, memory).await, "{cpu}m and {memory} bytes do not suffice");
    if cpu > 0 {
        note(with_cpu);
        prop_assert!(!is_placed(&object, cpu - 1, memory).await, "less than {cpu}m suffices");
    }
    if memory > 0 {
        note(with_memory);
        prop_assert!(!is_placed(&object, cpu, memory - 1).await, "less than {memory} bytes suffice");
    }
    Ok(())
}

#[test]
fn a_pod_needs_exactly_its_effective_requests() {
    let [with_cpu, with_memory] = hold(&demanding(), |object, seen| run(requests_agree(object, seen)));
    assert!(with_cpu > 100 && with_memory > 100, "{with_cpu} with CPU, {with_memory} with memory");
}

// === the translation ===

/// Empties a node Pod by Pod, each with a placeholder of its own.
async fn promise_is_kept(scene: Scene, [held_times, not_held]: &Seen) -> Result<(), TestCaseError> {
    let sim = scene.start().await;
    let Some(candidate) = sim.list("pods").iter().find_map(|pod| pod["spec"]["nodeName"].as_str().map(str::to_owned))
    else {
        return Ok(());
    };
    sim.edit("nodes", "", &candidate, |node| node["spec"]["unschedulable"] = json!(true));
    sim.run_for(SETTLED).await;
    let originals: Vec<_> =
        sim.list("pods").into_iter().filter(|pod| pod["spec"]["nodeName"] == json!(candidate)).collect();
    for (place, object) in originals.iter().enumerate() {
        let state = state_of(&sim);
        let original = read(object);
        let node = state.node(&candidate).expect("the candidate is there");
        let Ok(placement) = constraints::translate(&original, node, &state, &Volumes::default()) else { continue };
        let room = create_placeholder(&sim, &original, placement, place);
        sim.run_for(SETTLED).await;
        let Some(held) = node_of(&sim, names::ROOM_NAMESPACE, &room) else {
            note(not_held);
            sim.delete("pods", names::ROOM_NAMESPACE, &room);
            continue;
        };
        note(held_times);
        prop_assert_ne!(&held, &candidate, "the cordon keeps it off");

        let state = state_of(&sim);
        let room_uid = sim.get("pods", names::ROOM_NAMESPACE, &room).expect("the placeholder is there");
        let room_uid = room_uid["metadata"]["uid"].as_str().expect("every object has a UID").to_owned();
        let gone = BTreeSet::from([&*room_uid, &*original.uid]);
        let host = state.node(&held).expect("a node of the cluster");
        prop_assert_eq!(fit::fits(&original, host, &state, &gone), Ok(()), "held on {}", held);

        sim.delete("pods", "shop", &original.name);
        sim.run_for(SETTLED).await;
        let workload = APPS.iter().position(|app| object["metadata"]["labels"]["app"] == *app).expect("a known app");
        let replacement = format!("replacement-{place}");
        sim.create(scene.pod(workload, &replacement));
        sim.run_for(2 * SETTLED).await;
        let landed = node_of(&sim, "shop", &replacement);
        prop_assert!(landed.is_some(), "{} had room on {} and its replacement found none", original.name, held);
        sim.delete("pods", names::ROOM_NAMESPACE, &room);
        sim.run_for(SETTLED).await;
    }
    Ok(())
}

fn create_placeholder(sim: &Sim, original: &Pod, placement: constraints::Placement, place: usize) -> String {
    let name = names::placeholder_name("0123456789", &original.uid, u32::try_from(place).unwrap_or(0));
    let manifest = placeholder::manifest(&Placeholder {
        name: name.clone(),
        rotation: "0123456789".to_owned(),
        class: "a".to_owned(),
        pod_uid: original.uid.to_string(),
        requests: original.shape.requests.clone(),
        placement,
        deadline_seconds: 3600,
        image: "registry.example/rotate-agent:0.1.0".to_owned(),
    });
    sim.create(serde_json::to_value(manifest).expect("a Pod is JSON"));
    name
}

#[test]
fn where_a_placeholder_runs_its_pod_may_run_and_its_replacement_finds_room() {
    let [held, not_held] = hold(&scene(false), |scene, seen| run(promise_is_kept(scene, seen)));
    assert!(held > 100 && not_held > 20, "held {held} times, not held {not_held} times: the cases are lopsided");
}
