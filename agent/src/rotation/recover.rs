//! Removes what no live rotation owns: placeholders, marks and orders that a crash, a deleted record or an older version
//! left behind.

use std::collections::{BTreeMap, BTreeSet};

use rotate_shared::{Phase, names};

use super::effect::Effect;
use super::engine::keeps_cordon;
use super::execute::{Executor, Subject};
use super::record::Record;
use super::store::{Store, StoreError};
use crate::cache::{Kind, State};

/// Everything in the cluster that carries a rotation's id.
#[derive(Debug, Default)]
pub(super) struct Leftovers {
    /// Name, UID and rotation of placeholders.
    placeholders: Vec<(String, String, String)>,
    /// Name, UID and rotation of marked nodes.
    nodes: Vec<(String, String, String)>,
}

impl Leftovers {
    /// What the cache shows; `None` while it has not seen the whole cluster.
    pub(super) fn in_cache(state: &State) -> Option<Self> {
        if [Kind::Pods, Kind::Nodes].into_iter().any(|kind| !state.has_read(kind)) {
            return None;
        }
        let placeholders = state.pods_in(names::ROOM_NAMESPACE).into_iter().filter_map(|pod| {
            let rotation = pod.labels.get(names::ROTATION)?;
            pod.deleted.is_none().then(|| (pod.name.to_string(), pod.uid.to_string(), rotation.to_string()))
        });
        let nodes = state.nodes().flat_map(|node| {
            let marks = [names::ROTATION, names::CORDONED_BY, names::PROTECTED_BY];
            let owner = |mark: &str| Some(node.annotations.get(mark)?.split(':').next()?.to_owned());
            let owners: BTreeSet<String> = marks.into_iter().filter_map(owner).collect();
            owners.into_iter().map(|owner| (node.name.to_string(), node.uid.to_string(), owner)).collect::<Vec<_>>()
        });
        Some(Self { placeholders: placeholders.collect(), nodes: nodes.collect() })
    }
}

/// Removes the leftovers that no live record owns, and answers how many there were.
///
/// The records are listed *after* the leftovers were seen: a rotation writes its record first, so that whatever it has
/// made is younger than its record.
pub(super) async fn recover(executor: &Executor, store: &Store, leftovers: Leftovers) -> Result<usize, StoreError> {
    // A management cluster that does not answer is asked again the next time.
    let loans = executor.reader.loans().await.unwrap_or_else(|error| {
        tracing::warn!(error = %error, "failed to look for replicas that nobody has on loan any more");
        Vec::new()
    });
    if leftovers.placeholders.is_empty() && leftovers.nodes.is_empty() && loans.is_empty() {
        return Ok(0);
    }
    let list = store.list_all().await?;
    let records: BTreeMap<&str, &Record> =
        list.entries.iter().map(|entry| (&*entry.record.id, &entry.record)).collect();
    // What cannot be read may be live.
    let is_live = |rotation: &str| {
        records.get(rotation).map_or_else(|| list.unreadable.contains(rotation), |record| record.is_live())
    };
    let mut removed = 0;
    let mut remove = async |subject: Subject, effect: Effect| match executor.execute(&subject, &effect).await {
        Ok(_) => removed += 1,
        Err(error) => tracing::warn!(error = %error, "failed to {}", effect.describe(&subject.node)),
    };
    let subject =
        |rotation: String, node: String, node_uid: String| Subject { rotation, node, node_uid, ..Subject::default() };
    for (name, uid, rotation) in leftovers.placeholders {
        if !is_live(&rotation) {
            remove(subject(rotation, String::new(), String::new()), Effect::Release { name, uid }).await;
        }
    }
    for (node, uid, rotation) in leftovers.nodes {
        if !is_live(&rotation) {
            let uncordon = !records.get(&*rotation).is_some_and(|record| keeps_cordon(record));
            remove(subject(rotation, node, uid), Effect::Unmark { uncordon }).await;
        }
    }
    for (deployment, rotation) in loans.into_iter().filter(|(_, rotation)| !is_live(rotation)) {
        // Pods may run on what came for a rotation that has moved some.
        let back = records.get(&*rotation).is_none_or(|record| record.phase() == Phase::RolledBack);
        match executor.settle_leftover(&rotation, &deployment, back).await {
            Ok(()) => removed += 1,
            Err(error) => tracing::warn!(error = %error, %rotation, %deployment, "failed to settle what was ordered"),
        }
    }
    Ok(removed)
}
