//! What blocks, and the flag that lifts it.

use super::*;

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
