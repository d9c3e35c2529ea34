//! Which records of finished rotations are kept.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::sync::Arc;

use super::store::{Entry, Records};

/// What is to be deleted, so that about this many finished rotations are kept, the last that ended. A batch is kept or deleted
/// as a whole, and kept as long as any of it is live: whoever asks for it again under its idempotency key is answered with all
/// of it, and what is missing of a batch was never begun.
pub(super) fn beyond(records: &Records, limit: usize) -> Vec<Arc<Entry>> {
    let mut batches: HashMap<&str, Vec<&Arc<Entry>>> = HashMap::new();
    for entry in records.values() {
        batches.entry(entry.record.batch.as_deref().unwrap_or(&entry.record.id)).or_default().push(entry);
    }
    let mut over: Vec<_> =
        batches.into_values().filter(|batch| !batch.iter().any(|entry| entry.record.is_live())).collect();
    over.sort_by_cached_key(|batch| {
        Reverse(batch.iter().map(|entry| (entry.record.phase_since(), entry.record.attempt)).max())
    });
    let mut kept = 0;
    let mut beyond = Vec::new();
    for batch in over {
        if kept < limit {
            kept += batch.len();
        } else {
            beyond.extend(batch.into_iter().cloned());
        }
    }
    beyond
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use rotate_shared::Phase;

    use super::*;
    use crate::rotation::testing::{after, entry};

    /// Rotations by id: the second at which each ended, if it did, and its batch.
    fn beyond_limit(rotations: &[(&str, Option<i64>, Option<&str>)], limit: usize) -> Vec<String> {
        let records = rotations.iter().map(|(id, ended, batch)| {
            let mut entry = entry(&[]);
            entry.record.id = (*id).to_owned();
            entry.record.batch = batch.map(ToOwned::to_owned);
            if let Some(second) = ended {
                entry.record.enter(Phase::Succeeded, after(10 + *second));
            }
            ((*id).to_owned(), Arc::new(entry))
        });
        let records: BTreeMap<_, _> = records.collect();
        let mut ids: Vec<_> =
            beyond(&Arc::new(records), limit).into_iter().map(|entry| entry.record.id.clone()).collect();
        ids.sort();
        ids
    }

    #[test]
    fn the_last_that_ended_are_kept_and_what_is_live() {
        let rotations = [("a", Some(3), None), ("b", Some(1), None), ("c", Some(2), None), ("d", None, None)];
        assert_eq!(beyond_limit(&rotations, 2), ["b"]);
        assert_eq!(beyond_limit(&rotations, 3), [""; 0]);
        assert_eq!(beyond_limit(&rotations, 0), ["a", "b", "c"]);
    }

    #[test]
    fn a_batch_is_kept_or_deleted_as_a_whole() {
        let rotations = [("a", Some(4), Some("x")), ("b", Some(1), Some("x")), ("c", Some(2), None)];
        assert_eq!(beyond_limit(&rotations, 1), ["c"]);
        assert_eq!(beyond_limit(&rotations, 0), ["a", "b", "c"]);
        let goes_on = [("a", None, Some("x")), ("b", Some(1), Some("x")), ("c", Some(2), None)];
        assert_eq!(beyond_limit(&goes_on, 0), ["c"]);
    }
}
