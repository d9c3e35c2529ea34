use serde_json::json;

use super::*;
use crate::cache::Pod;
use crate::surge::testing;

fn pod(namespace: &str, name: &str, node: &str) -> Pod {
    testing::pod(namespace, name, &json!({ "spec": { "nodeName": node } }))
}

/// What a feed says of a Pod at this resourceVersion.
fn say(state: &mut State, pod: &Pod, revision: u64) {
    let mut view = pod.view();
    view.revision = Some(revision.to_string().into());
    state.apply_pod(&view);
}

fn names(state: &State) -> Vec<String> {
    let mut names: Vec<_> = state.pods().map(|pod| pod.name.to_string()).collect();
    names.sort();
    names
}

#[test]
fn a_whole_state_covers_everything_and_a_scoped_one_what_was_read() {
    let state = State::default();
    assert!(state.covers_cluster() && state.covers_node("a") && state.covers(&Partition::namespace("shop")));
    let mut state = State::scoped();
    assert!(!state.covers_cluster() && !state.covers_node("a"));
    state.cover(Partition::node("a"));
    assert!(state.covers_node("a") && !state.covers_node("b") && !state.covers(&Partition::namespace("shop")));
    assert!(!state.has_read(Kind::Pods), "the placeholders are not read");
    state.cover(Partition::room());
    assert!(state.has_read(Kind::Pods) && !state.has_read(Kind::Nodes));
}

#[test]
fn a_node_that_is_not_read_is_never_empty() {
    let mut state = State::scoped();
    state.apply_node(testing::node("a", &json!({})));
    assert!(state.hosts_real_pods("a"));
    state.cover(Partition::node("a"));
    assert!(!state.hosts_real_pods("a"));
}

#[test]
fn a_scope_that_ends_takes_only_the_pods_that_no_other_holds() {
    let mut state = State::scoped();
    for scope in [Partition::node("a"), Partition::namespace("shop")] {
        state.cover(scope);
    }
    for (number, pod) in
        [pod("shop", "both", "a"), pod("shop", "shop", "b"), pod("other", "node", "a")].into_iter().enumerate()
    {
        say(&mut state, &pod, number as u64);
    }
    state.uncover(&Partition::node("a"), &[Partition::room(), Partition::namespace("shop")]);
    assert!(!state.covers_node("a"));
    assert_eq!(names(&state), ["both", "shop"]);
    state.uncover(&Partition::namespace("shop"), &[Partition::room()]);
    assert_eq!(names(&state), Vec::<String>::new());
    say(&mut state, &pod("other", "node", "a"), 1);
    assert_eq!(names(&state), ["node"], "what was forgotten with its scope is news again");
}

#[test]
fn a_feed_that_lags_behind_takes_nothing_back() {
    let mut state = State::scoped();
    let ready = |ready| {
        testing::pod("shop", "p", &json!({ "status": { "conditions": [{ "type": "Ready", "status": ready }] } }))
    };
    let is_ready = |state: &State| state.pod("p").map(|pod| pod.ready);
    say(&mut state, &ready("True"), 7);
    say(&mut state, &ready("False"), 5);
    assert_eq!(is_ready(&state), Some(true));
    say(&mut state, &ready("False"), 8);
    assert_eq!(is_ready(&state), Some(false));
    state.remove_pod("p");
    state.note_gone("p", Some("10"));
    say(&mut state, &ready("True"), 9);
    assert_eq!(is_ready(&state), None, "it is gone");
}

#[test]
fn what_another_feed_knows_to_be_younger_than_a_list_survives_its_end() {
    let mut state = State::scoped();
    say(&mut state, &pod("shop", "old", "a"), 3);
    say(&mut state, &pod("shop", "young", "a"), 9);
    let relist = state.begin_relist(Kind::Pods, Partition::node("a"));
    state.mark_younger(&relist, "5");
    assert_eq!(state.end_relist(relist), 1);
    assert_eq!(names(&state), ["young"]);
}

#[test]
fn one_feed_of_everything_is_believed_in_its_order() {
    let mut state = State::default();
    say(&mut state, &pod("shop", "p", "a"), 7);
    say(&mut state, &pod("shop", "p", "b"), 5);
    assert_eq!(state.pods_on("b").len(), 1);
}
