//! Streaming lists: the beginning of a watch that then goes on.

use super::script::{initial_end, unstreamed};
use super::*;
use crate::cache::feed::source::shard_selector;
use crate::cache::feed::{Source, confirm_shards};
use crate::cache::index::{Partition, ShardRange, shard_hash};

const ALL: &str =
    "/api/v1/pods?watch=true&allowWatchBookmarks=true&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&";

fn streamed(script: Script) -> Fed {
    fed_with(Options::default(), script)
}

/// The Pods that the initial events show, one after the other.
fn initial(names: &[&str]) -> String {
    names.iter().map(|name| event("ADDED", &pod(name, "1"))).collect()
}

#[tokio::test(start_paused = true)]
async fn a_list_is_streamed_and_the_same_connection_goes_on_as_the_watch() {
    let script = Script::new();
    let stream = script.open_stream();
    let fed = streamed(script);
    stream.send(initial(&["a", "b"]));
    fed.until(|fed| fed.pods() == ["a", "b"]).await;
    let health = fed.cache.health().of(Kind::Pods);
    assert!(!health.synced && health.connected);
    assert_eq!(health.reading, Some(2));
    assert_eq!(fed.revision(), None, "what a part of a list holds is not everything up to a resourceVersion");
    // The end of the list and what comes behind it, in one piece.
    stream.send(initial(&["c"]) + &initial_end("7") + &event("DELETED", &pod("a", "8")));
    fed.cache.synced().await;
    fed.until(|fed| fed.pods() == ["b", "c"]).await;
    assert_eq!(fed.revision().as_deref(), Some("8"));
    let health = fed.cache.health().of(Kind::Pods);
    assert_eq!((health.lists, health.reading, health.errors), (1, None, 0));
    let asked = fed.script.asked("pods");
    assert_eq!(asked.len(), 1);
    let (query, seconds) = asked[0].split_once("timeoutSeconds=").unwrap();
    assert_eq!(query, ALL);
    assert!((1800..=2100).contains(&seconds.parse().unwrap()), "a slow line has time for it");
}

#[tokio::test(start_paused = true)]
async fn a_streaming_list_sweeps_what_it_did_not_hold() {
    let script = Script::new();
    let (first, second) = (script.open_stream(), script.open_stream());
    let fed = streamed(script);
    first.send(initial(&["gone", "stays"]) + &initial_end("1"));
    fed.cache.synced().await;
    first.send(event("ERROR", &status(410, "Expired", "too old")));
    second.send(initial(&["new", "stays"]));
    fed.until(|fed| fed.pods() == ["gone", "new", "stays"]).await;
    second.send(initial_end("9"));
    fed.until(|fed| fed.pods() == ["new", "stays"]).await;
    assert_eq!(fed.revision().as_deref(), Some("9"));
}

#[tokio::test(start_paused = true)]
async fn a_streaming_list_that_breaks_off_sweeps_nothing_and_begins_again() {
    let script = Script::new();
    let (first, broken, third) = (script.open_stream(), script.open_stream(), script.open_stream());
    let fed = streamed(script);
    first.send(initial(&["a", "b"]) + &initial_end("1") + &event("ERROR", &status(410, "Expired", "too old")));
    broken.send(initial(&["b"]));
    fed.until(|fed| fed.cache.health().of(Kind::Pods).reading == Some(1)).await;
    drop(broken);
    fed.until(|fed| fed.script.asked("sendInitialEvents").iter().filter(|path| path.contains("pods?")).count() == 3)
        .await;
    assert_eq!(fed.pods(), ["a", "b"]);
    assert!(fed.cache.health().of(Kind::Pods).last_error.unwrap().contains("before its last object"));
    third.send(initial(&["b"]) + &initial_end("9"));
    fed.until(|fed| fed.pods() == ["b"]).await;
}

#[tokio::test(start_paused = true)]
async fn a_server_that_refuses_to_stream_is_read_in_pages_and_asked_no_more() {
    let gone = || Answer::refused(410, &status(410, "Expired", "too old"));
    let script = Script::new().list(&list("1", &[pod("a", "1")])).watch(gone()).list(&list("2", &[pod("b", "2")]));
    let _watch = script.open_watch();
    let fed = streamed(script.stream(unstreamed()));
    fed.cache.synced().await;
    fed.until(|fed| fed.pods() == ["b"]).await;
    let streams = fed.script.asked("api/v1/pods?watch=true&allowWatchBookmarks=true&sendInitialEvents");
    assert_eq!(streams.len(), 1, "remembered for as long as the process lives");
    assert_eq!(fed.cache.health().of(Kind::Pods).errors, 1, "only the forgotten revision is an error");
}

#[tokio::test(start_paused = true)]
async fn a_server_that_ignores_the_request_to_stream_is_read_in_pages() {
    let script = Script::new().list(&list("5", &[pod("a", "1"), pod("b", "1")]));
    let stream = script.open_stream();
    let _watch = script.open_watch();
    let fed = streamed(script);
    stream.send(initial(&["a", "x"]) + &bookmark("4"));
    fed.cache.synced().await;
    assert_eq!(fed.pods(), ["a", "b"]);
    assert_eq!(fed.revision().as_deref(), Some("5"));
    assert!(fed.script.asked("pods")[1].starts_with("/api/v1/pods?limit=500"));
}

#[tokio::test(start_paused = true)]
async fn a_server_that_breaks_off_every_stream_is_read_in_pages_in_between() {
    let empty = || Answer::text(200, String::new());
    let script = Script::new().stream(empty()).stream(empty()).list(&list("5", &[pod("a", "1")]));
    let _watch = script.open_watch();
    let fed = streamed(script);
    fed.cache.synced().await;
    assert_eq!(fed.pods(), ["a"]);
    assert_eq!(fed.cache.health().of(Kind::Pods).errors, 2);
}

#[tokio::test(start_paused = true)]
async fn a_streaming_list_that_falls_silent_is_given_up() {
    let script = Script::new();
    let (silent, second) = (script.open_stream(), script.open_stream());
    let fed = streamed(script);
    silent.send(initial(&["a"]));
    second.send(initial(&["a"]) + &initial_end("2"));
    fed.cache.synced().await;
    assert_eq!(fed.cache.health().of(Kind::Pods).stalls, 1);
}

#[tokio::test(start_paused = true)]
async fn lists_that_break_off_are_not_begun_again_in_a_tight_loop() {
    let script = Script::new().otherwise_for("pods?limit", || Answer::text(500, String::new()));
    let streams: Vec<_> = (0..100).map(|_| script.open_stream()).collect();
    let fed = streamed(script);
    for stream in streams {
        stream.send(initial(&["a"]));
    }
    fed.clock.sleep(Duration::from_secs(600)).await;
    let asked = fed.script.asked("api/v1/pods?").len();
    assert!((20..50).contains(&asked), "asked {asked} times in ten minutes");
}

#[tokio::test(start_paused = true)]
async fn an_answer_of_another_content_type_is_refused_by_name() {
    let script = Script::new()
        .stream(Answer::typed("text/html; charset=utf-8", "<html>Log in</html>"))
        .stream(Answer::typed("application/cbor-seq", "x"));
    let stream = script.open_stream();
    let fed = streamed(script);
    fed.until(|fed| fed.cache.health().of(Kind::Pods).errors == 1).await;
    let error = fed.cache.health().of(Kind::Pods).last_error.unwrap();
    assert!(error.contains("/api/v1/pods?watch=true") && error.contains("text/html; charset=utf-8"), "{error}");
    stream.send(initial_end("1"));
    fed.until(|fed| fed.script.asked("limit=500").iter().any(|path| path.contains("/pods"))).await;
}

#[tokio::test(start_paused = true)]
async fn several_shards_are_one_cache_up_to_the_revision_that_all_have_reached() {
    let (low, high) = shard_names(range(0));
    let script = Script::new().list(&confirmed(range(0))).list(&confirmed(range(1)));
    let (first, second) = (script.open_stream(), script.open_stream());
    let fed = fed_with(Options { shards: 2, ..Options::default() }, script);
    first.send(event("ADDED", &pod(&low, "1")) + &initial_end("20"));
    fed.until(|fed| fed.pods().len() == 1 && fed.cache.health().feeds().any(|(_, feed)| feed.synced)).await;
    assert_eq!(fed.revision(), None, "nothing is known of the other half");
    assert!(!fed.cache.health().of(Kind::Pods).synced, "half of the Pods are not read");
    second.send(event("ADDED", &pod(&high, "1")) + &initial_end("9"));
    fed.cache.synced().await;
    assert_eq!(fed.revision().as_deref(), Some("9"));
    second.send(event("MODIFIED", &pod(&high, "30")));
    fed.until(|fed| fed.revision().as_deref() == Some("20")).await;
    let mut both = [low.clone(), high.clone()];
    both.sort();
    assert_eq!(fed.pods(), both);
    let probes: Vec<_> = fed.script.asked("limit=1&shardSelector=shardRange%28object.metadata.uid");
    assert_eq!(probes.len(), 2);
}

/// One of two shards.
fn range(at: usize) -> ShardRange {
    match Source::shards(2)[at].partition {
        Partition::Shard(range) => range,
        ref other => panic!("{other:?}"),
    }
}

/// What a server that divides answers to the probe.
fn confirmed(range: ShardRange) -> Value {
    let mut list = list("1", &[]);
    list["metadata"]["shardInfo"] = json!({"selector": shard_selector(range)});
    list
}

/// Names of Pods whose UIDs lie in this shard and not in it.
fn shard_names(range: ShardRange) -> (String, String) {
    let within = |name: &String| (range.first..=range.last).contains(&shard_hash(&format!("uid-{name}")));
    // The hash mixes what comes first the most.
    let names = || (0..100).map(|number| format!("{number}-of-some-name"));
    (names().find(within).unwrap(), names().find(|name| !within(name)).unwrap())
}

#[tokio::test(start_paused = true)]
async fn a_server_that_does_not_confirm_the_shard_ends_the_feed_with_a_clear_word() {
    let script = Script::new().list(&list("1", &[]));
    let cache = Cache::new(State::default());
    let clock = Clock::starting_at("2026-11-29T10:00:00Z".parse().unwrap());
    let options = Options { shards: 2, ..Options::default() };
    let mut feeds = Feeds::run_with(script.client(), options, cache.clone(), clock);
    let ended = feeds.ended().await;
    assert!(ended.contains("ShardedListAndWatch") && ended.starts_with("the feed of Pods"), "{ended}");
    assert!(!cache.health().is_synced());
    let script = Script::new().list(&list("1", &[]));
    let error = confirm_shards(script.client(), 2).await.unwrap_err();
    assert!(matches!(error, FeedError::NotSharded), "{error}");
}

#[tokio::test(start_paused = true)]
async fn a_pod_that_is_not_in_the_shard_ends_the_feed() {
    let script = Script::new().list(&confirmed(range(0)));
    let stream = script.open_stream();
    let (_, foreign) = shard_names(range(0));
    stream.send(event("ADDED", &pod(&foreign, "1")));
    let cache = Cache::new(State::default());
    let clock = Clock::starting_at("2026-11-29T10:00:00Z".parse().unwrap());
    let mut feeds = Feeds::new(script.client(), Options::default(), cache.clone(), clock);
    feeds.start(Source::shards(2)[0].clone());
    assert!(feeds.ended().await.contains("ShardedListAndWatch"));
    assert_eq!(cache.read().pods().count(), 0);
}
