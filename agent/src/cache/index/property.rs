//! The state after any events equals a full recount.
