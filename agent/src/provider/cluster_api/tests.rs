use serde_json::{Value, json};

use super::management::tests::{Fake, deployment, fleet, machine, node, object, read};
use super::*;
use crate::surge::testing;
use rotate_shared::Code;

fn now() -> Timestamp {
    testing::CREATED.parse().unwrap()
}

async fn objects(fake: &Fake, candidate: &Node) -> ProviderObjects {
    ProviderObjects { cluster_api: read(fake, candidate).await, ..ProviderObjects::default() }
}

fn candidate() -> Node {
    node("web-a", json!({}))
}

/// The candidate with the marks of rotation `r1`.
fn marked() -> Node {
    node("web-a", json!({ "metadata": { "annotations": { "kubectl-rotate.dev/rotation": "r1" } } }))
}

fn autoscaled(replicas: u32) -> Value {
    deployment(json!({
        "metadata": { "annotations": {
            "cluster.x-k8s.io/cluster-api-autoscaler-node-group-min-size": "1",
            "cluster.x-k8s.io/cluster-api-autoscaler-node-group-max-size": "4",
        } },
        "spec": { "replicas": replicas },
        "status": { "upToDateReplicas": replicas },
    }))
}

/// Codes of blockers and of warnings.
fn codes(candidate: &Node, objects: &ProviderObjects, then: Option<Then>) -> (Vec<Code>, Vec<Code>) {
    let options = Options { then, ..Options::default() };
    let explained = ClusterApi.explain(candidate, &State::default(), objects, &options, now());
    let codes = |notices: &[rotate_shared::plan::Notice]| notices.iter().map(|notice| notice.code).collect();
    (codes(&explained.blockers), codes(&explained.warnings))
}

#[tokio::test]
async fn where_no_autoscaler_is_a_replica_is_ordered_and_goes_back_with_the_candidate() {
    let fake = fleet();
    let before = objects(&fake, &candidate()).await;
    let order = |replicas| Order::MachineDeployment {
        namespace: "fleet".to_owned(),
        name: "web".to_owned(),
        version: "v1beta2".to_owned(),
        replicas,
    };
    assert_eq!(ClusterApi.order(&marked(), &before), Some(order(3)));
    assert_eq!(codes(&candidate(), &before, None), (vec![], vec![]));
    assert_eq!(ClusterApi.default_then(&candidate(), &before), Then::Delete);

    Management::client(fake.client()).order("r1", &Key::new("fleet", "web")).await.unwrap();
    let ordered = objects(&fake, &candidate()).await;
    assert_eq!(ClusterApi.order(&marked(), &ordered), None, "it was ordered already");
    assert_eq!(ClusterApi.order(&candidate(), &ordered), Some(order(4)), "another rotation orders its own");
    let shrinks = |node: &Node| match ClusterApi.remove(node, &ordered) {
        Removal::Machine { uid, shrink, .. } => (uid, shrink),
        other => panic!("{other:?}"),
    };
    assert_eq!(shrinks(&marked()), ("uid-web-a".to_owned(), Some("web".to_owned())));
    assert_eq!(shrinks(&candidate()), ("uid-web-a".to_owned(), None), "what nobody surged for is replaced");
}

#[tokio::test]
async fn one_node_may_be_had_of_the_candidates_own_deployment_and_none_of_another() {
    let fake = fleet();
    let db = json!({ "metadata": { "name": "db" } });
    fake.put("machinedeployments", deployment(db));
    let objects = objects(&fake, &candidate()).await;
    let zone = |zone: &str| json!({ "metadata": { "labels": { "topology.kubernetes.io/zone": zone, "pool": "web" } } });
    let state = testing::state([node("web-a", zone("a")), node("web-b", zone("b"))], []);
    let headroom = ClusterApi.headroom(&state, &objects, now());
    let [web] = &headroom[..] else { panic!("{headroom:?}") };
    assert_eq!((&*web.source, web.nodes_left), ("MachineDeployment fleet/web", Some(1)));
    let [shape] = &web.shapes[..] else { panic!("{web:?}") };
    assert_eq!(shape.node.label("pool"), Some("web"));
    assert_eq!(shape.node.hostname(), None);
    assert_eq!(shape.uncertain, [Box::from("topology.kubernetes.io/zone")]);
}

#[tokio::test]
async fn what_is_ordered_for_one_node_is_not_there_for_another() {
    let fake = fleet();
    let owner = json!([{ "apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "MachineDeployment", "name": "db" }]);
    fake.put("machinedeployments", deployment(json!({ "metadata": { "name": "db" } })));
    fake.put("machinesets", object("db-1", json!({ "metadata": { "ownerReferences": owner } })));
    let owner = json!([{ "apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "MachineSet", "name": "db-1" }]);
    fake.put("machines", machine("db-a", json!({ "metadata": { "ownerReferences": owner } })));
    let db = node("db-a", json!({ "metadata": { "annotations": { "cluster.x-k8s.io/owner-name": "db-1" } } }));
    let both = Management::client(fake.client()).read(&[&candidate(), &db], None, None).await;
    let both = ProviderObjects { cluster_api: both, ..ProviderObjects::default() };
    let sources = |objects: &ProviderObjects| {
        let headroom = ClusterApi.headroom(&State::default(), objects, now());
        headroom.into_iter().map(|headroom| headroom.source).collect::<Vec<_>>()
    };
    assert_eq!(sources(&both), ["MachineDeployment fleet/db", "MachineDeployment fleet/web"]);
    assert_eq!(sources(&both.about(&db)), ["MachineDeployment fleet/db"]);
    assert_eq!(sources(&both.about(&candidate())), ["MachineDeployment fleet/web"]);
}

#[tokio::test]
async fn an_autoscaled_deployment_offers_what_is_left_up_to_its_maximum() {
    let fake = fleet();
    fake.put("machinedeployments", autoscaled(2));
    let seen = objects(&fake, &candidate()).await;
    assert_eq!(ClusterApi.order(&marked(), &seen), None, "placeholders are order enough");
    let headroom = ClusterApi.headroom(&State::default(), &seen, now());
    assert_eq!(headroom[0].nodes_left, Some(2));
    assert_eq!(headroom[0].limit, "its maximum is 4, it has 2 replicas");
    assert_eq!(codes(&candidate(), &seen, None), (vec![], vec![]));

    fake.put("machinedeployments", autoscaled(4));
    let seen = objects(&fake, &candidate()).await;
    assert_eq!(ClusterApi.headroom(&State::default(), &seen, now())[0].nodes_left, Some(0));
    assert_eq!(codes(&candidate(), &seen, None), (vec![], vec![Code::GroupAtLimit]));
}

#[tokio::test]
async fn an_autoscaled_deployment_that_has_grown_shrinks_with_the_candidate_and_not_below_its_minimum() {
    let late = json!({ "metadata": { "creationTimestamp": "2026-01-05T00:10:00Z" } });
    let since = "2026-01-05T00:05:00Z".parse().unwrap();
    let removal = async |replicas: u32, nodes: Vec<Node>| {
        let fake = fleet();
        fake.put("machinedeployments", autoscaled(replicas));
        let objects = objects(&fake, &candidate()).await;
        match ClusterApi.removal(&marked(), since, &testing::state(nodes, []), &objects) {
            Removal::Machine { shrink, .. } => shrink.is_some(),
            other => panic!("{other:?}"),
        }
    };
    let old = || vec![marked(), node("web-b", json!({}))];
    let grown = || vec![marked(), node("web-c", late.clone())];
    assert!(removal(3, grown()).await);
    assert!(!removal(3, old()).await, "nobody surged: it is replaced");
    assert!(!removal(1, grown()).await, "it would fall below its minimum");
}

#[tokio::test]
async fn what_there_is_to_settle_of_an_order_is_told_by_what_has_come_of_it() {
    let fake = fleet();
    let order = ClusterApi.order(&marked(), &objects(&fake, &candidate()).await).unwrap();
    let since = "2026-01-05T00:05:00Z".parse().unwrap();
    let young = |name: &str| node(name, json!({ "metadata": { "creationTimestamp": "2026-01-05T00:10:00Z" } }));
    let loan = async |nodes: Vec<Node>, pods: Vec<crate::cache::Pod>| {
        let objects = objects(&fake, &candidate()).await;
        ClusterApi.loan(&order, "r1", since, &testing::state(nodes, pods), &objects)
    };
    assert_eq!(loan(vec![], vec![]).await, Loan::Settled);
    Management::client(fake.client()).order("r1", &Key::new("fleet", "web")).await.unwrap();
    assert_eq!(loan(vec![candidate()], vec![]).await, Loan::Coming);
    let second = json!({ "metadata": { "creationTimestamp": "2026-01-05T00:05:00Z" } });
    let before = [node("web-a", second.clone()), node("web-b", second)].to_vec();
    let pods = ["web-a", "web-b"].map(|on| testing::pod("shop", on, &json!({ "spec": { "nodeName": on } })));
    assert_eq!(loan(before, pods.to_vec()).await, Loan::Coming, "both were there when it began");
    let Loan::Idle(name, Removal::Machine { name: machine, shrink, .. }) = loan(vec![young("web-c")], vec![]).await
    else {
        panic!("it is idle")
    };
    assert_eq!((&*name, &*machine, shrink.as_deref()), ("web-c", "web-c", Some("web")));
    let pod = testing::pod("shop", "web", &json!({ "spec": { "nodeName": "web-c" } }));
    assert_eq!(loan(vec![young("web-c")], vec![pod]).await, Loan::InUse);
    fake.fail_with(Some(503));
    assert!(matches!(loan(vec![], vec![]).await, Loan::Unknown(_)));
}

#[tokio::test]
async fn an_order_is_told_of_after_its_candidate_has_gone() {
    let fake = fleet();
    let management = Management::client(fake.client());
    management.order("r1", &Key::new("fleet", "web")).await.unwrap();
    let read = management.read(&[], None, Some(Key::new("fleet", "web"))).await;
    assert!(read.deployments[&Key::new("fleet", "web")].ordered_by.contains("r1"));
    let gone = management.read(&[], Some(Key::new("fleet", "web-z")), None).await;
    let objects = ProviderObjects { cluster_api: gone, ..ProviderObjects::default() };
    let removal = |name: &str| Removal::Machine {
        namespace: "fleet".to_owned(),
        name: name.to_owned(),
        uid: String::new(),
        version: "v1beta2".to_owned(),
        shrink: None,
    };
    assert!(ClusterApi.is_gone(&removal("web-z"), &objects));
    let there = management.read(&[], Some(Key::new("fleet", "web-a")), None).await;
    let objects = ProviderObjects { cluster_api: there, ..ProviderObjects::default() };
    assert!(!ClusterApi.is_gone(&removal("web-a"), &objects));
}

#[tokio::test]
async fn without_a_management_cluster_the_node_is_unmanaged_and_says_so() {
    let objects = ProviderObjects::default();
    assert_eq!(ClusterApi.default_then(&candidate(), &objects), Then::Keep);
    assert_eq!(ClusterApi.remove(&candidate(), &objects), Removal::NodeObject);
    assert_eq!(ClusterApi.order(&candidate(), &objects), None);
    let explained = ClusterApi.explain(&candidate(), &State::default(), &objects, &Options::default(), now());
    let [warning] = &explained.warnings[..] else { panic!("{explained:?}") };
    assert!(warning.remedy.contains("--management-kubeconfig"), "{warning:?}");
    assert!(warning.remedy.contains("kubectl delete machine web-a -n fleet"), "{warning:?}");
    assert_eq!(codes(&candidate(), &objects, Some(Then::Delete)), (vec![], vec![Code::MachineRunsOn]));
}

#[tokio::test]
async fn a_management_cluster_that_does_not_answer_blocks_what_it_is_needed_for() {
    let fake = fleet();
    fake.fail_with(Some(503));
    let objects = objects(&fake, &candidate()).await;
    assert_eq!(codes(&candidate(), &objects, None), (vec![Code::ProviderUnreadable], vec![]));
    assert_eq!(codes(&candidate(), &objects, Some(Then::Keep)), (vec![], vec![Code::ProviderUnreadable]));
    assert!(matches!(ClusterApi.remove(&candidate(), &objects), Removal::Left { within: None, .. }));
    assert_eq!(ClusterApi.headroom(&State::default(), &objects, now()), []);
}

#[tokio::test]
async fn what_is_paused_is_neither_ordered_nor_removed() {
    for (kind, paused) in [
        ("clusters", object("west", json!({ "spec": { "paused": true } }))),
        ("clusters", object("west", json!({ "metadata": { "annotations": { "cluster.x-k8s.io/paused": "" } } }))),
        ("machinedeployments", deployment(json!({ "spec": { "paused": true } }))),
        ("machines", machine("web-a", json!({ "metadata": { "annotations": { "cluster.x-k8s.io/paused": "" } } }))),
    ] {
        let fake = fleet();
        fake.put(kind, paused.clone());
        let objects = objects(&fake, &candidate()).await;
        assert_eq!(codes(&candidate(), &objects, None).0, [Code::ProviderPaused], "{paused}");
        assert_eq!(codes(&candidate(), &objects, Some(Then::Keep)).0, [], "{paused}");
        if kind != "machines" {
            assert_eq!(ClusterApi.order(&candidate(), &objects), None, "{paused}");
            assert_eq!(ClusterApi.headroom(&State::default(), &objects, now())[0].nodes_left, Some(0), "{paused}");
        }
    }
}

#[tokio::test]
async fn replicas_that_a_topology_says_are_not_ordered_over_its_head() {
    let fake = fleet();
    let workers = |replicas: Value| {
        let workers = json!({ "machineDeployments": [{ "name": "workers", "replicas": replicas }] });
        object("west", json!({ "spec": { "topology": { "workers": workers } } }))
    };
    let labels =
        json!({ "topology.cluster.x-k8s.io/owned": "", "topology.cluster.x-k8s.io/deployment-name": "workers" });
    fake.put("machinedeployments", deployment(json!({ "metadata": { "labels": labels } })));
    fake.put("clusters", workers(json!(2)));
    let fixed = objects(&fake, &candidate()).await;
    assert_eq!(ClusterApi.order(&candidate(), &fixed), None);
    assert_eq!(ClusterApi.headroom(&State::default(), &fixed, now())[0].nodes_left, Some(0));
    assert_eq!(codes(&candidate(), &fixed, None), (vec![], vec![Code::GroupAtLimit]));
    fake.put("clusters", workers(Value::Null));
    assert!(ClusterApi.order(&candidate(), &objects(&fake, &candidate()).await).is_some());
}

#[tokio::test]
async fn machines_that_no_deployment_owns_are_named_for_what_they_are() {
    let owned = |kind: &str, over: Value| {
        let owner = json!([{ "apiVersion": "cluster.x-k8s.io/v1beta2", "kind": kind, "name": "other" }]);
        let mut machine = machine("web-a", json!({ "metadata": { "ownerReferences": owner } }));
        testing::merge(&mut machine, &over);
        machine
    };
    let control_plane = json!({ "metadata": { "labels": { "cluster.x-k8s.io/control-plane": "" } } });
    let ownerless = json!({ "metadata": { "ownerReferences": [] } });
    // The Machine, what becomes of its node by default, blockers of its deletion, whether it is deleted.
    for (machine, then, blockers, deleted) in [
        (owned("KubeadmControlPlane", control_plane), Then::Keep, 1, false),
        (owned("MachinePool", json!({})), Then::Keep, 1, false),
        (owned("RancherThing", json!({})), Then::Keep, 1, false),
        (owned("MachineSet", json!({})), Then::Delete, 0, true),
        (owned("", ownerless), Then::Keep, 0, true),
    ] {
        let fake = fleet();
        fake.put("machines", machine.clone());
        let objects = objects(&fake, &candidate()).await;
        assert_eq!(ClusterApi.default_then(&candidate(), &objects), then, "{machine}");
        assert_eq!(codes(&candidate(), &objects, Some(Then::Delete)).0.len(), blockers, "{machine}");
        assert_eq!(codes(&candidate(), &objects, None).1, [Code::ProviderUnsupported], "{machine}");
        let removal = ClusterApi.remove(&candidate(), &objects);
        assert_eq!(matches!(removal, Removal::Machine { shrink: None, .. }), deleted, "{machine}: {removal:?}");
        assert_eq!(ClusterApi.order(&candidate(), &objects), None, "{machine}");
    }
}

#[tokio::test]
async fn a_node_whose_machine_is_gone_is_only_a_node() {
    let fake = fleet();
    fake.remove("machines", "web-a");
    let objects = objects(&fake, &candidate()).await;
    assert_eq!(ClusterApi.remove(&candidate(), &objects), Removal::NodeObject);
    assert_eq!(ClusterApi.default_then(&candidate(), &objects), Then::Keep);
    assert_eq!(codes(&candidate(), &objects, None), (vec![], vec![Code::ProviderUnsupported]));
}

#[tokio::test]
async fn a_machine_that_is_being_deleted_is_left_to_who_deletes_it() {
    let fake = fleet();
    fake.put("machines", machine("web-a", json!({ "metadata": { "deletionTimestamp": "2026-01-05T01:00:00Z" } })));
    let objects = objects(&fake, &candidate()).await;
    let taken = ClusterApi.taken(&candidate(), &objects);
    assert_eq!(taken.as_deref(), Some("Machine fleet/web-a is being deleted since 2026-01-05T01:00:00Z"));
    assert_eq!(codes(&candidate(), &objects, None).0, [Code::NodeDeleting]);
}

#[tokio::test]
async fn a_mark_of_others_a_failure_and_a_rollout_are_worth_a_word() {
    let fake = fleet();
    let mark = json!({ "cluster.x-k8s.io/delete-machine": "true" });
    let over = json!({ "metadata": { "annotations": mark }, "status": { "phase": "Failed" } });
    fake.put("machines", machine("web-a", over));
    fake.put("machinedeployments", deployment(json!({ "status": { "upToDateReplicas": 1 } })));
    let seen = objects(&fake, &candidate()).await;
    let expected = vec![Code::NodeLeaving, Code::NodeLeaving, Code::RolloutInProgress];
    assert_eq!(codes(&candidate(), &seen, None), (vec![], expected));
}
