//! Running sums that can be taken back.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::Sum;
use super::codec::Amounts;
use crate::cache::Resources;

/// A sum that Pods join and leave, exact whatever they request: a saturated sum could not be subtracted from again.
#[derive(Debug, Default)]
pub(super) struct Total {
    pods: u32,
    /// CPU, memory, ephemeral storage, as far as these numbers can hold them.
    fixed: [i64; 3],
    rest: Option<Box<Rest>>,
}

/// What few nodes need.
#[derive(Debug, Default)]
struct Rest {
    /// What has to be added to the fixed sums.
    wide: [i128; 3],
    /// Extended resources. Never holds a zero.
    other: BTreeMap<Arc<str>, i128>,
}

impl Total {
    pub(super) fn add(&mut self, requests: &Amounts<'_>) {
        self.pods += 1;
        self.combine(requests, 1);
    }

    pub(super) fn subtract(&mut self, requests: &Amounts<'_>) {
        self.pods -= 1;
        self.combine(requests, -1);
    }

    fn combine(&mut self, requests: &Amounts<'_>, sign: i128) {
        let amounts = [requests.milli_cpu, requests.memory, requests.ephemeral_storage];
        for (at, amount) in amounts.into_iter().enumerate() {
            let amount = sign * i128::from(amount);
            match i64::try_from(i128::from(self.fixed[at]) + amount) {
                Ok(sum) => self.fixed[at] = sum,
                Err(_) => self.rest.get_or_insert_default().wide[at] += amount,
            }
        }
        for (name, amount) in requests.other().filter(|(_, amount)| *amount != 0) {
            let other = &mut self.rest.get_or_insert_default().other;
            let amount = sign * i128::from(amount);
            match other.get_mut(name) {
                Some(sum) if *sum + amount == 0 => drop(other.remove(name)),
                Some(sum) => *sum += amount,
                None => drop(other.insert(name.into(), amount)),
            }
        }
        if self.pods == 0 {
            // Exact sums of nothing are nothing.
            *self = Self::default();
        }
    }

    fn exact(&self) -> [i128; 3] {
        let wide = self.rest.as_ref().map_or([0; 3], |rest| rest.wide);
        std::array::from_fn(|at| i128::from(self.fixed[at]) + wide[at])
    }

    /// The sum, capped at what an amount can be.
    pub(super) fn sum(&self) -> Sum {
        let [milli_cpu, memory, ephemeral_storage] = self.exact().map(capped);
        let other = self.rest.as_ref().map(|rest| &rest.other).into_iter().flatten();
        let other = other.map(|(name, amount)| (Arc::clone(name), capped(*amount))).collect();
        Sum { pods: self.pods, requests: Resources { milli_cpu, memory, ephemeral_storage, other } }
    }
}

impl PartialEq for Total {
    fn eq(&self, with: &Self) -> bool {
        let other = |total: &Self| total.rest.as_ref().map(|rest| rest.other.clone()).unwrap_or_default();
        self.pods == with.pods && self.exact() == with.exact() && other(self) == other(with)
    }
}

fn capped(amount: i128) -> i64 {
    i64::try_from(amount).unwrap_or(if amount < 0 { i64::MIN } else { i64::MAX })
}

#[cfg(test)]
mod tests {
    use super::super::codec::{Reader, Writer};
    use super::*;

    fn amounts(resources: &Resources) -> Vec<u8> {
        let mut bytes = Vec::new();
        Writer::new(&mut bytes, None).amounts(resources);
        bytes
    }

    #[test]
    fn sums_beyond_what_an_amount_can_be_are_exact_again_once_they_are_less() {
        let huge = amounts(&Resources { milli_cpu: i64::MAX, memory: i64::MIN, ..Resources::default() });
        let gpu: Resources =
            Resources { milli_cpu: 5, other: [("gpu".into(), i64::MAX)].into(), ..Resources::default() };
        let small = amounts(&gpu);
        let read = |bytes: &'static [u8]| Reader::new(bytes, "").amounts();
        let (huge, small) = (read(huge.leak()), read(small.leak()));
        let mut total = Total::default();
        total.add(&small);
        (0..3).for_each(|_| total.add(&huge));
        total.add(&small);
        assert_eq!((total.sum().requests.milli_cpu, total.sum().requests.memory), (i64::MAX, i64::MIN));
        assert_eq!(total.sum().requests.other["gpu"], i64::MAX);
        (0..3).for_each(|_| total.subtract(&huge));
        total.subtract(&small);
        assert_eq!(total.sum(), Sum { pods: 1, requests: gpu });
        total.subtract(&small);
        assert!(total == Total::default() && total.rest.is_none());
    }
}
