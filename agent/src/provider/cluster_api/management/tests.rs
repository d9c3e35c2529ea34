use serde_json::{Value, json};

use super::*;
use crate::surge::testing;

#[path = "../../../../tests/management/fake.rs"]
mod fake;

pub(in crate::provider::cluster_api) use fake::Fake;

/// A management cluster with the Cluster `west`, its MachineDeployment `web` of two Machines, `web-a` and `web-b`.
pub(in crate::provider::cluster_api) fn fleet() -> Fake {
    fleet_serving(&["v1beta2", "v1beta1"])
}

fn fleet_serving(versions: &[&'static str]) -> Fake {
    let fake = Fake::serving(versions);
    fake.put("clusters", object("west", json!({})));
    fake.put("machinedeployments", deployment(json!({})));
    let owner = json!([{ "apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "MachineDeployment", "name": "web" }]);
    fake.put("machinesets", object("web-1", json!({ "metadata": { "ownerReferences": owner } })));
    fake.put("machines", machine("web-a", json!({})));
    fake.put("machines", machine("web-b", json!({})));
    fake
}

/// An object of Cluster `west`, with what `over` says in its place.
pub(in crate::provider::cluster_api) fn object(name: &str, over: Value) -> Value {
    let mut object = json!({
        "metadata": {
            "namespace": "fleet",
            "name": name,
            "uid": format!("uid-{name}"),
            "creationTimestamp": testing::CREATED,
            "labels": { "cluster.x-k8s.io/cluster-name": "west" },
        },
        "spec": { "clusterName": "west" },
    });
    testing::merge(&mut object, &over);
    object
}

/// The MachineDeployment `web` with two replicas.
pub(in crate::provider::cluster_api) fn deployment(over: Value) -> Value {
    let mut web = object("web", json!({ "spec": { "replicas": 2 }, "status": { "upToDateReplicas": 2 } }));
    testing::merge(&mut web, &over);
    web
}

/// A Machine of MachineSet `web-1`, with a node of its name.
pub(in crate::provider::cluster_api) fn machine(name: &str, over: Value) -> Value {
    let owner = json!([{ "apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "MachineSet", "name": "web-1" }]);
    let mut machine = object(
        name,
        json!({
            "metadata": { "ownerReferences": owner, "labels": { "cluster.x-k8s.io/deployment-name": "web" } },
            "status": { "phase": "Running", "nodeRef": { "name": name } },
        }),
    );
    testing::merge(&mut machine, &over);
    machine
}

/// The node of a Machine of MachineSet `web-1`.
pub(in crate::provider::cluster_api) fn node(name: &str, over: Value) -> Node {
    let mut object = json!({ "metadata": { "annotations": {
        "cluster.x-k8s.io/machine": name,
        "cluster.x-k8s.io/cluster-name": "west",
        "cluster.x-k8s.io/cluster-namespace": "fleet",
        "cluster.x-k8s.io/owner-kind": "MachineSet",
        "cluster.x-k8s.io/owner-name": "web-1",
    } } });
    testing::merge(&mut object, &over);
    testing::node(name, &object)
}

/// What is read about a node.
pub(in crate::provider::cluster_api) async fn read(fake: &Fake, node: &Node) -> Objects {
    Management::client(fake.client()).read(&[node], None, None).await
}

#[tokio::test]
async fn what_stands_behind_a_node_is_read_with_its_clusters_deployments() {
    let objects = read(&fleet(), &node("web-a", json!({}))).await;
    let key = Key::new("fleet", "web");
    assert_eq!(objects.reach, Reach::Read);
    assert_eq!(objects.version, "v1beta2");
    assert_eq!(objects.deployments[&key].replicas, 2);
    assert_eq!(objects.deployments[&key].up_to_date, 2);
    assert_eq!(objects.machines.keys().collect::<Vec<_>>(), [&Key::new("fleet", "web-a")], "only that one");
    assert_eq!(objects.deployment_of(&node("web-b", json!({}))), Some(key), "of every node of the Cluster");
}

#[tokio::test]
async fn the_older_version_is_read_where_the_newer_is_not_served() {
    let fake = fleet_serving(&["v1beta1"]);
    fake.put("machinedeployments", deployment(json!({ "status": { "upToDateReplicas": null, "updatedReplicas": 1 } })));
    let objects = read(&fake, &node("web-a", json!({}))).await;
    assert_eq!(objects.version, "v1beta1");
    assert_eq!(objects.deployments[&Key::new("fleet", "web")].up_to_date, 1);
    assert!(objects.machines.contains_key(&Key::new("fleet", "web-a")));
}

#[tokio::test]
async fn a_management_cluster_without_cluster_api_is_told() {
    let objects = read(&fleet_serving(&["v1alpha4"]), &node("web-a", json!({}))).await;
    let Reach::Failed(why) = objects.reach else { panic!("{:?}", objects.reach) };
    assert!(why.contains("Cluster API is not installed there"), "{why}");
}

#[tokio::test]
async fn one_that_refuses_us_is_told_with_its_words() {
    let fake = fleet();
    fake.fail_with(Some(403));
    let Reach::Failed(why) = read(&fake, &node("web-a", json!({}))).await.reach else { panic!("it was read") };
    assert!(why.contains("machinedeployments") && why.contains("out of order"), "{why}");
}

#[tokio::test]
async fn a_version_that_is_not_served_any_more_is_asked_for_anew() {
    let management = Management::client(fleet_serving(&["v1beta2"]).client());
    *management.version.lock() = Some("v1beta1");
    let candidate = node("web-a", json!({}));
    assert_ne!(management.read(&[&candidate], None, None).await.reach, Reach::Read);
    assert_eq!(management.read(&[&candidate], None, None).await.reach, Reach::Read);
}

#[tokio::test]
async fn nothing_is_asked_about_nodes_of_others() {
    let fake = fleet();
    fake.fail_with(Some(500));
    let other = testing::node("other", &json!({}));
    assert_eq!(read(&fake, &other).await.reach, Reach::Read);
}

#[tokio::test]
async fn a_kubeconfig_that_is_not_there_is_told_with_its_path() {
    let management = Management::file(Path::new("/nowhere/management.kubeconfig"));
    let Reach::Failed(why) = management.read(&[&node("web-a", json!({}))], None, None).await.reach else {
        panic!("it was read")
    };
    assert!(why.contains("/nowhere/management.kubeconfig"), "{why}");
}

#[tokio::test]
async fn a_kubeconfig_is_read_again_once_it_has_changed() {
    drop(rustls::crypto::ring::default_provider().install_default());
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("config");
    let write = |server: &str| {
        let config = json!({
            "apiVersion": "v1", "kind": "Config", "current-context": "m",
            "clusters": [{ "name": "m", "cluster": { "server": server } }],
            "users": [{ "name": "m", "user": { "token": "t" } }],
            "contexts": [{ "name": "m", "context": { "cluster": "m", "user": "m" } }],
        });
        std::fs::write(&path, config.to_string()).unwrap();
    };
    let management = Management::file(&path);
    let opened = || {
        let Way::File { opened, .. } = &management.way else { panic!("it is a file") };
        opened.lock().as_ref().map(|(text, _)| text.contains("127.0.0.2"))
    };
    write("http://127.0.0.1:1");
    management.open().await.unwrap();
    assert_eq!(opened(), Some(false));
    write("http://127.0.0.2:1");
    management.open().await.unwrap();
    assert_eq!(opened(), Some(true));
}
