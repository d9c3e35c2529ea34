//! The simulated cluster, with what kwok and the service account controller do on the control plane.

use kube::Client;
use rotate_agent::clock::Clock;
use rotate_sim::{Settings, Sim};
use tokio::task::JoinHandle;

use crate::booting::boot_nodes;

/// A simulated cluster whose nodes get Ready at once.
pub(crate) struct Simulated {
    sim: Sim,
    booting: JoinHandle<()>,
}

impl Simulated {
    pub(crate) fn start() -> Self {
        let sim = Sim::start(Settings::default());
        let booting = tokio::spawn(boot_nodes(sim.clone()));
        Self { sim, booting }
    }

    pub(crate) fn client(&self) -> Client {
        Client::new(self.sim.router(), "default")
    }

    pub(crate) fn clock(&self) -> Clock {
        Clock::starting_at(self.sim.now())
    }
}

impl Drop for Simulated {
    fn drop(&mut self) {
        self.booting.abort();
        self.sim.shutdown();
    }
}
