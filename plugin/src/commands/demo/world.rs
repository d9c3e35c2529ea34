//! The cluster of the demo: small, full, and with an autoscaler that takes its time.

use std::time::Duration;

use kube::Client;
use rotate_sim::{NodeSpec, Provisioner, Settings, Sim, objects};
use serde_json::json;

/// The node that is replaced.
pub(super) const CANDIDATE: &str = "worker-1";
/// The autoscaler's group, which all nodes are of.
const GROUP: &str = "workers";
/// From ordered to Ready, as the introduction says.
const BOOT: Duration = Duration::from_secs(8);

/// What a newcomer has to know.
pub(super) const INTRODUCTION: &str = "\
This is a simulated cluster inside this one process; nothing else is touched.

It has three nodes with 4 CPUs each, and each of them is full: a web shop
(Deployment shop/web, 6 Pods of 1 CPU), its database (StatefulSet shop/db, 3
Pods of 1.5 CPUs, never two on one node; a PodDisruptionBudget lets only one
be away at a time), and a log agent on every node (a DaemonSet). No node has
room for one more Pod. An autoscaler brings a new node for Pods that find no
room. That takes 9 seconds here, and minutes in real life.

worker-1 has to be replaced.";

/// A running cluster with its workload in place.
#[derive(Debug)]
pub(super) struct World {
    /// The cluster.
    pub(super) sim: Sim,
}

impl World {
    /// Builds it and waits until everything runs. The same each time: the seed is fixed.
    pub(super) async fn build() -> Self {
        let template = NodeSpec::new("template").cpu("4").memory("16Gi").booting();
        let mut provisioner = Provisioner::new(template, 5).min(3).group(GROUP).boot(BOOT);
        provisioner.prefix = "worker-new".to_owned();
        let sim = Sim::start(Settings {
            seed: 20_260,
            pod_start: Duration::from_millis(800),
            provisioners: vec![provisioner],
            ..Settings::default()
        });
        for name in [CANDIDATE, "worker-2", "worker-3"] {
            sim.add_node(NodeSpec::new(name).label(Provisioner::GROUP_LABEL, GROUP).cpu("4").memory("16Gi"));
        }
        sim.create(objects::namespace("shop", &json!({})));
        sim.create(objects::daemon_set("log-agent", "kube-system", objects::template("log-agent", "100m", "64Mi")));
        sim.until(|sim| running(sim, "log-agent") == 3).await;
        sim.create(objects::disruption_budget("db", "shop", "db", "maxUnavailable", json!(1)));
        sim.create(objects::stateful_set("db", "shop", 3, database()));
        sim.until(|sim| running(sim, "db") == 3).await;
        sim.create(objects::deployment("web", "shop", 6, objects::template("web", "1", "1Gi")));
        sim.until(|sim| running(sim, "web") == 6).await;
        Self { sim }
    }

    /// Whether the whole workload serves.
    pub(super) fn is_whole(&self) -> bool {
        running(&self.sim, "web") == 6 && running(&self.sim, "db") == 3
    }

    /// A client of its API server.
    pub(super) fn client(&self) -> Client {
        Client::new(self.sim.router(), "default")
    }
}

/// Never two of them on one node, as for a real database.
fn database() -> serde_json::Value {
    let mut template = objects::template("db", "1500m", "4Gi");
    template["spec"]["affinity"] = json!({"podAntiAffinity": {
        "requiredDuringSchedulingIgnoredDuringExecution": [{
            "topologyKey": "kubernetes.io/hostname",
            "labelSelector": {"matchLabels": {"app": "db"}},
        }],
    }});
    template
}

/// How many Pods of an app are Ready.
fn running(sim: &Sim, app: &str) -> usize {
    let ready = |pod: &serde_json::Value| {
        let conditions = pod["status"]["conditions"].as_array();
        conditions.is_some_and(|all| all.iter().any(|one| one["type"] == "Ready" && one["status"] == "True"))
    };
    sim.list("pods").iter().filter(|pod| pod["metadata"]["labels"]["app"] == app && ready(pod)).count()
}
