//! `kubectl rotate`.

fn main() {}
