//! What a caller may send that nobody means well with: the right status, a problem document, and nothing done.

use std::time::Duration;

use http::Method;
use rotate_shared::{Code, names};
use tokio::io::AsyncReadExt as _;

use crate::guarded::{Guarded, code, follow, guarded, rotate};

/// An agent, and the token of an operator.
async fn world() -> (Guarded, String) {
    let world = guarded().await;
    let token = world.token("rotate-operator", names::AUDIENCE).await;
    (world, token)
}

/// A request with these headers.
fn request(line: &str, token: &str, headers: &[&str], body: &[u8]) -> Vec<u8> {
    let mut text = format!("{line}\r\nauthorization: Bearer {token}\r\nconnection: close\r\n");
    for header in headers {
        text += &format!("{header}\r\n");
    }
    text += &format!("content-length: {}\r\n\r\n", body.len());
    [text.as_bytes(), body].concat()
}

#[tokio::test]
async fn no_token_an_expired_one_and_one_for_somebody_else_are_all_unauthenticated() {
    let world = guarded().await;
    let (status, body) = world.say(b"GET /v1/nodes HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n").await;
    assert_eq!((status, code(&body)), (401, Code::Unauthenticated));
    let other = world.token("rotate-operator", "https://kubernetes.default.svc").await;
    let expired = world.cluster.token_for("rotate-operator", names::AUDIENCE, 0).await;
    for token in [&*other, &expired, "invented", "sim.invented.9999999999"] {
        let (status, body) = world.send(Method::GET, "/v1/nodes", token, "").await;
        assert_eq!((status, code(&body)), (401, Code::Unauthenticated));
        assert!(!body.contains(token), "{body}");
    }
}

#[tokio::test]
async fn an_id_is_never_a_path() {
    let (world, token) = world().await;
    let ids = [
        "..%2f..%2fsecrets",
        "..",
        "%2e%2e",
        "0123456789%00",
        "0123456789%2fevents",
        "0123456789/../0123456789",
        "%ff%fe",
        "%D9%A0123456789",
        "０１２３４５６７８９",
        "0123456789%0d%0aX:y",
        "0123456789?x=y&fieldManager=z",
        "%",
        "*",
        "rotation-0123456789",
        "0123456789abcdef",
    ];
    for id in ids {
        for path in [format!("/v1/rotations/{id}"), format!("/v1/nodes/{id}"), format!("/v1/rotations/{id}/events")] {
            let (status, body) = world.send(Method::GET, &path, &token, "").await;
            assert!([400, 404].contains(&status), "{path}: {status} {body}");
            if !body.is_empty() {
                assert!([Code::BadRequest, Code::NotFound].contains(&code(&body)), "{path}: {body}");
            }
        }
        let (status, body) = world.send(Method::POST, &format!("/v1/rotations/{id}/cancel"), &token, "{}").await;
        assert!([400, 404, 405].contains(&status), "{id}: {status} {body}");
    }
    let names = r#"{"nodes":["../../api/v1/secrets","a/../a","a\u0000","a?x=y","A"]}"#;
    let (status, body) = world.send(Method::POST, "/v1/rotations", &token, names).await;
    assert_eq!((status, code(&body)), (404, Code::NotFound));
    assert!(world.agent.views().list().is_empty());
}

#[tokio::test]
async fn a_body_is_json_in_utf_8_flat_and_without_surprises() {
    let world = guarded().await;
    let utf16: Vec<u8> = r#"{"nodes":["a"]}"#.encode_utf16().flat_map(u16::to_le_bytes).collect();
    let deep = [&b"{\"nodes\":"[..], &b"[".repeat(200_000), &b"]".repeat(200_000), b"}"].concat();
    let json = "content-type: application/json";
    let cases: [(&str, &[u8], u16); 19] = [
        ("content-type: application/json; charset=utf-16", &utf16, 415),
        ("content-type: application/json; charset=\"latin1\"", b"{\"nodes\":[\"a\"]}", 415),
        ("content-type: application/x-www-form-urlencoded", b"nodes=a", 415),
        ("accept: */*", b"{\"nodes\":[\"a\"]}", 415),
        ("content-type: application/json; charset=utf-8; charset=latin1", b"{\"nodes\":[\"a\"]}", 415),
        ("content-type: application/json\r\ncontent-encoding: gzip", b"{\"nodes\":[\"a\"]}", 415),
        ("content-type: application/json\r\ncontent-encoding: gzip", b"\x1f\x8b", 415),
        (json, b"[[\"a\"]]", 400),
        (json, b"{\"nodes\":[\"a\"],\"options\":[\"none\"]}", 400),
        (json, b"{\"nodes\":[\"a\"],\"options\":{\"gracePeriodSeconds\":NaN}}", 400),
        (json, &utf16, 400),
        (json, b"{\"nodes\":[\"\xff\xfe\"]}", 400),
        (json, b"\xef\xbb\xbf{\"nodes\":[\"a\"]}", 400),
        (json, &deep, 400),
        (json, b"{\"nodes\":[\"a\"],\"nodes\":[\"b\"]}", 400),
        (json, b"{\"nodes\":[\"a\"]} {}", 400),
        (json, b"{\"nodes\":[\"a\"],\"options\":{\"force\":true,\"becomeRoot\":true}}", 400),
        (json, b"{\"nodes\":[\"a\"],\"options\":{\"maxConcurrent\":1e999}}", 400),
        (json, b"", 400),
    ];
    for (header, sent, expected) in cases {
        // Each with a token of its own: they are too many for one.
        let token = world.token("rotate-operator", names::AUDIENCE).await;
        for line in ["POST /v1/rotations HTTP/1.1\r\nhost: a", "POST /v1/plans HTTP/1.1\r\nhost: a"] {
            let (status, body) = world.say(&request(line, &token, &[header], sent)).await;
            let shown = String::from_utf8_lossy(&sent[..sent.len().min(80)]);
            assert_eq!((status, code(&body)), (expected, Code::BadRequest), "{header} {shown}: {body}");
        }
    }
    assert!(world.agent.views().list().is_empty());
}

#[tokio::test]
async fn what_looks_like_a_rehearsal_and_is_none_is_refused_by_name() {
    let (world, token) = world().await;
    for path in ["/v1/rotations?dryRun=All", "/v1/plans?pretty"] {
        let (status, body) = world.send(Method::POST, path, &token, r#"{"nodes":["a"]}"#).await;
        let name = path.split(['?', '=']).nth(1).unwrap();
        assert!((status, code(&body)) == (400, Code::BadRequest) && body.contains(name), "{path}: {body}");
    }
    assert!(world.agent.views().list().is_empty());
    let id = rotate(world.control, &token, "a").await;
    for (verb, sent) in [("cancel?dryRun=All", ""), ("pause?dryRun=All", ""), ("cancel", "[]"), ("cancel", "[true]")] {
        let (status, body) = world.send(Method::POST, &format!("/v1/rotations/{id}/{verb}"), &token, sent).await;
        assert_eq!((status, code(&body)), (400, Code::BadRequest), "{verb} {sent}: {body}");
    }
    let (_, body) = world.send(Method::GET, &format!("/v1/rotations/{id}"), &token, "").await;
    assert!(!body.contains("RollingBack") && !body.contains(r#""paused":true"#), "{body}");
}

#[tokio::test]
async fn a_refusal_does_not_repeat_a_megabyte() {
    let (world, token) = world().await;
    let long = "é".repeat(400_000);
    for sent in [
        format!(r#"{{"nodes":["{long}"]}}"#),
        format!(r#"{{"selector":"{long}"}}"#),
        format!(r#"{{"nodes":["a"],"{long}":1}}"#),
        format!(r#"{{"nodes":["a"],"options":{{"surge":"{long}"}}}}"#),
    ] {
        let (status, body) = world.send(Method::POST, "/v1/plans", &token, &sent).await;
        assert!([400, 404].contains(&status) && body.len() < 10_000, "{status} {} bytes", body.len());
        code(&body);
    }
}

#[tokio::test]
async fn a_hundred_megabytes_are_refused_unread() {
    let (world, token) = world().await;
    let head = format!(
        "POST /v1/plans HTTP/1.1\r\nhost: a\r\nauthorization: Bearer {token}\r\ncontent-type: application/json\r\n\
         connection: close\r\n"
    );
    let announced = format!("{head}content-length: 104857600\r\n\r\n{{");
    let (status, body) = world.say(announced.as_bytes()).await;
    assert_eq!((status, code(&body)), (413, Code::BadRequest));
    let chunk = format!("100000\r\n{}\r\n", " ".repeat(1 << 20));
    let chunked = format!("{head}transfer-encoding: chunked\r\n\r\n{}", chunk.repeat(3));
    let (status, _) = world.say(chunked.as_bytes()).await;
    assert_eq!(status, 413);
    // A stranger's is not looked at, whatever its size.
    let (status, _) = world.say(announced.replace(&token, "invented").as_bytes()).await;
    assert_eq!(status, 401);
}

#[tokio::test]
async fn what_can_be_understood_in_two_ways_is_refused() {
    let (world, token) = world().await;
    let get = "GET /v1/nodes/a HTTP/1.1";
    let twice: [&[&str]; 5] = [
        &["host: a", "host: b"],
        &["host: a", "authorization: Bearer another"],
        &["host: a", "content-type: application/json", "content-type: text/plain"],
        &["host: a", "idempotency-key: 1", "idempotency-key: 2"],
        &[],
    ];
    for headers in twice {
        let (status, body) = world.say(&request(get, &token, headers, b"")).await;
        assert_eq!((status, code(&body)), (400, Code::BadRequest), "{headers:?}");
    }
    let lengths = request("POST /v1/plans HTTP/1.1", &token, &["host: a", "content-length: 3"], b"{}");
    assert_eq!(world.say(&lengths).await.0, 400);
    let fine = request(get, &token, &["host: a", "accept: a", "accept: b"], b"");
    assert_eq!(world.say(&fine).await.0, 200);
}

#[tokio::test]
async fn other_forms_of_a_target_lead_nowhere_else() {
    let (world, token) = world().await;
    let say = async |line: &str| world.say(&request(line, &token, &["host: a"], b"")).await;
    assert_eq!(say("GET http://elsewhere.example/v1/nodes/a HTTP/1.1").await.0, 200, "its host is ours");
    assert_eq!(say("CONNECT 10.0.0.1:6443 HTTP/1.1").await.0, 405);
    assert_eq!(say("OPTIONS * HTTP/1.1").await.0, 404);
    assert_eq!(say("TRACE /v1/nodes HTTP/1.1").await.0, 405);
    assert_eq!(say("GET /v1//nodes HTTP/1.1").await.0, 404);
    assert_eq!(say("GET /V1/NODES HTTP/1.1").await.0, 404);
    assert_eq!(say("GET /v1/nodes/ HTTP/1.1").await.0, 404);
    // Nobody needs a token to be told that this is no proxy; for the rest one is needed.
    let (status, _) = world.say(b"CONNECT 10.0.0.1:6443 HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n").await;
    assert_eq!(status, 405);
    let (status, _) = world.say(b"GET http://a/v1/nodes HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n").await;
    assert_eq!(status, 401);
}

#[tokio::test]
async fn old_clients_and_eager_ones_are_answered() {
    let (world, token) = world().await;
    let old = format!("GET /v1/nodes/a HTTP/1.0\r\nauthorization: Bearer {token}\r\n\r\n");
    assert_eq!(world.say(old.as_bytes()).await.0, 200);
    let first = format!("GET /v1/nodes/a HTTP/1.1\r\nhost: a\r\nauthorization: Bearer {token}\r\n\r\n");
    let second = request("GET /v1/nodes/nope HTTP/1.1", &token, &["host: a"], b"");
    let (status, rest) = world.say(&[first.as_bytes(), &second].concat()).await;
    assert!(status == 200 && rest.contains("HTTP/1.1 404 ") && rest.contains("nodes \\\"nope\\\" not found"), "{rest}");
    // The second is judged by its own token.
    let (_, rest) =
        world.say(&[first.as_bytes(), &request("GET /v1/nodes HTTP/1.1", "x", &["host: a"], b"")].concat()).await;
    assert!(rest.contains("HTTP/1.1 401 "), "{rest}");
}

#[tokio::test]
async fn a_token_withdrawn_ends_the_stream_that_it_opened_and_opens_no_other() {
    let (world, token) = world().await;
    let id = rotate(world.control, &token, &world.cluster.busy_node().await).await;
    let mut stream = follow(world.control, &token, &id).await.unwrap();
    world.cluster.withdraw_all();
    // Nothing happens from here on but by the clock.
    tokio::time::pause();
    let withdrawn = tokio::time::Instant::now();
    stream.read_to_end(&mut Vec::new()).await.unwrap();
    let took = withdrawn.elapsed();
    assert!(took <= Duration::from_secs(25), "{took:?}");
    tokio::time::resume();
    assert_eq!(follow(world.control, &token, &id).await.unwrap_err().0, 401);
}
