//! Tests of the state on single events.
