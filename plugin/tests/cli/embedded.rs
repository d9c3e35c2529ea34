//! The agent inside the command.

use rotate_sim::{Access, Identity, Rule};
use serde_json::json;

use crate::cluster::Cluster;

#[test]
fn a_node_is_rotated_without_an_agent_in_the_cluster() {
    let cluster = Cluster::with_room(true);
    let run = cluster.embedded(&["node", "w1", "--yes"]);
    assert_eq!((run.code, run.stdout.as_str()), (Some(0), "node/w1 rotated\n"), "{}", run.stderr);
    assert!(run.stderr.contains("  PriorityClass rotate-placeholder"), "{}", run.stderr);
    assert!(cluster.is_cordoned("w1"));
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
