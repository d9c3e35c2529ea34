//! Production API clients.
