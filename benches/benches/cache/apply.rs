//! One decoded event taken in, sums and indexes included. What it says is new each time.

use criterion::{BenchmarkId, Criterion};
use rotate_agent::cache::State;
use rotate_agent::cache::decode;
use rotate_agent::cache::pod::PodView;
use rotate_benches::footprint::encoded;
use rotate_benches::realistic::{Place, Realistic, Stage, mix};
use rotate_benches::wire::Encoding;

use crate::world::World;

/// Different Pods that events are about, all over the cluster.
const TOUCHED: usize = 5_000;

/// An event.
enum Event<'a> {
    Applied(&'a PodView<'a>),
    Deleted(&'a str),
}

pub(crate) fn bench(criterion: &mut Criterion, world: &mut World) {
    let pods = world.cluster.pods();
    let touched = touched(pods);
    let bytes = |generation, stage| encode(&world.cluster, &touched, generation, stage);
    let (ready, starting) = (bytes(0, Stage::Ready), bytes(0, Stage::Starting));
    let (pending, next) = (bytes(1, Stage::Pending), bytes(1, Stage::Ready));
    let (ready, starting, pending, next) = (views(&ready), views(&starting), views(&pending), views(&next));

    let mut group = criterion.benchmark_group("apply_event");
    // A Pod is not ready any more, later it is again.
    let modified: Vec<_> = starting.iter().chain(&ready).map(Event::Applied).collect();
    group.bench_function(BenchmarkId::new("modified", pods), |bencher| {
        let mut events = modified.iter().cycle();
        bencher.iter(|| events.next().map(|event| take_in(&mut world.state, event)));
    });
    // A Pod is deleted; another comes, waits for a node, and is ready. Later the first comes back.
    let there = ready.iter().zip(&pending).zip(&next).flat_map(|((old, waiting), new)| replaced(old, waiting, new));
    let back = next.iter().zip(&ready).flat_map(|(old, new)| [Event::Deleted(&old.uid), Event::Applied(new)]);
    let replacements: Vec<_> = there.chain(back).collect();
    group.bench_function(BenchmarkId::new("replaced", pods), |bencher| {
        let mut events = replacements.iter().cycle();
        bencher.iter(|| events.next().map(|event| take_in(&mut world.state, event)));
    });
    group.finish();
}

fn take_in(state: &mut State, event: &Event<'_>) {
    match event {
        Event::Applied(pod) => state.apply_pod(pod),
        Event::Deleted(uid) => state.remove_pod(uid),
    }
}

fn replaced<'a>(old: &'a PodView<'a>, waiting: &'a PodView<'a>, new: &'a PodView<'a>) -> [Event<'a>; 3] {
    [Event::Deleted(&old.uid), Event::Applied(waiting), Event::Applied(new)]
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

fn views(objects: &[Vec<u8>]) -> Vec<PodView<'_>> {
    objects.iter().map(|object| view(object)).collect()
}

fn view(object: &[u8]) -> PodView<'_> {
    decode::pod(encoded(Encoding::Protobuf, object)).expect("a Pod can be read")
}
