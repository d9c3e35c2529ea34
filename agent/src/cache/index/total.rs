//! Running sums that can be taken back.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::Sum;
use crate::cache::Resources;

/// A sum that Pods join and leave. Wider than what it adds up: a saturated sum could not be subtracted from again.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Total {
    pods: u32,
    milli_cpu: i128,
    memory: i128,
    ephemeral_storage: i128,
    other: BTreeMap<Arc<str>, i128>,
}

impl Total {
    pub(super) fn add(&mut self, requests: &Resources) {
        self.pods += 1;
        self.combine(requests, 1);
    }

    pub(super) fn subtract(&mut self, requests: &Resources) {
        self.pods -= 1;
        self.combine(requests, -1);
    }

    fn combine(&mut self, requests: &Resources, sign: i128) {
        self.milli_cpu += sign * i128::from(requests.milli_cpu);
        self.memory += sign * i128::from(requests.memory);
        self.ephemeral_storage += sign * i128::from(requests.ephemeral_storage);
        for (name, amount) in &requests.other {
            let sum = self.other.entry(Arc::clone(name)).or_insert(0);
            *sum += sign * i128::from(*amount);
            if *sum == 0 {
                self.other.remove(name);
            }
        }
    }

    /// The sum, capped at what an amount can be.
    pub(super) fn sum(&self) -> Sum {
        Sum {
            pods: self.pods,
            requests: Resources {
                milli_cpu: capped(self.milli_cpu),
                memory: capped(self.memory),
                ephemeral_storage: capped(self.ephemeral_storage),
                other: self.other.iter().map(|(name, amount)| (Arc::clone(name), capped(*amount))).collect(),
            },
        }
    }
}

fn capped(amount: i128) -> i64 {
    i64::try_from(amount).unwrap_or(if amount < 0 { i64::MIN } else { i64::MAX })
}
