//! What decoding one Pod allocates, exactly; and that realistic Pods read alike in both encodings.

use rotate_agent::cache::decode;
use rotate_agent::cache::pod::PodView;
use rotate_benches::alloc::{self, Counting};
use rotate_benches::footprint::encoded;
use rotate_benches::realistic::Realistic;
use rotate_benches::wire::Encoding;

#[global_allocator]
static ALLOCATOR: Counting = Counting;

const PODS: usize = 1_000;

fn cluster() -> Realistic {
    Realistic::new(PODS, Realistic::nodes_for(PODS))
}

fn pod(cluster: &Realistic, number: usize, encoding: Encoding) -> Vec<u8> {
    let mut bytes = Vec::new();
    cluster.put_pod(number, encoding, &mut bytes);
    bytes
}

/// Reads a Pod; how many allocations that takes.
fn read(encoding: Encoding, object: &[u8]) -> (PodView<'_>, u64) {
    let object = encoded(encoding, object);
    alloc::allocations(|| decode::pod(object).expect("a Pod can be read"))
}

#[test]
fn a_pod_of_two_containers_is_read_with_this_many_allocations() {
    let cluster = cluster();
    let json = pod(&cluster, 0, Encoding::Json);
    let text = std::str::from_utf8(&json).expect("JSON is text");
    assert!(text.contains("managedFields") && text.matches(r#""containerID":"#).count() == 2);
    let (view, in_json) = read(Encoding::Json, &json);
    assert_eq!((view.shape.tolerations.len(), view.claims.len()), (2, 0));
    // Labels and tolerations are lists. In JSON an annotation with escaped quotes is read into a buffer that grows once.
    assert_eq!(in_json, 4);
    assert_eq!(read(Encoding::Protobuf, &pod(&cluster, 0, Encoding::Protobuf)).1, 2);
}

#[test]
fn realistic_pods_read_alike_in_both_encodings() {
    for cluster in [cluster(), Realistic::hostile(PODS, Realistic::nodes_for(PODS))] {
        for number in 0..PODS {
            let (json, protobuf) = (pod(&cluster, number, Encoding::Json), pod(&cluster, number, Encoding::Protobuf));
            let (one, other) = (read(Encoding::Json, &json), read(Encoding::Protobuf, &protobuf));
            assert_eq!(one.0, other.0);
            assert!(other.1 <= one.1, "protobuf needs no text of its own: {} and {}", other.1, one.1);
        }
    }
}
