//! Tests of reading saved objects.

use std::io::{self, Read};

use serde_json::{Value, json};

use super::{Snapshot, SnapshotError, at_most};
use crate::cache::volumes::Claim;

/// As `kubectl get nodes,pods,pdb,pvc,pv -A -o yaml` writes it.
const YAML: &str = r#"apiVersion: v1
items:
- apiVersion: v1
  kind: Node
  metadata:
    annotations:
      node.alpha.kubernetes.io/ttl: "0"
    creationTimestamp: "2026-11-29T10:00:00Z"
    labels:
      kubernetes.io/hostname: n1
      number: "5"
    name: n1
    uid: node-1
  spec: {}
  status:
    allocatable:
      cpu: "4"
      memory: 14570Mi
      pods: "110"
    conditions:
    - message: |-
        kubelet is posting
        --- ready status
      status: "True"
      type: Ready
- apiVersion: v1
  kind: Pod
  metadata:
    labels:
      app: cart
    managedFields:
    - fieldsV1:
        f:metadata:
          .: {}
          k:{"uid":"x"}: {}
      manager: kubelet
    name: cart-0
    namespace: shop
    ownerReferences:
    - apiVersion: apps/v1
      controller: true
      kind: StatefulSet
      name: cart
      uid: set-1
    uid: pod-1
  spec:
    containers:
    - args: []
      name: cart
      resources:
        requests:
          cpu: 500m
          memory: 1Gi
    nodeName: n1
    volumes:
    - name: data
      persistentVolumeClaim:
        claimName: data
  status:
    phase: Running
- apiVersion: policy/v1
  kind: PodDisruptionBudget
  metadata: {name: cart, namespace: shop, uid: pdb-1}
  spec:
    minAvailable: 1
    selector:
      matchLabels: {app: cart}
- apiVersion: v1
  kind: PersistentVolumeClaim
  metadata: {name: data, namespace: shop}
  spec: {volumeName: pv1}
- apiVersion: v1
  kind: PersistentVolume
  metadata: {name: pv1}
  spec:
    local: {path: /data}
- apiVersion: v1
  kind: ConfigMap
  metadata: {name: x, namespace: shop}
kind: List
metadata:
  resourceVersion: ""
"#;

fn node() -> Value {
    json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n1", "uid": "node-1"}})
}

fn pod(uid: &str) -> Value {
    let container = json!({"name": "c", "resources": {"requests": {"cpu": "1"}}});
    json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"namespace": "shop", "name": uid, "uid": uid},
        "spec": {"nodeName": "n1", "containers": [container]}})
}

fn list(items: &[Value]) -> String {
    json!({"apiVersion": "v1", "kind": "List", "items": items, "metadata": {}}).to_string()
}

fn error(text: &str) -> String {
    Snapshot::read(text).unwrap_err().to_string()
}

fn assert_is_the_saved_cluster(snapshot: &Snapshot) {
    let state = &snapshot.state;
    assert_eq!(state.movable("n1").requests.milli_cpu, 500);
    assert_eq!(state.movable("n1").requests.memory, 1 << 30);
    let node = state.node("n1").unwrap();
    assert!(node.ready);
    assert_eq!((node.allocatable.milli_cpu, node.max_pods, node.label("number")), (4000, 110, Some("5")));
    assert_eq!(state.pdbs_selecting(&state.pod("pod-1").unwrap()).len(), 1);
    let claim = snapshot.volumes.claims.values().next();
    assert_eq!(claim, Some(&Claim::Bound { volume: "pv1".into(), terms: None, local: true, driver: None }));
    assert_eq!(snapshot.kinds.0["ConfigMap"], 1);
}

#[test]
fn yaml_as_kubectl_writes_it_reads() {
    assert_is_the_saved_cluster(&Snapshot::read(YAML).unwrap());
}

#[test]
fn json_of_the_same_objects_reads_the_same() {
    let value: Value = serde_saphyr::from_str(YAML).unwrap();
    assert_is_the_saved_cluster(&Snapshot::read(&value.to_string()).unwrap());
    assert_is_the_saved_cluster(&Snapshot::read(&serde_json::to_string_pretty(&value).unwrap()).unwrap());
}

#[test]
fn several_documents_and_single_objects_read() {
    let yaml = "---\n# nodes\napiVersion: v1\nkind: Node\nmetadata: {name: n1, uid: u1}\n---\n---\nkind: Pod\nmetadata:\n  \
                {name: a, namespace: b, uid: u2}\nspec:\n  nodeName: n1\n  containers:\n  - name: c\n    resources:\n      \
                requests: {cpu: 1.5, memory: 1e3}\n";
    let state = Snapshot::read(yaml).unwrap().state;
    assert_eq!(state.usage("n1").requests.milli_cpu, 1500);
    assert_eq!(state.usage("n1").requests.memory, 1000);
    let json = format!("{}\n{}\n{}", node(), pod("a"), list(&[pod("b")]));
    assert_eq!(Snapshot::read(&json).unwrap().state.usage("n1").pods, 2);
}

#[test]
fn a_typed_list_as_the_api_server_answers_it_reads() {
    let mut bare = pod("a");
    bare.as_object_mut().unwrap().remove("kind");
    let typed = json!({"kind": "PodList", "apiVersion": "v1", "items": [bare]});
    assert_eq!(Snapshot::read(&format!("{typed}{}", node())).unwrap().state.usage("n1").pods, 1);
}

#[test]
fn a_byte_order_mark_is_no_text() {
    assert!(Snapshot::read(&format!("\u{feff}{}", list(&[node()]))).is_ok());
}

#[test]
fn nothing_is_said_to_be_nothing() {
    for text in ["", "\n\n", "---\n", "# only a comment\n", "---\nnull\n---\n"] {
        assert!(matches!(Snapshot::read(text), Err(SnapshotError::Empty)), "{text:?}");
    }
    for text in [&list(&[]), "apiVersion: v1\nitems: []\nkind: List\n", r#"{"kind":"List","items":null}"#] {
        assert!(matches!(Snapshot::read(text), Err(SnapshotError::NoObjects)), "{text:?}");
    }
}

#[test]
fn json_cut_off_anywhere_is_refused() {
    let whole = list(&[node(), pod("a")]);
    for at in 1..whole.len() {
        assert!(matches!(Snapshot::read(&whole[..at]), Err(SnapshotError::Truncated { line: 1 })), "cut at {at}");
    }
}

#[test]
fn yaml_cut_off_anywhere_before_its_kind_is_refused() {
    let end = YAML.find("\nkind: List").unwrap();
    let start = YAML.find("- apiVersion").unwrap();
    for at in (start..end).step_by(3) {
        assert!(Snapshot::read(&YAML[..at]).is_err(), "cut at {at}: {:?}", &YAML[at.saturating_sub(40)..at]);
    }
    let at = YAML.find("  kind: Pod\n").unwrap();
    assert_eq!(error(&YAML[..at]), "read saved objects: they end in the middle, in line 26; save them again");
}

#[test]
fn the_wrong_kinds_are_named_with_the_command_that_saves_the_right_ones() {
    let deployments = [1, 2, 3].map(|_| json!({"kind": "Deployment", "metadata": {"name": "x"}}));
    let expected = "read saved objects: no nodes among them, only 3 Deployment; save them with `kubectl get \
                    nodes,pods,pdb,pvc,pv -A -o yaml`";
    assert_eq!(error(&list(&deployments)), expected);
    assert!(error(&list(&[pod("a")])).contains("only 1 Pod;"));
}

#[test]
fn a_table_is_no_object() {
    let table = "NAME   STATUS   ROLES    AGE   VERSION\nn1     Ready    <none>   5d    v1.33.0\n";
    assert!(error(table).contains("line 1 is no Kubernetes object"), "{}", error(table));
    assert!(matches!(Snapshot::read("[1, 2]"), Err(SnapshotError::NotObjects { line: 1 })));
    assert!(matches!(Snapshot::read("- a\n- b\n"), Err(SnapshotError::NotObjects { line: 1 })));
    assert!(matches!(Snapshot::read(&format!("{}\n\n7", node())), Err(SnapshotError::NotObjects { line: 3 })));
}

#[test]
fn what_is_neither_json_nor_yaml_is_refused_with_its_line() {
    let broken = "kind: Node\nmetadata:\n  name: n1\n  - oops: [\nspec: {}\nstatus: {}\n";
    assert!(matches!(Snapshot::read(broken), Err(SnapshotError::Syntax { line: 3..=5, .. })), "{}", error(broken));
    let second = format!("kind: Node\nmetadata: {{name: n1, uid: u}}\n---\n{broken}");
    assert!(matches!(Snapshot::read(&second), Err(SnapshotError::Syntax { line: 6..=8, .. })), "{}", error(&second));
    let json = format!("{}\n{{\"kind\" \"Pod\"}}\n", node());
    assert!(matches!(Snapshot::read(&json), Err(SnapshotError::Syntax { line: 2, .. })), "{}", error(&json));
}

#[test]
fn an_object_that_cannot_be_read_is_named() {
    let mut broken = pod("cart-1");
    broken["spec"]["containers"][0]["resources"]["requests"]["cpu"] = "1e400".into();
    for text in [list(&[node(), broken.clone()]), YAML.replace("500m", "half").replace("cart-0", "cart-1")] {
        assert!(error(&text).starts_with("read saved objects: read Pod shop/cart-1: "), "{}", error(&text));
    }
}

#[test]
fn aliases_cannot_make_much_out_of_little() {
    let bomb = "a: &a [x, x]\nb: &b [*a, *a]\nc: [*b, *b]\n";
    assert!(Snapshot::read(bomb).is_err());
}

#[test]
fn what_is_whole_and_wrong_is_not_said_to_end_in_the_middle() {
    for text in ["42\n", "true\n", "1.5\n", "text\n"] {
        assert!(matches!(Snapshot::read(text), Err(SnapshotError::NotObjects { line: 1 })), "{}", error(text));
    }
    let text = "kind: List\nitems: foo\n";
    assert!(matches!(Snapshot::read(text), Err(SnapshotError::Syntax { line: 2, .. })), "{}", error(text));
    let text = "kind: List\nitems: &x [*x]\n";
    let expected = "read saved objects: line 2: aliases (*name) are not read; kubectl writes none";
    assert_eq!(error(text), expected);
}

#[test]
fn no_position_is_named_that_is_not_one_of_the_file() {
    let text = YAML.replace("500m", "half");
    assert!(error(&text).contains("quantity \"half\" is not") && !error(&text).contains("column"), "{}", error(&text));
}

#[test]
fn more_than_the_limit_is_refused_without_being_parsed() {
    assert!(matches!(at_most(io::repeat(b' '), 1000), Err(SnapshotError::TooLarge)));
    assert_eq!(at_most(io::repeat(b' ').take(1000), 1000).unwrap().len(), 1000);
    assert!(SnapshotError::TooLarge.to_string().contains("larger than 256 MiB"));
}

#[test]
fn bytes_that_are_no_text_are_refused_with_their_line() {
    assert!(matches!(Snapshot::read_from(&b"a\nb\xff"[..]), Err(SnapshotError::NotText { line: 2 })));
}
