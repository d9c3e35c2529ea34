//! The real binary, as a person runs it.

mod bad_input;
mod support;
