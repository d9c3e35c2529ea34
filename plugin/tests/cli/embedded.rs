//! The agent inside the command.

use std::process::Stdio;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use rotate_sim::{Access, Identity, NodeSpec, RequestEntry, Rule, Sim, objects};
use serde_json::json;

use crate::cluster::Cluster;
use crate::support::{interrupted, signal, signalled, started};

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

/// A Lease that an installed agent held last, long ago.
fn held(cluster: &Cluster, seconds: u32) {
    held_by(cluster, "rotate-agent-abc", seconds);
}

/// A Lease that somebody else held last, long ago.
fn held_by(cluster: &Cluster, holder: &str, seconds: u32) {
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "kubectl-rotate"}});
    cluster.sim.create(namespace);
    let then = "2026-01-02T03:04:05.000000Z";
    cluster.sim.create(json!({
        "apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
        "metadata": {"name": "rotate-agent", "namespace": "kubectl-rotate"},
        "spec": {
            "holderIdentity": holder, "leaseDurationSeconds": seconds, "acquireTime": then, "renewTime": then,
        },
    }));
}

/// How a command with an agent inside it ends while this holder renews the Lease.
fn refused_beside(holder: &str) -> (Cluster, String) {
    let cluster = Cluster::with_room(true);
    held_by(&cluster, holder, 15);
    let (sim, done) = (cluster.sim.clone(), Arc::new(AtomicBool::new(false)));
    let over = Arc::clone(&done);
    let renewing = std::thread::spawn(move || {
        for number in 0.. {
            if over.load(Ordering::Relaxed) {
                break;
            }
            let renewed = json!(format!("2026-01-02T03:04:06.{number:06}Z"));
            sim.edit("leases", "kubectl-rotate", "rotate-agent", |lease| lease["spec"]["renewTime"] = renewed);
            std::thread::sleep(Duration::from_millis(100));
        }
    });
    let run = cluster.embedded(&["node", "w1", "--yes"]);
    done.store(true, Ordering::Relaxed);
    renewing.join().expect("it ends");
    assert_eq!(run.code, Some(3), "{}", run.stderr);
    assert!(!cluster.is_cordoned("w1"));
    assert!(cluster.sim.get("priorityclasses", "", "rotate-placeholder").is_none(), "nothing was touched");
    (cluster, run.stderr)
}

#[test]
fn another_holder_of_the_lease_that_is_at_work_is_named() {
    let (_cluster, told) = refused_beside("rotate-agent-abc");
    let why =
        "error: rotate-agent-abc holds the Lease and renews it: another agent is at work. Use it, without --embedded\n";
    assert!(told.ends_with(why), "{told}");
}

#[test]
fn another_command_that_holds_the_lease_is_waited_for_as_no_agent_may_be_installed() {
    let (cluster, told) = refused_beside("laptop-281f4a");
    let why = format!(
        "error: laptop-281f4a holds the Lease and renews it: another command with --embedded is at work, and one at a time \
         can be. Wait until it has ended; until then, see what it does with: kubectl rotate status --embedded --server {}\n",
        cluster.server
    );
    assert!(told.ends_with(&why), "{told}");
}

#[test]
fn a_holder_of_the_lease_that_is_gone_is_waited_out() {
    let cluster = Cluster::with_room(true);
    held(&cluster, 1);
    let run = cluster.embedded(&["node", "w1", "--yes"]);
    assert_eq!((run.code, run.stdout.as_str()), (Some(0), "node/w1 rotated\n"), "{}", run.stderr);
    let told = "Waiting up to 1s for rotate-agent-abc, which was last heard of ";
    assert!(run.stderr.contains(told), "{}", run.stderr);
}

#[test]
fn a_rotation_whose_command_was_killed_is_shown_as_it_is_and_that_nobody_works_on_it() {
    let cluster = Cluster::with_room(false);
    let server = cluster.server.as_str();
    let mut killed = started(&["node", "w1", "--yes", "--embedded", "--server", server]);
    cluster.until(is_surging);
    killed.kill().expect("it runs");
    killed.wait().expect("it ends");
    let renewed = json!("2026-01-02T03:04:05.000000Z");
    cluster.sim.edit("leases", "kubectl-rotate", "rotate-agent", |lease| lease["spec"]["renewTime"] = renewed);
    // Pods that it has not read in its few seconds are not counted.
    let counted = "Progress:    room reserved for 0 of 3 Pods\n";
    let mut looks = (0..10).map(|_| cluster.embedded(&["status", "node/w1"]));
    let status = looks.find(|status| status.stdout.contains(counted)).expect("its Pods are read in time once");
    assert!(status.stderr.contains(", which holds the Lease, was last heard of "), "{}", status.stderr);
    let again = format!("Go on with: kubectl rotate node w1 --embedded --server {server}\n");
    assert!(status.stderr.starts_with("No agent works on rotation/"), "{}", status.stderr);
    assert!(status.stderr.contains(&again), "{}", status.stderr);
    assert!((0..10).any(|_| cluster.embedded(&["status"]).stdout.contains("   0/3   ")));
}

/// Whether the placeholders of a rotation are there.
fn is_surging(sim: &Sim) -> bool {
    sim.list("pods").iter().any(|pod| pod["metadata"]["namespace"] == "kubectl-rotate-room")
}

/// `env --default-signal` is there with GNU's coreutils.
#[cfg(target_os = "linux")]
#[test]
fn the_end_of_the_terminal_pauses_however_often_it_is_told_and_gives_the_lease_up() {
    let cluster = Cluster::with_room(false);
    // Whoever runs the tests may have done so with nohup, which is inherited.
    let mut heeding = std::process::Command::new("env");
    heeding.env_clear().arg("--default-signal=HUP").arg(env!("CARGO_BIN_EXE_kubectl-rotate"));
    heeding.args(["node", "w1", "--yes", "--embedded", "--server", &cluster.server]);
    heeding.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let first = heeding.spawn().expect("env exists");
    cluster.until(is_surging);
    for _ in 0..3 {
        signal(&first, "-HUP");
    }
    let first = signalled(first, "-HUP");
    assert_eq!(first.code, Some(130), "{}", first.stderr);
    let lease = cluster.sim.get("leases", "kubectl-rotate", "rotate-agent").expect("it was made");
    assert_eq!(lease["spec"]["holderIdentity"], "");
    let status = cluster.embedded(&["status", "node/w1"]);
    assert!(status.stdout.contains("Phase:       Surging, paused\n"), "{}", status.stdout);
    assert!(status.stderr.starts_with("No agent works on rotation/"), "{}", status.stderr);
}

#[test]
fn who_is_begun_with_nohup_outlives_the_terminal() {
    let cluster = Cluster::with_room(false);
    let line = ["node", "w1", "--yes", "--embedded", "--server", &cluster.server];
    let mut nohup = std::process::Command::new("nohup");
    nohup.arg(env!("CARGO_BIN_EXE_kubectl-rotate")).env_clear().args(line);
    nohup.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let child = nohup.spawn().expect("nohup exists");
    cluster.until(is_surging);
    signal(&child, "-HUP");
    cluster.sim.add_node(NodeSpec::new("w4"));
    let output = child.wait_with_output().expect("it ends");
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
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
    let resume =
        status.stdout.lines().find(|line| line.starts_with("      → kubectl rotate resume ")).expect("a remedy");
    assert!(resume.ends_with(&format!(" --embedded --server {}", cluster.server)), "{resume}");
    let other = cluster.embedded(&["node", "w1", "--yes", "--then=delete"]);
    assert_eq!(other.code, Some(2), "{}", other.stderr);
    assert!(
        other.stderr.contains(" of node/w1 was begun with --then=keep and goes on like that: "),
        "{}",
        other.stderr
    );
    cluster.sim.add_node(NodeSpec::new("w4"));
    let second = cluster.embedded(&["node", "w1", "--yes", "--force", "--surge=per-pod"]);
    assert_eq!((second.code, second.stdout.as_str()), (Some(0), "node/w1 rotated\n"), "{}", second.stderr);
    assert!(second.stderr.contains("Going on with rotation/"), "{}", second.stderr);
    let told = " of node/w1 as it was asked for then; not taken: --force.\n";
    assert!(second.stderr.contains(told), "{}", second.stderr);
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
    assert!(!cancelled.stderr.contains("no Pods to move"), "{}", cancelled.stderr);
    // Once it is known that it is cancelled, no state is told in which it is not.
    assert!(!cancelled.stderr.contains("node/w1 surging: "), "{}", cancelled.stderr);
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

#[test]
fn too_many_nodes_are_refused_before_anything_is_asked_or_created() {
    let cluster = Cluster::bare();
    for number in 0..1001 {
        cluster.sim.add_node(rotate_sim::NodeSpec::new(format!("n{number}")).label("pool", "web"));
    }
    let before = cluster.sim.list("namespaces").len();
    let run = cluster.embedded(&["node", "-l", "pool=web", "--yes"]);
    assert_eq!(run.code, Some(2), "{}", run.stderr);
    assert!(
        run.stderr.contains("these are 1001 nodes") && run.stderr.contains("nothing was touched"),
        "{}",
        run.stderr
    );
    assert_eq!(cluster.sim.list("namespaces").len(), before);
}
