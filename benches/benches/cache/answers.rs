//! What would have to move off a node, and whether it hosts real Pods.

use std::hint::black_box;

use criterion::{BenchmarkId, Criterion};
use rotate_agent::cache::{Cache, Resources, State};
use rotate_agent::surge::classify;
use rotate_benches::realistic::node_name;
use rotate_benches::{CANDIDATE, Cluster, MOVABLE_MEMORY, MOVABLE_MILLI_CPU};

use crate::world::World;

const REQUESTS: &str = "candidate_requests";
const GUARD: &str = "absorb_guard";

/// Pods of one plain shape: comparable with earlier runs and with other tools' figures. Beside it the same answer by a
/// scan of all Pods, and through the lock that everybody reads through.
pub(crate) fn plain(criterion: &mut Criterion, pods: usize) {
    let cluster = Cluster::new(pods);
    let movable = cluster.state.movable(CANDIDATE);
    assert_eq!((movable.requests.milli_cpu, movable.requests.memory), (MOVABLE_MILLI_CPU, MOVABLE_MEMORY));
    assert_eq!(cluster.full_scan(), movable.requests);
    ask(criterion, "plain", pods, &cluster.state, CANDIDATE);
    let mut group = criterion.benchmark_group(REQUESTS);
    group.bench_function(BenchmarkId::new("full_scan", pods), |bencher| {
        bencher.iter(|| black_box(&cluster).full_scan());
    });
    let cache = Cache::new(cluster.state);
    group.bench_function(BenchmarkId::new("through_the_lock", pods), |bencher| {
        bencher.iter(|| cache.read().movable(black_box(CANDIDATE)));
    });
    group.finish();
}

/// Realistic Pods.
pub(crate) fn realistic(criterion: &mut Criterion, world: &World) {
    let node = node_name(3);
    let node = std::str::from_utf8(&node).expect("names are ASCII");
    let object = world.state.node(node).expect("there are more nodes than three");
    let mut sum = Resources::default();
    let pods = world.state.pods_on(node);
    pods.iter().filter(|pod| classify::counts(pod, Some(object))).for_each(|pod| sum.add(&pod.shape.requests));
    assert_eq!(world.state.movable(node).requests, sum);
    ask(criterion, "realistic", world.cluster.pods(), &world.state, node);
}

fn ask(criterion: &mut Criterion, kind: &str, pods: usize, state: &State, node: &str) {
    let mut group = criterion.benchmark_group(REQUESTS);
    group.bench_function(BenchmarkId::new(kind, pods), |bencher| bencher.iter(|| state.movable(black_box(node))));
    group.finish();
    let mut group = criterion.benchmark_group(GUARD);
    group.bench_function(BenchmarkId::new(kind, pods), |bencher| {
        bencher.iter(|| state.hosts_real_pods(black_box(node)));
    });
    group.finish();
}
