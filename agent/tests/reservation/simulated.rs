//! The simulated cluster, with what kwok and the service account controller do on the control plane.

use kube::Client;
use rotate_agent::clock::Clock;
use rotate_sim::{Settings, Sim};
use serde_json::json;
use tokio::task::JoinHandle;

/// A simulated cluster whose nodes get Ready at once.
pub(crate) struct Simulated {
    sim: Sim,
    booting: JoinHandle<()>,
}

impl Simulated {
    pub(crate) fn start() -> Self {
        let sim = Sim::start(Settings::default());
        let booting = tokio::spawn(boot(sim.clone()));
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

/// Nodes get Ready, and every namespace has a service account to run Pods as.
async fn boot(sim: Sim) {
    let mut changes = sim.changes();
    loop {
        for node in sim.list("nodes") {
            if node["status"]["conditions"][0]["status"] != "True" {
                let name = node["metadata"]["name"].as_str().unwrap_or_default();
                let ready = json!([{ "type": "Ready", "status": "True", "reason": "KubeletReady" }]);
                sim.edit("nodes", "", name, |node| node["status"]["conditions"] = ready);
            }
        }
        for namespace in sim.list("namespaces") {
            let name = namespace["metadata"]["name"].as_str().unwrap_or_default();
            if sim.get("serviceaccounts", name, "default").is_none() {
                let account = json!({
                    "apiVersion": "v1", "kind": "ServiceAccount", "metadata": { "name": "default", "namespace": name },
                });
                drop(sim.try_create(account));
            }
        }
        if changes.changed().await.is_err() {
            return;
        }
    }
}
