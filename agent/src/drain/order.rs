//! Which Pods are evicted first.
//!
//! Low priority first, critical Pods last. Within a priority the largest and most constrained first: the scheduler
//! takes placeholders as interchangeable, so that small Pods evicted first may take the room held for a big one (seen
//! on 1.36: four Pods of 500m stranded one of 2 CPU). One class after another for the same reason.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use crate::cache::{Pod, Resources};

/// A Pod to be evicted, as far as its turn depends on it.
#[derive(Clone, Copy, Debug)]
pub struct Turn<'a> {
    /// `spec.priority`.
    pub priority: i32,
    /// Effective requests.
    pub requests: &'a Resources,
    /// How many constraints it has, see [`constraints`].
    pub constraints: usize,
    /// The class of its room; empty where none is reserved.
    pub class: &'a str,
}

impl<'a> Turn<'a> {
    /// The turn of a Pod with room of this class.
    #[must_use]
    pub fn of(pod: &'a Pod, class: &'a str) -> Self {
        Self { priority: pod.shape.priority, requests: &pod.shape.requests, constraints: constraints(pod), class }
    }
}

/// How many constraints narrow a Pod's choice of nodes.
#[must_use]
pub fn constraints(pod: &Pod) -> usize {
    let shape = &pod.shape;
    shape.node_selector.len()
        + shape.node_affinity.as_ref().map_or(0, Vec::len)
        + shape.host_ports.len()
        + shape.affinity.len()
        + shape.anti_affinity.len()
        + shape.spread.len()
        + pod.claims.len()
}

/// Places in `turns`, group by group in the order of eviction. A group is what may be evicted together: Pods of one
/// class and priority. The next group's turn comes once no replacement of this one is without a node.
#[must_use]
pub fn groups(turns: &[Turn<'_>]) -> Vec<Vec<usize>> {
    let mut largest = Resources::default();
    for turn in turns {
        largest.maximum(turn.requests);
    }
    // Pods of one class may differ in their constraints: the most constrained speaks for all, so that the class stays
    // together.
    let mut groups = BTreeMap::<_, (_, Vec<usize>)>::new();
    for (place, turn) in turns.iter().enumerate() {
        let weight = (size(turn.requests, &largest), turn.constraints);
        let (heaviest, members) = groups.entry((turn.priority, turn.class)).or_insert((weight, Vec::new()));
        *heaviest = weight.max(*heaviest);
        members.push(place);
    }
    let mut groups: Vec<_> = groups.into_iter().collect();
    groups.sort_by_key(|((priority, class), (weight, _))| (*priority, Reverse(*weight), *class));
    groups.into_iter().map(|(_, (_, members))| members).collect()
}

/// Thousandths of the largest request of each resource: the greatest share decides, the sum of all shares next.
pub(crate) fn size(requests: &Resources, largest: &Resources) -> (i128, i128) {
    let share = |part: i64, whole: i64| i128::from(part) * 1000 / i128::from(whole.max(1));
    let fixed = [
        share(requests.milli_cpu, largest.milli_cpu),
        share(requests.memory, largest.memory),
        share(requests.ephemeral_storage, largest.ephemeral_storage),
    ];
    let other = requests.other.iter().map(|(name, part)| share(*part, largest.other.get(name).copied().unwrap_or(1)));
    fixed.into_iter().chain(other).fold((0, 0), |(most, sum), share| (most.max(share), sum + share))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cpu(milli_cpu: i64) -> Resources {
        Resources { milli_cpu, ..Resources::default() }
    }

    fn turn<'a>(priority: i32, requests: &'a Resources, class: &'a str) -> Turn<'a> {
        Turn { priority, requests, constraints: 0, class }
    }

    #[test]
    fn low_priority_goes_first_and_critical_last() {
        let requests = cpu(100);
        let turns = [turn(2_000_000_000, &requests, "a"), turn(-5, &requests, "a"), turn(0, &requests, "a")];
        assert_eq!(groups(&turns), [[1], [2], [0]]);
    }

    #[test]
    fn the_big_pod_goes_before_the_small_ones_of_its_priority() {
        let (small, big) = (cpu(500), cpu(2000));
        let turns = [turn(0, &small, "b"), turn(0, &big, "a"), turn(0, &small, "b")];
        assert_eq!(groups(&turns), [vec![1], vec![0, 2]]);
    }

    #[test]
    fn a_pod_that_is_largest_in_one_resource_goes_before_one_that_is_middling_in_all() {
        let memory = Resources { memory: 1 << 34, milli_cpu: 10, ..Resources::default() };
        let middling = Resources { memory: 1 << 32, milli_cpu: 1000, ..Resources::default() };
        let most_cpu = cpu(2000);
        let turns = [turn(0, &middling, "c"), turn(0, &memory, "b"), turn(0, &most_cpu, "a")];
        assert_eq!(groups(&turns).last(), Some(&vec![0]));
    }

    #[test]
    fn of_equally_large_pods_the_more_constrained_goes_first() {
        let requests = cpu(100);
        let turns = [turn(0, &requests, "a"), Turn { constraints: 2, ..turn(0, &requests, "b") }];
        assert_eq!(groups(&turns), [[1], [0]]);
    }

    #[test]
    fn classes_of_the_same_size_are_kept_apart() {
        let requests = cpu(100);
        let turns = [turn(0, &requests, "b"), turn(0, &requests, "a"), turn(0, &requests, "b")];
        assert_eq!(groups(&turns), [vec![1], vec![0, 2]]);
    }

    #[test]
    fn pods_of_one_class_stay_together_where_only_some_are_more_constrained() {
        let requests = cpu(100);
        let constrained = |constraints, class| Turn { constraints, ..turn(0, &requests, class) };
        let turns = [constrained(2, "b"), constrained(1, "a"), constrained(0, "b")];
        assert_eq!(groups(&turns), [vec![0, 2], vec![1]]);
    }

    #[test]
    fn nothing_to_evict_is_no_group() {
        assert!(groups(&[]).is_empty());
    }
}
