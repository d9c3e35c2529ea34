//! Tests of the feed against a server that follows a script, under paused time.

pub(super) mod message;
mod protobuf;
mod script;
mod simulated;
mod streaming;

use std::time::Duration;

use serde_json::{Value, json};

use self::script::{Answer, Script, bookmark, event, list, pod, status};
use super::reflect::SILENCE;
use super::{FeedError, Feeds, Options, list_node_pods, volumes};
use crate::cache::index::Kind;
use crate::cache::volumes::Claim;
use crate::cache::{Cache, State};
use crate::clock::Clock;

/// A cache that is being fed from a script.
struct Fed {
    script: Script,
    cache: Cache,
    clock: Clock,
    _feeds: Feeds,
}

/// As from a server that lists in pages.
fn fed(script: Script) -> Fed {
    fed_with(Options { stream: false, ..Options::default() }, script)
}

fn fed_with(options: Options, script: Script) -> Fed {
    let cache = Cache::new(State::default());
    let clock = Clock::starting_at("2026-11-29T10:00:00Z".parse().unwrap());
    Fed { _feeds: Feeds::run_with(script.client(), options, cache.clone(), clock), script, cache, clock }
}

impl Fed {
    /// Waits, in virtual time, until this holds.
    async fn until(&self, holds: impl Fn(&Self) -> bool) {
        for _ in 0..10_000 {
            if holds(self) {
                return;
            }
            self.clock.sleep(Duration::from_millis(100)).await;
        }
        panic!("never held; asked for: {:#?}", self.script.asked("pods"));
    }

    fn pods(&self) -> Vec<String> {
        let mut names: Vec<_> = self.cache.read().pods().map(|pod| pod.name.to_string()).collect();
        names.sort();
        names
    }

    fn revision(&self) -> Option<String> {
        self.cache.read().revision(Kind::Pods).map(str::to_owned)
    }
}

#[tokio::test(start_paused = true)]
async fn a_list_is_read_in_pages_and_watched_from_its_revision() {
    let mut first = list("7", &[pod("a", "1")]);
    first["metadata"]["continue"] = "to ken+/=".into();
    let script = Script::new().list(&first).list(&list("7", &[pod("b", "2")]));
    let watch = script.open_watch();
    let fed = fed(script);
    fed.cache.synced().await;
    assert_eq!(fed.pods(), ["a", "b"]);
    watch.send(event("ADDED", &pod("c", "8")) + &event("DELETED", &pod("a", "9")));
    fed.until(|fed| fed.pods() == ["b", "c"]).await;
    assert_eq!(fed.revision().as_deref(), Some("9"));
    let asked = fed.script.asked("pods");
    assert_eq!(asked[0], "/api/v1/pods?limit=500");
    assert_eq!(asked[1], "/api/v1/pods?limit=500&continue=to%20ken%2B%2F%3D");
    let (watch, seconds) = asked[2].split_once("&timeoutSeconds=").unwrap();
    assert_eq!(watch, "/api/v1/pods?watch=true&allowWatchBookmarks=true&resourceVersion=7");
    assert!((240..=300).contains(&seconds.parse().unwrap()));
    assert_eq!(fed.script.asked("nodes")[0], "/api/v1/nodes?limit=500");
    assert_eq!(fed.script.asked("poddisruptionbudgets")[0], "/apis/policy/v1/poddisruptionbudgets?limit=500");
    let health = fed.cache.health().of(Kind::Pods);
    assert!(health.synced && health.connected);
    assert_eq!((health.errors, health.lists), (0, 1));
}

#[tokio::test(start_paused = true)]
async fn events_are_the_same_however_the_stream_is_cut() {
    let script = Script::new().list(&list("1", &[]));
    let watch = script.open_watch();
    let fed = fed(script);
    fed.cache.synced().await;
    for byte in (event("ADDED", &pod("ü", "2")) + "\n" + &event("MODIFIED", &pod("b", "3"))).into_bytes() {
        watch.send(vec![byte]);
    }
    fed.until(|fed| fed.pods() == ["b", "ü"]).await;
}

#[tokio::test(start_paused = true)]
async fn a_dropped_watch_goes_on_from_the_last_event_without_a_list() {
    let script = Script::new().list(&list("1", &[]));
    let (first, second) = (script.open_watch(), script.open_watch());
    let fed = fed(script);
    first.send(event("ADDED", &pod("a", "5")));
    first.fail();
    second.send(event("ADDED", &pod("b", "6")));
    fed.until(|fed| fed.pods() == ["a", "b"]).await;
    let asked = fed.script.asked("pods");
    assert_eq!(asked.len(), 3);
    assert!(asked[2].contains("resourceVersion=5&"), "{asked:?}");
    let health = fed.cache.health().of(Kind::Pods);
    assert_eq!((health.errors, health.lists), (1, 1));
    assert!(health.last_error.unwrap().starts_with("reach the API server"));
}

#[tokio::test(start_paused = true)]
async fn a_bookmark_moves_the_revision_from_which_a_watch_goes_on() {
    let script = Script::new().list(&list("1", &[]));
    let (first, _second) = (script.open_watch(), script.open_watch());
    let fed = fed(script);
    first.send(bookmark("40"));
    drop(first);
    fed.until(|fed| fed.script.asked("pods").len() == 3).await;
    assert!(fed.script.asked("pods")[2].contains("resourceVersion=40&"));
    assert_eq!(fed.revision().as_deref(), Some("40"));
}

#[tokio::test(start_paused = true)]
async fn a_forgotten_revision_is_listed_again_over_what_is_there() {
    let script = Script::new().list(&list("1", &[pod("stays", "1"), pod("gone", "1")]));
    let first = script.open_watch();
    let held = script.hold_list();
    let _second = script.open_watch();
    let fed = fed(script);
    fed.cache.synced().await;
    first.send(event("ADDED", &pod("late", "2")) + &event("ERROR", &status(410, "Expired", "too old")));
    fed.until(|fed| fed.script.asked("pods").len() == 3).await;
    assert_eq!(fed.pods(), ["gone", "late", "stays"], "no flash of an empty cache");
    held.answer(Answer::json(&list("9", &[pod("stays", "1"), pod("new", "9")])));
    fed.until(|fed| fed.pods() == ["new", "stays"]).await;
    assert_eq!(fed.revision().as_deref(), Some("9"));
    fed.until(|fed| fed.script.asked("pods").len() == 4).await;
    assert!(fed.script.asked("pods")[3].contains("resourceVersion=9&"));
}

#[tokio::test(start_paused = true)]
async fn a_watch_refused_with_410_is_listed_again() {
    let script = Script::new()
        .list(&list("1", &[pod("a", "1")]))
        .watch(Answer::refused(410, &status(410, "Expired", "too old")))
        .list(&list("2", &[pod("b", "2")]));
    let _watch = script.open_watch();
    let fed = fed(script);
    fed.until(|fed| fed.pods() == ["b"]).await;
}

#[tokio::test(start_paused = true)]
async fn a_list_whose_continuation_has_expired_begins_again() {
    let mut first = list("1", &[pod("a", "1"), pod("x", "1")]);
    first["metadata"]["continue"] = "token".into();
    let script = Script::new()
        .list(&first)
        .answer_list(Answer::refused(410, &status(410, "Expired", "too old")))
        .list(&list("2", &[pod("a", "1"), pod("b", "2")]));
    let _watch = script.open_watch();
    let fed = fed(script);
    fed.cache.synced().await;
    fed.until(|fed| fed.pods() == ["a", "b"]).await;
    assert!(!fed.script.asked("pods")[2].contains("continue"));
}

#[tokio::test(start_paused = true)]
async fn a_watch_that_falls_silent_is_given_up_and_counted() {
    let script = Script::new().list(&list("1", &[]));
    let (_silent, second) = (script.open_watch(), script.open_watch());
    let fed = fed(script);
    fed.cache.synced().await;
    let started = fed.clock.now();
    second.send(event("ADDED", &pod("a", "2")));
    fed.until(|fed| fed.pods() == ["a"]).await;
    assert!(fed.clock.now().duration_since(started).unsigned_abs() >= SILENCE);
    let health = fed.cache.health().of(Kind::Pods);
    assert_eq!(health.stalls, 1);
    assert!(health.connected, "a new watch is open");
}

#[tokio::test(start_paused = true)]
async fn a_watch_that_speaks_is_not_silent() {
    let script = Script::new().list(&list("1", &[]));
    let watch = script.open_watch();
    let fed = fed(script);
    for minute in 0..6 {
        watch.send(bookmark(&minute.to_string()));
        fed.clock.sleep(Duration::from_secs(60)).await;
    }
    assert_eq!(fed.cache.health().of(Kind::Pods).stalls, 0);
    assert_eq!(fed.script.asked("pods").len(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_pod_that_cannot_be_read_is_noted_for_its_node_and_holds_nothing_up() {
    let broken = |revision: &str| {
        let mut broken = pod("broken", revision);
        broken["spec"]["nodeName"] = "n1".into();
        broken["spec"]["containers"] = json!([{"name": "c", "resources": {"requests": {"cpu": "1e400"}}}]);
        broken
    };
    let script = Script::new().list(&list("1", &[broken("1"), pod("a", "1")]));
    let watch = script.open_watch();
    let fed = fed(script);
    fed.cache.synced().await;
    watch.send(event("MODIFIED", &broken("2")) + &event("ADDED", &pod("b", "3")));
    fed.until(|fed| fed.pods() == ["a", "b"]).await;
    assert_eq!(fed.cache.health().of(Kind::Pods).unreadable, 2);
    let notes: Vec<_> = fed.cache.read().unreadable_on("n1").map(|note| note.message.clone()).collect();
    assert_eq!(notes.len(), 1);
    assert!(notes[0].contains("shop/broken") && notes[0].contains("1e400"), "{notes:?}");
    watch.send(event("DELETED", &broken("4")));
    fed.until(|fed| fed.cache.read().unreadable().count() == 0).await;
}

#[tokio::test(start_paused = true)]
async fn a_pod_whose_node_cannot_be_read_any_more_holds_up_the_one_where_it_was() {
    let script = Script::new().list(&list("1", &[pod("a", "1"), pod("b", "1")]));
    let watch = script.open_watch();
    let fed = fed(script);
    fed.cache.synced().await;
    let mut broken = pod("a", "2");
    broken["spec"]["nodeName"] = 7.into();
    watch.send(event("MODIFIED", &broken) + &event("MODIFIED", &broken));
    fed.until(|fed| fed.cache.read().unreadable_on("n1").count() == 1).await;
    watch.send(event("MODIFIED", &pod("a", "3")));
    fed.until(|fed| fed.cache.read().unreadable().count() == 0).await;
    assert_eq!(fed.pods(), ["a", "b"]);
}

#[tokio::test(start_paused = true)]
async fn pods_that_nothing_identifies_hold_up_each_its_node() {
    let unnamed = |node: &str| json!({"metadata": {}, "spec": {"nodeName": node}});
    let script = Script::new().list(&list("1", &[unnamed("n1"), unnamed("n2")]));
    let _watch = script.open_watch();
    let fed = fed(script);
    fed.cache.synced().await;
    let state = fed.cache.read();
    assert_eq!(["n1", "n2", "n3"].map(|node| state.unreadable_on(node).count()), [1, 1, 0]);
}

#[tokio::test(start_paused = true)]
async fn pods_without_a_uid_a_namespace_or_a_name_are_noted_each_for_itself() {
    let without = |name: &str, field: &str| {
        let mut pod = pod(name, "1");
        pod["metadata"].as_object_mut().unwrap().remove(field);
        pod
    };
    let broken = [without("a", "uid"), without("b", "uid"), without("c", "namespace"), without("d", "name")];
    let script = Script::new().list(&list("1", &broken)).list(&list("9", &[pod("whole", "9")]));
    let watch = script.open_watch();
    let fed = fed(script);
    fed.cache.synced().await;
    let noted = || {
        let state = fed.cache.read();
        let mut noted: Vec<_> = state.unreadable_on("n1").map(|note| note.object.path()).collect();
        noted.sort();
        noted
    };
    assert_eq!(noted(), ["c", "shop/a", "shop/b", "shop/of unknown name"]);
    assert_eq!(fed.pods(), [""; 0]);
    watch.send(event("ERROR", &status(410, "Expired", "too old")));
    fed.until(|fed| fed.pods() == ["whole"]).await;
    assert_eq!(noted(), [""; 0], "they are gone: the list does not hold them");
}

#[tokio::test(start_paused = true)]
async fn what_was_read_of_a_pod_stays_when_it_can_no_longer_be_read() {
    let mut broken = pod("a", "2");
    broken["spec"]["priority"] = "high".into();
    let script = Script::new().list(&list("1", &[pod("a", "1")]));
    let watch = script.open_watch();
    let script = script.list(&list("9", &[broken.clone()]));
    let _second = script.open_watch();
    let fed = fed(script);
    watch.send(event("MODIFIED", &broken) + &event("ERROR", &status(410, "Expired", "too old")));
    fed.until(|fed| fed.cache.health().of(Kind::Pods).lists == 2).await;
    assert_eq!(fed.pods(), ["a"], "it is still there");
    assert_eq!(fed.cache.read().unreadable().count(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_frame_that_is_no_event_ends_the_watch_and_loses_nothing() {
    let script = Script::new().list(&list("1", &[]));
    let (first, second) = (script.open_watch(), script.open_watch());
    let fed = fed(script);
    first.send(event("ADDED", &pod("a", "2")) + "<html>not JSON</html>\n" + &event("ADDED", &pod("lost", "3")));
    second.send(event("ADDED", &pod("b", "3")));
    fed.until(|fed| fed.pods() == ["a", "b"]).await;
    assert!(fed.script.asked("pods")[2].contains("resourceVersion=2&"));
}

#[tokio::test(start_paused = true)]
async fn an_error_event_without_a_status_is_an_error_and_an_unknown_type_is_skipped() {
    let script = Script::new().list(&list("1", &[]));
    let (first, second) = (script.open_watch(), script.open_watch());
    let fed = fed(script);
    first.send(event("NEWS", &json!({})) + &event("ADDED", &pod("a", "2")) + &event("ERROR", &json!(7)));
    second.send(event("ADDED", &pod("b", "3")));
    fed.until(|fed| fed.pods() == ["a", "b"]).await;
    assert_eq!(fed.cache.health().of(Kind::Pods).errors, 1);
}

#[tokio::test(start_paused = true)]
async fn a_server_that_ends_every_watch_at_once_is_not_asked_in_a_tight_loop() {
    let script = Script::new().list(&list("1", &[])).otherwise(|| Answer::text(200, String::new()));
    let fed = fed(script);
    fed.clock.sleep(Duration::from_secs(300)).await;
    let asked = fed.script.asked("pods").len();
    assert!((10..25).contains(&asked), "asked {asked} times in five minutes");
}

#[tokio::test(start_paused = true)]
async fn watches_that_fail_after_every_list_do_not_have_lists_follow_each_other() {
    let gone = || Answer::refused(410, &status(410, "Expired", "too old"));
    let script =
        Script::new().otherwise_for("pods?limit", || Answer::json(&list("1", &[pod("a", "1")]))).otherwise(gone);
    let fed = fed(script);
    fed.clock.sleep(Duration::from_secs(600)).await;
    assert_eq!(fed.pods(), ["a"]);
    let lists = fed.script.asked("pods?limit").len();
    assert!((15..50).contains(&lists), "listed {lists} times in ten minutes");
}

#[tokio::test(start_paused = true)]
async fn a_list_that_goes_on_where_it_began_is_given_up() {
    let endless = || {
        let mut page = list("1", &[pod("a", "1")]);
        page["metadata"]["continue"] = "again".into();
        Answer::json(&page)
    };
    let script = Script::new().answer_list(endless()).answer_list(endless()).list(&list("2", &[pod("b", "2")]));
    let _watch = script.open_watch();
    let fed = fed(script);
    fed.cache.synced().await;
    assert_eq!(fed.pods(), ["b"]);
    let error = fed.cache.health().of(Kind::Pods).last_error.unwrap();
    assert!(error.ends_with("continue=again: it goes on where it began: the list would never end"), "{error}");
}

#[tokio::test(start_paused = true)]
async fn a_compressed_answer_is_refused_by_name() {
    let gzip = Answer::text(200, "\u{1f}".to_owned()).header("content-encoding", "gzip");
    let script = Script::new().answer_list(gzip).list(&list("1", &[]));
    let _watch = script.open_watch();
    let fed = fed(script);
    fed.cache.synced().await;
    let error = fed.cache.health().of(Kind::Pods).last_error.unwrap();
    assert!(error.contains("application/json, compressed with gzip"), "{error}");
}

#[tokio::test(start_paused = true)]
async fn what_a_server_says_is_kept_as_far_as_somebody_reads_it() {
    let long = Answer::refused(500, &status(500, "InternalError", &"x".repeat(1 << 16)));
    let longer = Answer::refused(500, &status(500, "InternalError", &"x".repeat(2 << 20)));
    let script = Script::new().answer_list(long).answer_list(longer);
    let fed = fed(script);
    fed.until(|fed| fed.cache.health().of(Kind::Pods).errors == 1).await;
    let error = fed.cache.health().of(Kind::Pods).last_error.unwrap();
    assert!(error.starts_with("read /api/v1/pods?limit=500: 500 xxx") && error.len() < 1000, "{}", error.len());
    fed.until(|fed| fed.cache.health().of(Kind::Pods).errors == 2).await;
    let error = fed.cache.health().of(Kind::Pods).last_error.unwrap();
    assert_eq!(&*error, "read /api/v1/pods?limit=500: 500 Internal Server Error");
}

#[tokio::test(start_paused = true)]
async fn a_throttling_server_is_left_alone_as_long_as_it_asks() {
    let throttled = Answer::refused(429, &status(429, "TooManyRequests", "slow down")).header("retry-after", "20");
    let script = Script::new().answer_list(throttled).list(&list("1", &[]));
    let _watch = script.open_watch();
    let fed = fed(script);
    let started = fed.clock.now();
    fed.cache.synced().await;
    assert!(fed.clock.now().duration_since(started).as_secs() >= 20);
    let error = fed.cache.health().of(Kind::Pods).last_error.unwrap();
    assert_eq!(&*error, "read /api/v1/pods?limit=500: 429 slow down");
}

#[tokio::test(start_paused = true)]
async fn nobody_can_have_a_server_left_alone_for_long() {
    let away =
        Answer::refused(503, &status(503, "ServiceUnavailable", "away")).header("retry-after", "18446744073709551615");
    let script = Script::new().answer_list(away).list(&list("1", &[]));
    let _watch = script.open_watch();
    let fed = fed(script);
    let started = fed.clock.now();
    fed.cache.synced().await;
    assert_eq!(fed.clock.now().duration_since(started).as_secs(), 300);
}

#[tokio::test(start_paused = true)]
async fn nothing_is_synced_while_one_kind_is_refused() {
    let script = Script::new()
        .list(&list("1", &[]))
        .otherwise_for("nodes", || Answer::refused(403, &status(403, "Forbidden", "nodes is forbidden")));
    let _watch = script.open_watch();
    let fed = fed(script);
    fed.until(|fed| fed.cache.health().of(Kind::Nodes).errors > 3).await;
    let health = fed.cache.health();
    assert!(health.of(Kind::Pods).synced && !health.of(Kind::Nodes).synced && !health.is_synced());
    assert!(health.of(Kind::Nodes).last_error.unwrap().contains("403 nodes is forbidden"));
    assert_eq!(health.of(Kind::Nodes).last_status, Some(403));
}

#[tokio::test(start_paused = true)]
async fn dropping_the_feeds_ends_their_requests() {
    let script = Script::new().list(&list("1", &[])).otherwise(|| Answer::text(200, String::new()));
    let fed = fed(script);
    fed.cache.synced().await;
    let Fed { script, clock, _feeds, .. } = fed;
    drop(_feeds);
    clock.sleep(Duration::from_secs(1)).await;
    let asked = script.asked("").len();
    clock.sleep(Duration::from_secs(600)).await;
    assert_eq!(script.asked("").len(), asked);
}

#[tokio::test(start_paused = true)]
async fn pods_of_a_node_are_read_past_the_cache_in_pages() {
    let mut first = list("7", &[pod("a", "1")]);
    first["metadata"]["continue"] = "next".into();
    let script = Script::new().list(&first).list(&list("7", &[pod("b", "2")]));
    let pods = list_node_pods(&script.client(), "ip-10-0-0-1.internal").await.unwrap();
    assert_eq!(pods.len(), 2);
    let asked = script.asked("pods");
    assert_eq!(asked[0], "/api/v1/pods?limit=500&fieldSelector=spec.nodeName%3Dip-10-0-0-1.internal");
    assert!(asked[1].ends_with("&continue=next"));
}

#[tokio::test(start_paused = true)]
async fn a_pod_that_cannot_be_read_refuses_the_list_of_a_node() {
    let mut broken = pod("broken", "1");
    broken["spec"]["priority"] = "high".into();
    let script = Script::new().list(&list("7", &[broken]));
    let error = list_node_pods(&script.client(), "n1").await.unwrap_err().to_string();
    assert!(error.contains("shop/broken"), "{error}");
}

#[tokio::test(start_paused = true)]
async fn claims_are_read_with_their_volumes() {
    let claim = |volume: Value| json!({"metadata": {"namespace": "shop", "name": "c"}, "spec": {"volumeName": volume}});
    let script = Script::new().otherwise_for("persistent", || Answer::refused(404, &status(404, "NotFound", "no")));
    script.object("/api/v1/namespaces/shop/persistentvolumeclaims/bound", &claim("pv1".into()));
    script.object("/api/v1/namespaces/shop/persistentvolumeclaims/waiting", &claim(Value::Null));
    let local = json!({"metadata": {"name": "pv1"}, "spec": {"local": {"path": "/d"}}});
    script.object("/api/v1/persistentvolumes/pv1", &local);
    let mut object = pod("a", "1");
    object["spec"]["volumes"] = json!(
        ["bound", "waiting", "missing", "bound"].map(|name| json!({"persistentVolumeClaim": {"claimName": name}}))
    );
    let pods = [crate::cache::decode::pod(&object.to_string()).unwrap().to_pod()];
    let found = volumes(&script.client(), &pods).await.unwrap().claims;
    let key = |name: &str| (Box::from("shop"), Box::from(name));
    assert_eq!(found.len(), 2);
    assert_eq!(found[&key("waiting")], Claim::Unbound);
    assert_eq!(found[&key("bound")], Claim::Bound { volume: "pv1".into(), terms: None, local: true, driver: None });
    assert_eq!(script.asked("").len(), 5, "each claim once, and how many volumes nodes take");
}

#[tokio::test(start_paused = true)]
async fn a_claim_that_may_not_be_read_is_an_error() {
    let script =
        Script::new().otherwise_for("persistent", || Answer::refused(403, &status(403, "Forbidden", "not yours")));
    let mut object = pod("a", "1");
    object["spec"]["volumes"] = json!([{"persistentVolumeClaim": {"claimName": "c"}}]);
    let pods = [crate::cache::decode::pod(&object.to_string()).unwrap().to_pod()];
    let error = volumes(&script.client(), &pods).await.unwrap_err();
    assert!(matches!(error, FeedError::Refused { status: 403, .. }), "{error}");
}
