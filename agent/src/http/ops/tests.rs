use std::time::Duration;

use axum::body::Body;
use axum::response::Response;
use http::{Request, StatusCode, header};
use http_body_util::BodyExt as _;
use kube::Client;
use rotate_sim::{Settings, Sim};
use tower::ServiceExt as _;

use super::super::testing;
use super::*;
use crate::cache::feed::Feeds;
use crate::clock::Clock;

async fn get(api: &Api, path: &str) -> (Response<()>, String) {
    let request = Request::get(path).body(Body::empty()).unwrap();
    let (parts, body) = router(api.clone()).oneshot(request).await.unwrap().into_parts();
    let body = body.collect().await.unwrap().to_bytes();
    (Response::from_parts(parts, ()), String::from_utf8(body.to_vec()).unwrap())
}

#[tokio::test]
async fn an_agent_that_has_just_started_is_alive_and_says_why_it_is_not_ready() {
    let api = testing::api();
    assert_eq!(get(&api, "/livez").await.0.status(), StatusCode::OK);
    let (response, body) = get(&api, "/readyz").await;
    assert_eq!(response.status(), StatusCode::SERVICE_UNAVAILABLE);
    assert_eq!(
        body,
        "[-] the cluster's pods, nodes, poddisruptionbudgets are still being read\n\
         [-] the rotations' records are still being read\n"
    );
}

#[tokio::test]
async fn an_agent_that_has_read_everything_is_ready() {
    let api = testing::synced();
    let (response, body) = get(&api, "/readyz").await;
    assert_eq!((response.status(), body.as_str()), (StatusCode::OK, "ok\n"));
}

#[tokio::test(start_paused = true)]
async fn a_feed_that_is_cut_off_is_named_with_the_time_since_which_it_is() {
    // On a quiet kind a real API server sends the first bookmark after about two minutes.
    let bookmarks = Duration::from_secs(125);
    let epoch = "2026-11-29T10:00:00Z".parse().ok();
    let sim = Sim::start(Settings { epoch, bookmarks, ..Settings::default() });
    let mut api = testing::with_client(Client::new(sim.router(), "default"));
    api.clock = Clock::starting_at(sim.now());
    api.views.publish([]);
    let _feeds = Feeds::run(api.client.clone(), api.cache.clone(), api.clock);
    api.cache.synced().await;
    api.clock.sleep(Duration::from_secs(600)).await;
    assert_eq!(get(&api, "/readyz").await.1, "ok\n", "a quiet cluster is no silent one");
    sim.faults().refuse(true);
    sim.faults().drop_watches();
    api.clock.sleep(Duration::from_secs(70)).await;
    assert_eq!(get(&api, "/readyz").await.1, "ok\n", "what was read is not old yet");
    api.clock.sleep(Duration::from_secs(200)).await;
    let (response, body) = get(&api, "/readyz").await;
    assert_eq!(response.status(), StatusCode::SERVICE_UNAVAILABLE);
    let reason = body.lines().next().unwrap();
    assert!(reason.starts_with("[-] nothing was heard of pods for 3"), "{body}");
    assert!(reason.contains(" s, since 2026-11-29T10:"), "{body}");
    assert_eq!(body.lines().count(), 3, "{body}");
    let (_, metrics) = get(&api, "/metrics").await;
    assert!(metrics.contains("\nrotate_feed_connected{kind=\"pods\"} 0\n"), "{metrics}");
    assert!(!metrics.contains("\nrotate_feed_errors_total{kind=\"pods\"} 0\n"), "{metrics}");
    sim.faults().refuse(false);
    api.clock.sleep(Duration::from_secs(31)).await;
    assert_eq!(get(&api, "/readyz").await.1, "ok\n", "it comes back by itself");
}

#[tokio::test]
async fn metrics_count_and_name_nobody() {
    let api = testing::with_nodes([testing::node("node-secret-name", &[])]);
    api.views.publish([testing::rotation("0123456789", "node-secret-name", rotate_shared::Phase::Draining)]);
    let (response, body) = get(&api, "/metrics").await;
    assert_eq!(response.headers()[header::CONTENT_TYPE], "text/plain; version=0.0.4; charset=utf-8");
    assert!(body.contains("\nrotate_cache_nodes 1\n"), "{body}");
    assert!(body.contains("\nrotate_rotations{phase=\"Draining\"} 1\n"), "{body}");
    assert!(body.contains("\nrotate_feed_synced{kind=\"pods\"} 1\n"), "{body}");
    assert!(!body.contains("secret"), "{body}");
    assert!(!body.contains("0123456789"), "{body}");
}

#[tokio::test]
async fn metrics_are_well_formed() {
    let (_, body) = get(&testing::synced(), "/metrics").await;
    assert!(body.ends_with('\n'));
    let mut described = "";
    for line in body.lines() {
        if let Some(help) = line.strip_prefix("# HELP ") {
            described = help.split_once(' ').unwrap().0;
        } else if let Some(kind) = line.strip_prefix("# TYPE ") {
            let expected = if described.ends_with("_total") { "counter" } else { "gauge" };
            assert_eq!(kind, format!("{described} {expected}"));
        } else {
            let (series, value) = line.rsplit_once(' ').unwrap();
            assert_eq!(series.split('{').next().unwrap(), described);
            value.parse::<f64>().unwrap();
        }
    }
}
