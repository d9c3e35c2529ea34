//! A simulated cluster with an agent on loopback, for the binary to talk to.

use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use kube::Client;
use rotate_agent::clock::Clock;
use rotate_agent::{Agent, Config, Listen, bootstrap};
use rotate_sim::{NodeSpec, Provisioner, Settings, Sim, objects};
use serde_json::json;
use tokio::net::TcpListener;
use tokio::runtime::Runtime;

use crate::support::{Run, rotate};

/// A cluster whose parts take no time to speak of.
#[derive(Debug)]
pub(crate) struct Cluster {
    /// The cluster itself.
    pub(crate) sim: Sim,
    /// Where its API server listens.
    pub(crate) server: String,
    runtime: Runtime,
    agent: Option<Agent>,
    /// Where the agent listens.
    pub(crate) agent_url: String,
}

/// Loopback, any port.
const ANY: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::LOCALHOST), 0);

impl Cluster {
    /// Three nodes with four CPUs each, and three Pods of the Deployment `shop/web` on `w1`.
    ///
    /// With `spare` the other nodes have room for them. Without they are full: an autoscaler says that it would bring more
    /// nodes, and brings none.
    pub(crate) fn with_room(spare: bool) -> Self {
        let cluster = Self::bare();
        let sim = &cluster.sim;
        sim.create(objects::namespace("shop", &json!({})));
        for name in ["w1", "w2", "w3"] {
            let node = NodeSpec::new(name);
            sim.add_node(if spare { node } else { node.label(Provisioner::GROUP_LABEL, "web") });
        }
        if !spare {
            let now = sim.now();
            let status = json!({
                "time": now.strftime("%Y-%m-%d %H:%M:%S.%9f +0000 UTC").to_string(), "autoscalerStatus": "Running",
                "nodeGroups": [{
                    "name": "eks-web-5ec1d2a0-0000-4000-8000-000000000000",
                    "health": {"status": "Healthy", "cloudProviderTarget": 3, "minSize": 1, "maxSize": 10},
                    "scaleUp": {"status": "NoActivity"},
                }],
            });
            sim.create(json!({
                "apiVersion": "v1", "kind": "ConfigMap",
                "metadata": {"namespace": "kube-system", "name": "cluster-autoscaler-status"},
                "data": {"status": status.to_string()},
            }));
        }
        cluster.on("w1", objects::replica_set("web", "shop", 3, objects::template("web", "1", "1Gi")));
        if !spare {
            for node in ["w2", "w3"] {
                cluster.on(
                    node,
                    objects::replica_set(&format!("full-{node}"), "shop", 4, objects::template(node, "1", "1Gi")),
                );
            }
        }
        cluster
    }

    /// No nodes, no agent.
    pub(crate) fn bare() -> Self {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
        let runtime = runtime.expect("threads can be had");
        let guard = runtime.enter();
        let sim = Sim::start(Settings {
            pod_start: Duration::from_millis(10),
            termination: 0.0,
            preemption: Duration::from_millis(10),
            ..Settings::default()
        });
        drop(guard);
        let listener = runtime.block_on(TcpListener::bind(ANY)).expect("a free port");
        let server = format!("http://{}", listener.local_addr().expect("it is bound"));
        let router = sim.router();
        runtime.spawn(async move { axum::serve(listener, router).await });
        Self { sim, server, runtime, agent: None, agent_url: String::new() }
    }

    /// Places a workload on one node, as if the others had been full when it was made.
    pub(crate) fn on(&self, node: &str, workload: serde_json::Value) {
        let app = workload["metadata"]["labels"]["app"].clone();
        let others: Vec<String> = self
            .sim
            .list("nodes")
            .iter()
            .filter_map(|found| found["metadata"]["name"].as_str().filter(|name| *name != node).map(str::to_owned))
            .collect();
        let cordon = |cordoned: bool| {
            for other in &others {
                self.sim.edit("nodes", "", other, |found| found["spec"]["unschedulable"] = json!(cordoned));
            }
        };
        let wanted = workload["spec"]["replicas"].as_u64().unwrap_or(1);
        cordon(true);
        self.sim.create(workload);
        self.runtime.block_on(self.sim.until(|sim| {
            let here = |pod: &&serde_json::Value| {
                pod["metadata"]["labels"]["app"] == app && pod["status"]["phase"] == "Running"
            };
            sim.list("pods").iter().filter(here).count() as u64 == wanted
        }));
        cordon(false);
    }

    /// Starts an agent that trusts everybody.
    pub(crate) fn agent(mut self) -> Self {
        self.listen(false);
        self
    }

    /// Starts an agent that asks for tokens.
    pub(crate) fn guarded_agent(mut self) -> Self {
        self.listen(true);
        self
    }

    fn listen(&mut self, authenticate: bool) {
        let (agent, listen) = self.runtime.block_on(async {
            let client = Client::new(self.sim.router(), "default");
            bootstrap::create(&client, &bootstrap::objects()).await.expect("nothing is in the way");
            let mut agent = Agent::start(Config::default(), client, Clock::system());
            let listen = Listen { control: ANY, authenticate, ops: ANY };
            let listen = agent.listen(listen).await.expect("free ports");
            agent.ready().await;
            agent.leads(Duration::from_secs(10)).await.expect("there is no other");
            (agent, listen)
        });
        self.agent = Some(agent);
        self.agent_url = format!("http://{}", listen.control);
    }

    /// Runs the binary against the agent.
    pub(crate) fn rotate(&self, line: &[&str]) -> Run {
        rotate(&[line, &["--agent-url", &self.agent_url]].concat())
    }

    /// Runs the binary with an agent inside it.
    pub(crate) fn embedded(&self, line: &[&str]) -> Run {
        rotate(&[line, &["--embedded", "--server", &self.server]].concat())
    }

    /// Waits until this holds.
    pub(crate) fn until(&self, done: impl FnMut(&Sim) -> bool) {
        self.runtime.block_on(self.sim.until(done));
    }

    /// Whether a node is cordoned.
    pub(crate) fn is_cordoned(&self, node: &str) -> bool {
        self.sim.get("nodes", "", node).is_some_and(|node| node["spec"]["unschedulable"] == true)
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        // Its tasks must end before the runtime does.
        drop(self.agent.take());
        self.sim.shutdown();
    }
}
