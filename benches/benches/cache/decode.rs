//! One object decoded: by us from protobuf and from JSON, and beside it into the whole Kubernetes type.

use std::hint::black_box;

use criterion::{Bencher, Criterion};
use k8s_openapi::api::core::v1::Pod;
use rotate_agent::cache::decode;
use rotate_agent::cache::pod::PodView;
use rotate_benches::alloc::allocations;
use rotate_benches::footprint::encoded;
use rotate_benches::realistic::Realistic;
use rotate_benches::wire::Encoding;

/// Different Pods, of all workloads in their shares.
const PODS: usize = 500;

/// Allocations for each Pod, the mean.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Decoded {
    pub(crate) protobuf: f64,
    pub(crate) json: f64,
    pub(crate) whole: f64,
    /// The most that a single Pod takes.
    pub(crate) most_protobuf: u64,
    pub(crate) most_json: u64,
}

pub(crate) fn bench(criterion: &mut Criterion) -> Decoded {
    let cluster = Realistic::new(50_000, 5_000);
    let objects = |encoding| -> Vec<Vec<u8>> {
        let one = |number: usize| {
            let mut bytes = Vec::new();
            cluster.put_pod(number * 50_000 / PODS, encoding, &mut bytes);
            bytes
        };
        (0..PODS).map(one).collect()
    };
    let (protobuf, json) = (objects(Encoding::Protobuf), objects(Encoding::Json));
    let whole = |object: &[u8]| serde_json::from_slice::<Pod>(object).expect("a Pod is one");

    let mut group = criterion.benchmark_group("decode_protobuf");
    group.bench_function("ours", |bencher| {
        each(bencher, &protobuf, |object| drop(black_box(ours(Encoding::Protobuf, object))));
    });
    group.finish();
    let mut group = criterion.benchmark_group("decode_json");
    group
        .bench_function("ours", |bencher| each(bencher, &json, |object| drop(black_box(ours(Encoding::Json, object)))));
    group.bench_function("k8s_openapi", |bencher| each(bencher, &json, |object| drop(black_box(whole(object)))));
    group.finish();

    let (protobuf, most_protobuf) = count(&protobuf, |object| drop(ours(Encoding::Protobuf, object)));
    let (json_ours, most_json) = count(&json, |object| drop(ours(Encoding::Json, object)));
    let (whole, _) = count(&json, |object| drop(whole(object)));
    Decoded { protobuf, json: json_ours, whole, most_protobuf, most_json }
}

fn ours(encoding: Encoding, object: &[u8]) -> PodView<'_> {
    decode::pod(encoded(encoding, object)).expect("a Pod can be read")
}

fn each(bencher: &mut Bencher<'_>, objects: &[Vec<u8>], work: impl Fn(&[u8])) {
    let mut objects = objects.iter().cycle();
    bencher.iter(|| objects.next().map(|object| work(object)));
}

fn count(objects: &[Vec<u8>], work: impl Fn(&[u8])) -> (f64, u64) {
    let counts: Vec<u64> = objects.iter().map(|object| allocations(|| work(object)).1).collect();
    #[expect(clippy::cast_precision_loss, reason = "allocations of one Pod are few")]
    let mean = counts.iter().sum::<u64>() as f64 / counts.len() as f64;
    (mean, counts.into_iter().max().unwrap_or_default())
}
