//! One decoded event taken in, sums and indexes included. What it says is new each time.

use criterion::{BatchSize, Bencher, BenchmarkId, Criterion};
use rotate_agent::cache::State;
use rotate_agent::cache::decode;
use rotate_agent::cache::pod::PodView;
use rotate_benches::footprint::encoded;
use rotate_benches::realistic::{Place, Realistic, Stage, mix};
use rotate_benches::wire::Encoding;

use crate::world::World;

/// Different Pods that events are about, all over the cluster.
const TOUCHED: usize = 5_000;

/// Events that are decoded before the first of them is taken in, as the feed does it.
const BATCH: BatchSize = BatchSize::NumIterations(64);

/// An event as it comes.
#[derive(Clone, Copy)]
enum Event<'a> {
    Applied(&'a [u8]),
    Deleted(&'a str),
}

/// An event, decoded.
#[expect(clippy::large_enum_variant, reason = "a box would be an allocation that the feed does not make")]
enum Decoded<'a> {
    Applied(PodView<'a>),
    Deleted(&'a str),
}

pub(crate) fn bench(criterion: &mut Criterion, world: &mut World) {
    let pods = world.cluster.pods();
    let touched = touched(pods);
    let bytes = |generation, stage| encode(&world.cluster, &touched, generation, stage);
    let (ready, starting) = (bytes(0, Stage::Ready), bytes(0, Stage::Starting));
    let (pending, next) = (bytes(1, Stage::Pending), bytes(1, Stage::Ready));
    let (uids, next_uids) = (uids(&ready), uids(&next));

    let mut group = criterion.benchmark_group("apply_event");
    // A Pod is not ready any more, later it is again.
    let modified: Vec<_> = starting.iter().chain(&ready).map(|object| Event::Applied(object)).collect();
    group.bench_function(BenchmarkId::new("modified", pods), |bencher| run(bencher, &mut world.state, &modified));
    // A Pod is deleted; another comes, waits for a node, and is ready. Later the first comes back.
    let there = uids.iter().zip(&pending).zip(&next);
    let there =
        there.flat_map(|((uid, waiting), new)| [Event::Deleted(uid), Event::Applied(waiting), Event::Applied(new)]);
    let back = next_uids.iter().zip(&ready).flat_map(|(uid, new)| [Event::Deleted(uid), Event::Applied(new)]);
    let replacements: Vec<_> = there.chain(back).collect();
    group.bench_function(BenchmarkId::new("replaced", pods), |bencher| {
        run(bencher, &mut world.state, &replacements);
    });
    group.finish();
}

/// Takes in the events, again and again; decoding them is not timed.
fn run<'a>(bencher: &mut Bencher<'_>, state: &mut State, events: &[Event<'a>]) {
    let mut events = events.iter().cycle();
    let decoded = || match *events.next().expect("there are events") {
        Event::Applied(object) => Decoded::Applied(view(object)),
        Event::Deleted(uid) => Decoded::Deleted(uid),
    };
    let take_in = |event: Decoded<'a>| {
        match &event {
            Decoded::Applied(pod) => state.apply_pod(pod),
            Decoded::Deleted(uid) => state.remove_pod(uid),
        }
        // Dropped by the bencher, when the time has been taken.
        event
    };
    bencher.iter_batched(decoded, take_in, BATCH);
}

fn uids(objects: &[Vec<u8>]) -> Vec<String> {
    objects.iter().map(|object| view(object).uid.into_owned()).collect()
}

/// Pods that events are about.
fn touched(pods: usize) -> Vec<usize> {
    let mut touched: Vec<_> =
        (0..TOUCHED.min(pods) as u64).map(|number| (mix([number, 0, 8]) % pods as u64) as usize).collect();
    touched.sort_unstable();
    touched.dedup();
    touched.sort_by_key(|pod| mix([*pod as u64, 0, 9]));
    touched
}

fn encode(cluster: &Realistic, pods: &[usize], generation: u32, stage: Stage) -> Vec<Vec<u8>> {
    let one = |pod: &usize| {
        let mut bytes = Vec::new();
        cluster.put(Place { pod: *pod, generation }, stage, 0, Encoding::Protobuf, &mut bytes);
        bytes
    };
    pods.iter().map(one).collect()
}

fn view(object: &[u8]) -> PodView<'_> {
    decode::pod(encoded(Encoding::Protobuf, object)).expect("a Pod can be read")
}
