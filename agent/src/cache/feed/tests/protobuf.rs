//! The same feed from a server that speaks protobuf.

use super::message::{self, bookmark, event, field, list, number, pod};
use super::*;

const PROTOBUF: &str = "application/vnd.kubernetes.protobuf";
const WATCH: &str = "application/vnd.kubernetes.protobuf;stream=watch";

fn fed_whole(script: Script) -> Fed {
    fed_with(Options::default(), script)
}

fn status(code: u64, reason: &str, message: &str) -> Vec<u8> {
    event("ERROR", message::status(code, reason, message))
}

#[tokio::test(start_paused = true)]
async fn pages_and_events_are_read() {
    let script = Script::new().answer_list(Answer::typed(PROTOBUF, list("7", &[pod("a", "1"), pod("b", "2")])));
    let watch = script.open_typed_watch(WATCH);
    let fed = fed(script);
    fed.cache.synced().await;
    assert_eq!(fed.pods(), ["a", "b"]);
    assert_eq!(fed.cache.read().pods_on("n1").len(), 2);
    watch.send([event("ADDED", pod("c", "8")), event("DELETED", pod("a", "9"))].concat());
    fed.until(|fed| fed.pods() == ["b", "c"]).await;
    assert_eq!(fed.revision().as_deref(), Some("9"));
    watch.send(bookmark("40", false));
    fed.until(|fed| fed.revision().as_deref() == Some("40")).await;
}

#[tokio::test(start_paused = true)]
async fn lists_are_streamed_however_the_stream_is_cut() {
    let script = Script::new();
    let stream = script.open_typed_stream(WATCH);
    let fed = fed_whole(script);
    let bytes = [event("ADDED", pod("ü", "1")), event("ADDED", pod("b", "1")), bookmark("7", true)].concat();
    for byte in bytes {
        stream.send(vec![byte]);
    }
    fed.cache.synced().await;
    assert_eq!(fed.pods(), ["b", "ü"]);
    assert_eq!(fed.revision().as_deref(), Some("7"));
    stream.send(status(410, "Expired", "too old"));
    fed.until(|fed| fed.cache.health().of(Kind::Pods).errors == 1).await;
    assert!(fed.cache.health().of(Kind::Pods).last_error.unwrap().contains("forgotten"));
}

#[tokio::test(start_paused = true)]
async fn a_refusal_is_told_in_the_words_of_the_server() {
    let refusal = message::enveloped("Status", message::status(403, "Forbidden", "pods is forbidden: not yours"));
    let refused = match Answer::typed(PROTOBUF, refusal) {
        Answer::Whole { content_type, header, body, .. } => Answer::Whole { status: 403, content_type, header, body },
        other => other,
    };
    let fed = fed(Script::new().answer_list(refused));
    fed.until(|fed| fed.cache.health().of(Kind::Pods).errors == 1).await;
    let error = fed.cache.health().of(Kind::Pods).last_error.unwrap();
    assert_eq!(&*error, "read /api/v1/pods?limit=500: 403 pods is forbidden: not yours");
}

#[tokio::test(start_paused = true)]
async fn a_frame_that_is_cut_off_by_the_end_of_the_watch_is_an_error_and_loses_nothing() {
    let script = Script::new().answer_list(Answer::typed(PROTOBUF, list("1", &[])));
    let (first, second) = (script.open_typed_watch(WATCH), script.open_typed_watch(WATCH));
    let fed = fed(script);
    let cut = event("ADDED", pod("b", "3"));
    first.send([event("ADDED", pod("a", "2")), cut[..cut.len() - 1].to_vec()].concat());
    drop(first);
    second.send(cut);
    fed.until(|fed| fed.pods() == ["a", "b"]).await;
    assert!(fed.script.asked("pods")[2].contains("resourceVersion=2&"));
    let health = fed.cache.health().of(Kind::Pods);
    assert_eq!(health.errors, 1);
    assert!(health.last_error.unwrap().contains("within a frame"));
}

#[tokio::test(start_paused = true)]
async fn an_oversized_frame_ends_the_watch() {
    let script = Script::new().answer_list(Answer::typed(PROTOBUF, list("1", &[])));
    let (first, second) = (script.open_typed_watch(WATCH), script.open_typed_watch(WATCH));
    let fed = fed(script);
    first.send(vec![0xff; 8]);
    second.send(event("ADDED", pod("a", "2")));
    fed.until(|fed| fed.pods() == ["a"]).await;
    assert!(fed.cache.health().of(Kind::Pods).last_error.unwrap().contains("longer than"));
}

#[tokio::test(start_paused = true)]
async fn a_frame_that_stays_in_the_way_is_passed_by_a_list() {
    let script = Script::new()
        .answer_list(Answer::typed(PROTOBUF, list("1", &[])))
        .answer_list(Answer::typed(PROTOBUF, list("9", &[pod("a", "9")])));
    let watches: Vec<_> = (0..4).map(|_| script.open_typed_watch(WATCH)).collect();
    let fed = fed(script);
    for watch in &watches[..3] {
        watch.send(vec![0, 0, 0, 1, 0xff]);
    }
    fed.until(|fed| fed.pods() == ["a"]).await;
    assert_eq!(fed.cache.health().of(Kind::Pods).errors, 3);
}

#[tokio::test(start_paused = true)]
async fn a_pod_that_cannot_be_read_is_noted_for_its_node_and_counted_each_time() {
    let metadata = [field(1, "broken"), field(3, "shop"), field(5, "uid-broken"), field(6, "2")].concat();
    let requests = field(2, [field(1, "cpu"), field(2, field(1, "1e400"))].concat());
    let container = [field(1, "c"), field(8, requests)].concat();
    let broken = [field(1, metadata), field(2, [field(2, container), field(10, "n1")].concat())].concat();
    let script = Script::new().answer_list(Answer::typed(PROTOBUF, list("1", &[broken.clone(), pod("a", "1")])));
    let watch = script.open_typed_watch(WATCH);
    let fed = fed(script);
    fed.cache.synced().await;
    watch.send([event("MODIFIED", &broken), event("MODIFIED", &broken), event("ADDED", pod("b", "3"))].concat());
    fed.until(|fed| fed.pods() == ["a", "b"]).await;
    assert_eq!(fed.cache.health().of(Kind::Pods).unreadable, 3);
    let notes: Vec<_> = fed.cache.read().unreadable_on("n1").map(|note| note.message.clone()).collect();
    assert_eq!(notes.len(), 1);
    assert!(notes[0].contains("shop/broken") && notes[0].contains("1e400"), "{notes:?}");
}

#[tokio::test(start_paused = true)]
async fn what_cannot_be_identified_is_listed_again_when_it_is_deleted() {
    let nobody = field(1, field(1, "nobody"));
    let script = Script::new()
        .answer_list(Answer::typed(PROTOBUF, list("1", &[pod("nobody", "1")])))
        .answer_list(Answer::typed(PROTOBUF, list("9", &[])));
    let watch = script.open_typed_watch(WATCH);
    let fed = fed(script);
    fed.cache.synced().await;
    watch.send(event("DELETED", nobody));
    fed.until(|fed| fed.pods().is_empty()).await;
    assert!(fed.cache.health().of(Kind::Pods).last_error.unwrap().contains("metadata.uid is missing"));
}

#[tokio::test(start_paused = true)]
async fn events_of_an_unknown_type_and_errors_without_a_status_are_counted() {
    let script = Script::new().answer_list(Answer::typed(PROTOBUF, list("1", &[])));
    let (first, second) = (script.open_typed_watch(WATCH), script.open_typed_watch(WATCH));
    let fed = fed(script);
    first.send([event("NEWS", ""), event("ADDED", pod("a", "2")), event("ERROR", number(9, 1))].concat());
    second.send(event("ADDED", pod("b", "3")));
    fed.until(|fed| fed.pods() == ["a", "b"]).await;
    let health = fed.cache.health().of(Kind::Pods);
    assert_eq!((health.errors, health.unknown), (1, 1));
}
