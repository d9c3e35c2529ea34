//! First records: one live rotation a node, and nothing twice for one request.

use std::time::Duration;

use kube::api::PostParams;

use super::{Entry, PATIENCE, Store, StoreError, api, object, read, within};
use crate::rotation::record::{NewRotation, Record};

/// How long one write may take: its answer, and to look for the record where that is lost.
pub(crate) const WRITE: Duration = PATIENCE.saturating_add(LOOKS);
const LOOKS: Duration = Duration::from_secs(5);

impl Entry {
    /// Whether a request with this idempotency key has begun it, and has not been told otherwise since.
    pub(crate) fn is_begun_by(&self, key: &str) -> bool {
        self.record.idempotency_key.as_deref() == Some(key) && !self.request.taken_back
    }
}

/// What came of asking for a rotation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Created {
    /// Its first record was written.
    Written(Entry),
    /// One of the same node carries the same idempotency key, and may be over: whoever wrote it was asked for the same.
    Found(Entry),
}

impl Store {
    /// Writes the first record of a rotation. A rotation of the same node that carries the same idempotency key is answered
    /// as if it were new.
    ///
    /// # Errors
    ///
    /// [`StoreError::AlreadyRotating`], or the API server did not answer as expected.
    pub async fn create(&self, new: NewRotation) -> Result<Entry, StoreError> {
        match self.create_after(&self.list().await?, new).await? {
            Created::Written(entry) | Created::Found(entry) => Ok(entry),
        }
    }

    /// [`Self::create`] after a [`Self::list`], which serves for a whole batch; tells whose the rotation is.
    ///
    /// # Errors
    ///
    /// [`StoreError::AlreadyRotating`], or the API server did not answer as expected.
    pub async fn create_after(&self, listed: &[Entry], new: NewRotation) -> Result<Created, StoreError> {
        const DOING: &str = "create the record";
        let same_request = |entry: &Entry| new.idempotency_key.as_deref().is_some_and(|key| entry.is_begun_by(key));
        let of_node = listed.iter().filter(|entry| entry.record.node_uid == new.node_uid);
        let mut attempt = of_node.clone().map(|entry| entry.record.attempt + 1).max().unwrap_or(0);
        let of_request = of_node.clone().find(|entry| same_request(entry));
        let mut known = of_request.or_else(|| of_node.clone().find(|entry| entry.record.is_live())).cloned();
        loop {
            match known {
                Some(entry) if same_request(&entry) => {
                    self.keep(entry.clone());
                    return Ok(Created::Found(entry));
                }
                Some(entry) if entry.record.is_live() => return Err(StoreError::AlreadyRotating(entry.record.id)),
                // It was over as soon as it was there.
                Some(_) => attempt += 1,
                None => {}
            }
            let record = Record::new(new.clone(), attempt);
            let object = object(&record)?;
            let created = within(PATIENCE, DOING, self.api.create(&PostParams::default(), &object)).await;
            let failed = match created {
                Ok(Ok(object)) => {
                    let entry = read(&object)?;
                    self.keep(entry.clone());
                    return Ok(Created::Written(entry));
                }
                // The list was consistent: somebody else was faster by a moment.
                Ok(Err(kube::Error::Api(status))) if status.is_already_exists() => {
                    known = match self.get(&record.id).await {
                        Ok(entry) => Some(entry),
                        // And has taken it back since: it may be written once more.
                        Err(StoreError::NotFound(_)) => None,
                        Err(error) => return Err(error),
                    };
                    continue;
                }
                Ok(Err(source)) => api(DOING, source),
                Err(error) => error,
            };
            if !failed.is_uncertain() {
                return Err(failed);
            }
            let nevertheless = within(LOOKS, DOING, self.written_nevertheless(&record)).await;
            return nevertheless.ok().flatten().map(Created::Written).ok_or(failed);
        }
    }

    /// The record, if it is there although nobody was told that it was written.
    async fn written_nevertheless(&self, record: &Record) -> Option<Entry> {
        for pause in [Duration::ZERO, Duration::from_millis(500), Duration::from_secs(2)] {
            self.clock.sleep(pause).await;
            match self.get(&record.id).await {
                Ok(entry) if entry.record.is_begun_as(record) => {
                    self.keep(entry.clone());
                    return Some(entry);
                }
                Ok(_) | Err(StoreError::NotFound(_)) => return None,
                Err(error) => tracing::debug!(id = record.id, %error, "whether the record was written is not known"),
            }
        }
        None
    }
}

impl StoreError {
    /// Whether what was asked for may have been carried out nevertheless.
    fn is_uncertain(&self) -> bool {
        match self {
            Self::Api { source: kube::Error::Api(status), .. } => status.code >= 500,
            Self::Api { .. } | Self::TimedOut { .. } => true,
            _ => false,
        }
    }
}
