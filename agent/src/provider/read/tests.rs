use std::collections::VecDeque;
use std::time::Duration;

use kube::client::Body;
use serde_json::{Value, json};

use super::*;

/// An API server that answers each path in order, the last answer for ever, and 404 to what it was not told of.
#[derive(Clone, Default)]
struct Script(Arc<Mutex<Told>>);

#[derive(Default)]
struct Told {
    answers: BTreeMap<String, VecDeque<(u16, Value)>>,
    asked: Vec<String>,
}

impl Script {
    fn answer(self, path: &str, status: u16, body: Value) -> Self {
        self.0.lock().answers.entry(path.to_owned()).or_default().push_back((status, body));
        self
    }

    fn page(self, path: &str, next: &str, items: &[Value]) -> Self {
        self.answer(path, 200, json!({ "metadata": { "continue": next }, "items": items }))
    }

    fn refuse(self, path: &str, status: u16, message: &str) -> Self {
        let body = json!({ "kind": "Status", "status": "Failure", "code": status, "message": message, "reason": "x" });
        self.answer(path, status, body)
    }

    fn asked(&self, path: &str) -> Vec<String> {
        self.0.lock().asked.iter().filter(|uri| uri.starts_with(path)).cloned().collect()
    }

    fn reader(&self) -> Reader {
        let told = Arc::clone(&self.0);
        let service = tower::service_fn(move |request: Request<Body>| {
            let mut told = told.lock();
            told.asked.push(request.uri().to_string());
            let (status, body) = match told.answers.get_mut(request.uri().path()) {
                Some(answers) if answers.len() > 1 => answers.pop_front().expect("there are several"),
                Some(answers) => answers[0].clone(),
                None => (404, json!({ "kind": "Status", "status": "Failure", "code": 404, "message": "not found" })),
            };
            let response = http::Response::builder().status(status).body(Body::from(body.to_string().into_bytes()));
            std::future::ready(response)
        });
        Reader::new(Client::new(service, "default"), Clock::starting_at("2026-01-05T00:00:00Z".parse().unwrap()))
    }
}

fn claim(name: &str) -> Value {
    json!({ "metadata": { "name": name, "uid": name }, "spec": {} })
}

#[tokio::test]
async fn lists_are_read_in_pages_to_the_end() {
    let script = Script::default().page(karpenter::CLAIMS, "a+b=", &[claim("one"), claim("two")]).page(
        karpenter::CLAIMS,
        "",
        &[claim("three")],
    );
    let read = script.reader().read().await.unwrap().karpenter.claims;
    assert!(read.is_whole());
    assert_eq!(read.items().iter().map(|claim| &*claim.name).collect::<Vec<_>>(), ["one", "two", "three"]);
    let pages =
        [format!("{}?limit=500", karpenter::CLAIMS), format!("{}?limit=500&continue=a%2Bb%3D", karpenter::CLAIMS)];
    assert_eq!(script.asked(karpenter::CLAIMS), pages);
}

#[tokio::test(start_paused = true)]
async fn a_kind_that_is_not_served_is_not_asked_for_again_for_a_while() {
    let script = Script::default();
    let reader = script.reader();
    for _ in 0..3 {
        // Plans and rotations share what one of them has learnt.
        assert_eq!(reader.clone().read().await.unwrap(), ProviderObjects::default());
    }
    assert_eq!(script.asked(karpenter::POOLS).len(), 1);
    let script = script.page(karpenter::POOLS, "", &[]);
    reader.clock.sleep(Duration::from_secs(301)).await;
    assert!(reader.read().await.unwrap().karpenter.pools.is_whole());
    assert_eq!(script.asked(karpenter::POOLS).len(), 2);
}

#[tokio::test]
async fn what_may_not_be_read_says_so_and_the_rest_is_read() {
    let script = Script::default().refuse(karpenter::POOLS, 403, "nodepools is forbidden").page(
        karpenter::CLAIMS,
        "",
        &[claim("one")],
    );
    let read = script.reader().read().await.unwrap().karpenter;
    assert_eq!(read.pools, Listing::Forbidden("nodepools is forbidden".to_owned()));
    assert_eq!(read.claims.items().len(), 1);
}

#[tokio::test]
async fn what_cannot_be_converted_says_so_and_the_rest_is_read() {
    let words = "conversion webhook for karpenter.sh/v1beta1, Kind=NodePool failed: service \"karpenter\" not found";
    let script = Script::default().refuse(karpenter::POOLS, 500, words).page(karpenter::CLAIMS, "", &[claim("one")]);
    let read = script.reader().read().await.unwrap().karpenter;
    assert_eq!(read.pools, Listing::Unconverted(words.to_owned()));
    assert_eq!(read.claims.items().len(), 1);
}

#[tokio::test]
async fn an_object_that_cannot_be_read_is_named_and_costs_no_other() {
    let odd = json!({ "metadata": { "name": "odd" }, "spec": { "expireAfter": "soon" } });
    let script = Script::default().page(karpenter::CLAIMS, "", &[odd, claim("one")]);
    let read = script.reader().read().await.unwrap().karpenter.claims;
    assert!(!read.is_whole());
    let Listing::Read { items, unreadable } = read else { panic!("{read:?}") };
    assert_eq!(items.len(), 1);
    assert!(unreadable[0].starts_with("odd: "), "{unreadable:?}");
}

#[tokio::test]
async fn a_list_whose_pages_expire_is_begun_anew_a_few_times() {
    let expired = "The provided continue parameter is too old";
    let again = Script::default()
        .page(karpenter::CLAIMS, "a", &[claim("one")])
        .refuse(karpenter::CLAIMS, 410, expired)
        .page(karpenter::CLAIMS, "", &[claim("two")]);
    let read = again.reader().read().await.unwrap().karpenter.claims;
    assert_eq!(read.items().iter().map(|claim| &*claim.name).collect::<Vec<_>>(), ["two"]);

    let always = Script::default().refuse(karpenter::CLAIMS, 410, expired);
    let error = always.reader().read().await.unwrap_err();
    assert!(error.to_string().starts_with(karpenter::CLAIMS), "{error}");
    assert_eq!(always.asked(karpenter::CLAIMS).len(), 3);
}

#[tokio::test]
async fn an_api_server_that_fails_is_an_error_and_nothing_is_taken_for_absent() {
    let script = Script::default().refuse(karpenter::POOLS, 500, "etcd has no leader").page(karpenter::CLAIMS, "", &[]);
    let reader = script.reader();
    assert!(reader.read().await.is_err());
    assert!(reader.read().await.is_err());
    assert_eq!(script.asked(karpenter::POOLS).len(), 2);
}
