//! Watches, as a raw stream of lines.

use super::*;

/// An open watch.
struct Lines {
    body: Body,
    buffer: Vec<u8>,
}

impl Lines {
    async fn open(sim: &Sim, path: &str) -> Self {
        let request = Request::get(path).body(Body::empty()).unwrap();
        let response = sim.router().oneshot(request).await.unwrap();
        assert_eq!(response.status(), 200);
        Self { body: response.into_body(), buffer: Vec::new() }
    }

    /// The next event; `None` at the end.
    async fn next(&mut self) -> Option<Value> {
        loop {
            if let Some(end) = self.buffer.iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = self.buffer.drain(..=end).collect();
                return Some(serde_json::from_slice(&line).unwrap());
            }
            let frame = self.body.frame().await?.unwrap();
            self.buffer.extend_from_slice(&frame.into_data().unwrap());
        }
    }

    /// What comes within a while.
    async fn within(&mut self, wait: Duration) -> Vec<Value> {
        let mut events = Vec::new();
        let all = async {
            while let Some(event) = self.next().await {
                events.push(event);
            }
        };
        // That time is up is how it usually ends.
        let _ = tokio::time::timeout(wait, all).await;
        events
    }
}

fn kinds(events: &[Value]) -> Vec<&str> {
    events.iter().map(|event| event["type"].as_str().unwrap()).collect()
}

async fn version(sim: &Sim) -> String {
    get(sim, MAPS).await.1["metadata"]["resourceVersion"].as_str().unwrap().to_owned()
}

#[tokio::test(start_paused = true)]
async fn a_watch_goes_on_from_a_list_without_a_gap() {
    let sim = web(0).await;
    let from = version(&sim).await;
    sim.create(config_map("before"));
    let mut watch = Lines::open(&sim, &format!("{MAPS}?watch=true&resourceVersion={from}")).await;
    sim.create(config_map("after"));
    sim.edit("configmaps", "default", "after", |map| map["data"]["a"] = json!("2"));
    sim.delete("configmaps", "default", "after");
    let events = watch.within(Duration::from_secs(1)).await;
    assert_eq!(kinds(&events), ["ADDED", "ADDED", "MODIFIED", "DELETED"]);
    assert_eq!(events[0]["object"]["kind"], "ConfigMap");
    let versions: Vec<u64> = events
        .iter()
        .map(|event| event["object"]["metadata"]["resourceVersion"].as_str().unwrap().parse().unwrap())
        .collect();
    assert!(versions.is_sorted_by(|a, b| a < b), "{versions:?}");
}

#[tokio::test(start_paused = true)]
async fn an_object_that_leaves_the_selection_is_deleted_for_the_watcher() {
    let sim = web(0).await;
    sim.create(pod("a", "default", &template("a", "1", "1Gi")));
    let mut here = Lines::open(&sim, "/api/v1/pods?watch=true&fieldSelector=spec.nodeName=").await;
    let mut there = Lines::open(&sim, "/api/v1/pods?watch=true&fieldSelector=spec.nodeName=n1").await;
    let left = here.within(Duration::from_secs(5)).await;
    assert_eq!(kinds(&left), ["ADDED", "DELETED"]);
    assert!(left[1]["object"]["spec"].get("nodeName").is_none(), "its last state within the selection");
    let came = there.within(Duration::from_secs(5)).await;
    assert_eq!(came[0]["type"], "ADDED");
}

#[tokio::test(start_paused = true)]
async fn a_streaming_list_ends_with_an_annotated_bookmark() {
    let sim = web(3).await;
    let query = "watch=true&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true";
    let mut watch = Lines::open(&sim, &format!("/api/v1/pods?{query}&labelSelector=app%3Dweb")).await;
    let events = watch.within(Duration::from_secs(1)).await;
    assert_eq!(kinds(&events), ["ADDED", "ADDED", "ADDED", "BOOKMARK"]);
    assert_eq!(events[3]["object"]["metadata"]["annotations"]["k8s.io/initial-events-end"], "true");
    let refused = get(&sim, "/api/v1/pods?watch=true&sendInitialEvents=true").await;
    assert_eq!(refused.0, 422);
}

#[tokio::test(start_paused = true)]
async fn bookmarks_come_at_intervals_and_carry_the_version_of_everything() {
    let sim = web(0).await;
    let mut watch = Lines::open(&sim, &format!("{MAPS}?watch=true&allowWatchBookmarks=true")).await;
    sim.add_node(NodeSpec::new("n2"));
    let events = watch.within(Duration::from_secs(130)).await;
    assert_eq!(kinds(&events), ["BOOKMARK", "BOOKMARK"]);
    assert_eq!(events[0]["object"]["metadata"]["resourceVersion"], json!(version(&sim).await));
}

#[tokio::test(start_paused = true)]
async fn a_watch_ends_at_its_timeout_and_when_watches_are_dropped() {
    let sim = web(0).await;
    let mut short = Lines::open(&sim, &format!("{MAPS}?watch=true&timeoutSeconds=30")).await;
    let before = sim.now();
    assert_eq!(short.next().await, None);
    assert_eq!(sim.now().duration_since(before).as_secs(), 30);
    let mut dropped = Lines::open(&sim, &format!("{MAPS}?watch=true")).await;
    sim.faults().drop_watches();
    assert_eq!(dropped.next().await, None);
    let mut fresh = Lines::open(&sim, &format!("{MAPS}?watch=true")).await;
    sim.create(config_map("m"));
    assert_eq!(fresh.next().await.unwrap()["type"], "ADDED");
    sim.shutdown();
    assert_eq!(fresh.next().await, None);
}

#[tokio::test(start_paused = true)]
async fn a_version_that_is_forgotten_ends_in_410() {
    let sim = web(0).await;
    let old = version(&sim).await;
    sim.create(config_map("m"));
    sim.faults().compact();
    let mut watch = Lines::open(&sim, &format!("{MAPS}?watch=true&resourceVersion={old}")).await;
    let error = watch.next().await.unwrap();
    assert_eq!(error["type"], "ERROR");
    assert_eq!((&error["object"]["code"], &error["object"]["reason"]), (&json!(410), &json!("Expired")));
    assert_eq!(watch.next().await, None);
    let present = version(&sim).await;
    let mut watch = Lines::open(&sim, &format!("{MAPS}?watch=true&resourceVersion={present}")).await;
    assert!(watch.within(Duration::from_secs(1)).await.is_empty());
}

#[tokio::test(start_paused = true)]
async fn history_is_kept_to_its_limit() {
    let sim = Sim::start(Settings { history: 3, ..Settings::default() });
    let from = version(&sim).await;
    for name in ["a", "b", "c", "d"] {
        sim.create(config_map(name));
    }
    let mut watch = Lines::open(&sim, &format!("{MAPS}?watch=true&resourceVersion={from}")).await;
    assert_eq!(watch.next().await.unwrap()["object"]["code"], 410);
}
