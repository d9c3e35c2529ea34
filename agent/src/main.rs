//! The agent of kubectl-rotate.

fn main() {}
