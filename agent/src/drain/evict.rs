//! One eviction through the Eviction API, and what its answer means.
