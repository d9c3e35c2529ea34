//! The two clusters answer and decide alike, word for word: what the agent reads out of an answer is the same on both.

use anyhow::{Context, Result, ensure};
use http::{Method, Request};
use http_body_util::BodyExt;
use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use kube::client::Body;
use serde_json::{Value, json};

use super::{Case, cases};
use crate::harness::nodes::FakeNode;
use crate::harness::wait::eventually;
use crate::world::{SHOP, SOON, World};

pub(super) fn cases() -> Vec<Case> {
    cases![the_api_answers_in_the_same_words, evictions_are_answered_in_the_same_words, the_scheduler_says_the_same]
}

const MERGE: &str = "application/merge-patch+json";
const JSON: &str = "application/json";
const MAPS: &str = "/api/v1/namespaces/shop/configmaps";

/// One raw request: the code and body of its answer.
async fn ask(world: &World, method: Method, path: &str, kind: &str, body: &Value) -> Result<(u16, Value)> {
    let body = if body.is_null() { Vec::new() } else { body.to_string().into_bytes() };
    let request = Request::builder().method(method).uri(path).header("content-type", kind).body(Body::from(body))?;
    let response = world.client.send(request).await?;
    let code = response.status().as_u16();
    let bytes = response.into_body().collect().await?.to_bytes();
    Ok((code, serde_json::from_slice(&bytes).context("an answer in JSON")?))
}

/// Asks, and compares reason and message.
async fn expect(
    world: &World,
    (method, path, kind, body): (Method, &str, &str, Value),
    (code, reason, message): (u16, &str, &str),
) -> Result<Value> {
    let what = format!("{method} {path} {body}");
    let (found, status) = ask(world, method, path, kind, &body).await?;
    let text = |key: &str| status[key].as_str().unwrap_or_default();
    ensure!((found, text("reason"), text("message")) == (code, reason, message), "{what}: {found} {status}");
    Ok(status)
}

fn map(name: &str) -> Value {
    json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": name }, "data": { "a": "1" } })
}

fn pod(name: &str, cpu: &str, spec: Value) -> Value {
    let container = json!({
        "name": "app", "image": "registry.example/app:1", "resources": { "requests": { "cpu": cpu, "memory": "64Mi" } },
    });
    let mut pod = json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": { "name": name, "namespace": SHOP, "labels": { "app": name } },
        "spec": spec,
    });
    pod["spec"]["containers"] = json!([container]);
    pod
}

async fn the_api_answers_in_the_same_words(world: &World) -> Result<()> {
    let one = format!("{MAPS}/m");
    ensure!(ask(world, Method::POST, MAPS, JSON, &map("m")).await?.0 == 201);
    let exists = (409, "AlreadyExists", r#"configmaps "m" already exists"#);
    expect(world, (Method::POST, MAPS, JSON, map("m")), exists).await?;
    let none = (404, "NotFound", r#"replicasets.apps "x" not found"#);
    let set = "/apis/apps/v1/namespaces/shop/replicasets/x";
    expect(world, (Method::GET, set, JSON, Value::Null), none).await?;
    let none = (404, "NotFound", "the server could not find the requested resource");
    expect(world, (Method::GET, "/api/v1/things", JSON, Value::Null), none).await?;
    let none = (404, "NotFound", r#"namespaces "nonesuch" not found"#);
    expect(world, (Method::POST, "/api/v1/namespaces/nonesuch/configmaps", JSON, map("m")), none).await?;

    let stale = json!({ "metadata": { "resourceVersion": "1" }, "data": { "b": "2" } });
    let words = "Operation cannot be fulfilled on configmaps \"m\": the object has been modified; \
                 please apply your changes to the latest version and try again";
    expect(world, (Method::PATCH, &one, MERGE, stale), (409, "Conflict", words)).await?;
    // Not a conflict, as a UID precondition of a deletion is.
    let other = json!({ "metadata": { "uid": "zzz" }, "data": { "b": "2" } });
    let words = r#"ConfigMap "m" is invalid: metadata.uid: Invalid value: "zzz": field is immutable"#;
    expect(world, (Method::PATCH, &one, MERGE, other), (422, "Invalid", words)).await?;
    let (code, patched) = ask(world, Method::PATCH, &one, MERGE, &json!({ "data": { "a": null, "b": "2" } })).await?;
    ensure!((code, &patched["data"]) == (200, &json!({ "b": "2" })), "{patched}");

    let (code, refused) = ask(world, Method::DELETE, &one, JSON, &json!({ "preconditions": { "uid": "zzz" } })).await?;
    let words = refused["message"].as_str().unwrap_or_default();
    let start = r#"Operation cannot be fulfilled on ConfigMap "m": the UID in the precondition (zzz) does not match"#;
    ensure!(code == 409 && words.starts_with(start), "{refused}");
    let (code, dry) = ask(world, Method::DELETE, &format!("{one}?dryRun=All"), JSON, &Value::Null).await?;
    ensure!(code == 200 && dry["status"] == "Success", "{dry}");
    ensure!(ask(world, Method::GET, &one, JSON, &Value::Null).await?.0 == 200, "a dry run deleted it");

    let mut classless = pod("classless", "1", json!({ "priorityClassName": "nobody" }));
    let words = r#"pods "classless" is forbidden: no PriorityClass with name nobody was found"#;
    let pods = "/api/v1/namespaces/shop/pods";
    expect(world, (Method::POST, pods, JSON, classless.clone()), (403, "Forbidden", words)).await?;
    classless["spec"]["priorityClassName"] = Value::Null;
    classless["spec"]["containers"][0]["resources"]["requests"]["nvidia.com/gpu"] = json!("2");
    let words = "Pod \"classless\" is invalid: spec.containers[0].resources.limits: Required value: \
                 Limit must be set for non overcommitable resources";
    expect(world, (Method::POST, pods, JSON, classless), (422, "Invalid", words)).await?;
    Ok(())
}

async fn evictions_are_answered_in_the_same_words(world: &World) -> Result<()> {
    world.nodes(1, "4").await?;
    let held = world.deployment("held", 2, "100m").await?;
    let twice = world.deployment("twice", 1, "100m").await?;
    let free = world.deployment("free", 1, "100m").await?;
    let budgets = "/apis/policy/v1/namespaces/shop/poddisruptionbudgets";
    for (name, app, least) in [("a", "held", 2), ("b", "twice", 0), ("c", "twice", 0)] {
        let budget = json!({
            "apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": { "name": name },
            "spec": { "minAvailable": least, "selector": { "matchLabels": { "app": app } } },
        });
        ensure!(ask(world, Method::POST, budgets, JSON, &budget).await?.0 == 201);
    }
    for name in ["a", "b", "c"] {
        let seen = async || {
            let (_, budget) = ask(world, Method::GET, &format!("{budgets}/{name}"), JSON, &Value::Null).await?;
            Ok((budget["status"]["observedGeneration"] == 1).then_some(()))
        };
        eventually("the budget to be looked at", SOON, seen).await?;
    }
    let evict = async |pod: &Pod, options: Value| {
        let name = pod.metadata.name.as_deref().context("a Pod has a name")?;
        let eviction = json!({
            "apiVersion": "policy/v1", "kind": "Eviction", "metadata": { "name": name, "namespace": SHOP },
            "deleteOptions": options,
        });
        ask(world, Method::POST, &format!("/api/v1/namespaces/shop/pods/{name}/eviction"), JSON, &eviction).await
    };

    let (code, status) = evict(&held[0], json!({})).await?;
    let cause = json!([{
        "reason": "DisruptionBudget",
        "message": "The disruption budget a needs 2 healthy pods and has 2 currently",
    }]);
    ensure!(code == 429 && status["details"] == json!({ "causes": cause }), "{status}");
    ensure!(status["message"] == "Cannot evict pod as it would violate the pod's disruption budget.", "{status}");
    let (code, status) = evict(&twice[0], json!({})).await?;
    let words = "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support.";
    ensure!(code == 500 && status["message"] == words && status.get("reason").is_none(), "{status}");
    let (code, status) = evict(&free[0], json!({ "preconditions": { "uid": "zzz" } })).await?;
    ensure!(code == 409 && status["reason"] == "Conflict" && status["details"]["kind"] == "Pod", "{status}");
    let (code, status) = evict(&free[0], json!({ "dryRun": ["All"] })).await?;
    ensure!(code == 201 && status["status"] == "Success", "{status}");
    let (code, status) = evict(&free[0], json!({ "preconditions": { "uid": free[0].metadata.uid } })).await?;
    ensure!(code == 201 && status["status"] == "Success", "{status}");
    Ok(())
}

async fn the_scheduler_says_the_same(world: &World) -> Result<()> {
    let zone = "topology.kubernetes.io/zone";
    world.node(FakeNode::new("a1").zone("a").allocatable("cpu", "2")).await?;
    world.node(FakeNode::new("b1").zone("b").allocatable("cpu", "4")).await?;
    world.node(FakeNode::new("c1").zone("c").taint("team", "x", "NoSchedule")).await?;
    world.node(FakeNode::new("d1").zone("d")).await?;
    let cordon = json!({ "spec": { "unschedulable": true } });
    ensure!(ask(world, Method::PATCH, "/api/v1/nodes/d1", MERGE, &cordon).await?.0 == 200);
    let only_b = json!({ zone: "b" });
    let cases = [
        (pod("filler", "3500m", json!({ "nodeSelector": only_b })), ""),
        (
            pod("big", "8", json!({})),
            "0/4 nodes are available: 1 node(s) had untolerated taint(s), 1 node(s) were unschedulable, \
             2 Insufficient cpu. no new claims to deallocate, preemption: 0/4 nodes are available: \
             4 Preemption is not helpful for scheduling.",
        ),
        (
            pod("late", "1", json!({ "nodeSelector": only_b })),
            "0/4 nodes are available: 1 Insufficient cpu, 1 node(s) didn't match Pod's node affinity/selector, \
             1 node(s) had untolerated taint(s), 1 node(s) were unschedulable. no new claims to deallocate, \
             preemption: 0/4 nodes are available: 1 No preemption victims found for incoming pod, \
             3 Preemption is not helpful for scheduling.",
        ),
        (
            pod("nowhere", "1", json!({ "nodeSelector": { zone: "z" } })),
            "0/4 nodes are available: 1 node(s) had untolerated taint(s), 1 node(s) were unschedulable, \
             2 node(s) didn't match Pod's node affinity/selector. no new claims to deallocate, \
             preemption: 0/4 nodes are available: 4 Preemption is not helpful for scheduling.",
        ),
        (
            pod(
                "apart",
                "100m",
                json!({ "nodeSelector": only_b, "affinity": { "podAntiAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": [
                    { "topologyKey": zone, "labelSelector": { "matchLabels": { "app": "filler" } } },
                ],
            } } }),
            ),
            "0/4 nodes are available: 1 node(s) didn't match Pod's node affinity/selector, \
             1 node(s) didn't match pod anti-affinity rules, 1 node(s) had untolerated taint(s), \
             1 node(s) were unschedulable. no new claims to deallocate, preemption: 0/4 nodes are available: \
             1 No preemption victims found for incoming pod, 3 Preemption is not helpful for scheduling.",
        ),
        (
            pod(
                "claims",
                "1",
                json!({ "volumes": [
                { "name": "data", "persistentVolumeClaim": { "claimName": "none" } },
            ] }),
            ),
            r#"0/4 nodes are available: persistentvolumeclaim "none" not found. not found"#,
        ),
    ];
    let pods = Api::<Pod>::namespaced(world.client.clone(), SHOP);
    for (pod, message) in cases {
        ensure!(ask(world, Method::POST, "/api/v1/namespaces/shop/pods", JSON, &pod).await?.0 == 201);
        let name = pod["metadata"]["name"].as_str().context("it was given a name")?;
        let mut last = String::new();
        // What it says first may be of a moment ago: its view of the cordon follows.
        let said = async || {
            let conditions = pods.get(name).await?.status.and_then(|status| status.conditions).unwrap_or_default();
            let word = conditions.into_iter().find(|condition| condition.type_ == "PodScheduled");
            last = word.as_ref().and_then(|word| word.message.clone()).unwrap_or_default();
            Ok((word.is_some() && last == message).then_some(()))
        };
        let waited = eventually("the scheduler's word", SOON, said).await;
        waited.with_context(|| format!("{name}: {last}"))?;
    }
    Ok(())
}
