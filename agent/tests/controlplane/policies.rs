//! The admission policies of the manifests: what each forbids is tried, as the agent with every right there is, and as somebody
//! who may edit both namespaces.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use http::{Method, Request};
use kube::Client;
use rotate_shared::names;
use serde_json::{Value, json};

use crate::harness::ControlPlane;
use crate::harness::manifests::{self, IMAGE};
use crate::harness::wait::eventually;

const SOON: Duration = Duration::from_secs(60);
const MAPS: &str = "/api/v1/namespaces/kubectl-rotate/configmaps";
const LEASE: &str = "/apis/coordination.k8s.io/v1/namespaces/kubectl-rotate/leases/rotate-agent";
const ROOM: &str = "/api/v1/namespaces/kubectl-rotate-room/pods";

/// Somebody who asks, and how that is told.
struct Caller {
    client: Client,
    who: &'static str,
}

/// While a rotation is live, not even who may do everything deletes its record.
pub(crate) async fn live_records_stay(client: &Client, id: &str) -> Result<()> {
    let admin = Caller { client: client.clone(), who: "admin" };
    let record = format!("{MAPS}/rotation-{id}");
    admin.refused("rotate-records", "this rotation is live", Method::DELETE, &record, &Value::Null).await?;
    admin.allowed(Method::GET, &record, &Value::Null).await.map(drop)
}

/// All of them, once rotations have gone through them.
pub(crate) async fn hold(plane: &ControlPlane, client: &Client) -> Result<()> {
    let token = manifests::token(client, names::AGENT, None).await?;
    let agent = Caller { client: client_of(plane, names::AGENT, &token).await?, who: "the agent" };
    let account = json!({ "apiVersion": "v1", "kind": "ServiceAccount", "metadata": { "name": "editor" } });
    let admin = Caller { client: client.clone(), who: "admin" };
    admin.allowed(Method::POST, "/api/v1/namespaces/shop/serviceaccounts", &account).await?;
    let path = "/api/v1/namespaces/shop/serviceaccounts/editor/token";
    let token = json!({ "apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {} });
    let token = admin.allowed(Method::POST, path, &token).await?;
    let token = token["status"]["token"].as_str().context("a token")?.to_owned();
    let editor = Caller { client: client_of(plane, "editor", &token).await?, who: "an editor" };
    for namespace in [names::NAMESPACE, names::ROOM_NAMESPACE] {
        let path = format!("/apis/rbac.authorization.k8s.io/v1/namespaces/{namespace}/rolebindings");
        admin.allowed(Method::POST, &path, &binding("RoleBinding", "edit", ("shop", "editor"))).await?;
    }
    let other = json!({ "apiVersion": "v1", "kind": "ServiceAccount", "metadata": { "name": "other" } });
    admin.allowed(Method::POST, "/api/v1/namespaces/kubectl-rotate-room/serviceaccounts", &other).await?;
    // So that it is the policies that refuse.
    let everything = binding("ClusterRoleBinding", "cluster-admin", (names::NAMESPACE, names::AGENT));
    admin.allowed(Method::POST, "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings", &everything).await?;
    eventually("the agent to be allowed everything", SOON, async || {
        Ok(agent.ask(Method::GET, "/api/v1/secrets", &Value::Null).await.ok())
    })
    .await?;

    nodes(&agent).await.context("nodes")?;
    new_placeholders(&agent, &editor).await.context("new placeholders")?;
    placeholders_that_are_there(&agent, &editor).await.context("placeholders that are there")?;
    records(&admin, &editor).await.context("records")
}

/// What the agent may change of a node, and what not. Nothing is changed: admission sees dry runs as well.
async fn nodes(agent: &Caller) -> Result<()> {
    let (node, status) = ("/api/v1/nodes/two?dryRun=All", "/api/v1/nodes/two/status?dryRun=All");
    let taint = |key: &str| json!({ "spec": { "taints": [{ "key": key, "effect": "PreferNoSchedule" }] } });
    for allowed in [
        json!({ "spec": { "unschedulable": true } }),
        json!({ "metadata": { "labels": { names::ROTATION: "abc" } } }),
        json!({ "metadata": { "labels": { "node.kubernetes.io/exclude-from-external-load-balancers": "" } } }),
        json!({ "metadata": { "annotations": { names::CORDONED_BY: "abc", names::PROTECTED_BY: "abc:" } } }),
        json!({ "metadata": { "annotations": { names::KARPENTER_DO_NOT_DISRUPT: "true", names::SCALE_DOWN_DISABLED: "true" } } }),
        taint("kubectl-rotate.dev/next"),
    ] {
        agent.allowed(Method::PATCH, node, &allowed).await?;
    }
    let owner = json!({ "apiVersion": "v1", "kind": "Node", "name": "one", "uid": "1" });
    for (refused, why) in [
        (json!({ "metadata": { "labels": { "pool": "mine" } } }), "labels"),
        (json!({ "metadata": { "labels": { "topology.kubernetes.io/zone": "b" } } }), "labels"),
        (json!({ "metadata": { "labels": { "kubernetes.io/arch": null } } }), "labels"),
        (json!({ "metadata": { "annotations": { "kubectl-rotate.dev": "abc" } } }), "annotations"),
        (json!({ "metadata": { "annotations": { "cluster.x-k8s.io/machine": "abc" } } }), "annotations"),
        (json!({ "metadata": { "annotations": { "kwok.x-k8s.io/node": null } } }), "annotations"),
        (json!({ "metadata": { "finalizers": ["example.com/mine"] } }), "finalizers"),
        (json!({ "metadata": { "ownerReferences": [owner] } }), "owners"),
        (json!({ "spec": { "podCIDR": "10.0.0.0/24", "podCIDRs": ["10.0.0.0/24"] } }), "spec"),
        (taint("node.kubernetes.io/out-of-service"), "taints"),
    ] {
        agent.refused("rotate-nodes", why, Method::PATCH, node, &refused).await?;
    }
    let capacity = json!({ "status": { "capacity": { "cpu": "100" } } });
    agent.refused("rotate-nodes", "status", Method::PATCH, status, &capacity).await?;
    let new = json!({ "apiVersion": "v1", "kind": "Node", "metadata": { "name": "mine" } });
    agent.refused("rotate-nodes", "makes no nodes", Method::POST, "/api/v1/nodes?dryRun=All", &new).await
}

/// Only the agent makes placeholders, and only such.
async fn new_placeholders(agent: &Caller, editor: &Caller) -> Result<()> {
    let create = format!("{ROOM}?dryRun=All");
    agent.allowed(Method::POST, &create, &placeholder("p", &[])).await?;
    // Agents of two versions, while one is upgraded to the other; and the image of an agent inside kubectl.
    let repository = IMAGE.rsplit_once(':').context("a tag")?.0;
    for image in [
        format!("{repository}:0.0.9"),
        format!("{repository}:0.2.0@sha256:{}", "0".repeat(64)),
        repository.to_owned(),
        "registry.k8s.io/pause:3.10".to_owned(),
    ] {
        let image = ("/spec/containers/0/image", json!(image));
        agent.allowed(Method::POST, &create, &placeholder("p", &[image])).await?;
    }
    // What a cluster's own admission may set is no privilege.
    let level = ("/spec/securityContext/seLinuxOptions", json!({ "level": "s0:c1,c2", "type": "container_t" }));
    let profile = ("/spec/securityContext/appArmorProfile", json!({ "type": "RuntimeDefault" }));
    agent.allowed(Method::POST, &create, &placeholder("p", &[level, profile])).await?;
    let only = "only the agent creates Pods here";
    editor.refused("rotate-room", only, Method::POST, &create, &placeholder("p", &[])).await?;

    let other = json!({ "name": "other", "image": IMAGE, "args": ["pause"] });
    let probe = json!({ "exec": { "command": ["sh"] } });
    let env = json!([{ "name": "A", "value": "b" }]);
    let disk = json!([{ "name": "disk", "hostPath": { "path": "/" } }]);
    let container = |field: &str| format!("/spec/containers/0/{field}");
    let secured = |field: &str| container(&format!("securityContext/{field}"));
    let pod = |field: &str| format!("/spec/{field}");
    for (at, value, why) in [
        (container("image"), json!("example.com/mine:1"), "is of the image"),
        (container("image"), json!("registry.k8s.io/pause:3.10@sha256:0"), "is of the image"),
        (container("image"), json!(format!("{repository}-mine:0.1.0")), "is of the image"),
        (container("image"), json!(format!("{repository}/mine:0.1.0")), "is of the image"),
        (container("image"), json!(format!("{IMAGE}/mine")), "is of the image"),
        (container("image"), json!(format!("example.com/{IMAGE}")), "is of the image"),
        (container("image"), json!(format!("example.com/mine@{IMAGE}")), "is of the image"),
        (container("command"), json!(["sh"]), "pauses"),
        (container("args"), json!(["pause", "--help"]), "pauses"),
        (container("env"), env, "pauses"),
        (container("envFrom"), json!([{ "configMapRef": { "name": "a" } }]), "pauses"),
        (container("lifecycle"), json!({ "postStart": probe }), "pauses"),
        (container("livenessProbe"), probe.clone(), "pauses"),
        (container("readinessProbe"), probe.clone(), "pauses"),
        (container("startupProbe"), probe.clone(), "pauses"),
        (pod("containers/-"), other.clone(), "one container"),
        (pod("initContainers"), json!([other]), "one container"),
        (pod("volumes"), disk, "no volumes"),
        (pod("resourceClaims"), json!([{ "name": "gpu", "resourceClaimName": "gpu" }]), "claims no devices"),
        (pod("hostNetwork"), json!(true), "host's namespaces"),
        (pod("hostPID"), json!(true), "host's namespaces"),
        (pod("hostIPC"), json!(true), "host's namespaces"),
        (pod("automountServiceAccountToken"), json!(true), "token"),
        (pod("serviceAccountName"), json!("other"), "token"),
        (container("securityContext"), json!({ "privileged": true }), "no privileges"),
        (container("securityContext"), json!({}), "no privileges"),
        (secured("allowPrivilegeEscalation"), json!(true), "no privileges"),
        (secured("capabilities/add"), json!(["NET_ADMIN"]), "no privileges"),
        (secured("capabilities/drop"), json!(["KILL"]), "no privileges"),
        (secured("runAsUser"), json!(0), "no privileges"),
        (pod("securityContext/runAsUser"), json!(0), "no privileges"),
        (secured("runAsNonRoot"), json!(false), "no privileges"),
        (secured("windowsOptions"), json!({ "runAsUserName": "mine" }), "no privileges"),
        (pod("securityContext/windowsOptions"), json!({ "runAsUserName": "mine" }), "no privileges"),
        (secured("appArmorProfile"), json!({ "type": "Unconfined" }), "no privileges"),
        (pod("securityContext/appArmorProfile"), json!({ "type": "Unconfined" }), "no privileges"),
        (secured("seLinuxOptions"), json!({ "type": "spc_t" }), "no privileges"),
        (pod("securityContext/seLinuxOptions"), json!({ "type": "spc_t" }), "no privileges"),
        (secured("seLinuxOptions"), json!({ "user": "system_u" }), "no privileges"),
        (pod("securityContext/seLinuxOptions"), json!({ "role": "sysadm_r" }), "no privileges"),
        (secured("seccompProfile"), json!({ "type": "Unconfined" }), "no privileges"),
        (pod("securityContext/runAsNonRoot"), json!(false), "no privileges"),
        (pod("securityContext/sysctls"), json!([{ "name": "kernel.msgmax", "value": "1" }]), "no privileges"),
        (pod("priorityClassName"), json!("system-node-critical"), "priority"),
        (pod("nodeName"), json!("two"), "the scheduler finds its node"),
    ] {
        let pod = placeholder("p", &[(&*at, value)]);
        agent.refused("rotate-room", why, Method::POST, &create, &pod).await.context(at)?;
    }
    // Kubernetes lets this into a Pod with users of its own only.
    let unmasked = [(&*pod("hostUsers"), json!(false)), (&*secured("procMount"), json!("Unmasked"))];
    agent.refused("rotate-room", "no privileges", Method::POST, &create, &placeholder("p", &unmasked)).await
}

/// Nobody makes something else of a placeholder, or gets into it.
async fn placeholders_that_are_there(agent: &Caller, editor: &Caller) -> Result<()> {
    agent.allowed(Method::POST, ROOM, &placeholder("there", &[])).await?;
    let there = format!("{ROOM}/there");
    let image = json!({ "spec": { "containers": [{ "name": "room", "image": "example.com/mine:1" }] } });
    editor.refused("rotate-room", "is of the image", Method::PATCH, &there, &image).await?;
    let debug = json!({ "spec": { "ephemeralContainers": [{ "name": "debug", "image": "example.com/mine:1" }] } });
    let path = format!("{there}/ephemeralcontainers");
    agent.refused("rotate-room-entry", "nothing is run", Method::PATCH, &path, &debug).await?;
    for way in ["exec?command=sh&stdout=true", "attach?stdout=true"] {
        for caller in [editor, agent] {
            let path = format!("{there}/{way}");
            caller.refused("rotate-room-entry", "nothing is run", Method::POST, &path, &Value::Null).await?;
        }
    }
    let label = json!({ "metadata": { "labels": { "seen": "yes" } } });
    editor.allowed(Method::PATCH, &there, &label).await?;
    agent.allowed(Method::DELETE, &there, &Value::Null).await.map(drop)
}

/// The records, the memory and the Lease are the agent's.
async fn records(admin: &Caller, editor: &Caller) -> Result<()> {
    let map = |name: &str, record: &str| json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": name }, "data": { "record": record } });
    let live = r#"{"phases":[{"phase":"Draining"}],"reason":"\"phase\":\"Succeeded\""}"#;
    let kept = admin.allowed(Method::GET, &format!("{MAPS}?labelSelector={}", names::ROTATION), &Value::Null).await?;
    let kept = kept["items"][0]["metadata"]["name"].as_str().context("a record was kept")?.to_owned();
    let (kept, change) = (format!("{MAPS}/{kept}"), json!({ "data": { "record": live } }));
    let only = "only the agent writes records";
    let policy = "rotate-records";
    editor.refused(policy, only, Method::POST, MAPS, &map("rotation-mine", live)).await?;
    let mut generated = map("", live);
    generated["metadata"] = json!({ "generateName": "rotation-" });
    editor.refused(policy, only, Method::POST, MAPS, &generated).await?;
    editor.refused(policy, only, Method::POST, MAPS, &map(names::GROUPS, live)).await?;
    editor.refused(policy, only, Method::PATCH, &kept, &change).await?;
    editor.refused(policy, only, Method::DELETE, &kept, &Value::Null).await?;
    editor.refused(policy, only, Method::DELETE, MAPS, &Value::Null).await?;
    let lead = json!({ "spec": { "holderIdentity": "mine" } });
    editor.refused(policy, only, Method::PATCH, LEASE, &lead).await?;
    editor.refused(policy, only, Method::DELETE, LEASE, &Value::Null).await?;
    editor.allowed(Method::POST, MAPS, &map("mine", live)).await?;
    editor.allowed(Method::DELETE, &format!("{MAPS}/mine"), &Value::Null).await?;

    // Who may be an agent, as `--embedded` is one.
    let role = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": { "name": "embedded" },
        "rules": [{ "apiGroups": [names::AUTHORIZATION_GROUP], "resources": ["agents"], "verbs": ["use"] }],
    });
    admin.allowed(Method::POST, "/apis/rbac.authorization.k8s.io/v1/clusterroles", &role).await?;
    let grant = binding("ClusterRoleBinding", "embedded", ("shop", "editor"));
    admin.allowed(Method::POST, "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings", &grant).await?;
    eventually("the editor to be let in", SOON, async || {
        Ok(editor.ask(Method::POST, MAPS, &map("rotation-mine", live)).await.ok())
    })
    .await?;
    let mine = format!("{MAPS}/rotation-mine");
    editor.refused(policy, "this rotation is live", Method::DELETE, &mine, &Value::Null).await?;
    editor.allowed(Method::PATCH, LEASE, &lead).await?;
    editor.allowed(Method::DELETE, &kept, &Value::Null).await?;

    // A record that is live goes with its namespace.
    let namespace = "/api/v1/namespaces/kubectl-rotate";
    admin.allowed(Method::DELETE, namespace, &Value::Null).await?;
    eventually("the namespace to go", SOON, async || {
        let gone = admin.ask(Method::GET, namespace, &Value::Null).await;
        Ok(matches!(gone, Err(kube::Error::Api(status)) if status.code == 404).then_some(()))
    })
    .await
}

/// A placeholder as the agent makes it, with changes at these places.
fn placeholder(name: &str, changes: &[(&str, Value)]) -> Value {
    let mut pod = json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": { "name": name },
        "spec": {
            "activeDeadlineSeconds": 600,
            "automountServiceAccountToken": false,
            "containers": [{
                "name": "room", "image": IMAGE, "args": ["pause"],
                "ports": [{ "containerPort": 8080, "hostPort": 8080 }],
                "securityContext": {
                    "allowPrivilegeEscalation": false, "capabilities": { "drop": ["ALL"] },
                    "readOnlyRootFilesystem": true,
                },
            }],
            "priorityClassName": names::PRIORITY_CLASS,
            "securityContext": { "runAsNonRoot": true, "runAsUser": 65532, "seccompProfile": { "type": "RuntimeDefault" } },
        },
    });
    for (at, value) in changes {
        let (parent, field) = at.rsplit_once('/').expect("a path");
        match pod.pointer_mut(parent).expect("it is there") {
            Value::Array(items) => items.push(value.clone()),
            object => object[field] = value.clone(),
        }
    }
    pod
}

fn binding(kind: &str, role: &str, (namespace, account): (&str, &str)) -> Value {
    json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": kind, "metadata": { "name": format!("{account}-{role}") },
        "roleRef": { "apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role },
        "subjects": [{ "kind": "ServiceAccount", "name": account, "namespace": namespace }],
    })
}

async fn client_of(plane: &ControlPlane, name: &str, token: &str) -> Result<Client> {
    let kubeconfig = kube::config::Kubeconfig::read_from(plane.kubeconfig_with_token(name, token)?)?;
    let mut config =
        kube::Config::from_custom_kubeconfig(kubeconfig, &kube::config::KubeConfigOptions::default()).await?;
    config.default_retry = false;
    Ok(Client::try_from(config)?)
}

// === impl Caller ===

impl Caller {
    async fn ask(&self, method: Method, path: &str, body: &Value) -> kube::Result<Value> {
        let kind = match (&method, path.starts_with(ROOM)) {
            // Lists of containers are merged by name.
            (&Method::PATCH, true) => "application/strategic-merge-patch+json",
            (&Method::PATCH, false) => "application/merge-patch+json",
            _ => "application/json",
        };
        let body = if body.is_null() { Vec::new() } else { body.to_string().into_bytes() };
        let request = Request::builder().method(method).uri(path).header("content-type", kind).body(body);
        self.client.request(request.map_err(kube::Error::HttpError)?).await
    }

    async fn allowed(&self, method: Method, path: &str, body: &Value) -> Result<Value> {
        let answer = self.ask(method.clone(), path, body).await;
        answer.with_context(|| format!("{} is refused {method} {path} {body}", self.who))
    }

    /// It is this policy that refuses, for this reason.
    async fn refused(&self, policy: &str, why: &str, method: Method, path: &str, body: &Value) -> Result<()> {
        let answer = self.ask(method.clone(), path, body).await;
        let asked = format!("{}: {method} {path} {body}", self.who);
        let Err(kube::Error::Api(status)) = answer else { anyhow::bail!("{asked} is not refused: {answer:?}") };
        let denied = format!("ValidatingAdmissionPolicy '{policy}'");
        ensure!(status.message.contains(&denied) && status.message.contains(why), "{asked}: {}", status.message);
        Ok(())
    }
}
