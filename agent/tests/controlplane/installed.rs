//! The program as `manifests/` install it: its rights, the tokens of people, its end.

use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use http::Request;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{Node, PersistentVolumeClaimVolumeSource, Pod, PodSpec, Volume};
use kube::api::{Api, ListParams};
use kube::{Client, Config};
use rotate_shared::{Code, NodeList, Phase, PlanList, Rotation, RotationList, names};
use serde_json::{Value, json};
use tokio::process::{Child, Command};

use crate::harness::manifests::{IMAGE, create, install, post, token};
use crate::harness::nodes::{self, FakeNode};
use crate::harness::wait::eventually;
use crate::harness::workloads::{self, Workload};
use crate::harness::{ControlPlane, ports};
use crate::karpenter::{self, Karpenter, NodePool};
use crate::{policies, rights};

const SOON: Duration = Duration::from_secs(60);
/// Seconds that a Pod takes to get Ready which is missed meanwhile.
const SLOW: &str = "4";

/// Whole rotations under the rights and the admission policies of the manifests: nothing is refused, and no right is left that
/// none of them uses. Then what each policy forbids is tried.
pub(crate) async fn the_rights_of_the_manifests_suffice_and_none_is_idle() -> Result<()> {
    let (mut plane, client, candidate) = installed(every_kind_of_owner).await?;
    // Before the agent, which asks only every few minutes again for what is not installed.
    let karpenter = Karpenter::start(&plane).await?;
    let before = plane.audit().mark()?;
    let mut agent = Agent::start(&plane, &client, &["--history-limit", "1", "--placeholder-image", IMAGE]).await?;
    let operator = agent.caller(&client, "rotate-operator").await?;
    let viewer = agent.caller(&client, "rotate-viewer").await?;
    let body = json!({ "nodes": [candidate], "options": { "then": "delete", "force": true } });
    let refused = post::<RotationList>(&viewer, "/v1/rotations", &body).await;
    ensure!(matches!(&refused, Err(kube::Error::Api(status)) if status.code == 403), "{refused:?}");
    let begun = post::<RotationList>(&operator, "/v1/rotations", &body).await?.items.remove(0);
    ensure!(begun.requested_by.credential_id.as_ref().is_some_and(|id| id.starts_with("JTI=")));
    policies::live_records_stay(&client, &begun.id).await?;
    succeeded(&viewer, &begun).await?;
    ensure!(Api::<Node>::all(client.clone()).get_opt(&candidate).await?.is_none());

    rotate_a_node_of_karpenters(&client, &operator).await?;
    eventually("old records to go", SOON, async || {
        let kept: RotationList = viewer.request(Request::get("/v1/rotations").body(Vec::new())?).await?;
        Ok((kept.items.len() == 1).then_some(()))
    })
    .await?;

    agent.end_in_order().await?;
    let lease = Api::<Lease>::namespaced(client.clone(), names::NAMESPACE).get(names::AGENT).await?;
    let holder = lease.spec.and_then(|spec| spec.holder_identity).unwrap_or_default();
    ensure!(holder.is_empty(), "the lead was not given up: {holder}");

    drop(karpenter);
    // Where the API server does not stream lists, the agent lists.
    plane.restart_apiserver_with("ShardedListAndWatch=true,WatchList=false").await?;
    let mut agent = Agent::start(&plane, &client, &[]).await?;
    agent.end_in_order().await?;

    let account = format!("system:serviceaccount:{}:{}", names::NAMESPACE, names::AGENT);
    let requests = plane.audit().of(&account, before)?;
    ensure!(requests.iter().any(|request| request.resource() == "pods/eviction"));
    for request in &requests {
        // Policies refuse with either.
        let refused = request.code() == 403 || (request.code() == 422 && request.is_write());
        ensure!(!refused, "{} {} is not allowed", request.verb, request.uri);
        let discovery = ["/api", "/apis", "/openapi"].iter().any(|path| request.uri.trim_end_matches('/') == *path);
        ensure!(!discovery, "asked for {}", request.uri);
    }
    rights::all_are_used(&requests)?;
    rights::nothing_else_grants_them(&client).await?;
    policies::hold(&plane, &client).await
}

/// Its pools are read, and the candidate's NodeClaim is deleted.
async fn rotate_a_node_of_karpenters(client: &Client, operator: &Client) -> Result<()> {
    // What keeps its placeholders waiting is read after two seconds.
    NodePool::new("general", "c-2").boot(Duration::from_secs(4)).create(client).await?;
    let only_there = Some([(karpenter::POOL.to_owned(), "general".to_owned())].into());
    let fleet = Workload::new("shop", "fleet", 2).request("cpu", "900m").spec(|spec| spec.node_selector = only_there);
    fleet.deployment(client).await?;
    let pods = workloads::running(client, "shop", "fleet", 2, SOON).await?;
    let body = json!({ "nodes": [workloads::node_of(&pods[0])] });
    let begun = post::<RotationList>(operator, "/v1/rotations", &body).await?.items.remove(0);
    let end = succeeded(operator, &begun).await?;
    ensure!(end.progress.landed == 2, "{end:#?}");
    eventually("the candidate's NodeClaim to go", SOON, async || {
        let claims = karpenter::claims_of(client, "general").await?;
        Ok((claims.len() == 1 && karpenter::node_of(&claims[0]) != begun.node).then_some(()))
    })
    .await
}

/// `--pod-cache=scoped`: a whole rotation, and never a list or a watch of every Pod.
pub(crate) async fn a_scoped_agent_reads_only_the_pods_it_works_on() -> Result<()> {
    let (plane, client, candidate) = installed(async |_| Ok(())).await?;
    workloads::namespace(&client, "other").await?;
    // Not on the candidate: what is there is moved, so that its namespace is read.
    Workload::new("other", "noise", 2).spec(|spec| spec.node_name = Some("two".to_owned())).deployment(&client).await?;
    workloads::running(&client, "other", "noise", 2, SOON).await?;

    let before = plane.audit().mark()?;
    let mut agent = Agent::start(&plane, &client, &["--pod-cache", "scoped"]).await?;
    let operator = agent.caller(&client, "rotate-operator").await?;
    let body = json!({ "nodes": [candidate] });
    let plans: PlanList = post(&operator, "/v1/plans", &body).await?;
    let codes: Vec<_> = plans.items[0].warnings.iter().map(|warning| warning.code).collect();
    ensure!(codes.contains(&Code::NotLookedAt), "{codes:?}");
    let nodes: NodeList = operator.request(Request::get("/v1/nodes").body(Vec::new())?).await?;
    ensure!(nodes.items.iter().all(|node| node.pods.is_some() == (node.name == candidate)), "{nodes:#?}");
    let deleting = json!({ "nodes": [candidate], "options": { "disableEviction": true } });
    deletion_takes_a_right(&client, &operator, &deleting).await?;
    let begun = post::<RotationList>(&operator, "/v1/rotations", &deleting).await?.items.remove(0);
    let end = succeeded(&operator, &begun).await?;
    let progress = end.progress;
    ensure!(progress.to_move > 0 && progress.landed == progress.to_move, "{end:#?}");
    agent.end_in_order().await?;

    let account = format!("system:serviceaccount:{}:{}", names::NAMESPACE, names::AGENT);
    let requests = plane.audit().of(&account, before)?;
    ensure!(!requests.iter().any(|request| request.resource() == "pods/eviction"), "its Pods are deleted");
    let pods = requests.iter().filter(|request| request.resource() == "pods" && !request.is_write());
    let lists: Vec<_> = pods.filter(|request| request.name().is_empty()).collect();
    ensure!(lists.iter().any(|list| list.verb == "watch" && list.uri.contains(&format!("nodeName%3D{candidate}"))));
    ensure!(lists.iter().any(|list| list.verb == "watch" && list.namespace() == "shop"), "{lists:#?}");
    let selectors = ["fieldSelector=spec.nodeName%3D", "fieldSelector=status.nominatedNodeName%3D"];
    for list in lists {
        let selected = selectors.iter().any(|selector| list.uri.contains(selector));
        let scoped = !list.namespace().is_empty() || selected;
        ensure!(scoped && list.namespace() != "other", "{} {}", list.verb, list.uri);
    }
    Ok(())
}

/// Without evictions the manifests' rights do not suffice, which is told before anything is touched. What the runbook has
/// grants the right that is missing.
async fn deletion_takes_a_right(client: &Client, operator: &Client, deleting: &Value) -> Result<()> {
    let blockers = async || -> Result<Vec<String>> {
        let plans: PlanList = post(operator, "/v1/plans", deleting).await?;
        let blockers = plans.items[0].blockers.iter();
        Ok(blockers.map(|blocker| format!("{} {}", blocker.code, blocker.object)).collect())
    };
    let found = blockers().await?;
    // One of the agent's own Pods is there, too.
    let namespaces = [names::NAMESPACE, "shop"];
    ensure!(found == namespaces.map(|namespace| format!("EvictionRefused Namespace {namespace}")), "{found:?}");
    let refused = post::<RotationList>(operator, "/v1/rotations", deleting).await;
    ensure!(matches!(&refused, Err(kube::Error::Api(status)) if status.code == 422), "{refused:?}");
    let rbac = "rbac.authorization.k8s.io";
    for namespace in namespaces {
        let metadata = json!({ "name": "rotate-agent-deletes", "namespace": namespace });
        let role = json!({ "apiVersion": format!("{rbac}/v1"), "kind": "Role", "metadata": metadata,
            "rules": [{ "apiGroups": [""], "resources": ["pods"], "verbs": ["delete"] }] });
        let binding = json!({ "apiVersion": format!("{rbac}/v1"), "kind": "RoleBinding", "metadata": metadata,
            "roleRef": { "apiGroup": rbac, "kind": "Role", "name": "rotate-agent-deletes" },
            "subjects": [{ "kind": "ServiceAccount", "name": names::AGENT, "namespace": names::NAMESPACE }] });
        for object in [role, binding] {
            create(client, &object).await.with_context(|| format!("failed to create {object}"))?;
        }
    }
    eventually("the API server to know the right", SOON, async || Ok(blockers().await?.is_empty().then_some(()))).await
}

/// A control plane of its own, because the manifests' namespaces are there once; three Pods of `web`, and what else is wanted,
/// on the node `one`, and two more nodes.
async fn installed(more: impl AsyncFnOnce(&Client) -> Result<()>) -> Result<(ControlPlane, Client, String)> {
    let plane = ControlPlane::start().await?;
    let client = plane.client().await?;
    let node = |name| FakeNode::new(name).allocatable("cpu", "2");
    node("one").create_ready(&client).await?;
    install(&client).await?;
    workloads::namespace(&client, "shop").await?;
    Workload::new("shop", "web", 3).deployment(&client).await?;
    workloads::running(&client, "shop", "web", 3, SOON).await?;
    more(&client).await?;
    for name in ["two", "three"] {
        node(name).create_ready(&client).await?;
    }
    agents_run(&client).await?;
    Ok((plane, client, "one".to_owned()))
}

/// One Pod of each owner that is asked what it wants, one of them with a volume of a storage driver's.
async fn every_kind_of_owner(client: &Client) -> Result<()> {
    let volume = json!({
        "apiVersion": "v1", "kind": "PersistentVolume", "metadata": { "name": "disk" },
        "spec": {
            "capacity": { "storage": "1Gi" }, "accessModes": ["ReadWriteOnce"], "storageClassName": "",
            "csi": { "driver": "disks.example.com", "volumeHandle": "disk" },
            "claimRef": { "namespace": "shop", "name": "disk" },
        },
    });
    let claim = json!({
        "apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": { "name": "disk", "namespace": "shop" },
        "spec": {
            "accessModes": ["ReadWriteOnce"], "storageClassName": "", "volumeName": "disk",
            "resources": { "requests": { "storage": "1Gi" } },
        },
    });
    let container = json!({
        "name": "main", "image": "example.invalid/app", "resources": { "requests": { "cpu": "100m" } },
    });
    let controller = json!({
        "apiVersion": "v1", "kind": "ReplicationController", "metadata": { "name": "old", "namespace": "shop" },
        "spec": {
            "replicas": 1, "selector": { "app": "old" },
            "template": {
                "metadata": { "labels": { "app": "old" }, "annotations": { nodes::READY_AFTER: SLOW } },
                "spec": { "containers": [container] },
            },
        },
    });
    for object in [volume, claim, controller] {
        create(client, &object).await.with_context(|| format!("failed to create {object}"))?;
    }
    let claim = PersistentVolumeClaimVolumeSource { claim_name: "disk".to_owned(), read_only: None };
    let volume = Volume { name: "disk".to_owned(), persistent_volume_claim: Some(claim), ..Volume::default() };
    let with_volume = |spec: &mut PodSpec| spec.volumes = Some(vec![volume]);
    // Replacements that take their time: that long nobody asks what the owners want.
    let slow = |name| Workload::new("shop", name, 1).annotation(nodes::READY_AFTER, SLOW);
    slow("db").spec(with_volume).stateful_set(client).await?;
    slow("slow").deployment(client).await?;
    slow("work").annotation(workloads::COMPLETES_AFTER, "3600").job(client).await?;
    for app in ["old", "db", "slow", "work"] {
        workloads::running(client, "shop", app, 1, SOON).await?;
    }
    Ok(())
}

/// Waits for the end of a rotation.
async fn succeeded(caller: &Client, begun: &Rotation) -> Result<Rotation> {
    let path = format!("/v1/rotations/{}", begun.id);
    let end = eventually("the rotation's end", SOON, async || {
        let rotation: Rotation = caller.request(Request::get(&path).body(Vec::new())?).await?;
        Ok(rotation.phase.is_terminal().then_some(rotation))
    });
    let end = end.await?;
    ensure!(end.phase == Phase::Succeeded, "{end:#?}");
    Ok(end)
}

/// The API server lets the Deployment's Pods into their restricted namespace.
async fn agents_run(client: &Client) -> Result<()> {
    let pods = Api::<Pod>::namespaced(client.clone(), names::NAMESPACE);
    eventually("two agents", SOON, async || {
        let pods = pods.list(&ListParams::default()).await?;
        Ok((pods.items.iter().filter(|pod| workloads::is_running(pod)).count() == 2).then_some(()))
    })
    .await
}

/// The built program, as a process.
struct Agent {
    process: Child,
    control: u16,
}

impl Agent {
    /// Starts it with the token of its account and waits until it is ready.
    async fn start(plane: &ControlPlane, client: &Client, flags: &[&str]) -> Result<Self> {
        let kubeconfig = plane.kubeconfig_with_token(names::AGENT, &token(client, names::AGENT, None).await?)?;
        let control = plane.agent_port();
        let ops = ports::claim()?;
        let process = Command::new(env!("CARGO_BIN_EXE_rotate-agent"))
            .env("ROTATE_KUBECONFIG", kubeconfig)
            .args(flags)
            .args(["--control-addr", &format!("127.0.0.1:{control}"), "--ops-addr", &format!("127.0.0.1:{ops}")])
            .stdin(Stdio::null())
            .kill_on_drop(true)
            .spawn()?;
        let health = Client::try_from(Config::new(format!("http://127.0.0.1:{ops}").parse()?))?;
        eventually("the agent to be ready", SOON, async || {
            Ok(health.request_text(Request::get("/readyz").body(Vec::new())?).await.ok())
        })
        .await?;
        Ok(Self { process, control })
    }

    /// Somebody who calls the control port with the token of an account.
    async fn caller(&self, client: &Client, account: &str) -> Result<Client> {
        let mut config = Config::new(format!("http://127.0.0.1:{}", self.control).parse()?);
        let token: String = token(client, account, Some(names::AUDIENCE)).await?;
        config.auth_info.token = Some(token.into());
        Ok(Client::try_from(config)?)
    }

    /// As the kubelet ends it.
    async fn end_in_order(&mut self) -> Result<()> {
        let id = self.process.id().context("it still runs")?;
        ensure!(Command::new("kill").args(["-TERM", &id.to_string()]).status().await?.success());
        let status = tokio::time::timeout(Duration::from_secs(15), self.process.wait()).await??;
        ensure!(status.success(), "{status}");
        Ok(())
    }
}
