//! Our predicate, our translation of constraints and our effective requests against the simulated scheduler.
//!
//! The simulator has its own scheduler, which shares no code with us. The same checks run on the real one, see
//! `controlplane/predicate.rs`.

use std::cell::Cell;
use std::time::Duration;

use proptest::prelude::*;
use proptest::test_runner::{Config, TestCaseError, TestRng, TestRunner};
use rotate_shared::names;
use rotate_sim::{NodeSpec, Settings, Sim, objects};
use serde_json::{Value, json};

#[path = "predicate/checks.rs"]
mod checks;

use checks::{Cluster, NAMESPACE, Scene, Seen, predicate_agrees, promise_is_kept, read, scene};

const CASES: u32 = 192;
const SETTLED: Duration = Duration::from_secs(2);

impl Cluster for Sim {
    async fn create(&self, mut pod: Value) -> Value {
        (pod["apiVersion"], pod["kind"]) = (json!("v1"), json!("Pod"));
        Self::create(self, pod)
    }

    async fn decided(&self, namespace: &str, name: &str) -> Option<String> {
        self.run_for(SETTLED).await;
        self.get("pods", namespace, name)?["spec"]["nodeName"].as_str().map(str::to_owned)
    }

    async fn landed(&self, namespace: &str, name: &str) -> Option<String> {
        self.run_for(SETTLED).await;
        self.decided(namespace, name).await
    }

    async fn delete(&self, namespace: &str, name: &str) {
        Self::delete(self, "pods", namespace, name);
        self.run_for(SETTLED).await;
    }

    async fn cordon(&self, node: &str) {
        self.edit("nodes", "", node, |node| node["spec"]["unschedulable"] = json!(true));
        self.run_for(SETTLED).await;
    }

    async fn objects(&self) -> (Vec<Value>, Vec<Value>) {
        (self.list("nodes"), self.list("pods"))
    }
}

/// The nodes of a scene. The seed decides ties between them.
fn start(scene: &Scene, seed: u64) -> Sim {
    let sim = Sim::start(Settings { seed, ..Settings::default() });
    for namespace in [NAMESPACE, names::ROOM_NAMESPACE] {
        sim.create(objects::namespace(namespace, &json!({})));
    }
    sim.create(checks::priority_class());
    for (place, machine) in scene.machines.iter().enumerate() {
        let mut node = NodeSpec::new(format!("node-{place}")).zone(machine.zone).cpu(&machine.cpu.to_string());
        if machine.gpu {
            node = node.label("gpu", "true");
        }
        if machine.tainted {
            node = node.taint("dedicated", "yes", "NoSchedule");
        }
        sim.add_node(node);
    }
    sim
}

/// Runs a check on the same cases each time; what they came across in all.
fn hold<S: Strategy, C: Future<Output = Result<Seen, String>>>(cases: &S, check: impl Fn(S::Value) -> C) -> Seen {
    let config = Config { cases: CASES, failure_persistence: None, max_shrink_iters: 200, ..Config::default() };
    let rng = TestRng::deterministic_rng(config.rng_algorithm);
    let total = Cell::new(Seen::default());
    let outcome = TestRunner::new_with_rng(config, rng).run(cases, |case| {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build();
        let seen = runtime.expect("a runtime of one thread").block_on(check(case)).map_err(TestCaseError::fail)?;
        let mut sum = total.get();
        sum += seen;
        total.set(sum);
        Ok(())
    });
    outcome.unwrap_or_else(|failure| panic!("{failure}"));
    total.get()
}

#[test]
fn a_pod_fits_where_the_scheduler_puts_it_and_nowhere_if_it_finds_no_node() {
    let cases = (scene(), 0..3_usize, prop::option::of(0..6_usize), any::<u64>());
    let seen = hold(&cases, async |(scene, subject, cordoned, seed)| {
        let cordoned = cordoned.map(|place| format!("node-{}", place % scene.machines.len()));
        predicate_agrees(&start(&scene, seed), &scene, subject, cordoned.as_deref()).await
    });
    assert!(seen.placed > 50 && seen.pending > 50, "the cases are lopsided: {seen:?}");
}

#[test]
fn where_a_placeholder_runs_its_pod_may_run_and_its_replacement_finds_room() {
    let seen =
        hold(&(scene(), any::<u64>()), async |(scene, seed)| promise_is_kept(&start(&scene, seed), &scene).await);
    assert!(seen.placed > 100 && seen.pending > 20, "the cases are lopsided: {seen:?}");
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
    sim.decided("default", "subject").await.is_some()
}

async fn requests_agree(object: Value) -> Result<Seen, String> {
    let requests = read(&Sim::start(Settings::default()).create(object.clone())).shape.requests.clone();
    let (cpu, memory) = (requests.milli_cpu, requests.memory);
    if !is_placed(&object, cpu, memory).await {
        return Err(format!("{cpu}m and {memory} bytes do not suffice"));
    }
    let mut seen = Seen { placed: 1, pending: 0 };
    for (cpu, memory) in [(cpu - 1, memory), (cpu, memory - 1)] {
        // No node has less than nothing.
        if cpu >= 0 && memory >= 0 {
            seen.pending += 1;
            if is_placed(&object, cpu, memory).await {
                return Err(format!("{cpu}m and {memory} bytes suffice"));
            }
        }
    }
    Ok(seen)
}

#[test]
fn a_pod_needs_exactly_its_effective_requests() {
    let seen = hold(&demanding(), requests_agree);
    assert!(seen.pending > 300, "few of the Pods request anything: {seen:?}");
}
