//! Which of the nodes that would do is best.

use super::{
    neighbours,
    pod::PodInfo,
    spread,
    world::{NodeInfo, World},
};
use crate::random::Random;

/// The best of `nodes`, which is not empty; ties by chance.
pub(crate) fn best(pod: &PodInfo, world: &World, nodes: &[usize], random: &mut Random) -> usize {
    let column =
        |value: &dyn Fn(&NodeInfo) -> i64| -> Vec<i64> { nodes.iter().map(|&at| value(&world.nodes[at])).collect() };
    let taints = column(&|node| soft_taints(pod, node));
    let affinity = column(&|node| preferred(pod, node));
    let neighbours = column(&|node| neighbours::preference(pod, world, node));
    let all = spread::crowding(pod, world);
    let crowding: Vec<i64> = nodes.iter().map(|&at| all[at]).collect();
    let room = column(&|node| least_allocated(pod, node));
    let scores: Vec<i64> = (0..nodes.len())
        .map(|i| {
            3 * (100 - scaled(&taints, i))
                + 2 * scaled(&affinity, i)
                + 2 * ranged(&neighbours, i)
                + 2 * (100 - ranged(&crowding, i))
                + room[i]
        })
        .collect();
    let top = scores.iter().copied().max().expect("there is a node");
    let ties: Vec<usize> = (0..nodes.len()).filter(|&i| scores[i] == top).collect();
    nodes[ties[random.below(ties.len())]]
}

/// As a share of the largest, 0 to 100.
fn scaled(column: &[i64], at: usize) -> i64 {
    let max = column.iter().copied().max().unwrap_or(0);
    if max == 0 { 0 } else { column[at] * 100 / max }
}

/// Between the smallest and the largest, 0 to 100.
fn ranged(column: &[i64], at: usize) -> i64 {
    let max = column.iter().copied().max().unwrap_or(0);
    let min = column.iter().copied().min().unwrap_or(0);
    if max == min { 0 } else { (column[at] - min) * 100 / (max - min) }
}

fn soft_taints(pod: &PodInfo, node: &NodeInfo) -> i64 {
    let soft = node.taints.iter().filter(|taint| taint["effect"] == "PreferNoSchedule" && !pod.tolerates(taint));
    i64::try_from(soft.count()).unwrap_or(i64::MAX)
}

fn preferred(pod: &PodInfo, node: &NodeInfo) -> i64 {
    let met = pod.preferred.iter().filter(|(_, term)| term.matches(&node.name, &node.labels));
    met.map(|(weight, _)| weight).sum()
}

/// How empty the node would be, 0 to 100.
fn least_allocated(pod: &PodInfo, node: &NodeInfo) -> i64 {
    let share = |resource: &str| {
        let allocatable = node.allocatable.get(resource).copied().unwrap_or(0);
        let left = node.free(resource) - pod.requests.get(resource).copied().unwrap_or(0);
        if allocatable <= 0 {
            0
        } else {
            i64::try_from(i128::from(left.max(0)) * 100 / i128::from(allocatable)).unwrap_or(0)
        }
    };
    i64::midpoint(share("cpu"), share("memory"))
}
