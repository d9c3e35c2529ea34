use rotate_sim::{Settings, Sim, objects};
use serde_json::Value;
use tokio::task::JoinHandle;

use super::*;

fn cluster() -> (Sim, Clock) {
    let epoch: Timestamp = "2026-01-01T00:00:00Z".parse().unwrap();
    let sim = Sim::start(Settings { epoch: Some(epoch), ..Settings::default() });
    sim.create(objects::namespace(names::NAMESPACE, &json!({})));
    (sim, Clock::starting_at(epoch))
}

fn client(sim: &Sim) -> kube::Client {
    kube::Client::new(sim.router(), "default")
}

fn candidate(sim: &Sim, identity: &str, clock: Clock) -> Election {
    Election::new(client(sim), names::NAMESPACE, names::AGENT, identity, Times::default(), clock)
}

/// Takes part in the background; dropping the handle's task is the kill.
fn start(election: Election) -> (watch::Receiver<Option<Term>>, JoinHandle<()>) {
    let term = election.subscribe();
    (term, tokio::spawn(election.run(std::future::pending())))
}

fn lease(sim: &Sim) -> Value {
    sim.get("leases", names::NAMESPACE, names::AGENT).unwrap()
}

#[tokio::test(start_paused = true)]
async fn the_first_one_leads_at_once() {
    let (sim, clock) = cluster();
    let mut one = candidate(&sim, "one", clock);
    assert!(one.attempt().await.unwrap());
    let term = one.subscribe().borrow().unwrap();
    assert_eq!((term.number, term.acts_from), (1, clock.now()));
    assert_eq!(lease(&sim)["spec"]["holderIdentity"], "one");
    assert_eq!(lease(&sim)["spec"]["leaseDurationSeconds"], 15);
}

#[tokio::test(start_paused = true)]
async fn what_the_api_server_refuses_is_told_in_its_words_alone() {
    let (sim, clock) = cluster();
    let status = kube::core::Status { code: 403, message: "leases is forbidden".to_owned(), ..Default::default() };
    let error = candidate(&sim, "one", clock).error("read", kube::Error::Api(Box::new(status)));
    assert_eq!(error.to_string(), "read Lease rotate-agent: leases is forbidden");
}

#[tokio::test(start_paused = true)]
async fn the_other_one_waits_and_names_the_holder() {
    let (sim, clock) = cluster();
    let (_, _one) = start(candidate(&sim, "one", clock));
    clock.sleep(Duration::from_secs(1)).await;
    let mut two = candidate(&sim, "two", clock);
    for _ in 0..60 {
        assert!(!two.attempt().await.unwrap());
        clock.sleep(Duration::from_secs(1)).await;
    }
    assert_eq!(two.holder().borrow().as_deref(), Some("one"));
}

#[tokio::test(start_paused = true)]
async fn a_silent_holder_is_succeeded_after_its_lease_and_the_last_call_it_may_have_sent() {
    let (sim, clock) = cluster();
    let (one, task) = start(candidate(&sim, "one", clock));
    clock.sleep(Duration::from_secs(10)).await;
    assert!(one.borrow().is_some());
    let (mut two, _task) = start(candidate(&sim, "two", clock));
    clock.sleep(Duration::from_secs(5)).await;
    task.abort();
    let killed = clock.now();
    two.wait_for(Option::is_some).await.unwrap();
    let waited = clock.now().duration_since(killed);
    assert!((13..=18).contains(&waited.as_secs()), "{waited:?}");
    let term = two.borrow().unwrap();
    assert_eq!(term.acts_from.duration_since(clock.now()), SignedDuration::from_secs(5));
    assert_eq!(lease(&sim)["spec"]["leaseTransitions"], 1);
}

#[tokio::test(start_paused = true)]
async fn another_clock_an_hour_off_does_not_matter() {
    let (sim, clock) = cluster();
    let (_, _one) = start(candidate(&sim, "one", clock));
    clock.sleep(Duration::from_secs(3)).await;
    let ahead = Clock::starting_at(clock.now() + SignedDuration::from_hours(1));
    let (two, _task) = start(candidate(&sim, "two", ahead));
    clock.sleep(Duration::from_secs(300)).await;
    assert!(two.borrow().is_none());
}

#[tokio::test(start_paused = true)]
async fn a_holder_that_cannot_renew_steps_down_before_its_lease_ends() {
    let (sim, clock) = cluster();
    let (mut one, _task) = start(candidate(&sim, "one", clock));
    one.wait_for(Option::is_some).await.unwrap();
    clock.sleep(Duration::from_secs(5)).await;
    sim.faults().refuse(true);
    let began = clock.now();
    one.wait_for(Option::is_none).await.unwrap();
    let waited = clock.now().duration_since(began);
    assert!(waited.as_secs() <= 10, "{waited:?}");
    sim.faults().refuse(false);
    one.wait_for(Option::is_some).await.unwrap();
    assert_eq!(one.borrow().unwrap().number, 2, "a new term");
}

#[tokio::test(start_paused = true)]
async fn a_term_says_until_when_it_may_be_acted_on_even_if_nobody_gets_to_say_that_it_is_over() {
    let (sim, clock) = cluster();
    let mut one = candidate(&sim, "one", clock);
    one.attempt().await.unwrap();
    let term = *one.subscribe().borrow();
    assert_eq!(term.unwrap().acts_until, clock.now() + SignedDuration::from_secs(10));
    clock.sleep(Duration::from_secs(4)).await;
    one.attempt().await.unwrap();
    let renewed = one.subscribe().borrow().unwrap();
    assert_eq!(renewed.acts_until, clock.now() + SignedDuration::from_secs(10));
    assert_eq!(renewed.number, term.unwrap().number, "it is the same term");
    // The process is held up.
    clock.sleep(Duration::from_secs(60)).await;
    assert!(one.attempt().await.unwrap());
    assert_eq!(one.subscribe().borrow().unwrap().number, renewed.number + 1, "another one may have acted meanwhile");
}

#[tokio::test(start_paused = true)]
async fn answers_that_come_late_do_not_lengthen_a_term() {
    let (sim, clock) = cluster();
    let (mut one, _task) = start(candidate(&sim, "one", clock));
    one.wait_for(Option::is_some).await.unwrap();
    clock.sleep(Duration::from_secs(5)).await;
    sim.faults().delay("*", "/leases/", Duration::from_secs(600), 100);
    let began = clock.now();
    one.wait_for(Option::is_none).await.unwrap();
    let waited = clock.now().duration_since(began);
    assert!(waited.as_secs() <= 10, "{waited:?}");
}

#[tokio::test(start_paused = true)]
async fn a_released_lease_is_taken_without_waiting() {
    let (sim, clock) = cluster();
    let mut one = candidate(&sim, "one", clock);
    one.attempt().await.unwrap();
    one.release().await.unwrap();
    assert!(one.subscribe().borrow().is_none());
    let mut two = candidate(&sim, "two", clock);
    assert!(two.attempt().await.unwrap());
    assert_eq!(two.subscribe().borrow().unwrap().acts_from, clock.now());
}

#[tokio::test(start_paused = true)]
async fn what_another_holds_is_not_released() {
    let (sim, clock) = cluster();
    let mut one = candidate(&sim, "one", clock);
    one.attempt().await.unwrap();
    let mut two = candidate(&sim, "two", clock);
    two.attempt().await.unwrap();
    two.release().await.unwrap();
    assert_eq!(lease(&sim)["spec"]["holderIdentity"], "one");
}

#[tokio::test(start_paused = true)]
async fn of_many_that_start_at_once_exactly_one_leads_at_any_time() {
    let (sim, clock) = cluster();
    let mut candidates: Vec<_> =
        (0..5).map(|number| start(candidate(&sim, &format!("agent-{number}"), clock))).collect();
    for _ in 0..20 {
        for _ in 0..40 {
            clock.sleep(Duration::from_millis(500)).await;
            let acts = |term: &Term| term.acts_from <= clock.now();
            let acting = candidates.iter().filter(|(term, _)| term.borrow().as_ref().is_some_and(acts));
            assert!(acting.count() <= 1);
        }
        // The leader dies.
        if let Some(leader) = candidates.iter().position(|(term, _)| term.borrow().is_some()) {
            let (_, task) = candidates.remove(leader);
            task.abort();
            candidates.push(start(candidate(&sim, "next", clock)));
        }
    }
    assert!(lease(&sim)["spec"]["leaseTransitions"].as_i64().unwrap() > 3, "it changed hands");
}

#[tokio::test(start_paused = true)]
async fn a_rival_is_alive_only_once_its_lease_is_seen_to_change() {
    let (sim, clock) = cluster();
    let (_, dead) = start(candidate(&sim, "dead", clock));
    clock.sleep(Duration::from_secs(1)).await;
    dead.abort();
    clock.sleep(Duration::from_secs(80)).await;
    let mut two = candidate(&sim, "two", clock);
    assert!(!two.attempt().await.unwrap());
    let seen = two.rival().borrow().clone().unwrap();
    assert_eq!((&*seen.holder, seen.valid, seen.alive), ("dead", SignedDuration::from_secs(15), false));
    assert!(clock.now().duration_since(seen.renewed.unwrap()) >= SignedDuration::from_secs(80));
    assert_eq!(rival(client(&sim), names::NAMESPACE, names::AGENT).await.unwrap(), Some(seen));
    sim.edit("leases", names::NAMESPACE, names::AGENT, |lease| {
        lease["spec"]["renewTime"] = json!(MicroTime(clock.now()));
    });
    assert!(!two.attempt().await.unwrap());
    assert!(two.rival().borrow().as_ref().unwrap().alive);
    clock.sleep(Duration::from_secs(16)).await;
    assert!(two.attempt().await.unwrap());
    assert_eq!(*two.rival().borrow(), None);
}
