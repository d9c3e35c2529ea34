//! The rows of the behaviour vectors that are about requests.

use super::*;

fn amounts(pairs: &[(&'static str, &str)]) -> Exact<'static> {
    pairs.iter().map(|(name, amount)| (*name, amount.parse().unwrap())).collect()
}

fn container(pairs: &[(&'static str, &str)]) -> Container<'static> {
    Container { requests: amounts(pairs), ..Container::default() }
}

fn cpu(amount: &str) -> Container<'static> {
    container(&[("cpu", amount)])
}

fn sidecar(amount: &str) -> Container<'static> {
    Container { restartable: true, ..cpu(amount) }
}

fn demand(containers: Vec<Container<'static>>, init_containers: Vec<Container<'static>>) -> Demand<'static> {
    Demand { containers: containers.into(), init_containers, ..Demand::default() }
}

fn milli_cpu(demand: &Demand<'_>) -> i64 {
    effective(demand).milli_cpu
}

#[test]
fn containers_are_summed() {
    let sum = effective(&demand(
        vec![container(&[("cpu", "500m"), ("memory", "1Gi")]), container(&[("cpu", "250m"), ("memory", "512Mi")])],
        vec![],
    ));
    assert_eq!((sum.milli_cpu, sum.memory), (750, 1536 << 20));
}

#[test]
fn sidecar_and_overhead_add_to_the_containers_where_the_init_peak_is_lower() {
    let demand = Demand {
        overhead: amounts(&[("cpu", "50m")]),
        ..demand(vec![cpu("500m")], vec![sidecar("100m"), cpu("200m")])
    };
    assert_eq!(milli_cpu(&demand), 650);
}

#[test]
fn an_init_container_larger_than_the_containers_counts_alone() {
    assert_eq!(milli_cpu(&demand(vec![cpu("500m")], vec![cpu("2")])), 2000);
}

#[test]
fn of_several_init_containers_the_largest_counts() {
    assert_eq!(milli_cpu(&demand(vec![cpu("200m")], vec![cpu("300m"), cpu("400m")])), 400);
}

#[test]
fn a_sidecar_declared_before_an_init_container_runs_beside_it() {
    assert_eq!(milli_cpu(&demand(vec![cpu("500m")], vec![sidecar("200m"), cpu("1")])), 1200);
}

#[test]
fn a_sidecar_declared_after_an_init_container_does_not() {
    assert_eq!(milli_cpu(&demand(vec![cpu("500m")], vec![cpu("1"), sidecar("200m")])), 1000);
}

#[test]
fn pod_level_requests_replace_the_containers_for_what_they_name() {
    let demand = Demand {
        pod_level: Some(amounts(&[("cpu", "2")])),
        ..demand(vec![container(&[("cpu", "500m"), ("memory", "1Gi")])], vec![])
    };
    let sum = effective(&demand);
    assert_eq!((sum.milli_cpu, sum.memory), (2000, 1 << 30));
}

#[test]
fn pod_level_requests_below_the_containers_replace_them_too() {
    let demand = Demand { pod_level: Some(amounts(&[("cpu", "100m")])), ..demand(vec![cpu("500m")], vec![]) };
    assert_eq!(milli_cpu(&demand), 100);
}

#[test]
fn pod_level_ephemeral_storage_is_ignored() {
    let demand = Demand {
        pod_level: Some(amounts(&[("ephemeral-storage", "9Gi")])),
        ..demand(vec![container(&[("ephemeral-storage", "1Gi")])], vec![])
    };
    assert_eq!(effective(&demand).ephemeral_storage, 1 << 30);
}

#[test]
fn overhead_adds_to_pod_level_requests() {
    let demand = Demand {
        pod_level: Some(amounts(&[("cpu", "1")])),
        overhead: amounts(&[("cpu", "50m")]),
        ..demand(vec![cpu("500m")], vec![])
    };
    assert_eq!(milli_cpu(&demand), 1050);
}

#[test]
fn a_resize_in_progress_counts_what_the_node_still_holds() {
    let resizing =
        Container { allocated: Some(amounts(&[("cpu", "2")])), actual: Some(amounts(&[("cpu", "2")])), ..cpu("500m") };
    assert_eq!(milli_cpu(&demand(vec![resizing], vec![])), 2000);
}

#[test]
fn an_infeasible_resize_counts_what_the_node_holds_and_not_what_is_wanted() {
    let stuck = Container { actual: Some(amounts(&[("cpu", "1")])), ..cpu("4") };
    let demand = Demand { resize_infeasible: true, ..demand(vec![stuck], vec![]) };
    assert_eq!(milli_cpu(&demand), 1000);
}

#[test]
fn allocated_resources_alone_are_not_believed() {
    // Upstream looks at them only where the container's status has `resources`.
    let unknown = Container { allocated: Some(amounts(&[("cpu", "2")])), ..cpu("500m") };
    assert_eq!(milli_cpu(&demand(vec![unknown], vec![])), 500);
}

#[test]
fn a_resized_sidecar_counts_what_the_node_still_holds_and_an_init_container_its_spec() {
    let status = Some(amounts(&[("cpu", "3")]));
    let sidecar = Container { actual: status.clone(), ..sidecar("100m") };
    let init = Container { actual: status, ..cpu("200m") };
    assert_eq!(milli_cpu(&demand(vec![cpu("500m")], vec![sidecar])), 3500);
    assert_eq!(milli_cpu(&demand(vec![cpu("100m")], vec![init])), 200);
}

#[test]
fn a_pod_level_resize_counts_the_largest_of_spec_allocated_and_actual() {
    let demand = Demand {
        pod_level: Some(amounts(&[("cpu", "1")])),
        pod_allocated: Some(amounts(&[("cpu", "3")])),
        pod_actual: Some(amounts(&[("cpu", "2")])),
        ..demand(vec![cpu("500m")], vec![])
    };
    assert_eq!(milli_cpu(&demand), 3000);
}

#[test]
fn no_requests_are_no_amounts() {
    assert!(effective(&demand(vec![Container::default()], vec![])).is_zero());
}

#[test]
fn sums_are_exact_before_they_are_rounded() {
    let halves = vec![cpu("500u"), cpu("500u")];
    assert_eq!(milli_cpu(&demand(halves, vec![])), 1);
}

#[test]
fn extended_resources_are_counted_in_whole_units() {
    let sum =
        effective(&demand(vec![container(&[("nvidia.com/gpu", "1")]), container(&[("nvidia.com/gpu", "1")])], vec![]));
    assert_eq!(sum.other.get("nvidia.com/gpu"), Some(&2));
}
