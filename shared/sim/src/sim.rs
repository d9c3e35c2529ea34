//! The handle on a simulated cluster.

use std::{sync::Arc, time::Duration};

use axum::Router;
use jiff::Timestamp;
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::task::{AbortHandle, JoinSet};

use crate::{
    admission, api,
    cluster::Cluster,
    controllers,
    faults::Faults,
    kind::Kind,
    kubelet,
    log::LogEntry,
    object,
    objects::NodeSpec,
    requests::RequestEntry,
    scheduler,
    settings::{Access, Karpenter, Settings},
};

/// A running cluster. Clones are the same cluster; it ends with the last of them, its router included.
#[derive(Clone, Debug)]
pub struct Sim {
    handle: Arc<Handle>,
}

#[derive(Debug)]
struct Handle {
    cluster: Arc<Cluster>,
    controllers: Mutex<JoinSet<()>>,
    karpenter: Mutex<Option<AbortHandle>>,
}

impl Drop for Handle {
    fn drop(&mut self) {
        self.cluster.signal.send_modify(|signal| signal.stopped = true);
    }
}

impl Sim {
    /// Starts a cluster without nodes; its controllers run on the current tokio runtime.
    #[must_use]
    pub fn start(settings: Settings) -> Self {
        let cluster = Arc::new(Cluster::new(settings));
        for namespace in ["default", "kube-system", "kube-node-lease"] {
            let namespace = json!({"metadata": {"name": namespace}});
            insert(&cluster, Kind::Namespace, namespace).expect("nothing is in its way yet");
        }
        for (name, value) in [("system-node-critical", 2_000_001_000), ("system-cluster-critical", 2_000_000_000)] {
            let class = json!({
                "metadata": {"name": name}, "value": value, "preemptionPolicy": "PreemptLowerPriority",
            });
            insert(&cluster, Kind::PriorityClass, class).expect("nothing is in its way yet");
        }
        let mut tasks = JoinSet::new();
        tasks.spawn(scheduler::run(cluster.clone()));
        tasks.spawn(kubelet::run(cluster.clone()));
        controllers::spawn(&mut tasks, &cluster);
        Self { handle: Arc::new(Handle { cluster, controllers: Mutex::new(tasks), karpenter: Mutex::default() }) }
    }

    /// Stops the controllers and ends every watch. The objects stay readable.
    pub fn shutdown(&self) {
        self.handle.controllers.lock().abort_all();
        self.handle.cluster.signal.send_modify(|signal| signal.stopped = true);
    }

    /// Starts Karpenter, in the place of one that runs already. It works by the NodePools that there are.
    pub fn start_karpenter(&self, settings: Karpenter) {
        self.stop_karpenter();
        let mut tasks = self.handle.controllers.lock();
        let task = controllers::spawn_karpenter(&mut tasks, &self.handle.cluster, settings);
        *self.handle.karpenter.lock() = Some(task);
    }

    /// Kills Karpenter: what it has under way is left as it is.
    pub fn stop_karpenter(&self) {
        if let Some(task) = self.handle.karpenter.lock().take() {
            task.abort();
        }
    }

    /// The API: to be served, or called in process as `kube::Client::new(sim.router(), "default")`.
    pub fn router(&self) -> Router {
        api::router(self.clone())
    }

    /// What happened so far.
    #[must_use]
    pub fn log(&self) -> Vec<LogEntry> {
        self.handle.cluster.store().log().to_vec()
    }

    /// What happened after the first `seen` entries.
    #[must_use]
    pub fn log_from(&self, seen: usize) -> Vec<LogEntry> {
        self.handle.cluster.store().log().get(seen..).map(<[_]>::to_vec).unwrap_or_default()
    }

    /// Shows `inspector` each request that would change something, with its body, just before it is carried out: the
    /// place to check what must hold at that moment. It may read the cluster. It should note
    /// what is wrong for the test to assert afterwards: a panic would unwind through the client.
    pub fn inspect(&self, inspector: impl Fn(&Self, &RequestEntry, &[u8]) + Send + Sync + 'static) {
        self.handle.cluster.inspectors.lock().push(Arc::new(Box::new(inspector)));
    }

    /// Whether the scheduler would let `pod` onto a node as it stands, were the Pods with these UIDs gone; or its
    /// reasons why not.
    pub fn fits(&self, pod: &Value, node: &str, gone: &[&str]) -> Result<(), Vec<String>> {
        scheduler::would_fit(&self.handle.cluster.store(), pod, node, gone)
    }

    /// What was asked of the API so far.
    #[must_use]
    pub fn requests(&self) -> Vec<RequestEntry> {
        self.handle.cluster.requests.lock().clone()
    }

    /// Makes things go wrong.
    #[must_use]
    pub fn faults(&self) -> Faults {
        Faults::new(self.handle.cluster.clone())
    }

    /// The cluster's time.
    #[must_use]
    pub fn now(&self) -> Timestamp {
        self.handle.cluster.clock.now()
    }

    /// Other tokens and rules from now on.
    pub fn set_access(&self, access: Access) {
        *self.handle.cluster.access.lock() = access;
    }

    /// Adds a node that is Ready at once.
    pub fn add_node(&self, spec: NodeSpec) -> Value {
        self.create(spec.ready())
    }

    /// Adds a node that is Ready only after a while.
    pub fn join_node(&self, spec: NodeSpec, boot: Duration) -> Value {
        let node = self.create(spec.booting());
        let name = object::name(&node).to_owned();
        let cluster = self.handle.cluster.clone();
        self.handle.controllers.lock().spawn(async move {
            cluster.clock.sleep(boot).await;
            report_ready(&cluster, &name, true);
        });
        node
    }

    /// Has a node's kubelet report that it is Ready, or not; `false` where there is no such node.
    pub fn set_ready(&self, node: &str, ready: bool) -> bool {
        report_ready(&self.handle.cluster, node, ready)
    }

    /// Creates an object as an API client would, status included; its `kind` and `apiVersion` say what it is.
    ///
    /// # Panics
    ///
    /// Where the API would refuse: this is for setting a scene.
    pub fn create(&self, object: Value) -> Value {
        match self.try_create(object) {
            Ok(object) => object,
            Err(message) => panic!("failed to create an object: {message}"),
        }
    }

    /// [`Self::create`], with the API's words where it refuses.
    pub fn try_create(&self, mut object: Value) -> Result<Value, String> {
        let kind = kind_of(&object)?;
        if kind.namespaced() && object::namespace(&object).is_empty() {
            object["metadata"]["namespace"] = json!("default");
        }
        let created = insert(&self.handle.cluster, kind, object).map_err(|failure| failure.message)?;
        Ok((*created).clone())
    }

    /// One object, by the plural its path has (`pods`, `replicasets`); `namespace` is empty for cluster-wide kinds.
    #[must_use]
    pub fn get(&self, plural: &str, namespace: &str, name: &str) -> Option<Value> {
        let store = self.handle.cluster.store();
        store.get(by_plural(plural)?, namespace, name).map(|object| (**object).clone())
    }

    /// All objects of a kind, in the order of namespace and name.
    #[must_use]
    pub fn list(&self, plural: &str) -> Vec<Value> {
        let Some(kind) = by_plural(plural) else { return Vec::new() };
        self.handle.cluster.store().iter(kind).map(|object| (**object).clone()).collect()
    }

    /// Changes an object by hand; `false` where there is none.
    pub fn edit(&self, plural: &str, namespace: &str, name: &str, change: impl FnOnce(&mut Value)) -> bool {
        let Some(kind) = by_plural(plural) else { return false };
        let key = (namespace.to_owned(), name.to_owned());
        self.handle.cluster.store().update(kind, &key, change).is_some()
    }

    /// Deletes an object as an API client would; `false` where there is none.
    pub fn delete(&self, plural: &str, namespace: &str, name: &str) -> bool {
        let Some(kind) = by_plural(plural) else { return false };
        let key = (namespace.to_owned(), name.to_owned());
        self.handle.cluster.store().delete(kind, &key, None).is_some()
    }

    /// Wakes whenever anything in the cluster changed.
    #[must_use]
    pub fn changes(&self) -> tokio::sync::watch::Receiver<u64> {
        self.handle.cluster.store().subscribe()
    }

    /// Waits until `done` holds; looks again at each change. Never returns where it never holds.
    pub async fn until(&self, mut done: impl FnMut(&Self) -> bool) {
        let mut changes = self.changes();
        loop {
            changes.mark_unchanged();
            if done(self) || changes.changed().await.is_err() {
                return;
            }
        }
    }

    /// Lets the cluster run for a while.
    pub async fn run_for(&self, duration: Duration) {
        self.handle.cluster.clock.sleep(duration).await;
    }

    pub(crate) fn cluster(&self) -> &Arc<Cluster> {
        &self.handle.cluster
    }
}

fn report_ready(cluster: &Cluster, node: &str, ready: bool) -> bool {
    let mut store = cluster.store();
    let now = store.now();
    let (status, reason) = if ready { ("True", "KubeletReady") } else { ("False", "KubeletNotReady") };
    let changed = store.update(Kind::Node, &(String::new(), node.to_owned()), |node| {
        object::set_condition(node, "Ready", status, reason, "", now);
    });
    changed.is_some()
}

fn insert(cluster: &Cluster, kind: Kind, mut object: Value) -> Result<Arc<Value>, crate::status::Failure> {
    let mut store = cluster.store();
    admission::admit(&store, kind, &mut object)?;
    store.create(kind, object)
}

fn kind_of(object: &Value) -> Result<Kind, String> {
    let (version, kind) = (object::text(object, "/apiVersion"), object::text(object, "/kind"));
    Kind::of(version, kind).ok_or_else(|| format!("no kind {kind} in {version}"))
}

fn by_plural(plural: &str) -> Option<Kind> {
    Kind::all().find(|kind| kind.plural() == plural)
}
