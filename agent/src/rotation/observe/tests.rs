use serde_json::json;

use super::*;
use crate::cache::Partition;
use crate::provider::Order;
use crate::rotation::effect::Effect;
use crate::rotation::execute::Done;
use crate::rotation::memory::{Created, Ordered};
use crate::rotation::observation::{Refused, RoomState};
use crate::rotation::record::Ending;
use crate::rotation::testing::{YOUNG, after, cluster, entry, landed, old, young};
use crate::surge::testing;

fn seen(entry: &Entry, state: &State, memory: &Memory) -> Observation {
    observe(entry, state, memory, Slot::Free, after(60))
}

/// A placeholder of this rotation for a Pod, Running on this node, with what `over` says in its place.
fn room(entry: &Entry, pod: &str, node: &str, over: &serde_json::Value) -> Pod {
    let labels = json!({
        "kubectl-rotate.dev/rotation": entry.record.id,
        "kubectl-rotate.dev/class": "a",
        "kubectl-rotate.dev/pod-uid": pod,
    });
    let mut object = json!({
        "metadata": { "labels": labels, "uid": format!("room-{pod}"), "ownerReferences": null },
        "spec": { "nodeName": node, "priority": -10 },
    });
    testing::merge(&mut object, over);
    testing::pod(names::ROOM_NAMESPACE, &names::placeholder_name(&entry.record.id, pod, 0), &object)
}

fn states(entry: &Entry, others: &[&str], pods: Vec<Pod>) -> Vec<RoomState> {
    let state = cluster(entry, others, pods);
    seen(entry, &state, &Memory::default()).room.into_iter().map(|room| room.state).collect()
}

#[test]
fn a_cache_that_has_not_seen_everything_says_nothing() {
    let entry = entry(&["p1"]);
    let state = testing::state([testing::node("cand", &json!({}))], [old("p1")]);
    let seen = seen(&entry, &state, &Memory::default());
    assert!(!seen.synced && seen.leaving.is_empty() && seen.node == NodeSeen::Gone);
}

#[test]
fn what_a_rotation_is_judged_by_is_read_before_it_is_judged() {
    let entry = entry(&["p1"]);
    let mut state = State::scoped();
    state.apply_node(testing::node("cand", &json!({})));
    for kind in [Kind::Pods, Kind::Nodes, Kind::Pdbs] {
        state.set_revision(kind, "1");
    }
    assert!(!seen(&entry, &state, &Memory::default()).synced, "the placeholders are not read");
    state.cover(Partition::room());
    let unread = seen(&entry, &state, &Memory::default());
    assert_eq!(unread.unread.map(|unread| unread.scope), Some(Partition::node("cand")));
    assert!(unread.synced && unread.owners.is_empty(), "no Pod is called gone");
    state.cover(Partition::node("cand"));
    state.cover(Partition::namespace("shop"));
    let read = seen(&entry, &state, &Memory::default());
    assert_eq!((read.unread, read.owners[0].gone), (None, 1));
}

#[test]
fn room_on_a_node_whose_pods_are_not_read_is_coming_and_not_held() {
    let entry = entry(&["p1"]);
    let mut state = State::scoped();
    for kind in [Kind::Nodes, Kind::Pdbs] {
        state.set_revision(kind, "1");
    }
    for node in ["cand", "b"] {
        state.apply_node(testing::node(node, &json!({})));
    }
    for pod in [old("p1"), room(&entry, "p1", "b", &json!({}))] {
        state.apply_pod(&pod.view());
    }
    for scope in [Partition::room(), Partition::node("cand"), Partition::namespace("shop")] {
        state.cover(scope);
    }
    let unread = seen(&entry, &state, &Memory::default());
    let message = Some("the Pods of node b are being read".to_owned());
    assert_eq!(unread.room[0].state, RoomState::Coming { message });
    assert!(unread.needs[0].serves.is_empty() && unread.needs[0].coming.contains("room-p1"), "it is waited for");
    state.cover(Partition::node("b"));
    let read = seen(&entry, &state, &Memory::default());
    assert_eq!(read.room[0].state, RoomState::Held { node: "b".to_owned(), misfit: None });
    assert!(read.needs[0].serves.contains("room-p1"));
}

#[test]
fn the_node_is_recognised_by_its_uid_and_its_marks_by_the_rotation() {
    let mut entry = entry(&["p1"]);
    let state = cluster(&entry, &["b"], [old("p1")]);
    let marked = NodeSeen::Here { marked: true, traces: true, deleting: false };
    assert_eq!(seen(&entry, &state, &Memory::default()).node, marked);
    let mut memory = Memory { marks: Some((false, after(59))), ..Memory::default() };
    let unmarked = NodeSeen::Here { marked: false, traces: false, deleting: false };
    assert_eq!(seen(&entry, &state, &memory).node, unmarked, "our own patch is believed before the cache shows it");
    memory.refresh(&entry.record, &state, after(120));
    assert_eq!(seen(&entry, &state, &memory).node, marked, "but not for ever");
    memory.marks = Some((true, after(59)));
    memory.refresh(&entry.record, &state, after(60));
    assert_eq!(memory.marks, None, "the cache shows it, and will show what others do to the node");
    entry.record.node_uid = "another".to_owned();
    assert_eq!(seen(&entry, &state, &Memory::default()).node, NodeSeen::Gone);
}

#[test]
fn a_cordon_is_somebody_elses_where_nothing_says_that_it_is_ours() {
    let entry = entry(&["p1"]);
    let mut state = cluster(&entry, &[], [old("p1")]);
    assert!(!seen(&entry, &state, &Memory::default()).foreign_cordon);
    for cordoned in [true, false] {
        let node = json!({ "spec": { "unschedulable": cordoned } });
        state.apply_node(testing::node("cand", &node));
        assert_eq!(seen(&entry, &state, &Memory::default()).foreign_cordon, cordoned);
    }
}

#[test]
fn the_barrier_is_passed_once_all_that_was_listed_is_in_the_cache() {
    let entry = entry(&["p1"]);
    let state = cluster(&entry, &["b"], [old("p1")]);
    let listed = |uids: &[&str]| Memory {
        listed: Some((uids.iter().map(|uid| (*uid).to_owned()).collect(), after(59))),
        ..Memory::default()
    };
    assert_eq!(seen(&entry, &state, &Memory::default()).barrier, Barrier::Open);
    assert_eq!(seen(&entry, &state, &listed(&["p1"])).barrier, Barrier::Passed);
    assert_eq!(seen(&entry, &state, &listed(&["p1", "late"])).barrier, Barrier::Open);
}

#[test]
fn an_old_list_and_one_from_before_the_cordon_do_not_count() {
    let entry = entry(&["p1"]);
    let state = cluster(&entry, &["b"], [old("p1")]);
    let mut memory = Memory::default();
    let list = |memory: &mut Memory, second| {
        let listed = Done::Listed { bound: BTreeSet::from(["p1".to_owned()]), arriving: Vec::new() };
        memory.end("cand", &Effect::List, Ok(listed), &state, after(second));
        memory.refresh(&entry.record, &state, after(second));
        assert_eq!(seen(&entry, &state, memory).barrier, Barrier::Passed);
    };
    memory.refresh(&entry.record, &state, after(0));
    list(&mut memory, 10);
    memory.refresh(&entry.record, &state, after(30));
    assert_eq!(seen(&entry, &state, &memory).barrier, Barrier::Open);
    list(&mut memory, 31);
    memory.end("cand", &Effect::Mark, Ok(Done::Marked(true)), &state, after(32));
    assert_eq!(seen(&entry, &state, &memory).barrier, Barrier::Open);
}

#[test]
fn pods_that_were_listed_as_arriving_are_waited_for_until_the_next_list() {
    let entry = entry(&["p1"]);
    let state = cluster(&entry, &["b"], []);
    let mut memory = Memory::default();
    let listed = Done::Listed { bound: BTreeSet::new(), arriving: vec!["other/waiting".to_owned()] };
    memory.refresh(&entry.record, &state, after(55));
    memory.end("cand", &Effect::List, Ok(listed), &state, after(55));
    assert_eq!(seen(&entry, &state, &memory).arriving, ["other/waiting"]);
    memory.refresh(&entry.record, &state, after(80));
    assert!(seen(&entry, &state, &memory).arriving.is_empty(), "it has to be listed again");
    assert_eq!(seen(&entry, &state, &memory).barrier, Barrier::Open);
}

#[test]
fn a_list_of_an_earlier_phase_does_not_count() {
    let mut entry = entry(&["p1"]);
    let state = cluster(&entry, &["b"], [old("p1")]);
    let mut memory = Memory::default();
    memory.refresh(&entry.record, &state, after(10));
    memory.listed = Some((BTreeSet::new(), after(59)));
    memory.refresh(&entry.record, &state, after(11));
    assert!(memory.listed.is_some());
    entry.record.enter(Phase::Settling, after(12));
    memory.refresh(&entry.record, &state, after(12));
    assert_eq!(memory.listed, None);
}

#[test]
fn only_a_running_placeholder_on_a_node_that_takes_pods_holds_room() {
    let entry = entry(&["p1"]);
    let held = |over: serde_json::Value| states(&entry, &["b"], vec![old("p1"), room(&entry, "p1", "b", &over)]);
    assert!(matches!(held(json!({}))[..], [RoomState::Held { .. }]));
    assert!(matches!(held(json!({ "status": { "phase": "Pending" } }))[..], [RoomState::Coming { .. }]));
    assert!(matches!(held(json!({ "status": { "phase": "Failed" } }))[..], [RoomState::Lost { .. }]));
    assert!(matches!(
        held(json!({ "metadata": { "deletionTimestamp": "2026-01-05T02:00:00Z" } }))[..],
        [RoomState::Ending]
    ));
    assert!(matches!(held(json!({ "spec": { "nodeName": "cand" } }))[..], [RoomState::Lost { .. }]));
    assert!(matches!(held(json!({ "spec": { "nodeName": "nowhere" } }))[..], [RoomState::Lost { .. }]));
}

#[test]
fn a_placeholder_that_would_not_give_way_to_its_pod_holds_no_room_for_it() {
    let entry = entry(&["p1"]);
    let critical = json!({ "spec": { "priority": 1000 } });
    let state = cluster(&entry, &["b"], [old("p1"), room(&entry, "p1", "b", &critical)]);
    let seen = seen(&entry, &state, &Memory::default());
    assert!(matches!(&seen.room[0].state, RoomState::Lost { why } if why.contains("priority 1000")), "{:?}", seen.room);
    assert!(seen.needs[0].serves.is_empty());
    let lower = room(&entry, "p1", "b", &json!({ "spec": { "priority": -20 } }));
    assert!(matches!(states(&entry, &["b"], vec![old("p1"), lower])[..], [RoomState::Held { .. }]));
}

#[test]
fn room_on_a_node_that_stops_taking_pods_is_lost_and_says_why() {
    let entry = entry(&["p1"]);
    for (over, why) in [
        (json!({ "spec": { "unschedulable": true } }), "node b is cordoned"),
        (json!({ "metadata": { "deletionTimestamp": "2026-01-05T02:00:00Z" } }), "node b is being deleted"),
        (json!({ "status": { "conditions": [] } }), "node b is not Ready"),
    ] {
        let mut state = cluster(&entry, &[], [old("p1"), room(&entry, "p1", "b", &json!({}))]);
        state.apply_node(testing::node("b", &over));
        let room = seen(&entry, &state, &Memory::default()).room;
        assert_eq!(room[0].state, RoomState::Lost { why: why.to_owned() });
    }
}

#[test]
fn the_schedulers_message_is_shown_without_what_it_says_of_preemption() {
    let entry = entry(&["p1"]);
    let message = "0/2 nodes are available. no new claims to deallocate, preemption: not eligible due to \
                   preemptionPolicy=Never.";
    let condition = json!({ "type": "PodScheduled", "status": "False", "message": message });
    let pending = json!({ "spec": { "nodeName": null }, "status": { "phase": "Pending", "conditions": [condition] } });
    let rooms = states(&entry, &["b"], vec![old("p1"), room(&entry, "p1", "b", &pending)]);
    assert_eq!(rooms, [RoomState::Coming { message: Some("0/2 nodes are available.".to_owned()) }]);
}

#[test]
fn a_placeholder_serves_its_pod_and_none_that_asks_for_more() {
    let entry = entry(&["p1", "p2"]);
    let big = testing::pod("shop", "p2", &testing::requesting(&json!({ "cpu": "2" })));
    let state = cluster(&entry, &["b"], [old("p1"), big, room(&entry, "p1", "b", &json!({}))]);
    let needs = seen(&entry, &state, &Memory::default()).needs;
    let serves: Vec<_> = needs.iter().map(|need| (&*need.uid, need.serves.len())).collect();
    assert_eq!(serves, [("p1", 1), ("p2", 0)]);
}

#[test]
fn a_placeholder_where_the_pod_would_not_run_serves_nobody_and_says_why() {
    let entry = entry(&["p1"]);
    let selecting = testing::pod("shop", "p1", &json!({ "spec": { "nodeSelector": { "disk": "ssd" } } }));
    let state = cluster(&entry, &["b"], [selecting.clone(), room(&entry, "p1", "b", &json!({}))]);
    let mut memory = Memory::default();
    memory.refresh(&entry.record, &state, after(60));
    let seen = seen(&entry, &state, &memory);
    assert!(seen.needs[0].serves.is_empty());
    assert!(
        matches!(&seen.room[0].state, RoomState::Held { misfit: Some(why), .. } if why.contains("disk")),
        "{:?}",
        seen.room
    );
}

#[test]
fn room_is_judged_for_a_replacement_that_does_not_exist_yet_by_the_pod_that_left() {
    let entry = entry(&["p1"]);
    let before = cluster(
        &entry,
        &["b"],
        [testing::pod("shop", "p1", &json!({ "spec": { "nodeSelector": { "disk": "ssd" } } }))],
    );
    let mut memory = Memory::default();
    memory.refresh(&entry.record, &before, after(50));
    let state = cluster(&entry, &["b"], [room(&entry, "p1", "b", &json!({}))]);
    assert!(seen(&entry, &state, &memory).needs[0].serves.is_empty());
    // After a restart only its class is known.
    assert_eq!(seen(&entry, &state, &Memory::default()).needs[0].serves.len(), 1);
}

#[test]
fn a_placeholder_that_was_created_is_coming_before_the_cache_shows_it() {
    let entry = entry(&["p1"]);
    let state = cluster(&entry, &["b"], [old("p1")]);
    let created = Created {
        uid: "u".to_owned(),
        pod_uid: "p1".to_owned(),
        class: "a".to_owned(),
        offers: Default::default(),
        at: after(59),
    };
    let mut memory = Memory::default();
    memory.created.insert("room-x".to_owned(), created);
    memory.attempts.insert("p1".to_owned(), (0, after(59)));
    let observed = seen(&entry, &state, &memory);
    assert_eq!(observed.room[0].state, RoomState::Coming { message: None });
    assert_eq!((observed.needs[0].coming.len(), observed.needs[0].attempt), (1, 1));
    memory.refresh(&entry.record, &state, after(90));
    assert!(seen(&entry, &state, &memory).room.is_empty(), "it never appeared");
}

#[test]
fn a_placeholder_that_is_being_created_is_seen_until_the_cache_shows_it() {
    let entry = entry(&["p1"]);
    let name = names::placeholder_name(&entry.record.id, "p1", 0);
    let reservation = crate::rotation::effect::Reservation {
        name: name.clone(),
        pod_uid: "p1".to_owned(),
        class: entry.record.class("a").unwrap().clone(),
    };
    let mut memory = Memory::default();
    memory.reserving.insert(name, reservation);
    let observed = seen(&entry, &cluster(&entry, &["b"], [old("p1")]), &memory);
    assert_eq!(observed.room[0].state, RoomState::Creating);
    assert_eq!(observed.needs[0].coming.len(), 1);
    let state = cluster(&entry, &["b"], [old("p1"), room(&entry, "p1", "b", &json!({}))]);
    assert_eq!(seen(&entry, &state, &memory).room.len(), 1, "the watch is faster than the answer");
}

#[test]
fn a_placeholder_that_was_deleted_is_ending_before_the_cache_shows_it() {
    let entry = entry(&["p1"]);
    let state = cluster(&entry, &["b"], [old("p1"), room(&entry, "p1", "b", &json!({}))]);
    let mut memory = Memory::default();
    memory.released.insert("room-p1".to_owned(), after(59));
    let seen = seen(&entry, &state, &memory);
    assert_eq!(seen.room[0].state, RoomState::Ending);
    assert!(seen.needs[0].coming.is_empty(), "it is not being preempted");
}

#[test]
fn placeholders_of_other_rotations_are_not_ours() {
    let entry = entry(&["p1"]);
    let other = room(&entry, "p1", "b", &json!({ "metadata": { "labels": { "kubectl-rotate.dev/rotation": "x" } } }));
    assert!(states(&entry, &["b"], vec![old("p1"), other]).is_empty());
}

#[test]
fn numbers_of_placeholders_rise_and_slow_down() {
    let entry = entry(&["p1"]);
    let state = cluster(&entry, &["b"], [old("p1")]);
    let next = |attempt| {
        let mut memory = Memory::default();
        memory.attempts.insert("p1".to_owned(), (attempt, after(60)));
        let need = seen(&entry, &state, &memory).needs.remove(0);
        (need.attempt, need.not_before)
    };
    assert_eq!(next(0), (1, None));
    assert_eq!(next(1), (2, None));
    assert_eq!(next(2), (3, Some(after(61))));
    assert_eq!(next(5), (6, Some(after(68))));
    assert_eq!(next(50), (51, Some(after(92))));
}

#[test]
fn evictions_that_a_budget_has_not_counted_yet_are_counted_for_it() {
    let entry = entry(&["p1", "p2"]);
    let labels = json!({ "metadata": { "labels": { "app": "web" } } });
    let pods = ["p1", "p2"].map(|name| testing::pod("shop", name, &labels));
    let mut state = cluster(&entry, &["b"], pods);
    state.apply_pdb(testing::pdb(&json!({
        "metadata": { "namespace": "shop", "name": "web", "uid": "pdb" },
        "spec": { "maxUnavailable": 1, "selector": { "matchLabels": { "app": "web" } } },
        "status": { "disruptionsAllowed": 1, "currentHealthy": 2, "desiredHealthy": 1, "expectedPods": 2 },
    })));
    let mut memory = Memory::default();
    assert_eq!(seen(&entry, &state, &memory).budgets[0].allowed, 1);
    memory.note_evicting("p1", &state, after(59));
    let observed = seen(&entry, &state, &memory);
    assert_eq!(observed.budgets[0].allowed, 0);
    assert!(observed.budgets[0].closed.message.ends_with("evictions that it allowed are on their way"));
}

#[test]
fn a_late_pod_is_judged_and_one_of_the_record_is_not_fresh() {
    let entry = entry(&["p1"]);
    let late = testing::pod("shop", "late", &json!({}));
    let bare = testing::pod("shop", "bare", &json!({ "metadata": { "ownerReferences": null } }));
    let state = cluster(&entry, &["b"], [old("p1"), late, bare]);
    let verdicts = seen(&entry, &state, &Memory::default()).verdicts;
    assert_eq!(verdicts.fresh.iter().map(|fresh| &*fresh.uid).collect::<Vec<_>>(), ["late"]);
    assert!(verdicts.fresh[0].room.is_some());
    assert_eq!(verdicts.blockers.iter().map(|blocker| blocker.code).collect::<Vec<_>>(), [Code::BarePod]);
}

#[test]
fn the_first_look_notes_young_siblings() {
    let mut entry = entry(&[]);
    entry.record.surge = None;
    let state = cluster(&entry, &["b"], [old("p1"), landed("n1", "b"), young("n2", &json!({}))]);
    let mut memory = Memory::default();
    assert!(seen(&entry, &state, &memory).verdicts.fresh.is_empty(), "where room may come from is not known yet");
    memory.provider = Some((Default::default(), after(0)));
    let verdicts = seen(&entry, &state, &memory).verdicts;
    assert_eq!(verdicts.fresh.len(), 1);
    assert_eq!(verdicts.fresh[0].siblings, ["n1", "n2"]);
}

#[test]
fn claims_are_asked_for_before_anything_is_judged() {
    let mut entry = entry(&[]);
    entry.record.surge = None;
    let volumes = json!({ "spec": { "volumes": [{ "name": "d", "persistentVolumeClaim": { "claimName": "data" } }] } });
    let state = cluster(&entry, &["b"], [testing::pod("shop", "p1", &volumes)]);
    let mut memory = Memory { provider: Some((Default::default(), after(0))), ..Memory::default() };
    let key = (Box::from("shop"), Box::from("data"));
    let verdicts = seen(&entry, &state, &memory).verdicts;
    assert_eq!((verdicts.unknown_claims, verdicts.fresh.len()), (vec![key.clone()], 0));
    memory.volumes.claims.insert(key, crate::cache::volumes::Claim::Unbound);
    assert_eq!(seen(&entry, &state, &memory).verdicts.fresh.len(), 1);
}

#[test]
fn a_nominated_replacement_has_its_room_and_one_that_cannot_preempt_says_so() {
    let entry = entry(&["p1"]);
    let pending = |over: serde_json::Value| {
        let state = cluster(&entry, &["b"], [young("n1", &over)]);
        seen(&entry, &state, &Memory::default()).needs.remove(0).pending.unwrap()
    };
    assert!(pending(json!({ "status": { "nominatedNodeName": "b" } })).nominated);
    assert!(!pending(json!({ "status": { "nominatedNodeName": "cand" } })).nominated);
    assert!(!pending(json!({ "status": { "nominatedNodeName": "nowhere" } })).nominated);
    assert!(pending(json!({ "spec": { "preemptionPolicy": "Never" } })).cannot_preempt);
    assert!(pending(json!({ "spec": { "priority": -10 } })).cannot_preempt);
    assert!(pending(json!({ "spec": { "schedulerName": "volcano" } })).cannot_preempt);
    assert!(!pending(json!({})).cannot_preempt);
}

#[test]
fn refusals_are_forgotten_with_their_pod() {
    let entry = entry(&["p1"]);
    let mut memory = Memory::default();
    let notice = Notice { code: Code::Throttled, object: String::new(), message: String::new(), remedy: String::new() };
    memory.refused.insert("p1".to_owned(), Refused { until: after(90), notice });
    memory.refresh(&entry.record, &cluster(&entry, &["b"], [old("p1")]), after(60));
    assert_eq!(memory.refused.len(), 1);
    memory.refresh(&entry.record, &cluster(&entry, &["b"], []), after(61));
    assert!(memory.refused.is_empty());
}

#[test]
fn a_node_that_came_for_us_is_known_by_our_placeholder_or_our_protection_and_others_are_not() {
    let entry = entry(&["p1"]);
    let node = |name: &str, created: &str, protected_by: Option<&str>| {
        let mut over = json!({ "metadata": { "creationTimestamp": created } });
        if let Some(id) = protected_by {
            over["metadata"]["annotations"] = json!({ "kubectl-rotate.dev/protected-by": format!("{id}:") });
        }
        testing::node(name, &over)
    };
    let nodes = [
        node("cand", testing::CREATED, None),
        node("spare", testing::CREATED, None),
        node("held", YOUNG, None),
        node("ours", YOUNG, Some(&entry.record.id)),
        node("theirs", YOUNG, Some("0000000000")),
        node("unrelated", YOUNG, None),
    ];
    let room = |pod: &str, on: &str| room(&entry, pod, on, &json!({}));
    let pods = [room("p1", "spare"), room("p2", "held"), room("p3", "theirs"), landed("n1", "ours")];
    let mut state = testing::state(nodes, pods);
    for kind in [Kind::Pods, Kind::Nodes, Kind::Pdbs] {
        state.set_revision(kind, "1");
    }
    let mut memory = Memory::default();
    let found = |memory: &Memory| seen(&entry, &state, memory).surge_nodes;
    let names: Vec<_> = found(&memory).into_iter().map(|node| node.name).collect();
    assert_eq!(names, ["held", "ours", "theirs"], "spare room did not come for us");
    let [held, ours, theirs] = &found(&memory)[..] else { panic!("three") };
    assert_eq!((held.holds, held.protected, held.others, held.unused), (true, false, false, Some(true)));
    assert_eq!((ours.holds, ours.protected, ours.others, ours.unused), (false, true, false, Some(false)));
    assert_eq!((theirs.holds, theirs.protected, theirs.others), (true, false, true));
    memory.protections.insert("held".to_owned(), (true, after(10)));
    assert!(found(&memory)[0].protected, "our own patch is believed until the cache shows it");
}

/// An order may arrive after what a cancelled rotation judges by was read: one replica would be left for ever.
#[test]
fn what_was_read_before_the_end_or_before_an_order_was_answered_does_not_settle_it() {
    let mut entry = entry(&[]);
    entry.record.order = Some(Order::MachineDeployment {
        namespace: "fleet".to_owned(),
        name: "web".to_owned(),
        version: "v1beta2".to_owned(),
        replicas: 3,
    });
    let state = cluster(&entry, &["b"], []);
    let known = |entry: &Entry, read: i64, ordered: Option<Ordered>| {
        let provider = Some((Default::default(), after(read)));
        seen(entry, &state, &Memory { provider, ordered, ..Memory::default() }).machine.known
    };
    assert!(known(&entry, 5, None), "nothing ends yet");
    entry.record.ending = Some(Ending { phase: Phase::Cancelled, since: after(5), uncordon: false });
    assert!(!known(&entry, 5, None));
    assert!(known(&entry, 6, None));
    assert!(!known(&entry, 6, Some(Ordered::Sent)));
    assert!(!known(&entry, 6, Some(Ordered::Ended(after(6)))));
    assert!(known(&entry, 7, Some(Ordered::Ended(after(6)))));
}
