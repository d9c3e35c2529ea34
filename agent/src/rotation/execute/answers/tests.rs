use std::time::Duration;

use serde_json::json;

use super::*;
use crate::cache::Kind;
use crate::rotation::execute::tests::reservation;
use crate::rotation::observation::PassedOver;
use crate::rotation::testing::{after, cluster, entry, old};
use crate::surge::testing;

fn eviction() -> Effect {
    Effect::Evict(Eviction {
        namespace: "shop".to_owned(),
        name: "p1".to_owned(),
        uid: "p1".to_owned(),
        grace_period_seconds: None,
        bypass: false,
    })
}

fn answered(answer: Answer, allowed: i32) -> Memory {
    let entry = entry(&["p1"]);
    let labels = json!({ "metadata": { "labels": { "app": "web" } } });
    let mut state = cluster(&entry, &["b"], [testing::pod("shop", "p1", &labels)]);
    state.set_revision(Kind::Pdbs, "2");
    state.apply_pdb(testing::pdb(&json!({
        "metadata": { "namespace": "shop", "name": "web", "uid": "pdb" },
        "spec": { "maxUnavailable": 1, "selector": { "matchLabels": { "app": "web" } } },
        "status": { "disruptionsAllowed": allowed, "currentHealthy": 2, "desiredHealthy": 1, "expectedPods": 2 },
    })));
    let mut memory = Memory::default();
    let Effect::Evict(evicted) = eviction() else { unreachable!("it is one") };
    memory.begin("0123456789", &eviction(), &state, after(60));
    assert_eq!(memory.evicting["p1"], Evicting::Sent);
    memory.end("cand", &eviction(), Ok(Done::Answered(evicted, answer)), &state, after(60));
    memory
}

#[test]
fn an_accepted_eviction_is_not_asked_for_again() {
    let memory = answered(Answer::Accepted, 1);
    assert_eq!(memory.evicting["p1"], Evicting::Accepted(after(60)));
    assert!(memory.refused.is_empty());
}

#[test]
fn a_pod_that_is_gone_or_replaced_is_looked_at_anew_and_not_asked_for_at_once() {
    for answer in [Answer::Gone, Answer::Replaced] {
        let mut memory = answered(answer, 1);
        assert!(memory.evicting.is_empty());
        let until = memory.refused["p1"].until;
        assert!(until > after(60) && until < after(62), "a webhook that answers so is not asked in a tight loop");
        let entry = entry(&["p1"]);
        memory.refresh(&entry.record, &cluster(&entry, &["b"], []), after(61));
        assert!(memory.refused.is_empty(), "the cache shows it");
    }
}

#[test]
fn a_budget_that_refuses_as_the_watch_says_is_left_to_the_watch() {
    assert!(answered(Answer::Budget { message: "needs 2".to_owned() }, 0).refused.is_empty());
    let memory = answered(Answer::Budget { message: "needs 2".to_owned() }, 1);
    let refused = &memory.refused["p1"];
    assert_eq!(
        (refused.notice.code, &*refused.notice.object),
        (Code::PodDisruptionBudget, "PodDisruptionBudget shop/web")
    );
    assert!(refused.until < after(62));
}

#[test]
fn each_refusal_is_shown_as_what_it_is_and_waited_out() {
    let wait = |answer| {
        let memory = answered(answer, 1);
        let refused = &memory.refused["p1"];
        (refused.notice.code, refused.until.duration_since(after(60)).as_secs())
    };
    assert_eq!(wait(Answer::Throttled { after: Duration::from_secs(7) }), (Code::Throttled, 7));
    assert_eq!(wait(Answer::SeveralBudgets { message: String::new() }), (Code::MultiplePodDisruptionBudgets, 30));
    assert_eq!(wait(Answer::NamespaceTerminating), (Code::Terminating, 5));
    let (code, seconds) = wait(Answer::Refused { status: 500, message: "webhook".to_owned() });
    assert_eq!(code, Code::EvictionRefused);
    assert!(seconds < 2);
}

#[test]
fn failures_are_counted_shown_and_back_off() {
    let state = cluster(&entry(&["p1"]), &["b"], [old("p1")]);
    let mut memory = Memory::default();
    let mut last = after(60);
    for count in 1..10 {
        let error = ExecuteError::TimedOut(Duration::from_secs(5));
        memory.end("cand", &Effect::Mark, Err(error), &state, after(60));
        let failure = &memory.failures["mark"];
        assert_eq!(failure.count, count);
        assert!(failure.until >= last && failure.until <= after(90), "{:?}", failure.until);
        last = failure.until;
    }
    let notice = &memory.failures["mark"].notice;
    assert_eq!((notice.code, &*notice.object), (Code::ApiError, "Node cand"));
    assert_eq!(notice.message, "failed to cordon node cand (9 times): no answer within 5s");
    memory.end("cand", &Effect::Mark, Ok(Done::Marked(true)), &state, after(60));
    assert!(memory.failures.is_empty());
}

#[test]
fn who_may_not_hear_what_is_said_of_placeholders_goes_on() {
    let state = cluster(&entry(&["p1"]), &["b"], [old("p1")]);
    let mut memory = Memory::default();
    let refused = kube::core::Status { code: 403, message: "no events for you".to_owned(), ..Default::default() };
    let error = ExecuteError::Api(kube::Error::Api(Box::new(refused)));
    memory.end("cand", &Effect::Listen(vec!["u".to_owned()]), Err(error), &state, after(60));
    assert!(memory.failures.is_empty(), "it must not become the outcome of a surge that gets no room");
    assert_eq!(memory.told, Some((AllTold::default(), after(60))), "nor be asked for in a tight loop");
}

#[test]
fn a_refused_placeholder_is_told_apart_from_a_failing_api_server() {
    let code = |status: u16| {
        let status = kube::core::Status { code: status, message: "exceeded quota".to_owned(), ..Default::default() };
        let error = ExecuteError::Api(kube::Error::Api(Box::new(status)));
        failure_notice("cand", &Effect::Reserve(reservation()), &error, "").code
    };
    assert_eq!(
        [403, 422, 429, 500].map(code),
        [Code::PlaceholderRefused, Code::PlaceholderRefused, Code::Throttled, Code::ApiError]
    );
}

#[test]
fn a_pod_that_wakes_the_scheduler_is_no_placeholder_of_the_rotation_meanwhile() {
    let entry = entry(&["p1"]);
    let pod = PassedOver { uid: "p3".to_owned(), path: "shop/p3".to_owned(), attempt: 0 };
    let state = cluster(&entry, &["b"], [old("p1")]);
    let mut memory = Memory::default();
    memory.begin(&entry.record.id, &Effect::Wake(pod.clone()), &state, after(10));
    assert_eq!(memory.waking, Some(waking_name(&entry.record.id, &pod)));
    assert_eq!(memory.woken["p3"], (1, after(10)));
    memory.end("cand", &Effect::Wake(pod.clone()), Ok(Done::Woken(pod)), &state, after(11));
    assert_eq!(memory.waking, None);
}
