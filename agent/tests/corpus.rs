//! The corpus of the fuzz targets (`agent/fuzz`), replayed by the stable compiler.

use std::path::Path;

#[path = "../fuzz/checks.rs"]
mod checks;

fn replay(target: &str) {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz/corpus").join(target);
    let mut inputs = 0;
    for file in std::fs::read_dir(&corpus).expect("there is a corpus") {
        let path = file.expect("a corpus can be listed").path();
        let bytes = std::fs::read(&path).expect("a corpus can be read");
        let check = |bytes: &[u8]| {
            let checked = std::panic::catch_unwind(|| checks::check(target, bytes));
            assert!(checked.is_ok(), "{} as {bytes:?}", path.display());
        };
        check(&bytes);
        // Whatever can be cut off, or changed by one bit, of what is known to be interesting.
        for length in (0..bytes.len()).step_by(bytes.len() / 64 + 1) {
            check(&bytes[..length]);
            let mut flipped = bytes.clone();
            flipped[length] ^= 1 << (length % 8);
            check(&flipped);
        }
        inputs += 1;
    }
    assert!(inputs >= 10, "only {inputs} inputs in {}", corpus.display());
}

#[test]
fn any_known_json_is_read_or_refused() {
    replay("decode_json");
}

#[test]
fn any_known_protobuf_is_read_or_refused() {
    replay("decode_protobuf");
}
