//! Whole rotations, written once, run on the simulated cluster and on a real control plane.
//!
//! ```text
//! cases/*.rs ──▶ World ──▶ Backend::Simulator     in process, under a paused clock
//!                  │   └─▶ Backend::ControlPlane  etcd, kube-apiserver, scheduler, controllers, kwok on loopback
//!                  ├─▶ Agent                      the production agent, asked through its own router
//!                  └─▶ Recorder                   a Pod watch of its own: what really happened, and when
//! ```
//!
//! `cargo test --test scenarios -- simulator` or `… -- control_plane` runs one side; on the simulator the agent reads all
//! Pods, and once more (`simulator::scoped`) only those that it works on. Where the sides differ, the
//! simulator is wrong. Without the binaries of `agent/tests/controlplane/build` the second side is reported as ignored.

#[expect(dead_code, reason = "the control plane's own tests use all of it; scenarios use what they need")]
#[path = "../controlplane/harness.rs"]
mod harness;

#[expect(dead_code, reason = "the same: each uses what it needs")]
#[path = "../controlplane/karpenter.rs"]
mod karpenter;

#[path = "../controlplane/management.rs"]
mod management;

#[expect(dead_code, reason = "the agent's own tests use all of it")]
#[path = "../management/fake.rs"]
mod fake;

mod backend;
mod booting;
mod cases;
mod fleet;
mod recorder;
mod world;

use std::process::ExitCode;
use std::sync::{Condvar, Mutex, PoisonError};

use anyhow::Result;
use libtest_mimic::{Arguments, Failed, Trial};
use rotate_agent::PodCache;

use backend::Backend;
use cases::Case;
use world::World;

/// How many control planes may run: more of them on two cores would only measure each other. Two leave the cores idle for
/// most of the time, since scenarios wait for nodes that boot.
const PLANES: usize = 3;
static SLOTS: Slots = Slots { free: Mutex::new(PLANES), freed: Condvar::new() };

/// A counting semaphore; test threads are no tasks.
struct Slots {
    free: Mutex<usize>,
    freed: Condvar,
}

/// A slot that is taken until this is dropped.
struct Slot(&'static Slots);

/// How often a scenario runs on the simulator.
const SIMULATIONS: &[(&str, PodCache)] = &[("simulator", PodCache::Cluster), ("simulator::scoped", PodCache::Scoped)];

fn main() -> ExitCode {
    let mut arguments = Arguments::from_args();
    // Else as many as there are cores.
    arguments.test_threads.get_or_insert(PLANES);
    let built = harness::binaries().is_some();
    let mut trials = Vec::new();
    for case in cases::all() {
        let simulated = if case.simulated { SIMULATIONS } else { &[] };
        for &(name, pod_cache) in simulated {
            trials.push(Trial::test(format!("{name}::{}", case.name), move || on_simulator(case, pod_cache)));
        }
        let real = Trial::test(format!("control_plane::{}", case.name), move || on_control_plane(case));
        trials.push(if built {
            real
        } else {
            real.with_kind("not built: run agent/tests/controlplane/build").with_ignored_flag(true)
        });
    }
    libtest_mimic::run(&arguments, trials).exit_code()
}

fn on_simulator(case: Case, pod_cache: PodCache) -> Result<(), Failed> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build()?;
    runtime.block_on(async { run(case, Backend::simulator(), pod_cache).await })
}

fn on_control_plane(case: Case) -> Result<(), Failed> {
    let _slot = SLOTS.take();
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    runtime.block_on(async { run(case, Backend::control_plane().await?, PodCache::Cluster).await })
}

async fn run(case: Case, backend: Backend, pod_cache: PodCache) -> Result<(), Failed> {
    let world = World::new(backend, pod_cache).await.map_err(|error| format!("set up: {error:?}"))?;
    let outcome = (case.run)(&world).await;
    match outcome {
        Ok(()) => Ok(()),
        Err(error) => Err(format!("{error:?}\n{}", world.story()).into()),
    }
}

// === impl Slots ===

impl Slots {
    fn take(&'static self) -> Slot {
        let free = self.free.lock().unwrap_or_else(PoisonError::into_inner);
        let mut free = self.freed.wait_while(free, |free| *free == 0).unwrap_or_else(PoisonError::into_inner);
        *free -= 1;
        Slot(self)
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        *self.0.free.lock().unwrap_or_else(PoisonError::into_inner) += 1;
        self.0.freed.notify_one();
    }
}
