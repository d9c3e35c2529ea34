//! The initial state taken in, without a network: each object decoded and applied to an empty cache.

use criterion::{BatchSize, BenchmarkId, Criterion, Throughput};
use k8s_openapi::api::core::v1::Pod;
use rotate_agent::cache::State;
use rotate_benches::footprint::apply;
use rotate_benches::realistic::Realistic;
use rotate_benches::wire::Encoding;

pub(crate) fn bench(criterion: &mut Criterion, sizes: &[usize]) {
    let mut group = criterion.benchmark_group("initial_sync");
    group.sample_size(10);
    for pods in sizes {
        let cluster = Realistic::new(*pods, Realistic::nodes_for(*pods));
        let objects = |encoding| -> Vec<Vec<u8>> {
            let one = |number| {
                let mut bytes = Vec::new();
                cluster.put_pod(number, encoding, &mut bytes);
                bytes
            };
            (0..*pods).map(one).collect()
        };
        group.throughput(Throughput::Elements(*pods as u64));
        for (name, encoding) in [("protobuf", Encoding::Protobuf), ("json", Encoding::Json)] {
            let objects = objects(encoding);
            group.bench_function(BenchmarkId::new(name, pods), |bencher| {
                let take_in = |mut state: State| {
                    objects.iter().for_each(|object| apply(&mut state, encoding, object));
                    state
                };
                bencher.iter_batched(State::default, take_in, BatchSize::PerIteration);
            });
        }
        // What a cache of whole objects does, at the least: read them and keep them by UID.
        let objects = objects(Encoding::Json);
        group.bench_function(BenchmarkId::new("k8s_openapi", pods), |bencher| {
            let read = |object: &Vec<u8>| {
                let pod: Pod = serde_json::from_slice(object).expect("a Pod is one");
                (pod.metadata.uid.clone().expect("each has a UID"), pod)
            };
            bencher.iter_with_large_drop(|| objects.iter().map(read).collect::<std::collections::HashMap<_, _>>());
        });
    }
    group.finish();
}
