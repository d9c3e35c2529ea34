//! Versions that do not fit, and what reaches the agent before that is known.

use std::sync::Mutex;

use futures::FutureExt;
use futures::future::BoxFuture;

use super::*;

/// An agent of some version that remembers what it was asked.
#[derive(Debug)]
struct Fake {
    version: &'static str,
    /// Whether it says so in a header.
    header: bool,
    asked: Arc<Mutex<Vec<String>>>,
}

impl Transport for Fake {
    fn send(&self, ask: Ask) -> BoxFuture<'_, Result<Answer, TransportError>> {
        async move {
            self.asked.lock().expect("nobody panics with it").push(format!("{} {}", ask.method, ask.path));
            let body = match ask.path.as_str() {
                "/version" => format!(r#"{{"version":"{}","api":"v1"}}"#, self.version),
                _ => r#"{"apiVersion":"kubectl-rotate.dev/v1","kind":"RotationList","items":[]}"#.to_owned(),
            };
            let body = futures::stream::iter([Ok(Bytes::from(body))]).boxed();
            Ok(Answer { status: 200, version: self.header.then(|| self.version.to_owned()), retry_after: None, body })
        }
        .boxed()
    }
}

fn agent(version: &'static str, header: bool) -> (Agent, Arc<Mutex<Vec<String>>>) {
    let asked = Arc::default();
    let fake = Fake { version, header, asked: Arc::clone(&asked) };
    (Agent::new(fake, Clock::system()), asked)
}

fn asked(log: &Mutex<Vec<String>>) -> Vec<String> {
    log.lock().expect("nobody panics with it").clone()
}

const OURS: &str = env!("CARGO_PKG_VERSION");

#[test]
fn a_selector_survives_the_query() {
    assert_eq!(encoded("a in (b,c),d!=é"), "a%20in%20%28b%2Cc%29%2Cd%21%3D%C3%A9");
}

#[tokio::test]
async fn a_version_that_fits_costs_no_request_of_its_own() {
    let (agent, log) = agent(OURS, true);
    agent.rotations().await.expect("they fit");
    agent.rotate(&RotationRequest::default()).await.expect("they fit");
    assert_eq!(asked(&log), ["GET /v1/rotations", "POST /v1/rotations"]);
}

#[tokio::test]
async fn nothing_is_changed_before_the_version_is_known_to_fit() {
    let (agent, log) = agent("7.3.1", true);
    let failure = agent.rotate(&RotationRequest::default()).await.expect_err("it does not fit");
    assert!(matches!(failure, Failure::OtherVersion(_)), "{failure}");
    assert_eq!(asked(&log), ["GET /version"]);
}

#[tokio::test]
async fn an_agent_that_leaves_its_version_out_is_asked_for_it_once() {
    let (old, log) = agent(OURS, false);
    old.rotations().await.expect("they fit");
    old.rotations().await.expect("they fit");
    assert_eq!(asked(&log), ["GET /v1/rotations", "GET /version", "GET /v1/rotations"]);
    let (other, _) = agent("7.3.1", false);
    assert!(matches!(other.rotations().await, Err(Failure::OtherVersion(_))));
}

/// An agent of a fleet that keeps what it was sent.
#[derive(Debug)]
struct Fleet {
    size: usize,
    /// So many go, the first of them, once they are listed.
    go: usize,
    log: Arc<Mutex<Vec<String>>>,
}

impl Transport for Fleet {
    fn send(&self, ask: Ask) -> BoxFuture<'_, Result<Answer, TransportError>> {
        async move {
            let sent = ask.body.as_deref().map(String::from_utf8_lossy).unwrap_or_default();
            let gone = if asked(&self.log).is_empty() { 0 } else { self.go };
            self.log.lock().expect("nobody panics with it").push(format!("{} {} {sent}", ask.method, ask.path));
            let node = |number: usize| {
                format!(
                    r#"{{"name":"n{number}","createdAt":"2026-01-01T00:00:00Z","ready":true,"schedulable":true,"provider":"unmanaged","allocatable":{{}}}}"#
                )
            };
            let nodes: Vec<_> = (gone..self.size).map(node).collect();
            let is_gone = (0..gone).any(|number| sent.contains(&format!("\"n{number}\"")));
            let (status, body) = match ask.method {
                Method::GET => (200, format!(r#""kind":"NodeList","items":[{}]"#, nodes.join(","))),
                _ if is_gone => (404, r#""code":"NotFound","status":404,"title":"","detail":"not found""#.to_owned()),
                _ => (200, r#""kind":"PlanList","items":[]"#.to_owned()),
            };
            let body = format!(r#"{{"apiVersion":"kubectl-rotate.dev/v1",{body}}}"#);
            let body = futures::stream::iter([Ok(Bytes::from(body))]).boxed();
            Ok(Answer { status, version: Some(OURS.to_owned()), retry_after: None, body })
        }
        .boxed()
    }
}

/// An agent of a fleet, and what it was sent.
fn fleet(size: usize, go: usize) -> (Agent, Arc<Mutex<Vec<String>>>) {
    let log = Arc::default();
    (Agent::new(Fleet { size, go, log: Arc::clone(&log) }, Clock::system()), log)
}

/// How many nodes each request for plans named.
fn pieces(log: &Mutex<Vec<String>>) -> Vec<usize> {
    let named = |body: &str| serde_json::from_str::<PlanRequest>(body).expect("a request").nodes.len();
    asked(log).iter().filter_map(|ask| ask.strip_prefix("POST /v1/plans ")).map(named).collect()
}

fn selected() -> PlanRequest {
    PlanRequest { selector: Some("pool=web".to_owned()), ..PlanRequest::default() }
}

fn named(count: usize) -> PlanRequest {
    let nodes = (0..count).map(|number| format!("n{number}")).collect();
    PlanRequest { nodes, ask_evictions: true, ..PlanRequest::default() }
}

#[tokio::test]
async fn a_large_fleet_is_planned_in_pieces_and_a_small_one_at_once() {
    let planned = async |size: usize, request: PlanRequest| {
        let (agent, log) = fleet(size, 0);
        agent.plan(&request, usize::MAX).await.expect("it answers");
        (pieces(&log), asked(&log))
    };
    let (pieces, asked) = planned(120, selected()).await;
    assert_eq!((pieces, &*asked[0]), (vec![50, 50, 20], "GET /v1/nodes?selector=pool%3Dweb "));
    // By name, so that no node comes in that was not listed.
    let (pieces, asked) = planned(50, selected()).await;
    assert!(pieces == [50] && !asked[1].contains("selector"), "{asked:?}");
    assert_eq!(planned(0, selected()).await.0, [0; 0]);
    let (pieces, asked) = planned(0, named(51)).await;
    assert_eq!((pieces, asked.iter().all(|ask| ask.contains(r#""askEvictions":true"#))), (vec![50, 1], true));
    assert_eq!(planned(0, named(50)).await.0, [50]);
}

#[tokio::test]
async fn more_nodes_than_may_be_are_refused_before_any_is_planned() {
    for request in [selected(), named(11)] {
        let (agent, log) = fleet(11, 0);
        let refused = agent.plan(&request, 10).await.expect_err("too many");
        assert!(refused.to_string().starts_with("these are 11 nodes, and one command takes 10 at most"), "{refused}");
        assert_eq!((refused.exit_code(), pieces(&log)), (2, Vec::new()));
        agent.plan(&request, 11).await.expect("so many may be");
    }
}

#[tokio::test]
async fn a_selected_node_that_goes_before_it_is_planned_is_left_out_and_a_named_one_is_missed() {
    let (agent, log) = fleet(60, 2);
    agent.plan(&selected(), usize::MAX).await.expect("the others are there");
    assert_eq!(pieces(&log), [50, 48, 10]);
    let (agent, _) = fleet(1, 1);
    agent.plan(&selected(), usize::MAX).await.expect("there is none");
    let (agent, _) = fleet(1, 1);
    agent.nodes(None).await.expect("it answers");
    assert!(matches!(agent.plan(&named(1), usize::MAX).await, Err(Failure::Problem(_))));
}

#[test]
fn the_upgrade_of_the_older_one_is_the_next_command() {
    let ours = VersionInfo { version: "1.4.0".to_owned(), ..VersionInfo::current() };
    for (agent, command) in [
        ("1.2.9", "Upgrade the agent: kubectl rotate install --apply --context blue"),
        ("1.6.0", "Upgrade this program: kubectl krew upgrade rotate"),
        ("what", "Install the agent that belongs to this program: kubectl rotate install --apply --context blue"),
    ] {
        let failure = fitting(&ours, agent, " --context blue").expect_err("it does not fit");
        assert!(failure.to_string().ends_with(command), "{failure}");
    }
    for agent in ["1.3.0", "1.4.9", "1.5.0"] {
        assert!(fitting(&ours, agent, "").is_ok(), "{agent}");
    }
}

/// Puts off what it is asked for, so often, and then answers as [`Fake`].
#[derive(Debug)]
struct Busy {
    times: Mutex<u32>,
    body: Bytes,
    status: u16,
    retry_after: Option<Duration>,
    then: Fake,
}

impl Transport for Busy {
    fn send(&self, ask: Ask) -> BoxFuture<'_, Result<Answer, TransportError>> {
        if ask.path == "/version" {
            return self.then.send(ask);
        }
        let mut left = self.times.lock().expect("nobody panics with it");
        let Some(less) = left.checked_sub(1) else { return self.then.send(ask) };
        *left = less;
        let body = futures::stream::iter([Ok(self.body.clone())]).boxed();
        let answer = Answer { status: self.status, version: None, retry_after: self.retry_after, body };
        futures::future::ready(Ok(answer)).boxed()
    }
}

/// How an agent ends up that was busy so often with an answer of this kind, and how long that took.
async fn busy(times: u32, own: bool, change: bool, retry_after: Option<u64>) -> (Option<u8>, i64) {
    let (clock, problem) = (Clock::system(), Problem::new(Code::TooManyRequests, "too many"));
    let body = if own { serde_json::to_vec(&problem).expect("JSON") } else { b"<html>".to_vec() };
    let (body, retry_after) = (Bytes::from(body), retry_after.map(Duration::from_secs));
    let then = Fake { version: OURS, header: true, asked: Arc::default() };
    let transport = Busy { times: Mutex::new(times), body, status: 503, retry_after, then };
    let (agent, begun) = (Agent::new(transport, clock), clock.now());
    let answer = match (change, own) {
        (true, true) => agent.rotate(&RotationRequest::default()).await.map(drop),
        // It has no key by which an agent knows it again.
        (true, false) => agent.pause("a").await.map(drop),
        (false, _) => agent.rotations().await.map(drop),
    };
    (answer.err().map(|failure| failure.exit_code()), clock.now().duration_since(begun).as_secs())
}

#[tokio::test(start_paused = true)]
async fn an_agent_that_is_asked_too_much_is_asked_again_when_it_says() {
    assert_eq!(busy(3, true, false, Some(2)).await, (None, 6));
    assert_eq!(busy(3, true, true, Some(2)).await, (None, 6), "it has done nothing yet");
    assert_eq!(busy(3, true, true, None).await, (None, 3));
    assert_eq!(busy(100, true, false, Some(2)).await, (Some(8), 30), "but not for ever");
    assert_eq!(busy(1, true, false, Some(3600)).await, (Some(8), 0));
    assert_eq!(busy(100, true, false, Some(0)).await, (Some(8), 30), "nor as fast as it goes");
}

#[tokio::test(start_paused = true)]
async fn what_may_have_been_done_is_not_asked_for_again_because_somebody_between_is_busy() {
    assert_eq!(busy(3, false, false, Some(1)).await, (None, 3));
    assert_eq!(busy(3, false, true, Some(1)).await, (Some(8), 0));
    assert_eq!(busy(3, false, false, None).await, (Some(8), 0));
}

/// Takes requests for changes, remembers under which keys, and loses the answers to the first after a while.
#[derive(Debug)]
struct Losing {
    times: usize,
    after: Duration,
    keys: Arc<Mutex<Vec<Option<String>>>>,
    then: Fake,
}

impl Transport for Losing {
    fn send(&self, ask: Ask) -> BoxFuture<'_, Result<Answer, TransportError>> {
        if !ask.changes() {
            return self.then.send(ask);
        }
        let taken = {
            let mut keys = self.keys.lock().expect("nobody panics with it");
            keys.push(ask.key.clone());
            keys.len()
        };
        if taken > self.times {
            return self.then.send(ask);
        }
        async move {
            Clock::system().sleep(self.after).await;
            Err(TransportError::Unreachable { at: "x".to_owned(), reason: "it broke".to_owned() })
        }
        .boxed()
    }
}

type Keys = Arc<Mutex<Vec<Option<String>>>>;

fn losing(times: usize, after: u64) -> (Agent, Keys) {
    let then = Fake { version: OURS, header: true, asked: Arc::default() };
    let keys = Keys::default();
    let losing = Losing { times, after: Duration::from_secs(after), keys: Arc::clone(&keys), then };
    (Agent::new(losing, Clock::system()), keys)
}

fn keys(keys: &Keys) -> Vec<Option<String>> {
    keys.lock().expect("nobody panics with it").clone()
}

#[tokio::test(start_paused = true)]
async fn rotations_whose_answer_was_lost_are_begun_again_under_the_same_key() {
    let (agent, sent) = losing(2, 0);
    agent.rotate(&RotationRequest::default()).await.expect("the third answer is not lost");
    agent.rotate(&RotationRequest::default()).await.expect("none is lost any more");
    let sent = keys(&sent);
    assert_eq!(sent.len(), 4);
    assert!(sent[0].as_ref().is_some_and(|key| key.len() == 32), "{sent:?}");
    assert!(sent[..3].iter().all(|key| *key == sent[0]) && sent[3] != sent[0], "{sent:?}");
}

/// A proxy that has lost the agent for the first so many requests.
#[derive(Debug)]
struct Proxied(Mutex<usize>, Fake);

impl Transport for Proxied {
    fn send(&self, ask: Ask) -> BoxFuture<'_, Result<Answer, TransportError>> {
        async move {
            {
                let mut left = self.0.lock().expect("nobody panics with it");
                if *left > 0 && ask.method == Method::POST {
                    *left -= 1;
                    let body = futures::stream::iter([Ok(Bytes::from("<html>"))]).boxed();
                    return Ok(Answer { status: 502, version: None, retry_after: None, body });
                }
            }
            self.1.send(ask).await
        }
        .boxed()
    }
}

#[tokio::test(start_paused = true)]
async fn a_proxy_that_loses_the_agent_is_asked_again_where_that_begins_nothing_twice() {
    let proxied = |times| {
        let then = Fake { version: OURS, header: true, asked: Arc::default() };
        Agent::new(Proxied(Mutex::new(times), then), Clock::system())
    };
    proxied(3).rotate(&RotationRequest::default()).await.expect("the agent is back");
    let lost = proxied(1000).rotate(&RotationRequest::default()).await.expect_err("it stays away");
    assert_eq!(lost.to_string(), "what answered is not the agent: HTTP status 502");
    proxied(1).pause("a").await.expect_err("it has no key");
}

#[tokio::test(start_paused = true)]
async fn an_answer_that_stays_lost_or_only_took_too_long_is_given_up() {
    let (agent, sent) = losing(1000, 0);
    assert_eq!(agent.rotate(&RotationRequest::default()).await.expect_err("it is lost").exit_code(), 8);
    assert!((15..25).contains(&keys(&sent).len()), "{}", keys(&sent).len());
    let (agent, sent) = losing(1000, 60);
    agent.rotate(&RotationRequest::default()).await.expect_err("it took too long");
    assert_eq!(keys(&sent).len(), 1);
}

#[tokio::test(start_paused = true)]
async fn what_has_no_key_is_not_sent_again() {
    let (agent, sent) = losing(1, 0);
    agent.pause("a").await.expect_err("it is lost");
    assert_eq!(keys(&sent), [None]);
}
