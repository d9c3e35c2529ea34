//! Who asked the API for what, for counting.

use jiff::Timestamp;

/// One request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RequestEntry {
    /// When it came in, by the cluster's clock.
    pub at: Timestamp,
    /// `GET`, `POST`, `PATCH`, `PUT`, `DELETE`.
    pub method: String,
    /// Path, without the query.
    pub path: String,
    /// Query; empty where there is none.
    pub query: String,
    /// Who asked; empty for the administrator.
    pub user: String,
    /// Whether it asks for a dry run, in its query or its body.
    pub dry_run: bool,
    /// What was answered; 0 while it is not.
    pub status: u16,
}

impl RequestEntry {
    /// Whether it changes something: neither a read nor a dry run.
    #[must_use]
    pub fn writes(&self) -> bool {
        self.method != "GET" && !self.dry_run
    }
}

/// Sees each request that is about to change something, with its body, just before it is carried out.
pub(crate) type Inspector = Box<dyn Fn(&crate::Sim, &RequestEntry, &[u8]) + Send + Sync>;
