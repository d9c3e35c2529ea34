use rotate_shared::Amounts;
use rotate_sim::{NodeSpec, Settings, Sim, objects};
use serde_json::json;

use super::*;
use crate::provider::Removal;
use crate::rotation::record::RoomClass;
use crate::rotation::testing::{entry, owner};
use crate::surge::constraints::Placement;

fn executor() -> (Sim, Executor, Subject) {
    let sim = Sim::start(Settings::default());
    for namespace in [names::ROOM_NAMESPACE, "shop"] {
        sim.create(objects::namespace(namespace, &json!({})));
    }
    sim.create(objects::priority_class(names::PRIORITY_CLASS, names::PLACEHOLDER_PRIORITY, false));
    let node = sim.add_node(NodeSpec::new("a"));
    let subject = Subject {
        rotation: "0123456789".to_owned(),
        node: "a".to_owned(),
        node_uid: node["metadata"]["uid"].as_str().unwrap().to_owned(),
        deadline_seconds: 3600,
        ..Subject::default()
    };
    let client = Client::new(sim.router(), "default");
    let clock = crate::clock::Clock::system();
    let reader = Reader::new(client.clone(), clock);
    let (image, timeout) = ("pause".to_owned(), Duration::from_secs(5));
    let executor = Executor { client, reader, image, timeout, scoped: false, hook: None, clock };
    (sim, executor, subject)
}

pub(in crate::rotation::execute) fn reservation() -> Reservation {
    Reservation {
        name: "room-0123456789-p1-0".to_owned(),
        pod_uid: "p1".to_owned(),
        class: RoomClass {
            id: "a".to_owned(),
            requests: Amounts::from([("cpu".to_owned(), "250m".parse().unwrap())]),
            placement: Placement::default(),
        },
    }
}

#[tokio::test(start_paused = true)]
async fn a_placeholder_is_created_once_and_deleted_by_its_uid() {
    let (sim, executor, subject) = executor();
    let reserve = Effect::Reserve(reservation());
    let Ok(Done::Reserved(_, uid)) = executor.execute(&subject, &reserve).await else { panic!("created") };
    let pod = sim.get("pods", names::ROOM_NAMESPACE, "room-0123456789-p1-0").unwrap();
    assert_eq!(pod["metadata"]["uid"], json!(uid));
    assert_eq!(pod["spec"]["containers"][0]["resources"]["requests"]["cpu"], "250m");
    assert_eq!(pod["spec"]["activeDeadlineSeconds"], 3600);
    assert!(matches!(executor.execute(&subject, &reserve).await, Ok(Done::NameTaken(_))));

    let release = |uid: &str| Effect::Release { name: reservation().name, uid: uid.to_owned() };
    executor.execute(&subject, &release("another")).await.unwrap();
    let room = || sim.list("pods").into_iter().any(|pod| pod["metadata"]["deletionTimestamp"].is_null());
    assert!(room(), "one that took its name is left alone");
    executor.execute(&subject, &release(&uid)).await.unwrap();
    assert!(!room());
    executor.execute(&subject, &release(&uid)).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn marks_are_put_on_and_taken_off_by_one_patch_each() {
    let (sim, executor, subject) = executor();
    let before = sim.get("nodes", "", "a").unwrap();
    for _ in 0..2 {
        executor.execute(&subject, &Effect::Mark).await.unwrap();
    }
    let marked = sim.get("nodes", "", "a").unwrap();
    assert_eq!(marked["spec"]["unschedulable"], true);
    assert_eq!(marked["metadata"]["annotations"][names::ROTATION], "0123456789");
    for _ in 0..2 {
        executor.execute(&subject, &Effect::Unmark { uncordon: true }).await.unwrap();
    }
    let after = sim.get("nodes", "", "a").unwrap();
    assert_ne!(after["spec"]["unschedulable"], true);
    assert_eq!(after["metadata"]["labels"], before["metadata"]["labels"]);
    let patches = sim.requests().into_iter().filter(|request| request.method == "PATCH").count();
    assert_eq!(patches, 2);
}

#[tokio::test(start_paused = true)]
async fn a_patch_that_loses_a_race_looks_again() {
    let (sim, executor, subject) = executor();
    sim.faults().fail("PATCH", "/nodes/a", 409, 2);
    executor.execute(&subject, &Effect::Mark).await.unwrap();
    assert_eq!(sim.get("nodes", "", "a").unwrap()["spec"]["unschedulable"], true);
}

#[tokio::test(start_paused = true)]
async fn another_node_of_the_same_name_is_neither_marked_nor_deleted() {
    let (sim, executor, subject) = executor();
    let other = Subject { node_uid: "another".to_owned(), ..subject };
    assert!(matches!(executor.execute(&other, &Effect::Mark).await, Err(ExecuteError::OtherNode(_))));
    executor.execute(&other, &Effect::Remove(Removal::NodeObject)).await.unwrap();
    assert!(sim.get("nodes", "", "a").is_some());
    let gone = Subject { node: "nowhere".to_owned(), ..other };
    executor.execute(&gone, &Effect::Unmark { uncordon: true }).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_node_that_came_for_us_is_protected_and_given_back_only_if_nothing_real_is_on_it() {
    let (sim, executor, subject) = executor();
    let uid = sim.add_node(NodeSpec::new("b"))["metadata"]["uid"].as_str().unwrap().to_owned();
    let node = || "b".to_owned();
    executor.execute(&subject, &Effect::Protect { node: node(), uid: uid.clone() }).await.unwrap();
    let protected = sim.get("nodes", "", "b").unwrap();
    assert_eq!(protected["metadata"]["annotations"][names::KARPENTER_DO_NOT_DISRUPT], "true");
    assert_ne!(protected["spec"]["unschedulable"], true, "it is not cordoned");
    executor.execute(&subject, &Effect::Unprotect { node: node(), uid: uid.clone() }).await.unwrap();
    let after = sim.get("nodes", "", "b").unwrap();
    assert!(after["metadata"]["annotations"].get(names::PROTECTED_BY).is_none());

    let give_back = Effect::GiveBack { node: node(), uid: uid.clone(), removal: Removal::NodeObject };
    let mut pod = objects::pod("landed", "shop", &objects::template("web", "100m", "16Mi"));
    pod["spec"]["nodeName"] = json!("b");
    sim.create(pod);
    let done = executor.execute(&subject, &give_back).await;
    assert!(matches!(done, Ok(Done::GivenBack(of)) if of == uid));
    assert!(sim.get("nodes", "", "b").is_some(), "a Pod has landed since");
    sim.delete("pods", "shop", "landed");
    crate::clock::Clock::system().sleep(Duration::from_secs(60)).await;
    executor.execute(&subject, &give_back).await.unwrap();
    assert!(sim.get("nodes", "", "b").is_none());
}

#[tokio::test(start_paused = true)]
async fn the_barrier_lists_the_nodes_own_pods() {
    let (sim, executor, subject) = executor();
    sim.add_node(NodeSpec::new("b"));
    for (name, node) in [("p1", "a"), ("p2", "b")] {
        let mut pod = objects::pod(name, "shop", &objects::template("web", "100m", "16Mi"));
        pod["spec"]["nodeName"] = json!(node);
        sim.create(pod);
    }
    let uid = sim.get("pods", "shop", "p1").unwrap()["metadata"]["uid"].as_str().unwrap().to_owned();
    let mut waiting = objects::pod("waiting", "other", &objects::template("web", "100m", "16Mi"));
    waiting["spec"]["schedulerName"] = json!("another");
    sim.create(objects::namespace("other", &json!({})));
    sim.create(waiting);
    sim.edit("pods", "other", "waiting", |pod| pod["status"]["nominatedNodeName"] = json!("a"));
    let list = async |executor: &Executor| match executor.execute(&subject, &Effect::List).await {
        Ok(Done::Listed { bound, arriving }) => (bound, arriving),
        other => panic!("{other:?}"),
    };
    assert_eq!(list(&executor).await, (BTreeSet::from([uid.clone()]), vec![]));
    let scoped = Executor { scoped: true, ..executor };
    let arriving = vec!["other/waiting".to_owned()];
    assert_eq!(list(&scoped).await, (BTreeSet::from([uid]), arriving), "the cache might not see it");
}

#[tokio::test(start_paused = true)]
async fn a_replica_set_of_a_deployment_wants_what_the_deployment_does() {
    let (sim, executor, subject) = executor();
    sim.create(objects::deployment("web", "shop", 3, objects::template("web", "100m", "16Mi")));
    tokio::time::timeout(Duration::from_secs(5), async {
        while sim.list("replicasets").is_empty() {
            sim.changes().changed().await.unwrap();
        }
    })
    .await
    .unwrap();
    let set = &sim.list("replicasets")[0];
    let name = set["metadata"]["name"].as_str().unwrap();
    let read = |name: &str| Effect::ReadOwner { namespace: "shop".to_owned(), owner: owner("ReplicaSet", name) };
    sim.edit("deployments", "shop", "web", |web| web["spec"]["replicas"] = json!(1));
    let Ok(Done::Owner(_, Some(wants))) = executor.execute(&subject, &read(name)).await else { panic!("read") };
    assert_eq!(wants.desired, Some(1));
    assert_eq!(&*wants.owner.unwrap().name, "web");
    assert!(matches!(executor.execute(&subject, &read("gone")).await, Ok(Done::Owner(_, None))));
}

#[tokio::test(start_paused = true)]
async fn an_answer_that_does_not_come_is_given_up() {
    let (sim, executor, subject) = executor();
    sim.faults().delay("*", "/nodes/a", Duration::from_secs(3600), 1);
    let error = executor.execute(&subject, &Effect::Mark).await.unwrap_err();
    assert_eq!(error.to_string(), "no answer within 5s");
}

#[test]
fn a_placeholders_deadline_is_one_that_the_api_server_takes() {
    let mut record = entry(&[]).record;
    let options = &record.options;
    let waits = options.surge_timeout_seconds + options.settle_timeout_seconds;
    assert_eq!(Subject::of(&record, &Gate::default()).deadline_seconds, i64::try_from(waits).unwrap() + 3600);
    record.options.surge_timeout_seconds = u64::MAX;
    assert_eq!(Subject::of(&record, &Gate::default()).deadline_seconds, i64::from(i32::MAX));
}

#[tokio::test(start_paused = true)]
async fn the_scheduler_is_woken_by_a_pod_that_is_bound_and_deleted() {
    let (sim, executor, subject) = executor();
    let pod = PassedOver { uid: "p3".to_owned(), path: "shop/p3".to_owned(), attempt: 1 };
    let done = executor.execute(&subject, &Effect::Wake(pod.clone())).await;
    assert!(matches!(done, Ok(Done::Woken(woken)) if woken == pod));
    assert_eq!(sim.list("pods").iter().filter(|pod| pod["metadata"]["deletionTimestamp"].is_null()).count(), 0);
    let bound = sim.log().into_iter().any(|entry| matches!(entry.event, rotate_sim::Event::PodBound { .. }));
    assert!(bound, "the deletion of a Pod that was never bound wakes nobody");
}
