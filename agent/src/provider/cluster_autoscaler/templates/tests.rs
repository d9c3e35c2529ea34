use serde_json::{Value, json};

use super::*;
use crate::surge::testing::{self, CREATED};

fn now() -> Timestamp {
    CREATED.parse().unwrap()
}

fn web(name: &str, over: &Value) -> Node {
    let mut object = json!({ "metadata": { "labels": { "eks.amazonaws.com/nodegroup": "web" } } });
    testing::merge(&mut object, over);
    testing::node(name, &object)
}

fn written(before: &Templates, state: &State, now: Timestamp) -> Option<Templates> {
    let changes = before.changes(state, &Settings::default(), now);
    let mut data: BTreeMap<String, String> = BTreeMap::new();
    for template in before.known.values() {
        data.insert(template.key(), serde_json::to_string(template).unwrap());
    }
    let changed = !changes.is_empty();
    for (key, text) in changes {
        match text {
            Some(text) => drop(data.insert(key, text)),
            None => drop(data.remove(&key)),
        }
    }
    changed.then(|| Templates::read(&data))
}

#[test]
fn without_groups_nothing_is_written() {
    assert_eq!(written(&Templates::default(), &testing::state([testing::node("n", &json!({}))], []), now()), None);
}

#[test]
fn a_template_is_written_once_and_again_only_when_nodes_are_different() {
    let one = testing::state([web("n1", &json!({}))], []);
    let first = written(&Templates::default(), &one, now()).unwrap();
    let template = &first.known["eks.web"];
    assert_eq!((&*template.source, template.max_pods, template.seen_at), ("n1", 110, now()));
    assert!(!template.labels.contains_key(names::HOSTNAME));

    let later = now() + SignedDuration::from_hours(1);
    let another = testing::state([web("n2", &json!({ "spec": { "unschedulable": true } }))], []);
    assert_eq!(written(&first, &another, later), None, "another node that is alike");
    let larger = testing::state([web("n2", &json!({ "status": { "allocatable": { "cpu": "8" } } }))], []);
    let second = written(&first, &larger, later).unwrap();
    assert_eq!(second.known["eks.web"].allocatable["cpu"].to_string(), "8");
    let next_day = now() + SignedDuration::from_hours(24);
    assert_eq!(written(&first, &one, next_day).unwrap().known["eks.web"].seen_at, next_day);
}

#[test]
fn a_group_keeps_its_template_when_it_is_empty_and_is_forgotten_in_the_end() {
    let first = written(&Templates::default(), &testing::state([web("n1", &json!({}))], []), now()).unwrap();
    let none = testing::state([], []);
    let group = Group { manager: Manager::Eks, name: "web" };
    assert_eq!(written(&first, &none, now() + SignedDuration::from_hours(24 * 89)), None);
    assert_eq!(first.of(&group, None, &[], now()).unwrap().source, "n1");
    let forgotten = written(&first, &none, now() + SignedDuration::from_hours(24 * 90)).unwrap();
    assert!(forgotten.known.is_empty());
}

#[test]
fn a_group_that_had_a_node_in_another_zone_may_get_one_there_again() {
    let first = written(&Templates::default(), &testing::state([web("n1", &json!({}))], []), now()).unwrap();
    let b = json!({ "metadata": { "labels": { "topology.kubernetes.io/zone": "b", "image": "2" } } });
    let second = written(&first, &testing::state([web("n2", &b)], []), now()).unwrap();
    assert_eq!(second.known["eks.web"].varying, [names::ZONE.to_owned()].into());
    assert_eq!(second.known["eks.web"].labels["image"], "2");
    assert_eq!(
        written(&second, &testing::state([web("n2", &b)], []), now()),
        None,
        "what is known is not written again"
    );
}

#[test]
fn a_node_that_is_not_ready_tells_nothing() {
    let booting = json!({ "status": { "conditions": [{ "type": "Ready", "status": "False" }] } });
    assert_eq!(written(&Templates::default(), &testing::state([web("n1", &booting)], []), now()), None);
}

#[test]
fn what_cannot_be_read_is_told_and_the_rest_is_known() {
    let first = written(&Templates::default(), &testing::state([web("n1", &json!({}))], []), now()).unwrap();
    let good = serde_json::to_string(&first.known["eks.web"]).unwrap();
    let data = [("eks.web", &*good), ("eks.bad", "{"), ("eks.other", &*good)];
    let read = Templates::read(&data.map(|(key, text)| (key.to_owned(), text.to_owned())).into());
    assert_eq!((read.known.len(), read.unreadable.len()), (1, 2));
    assert!(read.unreadable[1].starts_with("eks.other: it is of eks.web"), "{:?}", read.unreadable);
}
