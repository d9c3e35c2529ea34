//! The Pod cache: its answers, its events, its decoders, its size; the last thing it prints is a table.
//!
//! `cargo bench --package rotate-benches`; a word behind `--` chooses benchmarks by name. Under `cargo test` each runs
//! once, on a small cluster.

mod answers;
mod apply;
mod decode;
mod summary;
mod sync;
mod world;

use std::time::Duration;

use criterion::Criterion;
use rotate_benches::alloc::Counting;

use world::World;

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Numbers of Pods.
const SIZES: [usize; 4] = [1_000, 10_000, 50_000, 1_000_000];

fn main() {
    // As criterion decides it.
    let has = |flag: &str| std::env::args().any(|argument| argument == flag);
    let only_try = has("--test") || !has("--bench");
    let sizes = if only_try { &SIZES[..1] } else { &SIZES[..] };
    let mut criterion = Criterion::default()
        .sample_size(50)
        .warm_up_time(Duration::from_millis(300))
        .measurement_time(Duration::from_secs(2))
        .output_directory(&summary::measured())
        .configure_from_args();
    let decoded = decode::bench(&mut criterion);
    sync::bench(&mut criterion, &sizes[..sizes.len().min(3)]);
    let mut grown = Vec::new();
    for pods in sizes {
        answers::plain(&mut criterion, *pods);
        let mut world = World::new(*pods);
        answers::realistic(&mut criterion, &world);
        apply::bench(&mut criterion, &mut world);
        grown.push(world.grown);
    }
    criterion.final_summary();
    if !only_try {
        let hostile = World::hostile(sizes[sizes.len().min(3) - 1]).grown;
        summary::print(&decoded, &grown, &hostile);
    }
}
