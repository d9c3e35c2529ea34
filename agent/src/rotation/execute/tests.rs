use rotate_shared::Amounts;
use rotate_sim::{NodeSpec, Settings, Sim, objects};
use serde_json::json;

use super::*;
use crate::cache::Kind;
use crate::provider::Removal;
use crate::rotation::record::RoomClass;
use crate::rotation::testing::{after, cluster, entry, old, owner};
use crate::surge::constraints::Placement;
use crate::surge::testing;

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

fn reservation() -> Reservation {
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

// === what is remembered ===

fn eviction() -> Effect {
    Effect::Evict(Eviction {
        namespace: "shop".to_owned(),
        name: "p1".to_owned(),
        uid: "p1".to_owned(),
        grace_period_seconds: None,
        bypass: false,
    })
}

fn answered(answer: Answer, allowed: i32) -> Memory {
    let entry = entry(&["p1"]);
    let labels = json!({ "metadata": { "labels": { "app": "web" } } });
    let mut state = cluster(&entry, &["b"], [testing::pod("shop", "p1", &labels)]);
    state.set_revision(Kind::Pdbs, "2");
    state.apply_pdb(testing::pdb(&json!({
        "metadata": { "namespace": "shop", "name": "web", "uid": "pdb" },
        "spec": { "maxUnavailable": 1, "selector": { "matchLabels": { "app": "web" } } },
        "status": { "disruptionsAllowed": allowed, "currentHealthy": 2, "desiredHealthy": 1, "expectedPods": 2 },
    })));
    let mut memory = Memory::default();
    let Effect::Evict(evicted) = eviction() else { unreachable!("it is one") };
    memory.begin("0123456789", &eviction(), &state, after(60));
    assert_eq!(memory.evicting["p1"], Evicting::Sent);
    memory.end("cand", &eviction(), Ok(Done::Answered(evicted, answer)), &state, after(60));
    memory
}

#[test]
fn an_accepted_eviction_is_not_asked_for_again() {
    let memory = answered(Answer::Accepted, 1);
    assert_eq!(memory.evicting["p1"], Evicting::Accepted(after(60)));
    assert!(memory.refused.is_empty());
}

#[test]
fn a_pod_that_is_gone_or_replaced_is_looked_at_anew_and_not_asked_for_at_once() {
    for answer in [Answer::Gone, Answer::Replaced] {
        let mut memory = answered(answer, 1);
        assert!(memory.evicting.is_empty());
        let until = memory.refused["p1"].until;
        assert!(until > after(60) && until < after(62), "a webhook that answers so is not asked in a tight loop");
        let entry = entry(&["p1"]);
        memory.refresh(&entry.record, &cluster(&entry, &["b"], []), after(61));
        assert!(memory.refused.is_empty(), "the cache shows it");
    }
}

#[test]
fn a_placeholders_deadline_is_one_that_the_api_server_takes() {
    let mut record = entry(&[]).record;
    let options = &record.options;
    let waits = options.surge_timeout_seconds + options.settle_timeout_seconds;
    assert_eq!(Subject::of(&record).deadline_seconds, i64::try_from(waits).unwrap() + 3600);
    record.options.surge_timeout_seconds = u64::MAX;
    assert_eq!(Subject::of(&record).deadline_seconds, i64::from(i32::MAX));
}

#[test]
fn a_budget_that_refuses_as_the_watch_says_is_left_to_the_watch() {
    assert!(answered(Answer::Budget { message: "needs 2".to_owned() }, 0).refused.is_empty());
    let memory = answered(Answer::Budget { message: "needs 2".to_owned() }, 1);
    let refused = &memory.refused["p1"];
    assert_eq!(
        (refused.notice.code, &*refused.notice.object),
        (Code::PodDisruptionBudget, "PodDisruptionBudget shop/web")
    );
    assert!(refused.until < after(62));
}

#[test]
fn each_refusal_is_shown_as_what_it_is_and_waited_out() {
    let wait = |answer| {
        let memory = answered(answer, 1);
        let refused = &memory.refused["p1"];
        (refused.notice.code, refused.until.duration_since(after(60)).as_secs())
    };
    assert_eq!(wait(Answer::Throttled { after: Duration::from_secs(7) }), (Code::Throttled, 7));
    assert_eq!(wait(Answer::SeveralBudgets { message: String::new() }), (Code::MultiplePodDisruptionBudgets, 30));
    assert_eq!(wait(Answer::NamespaceTerminating), (Code::Terminating, 5));
    let (code, seconds) = wait(Answer::Refused { status: 500, message: "webhook".to_owned() });
    assert_eq!(code, Code::EvictionRefused);
    assert!(seconds < 2);
}

#[test]
fn failures_are_counted_shown_and_back_off() {
    let state = cluster(&entry(&["p1"]), &["b"], [old("p1")]);
    let mut memory = Memory::default();
    let mut last = after(60);
    for count in 1..10 {
        let error = ExecuteError::TimedOut(Duration::from_secs(5));
        memory.end("cand", &Effect::Mark, Err(error), &state, after(60));
        let failure = &memory.failures["mark"];
        assert_eq!(failure.count, count);
        assert!(failure.until >= last && failure.until <= after(90), "{:?}", failure.until);
        last = failure.until;
    }
    let notice = &memory.failures["mark"].notice;
    assert_eq!((notice.code, &*notice.object), (Code::ApiError, "Node cand"));
    assert_eq!(notice.message, "failed to cordon node cand (9 times): no answer within 5s");
    memory.end("cand", &Effect::Mark, Ok(Done::Marked(true)), &state, after(60));
    assert!(memory.failures.is_empty());
}

#[test]
fn who_may_not_hear_what_is_said_of_placeholders_goes_on() {
    let state = cluster(&entry(&["p1"]), &["b"], [old("p1")]);
    let mut memory = Memory::default();
    let refused = kube::core::Status { code: 403, message: "no events for you".to_owned(), ..Default::default() };
    let error = ExecuteError::Api(kube::Error::Api(Box::new(refused)));
    memory.end("cand", &Effect::Listen(vec!["u".to_owned()]), Err(error), &state, after(60));
    assert!(memory.failures.is_empty(), "it must not become the outcome of a surge that gets no room");
    assert_eq!(memory.told, Some((AllTold::default(), after(60))), "nor be asked for in a tight loop");
}

#[test]
fn a_refused_placeholder_is_told_apart_from_a_failing_api_server() {
    let code = |status: u16| {
        let status = kube::core::Status { code: status, message: "exceeded quota".to_owned(), ..Default::default() };
        let error = ExecuteError::Api(kube::Error::Api(Box::new(status)));
        failure_notice("cand", &Effect::Reserve(reservation()), &error, "").code
    };
    assert_eq!(
        [403, 422, 429, 500].map(code),
        [Code::PlaceholderRefused, Code::PlaceholderRefused, Code::Throttled, Code::ApiError]
    );
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

#[test]
fn a_pod_that_wakes_the_scheduler_is_no_placeholder_of_the_rotation_meanwhile() {
    let entry = entry(&["p1"]);
    let pod = PassedOver { uid: "p3".to_owned(), path: "shop/p3".to_owned(), attempt: 0 };
    let state = cluster(&entry, &["b"], [old("p1")]);
    let mut memory = Memory::default();
    memory.begin(&entry.record.id, &Effect::Wake(pod.clone()), &state, after(10));
    assert_eq!(memory.waking, Some(waking_name(&entry.record.id, &pod)));
    assert_eq!(memory.woken["p3"], (1, after(10)));
    memory.end("cand", &Effect::Wake(pod.clone()), Ok(Done::Woken(pod)), &state, after(11));
    assert_eq!(memory.waking, None);
}
