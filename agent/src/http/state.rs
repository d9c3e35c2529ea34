//! What the handlers work with.

use kube::Client;

use crate::cache::Cache;
use crate::clock::Clock;
use crate::rotation::views::Views;

/// Everything that handlers read or write, cheaply cloned.
#[derive(Clone)]
pub(crate) struct Api {
    pub(crate) cache: Cache,
    pub(crate) views: Views,
    pub(crate) client: Client,
    pub(crate) clock: Clock,
}

// kube's client has no `Debug`.
impl std::fmt::Debug for Api {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Api").field("cache", &self.cache).field("views", &self.views).finish_non_exhaustive()
    }
}
