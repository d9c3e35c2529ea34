//! Which Pods count: the rows of the behaviour vectors and of the architecture's table.

use serde_json::{Value, json};

use super::*;
use crate::cache::selector::{Expression, NodeTerm, Operator};
use crate::cache::volumes::Claim;
use crate::provider::ProviderObjects;
use crate::surge::plan;
use crate::surge::testing::{self, merge, owner, pod};

const NOW: &str = "2026-01-05T01:00:00Z";

fn now() -> Timestamp {
    NOW.parse().unwrap()
}

fn cand() -> Node {
    testing::node("cand", &json!({}))
}

fn with(options: Options, over: &Value) -> Verdict {
    let node = cand();
    let volumes = Volumes::default();
    classify(&pod("shop", "web-1", over), &Context { node: &node, volumes: &volumes, options: &options, now: now() })
}

fn by_default(over: &Value) -> Verdict {
    with(Options::default(), over)
}

fn codes(notices: &[Notice]) -> Vec<Code> {
    notices.iter().map(|notice| notice.code).collect()
}

fn blocked_by(verdict: &Verdict) -> Vec<Code> {
    assert_eq!(verdict.disposition == Disposition::Block, !verdict.blockers.is_empty());
    codes(&verdict.blockers)
}

/// A Pod that requests one CPU, with `over` in its place.
fn one_cpu(over: &Value) -> Value {
    let mut object = testing::requesting(&json!({ "cpu": "1" }));
    merge(&mut object, over);
    object
}

fn bare() -> Value {
    json!({ "metadata": { "ownerReferences": [] } })
}

/// What a plan reserves for these Pods on `cand`, in thousandths of a CPU and in bytes; the cache's own sum must agree,
/// which knows neither options nor volumes.
fn reserved_for(pods: Vec<Pod>) -> (i64, i64) {
    let state = testing::state([cand(), testing::node("other", &json!({}))], pods);
    let plan = plan::plan(&state, "cand", &Volumes::default(), &ProviderObjects::default(), &Options::default(), now())
        .unwrap();
    let amount = |name: &str| plan.totals.reserved.get(name).copied();
    let reserved =
        (amount("cpu").and_then(|cpu| cpu.milli()).unwrap_or(0), amount("memory").map_or(0, |memory| memory.value()));
    let movable = state.movable("cand").requests;
    assert_eq!((movable.milli_cpu, movable.memory), reserved, "the cache's running sum");
    reserved
}

fn cpu_reserved_for(over: &Value) -> i64 {
    reserved_for(vec![pod("shop", "web-1", &one_cpu(over))]).0
}

// === sums ===

#[test]
fn pods_of_replica_sets_on_the_candidate_are_summed() {
    let sum = reserved_for(vec![
        pod("shop", "web-1", &testing::requesting(&json!({ "cpu": "500m", "memory": "1Gi" }))),
        pod("shop", "web-2", &testing::requesting(&json!({ "cpu": "250m", "memory": "512Mi" }))),
    ]);
    assert_eq!(sum, (750, 1536 << 20));
}

#[test]
fn pods_on_other_nodes_are_not_summed() {
    let mut elsewhere = testing::requesting(&json!({ "cpu": "999" }));
    merge(&mut elsewhere, &json!({ "spec": { "nodeName": "other" } }));
    let here = pod("shop", "web-1", &testing::requesting(&json!({ "cpu": "500m" })));
    assert_eq!(reserved_for(vec![here, pod("shop", "web-2", &elsewhere)]).0, 500);
}

#[test]
fn daemon_set_pods_are_not_counted() {
    let daemon = one_cpu(&json!({ "metadata": { "ownerReferences": [owner("apps/v1", "DaemonSet", "logs")] } }));
    let plain = pod("shop", "web-1", &testing::requesting(&json!({ "cpu": "200m" })));
    assert_eq!(reserved_for(vec![plain, pod("shop", "logs-1", &daemon)]).0, 200);
}

#[test]
fn a_daemon_set_that_is_not_the_controlling_owner_changes_nothing() {
    let mut reference = owner("apps/v1", "DaemonSet", "logs");
    reference["controller"] = json!(false);
    let mut object = testing::requesting(&json!({ "cpu": "100m" }));
    merge(
        &mut object,
        &json!({ "metadata": { "ownerReferences": [owner("apps/v1", "ReplicaSet", "web"), reference] } }),
    );
    assert_eq!(reserved_for(vec![pod("shop", "web-1", &object)]).0, 100);
}

#[test]
fn a_daemon_set_of_another_group_recreates_its_pods_elsewhere() {
    let owned = json!({ "metadata": { "ownerReferences": [owner("apps.kruise.io/v1alpha1", "DaemonSet", "logs")] } });
    assert_eq!(cpu_reserved_for(&owned), 1000);
}

#[test]
fn mirror_pods_stay() {
    let mirror = json!({ "metadata": {
        "annotations": { "kubernetes.io/config.mirror": "x" },
        "ownerReferences": [owner("v1", "Node", "cand")],
    } });
    assert_eq!(cpu_reserved_for(&mirror), 0);
    let verdict = by_default(&mirror);
    assert_eq!((verdict.disposition, verdict.reason), (Disposition::Stay, PodReason::Mirror));
}

#[test]
fn a_pod_owned_by_a_node_without_the_mirror_annotation_is_bare() {
    let claimed = json!({ "metadata": { "ownerReferences": [owner("v1", "Node", "cand")] } });
    assert_eq!(by_default(&claimed).reason, PodReason::Bare);
    assert_eq!(cpu_reserved_for(&claimed), 0);
}

#[test]
fn finished_pods_are_gone_and_not_counted() {
    for phase in ["Succeeded", "Failed"] {
        let finished = json!({ "status": { "phase": phase } });
        assert_eq!(cpu_reserved_for(&finished), 0, "{phase}");
        let verdict = by_default(&finished);
        assert_eq!((verdict.disposition, verdict.reason), (Disposition::Gone, PodReason::Completed));
    }
}

#[test]
fn pending_and_unknown_pods_bound_to_the_candidate_are_counted() {
    for phase in ["Pending", "Unknown"] {
        assert_eq!(cpu_reserved_for(&json!({ "status": { "phase": phase } })), 1000, "{phase}");
    }
}

#[test]
fn a_terminating_pod_is_counted_while_its_owner_will_recreate_it() {
    let terminating = json!({ "metadata": { "deletionTimestamp": NOW } });
    assert_eq!(cpu_reserved_for(&terminating), 1000);
    let verdict = by_default(&terminating);
    assert_eq!((verdict.disposition, verdict.reason), (Disposition::Wait, PodReason::Terminating));
}

#[test]
fn a_terminating_bare_pod_is_only_waited_for() {
    let terminating = json!({ "metadata": { "deletionTimestamp": NOW, "ownerReferences": [] } });
    assert_eq!(cpu_reserved_for(&terminating), 0);
    assert_eq!(by_default(&terminating).disposition, Disposition::Wait);
}

#[test]
fn a_pod_without_requests_needs_a_slot_and_nothing_else() {
    let state = testing::state([cand()], [pod("shop", "web-1", &json!({}))]);
    let plan = plan::plan(&state, "cand", &Volumes::default(), &ProviderObjects::default(), &Options::default(), now())
        .unwrap();
    assert_eq!(plan.totals.pods, 1);
    assert!(plan.totals.reserved.is_empty());
    assert_eq!(state.movable("cand").pods, 1);
}

#[test]
fn ephemeral_containers_are_not_counted() {
    let debugged = json!({ "spec": {
        "containers": [{ "name": "app", "resources": { "requests": { "cpu": "500m" } } }],
        "ephemeralContainers": [{ "name": "debug", "resources": { "requests": { "cpu": "5" } } }],
    } });
    assert_eq!(reserved_for(vec![pod("shop", "web-1", &debugged)]).0, 500);
}

#[test]
fn a_resize_in_progress_counts_what_the_node_still_holds() {
    let resizing = json!({
        "spec": { "containers": [{ "name": "app", "resources": { "requests": { "cpu": "500m" } } }] },
        "status": { "containerStatuses": [{
            "name": "app",
            "allocatedResources": { "cpu": "2" },
            "resources": { "requests": { "cpu": "2" } },
        }] },
    });
    assert_eq!(reserved_for(vec![pod("shop", "web-1", &resizing)]).0, 2000);
}

#[test]
fn an_infeasible_resize_counts_what_is_there() {
    let stuck = json!({
        "spec": { "containers": [{ "name": "app", "resources": { "requests": { "cpu": "4" } } }] },
        "status": {
            "conditions": [{ "type": "PodResizePending", "status": "True", "reason": "Infeasible" }],
            "containerStatuses": [{ "name": "app", "resources": { "requests": { "cpu": "1" } } }],
        },
    });
    assert_eq!(reserved_for(vec![pod("shop", "web-1", &stuck)]).0, 1000);
}

// === pins ===

fn affinity(terms: &Value) -> Value {
    json!({ "spec": { "affinity": { "nodeAffinity": {
        "requiredDuringSchedulingIgnoredDuringExecution": { "nodeSelectorTerms": terms },
    } } } })
}

fn hostname(operator: &str, values: &[&str]) -> Value {
    json!({ "key": "kubernetes.io/hostname", "operator": operator, "values": values })
}

fn zone_a() -> Value {
    json!({ "key": "topology.kubernetes.io/zone", "operator": "In", "values": ["a"] })
}

#[track_caller]
fn assert_pinned(over: &Value) {
    assert_eq!(cpu_reserved_for(over), 0);
    let verdict = by_default(over);
    assert_eq!(blocked_by(&verdict), [Code::PinnedPod]);
    assert_eq!(verdict.reason, PodReason::Pinned);
}

#[track_caller]
fn assert_counted(over: &Value) {
    assert_eq!(cpu_reserved_for(over), 1000);
    assert_eq!(by_default(over).reason, PodReason::Replicated);
}

#[test]
fn required_hostname_affinity_to_the_candidate_pins() {
    assert_pinned(&affinity(&json!([{ "matchExpressions": [hostname("In", &["cand"])] }])));
}

#[test]
fn required_hostname_affinity_anded_with_a_zone_pins() {
    assert_pinned(&affinity(&json!([{ "matchExpressions": [hostname("In", &["cand"]), zone_a()] }])));
}

#[test]
fn two_ored_terms_that_both_name_the_candidate_pin() {
    let term = json!({ "matchExpressions": [hostname("In", &["cand"])] });
    assert_pinned(&affinity(&json!([term, term])));
}

#[test]
fn a_hostname_other_than_another_does_not_pin() {
    assert_counted(&affinity(&json!([{ "matchExpressions": [hostname("NotIn", &["other"])] }])));
}

#[test]
fn any_hostname_does_not_pin() {
    let exists = json!({ "key": "kubernetes.io/hostname", "operator": "Exists" });
    assert_counted(&affinity(&json!([{ "matchExpressions": [exists] }])));
}

#[test]
fn one_of_two_hostnames_does_not_pin() {
    assert_counted(&affinity(&json!([{ "matchExpressions": [hostname("In", &["cand", "other"])] }])));
}

#[test]
fn the_candidate_ored_with_a_zone_does_not_pin() {
    let terms = json!([{ "matchExpressions": [hostname("In", &["cand"])] }, { "matchExpressions": [zone_a()] }]);
    assert_counted(&affinity(&terms));
}

#[test]
fn a_pin_to_another_node_does_not_pin_here() {
    assert_counted(&affinity(&json!([{ "matchExpressions": [hostname("In", &["other"])] }])));
}

#[test]
fn anded_hostnames_pin_where_they_have_only_the_candidate_in_common() {
    let both = json!([{ "matchExpressions": [hostname("In", &["cand"]), hostname("In", &["cand", "other"])] }]);
    assert_pinned(&affinity(&both));
    let but = json!([{ "matchExpressions": [hostname("In", &["cand", "other"]), hostname("NotIn", &["other"])] }]);
    assert_pinned(&affinity(&but));
}

#[test]
fn a_term_that_nothing_satisfies_does_not_unpin() {
    let nowhere = json!({ "matchExpressions": [hostname("In", &["cand"]), hostname("In", &["other"])] });
    assert_pinned(&affinity(&json!([nowhere, { "matchExpressions": [hostname("In", &["cand"])] }])));
    assert_counted(&affinity(&json!([nowhere])));
}

#[test]
fn match_fields_with_the_nodes_name_pin() {
    let field = |values: &[&str]| json!({ "key": "metadata.name", "operator": "In", "values": values });
    assert_pinned(&affinity(&json!([{ "matchFields": [field(&["cand"])] }])));
    assert_counted(&affinity(&json!([{ "matchFields": [field(&["other"])] }])));
}

#[test]
fn a_node_selector_pins_by_the_candidates_hostname_only() {
    let selector = |value: &str| json!({ "spec": { "nodeSelector": { "kubernetes.io/hostname": value } } });
    assert_pinned(&selector("cand"));
    assert_counted(&selector("other"));
}

#[test]
fn a_node_selector_and_an_affinity_are_anded() {
    let mut both = affinity(&json!([{ "matchExpressions": [hostname("In", &["cand", "other"])] }]));
    merge(&mut both, &json!({ "spec": { "nodeSelector": { "kubernetes.io/hostname": "cand" } } }));
    assert_pinned(&both);
}

#[test]
fn pins_compare_with_the_hostname_label_and_not_with_the_nodes_name() {
    let node = testing::node("cand", &json!({ "metadata": { "labels": { "kubernetes.io/hostname": "ip-10-0-0-1" } } }));
    let pinned_to = |value: &str| {
        let over = one_cpu(&json!({ "spec": { "nodeSelector": { "kubernetes.io/hostname": value } } }));
        let state = testing::state([node.clone()], [pod("shop", "web-1", &over)]);
        state.movable("cand").pods == 0
    };
    assert!(pinned_to("ip-10-0-0-1"));
    assert!(!pinned_to("cand"));
}

#[test]
fn preferred_affinity_and_a_requirement_of_no_terms_do_not_pin() {
    assert_counted(&json!({ "spec": { "affinity": { "nodeAffinity": {
        "preferredDuringSchedulingIgnoredDuringExecution":
            [{ "weight": 1, "preference": { "matchExpressions": [hostname("In", &["cand"])] } }],
    } } } }));
    assert_counted(&affinity(&json!([])));
}

fn claim_bound_to(expression: Expression) -> Verdict {
    let node = testing::node("cand", &json!({ "metadata": { "labels": { "topology.topolvm.io/node": "cand" } } }));
    let terms = Some(vec![NodeTerm { expressions: vec![expression], fields: Vec::new() }]);
    let claim = Claim::Bound { volume: "pv-1".into(), terms, local: true, driver: None };
    let volumes = Volumes { claims: [(("shop".into(), "data".into()), claim)].into(), ..Volumes::default() };
    let options = Options::default();
    let over = json!({ "spec": { "volumes": [{ "name": "data", "persistentVolumeClaim": { "claimName": "data" } }] } });
    classify(&pod("shop", "web-1", &over), &Context { node: &node, volumes: &volumes, options: &options, now: now() })
}

fn label_in(key: &str, values: &[&str]) -> Expression {
    Expression { key: key.into(), operator: Operator::In, values: values.iter().map(|value| (*value).into()).collect() }
}

#[test]
fn a_local_volume_on_the_candidate_pins() {
    let verdict = claim_bound_to(label_in("kubernetes.io/hostname", &["cand"]));
    assert_eq!(blocked_by(&verdict), [Code::PinnedPod]);
    assert!(!verdict.reserved);
    assert!(verdict.blockers[0].message.contains("PersistentVolume pv-1 of its claim data"));
    assert_eq!(blocked_by(&claim_bound_to(label_in("topology.topolvm.io/node", &["cand"]))), [Code::PinnedPod]);
}

#[test]
fn a_volume_of_the_zone_or_of_several_nodes_does_not_pin() {
    assert_eq!(blocked_by(&claim_bound_to(label_in("topology.kubernetes.io/zone", &["a"]))), []);
    assert_eq!(blocked_by(&claim_bound_to(label_in("kubernetes.io/hostname", &["cand", "other"]))), []);
}

// === what blocks, and the flag that lifts it ===

#[test]
fn a_pod_of_a_controller_is_evicted_and_reserved_for() {
    let verdict = by_default(&json!({}));
    assert_eq!(verdict.disposition, Disposition::Evict);
    assert!(verdict.reserved && verdict.blockers.is_empty() && verdict.warnings.is_empty());
}

#[test]
fn daemon_set_pods_stay_or_block_as_in_kubectl_drain() {
    let daemon = json!({ "metadata": { "ownerReferences": [owner("apps/v1", "DaemonSet", "logs")] } });
    assert_eq!(by_default(&daemon).disposition, Disposition::Stay);
    let options = Options { ignore_daemonsets: false, ..Options::default() };
    assert_eq!(blocked_by(&with(options, &daemon)), [Code::DaemonSetPod]);
}

#[test]
fn bare_pods_block_unless_forced_and_nothing_is_reserved_for_them() {
    assert_eq!(blocked_by(&by_default(&bare())), [Code::BarePod]);
    let verdict = with(Options { force: true, ..Options::default() }, &bare());
    assert_eq!((verdict.disposition, verdict.reserved, verdict.reason), (Disposition::Evict, false, PodReason::Bare));
}

#[test]
fn pinned_pods_block_unless_asked_for_and_nothing_is_reserved_for_them() {
    let pinned = json!({ "spec": { "nodeSelector": { "kubernetes.io/hostname": "cand" } } });
    let verdict = with(Options { evict_pinned: true, ..Options::default() }, &pinned);
    assert_eq!((verdict.disposition, verdict.reserved, verdict.reason), (Disposition::Evict, false, PodReason::Pinned));
}

#[test]
fn data_on_the_nodes_disk_blocks_unless_it_may_be_lost_and_room_is_reserved() {
    let scratch = json!({ "spec": { "volumes": [{ "name": "scratch", "emptyDir": {} }] } });
    let verdict = by_default(&scratch);
    assert_eq!(blocked_by(&verdict), [Code::LocalStorage]);
    assert!(verdict.reserved);
    let verdict = with(Options { delete_emptydir_data: true, ..Options::default() }, &scratch);
    assert_eq!((verdict.disposition, verdict.reserved), (Disposition::Evict, true));
    assert_eq!(verdict.reason, PodReason::LocalStorage);
}

#[test]
fn an_empty_dir_in_memory_does_not_block() {
    let tmpfs = json!({ "spec": { "volumes": [{ "name": "scratch", "emptyDir": { "medium": "Memory" } }] } });
    assert_eq!(blocked_by(&by_default(&tmpfs)), []);
}

fn annotated(key: &str, value: &str) -> Value {
    json!({ "metadata": { "annotations": { key: value } } })
}

#[test]
fn pods_not_to_be_disrupted_block_unless_that_is_ignored_and_room_is_reserved() {
    for over in [
        annotated("karpenter.sh/do-not-disrupt", "true"),
        annotated("cluster-autoscaler.kubernetes.io/safe-to-evict", "false"),
    ] {
        let verdict = by_default(&over);
        assert_eq!(blocked_by(&verdict), [Code::DoNotDisrupt]);
        assert!(verdict.reserved);
        assert!(verdict.blockers[0].remedy.contains("--ignore-do-not-disrupt"));
        let verdict = with(Options { ignore_do_not_disrupt: true, ..Options::default() }, &over);
        assert_eq!((verdict.disposition, verdict.reason), (Disposition::Evict, PodReason::DoNotDisrupt));
    }
}

#[test]
fn do_not_disrupt_for_a_while_blocks_until_the_while_is_over() {
    // The Pod was made an hour ago and has run for half an hour.
    let of = |value| {
        let mut over = annotated("karpenter.sh/do-not-disrupt", value);
        merge(&mut over, &json!({ "status": { "startTime": "2026-01-05T00:30:00Z" } }));
        blocked_by(&by_default(&over))
    };
    assert_eq!(of("31m"), [Code::DoNotDisrupt]);
    assert_eq!(of("1h30m"), [Code::DoNotDisrupt]);
    assert_eq!(of("30m"), []);
    assert_eq!(of("29m59s"), []);
    // It has not begun for a Pod that has not started.
    assert_eq!(blocked_by(&by_default(&annotated("karpenter.sh/do-not-disrupt", "1s"))), [Code::DoNotDisrupt]);
    assert_eq!(of("false"), []);
}

#[test]
fn a_do_not_disrupt_that_cannot_be_read_blocks_and_is_shown() {
    let verdict = by_default(&annotated("karpenter.sh/do-not-disrupt", "yes please"));
    assert_eq!(blocked_by(&verdict), [Code::DoNotDisrupt]);
    assert!(verdict.blockers[0].message.contains("\"yes please\""), "{}", verdict.blockers[0].message);
}

#[test]
fn safe_to_evict_true_does_not_block() {
    assert_eq!(blocked_by(&by_default(&annotated("cluster-autoscaler.kubernetes.io/safe-to-evict", "true"))), []);
}

#[test]
fn other_schedulers_pod_groups_and_gates_block_unless_forced() {
    for over in [
        json!({ "spec": { "schedulerName": "volcano" } }),
        json!({ "metadata": { "labels": { "scheduling.x-k8s.io/pod-group": "train" } } }),
        json!({ "spec": { "schedulingGates": [{ "name": "example.com/hold" }] } }),
    ] {
        assert_eq!(blocked_by(&by_default(&over)), [Code::SchedulerUnsupported], "{over}");
        let verdict = with(Options { force: true, ..Options::default() }, &over);
        assert_eq!((verdict.disposition, verdict.reserved), (Disposition::Evict, true));
        assert_eq!(verdict.reason, PodReason::SchedulerUnsupported);
    }
}

#[test]
fn a_pod_that_tolerates_the_cordon_is_evicted_with_a_warning() {
    for toleration in [
        json!({ "operator": "Exists" }),
        json!({ "key": "node.kubernetes.io/unschedulable", "operator": "Exists", "effect": "NoSchedule" }),
    ] {
        let verdict = by_default(&json!({ "spec": { "tolerations": [toleration] } }));
        assert_eq!((verdict.disposition, verdict.reserved), (Disposition::Evict, true));
        assert_eq!(verdict.reason, PodReason::ToleratesCordon);
        assert_eq!(codes(&verdict.warnings), [Code::ToleratesCordon]);
    }
}

#[test]
fn a_jobs_pod_is_evicted_with_a_warning() {
    let job = json!({ "metadata": { "ownerReferences": [owner("batch/v1", "Job", "import")] } });
    let verdict = by_default(&job);
    assert_eq!((verdict.disposition, verdict.reserved), (Disposition::Evict, true));
    assert_eq!(codes(&verdict.warnings), [Code::JobPod]);
}

#[test]
fn everything_that_blocks_is_named_at_once() {
    let mut over = bare();
    merge(&mut over, &json!({ "spec": { "volumes": [{ "name": "scratch", "emptyDir": {} }] } }));
    assert_eq!(blocked_by(&by_default(&over)), [Code::BarePod, Code::LocalStorage]);
    let verdict = with(Options { force: true, ..Options::default() }, &over);
    assert_eq!(blocked_by(&verdict), [Code::LocalStorage]);
    assert_eq!(verdict.reason, PodReason::LocalStorage, "what still blocks");
}

#[test]
fn every_blocker_names_the_pod_and_the_flag_that_lifts_it() {
    let mut over = bare();
    merge(
        &mut over,
        &json!({
            "metadata": { "annotations": { "karpenter.sh/do-not-disrupt": "true" } },
            "spec": {
                "nodeSelector": { "kubernetes.io/hostname": "cand" },
                "schedulerName": "volcano",
                "volumes": [{ "name": "scratch", "emptyDir": {} }],
            },
        }),
    );
    let verdict = by_default(&over);
    assert_eq!(verdict.blockers.len(), 5);
    for blocker in &verdict.blockers {
        assert_eq!(blocker.object, "Pod shop/web-1");
        assert!(blocker.remedy.starts_with("--"), "{blocker:?}");
    }
    let all = Options {
        force: true,
        delete_emptydir_data: true,
        evict_pinned: true,
        ignore_do_not_disrupt: true,
        ..Options::default()
    };
    assert_eq!(blocked_by(&with(all, &over)), []);
}

// === absorb guard ===

fn hosts_real(pods: Vec<Pod>) -> bool {
    testing::state([cand()], pods).hosts_real_pods("cand")
}

fn placeholder() -> Pod {
    let over =
        json!({ "metadata": { "labels": { "kubectl-rotate.dev/rotation": "0123456789" }, "ownerReferences": [] } });
    pod("kubectl-rotate-room", "room-0123456789-abcdef0123-0", &over)
}

#[test]
fn a_node_with_daemon_sets_and_placeholders_hosts_nothing_real() {
    let daemon = json!({ "metadata": { "ownerReferences": [owner("apps/v1", "DaemonSet", "logs")] } });
    assert!(!hosts_real(vec![placeholder(), pod("kube-system", "logs-1", &daemon)]));
}

#[test]
fn a_workload_pod_is_real_and_so_is_one_with_a_placeholders_name_elsewhere_and_a_pinned_one() {
    assert!(hosts_real(vec![pod("shop", "web-1", &json!({}))]));
    assert!(hosts_real(vec![pod("shop", &placeholder().name, &json!({}))]));
    let pinned = json!({ "spec": { "nodeSelector": { "kubernetes.io/hostname": "cand" } } });
    assert!(hosts_real(vec![pod("shop", "web-1", &pinned)]));
}

#[test]
fn our_placeholders_go_with_the_node() {
    let (node, volumes, options) = (cand(), Volumes::default(), Options::default());
    let context = Context { node: &node, volumes: &volumes, options: &options, now: now() };
    let verdict = classify(&placeholder(), &context);
    assert_eq!((verdict.disposition, verdict.reason), (Disposition::Gone, PodReason::Placeholder));
    assert!(!verdict.reserved);
}
