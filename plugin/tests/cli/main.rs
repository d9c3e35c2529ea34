//! The real binary, as a person runs it.

mod bad_input;
mod cluster;
mod completion;
mod connection;
mod embedded;
mod install;
mod interrupts;
mod names;
mod saved;
mod support;
mod terminal;
mod verbs;
