//! Pods that answer, break and come back, without an API server.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};

use axum::Router;
use axum::body::Body;
use axum::extract::Request as Asked;
use axum::response::IntoResponse;
use http::Method;
use hyper::service::service_fn;
use kube::Client;
use rotate_agent::clock::Clock;
use rotate_sim::{Settings, Sim};
use serde_json::json;
use tokio::task::AbortHandle;
use tower::ServiceExt;

use super::*;
use crate::connect::api_server::ApiServer;
use crate::connect::token::Account;

/// What a Pod does with a forward.
#[derive(Clone)]
enum Does {
    /// Its agent answers.
    Answers(Router),
    /// There is no such Pod any more.
    IsGone,
    /// Its kubelet takes the forward, and nobody listens.
    Refuses,
}

#[derive(Default)]
struct Stage {
    lists: Mutex<Vec<Vec<&'static str>>>,
    pods: Mutex<BTreeMap<&'static str, Does>>,
    opened: Mutex<Vec<String>>,
    open: Mutex<Vec<AbortHandle>>,
    listed: AtomicUsize,
}

#[derive(Clone, Default)]
struct FakePods(Arc<Stage>);

impl FakePods {
    /// These Pods, listed in one list after the other; the last list stays.
    fn new(lists: &[&[&'static str]], pods: impl IntoIterator<Item = (&'static str, Does)>) -> Self {
        let fake = Self::default();
        *lock(&fake.0.lists) = lists.iter().map(|list| list.to_vec()).collect();
        lock(&fake.0.pods).extend(pods);
        fake
    }

    fn forward(&self) -> Forward {
        let source = Source::new(Default::default(), "x".to_owned(), Account::Viewer, Clock::system());
        let source = source.beginning_with(Some("good".to_owned()));
        Forward::over(Box::new(self.clone()), "x".to_owned(), "https://a".to_owned(), source)
    }

    fn opened(&self) -> Vec<String> {
        lock(&self.0.opened).clone()
    }

    fn listed(&self) -> usize {
        self.0.listed.load(Ordering::Relaxed)
    }

    /// Breaks every forward that is open.
    fn cut(&self) {
        lock(&self.0.open).drain(..).for_each(|forward| forward.abort());
    }
}

impl Pods for FakePods {
    fn ready(&self) -> BoxFuture<'_, Result<Vec<String>, Failure>> {
        let count = self.0.listed.fetch_add(1, Ordering::Relaxed);
        let lists = lock(&self.0.lists);
        let list = lists[count.min(lists.len() - 1)].iter().map(|&name| name.to_owned()).collect();
        futures::future::ready(Ok(list)).boxed()
    }

    fn open<'a>(&'a self, pod: &'a str) -> BoxFuture<'a, Result<Line, Failure>> {
        lock(&self.0.opened).push(pod.to_owned());
        let (near, far) = tokio::io::duplex(1 << 16);
        let mut last_words = futures::future::ready(None).boxed();
        match lock(&self.0.pods)[pod].clone() {
            Does::IsGone => {
                return futures::future::ready(Err(Failure::AgentUnreachable("it is gone".to_owned()))).boxed();
            }
            Does::Refuses => last_words = futures::future::ready(Some("connection refused\n".to_owned())).boxed(),
            Does::Answers(router) => {
                let service =
                    service_fn(move |request: http::Request<Incoming>| router.clone().oneshot(request.map(Body::new)));
                let serving = hyper::server::conn::http1::Builder::new().serve_connection(TokioIo::new(far), service);
                lock(&self.0.open).push(tokio::spawn(serving.map(drop)).abort_handle());
            }
        }
        futures::future::ready(Ok(Line { stream: Box::new(near), last_words })).boxed()
    }
}

/// An agent that says its name.
fn named(name: &'static str) -> Does {
    Does::Answers(Router::new().fallback(async move || name))
}

fn get() -> Ask {
    Ask::new(Method::GET, "/v1/rotations")
}

async fn text(answer: Result<Answer, TransportError>) -> Result<String, String> {
    let answer = answer.map_err(|error| error.to_string())?;
    let mut pieces = answer.body;
    let mut text = Vec::new();
    while let Some(piece) = pieces.next().await {
        text.extend_from_slice(&piece.map_err(|error| error.to_string())?);
    }
    Ok(String::from_utf8(text).expect("text"))
}

#[tokio::test]
async fn one_list_and_one_forward_serve_a_whole_command() {
    let pods = FakePods::new(&[&["a", "b"]], [("a", named("a")), ("b", named("b"))]);
    let forward = pods.forward();
    for _ in 0..3 {
        assert_eq!(text(forward.send(get()).await).await.as_deref(), Ok("a"));
    }
    assert_eq!((pods.listed(), pods.opened()), (1, vec!["a".to_owned()]));
}

#[tokio::test]
async fn two_at_once_have_a_forward_each() {
    let pods = FakePods::new(&[&["a"]], [("a", named("a"))]);
    let forward = pods.forward();
    let (one, other) = (forward.send(get()).await, forward.send(get()).await);
    assert_eq!(text(one).await.as_deref(), Ok("a"));
    assert_eq!(text(other).await.as_deref(), Ok("a"));
    assert_eq!(pods.opened().len(), 2);
}

#[tokio::test]
async fn a_pod_that_is_gone_or_does_not_listen_is_passed_over() {
    for does in [Does::IsGone, Does::Refuses] {
        let pods = FakePods::new(&[&["a", "b"]], [("a", does), ("b", named("b"))]);
        let forward = pods.forward();
        assert_eq!(text(forward.send(get()).await).await.as_deref(), Ok("b"));
        assert_eq!(text(forward.send(get()).await).await.as_deref(), Ok("b"), "and is not tried again");
        assert_eq!((pods.listed(), pods.opened()), (1, vec!["a".to_owned(), "b".to_owned()]));
    }
}

#[tokio::test]
async fn once_none_is_left_pods_are_listed_again() {
    let pods = FakePods::new(&[&["a"], &["b"]], [("a", named("a")), ("b", named("b"))]);
    let forward = pods.forward();
    assert_eq!(text(forward.send(get()).await).await.as_deref(), Ok("a"));
    lock(&pods.0.pods).insert("a", Does::IsGone);
    pods.cut();
    assert_eq!(text(forward.send(get()).await).await.as_deref(), Ok("b"));
    assert_eq!(pods.listed(), 2);
}

#[tokio::test]
async fn where_no_pod_answers_the_kubelets_words_are_told() {
    let pods = FakePods::new(&[&["a"]], [("a", Does::Refuses)]);
    let told = text(pods.forward().send(get()).await).await;
    assert_eq!(told, Err("no agent answered at any Pod of namespace x: Pod a: connection refused".to_owned()));
    assert!(pods.opened().len() <= TRIES * 2, "{:?}", pods.opened());
}

#[tokio::test]
async fn an_answer_that_breaks_off_is_told_and_the_next_comes_from_another_pod() {
    let endless = Router::new().fallback(async || {
        let pieces = futures::stream::iter([Ok::<_, std::io::Error>("piece")]).chain(futures::stream::pending());
        Body::from_stream(pieces).into_response()
    });
    let pods = FakePods::new(&[&["a", "b"]], [("a", Does::Answers(endless)), ("b", named("b"))]);
    let forward = pods.forward();
    let mut events = forward.send(get()).await.unwrap_or_else(|error| panic!("{error}")).body;
    assert_eq!(events.next().await.expect("a piece").expect("it came"), "piece");
    pods.cut();
    let broken = events.next().await.expect("an error").expect_err("it broke");
    assert!(broken.to_string().starts_with("the agent's answer broke off: Pod a: "), "{broken}");
    assert_eq!(text(forward.send(get()).await).await.as_deref(), Ok("b"));
    assert_eq!(pods.listed(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_silent_stream_is_taken_for_broken() {
    let silent = Router::new().fallback(async || {
        Body::from_stream(futures::stream::pending::<Result<Bytes, std::io::Error>>()).into_response()
    });
    let pods = FakePods::new(&[&["a"]], [("a", Does::Answers(silent))]);
    for (path, seconds) in [("/v1/nodes", 60), ("/v1/rotations/x/events", 40)] {
        let told = text(pods.forward().send(Ask::new(Method::GET, path)).await).await;
        assert_eq!(told, Err(format!("the agent's answer broke off: Pod a: nothing came for {seconds} s")));
    }
}

/// An agent that takes a request and ends before it answers.
fn dies(pods: &FakePods, got: &Arc<AtomicUsize>) -> Router {
    let (pods, got) = (pods.clone(), Arc::clone(got));
    Router::new().route("/livez", axum::routing::get(async || "ok")).fallback(async move || {
        got.fetch_add(1, Ordering::Relaxed);
        pods.cut();
        std::future::pending::<()>().await;
    })
}

#[tokio::test]
async fn a_change_is_never_sent_twice() {
    let pods = FakePods::new(&[&["a", "b"]], [("b", named("b"))]);
    let got = Arc::default();
    let agent = dies(&pods, &got);
    lock(&pods.0.pods).insert("a", Does::Answers(agent));
    let told = text(pods.forward().send(Ask::new(Method::POST, "/v1/rotations")).await).await;
    let told = told.expect_err("it is not known what came of it");
    assert!(told.ends_with("whether it got the request is not known, kubectl rotate status shows it"), "{told}");
    assert_eq!((got.load(Ordering::Relaxed), pods.opened()), (1, vec!["a".to_owned()]));
}

#[tokio::test]
async fn what_changes_nothing_is_asked_of_another_pod() {
    let pods = FakePods::new(&[&["a", "b"]], [("b", named("b"))]);
    let got = Arc::default();
    let agent = dies(&pods, &got);
    lock(&pods.0.pods).insert("a", Does::Answers(agent));
    let plan = Ask::new(Method::POST, "/v1/plans");
    assert_eq!(text(pods.forward().send(plan).await).await.as_deref(), Ok("b"));
    assert_eq!(got.load(Ordering::Relaxed), 1);
}

#[tokio::test(start_paused = true)]
async fn what_an_agent_thinks_about_for_too_long_no_other_is_asked_to_think_about() {
    let got = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&got);
    let thinks = Router::new().fallback(async move || {
        counted.fetch_add(1, Ordering::Relaxed);
        std::future::pending::<()>().await;
    });
    let pods = FakePods::new(&[&["a", "b"]], [("a", Does::Answers(thinks.clone())), ("b", Does::Answers(thinks))]);
    let told = text(pods.forward().send(Ask::new(Method::POST, "/v1/plans")).await).await;
    assert_eq!(told.map_err(|told| told.ends_with("it says nothing for 60 s")), Err(true));
    assert_eq!(got.load(Ordering::Relaxed), 1);
}

#[tokio::test]
async fn a_change_goes_only_where_somebody_listens() {
    let pods = FakePods::new(&[&["a", "b"]], [("a", Does::Refuses), ("b", named("b"))]);
    let told = text(pods.forward().send(Ask::new(Method::POST, "/v1/rotations")).await).await;
    assert_eq!(told.as_deref(), Ok("b"));
}

#[tokio::test(start_paused = true)]
async fn a_change_does_not_wait_for_a_sign_of_life_without_end() {
    let endless = |piece: &'static [u8], times: usize| {
        Router::new().fallback(async move || {
            let pieces = futures::stream::repeat_with(move || Ok::<_, std::io::Error>(piece)).take(times);
            Body::from_stream(pieces.chain(futures::stream::pending())).into_response()
        })
    };
    for agent in [endless(b"o", 1), endless(&[b'o'; 1 << 10], usize::MAX)] {
        let pods = FakePods::new(&[&["a", "b"]], [("a", Does::Answers(agent)), ("b", named("b"))]);
        let forward = pods.forward();
        let change = forward.send(Ask::new(Method::POST, "/v1/rotations"));
        let told = timeout(Duration::from_secs(60), async { text(change.await).await }).await;
        assert_eq!(told.expect("it ends").as_deref(), Ok("b"));
    }
}

/// A cluster that gives out tokens, and how many it gave.
fn issuing() -> (ApiServer, Sim) {
    let sim = Sim::start(Settings::default());
    for object in [
        json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "x"}}),
        json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "rotate-viewer", "namespace": "x"}}),
    ] {
        sim.create(object);
    }
    let client = Client::new(sim.router(), "default");
    (ApiServer { patient: client.clone(), client, server: "sim".to_owned(), again: String::new() }, sim)
}

fn issued(sim: &Sim) -> usize {
    sim.requests().iter().filter(|request| request.path.ends_with("/serviceaccounts/rotate-viewer/token")).count()
}

/// An agent that knows no token but those of the cluster.
fn guarded() -> Does {
    Does::Answers(Router::new().fallback(async |request: Asked| {
        let bearer = request.headers().get(header::AUTHORIZATION).and_then(|value| value.to_str().ok());
        match bearer {
            Some("Bearer withdrawn") | None => StatusCode::UNAUTHORIZED.into_response(),
            Some(_) => "welcome".into_response(),
        }
    }))
}

#[tokio::test(start_paused = true)]
async fn one_token_serves_a_command_and_another_is_taken_shortly_before_it_ends() {
    let (cluster, sim) = issuing();
    let clock = Clock::system();
    let pods = FakePods::new(&[&["a"]], [("a", guarded())]);
    let source = Source::of(cluster, "x".to_owned(), Account::Viewer, clock);
    let forward = Forward::over(Box::new(pods), "x".to_owned(), "https://a".to_owned(), source);
    for (seconds, tokens) in [(0, 1), (300, 1), (239, 1), (2, 2), (530, 2), (11, 3)] {
        clock.sleep(Duration::from_secs(seconds)).await;
        assert_eq!(text(forward.send(get()).await).await.as_deref(), Ok("welcome"));
        assert_eq!(issued(&sim), tokens, "{seconds} s later");
    }
    sim.shutdown();
}

#[tokio::test(start_paused = true)]
async fn a_token_that_is_refused_is_replaced_once_for_all_who_need_one() {
    let (cluster, sim) = issuing();
    let pods = FakePods::new(&[&["a"]], [("a", guarded())]);
    let source = Source::of(cluster, "x".to_owned(), Account::Viewer, Clock::system());
    let source = source.beginning_with(Some("withdrawn".to_owned()));
    let forward = Forward::over(Box::new(pods), "x".to_owned(), "https://a".to_owned(), source);
    let all = futures::future::join_all((0..5).map(|_| async { text(forward.send(get()).await).await })).await;
    assert!(all.iter().all(|answer| answer.as_deref() == Ok("welcome")), "{all:?}");
    assert_eq!(issued(&sim), 1);
    sim.shutdown();
}

#[tokio::test(start_paused = true)]
async fn an_agent_that_refuses_every_token_is_asked_twice_and_not_more() {
    let (cluster, sim) = issuing();
    let asked = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&asked);
    let closed = Router::new().fallback(async move || {
        counted.fetch_add(1, Ordering::Relaxed);
        StatusCode::UNAUTHORIZED
    });
    let pods = FakePods::new(&[&["a"]], [("a", Does::Answers(closed))]);
    let source = Source::of(cluster, "x".to_owned(), Account::Viewer, Clock::system());
    let forward = Forward::over(Box::new(pods), "x".to_owned(), "https://a".to_owned(), source);
    let answer = forward.send(get()).await.unwrap_or_else(|error| panic!("{error}"));
    assert_eq!((answer.status, asked.load(Ordering::Relaxed), issued(&sim)), (401, 2, 2));
    sim.shutdown();
}
