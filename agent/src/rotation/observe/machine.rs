//! What the candidate's provider says of it.

use jiff::{SignedDuration, Timestamp};
use rotate_shared::{Phase, Then};

use crate::cache::{Node, Pod};
use crate::provider::{self, Loan};
use crate::rotation::memory::Ordered;
use crate::rotation::observation::Machine;
use crate::rotation::progress::Known;
use crate::rotation::record::Record;

/// How long what was read of providers is believed. While a node is being taken away, that is what is waited for.
const FRESH: SignedDuration = SignedDuration::from_secs(10);
const FRESH_WHILE_REMOVING: SignedDuration = SignedDuration::from_secs(2);

/// What is known of what stands behind the candidate. `ours` are the rotation's placeholders, `node` is `None` where it is gone.
pub(super) fn machine(known: &Known<'_>, ours: &[Pod], node: Option<&Node>) -> Machine {
    let Known { entry, state, memory, now } = *known;
    let record = &entry.record;
    let machine = Machine {
        stale: true,
        asked: memory.asked,
        refused: memory.will_not.clone(),
        boot_id: node.and_then(|node| node.boot_id.as_ref()).map(ToString::to_string),
        ready: node.is_some_and(|node| node.ready),
        ..Machine::default()
    };
    let Some((objects, read)) = &memory.provider else { return machine };
    let refused = |pod: &Pod| pod.node.is_none() && pod.deleted.is_none() && pod.unschedulable.is_some();
    let driver = provider::driver(record.provider);
    let fresh = if record.phase() == Phase::Removing { FRESH_WHILE_REMOVING } else { FRESH };
    let order = node.filter(|_| memory.ordered.is_none()).and_then(|node| driver.order(node, objects));
    // An order may have arrived since.
    let outdated = record.order.is_some()
        && ending(record).is_some_and(|since| match memory.ordered {
            Some(Ordered::Sent) => true,
            Some(Ordered::Ended(at)) => *read <= since.max(at),
            None => *read <= since,
        });
    Machine {
        known: !outdated,
        stale: outdated || now.duration_since(*read) >= fresh,
        no_room: order.is_some() && ours.iter().any(refused),
        order,
        loan: record
            .order
            .as_ref()
            .map_or(Loan::Settled, |order| driver.loan(order, &record.id, entry.created, state, objects)),
        removal: node.map(|node| {
            let left = || driver.left(node, state, objects, now).filter(|_| record.options.then == Some(Then::Keep));
            left().unwrap_or_else(|| driver.removal(node, entry.created, state, objects))
        }),
        taken: node.and_then(|node| driver.taken(node, objects)),
        gone: record.removal.as_ref().is_none_or(|removal| driver.is_gone(removal, objects)),
        ..machine
    }
}

/// Since when a rotation does nothing but end.
pub(super) fn ending(record: &Record) -> Option<Timestamp> {
    match (&record.ending, record.phase()) {
        (Some(ending), _) => Some(ending.since),
        (None, Phase::RollingBack) => Some(record.phase_since()),
        (None, _) => None,
    }
}
