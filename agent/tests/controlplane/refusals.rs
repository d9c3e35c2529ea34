//! What admission makes of placeholders is told beforehand: on a real API server, under the rights of the manifests.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use axum::body::Body;
use http::Request;
use http_body_util::BodyExt;
use k8s_openapi::api::core::v1::{Container, ContainerPort, LimitRange, Namespace, ResourceQuota};
use kube::api::{Api, DeleteParams, Patch, PatchParams, PostParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config as KubeConfig};
use rotate_agent::clock::Clock;
use rotate_agent::{Agent, Config};
use rotate_shared::plan::Notice;
use rotate_shared::{Code, Plan, PlanList, Problem, exit, names};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tower::ServiceExt;

use crate::harness::ControlPlane;
use crate::harness::manifests;
use crate::harness::nodes::FakeNode;
use crate::harness::wait::eventually;
use crate::harness::workloads::{self, Workload};
use crate::webhook::{Behaviour, Webhook};

const SOON: Duration = Duration::from_secs(30);
const AGENT: &str = "system:serviceaccount:kubectl-rotate:rotate-agent";

/// Each obstacle is named in the plan and refuses the rotation; nothing is written but dry runs; without it the plan is
/// free again.
pub(crate) async fn what_admission_makes_of_placeholders_is_told_beforehand() -> Result<()> {
    let plane = ControlPlane::start().await?;
    let client = plane.client().await?;
    FakeNode::new("one").allocatable("cpu", "4").create_ready(&client).await?;
    manifests::apply(&client, &["namespaces", "priority-class", "agent-rbac"]).await?;
    workloads::namespace(&client, "shop").await?;
    let port = ContainerPort { container_port: 8080, host_port: Some(8080), ..ContainerPort::default() };
    Workload::new("shop", "web", 2).request("cpu", "500m").deployment(&client).await?;
    Workload::new("shop", "edge", 1)
        .spec(|spec| {
            let image = Some("example.invalid/edge".to_owned());
            let container =
                Container { name: "edge".to_owned(), image, ports: Some(vec![port]), ..Container::default() };
            spec.containers.push(container);
        })
        .deployment(&client)
        .await?;
    workloads::running(&client, "shop", "web", 2, SOON).await?;
    workloads::running(&client, "shop", "edge", 1, SOON).await?;
    FakeNode::new("two").allocatable("cpu", "4").create_ready(&client).await?;

    let token = manifests::token(&client, names::AGENT, None).await?;
    let kubeconfig = Kubeconfig::read_from(plane.kubeconfig_with_token(names::AGENT, &token)?)?;
    let config = KubeConfig::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await?;
    // It does not stand for election: whatever it writes, it writes for a plan.
    let config_of_agent = Config { acts: false, ..Config::default() };
    let agent = Agent::start(config_of_agent, rotate_agent::client::production(config)?, Clock::system());
    tokio::time::timeout(SOON, agent.ready()).await.context("the agent gets ready")?;
    let world = World { plane: &plane, client, agent };

    world.free().await.context("before anything is in the way")?;
    world.pod_security().await.context("Pod Security")?;
    world.quotas().await.context("ResourceQuota")?;
    world.limit_ranges().await.context("LimitRange")?;
    world.mutated().await.context("a policy that changes Pods")?;
    world.validated().await.context("a policy that refuses Pods")?;
    world.foreign_priority().await.context("a foreign PriorityClass")?;
    world.webhooks().await.context("a webhook")?;
    world.no_namespace().await.context("no namespace")?;
    Ok(())
}

struct World<'a> {
    plane: &'a ControlPlane,
    client: Client,
    agent: Agent,
}

impl World<'_> {
    // -- obstacles --

    async fn pod_security(&self) -> Result<()> {
        for level in ["baseline", "restricted"] {
            self.label_room(level).await?;
            let blockers = self.refused().await?;
            let [blocker] = &blockers[..] else { anyhow::bail!("{blockers:#?}") };
            ensure!(blocker.message.contains("violates PodSecurity"), "{blocker:?}");
            ensure!(blocker.message.contains("hostPort"), "{blocker:?}");
            ensure!(!blocker.message.contains("classes"), "only the one with the host port: {blocker:?}");
            ensure!(blocker.remedy.contains("enforce=privileged"), "{blocker:?}");
        }
        self.label_room("privileged").await?;
        self.free().await
    }

    async fn quotas(&self) -> Result<()> {
        for (hard, object, said) in [
            (json!({"pods": "2"}), "ResourceQuota kubectl-rotate-room/small", "pods is 2, 0 are used and 3 are needed"),
            (
                json!({"requests.cpu": "1"}),
                "ResourceQuota kubectl-rotate-room/small",
                "requests.cpu is 1, 0 are used and 1100m are needed",
            ),
            (json!({"limits.memory": "1Gi"}), "Namespace kubectl-rotate-room", "must specify limits.memory"),
        ] {
            let quotas = Api::<ResourceQuota>::namespaced(self.client.clone(), names::ROOM_NAMESPACE);
            let quota = json!({"metadata": {"name": "small"}, "spec": {"hard": hard}});
            quotas.create(&PostParams::default(), &serde_json::from_value(quota)?).await?;
            eventually("the quota to be counted", SOON, async || {
                let counted = quotas.get("small").await?.status.and_then(|status| status.used);
                Ok(counted.filter(|used| !used.is_empty()))
            })
            .await?;
            let blockers = self.refused().await?;
            let [blocker] = &blockers[..] else { anyhow::bail!("{blockers:#?}") };
            ensure!(blocker.object == object && blocker.message.contains(said), "{blocker:?}");
            ensure!(!blocker.remedy.is_empty(), "{blocker:?}");
            quotas.delete("small", &DeleteParams::default()).await?;
            self.eventually_free().await?;
        }
        Ok(())
    }

    async fn limit_ranges(&self) -> Result<()> {
        for (limit, said) in [
            (json!({"max": {"cpu": "200m"}}), "500m"),
            (json!({"min": {"cpu": "1"}}), "minimum cpu usage per Container is 1"),
            (
                json!({"defaultRequest": {"ephemeral-storage": "1Gi"}}),
                "they request 1Gi ephemeral-storage instead of none",
            ),
        ] {
            let ranges = Api::<LimitRange>::namespaced(self.client.clone(), names::ROOM_NAMESPACE);
            let mut limit = limit;
            limit["type"] = json!("Container");
            let range = json!({"metadata": {"name": "small"}, "spec": {"limits": [limit]}});
            ranges.create(&PostParams::default(), &serde_json::from_value(range)?).await?;
            let blockers = self.eventually_refused().await?;
            ensure!(blockers.iter().any(|blocker| blocker.message.contains(said)), "{said}: {blockers:#?}");
            ensure!(blockers.iter().all(|blocker| blocker.remedy.contains("LimitRange")), "{said}: {blockers:#?}");
            ranges.delete("small", &DeleteParams::default()).await?;
            self.eventually_free().await?;
        }
        Ok(())
    }

    /// As a webhook that puts every Pod of a namespace on some nodes does, without one.
    async fn mutated(&self) -> Result<()> {
        let expression = r#"[JSONPatch{op: "add", path: "/spec/nodeSelector", value: {"pool": "infra"}}]"#;
        let spec = json!({
            "matchConstraints": {"resourceRules": [
                {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]}]},
            "matchConditions": [{"name": "room", "expression": "request.namespace == 'kubectl-rotate-room'"}],
            "failurePolicy": "Fail", "reinvocationPolicy": "Never",
            "mutations": [{"patchType": "JSONPatch", "jsonPatch": {"expression": expression}}],
        });
        let binding = json!({"policyName": "pools"});
        self.policy("mutatingadmissionpolicies", "MutatingAdmissionPolicy", spec, binding).await?;
        let blockers = self.eventually_refused().await?;
        let [blocker] = &blockers[..] else { anyhow::bail!("{blockers:#?}") };
        ensure!(blocker.message.contains(r#"their node selector is "pool=infra""#), "{blocker:?}");
        ensure!(blocker.message.starts_with("placeholders of classes a, b are changed"), "{blocker:?}");
        ensure!(blocker.remedy.contains("exempt namespace kubectl-rotate-room"), "{blocker:?}");
        self.no_policy("mutatingadmissionpolicies").await
    }

    async fn validated(&self) -> Result<()> {
        let spec = json!({
            "matchConstraints": {"resourceRules": [
                {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]}]},
            "matchConditions": [{"name": "room", "expression": "request.namespace == 'kubectl-rotate-room'"}],
            "failurePolicy": "Fail",
            "validations": [{"expression": "false", "message": "no Pods without an owner"}],
        });
        let binding = json!({"policyName": "pools", "validationActions": ["Deny"]});
        self.policy("validatingadmissionpolicies", "ValidatingAdmissionPolicy", spec, binding).await?;
        let blockers = self.eventually_refused().await?;
        let [blocker] = &blockers[..] else { anyhow::bail!("{blockers:#?}") };
        ensure!(blocker.message.contains("no Pods without an owner"), "{blocker:?}");
        ensure!(blocker.remedy.contains("exempt namespace kubectl-rotate-room"), "{blocker:?}");
        self.no_policy("validatingadmissionpolicies").await
    }

    async fn foreign_priority(&self) -> Result<()> {
        self.priority_class(1000, "PreemptLowerPriority").await?;
        let blockers = self.eventually_refused().await?;
        let [blocker] = &blockers[..] else { anyhow::bail!("{blockers:#?}") };
        ensure!(blocker.message.contains("PriorityClass rotate-placeholder is not ours"), "{blocker:?}");
        ensure!(blocker.message.contains("computed 1000"), "{blocker:?}");
        ensure!(blocker.remedy.contains("kubectl delete priorityclass rotate-placeholder"), "{blocker:?}");
        self.delete("/apis/scheduling.k8s.io/v1/priorityclasses/rotate-placeholder").await?;
        let gone = self.eventually("the class to be missed", |blockers| {
            blockers.iter().any(|blocker| blocker.message.contains("no PriorityClass with name rotate-placeholder"))
        });
        gone.await?;
        self.priority_class(names::PLACEHOLDER_PRIORITY, "Never").await?;
        self.eventually_free().await
    }

    /// One over TLS, which changes, refuses and fails by turns.
    async fn webhooks(&self) -> Result<()> {
        let webhook = Webhook::start(self.plane).await?;
        webhook.set(Behaviour::Denies("no\u{1b}[2J entry"));
        let path = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations";
        self.create(path, &webhook.configuration(self.plane, "None")?).await?;
        self.eventually_refused().await?;
        let critical = json!([
            {"op": "replace", "path": "/spec/priorityClassName", "value": "system-node-critical"},
            {"op": "remove", "path": "/spec/priority"},
            {"op": "remove", "path": "/spec/preemptionPolicy"},
        ]);
        let add = |path: &str, value: Value| Behaviour::Patches(json!([{"op": "add", "path": path, "value": value}]));
        let owner = json!([{"apiVersion": "v1", "kind": "ConfigMap", "name": "gone", "uid": "7"}]);
        let sidecar = json!({"name": "mesh", "image": "example.invalid/mesh"});
        for (behaviour, said) in [
            (Behaviour::Denies("no\u{1b}[2J entry"), "denied the request: no\u{1b}[2J entry"),
            (add("/spec/nodeSelector", json!({"pool": "infra"})), r#"their node selector is "pool=infra""#),
            (add("/spec/containers/0/resources/requests/memory", json!("96Mi")), "they request 96Mi memory instead of"),
            (add("/spec/containers/-", sidecar), "container mesh is added"),
            (add("/spec/priority", json!(1000)), "the integer value of priority (1000) must not be provided"),
            (
                Behaviour::Patches(critical),
                "their priority is 2000001000 instead of -10 and they may preempt other Pods: they are given \
                 PriorityClass \"system-node-critical\" instead of rotate-placeholder",
            ),
            (add("/metadata/finalizers", json!(["example.invalid/hold"])), "finalizer example.invalid/hold keeps them"),
            (add("/metadata/ownerReferences", owner), "they end with ConfigMap gone"),
            (
                Behaviour::Patches(json!([{"op": "remove", "path": "/metadata/labels/kubectl-rotate.dev~1rotation"}])),
                "label kubectl-rotate.dev/rotation is removed",
            ),
            (Behaviour::Patches(json!({"not": "a patch"})), "hostile.example.invalid"),
            (Behaviour::Sleeps, "failed calling webhook \"hostile.example.invalid\""),
            (Behaviour::Babbles, "failed calling webhook \"hostile.example.invalid\""),
            (Behaviour::Fails(http::StatusCode::BAD_GATEWAY), "failed calling webhook \"hostile.example.invalid\""),
        ] {
            webhook.set(behaviour.clone());
            let blockers = self.refused().await.with_context(|| format!("{behaviour:?}"))?;
            ensure!(blockers.iter().any(|blocker| blocker.message.contains(said)), "{behaviour:?}: {blockers:#?}");
            ensure!(
                blockers.iter().all(|blocker| blocker.remedy.contains("exempt namespace kubectl-rotate-room")),
                "{behaviour:?}: {blockers:#?}"
            );
        }
        webhook.set(Behaviour::Allows);
        self.free().await?;
        self.delete(&format!("{path}/hostile")).await?;
        // The API server takes such a one no more, and keeps those that it has.
        let mut old = webhook.configuration(self.plane, "Some")?;
        ensure!(self.create(path, &old).await.is_err(), "a webhook with side effects was taken");
        old["metadata"]["uid"] = json!("old");
        old["metadata"]["creationTimestamp"] = json!("2020-01-01T00:00:00Z");
        let key = "/registry/mutatingwebhookconfigurations/hostile";
        self.plane.put_into_etcd(key, &old).await?;
        let warning = eventually("what cannot be probed to be said", SOON, async || {
            let warnings = self.plan().await?.into_iter().flat_map(|plan| plan.warnings);
            Ok(warnings.into_iter().find(|warning| warning.code == Code::NotProbed))
        })
        .await?;
        ensure!(warning.message.contains("does not support dry run"), "{warning:?}");
        ensure!(warning.remedy.contains("sideEffects: None"), "{warning:?}");
        self.free().await?;
        self.delete(&format!("{path}/hostile")).await
    }

    /// The last of them: the agent's rights there go with it.
    async fn no_namespace(&self) -> Result<()> {
        self.delete("/api/v1/namespaces/kubectl-rotate-room").await?;
        let namespaces = Api::<Namespace>::all(self.client.clone());
        eventually("the namespace to go", SOON, async || {
            Ok(namespaces.get_opt(names::ROOM_NAMESPACE).await?.is_none().then_some(()))
        })
        .await?;
        let blockers = self.eventually_refused().await?;
        let [blocker] = &blockers[..] else { anyhow::bail!("{blockers:#?}") };
        ensure!(blocker.message.contains("kubectl-rotate-room"), "{blocker:?}");
        ensure!(blocker.remedy.contains("kubectl rotate install --apply"), "{blocker:?}");
        Ok(())
    }

    // -- what the agent says --

    /// The plan is free of blockers.
    async fn free(&self) -> Result<()> {
        let blockers = self.blockers().await?;
        ensure!(blockers.is_empty(), "{blockers:#?}");
        Ok(())
    }

    async fn eventually_free(&self) -> Result<()> {
        self.eventually("a plan without blockers", <[Notice]>::is_empty).await.map(drop)
    }

    /// Admission plugins see what they go by through a watch of their own.
    async fn eventually_refused(&self) -> Result<Vec<Notice>> {
        self.eventually("a plan with blockers", |blockers| !blockers.is_empty()).await?;
        self.refused().await
    }

    async fn eventually(&self, what: &str, wanted: impl Fn(&[Notice]) -> bool) -> Result<Vec<Notice>> {
        eventually(what, SOON, async || Ok(Some(self.blockers().await?).filter(|blockers| wanted(blockers)))).await
    }

    async fn blockers(&self) -> Result<Vec<Notice>> {
        Ok(self.plan().await?.into_iter().flat_map(|plan| plan.blockers).collect())
    }

    async fn plan(&self) -> Result<Vec<Plan>> {
        let plans: PlanList = self.post("/v1/plans", &json!({ "nodes": ["one"] })).await?;
        Ok(plans.items)
    }

    /// What the plan says stands in the way, and a rotation is refused for; the agent has written nothing.
    async fn refused(&self) -> Result<Vec<Notice>> {
        let mark = self.plane.audit().mark()?;
        let planned = self.blockers().await?;
        ensure!(planned.iter().all(|blocker| blocker.code == Code::PlaceholderRefused), "{planned:#?}");
        let problem: Problem = self.post("/v1/rotations", &json!({ "nodes": ["one"] })).await?;
        ensure!(problem.code == Code::Blocked && problem.code.exit_code() == exit::BLOCKED, "{problem:?}");
        ensure!(problem.blockers == planned, "{problem:#?}");
        let requests = self.plane.audit().of(AGENT, mark)?;
        let writes = requests.iter().filter(|request| request.is_write());
        let writes: Vec<_> = writes.map(|request| format!("{} {}", request.verb, request.uri)).collect();
        ensure!(writes.iter().all(|write| write.contains("dryRun=All")), "{writes:#?}");
        ensure!(writes.len() == 4, "one dry run for each of two classes, twice: {writes:#?}");
        Ok(planned)
    }

    async fn post<T: DeserializeOwned>(&self, path: &str, body: &Value) -> Result<T> {
        let request =
            Request::post(path).header("content-type", "application/json").body(Body::from(body.to_string()))?;
        let response = self.agent.router().oneshot(request).await?;
        let body = response.into_body().collect().await?.to_bytes();
        serde_json::from_slice(&body).with_context(|| String::from_utf8_lossy(&body).into_owned())
    }

    // -- the cluster --

    async fn label_room(&self, level: &str) -> Result<()> {
        let labels = json!({"metadata": {"labels": {"pod-security.kubernetes.io/enforce": level}}});
        let namespaces = Api::<Namespace>::all(self.client.clone());
        namespaces.patch(names::ROOM_NAMESPACE, &PatchParams::default(), &Patch::Merge(labels)).await?;
        let free = level == "privileged";
        self.eventually(&format!("level {level}"), |blockers| blockers.is_empty() == free).await.map(drop)
    }

    async fn priority_class(&self, value: i32, preemption: &str) -> Result<()> {
        let path = "/apis/scheduling.k8s.io/v1/priorityclasses";
        // What is there may be ours: its value cannot be changed.
        drop(self.delete(&format!("{path}/rotate-placeholder")).await);
        let class = json!({"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass",
            "metadata": {"name": "rotate-placeholder"}, "value": value, "preemptionPolicy": preemption});
        self.create(path, &class).await
    }

    async fn policy(&self, plural: &str, kind: &str, spec: Value, binding: Value) -> Result<()> {
        let group = "/apis/admissionregistration.k8s.io/v1";
        let version = "admissionregistration.k8s.io/v1";
        let policy = json!({"apiVersion": version, "kind": kind, "metadata": {"name": "pools"}, "spec": spec});
        self.create(&format!("{group}/{plural}"), &policy).await?;
        let kind = format!("{kind}Binding");
        let binding = json!({"apiVersion": version, "kind": kind, "metadata": {"name": "pools"}, "spec": binding});
        self.create(&format!("{group}/{}", bindings(plural)), &binding).await
    }

    async fn no_policy(&self, plural: &str) -> Result<()> {
        let group = "/apis/admissionregistration.k8s.io/v1";
        self.delete(&format!("{group}/{}/pools", bindings(plural))).await?;
        self.delete(&format!("{group}/{plural}/pools")).await?;
        self.eventually_free().await
    }

    async fn create(&self, path: &str, object: &Value) -> Result<()> {
        let request = Request::post(path).header("content-type", "application/json");
        self.client.request::<Value>(request.body(object.to_string().into_bytes())?).await.map(drop)?;
        Ok(())
    }

    async fn delete(&self, path: &str) -> Result<()> {
        self.client.request::<Value>(Request::delete(path).body(Vec::new())?).await.map(drop)?;
        Ok(())
    }
}

/// `…policies` → `…policybindings`.
fn bindings(plural: &str) -> String {
    plural.replace("policies", "policybindings")
}
