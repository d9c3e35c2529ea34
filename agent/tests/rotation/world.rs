//! A simulated cluster with an agent in it.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use kube::Client;
use rotate_agent::clock::Clock;
use rotate_agent::rotation::record::NewRotation;
use rotate_agent::rotation::store::{Store, Wish};
use rotate_agent::{Agent, Config};
use rotate_shared::plan::Provider;
use rotate_shared::{Options, Phase, Rotation, names};
use rotate_sim::{NodeSpec, Provisioner, Settings, Sim, objects};
use serde_json::{Value, json};

use crate::guard::Guard;

/// One cluster and the agent of the moment.
pub(crate) struct World {
    pub(crate) sim: Sim,
    pub(crate) store: Store,
    pub(crate) guard: Guard,
    clock: Clock,
    pub(crate) agent: Option<Agent>,
    /// The nodes are of [`GROUP`].
    grouped: bool,
}

/// The group of an autoscaler.
const GROUP: &str = "web";

/// The epoch of every test: a run is the same each time.
const EPOCH: &str = "2026-01-01T00:00:00Z";

/// Longer than any test takes.
pub(crate) const NEVER: Duration = Duration::from_secs(100_000);

impl World {
    /// A cluster without nodes, and an agent.
    pub(crate) fn start() -> Self {
        Self::with(Settings::default())
    }

    /// A cluster whose nodes are of a group that an autoscaler lets grow; the machine that it orders takes this long.
    pub(crate) fn autoscaled(register: Duration) -> Self {
        let template = NodeSpec::new("template").cpu("4").memory("16Gi").ready();
        let provisioner = Provisioner { register, ..Provisioner::new(template, 4).group(GROUP) };
        let settings = Settings { provisioners: vec![provisioner], ..Settings::default() };
        Self { grouped: true, ..Self::with(settings) }
    }

    pub(crate) fn with(settings: Settings) -> Self {
        let epoch: Timestamp = EPOCH.parse().unwrap();
        let sim = Sim::start(Settings { epoch: Some(epoch), ..settings });
        for namespace in [names::NAMESPACE, names::ROOM_NAMESPACE, "shop"] {
            sim.create(objects::namespace(namespace, &json!({})));
        }
        sim.create(objects::priority_class(names::PRIORITY_CLASS, names::PLACEHOLDER_PRIORITY, false));
        let clock = Clock::starting_at(epoch);
        let store = Store::new(client(&sim), names::NAMESPACE, clock);
        let mut world = Self { sim, store, guard: Guard::default(), clock, agent: None, grouped: false };
        world.start_agent();
        world
    }

    pub(crate) fn node(&self, name: &str, cpu: &str) {
        let node = NodeSpec::new(name).cpu(cpu).memory("16Gi");
        self.sim.add_node(if self.grouped { node.label(Provisioner::GROUP_LABEL, GROUP) } else { node });
    }

    /// Dropping it is the kill.
    pub(crate) fn kill_agent(&mut self) {
        self.agent = None;
    }

    pub(crate) fn start_agent(&mut self) {
        self.start_agent_with(Self::config());
    }

    pub(crate) fn start_agent_with(&mut self, config: Config) {
        self.agent = Some(Agent::start(config, self.watched_client(), self.clock));
    }

    /// How agents are set up.
    pub(crate) fn config() -> Config {
        Config { pod_cache: crate::POD_CACHE, ..Config::default() }
    }

    /// A client whose evictions the guard looks at.
    pub(crate) fn watched_client(&self) -> Client {
        Client::new(self.guard.watch(&self.sim), "default")
    }

    pub(crate) fn clock(&self) -> Clock {
        self.clock
    }

    pub(crate) async fn rotate(&self, node: &str, options: Options) -> String {
        self.begin(self.new_rotation(node, options)).await
    }

    /// What is asked for where nothing else is said.
    pub(crate) fn new_rotation(&self, node: &str, options: Options) -> NewRotation {
        let object = self.sim.get("nodes", "", node).unwrap();
        NewRotation {
            node: node.to_owned(),
            node_uid: object["metadata"]["uid"].as_str().unwrap().to_owned(),
            batch: None,
            batch_size: 1,
            provider: Provider::Unmanaged,
            options,
            requested_by: Default::default(),
            idempotency_key: None,
            created_at: self.clock.now(),
        }
    }

    /// The id of a rotation that is begun.
    pub(crate) async fn begin(&self, new: NewRotation) -> String {
        self.store.create(new).await.unwrap().record.id
    }

    pub(crate) fn now(&self) -> Timestamp {
        self.clock.now()
    }

    pub(crate) async fn ask(&self, id: &str, wish: Wish) {
        self.store.request(id, wish, self.clock.now()).await.unwrap();
    }

    pub(crate) fn view(&self, id: &str) -> Option<Arc<Rotation>> {
        self.agent.as_ref().unwrap().views().get(id)
    }

    /// Lets virtual time pass until the rotation looks like this, and gives up after an hour of it.
    pub(crate) async fn until(&self, id: &str, what: impl Fn(&Rotation) -> bool) -> Arc<Rotation> {
        // Less than the engine lets pass between two looks, so that no phase is missed.
        for _ in 0..360_000 {
            if let Some(rotation) = self.view(id).filter(|rotation| what(rotation)) {
                return rotation;
            }
            self.pass(10).await;
        }
        panic!("it never came to that: {:#?}", self.view(id));
    }

    pub(crate) async fn until_phase(&self, id: &str, phase: Phase) -> Arc<Rotation> {
        self.until(id, |rotation| {
            assert!(!rotation.phase.is_terminal() || rotation.phase == phase, "ended as {rotation:#?}");
            rotation.phase == phase
        })
        .await
    }

    /// Lets virtual time pass.
    pub(crate) async fn pass(&self, milliseconds: u64) {
        self.clock.sleep(Duration::from_millis(milliseconds)).await;
    }

    /// Waits until every Pod of the namespace runs.
    pub(crate) async fn until_running(&self, namespace: &str, pods: usize) {
        for _ in 0..600 {
            let running = self.pods(namespace).iter().filter(|pod| pod["status"]["phase"] == "Running").count();
            if running == pods {
                return;
            }
            self.pass(100).await;
        }
        panic!("{pods} Pods do not run: {:#?}", self.pods(namespace));
    }

    pub(crate) fn pods(&self, namespace: &str) -> Vec<Value> {
        let pods = self.sim.list("pods").into_iter();
        pods.filter(|pod| pod["metadata"]["namespace"] == namespace).collect()
    }

    /// Names of the nodes that Pods of this namespace are on.
    pub(crate) fn nodes_of(&self, namespace: &str) -> Vec<String> {
        let node = |pod: &Value| pod["spec"]["nodeName"].as_str().unwrap_or("none").to_owned();
        let mut nodes: Vec<_> = self.pods(namespace).iter().map(node).collect();
        nodes.sort();
        nodes
    }

    /// Creates a Deployment whose Pods all start on this node.
    pub(crate) async fn deploy_on(&self, node: &str, name: &str, replicas: u32, cpu: &str) {
        self.deploy_template_on(node, name, replicas, objects::template(name, cpu, "64Mi")).await;
    }

    pub(crate) async fn deploy_template_on(&self, node: &str, name: &str, replicas: u32, template: Value) {
        let before = self.pods("shop").len();
        let others: Vec<_> = self.sim.list("nodes").iter().map(name_of).filter(|other| other != node).collect();
        let cordon = |cordoned: bool| {
            for other in &others {
                self.sim.edit("nodes", "", other, |node| node["spec"]["unschedulable"] = json!(cordoned));
            }
        };
        cordon(true);
        self.sim.create(objects::deployment(name, "shop", replicas, template));
        self.until_running("shop", before + replicas as usize).await;
        cordon(false);
    }
}

pub(crate) fn name_of(object: &Value) -> String {
    object["metadata"]["name"].as_str().unwrap().to_owned()
}

pub(crate) fn client(sim: &Sim) -> Client {
    Client::new(sim.router(), "default")
}

/// Options with timeouts that keep a failing test short. Nobody reboots a node unless a test does.
pub(crate) fn options() -> Options {
    let timeouts = Options { surge_timeout_seconds: 120, settle_timeout_seconds: 60, ..Options::default() };
    Options { reboot_timeout_seconds: 0, ..timeouts }
}
