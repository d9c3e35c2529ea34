//! Which Pods are evicted first.
