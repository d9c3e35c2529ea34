//! Who may leave the queue: the limits of the agent and of each batch.

use std::collections::BTreeMap;

use rotate_shared::plan::Notice;
use rotate_shared::{Code, Phase};

use super::observation::Slot;
use super::record::{Record, Request};

/// For each queued rotation whether it may begin. Those that are told so in one call stay within the limits together, and
/// so do those that were told so before and whose record `is_being_written`.
pub(super) fn slots<'a>(
    records: impl Iterator<Item = (&'a Record, &'a Request)> + Clone,
    max_concurrent: u32,
    is_being_written: impl Fn(&Record) -> bool,
) -> BTreeMap<String, Slot> {
    let mut active = 0;
    let mut batches: BTreeMap<&str, Batch> = BTreeMap::new();
    for (record, _) in records.clone() {
        let phase = record.phase();
        active += u32::from(phase.is_active());
        if let Some(id) = &record.batch {
            let batch = batches.entry(id).or_default();
            batch.active += u32::from(phase.is_active());
            batch.failed += u32::from(failed(record));
        }
    }
    let mut queued: Vec<_> = records.filter(|(record, _)| record.phase() == Phase::Queued).collect();
    queued.sort_by_cached_key(|(record, _)| (!is_being_written(record), record.created_at, &record.node));
    let mut slots = BTreeMap::new();
    for (record, request) in queued {
        let batch = record.batch.as_deref().map(|id| batches.entry(id).or_default());
        let slot = slot(record, active, max_concurrent, batch.as_deref());
        // One that is paused or about to be cancelled does not hold up those behind it.
        let stays = request.paused || request.cancel.is_some();
        if slot == Slot::Free && (!stays || is_being_written(record)) {
            active += 1;
            if let Some(batch) = batch {
                batch.active += 1;
            }
        }
        slots.insert(record.id.clone(), slot);
    }
    slots
}

#[derive(Debug, Default)]
struct Batch {
    active: u32,
    failed: u32,
}

/// Whether a rotation failed by itself: a person's cancel has no code.
fn failed(record: &Record) -> bool {
    let coded = record.outcome.as_ref().is_some_and(|outcome| outcome.code.is_some());
    coded && matches!(record.phase(), Phase::RollingBack | Phase::RolledBack | Phase::Failed)
}

fn slot(record: &Record, active: u32, max_concurrent: u32, batch: Option<&Batch>) -> Slot {
    let notice =
        |object: String, message: String| Notice { code: Code::WaitingForSlot, object, message, remedy: String::new() };
    if let (Some(batch), Some(id)) = (batch, &record.batch) {
        let object = format!("Batch {id}");
        let failures = record.options.max_failures.max(1);
        if batch.failed >= failures {
            let nodes = if batch.failed == 1 { "node" } else { "nodes" };
            let message = format!(
                "not begun: {} {nodes} of the batch failed, which ends it (--max-failures {failures})",
                batch.failed
            );
            return Slot::Closed(notice(object, message));
        }
        let limit = record.options.max_concurrent.max(1);
        if batch.active >= limit {
            return Slot::Wait(notice(object, format!("{} of {limit} nodes of the batch are in work", batch.active)));
        }
    }
    let limit = max_concurrent.max(1);
    if active >= limit {
        let message = format!("{active} of {limit} nodes that the agent rotates at once are in work");
        return Slot::Wait(notice("the agent".to_owned(), message));
    }
    Slot::Free
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;
    use rotate_shared::options::Options;
    use rotate_shared::plan::Provider;

    use super::*;
    use crate::rotation::record::NewRotation;

    fn record(node: &str, batch: Option<&str>, options: Options, phases: &[Phase]) -> Record {
        let new = NewRotation {
            node: node.to_owned(),
            node_uid: format!("uid-{node}"),
            batch: batch.map(str::to_owned),
            batch_size: 1,
            provider: Provider::Unmanaged,
            options,
            requested_by: Default::default(),
            idempotency_key: None,
            created_at: Timestamp::UNIX_EPOCH,
        };
        let mut record = Record::new(new, 0);
        for phase in phases {
            record.enter(*phase, Timestamp::UNIX_EPOCH);
        }
        record
    }

    fn of(records: &[Record], limit: u32) -> Vec<Slot> {
        let request = Request::default();
        let slots = slots(records.iter().map(|record| (record, &request)), limit, |_| false);
        records.iter().filter_map(|record| slots.get(&record.id).cloned()).collect()
    }

    #[test]
    fn the_agents_limit_holds_over_all_and_within_one_call() {
        let records = [
            record("a", None, Options::default(), &[Phase::Surging]),
            record("b", None, Options::default(), &[]),
            record("c", None, Options::default(), &[]),
        ];
        let [b, c] = &of(&records, 2)[..] else { panic!("two are queued") };
        assert_eq!(*b, Slot::Free);
        let Slot::Wait(notice) = c else { panic!("the limit is reached") };
        assert_eq!(notice.message, "2 of 2 nodes that the agent rotates at once are in work");
    }

    #[test]
    fn a_batch_has_its_own_limit() {
        let records = [
            record("a", Some("x"), Options::default(), &[Phase::Draining]),
            record("b", Some("x"), Options::default(), &[]),
            record("c", Some("y"), Options::default(), &[]),
        ];
        let [b, c] = &of(&records, 10)[..] else { panic!("two are queued") };
        assert!(matches!(b, Slot::Wait(notice) if notice.message == "1 of 1 nodes of the batch are in work"));
        assert_eq!(*c, Slot::Free);
    }

    #[test]
    fn a_failed_node_closes_its_batch_and_a_cancelled_one_does_not() {
        let mut failed = record("a", Some("x"), Options::default(), &[Phase::Surging, Phase::RolledBack]);
        let queued = record("b", Some("x"), Options::default(), &[]);
        failed.conclude(None, "cancelled");
        assert_eq!(of(&[failed.clone(), queued.clone()], 1), [Slot::Free]);
        failed.conclude(Some(Code::Reserving), "no room");
        assert!(matches!(&of(&[failed, queued], 1)[..], [Slot::Closed(_)]));
    }

    #[test]
    fn a_paused_rotation_does_not_hold_up_the_queue() {
        let records = [record("a", None, Options::default(), &[]), record("b", None, Options::default(), &[])];
        let (held, free) = (Request { paused: true, ..Request::default() }, Request::default());
        let slots = slots([(&records[0], &held), (&records[1], &free)].into_iter(), 1, |_| false);
        assert_eq!(slots[&records[1].id], Slot::Free);
    }

    #[test]
    fn one_that_is_about_to_begin_keeps_its_slot_from_an_older_one_that_is_heard_of_late() {
        let mut old = record("b", None, Options::default(), &[]);
        old.created_at = Timestamp::MIN;
        let records = [record("a", None, Options::default(), &[]), old];
        for request in [Request::default(), Request { paused: true, ..Request::default() }] {
            let pairs = records.iter().map(|record| (record, &request));
            let slots = slots(pairs, 1, |record| record.node == "a");
            assert_eq!(slots[&records[0].id], Slot::Free);
            assert!(matches!(slots[&records[1].id], Slot::Wait(_)));
        }
    }

    #[test]
    fn the_oldest_is_first() {
        let mut old = record("b", None, Options::default(), &[]);
        let young = record("a", None, Options::default(), &[]);
        old.created_at = Timestamp::MIN;
        assert!(matches!(&of(&[young, old], 1)[..], [Slot::Wait(_), Slot::Free]));
    }
}
