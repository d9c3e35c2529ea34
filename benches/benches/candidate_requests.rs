//! What would have to move off a node: the cache's answer, and a scan of all Pods beside it.

use std::hint::black_box;
use std::time::Duration;

use criterion::{BenchmarkId, Criterion, criterion_group, criterion_main};
use rotate_benches::{CANDIDATE, Cluster, MOVABLE_MEMORY, MOVABLE_MILLI_CPU};

fn candidate_requests(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("candidate_requests");
    group.sample_size(50).warm_up_time(Duration::from_millis(300)).measurement_time(Duration::from_secs(2));
    for pods in [1_000, 10_000, 50_000] {
        let cluster = Cluster::new(pods);
        let movable = cluster.state.movable(CANDIDATE);
        assert_eq!((movable.requests.milli_cpu, movable.requests.memory), (MOVABLE_MILLI_CPU, MOVABLE_MEMORY));
        assert_eq!(cluster.full_scan(), movable.requests);
        group.bench_with_input(BenchmarkId::new("cache", pods), &cluster, |bencher, cluster| {
            bencher.iter(|| cluster.state.movable(black_box(CANDIDATE)));
        });
        group.bench_with_input(BenchmarkId::new("full_scan", pods), &cluster, |bencher, cluster| {
            bencher.iter(|| black_box(cluster).full_scan());
        });
    }
    group.finish();
}

criterion_group!(benches, candidate_requests);
criterion_main!(benches);
