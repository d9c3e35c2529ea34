use std::task::Poll;
use std::time::Duration;

use axum::body::Body;
use bytes::Bytes;
use futures::stream;
use http::{Method, Request, StatusCode, header};
use rotate_shared::{Code, NodeList, NodeSummary, Phase, PlanList, Rotation, RotationList, VersionInfo};
use tower::ServiceExt as _;

use super::super::testing::{self, get, json, post, problem, send};
use super::*;
use crate::cache::Kind;
use crate::cache::feed::Feeds;
use crate::http::limits;
use crate::surge;

#[tokio::test]
async fn version_is_what_was_built() {
    assert_eq!(json::<VersionInfo>(get(&testing::api(), "/version").await).await, VersionInfo::current());
}

#[tokio::test]
async fn every_answer_says_the_version() {
    for path in ["/version", "/v1/rotations", "/v1/nope"] {
        let response = get(&testing::api(), path).await;
        assert_eq!(response.headers()[names::VERSION_HEADER], env!("CARGO_PKG_VERSION"), "{path}");
    }
}

#[tokio::test]
async fn a_path_that_leads_nowhere_is_a_problem() {
    let problem = problem(get(&testing::api(), "/v1/nope").await).await;
    assert_eq!((problem.status, problem.code), (404, Code::NotFound));
    assert_eq!(problem.detail, r#"path "/v1/nope" not found"#);
}

#[tokio::test]
async fn a_method_that_a_path_lacks_is_a_problem_and_names_those_it_has() {
    let request = Request::builder().method(Method::DELETE).uri("/v1/rotations").body(Body::empty()).unwrap();
    let response = send(&testing::api(), request).await;
    assert_eq!(response.status(), StatusCode::METHOD_NOT_ALLOWED);
    assert_eq!(response.headers()[header::ALLOW], "GET,HEAD,POST");
    assert_eq!(problem(response).await.code, Code::BadRequest);
}

#[tokio::test]
async fn an_agent_that_has_just_started_asks_to_be_asked_again() {
    let api = testing::api();
    for path in ["/v1/rotations", "/v1/rotations/0123456789", "/v1/rotations/0123456789/events", "/v1/nodes"] {
        let response = get(&api, path).await;
        assert_eq!(response.headers()[header::RETRY_AFTER], "1");
        assert_eq!(problem(response).await.code, Code::NotReady, "{path}");
    }
    assert_eq!(problem(post(&api, "/v1/plans", r#"{"nodes":["a"]}"#).await).await.code, Code::NotReady);
    assert_eq!(problem(post(&api, "/v1/rotations", r#"{"nodes":["a"]}"#).await).await.code, Code::NotReady);
}

#[tokio::test(start_paused = true)]
async fn an_agent_that_cannot_read_the_cluster_says_why() {
    let api = testing::api();
    let _feeds = Feeds::run(api.client.clone(), api.cache.clone(), api.clock);
    while api.cache.health().of(Kind::Pods).errors == 0 {
        api.clock.sleep(Duration::from_millis(100)).await;
    }
    let detail = problem(get(&api, "/v1/nodes").await).await.detail;
    assert!(detail.contains(": the last try failed to read /api/v1/pods") && detail.contains("404"), "{detail}");
}

#[tokio::test]
async fn a_field_that_is_not_known_is_refused_by_name() {
    let api = testing::synced();
    for path in ["/v1/plans", "/v1/rotations"] {
        for body in [r#"{"nodes":["a"],"surprise":1}"#, r#"{"nodes":["a"],"options":{"surprise":1}}"#] {
            let problem = problem(post(&api, path, body).await).await;
            assert_eq!((problem.status, problem.code), (400, Code::BadRequest));
            assert!(problem.detail.contains("`surprise`"), "{}", problem.detail);
        }
    }
    let response = get(&api, "/v1/rotations?surprise=1").await;
    assert!(problem(response).await.detail.contains("`surprise`"));
}

#[tokio::test]
async fn a_body_that_is_not_json_is_refused_with_the_place() {
    let problem = problem(post(&testing::synced(), "/v1/rotations", "{\"nodes\": [\n\"a\",, ]}").await).await;
    assert_eq!(problem.status, 400);
    assert!(problem.detail.contains("line 2 column 5"), "{}", problem.detail);
}

#[tokio::test]
async fn another_content_type_is_refused() {
    for kind in [None, Some("text/plain"), Some("application/x-www-form-urlencoded"), Some("application/jsonp")] {
        let mut request = Request::post("/v1/rotations");
        if let Some(kind) = kind {
            request = request.header(header::CONTENT_TYPE, kind);
        }
        let response = send(&testing::synced(), request.body(Body::from(r#"{"nodes":["a"]}"#)).unwrap()).await;
        assert_eq!(problem(response).await.status, 415, "{kind:?}");
    }
}

#[tokio::test]
async fn a_content_type_with_a_charset_is_json() {
    let request = Request::post("/v1/plans").header(header::CONTENT_TYPE, "Application/JSON; charset=utf-8");
    let response = send(&testing::synced(), request.body(Body::from(r#"{"nodes":["a"]}"#)).unwrap()).await;
    assert_eq!(problem(response).await.detail, r#"nodes "a" not found"#);
}

#[tokio::test]
async fn a_body_announced_as_too_large_is_refused_before_it_is_read() {
    let unread = Body::from_stream(stream::poll_fn(|_| -> std::task::Poll<Option<Result<Bytes, std::io::Error>>> {
        panic!("the body was read")
    }));
    let request = Request::post("/v1/rotations")
        .header(header::CONTENT_TYPE, "application/json")
        .header(header::CONTENT_LENGTH, 100_000_000);
    let problem = problem(send(&testing::synced(), request.body(unread).unwrap()).await).await;
    assert_eq!((problem.status, problem.code), (413, Code::BadRequest));
}

#[tokio::test]
async fn a_body_that_does_not_announce_its_size_is_cut_off_at_the_limit() {
    let read = std::sync::Arc::new(std::sync::atomic::AtomicUsize::new(0));
    let counted = std::sync::Arc::clone(&read);
    let endless = stream::repeat_with(move || {
        counted.fetch_add(1 << 16, std::sync::atomic::Ordering::Relaxed);
        Ok::<_, std::io::Error>(Bytes::from(vec![b' '; 1 << 16]))
    });
    let request = Request::post("/v1/rotations").header(header::CONTENT_TYPE, "application/json");
    let response = send(&testing::synced(), request.body(Body::from_stream(endless)).unwrap()).await;
    assert_eq!(problem(response).await.status, 413);
    assert!(read.load(std::sync::atomic::Ordering::Relaxed) <= (1 << 20) + (1 << 16));
}

#[tokio::test]
async fn what_cannot_be_an_id_is_not_found_and_asked_of_nobody() {
    let nobody = tower::service_fn(async |request: Request<kube::client::Body>| {
        Err::<http::Response<kube::client::Body>, _>(format!("asked {}", request.uri()))
    });
    let api = testing::with_client(kube::Client::new(nobody, "default"));
    api.views.publish([]);
    for id in ["..%2F..%2Fsecrets", "..%2f", "0123456789abc", "ABCDEF0123", "%00", "%ff", "0123456789%2Fx", "x"] {
        for path in [format!("/v1/rotations/{id}"), format!("/v1/rotations/{id}/events")] {
            let problem = problem(get(&api, &path).await).await;
            assert_eq!(problem.code, Code::NotFound, "{path}: {}", problem.detail);
        }
        let problem = problem(post(&api, &format!("/v1/rotations/{id}/cancel"), "{}").await).await;
        assert_eq!(problem.code, Code::NotFound);
    }
}

#[tokio::test]
async fn an_unknown_rotation_is_not_found() {
    let problem = problem(get(&testing::synced(), "/v1/rotations/0123456789").await).await;
    assert_eq!((problem.code, &*problem.detail), (Code::NotFound, r#"rotations "0123456789" not found"#));
}

#[tokio::test]
async fn an_unknown_node_is_not_found_as_kubectl_says_it() {
    let api = testing::with_nodes([testing::node("a", &[])]);
    for path in ["/v1/plans", "/v1/rotations"] {
        let problem = problem(post(&api, path, r#"{"nodes":["a","$(reboot)"]}"#).await).await;
        assert_eq!((problem.code, &*problem.detail), (Code::NotFound, r#"nodes "$(reboot)" not found"#));
    }
    let problem = problem(get(&api, "/v1/nodes/..%2F").await).await;
    assert_eq!((problem.code, &*problem.detail), (Code::NotFound, r#"nodes "../" not found"#));
}

#[tokio::test]
async fn nodes_are_named_or_selected() {
    let api = testing::with_nodes([testing::node("a", &[("pool", "web")])]);
    let refused = async |body: &str| problem(post(&api, "/v1/rotations", body).await).await;
    assert_eq!(refused("{}").await.status, 400);
    assert_eq!(refused(r#"{"nodes":["a"],"selector":"pool=web"}"#).await.status, 400);
    assert_eq!(refused(r#"{"selector":" "}"#).await.status, 400);
    let unreadable = refused(r#"{"selector":"pool in web"}"#).await;
    assert_eq!(
        (unreadable.status, &*unreadable.detail),
        (400, r#"failed to read the selector: found "web", expected `(`"#)
    );
    assert_eq!(refused(r#"{"selector":"pool=db"}"#).await.code, Code::NotFound);
}

#[tokio::test]
async fn one_request_means_a_bounded_number_of_nodes() {
    let names: Vec<_> = (0..=limits::ROTATED_NODES).map(|number| format!("n{number}")).collect();
    let api = testing::with_nodes(names.iter().map(|name| testing::node(name, &[("pool", "web")])));
    let named = |count: usize| serde_json::json!({ "nodes": names[..count] }).to_string();
    let most = limits::PLANNED_NODES;
    for (path, body, most, meant) in [
        ("/v1/plans", r#"{"selector":"pool=web"}"#.to_owned(), most, names.len()),
        ("/v1/plans", named(most + 1), most, most + 1),
        ("/v1/rotations", r#"{"selector":"pool=web"}"#.to_owned(), limits::ROTATED_NODES, names.len()),
    ] {
        let problem = problem(post(&api, path, &body).await).await;
        assert_eq!((problem.status, problem.code), (400, Code::BadRequest));
        let said = format!(
            "one request is for at most {most} nodes, and this one means {meant}: ask for some of them at a time"
        );
        assert_eq!(problem.detail, said, "{path}");
    }
    let plans: PlanList = json(post(&api, "/v1/plans", &named(most)).await).await;
    assert_eq!(plans.items.len(), most);
}

#[tokio::test]
async fn options_out_of_range_are_refused_by_name() {
    let api = testing::with_nodes([testing::node("a", &[])]);
    for (option, value) in
        [("maxConcurrent", "0"), ("maxFailures", "0"), ("gracePeriodSeconds", "-2"), ("surge", "\"some\"")]
    {
        let body = format!(r#"{{"nodes":["a"],"options":{{"{option}":{value}}}}}"#);
        let problem = problem(post(&api, "/v1/rotations", &body).await).await;
        assert_eq!(problem.status, 400, "{option}");
    }
    let long = format!(r#"{{"nodes":["a"],"options":{{"reason":"{}"}}}}"#, "x".repeat(2000));
    assert!(problem(post(&api, "/v1/rotations", &long).await).await.detail.starts_with("reason"));
}

#[tokio::test]
async fn an_idempotency_key_must_be_a_short_line() {
    let api = testing::synced();
    for key in [String::new(), "x".repeat(129)] {
        let request = Request::post("/v1/rotations")
            .header(header::CONTENT_TYPE, "application/json")
            .header("idempotency-key", key);
        let response = send(&api, request.body(Body::from(r#"{"nodes":["a"]}"#)).unwrap()).await;
        assert!(problem(response).await.detail.starts_with("Idempotency-Key"));
    }
}

#[tokio::test]
async fn the_fleet_is_listed_by_name_and_selected_by_label() {
    let pools = [("b", "web"), ("a", "web"), ("c", "db")];
    let api = testing::with_nodes(pools.map(|(name, pool)| testing::node(name, &[("pool", pool)])));
    api.views.publish([testing::rotation("0123456789", "a", Phase::Draining)]);
    let list: NodeList = json(get(&api, "/v1/nodes").await).await;
    let names: Vec<_> = list.items.iter().map(|node| node.name.as_str()).collect();
    assert_eq!(names, ["a", "b", "c"]);
    assert_eq!(list.items[0].rotation.as_deref(), Some("0123456789"));
    let list: NodeList = json(get(&api, "/v1/nodes?selector=pool%20in%20(db)").await).await;
    assert_eq!(list.items.len(), 1);
    let list: NodeList = json(get(&api, "/v1/nodes?selector=pool%3Dnone").await).await;
    assert_eq!(list.items, []);
    assert_eq!(problem(get(&api, "/v1/nodes?selector=%3D").await).await.status, 400);
    let node: NodeSummary = json(get(&api, "/v1/nodes/b").await).await;
    assert_eq!((node.name.as_str(), node.pods_revision), ("b", None));
    api.cache.write(|state| state.set_revision(Kind::Pods, "42"));
    let node: NodeSummary = json(get(&api, "/v1/nodes/b").await).await;
    assert_eq!(node.pods_revision.as_deref(), Some("42"));
}

#[tokio::test(start_paused = true)]
async fn each_change_is_in_the_very_next_answer_about_a_node() {
    use serde_json::{Value, json};

    let api = testing::with_nodes([testing::node("cand", &[])]);
    let told = async || {
        let node: NodeSummary = testing::json(get(&api, "/v1/nodes/cand").await).await;
        (node.ready, node.pods.unwrap(), node.movable_pods.unwrap(), node.blockers.unwrap())
    };
    let pod = |over: &Value| api.cache.write(|state| state.apply_pod(&surge::testing::pod("shop", "web", over).view()));
    assert_eq!(told().await, (true, 0, 0, 0));
    pod(&json!({}));
    assert_eq!(told().await, (true, 1, 1, 0));
    pod(&json!({"spec": {"volumes": [{"name": "scratch", "emptyDir": {}}]}}));
    assert_eq!(told().await, (true, 1, 1, 1));
    let marked = json!({"annotations": {names::KARPENTER_DO_NOT_DISRUPT: "10m"}});
    pod(&json!({"metadata": marked, "status": {"startTime": api.clock.now().to_string()}}));
    assert_eq!(told().await, (true, 1, 1, 1));
    api.clock.sleep(Duration::from_secs(601)).await;
    assert_eq!(told().await, (true, 1, 1, 0), "its mark has ended");
    pod(&json!({"spec": {"schedulerName": "volcano"}, "metadata": {"deletionTimestamp": surge::testing::CREATED}}));
    assert_eq!(told().await, (true, 1, 1, 0), "it goes by itself");
    api.cache.write(|state| state.note_unreadable(surge::testing::unreadable("web", "cand")));
    assert_eq!(told().await, (true, 1, 1, 1));
    api.cache.write(|state| {
        state.remove_pod("web");
        state.apply_node(crate::cache::Node { ready: false, ..testing::node("cand", &[]) });
    });
    assert_eq!(told().await, (false, 0, 0, 0));
}

#[tokio::test]
async fn a_fleet_of_many_nodes_lets_others_go_on_while_it_is_listed() {
    let api = testing::with_nodes((0..200).map(|number| testing::node(&format!("n{number}"), &[])));
    let mut answer = std::pin::pin!(get(&api, "/v1/nodes"));
    let begun = std::future::poll_fn(|context| Poll::Ready(answer.as_mut().poll(context).is_pending())).await;
    assert!(begun, "not answered in one go");
    api.cache.write(|state| state.remove_node("n99", "uid-n99"));
    let list: NodeList = json(answer.await).await;
    assert_eq!(list.items.len(), 199, "n99 is the last, and gone by then");
}

#[tokio::test]
async fn rotations_are_found_by_node_and_by_batch() {
    let api = testing::synced();
    let mut batched = testing::rotation("1111111111", "b", Phase::Draining);
    batched.batch = Some("beef".to_owned());
    api.views.publish([testing::rotation("0000000000", "a", Phase::Succeeded), batched]);
    let ids = async |path: &str| -> Vec<String> {
        let list: RotationList = json(get(&api, path).await).await;
        list.items.into_iter().map(|rotation| rotation.id).collect()
    };
    assert_eq!(ids("/v1/rotations").await, ["1111111111", "0000000000"]);
    assert_eq!(ids("/v1/rotations?node=a").await, ["0000000000"]);
    assert_eq!(ids("/v1/rotations?batch=beef").await, ["1111111111"]);
    assert_eq!(ids("/v1/rotations?batch=beef&node=a").await, [""; 0]);
    assert_eq!(json::<Rotation>(get(&api, "/v1/rotations/0000000000").await).await.node, "a");
}

#[tokio::test]
async fn a_panic_is_a_problem_and_the_agent_lives_on() {
    let api = testing::synced();
    let router = Router::new()
        .route("/panic", axum::routing::get(async || -> &'static str { panic!("the shelf fell") }))
        .layer(middleware::from_fn(async |request, next: Next| problem::contain(next.run(request)).await));
    let response = router.oneshot(Request::get("/panic").body(Body::empty()).unwrap()).await.unwrap();
    let problem = problem(response).await;
    assert_eq!(problem.code, Code::Internal);
    assert!(!problem.detail.contains("shelf"), "what a panic says is for the log");
    assert_eq!(get(&api, "/livez").await.status(), StatusCode::OK);
}
