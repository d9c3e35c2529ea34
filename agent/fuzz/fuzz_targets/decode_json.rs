//! Any bytes as JSON.

#![no_main]

use libfuzzer_sys::fuzz_target;

#[path = "../checks.rs"]
mod checks;

fuzz_target!(|bytes: &[u8]| checks::check("decode_json", bytes));
