use std::time::Duration;

use axum::body::{Body, BodyDataStream};
use http::{Request, header};
use rotate_shared::Phase;

use super::super::testing::{self, send};
use super::*;

/// The next piece of an event stream, or `None` at its end.
async fn piece(body: &mut BodyDataStream) -> Option<String> {
    let piece = tokio::time::timeout(Duration::from_secs(60), body.next()).await.expect("something comes")?;
    Some(String::from_utf8(piece.unwrap().to_vec()).unwrap())
}

fn framed(api: &Api, rotation: &Rotation) -> String {
    format!("id: {}\ndata: {}\n\n", api.views.event_id(rotation), serde_json::to_string(rotation).unwrap())
}

async fn follow(api: &Api, last: Option<&str>) -> BodyDataStream {
    let mut request = Request::get("/v1/rotations/0123456789/events");
    if let Some(last) = last {
        request = request.header("last-event-id", last);
    }
    let response = send(api, request.body(Body::empty()).unwrap()).await;
    assert_eq!(response.headers()[header::CONTENT_TYPE], "text/event-stream");
    response.into_body().into_data_stream()
}

fn publish(api: &Api, phase: Phase) -> Rotation {
    api.views.publish([testing::rotation("0123456789", "a", phase)]);
    (*api.views.get("0123456789").unwrap()).clone()
}

#[tokio::test(start_paused = true)]
async fn a_follower_gets_the_present_state_each_change_and_the_end() {
    let api = testing::synced();
    let mut expected = publish(&api, Phase::Queued);
    let mut events = follow(&api, None).await;
    for phase in [Phase::Surging, Phase::Draining, Phase::Settling, Phase::Removing, Phase::Succeeded] {
        assert_eq!(piece(&mut events).await.unwrap(), framed(&api, &expected));
        expected = publish(&api, phase);
    }
    assert_eq!(piece(&mut events).await.unwrap(), framed(&api, &expected));
    assert_eq!(piece(&mut events).await, None);
}

#[tokio::test(start_paused = true)]
async fn a_follower_that_is_slow_gets_the_newest_state_only() {
    let api = testing::synced();
    publish(&api, Phase::Queued);
    let mut events = follow(&api, None).await;
    publish(&api, Phase::Surging);
    let newest = publish(&api, Phase::Draining);
    assert_eq!(piece(&mut events).await.unwrap(), framed(&api, &newest));
}

#[tokio::test(start_paused = true)]
async fn a_follower_that_comes_back_gets_nothing_twice_and_after_a_gap_the_present_state() {
    let api = testing::synced();
    let seen = publish(&api, Phase::Surging);
    let mut events = follow(&api, Some(&api.views.event_id(&seen))).await;
    assert_eq!(piece(&mut events).await.unwrap(), ": still here\n\n", "it has that state already");
    let next = publish(&api, Phase::Draining);
    assert_eq!(piece(&mut events).await.unwrap(), framed(&api, &next));

    let revision = next.revision.to_string();
    for gap in [&*api.views.event_id(&seen), &*revision, "999", "what", ""] {
        assert_eq!(piece(&mut follow(&api, Some(gap)).await).await.unwrap(), framed(&api, &next), "after {gap}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_follower_that_comes_from_another_agent_gets_the_present_state() {
    let (before, api) = (testing::synced(), testing::synced());
    let seen = publish(&before, Phase::Surging);
    let end = publish(&api, Phase::Succeeded);
    assert_eq!(seen.revision, end.revision, "each agent counts by itself");
    let mut events = follow(&api, Some(&before.views.event_id(&seen))).await;
    assert_eq!(piece(&mut events).await.unwrap(), framed(&api, &end));
}

#[tokio::test(start_paused = true)]
async fn a_silent_stream_says_that_it_lives() {
    let api = testing::synced();
    publish(&api, Phase::Surging);
    let mut events = follow(&api, None).await;
    piece(&mut events).await.unwrap();
    let before = tokio::time::Instant::now();
    assert_eq!(piece(&mut events).await.unwrap(), ": still here\n\n");
    assert_eq!(before.elapsed().as_secs(), 15);
}

#[tokio::test(start_paused = true)]
async fn a_follower_of_a_rotation_that_is_over_gets_its_end_once() {
    let api = testing::synced();
    let end = publish(&api, Phase::Succeeded);
    let mut events = follow(&api, None).await;
    assert_eq!(piece(&mut events).await.unwrap(), framed(&api, &end));
    assert_eq!(piece(&mut events).await, None);
    assert_eq!(piece(&mut follow(&api, Some(&api.views.event_id(&end))).await).await, None);
}

#[tokio::test(start_paused = true)]
async fn a_stream_ends_with_the_record_and_with_the_agent() {
    let api = testing::synced();
    publish(&api, Phase::Surging);
    let mut events = follow(&api, None).await;
    piece(&mut events).await.unwrap();
    api.views.publish([]);
    assert_eq!(piece(&mut events).await, None);

    publish(&api, Phase::Surging);
    let mut events = follow(&api, None).await;
    piece(&mut events).await.unwrap();
    api.closing.cancel();
    assert_eq!(piece(&mut events).await, None);
}
