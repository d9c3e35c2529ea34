//! Any bytes as protobuf: a frame of a watch, a list, a message.

#![no_main]

use libfuzzer_sys::fuzz_target;

#[path = "../checks.rs"]
mod checks;

fuzz_target!(|bytes: &[u8]| checks::check("decode_protobuf", bytes));
