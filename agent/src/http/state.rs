//! What the handlers work with.

use std::sync::Arc;

use kube::Client;
use rotate_shared::{Code, Rotation};
use tokio_util::sync::CancellationToken;

use super::problem::Refusal;
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
    /// Cancelled when the agent shuts down: answers that would go on end.
    pub(crate) closing: CancellationToken,
}

impl Api {
    /// The rotations, once the records were read.
    pub(super) fn rotations(&self) -> Result<&Views, Refusal> {
        if self.views.loaded() {
            return Ok(&self.views);
        }
        Err(Refusal::new(Code::NotReady, "the rotations' records are still being read; try again in a moment"))
    }

    pub(super) fn rotation(&self, id: &str) -> Result<Arc<Rotation>, Refusal> {
        self.rotations()?.get(id).ok_or_else(|| Refusal::not_found("rotations", id))
    }
}

// kube's client has no `Debug`.
impl std::fmt::Debug for Api {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Api").field("cache", &self.cache).field("views", &self.views).finish_non_exhaustive()
    }
}
