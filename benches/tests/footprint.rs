//! What the cache may cost: counted bytes, exact on every machine.

use rotate_benches::alloc::Counting;
use rotate_benches::footprint::{self, Footprint};
use rotate_benches::realistic::Realistic;
use rotate_benches::wire::Encoding;

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Bytes a Pod. It takes about 80.
const MOST: f64 = 100.0;

fn measure(pods: usize) -> Footprint {
    let cluster = Realistic::new(pods, Realistic::nodes_for(pods));
    let (state, footprint) = footprint::measure(&cluster, Encoding::Protobuf, 1, |take_in| take_in());
    assert_eq!(state.counts().pods, pods);
    footprint
}

#[test]
fn fifty_thousand_pods_are_kept_in_a_hundred_bytes_each_at_the_most() {
    let footprint = measure(50_000);
    assert!(footprint.bytes_a_pod() <= MOST, "{:.1} bytes a Pod: {footprint:?}", footprint.bytes_a_pod());
}
