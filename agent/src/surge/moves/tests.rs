use jiff::Timestamp;
use rotate_shared::Options;
use serde_json::{Value, json};

use super::*;
use crate::cache::Volumes;
use crate::surge::testing::{self, merge, owner, pod};

fn judge(node: Node, pods: Vec<Pod>, options: Options) -> Moves {
    let state = testing::state([node.clone(), testing::node("other", &json!({}))], pods);
    judge_in(&state, &node, options)
}

fn judge_in(state: &State, node: &Node, options: Options) -> Moves {
    let volumes = Volumes::default();
    let now = testing::CREATED.parse::<Timestamp>().unwrap();
    moves(state, &Context::new(node, &volumes, &options, now), &Found::default())
}

fn cand() -> Node {
    testing::node("cand", &json!({}))
}

fn cpu(name: &str, amount: &str, over: &Value) -> Pod {
    let mut object = testing::requesting(&json!({ "cpu": amount }));
    merge(&mut object, over);
    pod("shop", name, &object)
}

fn codes(notices: &[Notice]) -> Vec<Code> {
    notices.iter().map(|notice| notice.code).collect()
}

fn classes_of(moves: &Moves) -> Vec<(&str, Option<&str>)> {
    moves.pods.iter().map(|judged| (&*judged.pod.name, judged.class.as_deref())).collect()
}

#[test]
fn equal_rooms_are_one_class_and_the_largest_is_called_a() {
    let pods = vec![
        cpu("small-1", "500m", &json!({})),
        cpu("big", "2", &json!({})),
        cpu("small-2", "500m", &json!({})),
        cpu("small-gpu", "500m", &json!({ "spec": { "nodeSelector": { "pool": "gpu" } } })),
    ];
    let moves = judge(cand(), pods, Options::default());
    assert_eq!(
        classes_of(&moves),
        [("big", Some("a")), ("small-1", Some("c")), ("small-2", Some("c")), ("small-gpu", Some("b")),]
    );
    let ids: Vec<_> = moves.classes.iter().map(|class| (&*class.id, class.requests.milli_cpu)).collect();
    assert_eq!(ids, [("a", 2000), ("b", 500), ("c", 500)]);
}

#[test]
fn class_names_go_on_after_z() {
    assert_eq!([0, 25, 26, 27, 701, 702].map(class_id), ["a", "z", "aa", "ab", "zz", "aaa"]);
}

#[test]
fn pods_that_stay_or_are_gone_have_no_room() {
    let daemon = json!({ "metadata": { "ownerReferences": [owner("apps/v1", "DaemonSet", "logs")] } });
    let pods = vec![
        cpu("logs", "1", &daemon),
        cpu("done", "1", &json!({ "status": { "phase": "Succeeded" } })),
        cpu("web", "1", &json!({})),
    ];
    let moves = judge(cand(), pods, Options::default());
    assert_eq!(classes_of(&moves), [("done", None), ("logs", None), ("web", Some("a"))]);
    let leaving: Vec<_> = moves.pods.iter().filter(|judged| judged.leaves()).map(|judged| &*judged.pod.name).collect();
    assert_eq!(leaving, ["web"]);
}

#[test]
fn without_surge_no_room_is_reserved_and_that_is_said() {
    let options = Options { surge: SurgeMode::None, ..Options::default() };
    let moves = judge(cand(), vec![cpu("web", "1", &json!({}))], options);
    assert!(moves.classes.is_empty() && moves.blockers.is_empty());
    assert_eq!(codes(&moves.warnings), [Code::NotReserved]);
}

#[test]
fn what_the_flags_cost_is_warned_of_once_a_kind_with_the_pods_named() {
    let bare = json!({ "metadata": { "ownerReferences": null } });
    let storing = json!({ "spec": { "volumes": [{ "name": "scratch", "emptyDir": {} }] } });
    let pods = vec![cpu("one", "1", &bare), cpu("two", "1", &bare), cpu("web", "1", &storing)];
    let options = Options { force: true, delete_emptydir_data: true, ..Options::default() };
    let forced = judge(cand(), pods.clone(), options.clone());
    assert_eq!(
        (codes(&forced.blockers), codes(&forced.warnings)),
        (vec![], vec![Code::NotReserved, Code::LocalStorage])
    );
    let told: Vec<_> = forced.warnings.iter().map(|warning| &*warning.message).collect();
    assert_eq!(
        told,
        [
            "--force: 2 Pods are gone for good, nothing creates them anew: shop/one, shop/two",
            "--delete-emptydir-data: 1 Pod loses what is in emptyDir on the node's disk: shop/web",
        ]
    );
    let without = judge(cand(), pods, Options { surge: SurgeMode::None, ..options });
    assert_eq!(
        without.warnings[0].message,
        "--surge=none: 1 Pod is evicted without room held for it; --force: 2 Pods are gone for good, nothing creates them \
         anew: shop/one, shop/two"
    );
}

fn claiming() -> Value {
    json!({ "spec": { "resourceClaims": [{ "name": "gpu" }] } })
}

#[test]
fn what_cannot_be_promised_blocks() {
    let moves = judge(cand(), vec![cpu("web", "1", &claiming())], Options::default());
    assert_eq!(codes(&moves.blockers), [Code::ConstraintUnsupported]);
    assert_eq!(moves.pods[0].disposition, Disposition::Block);
    assert_eq!(moves.pods[0].class, None);
}

#[test]
fn what_cannot_be_promised_is_not_reserved_with_force_or_without_surge() {
    let forced = judge(cand(), vec![cpu("web", "1", &claiming())], Options { force: true, ..Options::default() });
    assert_eq!((codes(&forced.blockers), codes(&forced.warnings)), (vec![], vec![Code::NotReserved]));
    assert_eq!((forced.pods[0].disposition, &forced.pods[0].class), (Disposition::Evict, &None));
    let options = Options { surge: SurgeMode::None, ..Options::default() };
    assert!(judge(cand(), vec![cpu("web", "1", &claiming())], options).blockers.is_empty());
}

#[test]
fn what_cannot_be_promised_does_not_block_a_pod_that_is_leaving_anyway() {
    let mut over = claiming();
    merge(&mut over, &json!({ "metadata": { "deletionTimestamp": testing::CREATED } }));
    let moves = judge(cand(), vec![cpu("web", "1", &over)], Options::default());
    assert_eq!((codes(&moves.blockers), codes(&moves.warnings)), (vec![], vec![Code::NotReserved]));
    assert_eq!(moves.pods[0].disposition, Disposition::Wait);
}

#[test]
fn pods_that_cannot_preempt_a_placeholder_are_named() {
    for over in [json!({ "spec": { "preemptionPolicy": "Never" } }), json!({ "spec": { "priority": -10 } })] {
        let moves = judge(cand(), vec![cpu("web", "1", &over)], Options::default());
        assert_eq!(codes(&moves.warnings), [Code::CannotPreempt], "{over}");
        assert_eq!(moves.pods[0].class.as_deref(), Some("a"));
    }
    let above = json!({ "spec": { "priority": -9 } });
    assert!(judge(cand(), vec![cpu("web", "1", &above)], Options::default()).warnings.is_empty());
}

// === the node itself ===

fn blocked(over: &Value, options: Options) -> Vec<Code> {
    codes(&judge(testing::node("cand", over), vec![], options).blockers)
}

fn node_label(key: &str, value: &str) -> Value {
    json!({ "metadata": { "labels": { key: value } } })
}

#[test]
fn control_plane_nodes_need_leave_and_windows_nodes_are_refused() {
    let control_plane = node_label(CONTROL_PLANE, "");
    assert_eq!(blocked(&control_plane, Options::default()), [Code::ControlPlaneNode]);
    assert_eq!(blocked(&control_plane, Options { allow_control_plane: true, ..Options::default() }), []);
    assert_eq!(blocked(&node_label(OS, "windows"), Options::default()), [Code::WindowsNode]);
    assert_eq!(blocked(&node_label(OS, "linux"), Options::default()), []);
}

#[test]
fn a_node_that_is_being_deleted_is_refused() {
    let deleting = json!({ "metadata": { "deletionTimestamp": testing::CREATED } });
    assert_eq!(blocked(&deleting, Options::default()), [Code::NodeDeleting]);
}

#[test]
fn a_node_that_a_person_marked_as_not_to_be_disrupted_is_refused_unless_that_is_ignored() {
    let marked = json!({ "metadata": { "annotations": { "karpenter.sh/do-not-disrupt": "true" } } });
    assert_eq!(blocked(&marked, Options::default()), [Code::DoNotDisrupt]);
    assert_eq!(blocked(&marked, Options { ignore_do_not_disrupt: true, ..Options::default() }), []);
    // For a while from the node's creation, which is now.
    let for_a_while = json!({ "metadata": { "annotations": { "karpenter.sh/do-not-disrupt": "10m" } } });
    assert_eq!(blocked(&for_a_while, Options::default()), [Code::DoNotDisrupt]);
    let over = json!({ "metadata": { "creationTimestamp": "2026-01-04T00:00:00Z" } });
    let mut long_ago = for_a_while.clone();
    testing::merge(&mut long_ago, &over);
    assert_eq!(blocked(&long_ago, Options::default()), []);
}

#[test]
fn our_own_protection_does_not_stand_in_our_way() {
    let ours = json!({ "metadata": { "annotations": {
        "karpenter.sh/do-not-disrupt": "true",
        "kubectl-rotate.dev/protected-by":
            "0123456789:cluster-autoscaler.kubernetes.io/scale-down-disabled,karpenter.sh/do-not-disrupt",
    } } });
    assert_eq!(blocked(&ours, Options::default()), []);
    let theirs = json!({ "metadata": { "annotations": {
        "karpenter.sh/do-not-disrupt": "true",
        "kubectl-rotate.dev/protected-by": "0123456789:cluster-autoscaler.kubernetes.io/scale-down-disabled",
    } } });
    assert_eq!(blocked(&theirs, Options::default()), [Code::DoNotDisrupt]);
}

#[test]
fn a_persons_cordon_is_no_obstacle() {
    assert_eq!(blocked(&json!({ "spec": { "unschedulable": true } }), Options::default()), []);
}

// === budgets ===

fn with_budgets(budgets: &[(&str, Value, i32)], options: Options) -> Moves {
    let web = |name| cpu(name, "1", &json!({ "metadata": { "labels": { "app": "web" } } }));
    let mut state = testing::state([cand()], [web("web-1"), web("web-2")]);
    for (name, limit, allowed) in budgets {
        let mut object = json!({
            "metadata": { "namespace": "shop", "name": name, "uid": name, "generation": 1 },
            "spec": { "selector": { "matchLabels": { "app": "web" } } },
            "status": {
                "observedGeneration": 1, "disruptionsAllowed": allowed,
                "currentHealthy": 3, "desiredHealthy": 2, "expectedPods": 3,
            },
        });
        merge(&mut object["spec"], limit);
        state.apply_pdb(testing::pdb(&object));
    }
    judge_in(&state, &cand(), options)
}

#[test]
fn an_open_budget_is_not_mentioned() {
    let moves = with_budgets(&[("web", json!({ "maxUnavailable": 1 }), 1)], Options::default());
    assert!(moves.blockers.is_empty() && moves.warnings.is_empty());
}

#[test]
fn a_closed_budget_warns_once_for_all_its_pods() {
    let moves = with_budgets(&[("web", json!({ "minAvailable": 2 }), 0)], Options::default());
    assert_eq!((codes(&moves.blockers), codes(&moves.warnings)), (vec![], vec![Code::PodDisruptionBudget]));
    assert_eq!(moves.warnings[0].message, "needs 2 healthy, has 3 (allows 0)");
}

#[test]
fn a_budget_that_never_allows_blocks_once_for_all_its_pods() {
    let never = [("web", json!({ "maxUnavailable": 0 }), 0)];
    let moves = with_budgets(&never, Options::default());
    assert_eq!(codes(&moves.blockers), [Code::PodDisruptionBudgetNever]);
    assert!(moves.blockers[0].remedy.contains("--disable-eviction"));
    let deleting = with_budgets(&never, Options { disable_eviction: true, ..Options::default() });
    assert!(deleting.blockers.is_empty());
}

#[test]
fn two_budgets_block_each_of_their_pods() {
    let two = [("one", json!({ "maxUnavailable": 1 }), 1), ("two", json!({ "maxUnavailable": 1 }), 1)];
    let moves = with_budgets(&two, Options::default());
    assert_eq!(codes(&moves.blockers), [Code::MultiplePodDisruptionBudgets; 2]);
    assert!(moves.blockers[0].message.contains("shop/one, shop/two"));
}

#[test]
fn a_pod_that_cannot_be_read_blocks_its_node_and_no_other() {
    let mut state = testing::state([cand(), testing::node("other", &json!({}))], vec![]);
    state.note_unreadable(testing::unreadable("here", "cand"));
    state.note_unreadable(testing::unreadable("elsewhere", "other"));
    let moves = judge_in(&state, &cand(), Options::default());
    assert_eq!(codes(&moves.blockers), [Code::UnreadablePod]);
    assert_eq!(moves.blockers[0].message, "failed to read Pod x: quantity");
}

#[test]
fn one_placeholder_for_all_is_one_class_of_their_sum() {
    let options = Options { surge: SurgeMode::Single, ..Options::default() };
    let moves = judge(cand(), vec![cpu("big", "2", &json!({})), cpu("small", "1", &json!({}))], options);
    let [class] = &moves.classes[..] else { panic!("one class: {:?}", moves.classes) };
    assert_eq!((class.requests.milli_cpu, class.shared), (3000, true));
    assert_eq!(classes_of(&moves), [("big", Some("a")), ("small", Some("a"))]);
    assert_eq!((codes(&moves.blockers), codes(&moves.warnings)), (vec![], vec![]));
}

#[test]
fn who_cannot_share_the_one_placeholder_blocks_or_with_force_is_not_reserved() {
    let port =
        json!({ "spec": { "containers": [{ "name": "app", "ports": [{ "containerPort": 80, "hostPort": 80 }] }] } });
    let pods = || vec![cpu("one", "1", &port), cpu("two", "1", &port)];
    let options = Options { surge: SurgeMode::Single, ..Options::default() };
    let moves = judge(cand(), pods(), options.clone());
    assert_eq!(codes(&moves.blockers), [Code::ConstraintUnsupported]);
    assert_eq!(moves.blockers[0].object, "Pod shop/two");
    let forced = judge(cand(), pods(), Options { force: true, ..options });
    assert_eq!((codes(&forced.blockers), codes(&forced.warnings)), (vec![], vec![Code::NotReserved]));
}
