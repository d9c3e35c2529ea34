//! A plan as a tired person reads it.

use rotate_shared::plan::{Estimate, PlannedPlaceholder, Room, Totals};
use rotate_shared::{API_VERSION, Code};

use super::*;

fn quantities(pairs: &[(&str, &str)]) -> Amounts {
    let parsed = pairs.iter().map(|(name, text)| ((*name).to_owned(), text.parse().expect("a quantity")));
    parsed.collect()
}

fn pod(name: &str, disposition: Disposition, reserved: bool, reason: PodReason) -> PlannedPod {
    PlannedPod {
        namespace: "shop".to_owned(),
        name: name.to_owned(),
        uid: name.to_owned(),
        disposition,
        reserved,
        reason,
        class: reserved.then(|| "a".to_owned()),
        requests: quantities(&[("cpu", "500m"), ("memory", "1Gi")]),
    }
}

pub(crate) fn plan() -> Plan {
    Plan {
        api_version: API_VERSION.to_owned(),
        kind: "Plan".to_owned(),
        node: "worker-1".to_owned(),
        provider: Provider::Unmanaged,
        then: Some(Then::Keep),
        cordoned: false,
        totals: Totals { pods: 1, reserved: quantities(&[("cpu", "500m"), ("memory", "1Gi")]) },
        pods: vec![
            pod("cart-1", Disposition::Evict, true, PodReason::Replicated),
            pod("log-1", Disposition::Stay, false, PodReason::Daemonset),
            pod("log-2", Disposition::Stay, false, PodReason::Daemonset),
        ],
        classes: vec![Class {
            id: "a".to_owned(),
            pods: 1,
            requests: quantities(&[("cpu", "500m"), ("memory", "1Gi")]),
            constraints: vec!["zone in b".to_owned()],
            room: vec![Room { node: Some("worker-2".to_owned()), new_node: None, count: 1 }],
        }],
        placeholders: vec![PlannedPlaceholder {
            class: "a".to_owned(),
            pod: "shop/cart-1".to_owned(),
            requests: Amounts::new(),
        }],
        groups: Vec::new(),
        blockers: Vec::new(),
        warnings: Vec::new(),
        estimate: Estimate { surge_seconds: 60, drain_seconds: 70, extra_node_seconds: 130 },
    }
}

fn blocker() -> Notice {
    Notice {
        code: Code::BarePod,
        object: "Pod shop/debug".to_owned(),
        message: "no controller would start it anew".to_owned(),
        remedy: "--force evicts it".to_owned(),
    }
}

#[test]
fn a_plan_that_can_go_ahead_reads_from_top_to_bottom() {
    assert_eq!(
        text(&plan(), false),
        "node/worker-1 (unmanaged)

PODS
  ACTION   POD           REQUESTS                CLASS   WHY
  move     shop/cart-1   cpu 500m, memory 1Gi    a       its controller starts it anew
  and 2 Pods left alone: of a DaemonSet

ROOM to be reserved: cpu 500m, memory 1Gi in all
  class a: 1 Pod, cpu 500m, memory 1Gi each
      1 on node/worker-2
      constraint: zone in b

node/worker-1 can be rotated: 1 Pod to move, room for 1 is reserved first (cpu 500m, memory 1Gi); about 2m10s, with 2m10s of extra node time; then the node stays, cordoned.
"
        .replace("memory 1Gi    a", "memory 1Gi   a")
        .replace("REQUESTS                CLASS", "REQUESTS               CLASS")
    );
}

#[test]
fn a_blocked_plan_ends_with_the_blocker_its_remedy_and_the_verdict() {
    let mut plan = plan();
    plan.blockers.push(blocker());
    assert!(text(&plan, false).ends_with(
        "
BLOCKERS
  BarePod: Pod shop/debug: no controller would start it anew
      → --force evicts it

node/worker-1 cannot be rotated as asked: 1 blocker (above).
"
    ));
}

#[test]
fn what_becomes_of_the_node_is_the_last_word() {
    for (then, told) in [
        (Some(Then::Delete), "; then the node is deleted."),
        (Some(Then::Uncordon), "; then the node is uncordoned."),
        (None, " of extra node time."),
    ] {
        let verdict = verdict(&Plan { then, ..plan() });
        assert!(verdict.ends_with(told), "{verdict}");
    }
    let found = verdict(&Plan { then: Some(Then::Uncordon), cordoned: true, ..plan() });
    assert!(found.ends_with("; then the node stays cordoned, as it was found."), "{found}");
}

#[test]
fn the_verdict_counts_what_has_no_room_and_what_is_lost() {
    let mut plan = plan();
    plan.pods.push(pod("debug", Disposition::Evict, false, PodReason::Bare));
    plan.pods.push(pod("cache", Disposition::Evict, true, PodReason::LocalStorage));
    let told = verdict(&plan);
    let work = "3 Pods to move, room for 1 is reserved first (cpu 500m, memory 1Gi), 1 has none, 1 is gone for good, 1 \
                loses its emptyDir data; ";
    assert!(told.contains(work), "{told}");
    plan.pods.truncate(1);
    plan.pods[0].reserved = false;
    plan.totals = Totals::default();
    let told = verdict(&plan);
    assert!(told.contains(": 1 Pod to move, without any room reserved first; "), "{told}");
}

#[test]
fn pods_of_a_class_that_have_room_nowhere_are_counted() {
    let mut plan = plan();
    plan.classes[0].pods = 3;
    assert!(text(&plan, false).contains("      1 on node/worker-2\n      2 nowhere\n"), "{}", text(&plan, false));
}

#[test]
fn why_a_pod_blocks_is_not_that_it_would_be_started_anew() {
    let mut plan = plan();
    plan.pods[0].disposition = Disposition::Block;
    let never = (Code::PodDisruptionBudgetNever, "PodDisruptionBudget shop/cart");
    for (pods, blockers, told) in [
        (2, vec![(Code::NoRoom, "Pod shop/cart-1")], "no room"),
        (2, vec![(Code::NoRoom, "Pod shop/cart-2")], "no room"),
        (1, vec![never], "its PodDisruptionBudget never lets it go"),
        (1, vec![(Code::NoRoom, "Pod shop/web-1"), never], "its PodDisruptionBudget never lets it go"),
    ] {
        plan.classes[0].pods = pods;
        let notice = |(code, object): (Code, &str)| Notice { code, object: object.to_owned(), ..blocker() };
        plan.blockers = blockers.into_iter().map(notice).collect();
        let text = text(&plan, false);
        let row = text.lines().find(|line| line.contains("BLOCKS")).expect("a row");
        assert!(row.contains("shop/cart-1") && row.ends_with(told), "{text}");
    }
}

#[test]
fn pods_that_are_all_left_alone_are_not_and_anything() {
    let mut plan = plan();
    plan.pods.remove(0);
    assert!(text(&plan, false).contains("PODS\n  2 Pods left alone: of a DaemonSet\n"), "{}", text(&plan, false));
}

#[test]
fn wide_names_the_pods_that_stay() {
    assert!(text(&plan(), true).contains("  stay     shop/log-2"));
}

#[test]
fn several_plans_are_a_line_each() {
    assert_eq!(
        table(&[plan()], true),
        "NODE       PROVIDER    MOVE   STAY   BLOCKERS   RESERVE                NEW-NODES\n\
         worker-1   unmanaged   1      2      0          cpu 500m, memory 1Gi   no\n"
    );
}

#[test]
fn a_name_that_would_steer_the_terminal_is_spelled_out() {
    let mut plan = plan();
    plan.pods[0].name = "\u{1b}[2Jx".to_owned();
    plan.blockers.push(Notice { message: "\u{9b}1m".to_owned(), ..blocker() });
    assert!(!text(&plan, true).contains(['\u{1b}', '\u{9b}']));
}

#[test]
fn what_becomes_of_groups_is_told_with_their_limits() {
    let group = |during, after| GroupSize {
        name: "group web (eks)".to_owned(),
        provider: Provider::ClusterAutoscaler,
        nodes: 3,
        min: 1,
        max: 10,
        during,
        after,
    };
    let left = |group: GroupSize| verdict(&Plan { groups: vec![group], ..plan() });
    assert!(left(group(4, 3)).ends_with("; then the empty node is left to its autoscaler, which takes it away."));
    assert!(left(group(3, 3)).ends_with("; then the node stays, cordoned."));
    for (group, told) in [
        (group(4, 3), "\nGROUPS\n  group web (eks): 3 of 1..10 nodes, 4 while rotating, then 3\n"),
        (group(3, 2), "\nGROUPS\n  group web (eks): 3 of 1..10 nodes, 2 in the end\n"),
        (group(3, 3), "\nGROUPS\n  group web (eks): 3 of 1..10 nodes, and so it stays\n"),
    ] {
        let text = text(&Plan { groups: vec![group], ..plan() }, false);
        assert!(text.contains(told), "{text}");
    }
}
