use std::collections::BTreeMap;

use serde_json::Value;

use super::objects::{EVENTS, Kind};
use super::*;
use crate::realistic::Realistic;

fn uids(objects: &Objects, round: u64) -> BTreeMap<String, String> {
    let mut uids = BTreeMap::new();
    for number in 0..objects.count(Kind::Pods) {
        let mut json = Vec::new();
        objects.put(Kind::Pods, number, round, Encoding::Json, &mut json);
        let pod: Value = serde_json::from_slice(&json).unwrap();
        let text = |pointer| pod.pointer(pointer).and_then(Value::as_str).unwrap().to_owned();
        uids.insert(text("/metadata/uid"), text("/metadata/name"));
    }
    uids
}

#[tokio::test]
async fn a_list_and_the_events_after_it_lead_to_the_later_list() {
    const ROUNDS: u64 = 300;
    let objects = Objects::new(Realistic::new(120, 12), 10, Clock::system());
    let mut followed = uids(&objects, 0);
    for event in 0..ROUNDS * EVENTS {
        let mut line = Vec::new();
        objects.put_event(event, Encoding::Json, &mut line);
        let event: Value = serde_json::from_slice(&line).unwrap();
        let text = |pointer| event.pointer(pointer).and_then(Value::as_str).unwrap().to_owned();
        let uid = text("/object/metadata/uid");
        match &*text("/type") {
            "DELETED" => assert!(followed.remove(&uid).is_some(), "what is deleted was there"),
            "ADDED" => assert!(followed.insert(uid, text("/object/metadata/name")).is_none(), "what is added is new"),
            _ => assert!(followed.contains_key(&uid), "what is modified was there"),
        }
    }
    assert_eq!(followed, uids(&objects, ROUNDS));
    assert_ne!(followed, uids(&objects, 0));
}

#[tokio::test]
async fn pages_hold_each_object_once() {
    let clock = Clock::system();
    let objects = Objects::new(Realistic::new(120, 12), 0, clock);
    let mut seen = 0;
    let mut query = Query { limit: Some(50), ..Query::default() };
    loop {
        let list: Value = serde_json::from_slice(&page(&objects, Kind::Pods, Encoding::Json, &query, clock)).unwrap();
        seen += list["items"].as_array().unwrap().len();
        query.next = list.pointer("/metadata/continue").and_then(Value::as_str).map(ToOwned::to_owned);
        if query.next.as_deref() == Some("") {
            break;
        }
    }
    assert_eq!(seen, 120);
}
