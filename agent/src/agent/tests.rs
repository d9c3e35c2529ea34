use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

use super::*;

const ANY: &str = "127.0.0.1:0";

/// An API server that is down.
fn down() -> Client {
    let service = tower::service_fn(async |_: ::http::Request<kube::client::Body>| {
        let status =
            br#"{"kind":"Status","status":"Failure","reason":"ServiceUnavailable","message":"down","code":503}"#;
        ::http::Response::builder().status(503).body(kube::client::Body::from(status.to_vec()))
    });
    Client::new(service, "default")
}

fn start() -> Agent {
    Agent::start(Config::default(), down(), Clock::system())
}

fn anywhere(authenticate: bool) -> Listen {
    Listen { control: ANY.parse().unwrap(), authenticate, ops: ANY.parse().unwrap() }
}

async fn ask(addr: SocketAddr, request: &str) -> String {
    let mut stream = TcpStream::connect(addr).await.unwrap();
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = Vec::new();
    // The agent may close before it has read all that was sent: what it said before that counts.
    let _ = stream.read_to_end(&mut answer).await;
    String::from_utf8(answer).unwrap()
}

fn get(path: &str) -> String {
    format!("GET {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n")
}

#[tokio::test]
async fn the_ports_answer_before_the_cluster_was_read() {
    let mut agent = start();
    let listen = agent.listen(anywhere(false)).await.unwrap();
    assert!(ask(listen.ops, &get("/livez")).await.starts_with("HTTP/1.1 200"));
    assert!(ask(listen.ops, &get("/readyz")).await.starts_with("HTTP/1.1 503"));
    assert!(ask(listen.control, &get("/v1/nodes")).await.starts_with("HTTP/1.1 503"));
}

#[tokio::test]
async fn the_control_port_wants_a_token_and_the_ops_port_none() {
    let mut agent = start();
    let listen = agent.listen(anywhere(true)).await.unwrap();
    assert!(ask(listen.control, &get("/v1/nodes")).await.starts_with("HTTP/1.1 401"));
    assert!(ask(listen.control, &get("/version")).await.starts_with("HTTP/1.1 200"));
    assert!(ask(listen.ops, &get("/v1/nodes")).await.starts_with("HTTP/1.1 404"));
}

#[tokio::test]
async fn a_body_of_a_hundred_megabytes_is_refused_while_it_is_still_being_sent() {
    let mut agent = start();
    let listen = agent.listen(anywhere(false)).await.unwrap();
    let head = "POST /v1/plans HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: 104857600\r\n\r\n{";
    let answer = tokio::time::timeout(Duration::from_secs(1), ask(listen.control, head)).await.unwrap();
    assert!(answer.starts_with("HTTP/1.1 413"), "{answer}");
    assert!(answer.contains("application/problem+json"), "{answer}");
}

#[tokio::test]
async fn a_port_that_is_taken_is_named() {
    let taken = TcpListener::bind(ANY).await.unwrap();
    let control = taken.local_addr().unwrap();
    let error = start().listen(Listen { control, ..anywhere(true) }).await.unwrap_err();
    assert!(error.to_string().starts_with(&format!("listen on {control}: ")), "{error}");
}

#[cfg(feature = "tls")]
#[tokio::test]
async fn a_certificate_that_cannot_be_used_keeps_it_from_starting() {
    let files = tls::Files { certificate: "/nonesuch/tls.crt".into(), key: "/nonesuch/tls.key".into() };
    let error = start().listen_tls(ANY.parse().unwrap(), files).await.unwrap_err().to_string();
    assert_eq!(error, "read /nonesuch/tls.crt: No such file or directory (os error 2)");
}

#[tokio::test]
async fn dropping_it_closes_the_ports() {
    let mut agent = start();
    let listen = agent.listen(anywhere(false)).await.unwrap();
    drop(agent);
    // The tasks are aborted at their next poll.
    tokio::task::yield_now().await;
    assert!(TcpStream::connect(listen.control).await.is_err());
    assert!(TcpStream::connect(listen.ops).await.is_err());
}

#[tokio::test]
async fn dropping_it_ends_the_streams_of_those_who_call_in_process() {
    let agent = start();
    agent.views().publish([http::testing::rotation("0123456789", "a", rotate_shared::Phase::Draining)]);
    let request = ::http::Request::get("/v1/rotations/0123456789/events").body(axum::body::Body::empty()).unwrap();
    let response = tower::ServiceExt::oneshot(agent.router(), request).await.unwrap();
    drop(agent);
    http_body_util::BodyExt::collect(response.into_body()).await.unwrap();
}

#[tokio::test]
async fn it_ends_in_order_although_a_follower_is_connected() {
    let mut agent = start();
    let listen = agent.listen(anywhere(false)).await.unwrap();
    agent.views().publish([http::testing::rotation("0123456789", "a", rotate_shared::Phase::Draining)]);
    let mut follower = TcpStream::connect(listen.control).await.unwrap();
    let request = "GET /v1/rotations/0123456789/events HTTP/1.1\r\nhost: localhost\r\n\r\n";
    follower.write_all(request.as_bytes()).await.unwrap();
    let mut answer = vec![0; 16 << 10];
    let length = follower.read(&mut answer).await.unwrap();
    assert!(String::from_utf8_lossy(&answer[..length]).contains("text/event-stream"));
    tokio::time::timeout(Duration::from_secs(1), agent.shutdown()).await.unwrap();
    follower.read_to_end(&mut answer).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn it_is_ready_once_it_has_read_the_cluster_and_no_longer_once_it_is_cut_off() {
    let sim = rotate_sim::Sim::start(rotate_sim::Settings::default());
    let agent = Agent::start(Config::default(), Client::new(sim.router(), "default"), Clock::system());
    let ready = async || {
        let request = ::http::Request::get("/readyz").body(axum::body::Body::empty()).unwrap();
        let response = tower::ServiceExt::oneshot(http::ops_router(agent.api.clone()), request).await.unwrap();
        let body = http_body_util::BodyExt::collect(response.into_body()).await.unwrap().to_bytes();
        String::from_utf8(body.to_vec()).unwrap()
    };
    assert!(ready().await.starts_with("[-] "));
    agent.ready().await;
    assert_eq!(ready().await, "ok\n");
    tokio::time::advance(Duration::from_secs(120)).await;
    agent.api.clock.sleep(Duration::from_secs(120)).await;
    assert_eq!(ready().await, "ok\n", "bookmarks are heard");
    sim.faults().refuse(true);
    sim.faults().drop_watches();
    agent.api.clock.sleep(Duration::from_secs(200)).await;
    assert!(ready().await.contains("[-] nothing was heard of pods for "), "{}", ready().await);
    sim.faults().refuse(false);
    agent.api.clock.sleep(Duration::from_secs(120)).await;
    assert_eq!(ready().await, "ok\n");
}

#[tokio::test(start_paused = true)]
async fn one_of_two_leads_and_the_other_takes_over_at_once_when_it_ends_in_order() {
    let sim = rotate_sim::Sim::start(rotate_sim::Settings::default());
    sim.create(rotate_sim::objects::namespace(names::NAMESPACE, &serde_json::json!({})));
    let start = |name: &str| {
        let config = Config { identity: Some(name.to_owned()), ..Config::default() };
        Agent::start(config, Client::new(sim.router(), "default"), Clock::system())
    };
    let (one, two) = (start("one"), start("two"));
    one.leads(Duration::from_secs(60)).await.unwrap();
    let refused = two.leads(Duration::from_secs(20)).await.unwrap_err();
    assert_eq!(refused.to_string(), "lead: one does");
    one.shutdown().await;
    two.leads(Duration::from_secs(3)).await.unwrap();
    let three = start("three");
    drop(two);
    assert!(three.leads(Duration::from_secs(10)).await.is_err(), "one that was killed gave nothing up");
    three.leads(Duration::from_secs(10)).await.unwrap();
}
