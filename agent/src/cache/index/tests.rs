//! Tests of the state on single events.

use serde_json::{Value, json};

use super::{Kind, Partition, ShardRange, State, shard_hash};
use crate::cache::decode;
use crate::surge::testing;

fn pod(uid: &str, node: &str, cpu: &str, more: &Value) -> crate::cache::Pod {
    let mut object = json!({
        "metadata": {"namespace": "shop", "name": uid, "uid": uid, "labels": {"app": "cart"}, "ownerReferences": [
            {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "cart", "uid": "rs", "controller": true}]},
        "spec": {"nodeName": node, "containers": [{"name": "c", "resources": {"requests": {"cpu": cpu}}}]},
        "status": {"phase": "Running"},
    });
    merge(&mut object, more);
    decode::pod(&object.to_string()).unwrap().to_pod()
}

fn merge(into: &mut Value, from: &Value) {
    match (into, from) {
        (Value::Object(into), Value::Object(from)) => {
            for (key, value) in from {
                merge(into.entry(key).or_insert(Value::Null), value);
            }
        }
        (into, from) if !from.is_null() => *into = from.clone(),
        _ => {}
    }
}

fn node(name: &str, hostname: &str) -> crate::cache::Node {
    let labels = json!({"kubernetes.io/hostname": hostname});
    decode::node(&json!({"metadata": {"name": name, "uid": format!("uid-{name}"), "labels": labels}}).to_string())
        .unwrap()
}

#[test]
fn a_pod_that_moves_leaves_its_old_node_and_joins_the_new_one() {
    let mut state = State::default();
    state.apply_pod(&pod("a", "n1", "500m", &Value::Null).view());
    state.apply_pod(&pod("b", "n1", "250m", &Value::Null).view());
    assert_eq!(state.movable("n1").requests.milli_cpu, 750);
    state.apply_pod(&pod("a", "n2", "500m", &Value::Null).view());
    assert_eq!(state.movable("n1").requests.milli_cpu, 250);
    assert_eq!(state.movable("n2").requests.milli_cpu, 500);
    assert_eq!(state.pods_on("n1").len(), 1);
}

#[test]
fn a_finished_pod_is_listed_and_not_summed() {
    let mut state = State::default();
    state.apply_pod(&pod("a", "n1", "500m", &json!({"status": {"phase": "Succeeded"}})).view());
    assert_eq!(state.usage("n1").pods, 0);
    assert!(!state.hosts_real_pods("n1"));
    assert_eq!(state.pods_on("n1").len(), 1);
}

#[test]
fn a_deletion_of_the_old_pod_leaves_its_successor_of_the_same_name() {
    let mut state = State::default();
    state.apply_pod(&pod("old", "n1", "1", &json!({"metadata": {"name": "cart-0"}})).view());
    state.apply_pod(&pod("new", "n1", "2", &json!({"metadata": {"name": "cart-0"}})).view());
    state.remove_pod("old");
    state.remove_pod("old");
    assert_eq!(state.movable("n1").requests.milli_cpu, 2000);
    assert!(state.pod("new").is_some());
}

#[test]
fn a_change_of_the_host_name_label_judges_pinned_pods_anew() {
    let mut state = State::default();
    let pinned = json!({"spec": {"nodeSelector": {"kubernetes.io/hostname": "h1"}}});
    state.apply_pod(&pod("a", "n1", "1", &pinned).view());
    state.apply_node(node("n1", "h1"));
    assert_eq!(state.movable("n1").pods, 0, "pinned here");
    state.apply_node(node("n1", "other"));
    assert_eq!(state.movable("n1").pods, 1, "pinned elsewhere counts");
    state.apply_node(node("n1", "h1"));
    assert_eq!(state.movable("n1").pods, 0);
    assert_eq!(state.usage("n1").pods, 1);
    assert!(state.hosts_real_pods("n1"), "a pinned Pod is real");
}

#[test]
fn a_node_is_forgotten_only_by_its_own_uid() {
    let mut state = State::default();
    state.apply_node(node("n1", "n1"));
    state.remove_node("n1", "another");
    assert!(state.node("n1").is_some());
    state.remove_node("n1", "uid-n1");
    assert!(state.node("n1").is_none());
}

#[test]
fn a_relist_forgets_what_it_does_not_hold_and_only_at_its_end() {
    let mut state = State::default();
    state.apply_pod(&pod("a", "n1", "1", &Value::Null).view());
    state.apply_pod(&pod("b", "n1", "1", &Value::Null).view());
    let relist = state.begin_relist(Kind::Pods, Partition::All);
    state.apply_pod(&pod("b", "n1", "1", &Value::Null).view());
    state.mark_seen(&relist, "b");
    assert_eq!(state.movable("n1").pods, 2, "no flash of an empty cache");
    assert_eq!(state.end_relist(relist), 1);
    assert_eq!(state.movable("n1").pods, 1);
    let relist = state.begin_relist(Kind::Nodes, Partition::All);
    state.end_relist(relist);
    assert_eq!(state.movable("n1").pods, 1, "a list of nodes says nothing about Pods");
}

#[test]
fn siblings_share_their_shape_and_labels() {
    let mut state = State::default();
    for number in 0..100 {
        let name = format!("web-{number}");
        let own =
            json!({"statefulset.kubernetes.io/pod-name": name, "apps.kubernetes.io/pod-index": number.to_string()});
        state.apply_pod(&pod(&name, "n1", "1", &json!({"metadata": {"labels": own}})).view());
    }
    let counts = state.counts();
    assert_eq!((counts.pods, counts.shapes, counts.label_sets, counts.owners), (100, 1, 1, 1));
    let labels = state.pod("web-7").unwrap().labels;
    assert_eq!(labels.get("statefulset.kubernetes.io/pod-name"), Some("web-7"));
    assert_eq!(labels.get("apps.kubernetes.io/pod-index"), Some("7"));
    assert_eq!(labels.get("app"), Some("cart"));
}

#[test]
fn an_indexed_jobs_pods_share_their_labels() {
    let mut state = State::default();
    for (number, name) in ["job-0-x7k2p", "job-1-abcde"].iter().enumerate() {
        let own = json!({"batch.kubernetes.io/job-completion-index": number.to_string()});
        state.apply_pod(&pod(name, "n1", "1", &json!({"metadata": {"labels": own}})).view());
    }
    assert_eq!(state.counts().label_sets, 1);
    assert_eq!(state.pod("job-1-abcde").unwrap().labels.get("batch.kubernetes.io/job-completion-index"), Some("1"));
}

#[test]
fn a_label_that_the_name_does_not_tell_is_kept() {
    let mut state = State::default();
    let own = json!({"statefulset.kubernetes.io/pod-name": "somebody-else", "apps.kubernetes.io/pod-index": "9"});
    state.apply_pod(&pod("web-7", "n1", "1", &json!({"metadata": {"labels": own}})).view());
    let labels = state.pod("web-7").unwrap().labels;
    assert_eq!(labels.get("statefulset.kubernetes.io/pod-name"), Some("somebody-else"));
    assert_eq!(labels.get("apps.kubernetes.io/pod-index"), Some("9"));
}

#[test]
fn budgets_select_pods_of_their_own_namespace() {
    let mut state = State::default();
    let pdb = |uid: &str, namespace: &str, selector: Value| {
        let object =
            json!({"metadata": {"namespace": namespace, "name": uid, "uid": uid}, "spec": {"selector": selector}});
        decode::pdb(&object.to_string()).unwrap()
    };
    state.apply_pdb(pdb("match", "shop", json!({"matchLabels": {"app": "cart"}})));
    state.apply_pdb(pdb("all", "shop", json!({})));
    state.apply_pdb(pdb("none", "shop", Value::Null));
    state.apply_pdb(pdb("other", "elsewhere", json!({})));
    let pod = pod("a", "n1", "1", &Value::Null);
    let uids = |state: &State| state.pdbs_selecting(&pod).iter().map(|pdb| pdb.uid.to_string()).collect::<Vec<_>>();
    assert_eq!(uids(&state), ["all", "match"]);
    let relist = state.begin_relist(Kind::Pdbs, Partition::All);
    state.apply_pdb(pdb("match", "shop", json!({"matchLabels": {"app": "cart"}})));
    state.mark_seen(&relist, "match");
    assert_eq!(state.end_relist(relist), 3);
    assert_eq!(uids(&state), ["match"]);
    state.remove_pdb("match");
    assert_eq!(state.counts().pdbs, 0);
}

#[test]
fn a_nominated_pod_is_arriving_until_it_is_bound() {
    let mut state = State::default();
    let nominated = json!({"status": {"nominatedNodeName": "n1", "phase": "Pending"}});
    let mut waiting = pod("a", "", "1", &nominated);
    assert_eq!(waiting.node, None);
    state.apply_pod(&waiting.view());
    assert_eq!(state.arriving_on("n1").len(), 1);
    assert_eq!(state.usage("n1").pods, 0);
    waiting.node = Some("n1".into());
    state.apply_pod(&waiting.view());
    assert_eq!(state.arriving_on("n1").len(), 0);
    assert_eq!(state.usage("n1").pods, 1);
}

#[test]
fn the_revision_is_remembered_for_each_kind() {
    let mut state = State::default();
    assert_eq!(state.revision(Kind::Pods), None);
    state.set_revision(Kind::Pods, "7");
    state.set_revision(Kind::Nodes, "9");
    assert_eq!((state.revision(Kind::Pods), state.revision(Kind::Nodes)), (Some("7"), Some("9")));
}

#[test]
fn pods_are_chosen_by_labels_of_which_alike_ones_are_asked_about_once() {
    let mut state = State::default();
    let labelled = |key: &str, value: &str| json!({"metadata": {"labels": {key: value}}});
    for number in 0..4 {
        state.apply_pod(&pod(&format!("cart-{number}"), "n1", "500m", &Value::Null).view());
        let name = format!("db-{number}");
        state.apply_pod(&pod(&name, "n1", "1", &labelled("statefulset.kubernetes.io/pod-name", &name)).view());
    }
    let asked = std::cell::Cell::new(0);
    let chosen = state.pods_labelled("shop", |labels| {
        asked.set(asked.get() + 1);
        labels.get("statefulset.kubernetes.io/pod-name").is_none_or(|name| name == "db-2")
    });
    let names: Vec<_> = chosen.iter().map(|pod| &*pod.name).collect();
    assert_eq!(names, ["cart-0", "cart-1", "cart-2", "cart-3", "db-2"]);
    assert_eq!(asked.get(), 5, "once for the four that are alike, and for each whose name is in its labels");
    assert!(state.pods_labelled("nobody", |_| true).is_empty());
}

#[test]
fn a_list_of_one_node_says_nothing_about_others() {
    let mut state = State::default();
    for (uid, node) in [("a", "n1"), ("b", "n1"), ("c", "n2")] {
        state.apply_pod(&pod(uid, node, "1", &Value::Null).view());
    }
    let here = state.begin_relist(Kind::Pods, Partition::Node("n1".into()));
    let there = state.begin_relist(Kind::Pods, Partition::Node("n2".into()));
    state.mark_seen(&here, "a");
    assert_eq!(state.end_relist(there), 1, "c");
    assert_eq!(state.end_relist(here), 1, "b");
    assert_eq!(state.pods().map(|pod| pod.uid.to_string()).collect::<Vec<_>>(), ["a"]);
}

#[test]
fn a_list_that_is_given_up_forgets_nothing_and_marks_nothing() {
    let mut state = State::default();
    state.apply_pod(&pod("a", "n1", "1", &Value::Null).view());
    let broken = state.begin_relist(Kind::Pods, Partition::All);
    state.mark_seen(&broken, "a");
    drop(broken);
    assert_eq!(state.counts().pods, 1);
    let relist = state.begin_relist(Kind::Pods, Partition::All);
    assert_eq!(state.end_relist(relist), 1, "what an earlier list held is not what this one holds");
}

#[test]
fn a_pod_in_the_place_of_one_that_was_seen_has_not_been_seen() {
    let mut state = State::default();
    state.apply_pod(&pod("a", "n1", "1", &Value::Null).view());
    let relist = state.begin_relist(Kind::Pods, Partition::All);
    state.mark_seen(&relist, "a");
    state.remove_pod("a");
    state.apply_pod(&pod("b", "n1", "1", &Value::Null).view());
    assert_eq!(state.end_relist(relist), 1);
}

#[test]
fn what_no_partition_holds_any_more_is_dropped() {
    let mut state = State::default();
    for (uid, node) in [("a", "n1"), ("b", "n2"), ("c", "n3")] {
        state.apply_pod(&pod(uid, node, "1", &Value::Null).view());
    }
    let namespace = |name: &str| Partition::Namespace(name.into());
    assert_eq!(state.drop_uncovered(&[Partition::Node("n1".into()), namespace("shop")]), 0);
    assert_eq!(state.drop_uncovered(&[Partition::Node("n1".into()), namespace("elsewhere")]), 2);
    assert!(state.pod("a").is_some());
    assert_eq!(state.drop_uncovered(&[]), 1);
}

#[test]
fn shards_divide_by_the_hash_that_the_api_server_takes() {
    assert_eq!(shard_hash(""), 0xcbf2_9ce4_8422_2325);
    assert_eq!(shard_hash("a"), 0xaf63_dc4c_8601_ec8c, "the published test vectors of FNV-1a");
    assert_eq!(shard_hash("foobar"), 0x8594_4171_f739_67e8);
    let mut state = State::default();
    for number in 0..32 {
        state.apply_pod(&pod(&format!("pod-{number}"), "n1", "1", &Value::Null).view());
    }
    let halves = [ShardRange { first: 0, last: u64::MAX / 2 }, ShardRange { first: u64::MAX / 2 + 1, last: u64::MAX }];
    let [low, high] = halves.map(|range| state.begin_relist(Kind::Pods, Partition::Shard(range)));
    let gone = state.end_relist(low);
    assert!((1..32).contains(&gone), "{gone}");
    assert!(state.pods().all(|pod| shard_hash(&pod.uid) > u64::MAX / 2));
    assert_eq!(gone + state.end_relist(high), 32);
}

#[test]
fn a_node_with_a_pod_that_cannot_be_read_is_not_empty_until_it_can_be_or_is_gone() {
    let mut state = State::default();
    let note = |state: &mut State, uid: &str, node: &str| state.note_unreadable(testing::unreadable(uid, node));
    let on = |state: &State, node: &str| state.unreadable_on(node).count();
    ["a", "b"].iter().for_each(|uid| note(&mut state, uid, "n1"));
    note(&mut state, "b", "n1");
    note(&mut state, "c", "n2");
    assert_eq!((on(&state, "n1"), on(&state, "n2"), on(&state, "n3")), (2, 1, 0));
    assert!(state.hosts_real_pods("n1") && state.hosts_real_pods("n2") && !state.hosts_real_pods("n3"));
    state.apply_pod(&pod("a", "n3", "1", &Value::Null).view());
    note(&mut state, "b", "n2");
    assert!(!state.hosts_real_pods("n1"));
    state.remove_pod("c");
    assert_eq!(on(&state, "n2"), 1);
    let relist = state.begin_relist(Kind::Pods, Partition::Node("n2".into()));
    state.end_relist(relist);
    assert!(!state.hosts_real_pods("n2"));
    assert_eq!(state.unreadable().count(), 0);
}
