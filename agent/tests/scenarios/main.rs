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

mod backend;
mod cases;
mod recorder;
mod world;

use std::process::ExitCode;
use std::sync::Mutex;

use anyhow::Result;
use libtest_mimic::{Arguments, Failed, Trial};
use rotate_agent::PodCache;

use backend::Backend;
use cases::Case;
use world::World;

/// One control plane at a time: four of them on two cores would only measure each other.
static CONTROL_PLANE: Mutex<()> = Mutex::new(());

fn main() -> ExitCode {
    let arguments = Arguments::from_args();
    let built = harness::binaries().is_some();
    let mut trials = Vec::new();
    for case in cases::all() {
        for (name, pod_cache) in [("simulator", PodCache::Cluster), ("simulator::scoped", PodCache::Scoped)] {
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
    let _one = CONTROL_PLANE.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
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
