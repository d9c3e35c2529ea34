//! Objects as the real API server writes them, in both encodings: read to the same values.

use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use http::header::{ACCEPT, ACCEPT_ENCODING, CONTENT_TYPE};
use http::{Method, Request};
use http_body_util::BodyExt;
use kube::Client;
use kube::client::Body;
use rotate_agent::cache::decode::{self, Encoded, protobuf};
use serde_json::{Value, json};

use crate::harness::ControlPlane;
use crate::harness::nodes::FakeNode;
use crate::harness::wait::eventually;
use crate::harness::workloads;

const SOON: Duration = Duration::from_secs(30);
const NAMESPACE: &str = "encodings";
const NODE: &str = "encodings-1";
/// For Pods whose owners do not exist: the garbage collector deletes those at any moment, and they have to be there to be read.
/// Of Pods on nodes kwok takes it away.
const FINALIZER: &str = "kubectl-rotate.dev/test";
/// A directory: where it is set, what the server wrote is kept there, for the unit tests of the decoders.
const KEEP: &str = "ROTATE_KEEP_OBJECTS";

pub(crate) async fn both_encodings_are_read_to_the_same_values(plane: &ControlPlane) -> Result<()> {
    let client = plane.client().await?;
    workloads::namespace(&client, NAMESPACE).await?;
    FakeNode::new(NODE).allocatable("nvidia.com/gpu", "4").create_ready(&client).await?;
    let node = format!("/api/v1/nodes/{NODE}");
    create(&client, "/apis/node.k8s.io/v1/runtimeclasses", &runtime_class()).await?;

    let pods = format!("/api/v1/namespaces/{NAMESPACE}/pods");
    for (name, metadata, spec, status) in objects() {
        let mut object = json!({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec});
        object["metadata"]["name"] = name.into();
        create(&client, &pods, &object).await.with_context(|| format!("create {name}"))?;
        if !status.is_null() {
            let path = format!("{pods}/{name}/status");
            patch(&client, &path, &json!({ "status": status })).await.with_context(|| format!("status of {name}"))?;
        }
        let read = compare_pod(&client, &format!("{pods}/{name}"), name).await?;
        ensure!(read, "{name} is read alike");
    }
    // It has a finalizer: it stays, with a deletion time.
    send(&client, Method::DELETE, &format!("{pods}/leaving"), "application/json", b"").await?;
    ensure!(compare_pod(&client, &format!("{pods}/leaving"), "leaving").await?, "a Pod that shuts down is read alike");

    let budgets = format!("/apis/policy/v1/namespaces/{NAMESPACE}/poddisruptionbudgets");
    for (name, spec) in budget_specs() {
        let object = json!({"metadata": {"name": name}, "spec": spec});
        create(&client, &budgets, &object).await.with_context(|| format!("create {name}"))?;
        let (text, message) = both(&client, &format!("{budgets}/{name}"), name).await?;
        let (one, other) = (decode::pdb(&text)?, decode::pdb(Encoded::Protobuf(&message))?);
        // Its controller may have counted between the two requests.
        ensure!(
            one.selector == other.selector && one.limit == other.limit && one.uid == other.uid,
            "{one:?} {other:?}"
        );
        ensure!(one.unhealthy_always == other.unhealthy_always, "{one:?} {other:?}");
    }

    lists_and_refusals(&client, &pods).await?;

    // Last of all: taints end the Pods that do not tolerate them.
    let taints =
        json!([{"key": "dedicated", "value": "x", "effect": "NoExecute"}, {"key": "k", "effect": "PreferNoSchedule"}]);
    patch(
        &client,
        &node,
        &json!({"spec": {"taints": taints, "unschedulable": true},
        "metadata": {"annotations": {"kubectl-rotate.dev/cordoned-by": "somebody", "other": "x"}}}),
    )
    .await?;
    // Controllers add to what is there between the two requests.
    let read = eventually("the node to rest", SOON, async || {
        let (text, message) = both(&client, &node, "node").await?;
        let (one, other) = (decode::node(&text)?, decode::node(Encoded::Protobuf(&message))?);
        Ok((one == other).then_some(one))
    });
    let one = read.await?;
    ensure!(one.taints.len() >= 2 && one.allocatable.other.contains_key("nvidia.com/gpu") && one.max_pods > 0);
    Ok(())
}

/// Reads a Pod both ways, until both answers are of one resourceVersion.
async fn compare_pod(client: &Client, path: &str, name: &str) -> Result<bool> {
    for _ in 0..20 {
        let (text, message) = both(client, path, name).await?;
        let (one, other) = (decode::pod(&text)?, decode::pod(Encoded::Protobuf(&message))?);
        if one.revision != other.revision {
            continue;
        }
        ensure!(one == other, "{name} as JSON {one:#?}, as protobuf {other:#?}");
        let identities = (decode::identity(&text)?, decode::identity(Encoded::Protobuf(&message))?);
        ensure!(identities.0.path() == identities.1.path() && identities.0.revision == identities.1.revision);
        ensure!(decode::fragment(&text).1 == decode::fragment(Encoded::Protobuf(&message)).1);
        for length in 0..message.len() {
            // Whatever is cut off is refused, or is missing at its end; nothing is read that is not there.
            if let Ok(part) = decode::pod(Encoded::Protobuf(&message[..length])) {
                ensure!(part.uid == one.uid);
            }
        }
        return Ok(true);
    }
    bail!("{name} never rests")
}

async fn lists_and_refusals(client: &Client, pods: &str) -> Result<()> {
    let bytes = protobuf_of(client, &format!("{pods}?limit=2")).await?;
    let envelope = protobuf::envelope(&bytes)?;
    ensure!(envelope.kind == "PodList" && envelope.api_version == "v1", "{} {}", envelope.api_version, envelope.kind);
    let list = protobuf::list(envelope.message)?;
    ensure!(list.items.len() == 2 && !list.next.is_empty() && !list.revision.is_empty() && list.shard.is_none());
    for item in list.items {
        decode::pod(Encoded::Protobuf(item))?;
    }
    let refused = protobuf_of(client, &format!("{pods}/nobody")).await?;
    let envelope = protobuf::envelope(&refused)?;
    ensure!(envelope.kind == "Status");
    let status = protobuf::status(envelope.message)?;
    ensure!(status.code == 404 && status.reason == "NotFound" && status.message.contains("nobody"), "{status:?}");
    Ok(())
}

/// One object in both encodings: its JSON text, its message.
async fn both(client: &Client, path: &str, name: &str) -> Result<(String, Vec<u8>)> {
    let text = String::from_utf8(send(client, Method::GET, path, "application/json", b"").await?)?;
    ensure!(!text.starts_with(r#"{"kind":"Status""#), "{name} cannot be read: {text}");
    let bytes = protobuf_of(client, path).await?;
    if let Ok(directory) = std::env::var(KEEP) {
        std::fs::write(Path::new(&directory).join(format!("{name}.json")), &text)?;
        std::fs::write(Path::new(&directory).join(format!("{name}.pb")), &bytes)?;
    }
    let message = protobuf::envelope(&bytes)?.message.to_vec();
    Ok((text, message))
}

async fn protobuf_of(client: &Client, path: &str) -> Result<Vec<u8>> {
    send(client, Method::GET, path, "application/vnd.kubernetes.protobuf", b"").await
}

async fn create(client: &Client, path: &str, object: &Value) -> Result<()> {
    let answer = send(client, Method::POST, path, "application/json", object.to_string().as_bytes()).await?;
    let answer: Value = serde_json::from_slice(&answer)?;
    ensure!(answer["kind"] != "Status", "{answer}");
    Ok(())
}

async fn patch(client: &Client, path: &str, change: &Value) -> Result<()> {
    let answer = send(client, Method::PATCH, path, "application/json", change.to_string().as_bytes()).await?;
    let answer: Value = serde_json::from_slice(&answer)?;
    ensure!(answer["kind"] != "Status", "{answer}");
    Ok(())
}

/// The body of the answer, whatever it says.
async fn send(client: &Client, method: Method, path: &str, accept: &str, body: &[u8]) -> Result<Vec<u8>> {
    let content = if method == Method::PATCH { "application/merge-patch+json" } else { "application/json" };
    let request = Request::builder()
        .method(method)
        .uri(path)
        .header(ACCEPT, accept)
        .header(ACCEPT_ENCODING, "identity")
        .header(CONTENT_TYPE, content)
        .body(Body::from(body.to_vec()))?;
    Ok(client.send(request).await?.into_body().collect().await?.to_bytes().to_vec())
}

fn runtime_class() -> Value {
    json!({"metadata": {"name": "heavy"}, "handler": "heavy", "overhead": {"podFixed": {"cpu": "50m", "memory": "32Mi"}}})
}

fn budget_specs() -> Vec<(&'static str, Value)> {
    let selector = json!({"matchLabels": {"app": "cart"}, "matchExpressions": [
        {"key": "tier", "operator": "NotIn", "values": ["b", "a"]}, {"key": "old", "operator": "DoesNotExist"}]});
    vec![
        (
            "at-least-half",
            json!({"minAvailable": "50%", "selector": selector, "unhealthyPodEvictionPolicy": "AlwaysAllow"}),
        ),
        ("one-at-most", json!({"maxUnavailable": 1, "selector": {}})),
        ("none", json!({"maxUnavailable": 0})),
    ]
}

fn container(name: &str, requests: Value) -> Value {
    json!({"name": name, "image": "registry.example/app:1", "resources": {"requests": requests}})
}

/// Name, metadata, spec and, where the server is not to decide it, status.
fn objects() -> Vec<(&'static str, Value, Value, Value)> {
    let plain = json!({"containers": [container("c", json!({}))], "nodeName": NODE});
    let gate = json!([{"name": "example.com/wait"}]);
    vec![
        ("plain", json!({}), plain, Value::Null),
        (
            "leaving",
            json!({"finalizers": [FINALIZER], "ownerReferences": [
                {"apiVersion": "v1", "kind": "ConfigMap", "name": "other", "uid": "11111111-0000-0000-0000-000000000000"},
                {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "cart-7d9c", "controller": true,
                 "uid": "4f1c2a7e-0000-4000-8000-000000000001"}]}),
            json!({"containers": [container("c", json!({}))], "schedulingGates": gate}),
            Value::Null,
        ),
        ("rich", rich_metadata(), rich_spec(), Value::Null),
        (
            "constrained",
            json!({"labels": {"app": "cart", "pod-template-hash": "7d9c"}, "finalizers": [FINALIZER], "ownerReferences": [
                {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "cart", "controller": true,
                 "uid": "4f1c2a7e-0000-4000-8000-000000000002"}]}),
            constrained_spec(&gate),
            Value::Null,
        ),
        (
            "resizing",
            json!({}),
            json!({"schedulingGates": gate, "containers": [
                container("a", json!({"cpu": "500m", "memory": "64Mi"})), container("b", json!({"cpu": "1"}))],
                "initContainers": [
                    {"name": "s", "image": "i", "restartPolicy": "Always", "resources": {"requests": {"cpu": "100m"}}},
                    {"name": "i", "image": "i", "resources": {"requests": {"cpu": "2", "ephemeral-storage": "1Gi"}}}]}),
            json!({"phase": "Pending", "nominatedNodeName": NODE,
                "conditions": [
                    {"type": "PodResizePending", "status": "True", "reason": "Infeasible", "message": "too large"},
                    {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/1 nodes"}],
                "containerStatuses": [
                    status_of("b", "c2", Some(("2", "3"))), status_of("a", "c1", Some(("750m", "600m")))],
                "initContainerStatuses": [status_of("s", "c3", Some(("300m", "200m"))), status_of("i", "c4", None)]}),
        ),
        (
            "whole-pod",
            json!({}),
            json!({"schedulingGates": gate, "containers": [container("c", json!({"cpu": "100m"}))],
                "resources": {"requests": {"cpu": "2", "memory": "1Gi"}}, "runtimeClassName": "heavy"}),
            Value::Null,
        ),
    ]
}

fn status_of(name: &str, id: &str, resources: Option<(&str, &str)>) -> Value {
    let mut status = json!({"name": name, "image": "i", "imageID": "", "containerID": format!("containerd://{id}"),
        "ready": true, "restartCount": 3, "state": {"running": {"startedAt": "2026-11-29T10:00:00Z"}}});
    if let Some((allocated, actual)) = resources {
        status["allocatedResources"] = json!({ "cpu": allocated });
        status["resources"] = json!({ "requests": { "cpu": actual } });
    }
    status
}

fn rich_metadata() -> Value {
    json!({
        "labels": {"app": "cart", "app.kubernetes.io/name": "cart", "tier": ""},
        "annotations": {
            "karpenter.sh/do-not-disrupt": "true", "cluster-autoscaler.kubernetes.io/safe-to-evict": "false",
            "quote": "a \"quoted\" text, a \\ and a \u{fc}", "long": "x".repeat(2000)},
    })
}

fn rich_spec() -> Value {
    json!({
        "nodeName": NODE, "hostNetwork": true, "priority": 0, "schedulerName": "own-scheduler",
        "preemptionPolicy": "PreemptLowerPriority",
        "containers": [
            {"name": "web", "image": "i", "ports": [{"containerPort": 8080, "protocol": "TCP"},
                {"containerPort": 9090, "hostPort": 9090, "hostIP": "10.0.0.1", "protocol": "UDP"}],
             "resources": {"requests": {"cpu": "250m", "memory": "128Mi", "ephemeral-storage": "1Gi"},
                "limits": {"cpu": "1", "memory": "256Mi", "nvidia.com/gpu": "1"}}},
            {"name": "log", "image": "i", "resources": {"requests": {"cpu": "0.1", "memory": "1e6"}}}],
        "volumes": [
            {"name": "data", "persistentVolumeClaim": {"claimName": "data-cart-0"}},
            {"name": "scratch", "ephemeral": {"volumeClaimTemplate": {"spec": {
                "accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}}}},
            {"name": "memory", "emptyDir": {"medium": "Memory"}}, {"name": "disk", "emptyDir": {}},
            {"name": "config", "configMap": {"name": "cart"}}],
        "tolerations": [
            {"operator": "Exists", "effect": "NoSchedule"}, {"key": "dedicated", "operator": "Equal", "value": "x"},
            {"key": "k", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 3600}],
    })
}

fn constrained_spec(gate: &Value) -> Value {
    let selector = json!({"matchLabels": {"app": "cart"}, "matchExpressions": [
        {"key": "tier", "operator": "In", "values": ["b", "a"]}, {"key": "old", "operator": "DoesNotExist"}]});
    let term = json!({"topologyKey": "kubernetes.io/hostname", "labelSelector": selector, "namespaces": ["b", "a"],
        "namespaceSelector": {"matchLabels": {"team": "x"}}, "matchLabelKeys": ["pod-template-hash"]});
    json!({
        "schedulingGates": gate, "containers": [{"name": "c", "image": "i", "resources": {"limits": {"nvidia.com/gpu": "2"}}}],
        "nodeSelector": {"pool": "web", "arch": "arm64"},
        "resourceClaims": [{"name": "gpu", "resourceClaimName": "one"}],
        "affinity": {
            "nodeAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [
                    {"matchExpressions": [{"key": "zone", "operator": "In", "values": ["b", "a"]},
                        {"key": "cores", "operator": "Gt", "values": ["4"]}],
                     "matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n1"]}]},
                    {"matchExpressions": [{"key": "spare", "operator": "Exists"}]}]},
                "preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 1, "preference":
                    {"matchExpressions": [{"key": "x", "operator": "Lt", "values": ["1"]}]}}]},
            "podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [
                {"topologyKey": "zone", "labelSelector": {}}]},
            "podAntiAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": [term, {"topologyKey": "zone"}],
                "preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 1, "podAffinityTerm": {"topologyKey": "z"}}]}},
        "topologySpreadConstraints": [
            {"topologyKey": "zone", "maxSkew": 2, "whenUnsatisfiable": "DoNotSchedule", "labelSelector": selector,
             "minDomains": 3, "nodeAffinityPolicy": "Ignore", "nodeTaintsPolicy": "Honor",
             "matchLabelKeys": ["pod-template-hash"]},
            {"topologyKey": "host", "maxSkew": 1, "whenUnsatisfiable": "ScheduleAnyway"},
            {"topologyKey": "rack", "maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule"}],
        "tolerations": [{"key": "gpu", "operator": "Exists"}],
    })
}
