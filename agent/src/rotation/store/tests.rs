use rotate_shared::Phase;
use rotate_shared::options::Options;
use rotate_shared::plan::Provider;
use rotate_sim::{Settings, Sim, objects};

use super::*;
use crate::rotation::record::NewRotation;

fn cluster() -> (Sim, Store, Clock) {
    let epoch: Timestamp = "2026-01-01T00:00:00Z".parse().unwrap();
    let sim = Sim::start(Settings { epoch: Some(epoch), ..Settings::default() });
    sim.create(objects::namespace(names::NAMESPACE, &json!({})));
    let clock = Clock::starting_at(epoch);
    let store = Store::new(kube::Client::new(sim.router(), "default"), names::NAMESPACE, clock);
    (sim, store, clock)
}

fn new(node: &str, clock: Clock) -> NewRotation {
    NewRotation {
        node: node.to_owned(),
        node_uid: format!("uid-{node}"),
        batch: None,
        batch_size: 1,
        provider: Provider::Unmanaged,
        options: Options::default(),
        requested_by: Default::default(),
        idempotency_key: None,
        created_at: clock.now(),
    }
}

fn ended(entry: &Entry, clock: Clock) -> Record {
    let mut record = entry.record.clone();
    record.enter(Phase::Succeeded, clock.now());
    record
}

#[tokio::test(start_paused = true)]
async fn a_record_is_read_as_it_was_written() {
    let (_sim, store, clock) = cluster();
    let created = store.create(new("a", clock)).await.unwrap();
    assert_eq!(store.get(&created.record.id).await.unwrap(), created);
    assert_eq!(store.list().await.unwrap(), std::slice::from_ref(&created));
    assert_eq!(created.record.phase(), Phase::Queued);
    assert_eq!(created.request, Request::default());
}

#[tokio::test(start_paused = true)]
async fn a_node_has_one_live_rotation_and_its_next_one_another_name() {
    let (_sim, store, clock) = cluster();
    let first = store.create(new("a", clock)).await.unwrap();
    assert!(
        matches!(store.create(new("a", clock)).await, Err(StoreError::AlreadyRotating(id)) if id == first.record.id)
    );
    store.save(&first, &ended(&first, clock)).await.unwrap();
    let second = store.create(new("a", clock)).await.unwrap();
    assert_ne!(second.record.id, first.record.id);
    // Even where the first is forgotten, the live second one is found.
    let first = store.get(&first.record.id).await.unwrap();
    store.delete(&first).await.unwrap();
    assert!(
        matches!(store.create(new("a", clock)).await, Err(StoreError::AlreadyRotating(id)) if id == second.record.id)
    );
}

#[tokio::test(start_paused = true)]
async fn of_two_that_begin_at_once_one_wins_and_the_other_is_told() {
    let (_sim, store, clock) = cluster();
    let (one, other) = tokio::join!(store.create(new("a", clock)), store.create(new("a", clock)));
    let refused = match (one, other) {
        (Ok(_), Err(error)) | (Err(error), Ok(_)) => error,
        both => panic!("{both:?}"),
    };
    assert!(matches!(refused, StoreError::AlreadyRotating(_)), "{refused:?}");
}

#[tokio::test(start_paused = true)]
async fn a_repeated_request_is_answered_with_the_same_rotation() {
    let (_sim, store, clock) = cluster();
    let keyed = || NewRotation { idempotency_key: Some("k".to_owned()), ..new("a", clock) };
    let first = store.create(keyed()).await.unwrap();
    assert_eq!(store.create(keyed()).await.unwrap().record.id, first.record.id);
    assert!(store.create(new("a", clock)).await.is_err(), "without the key it is another request");
}

#[tokio::test(start_paused = true)]
async fn a_repeated_request_begins_nothing_although_its_rotation_is_over() {
    let (_sim, store, clock) = cluster();
    let keyed = || NewRotation { idempotency_key: Some("k".to_owned()), ..new("a", clock) };
    let listed = store.list().await.unwrap();
    let first = store.create(keyed()).await.unwrap();
    store.save(&first, &ended(&first, clock)).await.unwrap();
    // It lists it, or comes upon it as it writes.
    for listed in [&store.list().await.unwrap(), &listed] {
        let Created::Found(found) = store.create_after(listed, keyed()).await.unwrap() else { panic!("written anew") };
        assert_eq!(found.record.id, first.record.id);
    }
}

#[tokio::test(start_paused = true)]
async fn what_another_takes_back_may_be_written_once_more() {
    let (sim, store, clock) = cluster();
    let listed = store.list().await.unwrap();
    let other = store.create(new("a", clock)).await.unwrap();
    sim.faults().delay("GET", "/configmaps/", Duration::from_millis(50), 1);
    let taken_back = async {
        clock.sleep(Duration::from_millis(10)).await;
        store.delete(&other).await.unwrap();
    };
    let (created, ()) = tokio::join!(store.create_after(&listed, new("a", clock)), taken_back);
    let Created::Written(entry) = created.unwrap() else { panic!("it is nobody else's") };
    assert_eq!(entry.record.id, other.record.id);
}

#[tokio::test(start_paused = true)]
async fn the_engine_never_writes_over_a_request_that_it_has_not_read() {
    let (_sim, store, clock) = cluster();
    let read = store.create(new("a", clock)).await.unwrap();
    store.request(&read.record.id, Wish::Cancel(CancelRequest { uncordon: true }), clock.now()).await.unwrap();
    let mut next = read.record.clone();
    next.enter(Phase::Surging, clock.now());
    assert!(matches!(store.save(&read, &next).await, Err(StoreError::Conflict(_))));
    let read = store.get(&read.record.id).await.unwrap();
    let saved = store.save(&read, &next).await.unwrap();
    assert_eq!(saved.request.cancel, Some(CancelRequest { uncordon: true }), "the request is still there");
}

#[tokio::test(start_paused = true)]
async fn wishes_add_up() {
    let (_sim, store, clock) = cluster();
    let id = store.create(new("a", clock)).await.unwrap().record.id;
    let paused = store.request(&id, Wish::Pause, clock.now()).await.unwrap();
    assert!(paused.request.paused);
    assert_eq!(paused.request.paused_at, Some(clock.now()));
    clock.sleep(std::time::Duration::from_secs(5)).await;
    let again = store.request(&id, Wish::Pause, clock.now()).await.unwrap();
    assert_eq!(again.version, paused.version, "pausing twice writes once");
    let resumed = store.request(&id, Wish::Resume, clock.now()).await.unwrap();
    assert_eq!((resumed.request.paused, resumed.request.resumed_at), (false, Some(clock.now())));
    assert_eq!(resumed.request.paused_at, None);
    let uncordon = Wish::Cancel(CancelRequest { uncordon: true });
    store.request(&id, uncordon, clock.now()).await.unwrap();
    let kept = store.request(&id, Wish::Cancel(CancelRequest::default()), clock.now()).await.unwrap();
    assert_eq!(kept.request.cancel, Some(CancelRequest { uncordon: true }), "what was asked for is not taken back");
}

#[tokio::test(start_paused = true)]
async fn nothing_is_asked_of_a_rotation_that_is_over_or_unknown() {
    let (_sim, store, clock) = cluster();
    let entry = store.create(new("a", clock)).await.unwrap();
    store.save(&entry, &ended(&entry, clock)).await.unwrap();
    let refused = store.request(&entry.record.id, Wish::Pause, clock.now()).await;
    let Err(StoreError::Finished { id, node, how }) = refused else { panic!("{refused:?}") };
    let phase = store.get(&id).await.unwrap().record.phase().to_string();
    assert_eq!((&*id, &*node), (&*entry.record.id, "a"));
    assert!(how.starts_with(&phase), "how it ended is told: {how}");
    assert!(matches!(store.request("0123456789", Wish::Pause, clock.now()).await, Err(StoreError::NotFound(_))));
}

#[tokio::test(start_paused = true)]
async fn the_watch_follows_writes_by_anybody_and_survives_its_end() {
    let (sim, store, clock) = cluster();
    let watched = store.clone();
    let task = tokio::spawn(async move { watched.run().await });
    let mut records = store.subscribe();
    records.wait_for(Option::is_some).await.unwrap();
    let other = Store::new(kube::Client::new(sim.router(), "default"), names::NAMESPACE, clock);
    let entry = other.create(new("a", clock)).await.unwrap();
    let id = entry.record.id.clone();
    let has = |records: &Option<Records>, phase: Phase| {
        records.as_ref().unwrap().get(&id).is_some_and(|entry| entry.record.phase() == phase)
    };
    records.wait_for(|records| has(records, Phase::Queued)).await.unwrap();
    sim.faults().drop_watches();
    sim.faults().compact();
    let saved = other.save(&entry, &ended(&entry, clock)).await.unwrap();
    records.wait_for(|records| has(records, Phase::Succeeded)).await.unwrap();
    other.delete(&saved).await.unwrap();
    records.wait_for(|records| records.as_ref().unwrap().is_empty()).await.unwrap();
    task.abort();
}

#[tokio::test(start_paused = true)]
async fn a_list_that_was_overtaken_by_our_own_write_does_not_undo_it() {
    let (_sim, store, clock) = cluster();
    store.replace(Vec::new(), "0");
    let id = store.create(new("a", clock)).await.unwrap().record.id;
    let has = || store.subscribe().borrow().as_ref().unwrap().contains_key(&id);
    store.replace(Vec::new(), "0");
    assert!(has(), "the list is older");
    store.replace(Vec::new(), &u64::MAX.to_string());
    assert!(!has(), "the record was deleted");
}

#[tokio::test(start_paused = true)]
async fn a_watch_that_died_without_telling_is_given_up() {
    let lists = Arc::new(std::sync::atomic::AtomicUsize::new(0));
    let counted = Arc::clone(&lists);
    let server = tower::service_fn(move |request: http::Request<kube::client::Body>| {
        let body = if request.uri().query().is_some_and(|query| query.contains("watch=")) {
            let silence = futures::stream::pending::<std::io::Result<bytes::Bytes>>();
            axum::body::Body::from_stream(silence)
        } else {
            counted.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
            let list = json!({ "kind": "ConfigMapList", "apiVersion": "v1", "metadata": { "resourceVersion": "1" }, "items": [] });
            axum::body::Body::from(list.to_string())
        };
        std::future::ready(Ok::<_, std::convert::Infallible>(http::Response::new(body)))
    });
    let clock = Clock::system();
    let store = Store::new(kube::Client::new(server, "default"), names::NAMESPACE, clock);
    let task = tokio::spawn(async move { store.run().await });
    clock.sleep(SILENCE - Duration::from_secs(5)).await;
    assert_eq!(lists.load(std::sync::atomic::Ordering::Relaxed), 1);
    clock.sleep(Duration::from_secs(10)).await;
    assert_eq!(lists.load(std::sync::atomic::Ordering::Relaxed), 2);
    task.abort();
}

#[tokio::test(start_paused = true)]
async fn a_record_that_cannot_be_read_does_not_hide_the_others() {
    let (sim, store, clock) = cluster();
    let good = store.create(new("a", clock)).await.unwrap();
    for (name, record) in [("rotation-1111111111", "{"), ("rotation-2222222222", &*text(&good.record, "x").unwrap())] {
        sim.create(json!({
            "apiVersion": "v1", "kind": "ConfigMap",
            "metadata": { "namespace": names::NAMESPACE, "name": name, "labels": { "kubectl-rotate.dev/rotation": "x" } },
            "data": { "record": record },
        }));
    }
    assert_eq!(store.list().await.unwrap(), [good]);
}

#[tokio::test(start_paused = true)]
async fn a_request_that_cannot_be_read_holds_the_rotation() {
    let (sim, store, clock) = cluster();
    let id = store.create(new("a", clock)).await.unwrap().record.id;
    sim.edit("configmaps", names::NAMESPACE, &name(&id), |map| map["data"]["request"] = json!("{"));
    assert!(store.get(&id).await.unwrap().request.paused);
}

#[test]
fn versions_are_compared_as_numbers() {
    assert!(newer("10", "9") && !newer("9", "10") && !newer("9", "9"));
    assert!(newer("b", "a") && newer("a", "b") && !newer("a", "a"));
}
