use serde_json::{Value, json};

use super::*;
use crate::cache::Volumes;
use crate::surge::constraints::{Reach, describe, translate};
use crate::surge::testing::{self, merge};

fn cand() -> Node {
    testing::node("cand", &json!({}))
}

fn of(app: &str, name: &str, over: &Value) -> Pod {
    let mut object = testing::requesting(&json!({ "cpu": "1", "memory": "1Gi" }));
    merge(&mut object, &json!({ "metadata": { "labels": { "app": app } } }));
    merge(&mut object, over);
    testing::pod("shop", name, &object)
}

fn lump_of(pods: &[Pod]) -> Lump {
    let state = testing::state([cand()], pods.iter().cloned());
    let placements: Vec<_> = pods
        .iter()
        .map(|pod| translate(pod, &cand(), &state, &Volumes::default(), Reach::Own).expect("a placement"))
        .collect();
    let rooms: Vec<_> = pods.iter().zip(&placements).map(|(pod, room)| (pod, &pod.shape.requests, room)).collect();
    unite(&rooms, &cand(), &state)
}

fn apart(app: &str) -> Value {
    json!({ "spec": { "affinity": { "podAntiAffinity": { "requiredDuringSchedulingIgnoredDuringExecution":
        [{ "topologyKey": "kubernetes.io/hostname", "labelSelector": { "matchLabels": { "app": app } } }],
    } } } })
}

#[test]
fn it_asks_for_the_sum() {
    let lump = lump_of(&[of("web", "w", &json!({})), of("db", "d", &json!({}))]);
    assert_eq!((lump.requests.milli_cpu, lump.requests.memory), (2000, 2 << 30));
    assert_eq!((&lump.shortfall, lump.apart.len()), (&Resources::default(), 0));
}

#[test]
fn it_is_at_most_what_a_node_like_this_offers_after_its_daemon_sets() {
    let big = testing::requesting(&json!({ "cpu": "3" }));
    let daemon = json!({ "metadata": { "ownerReferences": [testing::owner("apps/v1", "DaemonSet", "logs")] } });
    let pods = [of("web", "w", &big), of("db", "d", &json!({}))];
    let state = testing::state([cand()], pods.iter().cloned().chain([of("logs", "l", &daemon)]));
    let room = Placement::default();
    let rooms: Vec<_> = pods.iter().map(|pod| (pod, &pod.shape.requests, &room)).collect();
    let lump = unite(&rooms, &cand(), &state);
    assert_eq!((lump.requests.milli_cpu, lump.shortfall.milli_cpu), (3000, 1000));
}

#[test]
fn it_is_where_all_of_them_may_be() {
    let selecting = json!({ "spec": {
        "nodeSelector": { "pool": "web" },
        "tolerations": [{ "key": "a", "operator": "Exists" }, { "key": "b", "operator": "Exists" }],
        "containers": [{ "name": "app", "ports": [{ "containerPort": 80, "hostPort": 8080 }] }],
    } });
    let tolerating = json!({ "spec": {
        "tolerations": [{ "key": "b", "operator": "Exists" }],
        "affinity": { "nodeAffinity": { "requiredDuringSchedulingIgnoredDuringExecution": { "nodeSelectorTerms": [
            { "matchExpressions": [{ "key": "arch", "operator": "In", "values": ["arm64"] }] },
        ] } } },
    } });
    let lump = lump_of(&[of("web", "w", &selecting), of("db", "d", &tolerating)]);
    assert_eq!(describe(&lump.placement), ["pool=web", "arch=arm64", "host port 8080/TCP"]);
    let keys: Vec<_> = lump.placement.tolerations.iter().map(|toleration| &*toleration.key).collect();
    assert_eq!(keys, ["b"]);
}

#[test]
fn who_cannot_share_a_node_with_the_others_is_named() {
    let port =
        json!({ "spec": { "containers": [{ "name": "app", "ports": [{ "containerPort": 80, "hostPort": 80 }] }] } });
    let lump = lump_of(&[of("web", "w", &port), of("db", "d", &port)]);
    assert_eq!(lump.apart, [(1, "claims host port 80/TCP, as another does".to_owned())]);
    let lump = lump_of(&[of("web", "w-1", &apart("web")), of("web", "w-2", &apart("web"))]);
    assert_eq!(lump.apart, [(1, "keeps off Pod shop/w-1".to_owned())]);
    let lump = lump_of(&[of("web", "w", &json!({})), of("db", "d", &apart("web"))]);
    assert_eq!(lump.apart.len(), 1);
    let arch = |arch: &str| json!({ "spec": { "nodeSelector": { "arch": arch } } });
    let lump = lump_of(&[of("web", "w", &arch("arm64")), of("db", "d", &arch("amd64"))]);
    assert_eq!(lump.apart, [(1, "needs arch=amd64, others arch=arm64".to_owned())]);
}

#[test]
fn terms_of_several_workloads_become_such_that_each_replacement_matches_all_or_none() {
    let lump = lump_of(&[of("web", "w", &apart("web")), of("db", "d", &apart("db"))]);
    assert_eq!(lump.apart, []);
    assert_eq!(describe(&lump.placement), ["not on a host with Pods app in (db,web) of shop"]);
}
