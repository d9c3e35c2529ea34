//! The agent inside the command.

use rotate_sim::{Access, Identity, NodeSpec, RequestEntry, Rule, Sim, objects};
use serde_json::json;

use crate::cluster::Cluster;
use crate::support::{interrupted, started};

#[test]
fn a_node_is_rotated_without_an_agent_in_the_cluster() {
    let cluster = Cluster::with_room(true);
    let run = cluster.embedded(&["node", "w1", "--yes"]);
    assert_eq!((run.code, run.stdout.as_str()), (Some(0), "node/w1 rotated\n"), "{}", run.stderr);
    assert!(run.stderr.contains("  PriorityClass rotate-placeholder"), "{}", run.stderr);
    assert!(cluster.is_cordoned("w1"));
}

/// How often every Pod was listed or watched.
fn reads_of_every_pod(cluster: &Cluster) -> usize {
    let all = |request: &&RequestEntry| request.path == "/api/v1/pods" && !request.query.contains("fieldSelector");
    cluster.sim.requests().iter().filter(all).count()
}

#[test]
fn only_the_pods_that_it_is_about_are_read_unless_asked_for_all() {
    let cluster = Cluster::with_room(true);
    let run = cluster.embedded(&["node", "w1", "--yes"]);
    assert_eq!(run.code, Some(0), "{}", run.stderr);
    assert!(run.stderr.contains("where that room is was not looked at"), "{}", run.stderr);
    assert!(run.stderr.contains("whether other nodes have room"), "{}", run.stderr);
    assert_eq!(reads_of_every_pod(&cluster), 0);

    let cluster = Cluster::with_room(true);
    let run = cluster.embedded(&["node", "w1", "--yes", "--pod-cache=cluster"]);
    assert_eq!((run.code, run.stdout.as_str()), (Some(0), "node/w1 rotated\n"), "{}", run.stderr);
    assert!(!run.stderr.contains("not looked at"), "{}", run.stderr);
    assert!(reads_of_every_pod(&cluster) > 0);
}

#[test]
fn figures_of_pods_that_were_not_read_are_shown_as_unknown_and_never_as_none() {
    let cluster = Cluster::with_room(true);
    let columns = |line: &str| line.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
    let run = cluster.embedded(&["fleet", "--no-headers"]);
    let first = columns(run.stdout.lines().next().expect("a node"));
    assert_eq!(first[3..7], ["?", "?", "?", "?"], "{}", run.stdout);
    assert!(run.stderr.contains("--pod-cache=cluster reads all of them"), "{}", run.stderr);
    let json = cluster.embedded(&["fleet", "-o", "json"]).stdout;
    assert!(!json.contains("movable") && json.contains("allocatable"), "{json}");
    let run = cluster.embedded(&["fleet", "--no-headers", "--pod-cache=cluster"]);
    let first = columns(run.stdout.lines().next().expect("a node"));
    assert_eq!(first[3..5], ["3", "3"], "{}", run.stdout);
    assert_eq!(run.stderr, "");
}

#[test]
fn a_plan_says_what_was_not_looked_at() {
    let cluster = Cluster::with_room(true);
    let run = cluster.embedded(&["plan", "node", "w1"]);
    assert_eq!(run.code, Some(0), "{}", run.stderr);
    assert!(run.stdout.contains("NotLookedAt: Node w1"), "{}", run.stdout);
    assert!(run.stdout.contains("3 where there is room: the scheduler will find out"), "{}", run.stdout);
    assert_eq!(reads_of_every_pod(&cluster), 0);
    let run = cluster.embedded(&["plan", "node", "w1", "--pod-cache=cluster"]);
    assert!(run.stdout.contains("3 on node/w2"), "{}", run.stdout);
    let run = cluster.embedded(&["plan", "node", "-l", "pool=none"]);
    assert_eq!((run.code, run.stderr.as_str()), (Some(0), "No nodes found\n"));
}

#[test]
fn nothing_is_created_without_consent() {
    let cluster = Cluster::with_room(true);
    let run = cluster.embedded(&["node", "w1"]);
    assert_eq!(run.code, Some(2), "{}", run.stderr);
    assert!(run.stderr.contains("  Namespace kubectl-rotate-room"), "{}", run.stderr);
    assert!(cluster.sim.get("namespaces", "", "kubectl-rotate").is_none());
}

#[test]
fn what_is_refused_leaves_no_namespace_behind() {
    let cluster = Cluster::with_room(true);
    let run = cluster.embedded(&["node", "w9", "--yes"]);
    assert_eq!((run.code, run.stderr.as_str()), (Some(1), "Error from server (NotFound): nodes \"w9\" not found\n"));
    let run = cluster.embedded(&["node", "-l", "pool=none", "--yes"]);
    assert_eq!((run.code, run.stderr.as_str()), (Some(0), "No nodes found\n"));
    let mut bare = objects::pod("bare", "shop", &objects::template("bare", "1", "1Gi"));
    bare["spec"]["nodeName"] = json!("w1");
    cluster.sim.create(bare);
    let run = cluster.embedded(&["node", "w1", "--yes"]);
    assert_eq!(run.code, Some(3), "{}", run.stderr);
    assert!(run.stderr.contains("BarePod: Pod shop/bare"), "{}", run.stderr);
    assert!(cluster.sim.get("namespaces", "", "kubectl-rotate").is_none());
}

#[test]
fn a_person_without_permission_is_told_so() {
    let cluster = Cluster::with_room(true);
    let someone = Identity { user: "someone".to_owned(), ..Identity::default() };
    cluster.sim.set_access(Access {
        tokens: [("secret".to_owned(), someone)].into(),
        rules: vec![Rule::new("someone", &["get"], &["nodes"])],
        token_required: true,
    });
    let run = cluster.embedded(&["node", "w1", "--yes", "--token", "secret"]);
    assert_eq!(run.code, Some(7), "{}", run.stderr);
    assert!(run.stderr.starts_with("Error from server (Forbidden): "), "{}", run.stderr);
    assert_eq!(run.stderr.lines().count(), 1, "{}", run.stderr);
}

#[test]
fn who_may_not_read_pods_is_told_so_and_not_kept_waiting() {
    let cluster = Cluster::with_room(true);
    let someone = Identity { user: "someone".to_owned(), ..Identity::default() };
    cluster.sim.set_access(Access {
        tokens: [("secret".to_owned(), someone)].into(),
        rules: vec![Rule::new(
            "someone",
            &["*"],
            &["nodes", "namespaces", "scheduling.k8s.io/priorityclasses", "coordination.k8s.io/leases"],
        )],
        token_required: true,
    });
    let refused = |cache: &str, told: &str| {
        let run = cluster.embedded(&["node", "w1", "--yes", "--token", "secret", "--pod-cache", cache]);
        assert_eq!(run.code, Some(7), "{}", run.stderr);
        let last = run.stderr.lines().last().expect("it says why");
        assert!(last.starts_with(&format!("Error from server (Forbidden): failed to read {told}?")), "{}", run.stderr);
        assert!(!cluster.is_cordoned("w1"));
    };
    let (room, all) = ("/api/v1/namespaces/kubectl-rotate-room/pods", "/api/v1/pods");
    refused("scoped", room);
    refused("cluster", all);
    assert!(cluster.sim.get("namespaces", "", "kubectl-rotate").is_none());
    // Where the agent has all it needs, it is the agent that finds out.
    for name in ["kubectl-rotate", "kubectl-rotate-room"] {
        cluster.sim.create(objects::namespace(name, &json!({})));
    }
    cluster.sim.create(objects::priority_class("rotate-placeholder", -10, false));
    refused("scoped", room);
    refused("cluster", all);
}

#[test]
fn another_holder_of_the_lease_is_named() {
    let cluster = Cluster::with_room(true);
    cluster.sim.create(json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "kubectl-rotate"}}));
    let now = cluster.sim.now().strftime("%Y-%m-%dT%H:%M:%S.000000Z").to_string();
    cluster.sim.create(json!({
        "apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
        "metadata": {"name": "rotate-agent", "namespace": "kubectl-rotate"},
        "spec": {"holderIdentity": "rotate-agent-abc", "leaseDurationSeconds": 15, "acquireTime": now, "renewTime": now},
    }));
    let run = cluster.embedded(&["node", "w1", "--yes"]);
    assert_eq!(run.code, Some(3), "{}", run.stderr);
    assert!(run.stderr.contains("rotate-agent-abc"), "{}", run.stderr);
    assert!(!cluster.is_cordoned("w1"));
}

/// Whether the placeholders of a rotation are there.
fn is_surging(sim: &Sim) -> bool {
    sim.list("pods").iter().any(|pod| pod["metadata"]["namespace"] == "kubectl-rotate-room")
}

#[test]
fn ctrl_c_pauses_and_the_same_command_goes_on() {
    let cluster = Cluster::with_room(false);
    let line = ["node", "w1", "--yes", "--embedded", "--server", &cluster.server];
    let first = started(&line);
    cluster.until(is_surging);
    let first = interrupted(first);
    assert_eq!(first.code, Some(130), "{}", first.stderr);
    assert!(
        first.stderr.contains(&format!("kubectl rotate node w1 --embedded --server {}\n", cluster.server)),
        "{}",
        first.stderr
    );
    assert!(first.stderr.contains("Nothing runs while this command is away"), "{}", first.stderr);
    let status = cluster.embedded(&["status", "node/w1"]);
    assert!(status.stdout.contains("Phase:       Surging, paused\n"), "{}", status.stdout);
    cluster.sim.add_node(NodeSpec::new("w4"));
    let second = cluster.embedded(&["node", "w1", "--yes"]);
    assert_eq!((second.code, second.stdout.as_str()), (Some(0), "node/w1 rotated\n"), "{}", second.stderr);
    assert!(second.stderr.contains("Going on with rotation/"), "{}", second.stderr);
}

#[test]
fn what_was_left_behind_can_be_put_back() {
    let cluster = Cluster::with_room(false);
    let first = started(&["node", "w1", "--yes", "--embedded", "--server", &cluster.server]);
    cluster.until(is_surging);
    assert_eq!(interrupted(first).code, Some(130));
    assert!(cluster.is_cordoned("w1"));
    let cancelled = cluster.embedded(&["cancel", "node/w1"]);
    assert_eq!(cancelled.code, Some(0), "{}", cancelled.stderr);
    assert!(!cluster.is_cordoned("w1"));
    assert!(!is_surging(&cluster.sim));
}

#[test]
fn looking_takes_no_lease_and_creates_nothing() {
    let cluster = Cluster::with_room(true);
    let run = cluster.embedded(&["status"]);
    assert_eq!((run.code, run.stderr.as_str()), (Some(0), "No rotations found\n"));
    assert_eq!(cluster.embedded(&["fleet", "-o", "name"]).stdout, "node/w1\nnode/w2\nnode/w3\n");
    assert!(cluster.sim.get("namespaces", "", "kubectl-rotate").is_none());
    assert!(cluster.sim.list("leases").is_empty());
}
