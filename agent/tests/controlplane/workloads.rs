//! Namespaces, workloads and disruption budgets, and waiting for their Pods.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::Result;
use k8s_openapi::api::apps::v1::{
    DaemonSet, DaemonSetSpec, Deployment, DeploymentSpec, ReplicaSet, ReplicaSetSpec, StatefulSet, StatefulSetSpec,
};
use k8s_openapi::api::batch::v1::{Job, JobSpec};
use k8s_openapi::api::core::v1::{
    Container, Namespace, Pod, PodSpec, PodTemplateSpec, ResourceRequirements, ServiceAccount,
};
use k8s_openapi::api::policy::v1::{Eviction, PodDisruptionBudget, PodDisruptionBudgetSpec};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{DeleteOptions, LabelSelector, Preconditions};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use kube::api::{Api, ListParams, ObjectMeta, PostParams};
use kube::{Client, ResourceExt};

use super::wait::eventually;

/// On a Pod: seconds from its deletion until it is gone, or `grace` for its whole grace period; at once without it.
pub(crate) const STOPS_AFTER: &str = "kubectl-rotate.dev/test-stops-after";
/// On a Job's Pod: seconds from its start until it has Succeeded; at once without it.
pub(crate) const COMPLETES_AFTER: &str = "kubectl-rotate.dev/test-completes-after";
/// On a Pod, `never`: it runs and never gets Ready.
pub(crate) const READY: &str = "kubectl-rotate.dev/test-ready";

/// What small things take: a controller's reaction on two busy cores.
const SOON: Duration = Duration::from_secs(30);

/// A set of equal Pods labelled `app: NAME`, each of 100m CPU and 64 MiB unless said otherwise.
#[derive(Clone)]
pub(crate) struct Workload {
    namespace: String,
    name: String,
    replicas: i32,
    requests: BTreeMap<String, Quantity>,
    annotations: BTreeMap<String, String>,
    spec: PodSpec,
}

/// Creates a namespace and waits until Pods can be created in it.
pub(crate) async fn namespace(client: &Client, name: &str) -> Result<()> {
    let metadata = ObjectMeta { name: Some(name.to_owned()), ..ObjectMeta::default() };
    let object = Namespace { metadata, ..Namespace::default() };
    Api::all(client.clone()).create(&PostParams::default(), &object).await?;
    default_service_account(client, name).await
}

/// Waits for the service account without which no Pod is admitted.
pub(crate) async fn default_service_account(client: &Client, namespace: &str) -> Result<()> {
    let accounts = Api::<ServiceAccount>::namespaced(client.clone(), namespace);
    let what = format!("service account default of {namespace}");
    eventually(&what, SOON, async || Ok(accounts.get_opt("default").await?)).await.map(drop)
}

/// Creates a budget for the Pods `app: APP` and waits until the controller has counted them.
pub(crate) async fn disruption_budget(
    client: &Client,
    namespace: &str,
    app: &str,
    min_available: Option<IntOrString>,
    max_unavailable: Option<IntOrString>,
) -> Result<PodDisruptionBudget> {
    let budgets = Api::<PodDisruptionBudget>::namespaced(client.clone(), namespace);
    let metadata = ObjectMeta { name: Some(app.to_owned()), ..ObjectMeta::default() };
    let selector = Some(select(app));
    let spec = PodDisruptionBudgetSpec { selector, min_available, max_unavailable, ..Default::default() };
    let object = PodDisruptionBudget { metadata, spec: Some(spec), status: None };
    budgets.create(&PostParams::default(), &object).await?;
    eventually(&format!("the counts of budget {app}"), SOON, async || {
        let seen = budgets.get(app).await?;
        let generation = seen.metadata.generation;
        let counted = seen.status.as_ref().is_some_and(|status| status.observed_generation == generation);
        Ok(counted.then_some(seen))
    })
    .await
}

/// Waits until exactly so many Pods `app: APP` run and are Ready, and none is terminating.
pub(crate) async fn running(
    client: &Client,
    namespace: &str,
    app: &str,
    count: usize,
    within: Duration,
) -> Result<Vec<Pod>> {
    let pods = Api::<Pod>::namespaced(client.clone(), namespace);
    let labelled = ListParams::default().labels(&format!("app={app}"));
    let waited = eventually(&format!("{count} running Pods of {app}"), within, async || {
        let seen = pods.list(&labelled).await?.items;
        Ok((seen.len() == count && seen.iter().all(is_running)).then_some(seen))
    })
    .await;
    match waited {
        Ok(pods) => Ok(pods),
        Err(error) => {
            let seen = pods.list(&labelled).await?.items;
            Err(error
                .context(seen.iter().map(|pod| format!("{} {:?}\n", pod.name_any(), pod.status)).collect::<String>()))
        }
    }
}

/// Whether the Pod is Ready and stays.
pub(crate) fn is_running(pod: &Pod) -> bool {
    let conditions = pod.status.iter().flat_map(|status| status.conditions.iter().flatten());
    let mut ready = conditions.into_iter().filter(|it| it.type_ == "Ready" && it.status == "True");
    pod.metadata.deletion_timestamp.is_none() && ready.next().is_some()
}

/// The node that the Pod is bound to, empty before it is.
pub(crate) fn node_of(pod: &Pod) -> String {
    pod.spec.as_ref().and_then(|spec| spec.node_name.clone()).unwrap_or_default()
}

/// Asks once for the eviction of this very Pod.
pub(crate) async fn evict(client: &Client, pod: &Pod) -> Result<(), kube::Error> {
    let metadata = ObjectMeta { name: pod.metadata.name.clone(), ..ObjectMeta::default() };
    let preconditions = Some(Preconditions { uid: pod.uid(), ..Preconditions::default() });
    let eviction =
        Eviction { metadata, delete_options: Some(DeleteOptions { preconditions, ..DeleteOptions::default() }) };
    let pods = Api::<Pod>::namespaced(client.clone(), &pod.namespace().unwrap_or_default());
    let options = PostParams::default();
    let answer: serde_json::Value = pods.create_subresource("eviction", &pod.name_any(), &options, &eviction).await?;
    drop(answer);
    Ok(())
}

fn select(app: &str) -> LabelSelector {
    LabelSelector { match_labels: Some(labels(app)), ..LabelSelector::default() }
}

fn labels(app: &str) -> BTreeMap<String, String> {
    BTreeMap::from([("app".to_owned(), app.to_owned())])
}

// === impl Workload ===

impl Workload {
    /// So many Pods `app: NAME`.
    pub(crate) fn new(namespace: &str, name: &str, replicas: i32) -> Self {
        let workload = Self {
            namespace: namespace.to_owned(),
            name: name.to_owned(),
            replicas,
            requests: BTreeMap::new(),
            annotations: BTreeMap::new(),
            spec: PodSpec::default(),
        };
        workload.request("cpu", "100m").request("memory", "64Mi")
    }

    /// What each Pod asks for of a resource, which is also its limit where the resource is an extended one.
    pub(crate) fn request(mut self, resource: &str, quantity: &str) -> Self {
        self.requests.insert(resource.to_owned(), Quantity(quantity.to_owned()));
        self
    }

    /// One more annotation on each Pod.
    pub(crate) fn annotation(mut self, key: &str, value: &str) -> Self {
        self.annotations.insert(key.to_owned(), value.to_owned());
        self
    }

    /// Changes the Pods' spec in any other way; the container is added afterwards.
    pub(crate) fn spec(mut self, change: impl FnOnce(&mut PodSpec)) -> Self {
        change(&mut self.spec);
        self
    }

    /// Creates it as a Deployment.
    pub(crate) async fn deployment(&self, client: &Client) -> Result<Deployment> {
        let spec = DeploymentSpec {
            replicas: Some(self.replicas),
            selector: select(&self.name),
            template: self.template(),
            ..DeploymentSpec::default()
        };
        let object = Deployment { metadata: self.metadata(), spec: Some(spec), status: None };
        Ok(self.api(client).create(&PostParams::default(), &object).await?)
    }

    /// Creates it as a ReplicaSet.
    pub(crate) async fn replica_set(&self, client: &Client) -> Result<ReplicaSet> {
        let spec = ReplicaSetSpec {
            replicas: Some(self.replicas),
            selector: select(&self.name),
            template: Some(self.template()),
            ..ReplicaSetSpec::default()
        };
        let object = ReplicaSet { metadata: self.metadata(), spec: Some(spec), status: None };
        Ok(self.api(client).create(&PostParams::default(), &object).await?)
    }

    /// Creates it as a StatefulSet whose Pods start in parallel.
    pub(crate) async fn stateful_set(&self, client: &Client) -> Result<StatefulSet> {
        let spec = StatefulSetSpec {
            replicas: Some(self.replicas),
            selector: select(&self.name),
            template: self.template(),
            pod_management_policy: Some("Parallel".to_owned()),
            ..StatefulSetSpec::default()
        };
        let object = StatefulSet { metadata: self.metadata(), spec: Some(spec), status: None };
        Ok(self.api(client).create(&PostParams::default(), &object).await?)
    }

    /// Creates it as a DaemonSet; the number of replicas is the number of nodes.
    pub(crate) async fn daemon_set(&self, client: &Client) -> Result<DaemonSet> {
        let spec =
            DaemonSetSpec { selector: select(&self.name), template: self.template(), ..DaemonSetSpec::default() };
        let object = DaemonSet { metadata: self.metadata(), spec: Some(spec), status: None };
        Ok(self.api(client).create(&PostParams::default(), &object).await?)
    }

    /// Creates it as a Job with so many Pods at a time.
    pub(crate) async fn job(&self, client: &Client) -> Result<Job> {
        let mut template = self.template();
        template.spec.get_or_insert_default().restart_policy = Some("Never".to_owned());
        let (parallelism, completions) = (Some(self.replicas), Some(self.replicas));
        let spec = JobSpec { parallelism, completions, template, ..JobSpec::default() };
        let object = Job { metadata: self.metadata(), spec: Some(spec), status: None };
        Ok(self.api(client).create(&PostParams::default(), &object).await?)
    }

    /// Creates one Pod without a controller.
    pub(crate) async fn bare_pod(&self, client: &Client) -> Result<Pod> {
        let template = self.template();
        let metadata = ObjectMeta { name: Some(self.name.clone()), ..template.metadata.unwrap_or_default() };
        let object = Pod { metadata, spec: template.spec, status: None };
        Ok(self.api(client).create(&PostParams::default(), &object).await?)
    }

    fn api<K>(&self, client: &Client) -> Api<K>
    where
        K: kube::Resource<Scope = k8s_openapi::NamespaceResourceScope, DynamicType = ()>,
    {
        Api::namespaced(client.clone(), &self.namespace)
    }

    fn metadata(&self) -> ObjectMeta {
        ObjectMeta { name: Some(self.name.clone()), ..ObjectMeta::default() }
    }

    fn template(&self) -> PodTemplateSpec {
        let extended = self.requests.iter().filter(|(name, _)| name.contains('/'));
        let resources = ResourceRequirements {
            limits: Some(extended.map(|(name, quantity)| (name.clone(), quantity.clone())).collect()),
            requests: Some(self.requests.clone()),
            ..ResourceRequirements::default()
        };
        let mut spec = self.spec.clone();
        spec.containers.insert(
            0,
            Container {
                name: "main".to_owned(),
                image: Some("example.invalid/app".to_owned()),
                resources: Some(resources),
                ..Container::default()
            },
        );
        let metadata = ObjectMeta {
            labels: Some(labels(&self.name)),
            annotations: Some(self.annotations.clone()),
            ..ObjectMeta::default()
        };
        PodTemplateSpec { metadata: Some(metadata), spec: Some(spec) }
    }
}
