//! Which Pods are real: a node that hosts one is not given back.

use super::*;

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
    let context = Context::new(&node, &volumes, &options, now());
    let verdict = classify(&placeholder(), &context);
    assert_eq!((verdict.disposition, verdict.reason), (Disposition::Gone, PodReason::Placeholder));
    assert!(!verdict.reserved);
}
