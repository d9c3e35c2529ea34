//! The control API, its authentication, and the ops port.
