use std::collections::HashSet;

use k8s_openapi::api::core::v1::{Node, Pod};
use k8s_openapi::api::policy::v1::PodDisruptionBudget;

use rotate_agent::cache::decode;

use super::*;
use crate::footprint::encoded;

fn pods(cluster: &Realistic) -> Vec<Pod> {
    let read = |pod| {
        let mut json = Vec::new();
        cluster.put_pod(pod, Encoding::Json, &mut json);
        serde_json::from_slice(&json).unwrap_or_else(|error| panic!("{error} in {}", String::from_utf8_lossy(&json)))
    };
    (0..cluster.pods()).map(read).collect()
}

#[test]
fn pods_are_what_kubernetes_types_read_and_each_has_a_name_and_a_uid_of_its_own() {
    let cluster = Realistic::new(2_000, 200);
    let pods = pods(&cluster);
    let keys: HashSet<_> = pods.iter().map(|pod| (&pod.metadata.namespace, &pod.metadata.name)).collect();
    let uids: HashSet<_> = pods.iter().map(|pod| &pod.metadata.uid).collect();
    assert_eq!((keys.len(), uids.len()), (2_000, 2_000));
}

#[test]
fn a_pod_is_about_eight_kilobytes_of_json_and_six_of_protobuf() {
    let cluster = Realistic::new(1_000, 100);
    let mean = |encoding| {
        let mut all = Vec::new();
        (0..1_000).for_each(|pod| cluster.put_pod(pod, encoding, &mut all));
        all.len() / 1_000
    };
    let (json, protobuf) = (mean(Encoding::Json), mean(Encoding::Protobuf));
    assert!((7_500..8_600).contains(&json) && (5_000..6_500).contains(&protobuf), "{json} and {protobuf} bytes");
}

#[test]
fn thirty_percent_are_of_stateful_sets_and_jobs_and_ten_of_daemon_sets() {
    let cluster = Realistic::new(10_000, 1_000);
    let of = |wanted: &[Control]| -> usize {
        cluster
            .workloads()
            .iter()
            .filter(|workload| wanted.contains(&workload.control))
            .map(|workload| workload.pods)
            .sum()
    };
    assert_eq!(cluster.pods(), 10_000);
    assert_eq!(of(&[Control::StatefulSet]), 1_500);
    assert_eq!(of(&[Control::IndexedJob, Control::CronJob]), 1_500);
    assert_eq!(of(&[Control::DaemonSet]), 1_000);
}

#[test]
fn what_replaces_a_pod_has_another_uid_and_another_name_but_for_a_stateful_set() {
    let cluster = Realistic::new(500, 50);
    let read = |pod, generation| -> Pod {
        let mut json = Vec::new();
        cluster.put(Place { pod, generation }, Stage::Ready, 7, Encoding::Json, &mut json);
        serde_json::from_slice(&json).unwrap()
    };
    for workload in cluster.workloads() {
        let (before, after) = (read(workload.first, 0), read(workload.first, 1));
        assert_ne!(before.metadata.uid, after.metadata.uid);
        let same = before.metadata.name == after.metadata.name;
        assert_eq!(same, workload.control == Control::StatefulSet, "{:?}", before.metadata.name);
    }
}

#[test]
fn nodes_and_budgets_are_what_kubernetes_types_read() {
    let cluster = Realistic::new(500, 50);
    let names: HashSet<_> = (0..50)
        .map(|number| serde_json::from_slice::<Node>(&cluster.node(number, Encoding::Json)).unwrap().metadata.name)
        .collect();
    assert_eq!(names.len(), 50);
    assert!(cluster.budgets() > 0);
    for number in 0..cluster.budgets() {
        serde_json::from_slice::<PodDisruptionBudget>(&cluster.pdb(number, Encoding::Json)).unwrap();
    }
}

#[test]
fn both_encodings_say_the_same_to_the_cache() {
    for cluster in [Realistic::new(300, 30), Realistic::hostile(40, 4)] {
        for pod in 0..cluster.pods() {
            for stage in [Stage::Pending, Stage::Starting, Stage::Ready, Stage::Succeeded] {
                let put = |encoding| {
                    let mut bytes = Vec::new();
                    cluster.put(Place { pod, generation: 0 }, stage, 7, encoding, &mut bytes);
                    bytes
                };
                let (json, protobuf) = (put(Encoding::Json), put(Encoding::Protobuf));
                let json = decode::pod(encoded(Encoding::Json, &json)).unwrap();
                assert_eq!(json, decode::pod(encoded(Encoding::Protobuf, &protobuf)).unwrap());
            }
        }
        for node in 0..cluster.nodes() {
            let (json, protobuf) = (cluster.node(node, Encoding::Json), cluster.node(node, Encoding::Protobuf));
            let json = decode::node(encoded(Encoding::Json, &json)).unwrap();
            assert_eq!(json, decode::node(encoded(Encoding::Protobuf, &protobuf)).unwrap());
        }
        for budget in 0..cluster.budgets() {
            let (json, protobuf) = (cluster.pdb(budget, Encoding::Json), cluster.pdb(budget, Encoding::Protobuf));
            let json = decode::pdb(encoded(Encoding::Json, &json)).unwrap();
            assert_eq!(json, decode::pdb(encoded(Encoding::Protobuf, &protobuf)).unwrap());
        }
    }
}
