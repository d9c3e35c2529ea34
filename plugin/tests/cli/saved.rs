//! `plan --from`: a plan from saved objects, without a cluster and without an agent.

use std::io::{Seek, SeekFrom, Write};

use crate::support::{Run, file, rotate, rotate_with};

const SAVED: &str = r"
apiVersion: v1
kind: List
items:
- apiVersion: v1
  kind: Node
  metadata: {name: w1, uid: n1, creationTimestamp: '2026-01-01T00:00:00Z', labels: {kubernetes.io/hostname: w1, pool: a}}
  spec: {}
  status: {allocatable: {cpu: '4', memory: 16Gi, pods: '110'}, conditions: [{type: Ready, status: 'True'}]}
- apiVersion: v1
  kind: Node
  metadata: {name: w2, uid: n2, creationTimestamp: '2026-01-01T00:00:00Z', labels: {kubernetes.io/hostname: w2, pool: b}}
  spec: {}
  status: {allocatable: {cpu: '4', memory: 16Gi, pods: '110'}, conditions: [{type: Ready, status: 'True'}]}
- apiVersion: v1
  kind: Pod
  metadata:
    name: web-1
    namespace: shop
    uid: p1
    creationTimestamp: '2026-01-01T00:00:00Z'
    ownerReferences: [{apiVersion: apps/v1, kind: ReplicaSet, name: web, uid: r1, controller: true}]
  spec: {nodeName: w1, containers: [{name: app, resources: {requests: {cpu: 500m, memory: 1Gi}}}]}
  status: {phase: Running}
- apiVersion: v1
  kind: Pod
  metadata: {name: debug, namespace: shop, uid: p2, creationTimestamp: '2026-01-01T00:00:00Z'}
  spec: {nodeName: w2, containers: [{name: app}]}
  status: {phase: Running}
";

fn plan(text: &str, line: &[&str]) -> Run {
    let saved = file(text);
    let path = saved.path().to_str().expect("a plain path");
    rotate(&[&["plan", "node"], line, &["--from", path]].concat())
}

/// One clear line with the file's name, exit code 1.
fn refused(run: &Run, part: &str) {
    assert_eq!((run.code, run.stdout.as_str()), (Some(1), ""), "{}", run.stderr);
    assert_eq!(run.stderr.lines().count(), 1, "{}", run.stderr);
    assert!(run.stderr.starts_with("error: ") && run.stderr.contains(part), "{part:?} in {}", run.stderr);
}

#[test]
fn saved_objects_are_planned_without_a_cluster() {
    let run = plan(SAVED, &["w1"]);
    assert_eq!((run.code, run.stderr.as_str()), (Some(0), ""));
    assert!(run.stdout.contains("  move     shop/web-1   cpu 500m, memory 1Gi"), "{}", run.stdout);
    assert!(run.stdout.contains("1 on node/w2"), "{}", run.stdout);
}

#[test]
fn what_was_not_saved_is_not_taken_for_what_is_not_there() {
    let nodes = SAVED.split("- apiVersion: v1\n  kind: Pod").next().expect("the nodes come first");
    refused(
        &plan(nodes, &["w1"]),
        "there are no Pods among the saved objects; save them with `kubectl get nodes,pods,pdb",
    );
    let run = plan(SAVED, &["w1"]);
    assert!(run.stdout.contains("PodDisruptionBudgets"), "{}", run.stdout);
    let budget = "- apiVersion: policy/v1\n  kind: PodDisruptionBudget\n  metadata: {name: web, namespace: shop, uid: b1}\n  \
                  spec: {maxUnavailable: 1, selector: {matchLabels: {app: other}}}\n";
    let run = plan(&format!("{SAVED}{budget}"), &["w1"]);
    assert!(run.code == Some(0) && !run.stdout.contains("PodDisruptionBudgets"), "{}{}", run.stdout, run.stderr);
}

#[test]
fn the_plan_of_saved_objects_is_json_on_request() {
    let run = plan(SAVED, &["w1", "-o", "json"]);
    let plan: serde_json::Value = serde_json::from_str(&run.stdout).expect("JSON");
    assert_eq!(plan["apiVersion"], "kubectl-rotate.dev/v1");
    assert_eq!(plan["kind"], "Plan");
    assert_eq!(plan["totals"], serde_json::json!({"pods": 1, "reserved": {"cpu": "500m", "memory": "1Gi"}}));
    assert_eq!(plan["pods"][0]["disposition"], "evict");
}

#[test]
fn saved_objects_come_from_stdin_too() {
    let run = rotate_with(&["plan", "node", "w1", "--from", "-"], SAVED);
    assert_eq!(run.code, Some(0), "{}", run.stderr);
}

#[test]
fn a_selector_selects_among_saved_nodes() {
    assert_eq!(plan(SAVED, &["-l", "pool in (a,b)", "-o", "name"]).stdout, "node/w1\nnode/w2\n");
    assert_eq!(plan(SAVED, &["-l", "pool=b", "-o", "name"]).stdout, "node/w2\n");
    assert_eq!(plan(SAVED, &["-l", "pool in (a"]).code, Some(2));
}

#[test]
fn the_exit_code_tells_what_was_found_where_it_is_asked_to() {
    assert_eq!(plan(SAVED, &["w1", "--exit-code"]).code, Some(10));
    assert_eq!(plan(SAVED, &["w2", "--exit-code"]).code, Some(3));
    assert_eq!(plan(SAVED, &["w2"]).code, Some(0));
    assert_eq!(plan(SAVED, &["w2", "--exit-code", "--force"]).code, Some(10));
}

#[test]
fn a_node_that_was_not_saved_is_not_found() {
    let run = plan(SAVED, &["w9"]);
    assert_eq!((run.code, run.stderr.as_str()), (Some(1), "Error from server (NotFound): nodes \"w9\" not found\n"));
}

#[test]
fn a_file_that_was_cut_off_is_refused() {
    let json = r#"{"apiVersion":"v1","kind":"List","items":[{"apiVersion":"v1","kind":"Node","metadata":{"#;
    refused(&plan(json, &["w1"]), "they end in the middle");
    let cut = &SAVED[..SAVED.find("500m").expect("it is in there")];
    refused(&plan(cut, &["w1"]), "line ");
}

#[test]
fn an_empty_file_is_refused_with_the_command_that_fills_it() {
    for text in ["", "\n\n", "---\n"] {
        refused(&plan(text, &["w1"]), "kubectl get nodes,pods,pdb,pvc,pv -A -o yaml");
    }
}

#[test]
fn objects_of_another_kind_are_named() {
    let text = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a, namespace: b}\n";
    refused(&plan(text, &["w1"]), "1 ConfigMap");
    refused(&plan("NAME   STATUS\nw1   Ready\n", &["w1"]), "kubectl get nodes,pods");
}

#[test]
fn a_file_of_300_megabytes_is_refused_before_it_is_read() {
    let mut huge = tempfile::NamedTempFile::new().expect("a temporary file");
    // A hole: it takes no room on the disk.
    huge.as_file_mut().seek(SeekFrom::Start(300 << 20)).expect("it can be sought");
    huge.write_all(b"\n").expect("it can be written");
    let run = rotate(&["plan", "node", "w1", "--from", huge.path().to_str().expect("a plain path")]);
    refused(&run, "larger than");
}

#[test]
fn a_file_of_200_megabytes_of_something_else_is_refused() {
    let mut huge = tempfile::NamedTempFile::new().expect("a temporary file");
    huge.as_file_mut().seek(SeekFrom::Start(200 << 20)).expect("it can be sought");
    huge.write_all(b"\n").expect("it can be written");
    let run = rotate(&["plan", "node", "w1", "--from", huge.path().to_str().expect("a plain path")]);
    refused(&run, "error: ");
}

#[test]
fn a_file_that_is_not_there_or_none_is_named() {
    refused(&rotate(&["plan", "node", "w1", "--from", "/nowhere/saved.yaml"]), "/nowhere/saved.yaml: No such file");
    refused(&rotate(&["plan", "node", "w1", "--from", "/"]), "/: is a directory");
}

/// Two full nodes of Karpenter's.
const FULL: &str = r"
apiVersion: v1
kind: List
items:
- apiVersion: v1
  kind: Node
  metadata:
    {name: w1, uid: n1, creationTimestamp: '2026-01-01T00:00:00Z', labels: {kubernetes.io/hostname: w1, karpenter.sh/nodepool: web}}
  spec: {providerID: 'kwok://w1'}
  status: {allocatable: {cpu: '4', memory: 16Gi, pods: '110'}, capacity: {cpu: '4', memory: 16Gi, pods: '110'},
    conditions: [{type: Ready, status: 'True'}]}
- apiVersion: v1
  kind: Node
  metadata:
    {name: w2, uid: n2, creationTimestamp: '2026-01-01T00:00:00Z', labels: {kubernetes.io/hostname: w2, karpenter.sh/nodepool: web}}
  spec: {providerID: 'kwok://w2'}
  status: {allocatable: {cpu: '4', memory: 16Gi, pods: '110'}, capacity: {cpu: '4', memory: 16Gi, pods: '110'},
    conditions: [{type: Ready, status: 'True'}]}
- apiVersion: v1
  kind: Pod
  metadata:
    name: web-1
    namespace: shop
    uid: p1
    creationTimestamp: '2026-01-01T00:00:00Z'
    ownerReferences: [{apiVersion: apps/v1, kind: ReplicaSet, name: web, uid: r1, controller: true}]
  spec: {nodeName: w1, containers: [{name: app, resources: {requests: {cpu: '3'}}}]}
  status: {phase: Running}
- apiVersion: v1
  kind: Pod
  metadata:
    name: web-2
    namespace: shop
    uid: p2
    creationTimestamp: '2026-01-01T00:00:00Z'
    ownerReferences: [{apiVersion: apps/v1, kind: ReplicaSet, name: web, uid: r1, controller: true}]
  spec: {nodeName: w2, containers: [{name: app, resources: {requests: {cpu: '3'}}}]}
  status: {phase: Running}
";

/// The pool of these nodes with a limit, and the claims behind them.
fn pool(cpu: &str) -> String {
    format!(
        r"---
apiVersion: v1
kind: List
items:
- apiVersion: karpenter.sh/v1
  kind: NodePool
  metadata: {{name: web, uid: np, creationTimestamp: '2026-01-01T00:00:00Z'}}
  spec: {{limits: {{cpu: '{cpu}'}}, template: {{metadata: {{}}, spec: {{requirements: [], nodeClassRef: {{group: karpenter.kwok.sh, kind: KWOKNodeClass, name: web}}}}}}}}
  status: {{resources: {{cpu: '8', memory: 32Gi, nodes: '2', pods: '220'}}, conditions: [{{type: Ready, status: 'True'}}]}}
{}{}",
        claim("w1"),
        claim("w2")
    )
}

fn claim(node: &str) -> String {
    format!(
        r"- apiVersion: karpenter.sh/v1
  kind: NodeClaim
  metadata: {{name: web-{node}, uid: c-{node}, creationTimestamp: '2026-01-01T00:00:00Z', labels: {{karpenter.sh/nodepool: web}}}}
  spec: {{nodeClassRef: {{group: karpenter.kwok.sh, kind: KWOKNodeClass, name: web}}, requirements: []}}
  status: {{nodeName: {node}, providerID: 'kwok://{node}', capacity: {{cpu: '4', memory: 16Gi, pods: '110'}},
    allocatable: {{cpu: '4', memory: 16Gi, pods: '110'}}, conditions: [{{type: Registered, status: 'True'}}]}}
"
    )
}

#[test]
fn pools_that_were_not_saved_are_said_and_block_nothing() {
    let run = plan(FULL, &["w1", "--exit-code"]);
    assert_eq!((run.code, run.stderr.as_str()), (Some(10), ""), "{}", run.stdout);
    assert!(run.stdout.contains("NotLookedAt: Node w1: no node has room for 1 of the Pods"), "{}", run.stdout);
    assert!(run.stdout.contains("kubectl get nodepools,nodeclaims -o yaml"), "{}", run.stdout);
    assert!(run.stdout.contains("where that room is was not looked at"), "{}", run.stdout);
    assert!(!run.stdout.contains("are not served here"), "{}", run.stdout);
}

#[test]
fn pools_that_were_saved_count() {
    let run = plan(&format!("{FULL}{}", pool("100")), &["w1", "--exit-code"]);
    assert_eq!((run.code, run.stderr.as_str()), (Some(10), ""), "{}", run.stdout);
    assert!(run.stdout.contains("1 on a new node"), "{}", run.stdout);
    assert!(run.stdout.contains("NodePool web"), "{}", run.stdout);
    assert!(!run.stdout.contains("NotLookedAt: Node"), "{}", run.stdout);

    let run = plan(&format!("{FULL}{}", pool("8")), &["w1", "--exit-code"]);
    assert_eq!(run.code, Some(3), "{}", run.stdout);
    assert!(run.stdout.contains("NoRoom"), "{}", run.stdout);
}
