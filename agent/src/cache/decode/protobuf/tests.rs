//! Tests of the protobuf reader: on objects that a real API server wrote (1.36.3; the control-plane test
//! `both_encodings_are_read_to_the_same_values` writes them), and on made-up ones.

use std::fmt::Debug;

use super::ProtobufError;
use crate::cache::decode::{self, DecodeError, Encoded, Identity};
use crate::cache::pod::PodView;
use crate::cache::selector::TaintEffect;
use crate::cache::{Node, Pdb, PodPhase};

macro_rules! recorded {
    ($($name:literal),*) => {
        [$((
            $name,
            include_str!(concat!("../testdata/", $name, ".json")),
            include_bytes!(concat!("../testdata/", $name, ".pb")).as_slice(),
        )),*]
    };
}

type Recorded = (&'static str, &'static str, &'static [u8]);

const PODS: [Recorded; 6] = recorded!["plain", "leaving", "rich", "constrained", "resizing", "whole-pod"];
const NODES: [Recorded; 1] = recorded!["node"];
const BUDGETS: [Recorded; 2] = recorded!["at-least-half", "one-at-most"];

fn message(bytes: &[u8]) -> &[u8] {
    super::envelope(bytes).unwrap().message
}

/// A recorded Pod, read from protobuf.
fn recorded(name: &str) -> PodView<'static> {
    let (_, _, bytes) = PODS.into_iter().find(|(found, ..)| *found == name).unwrap();
    decode::pod(Encoded::Protobuf(message(bytes))).unwrap()
}

fn read_alike<T: PartialEq + Debug>(objects: &[Recorded], read: impl Fn(Encoded<'static>) -> Result<T, DecodeError>) {
    for (name, json, bytes) in objects {
        let message = message(bytes);
        let as_json = read(Encoded::Json(json)).unwrap();
        assert_eq!(read(Encoded::Protobuf(message)).unwrap(), as_json, "{name}");
        let identity = decode::identity(*json).unwrap();
        let unnamed = Identity { kind: None, ..identity };
        assert_eq!(decode::identity(Encoded::Protobuf(message)).unwrap(), unnamed, "{name}");
        assert_eq!(decode::fragment(Encoded::Protobuf(message)).1, decode::fragment(*json).1, "{name}");
    }
}

#[test]
fn what_the_api_server_writes_reads_alike_in_both_encodings() {
    read_alike(&PODS, decode::pod);
    read_alike::<Node>(&NODES, decode::node);
    read_alike::<Pdb>(&BUDGETS, decode::pdb);
}

#[test]
fn a_nodes_boot_id_is_read() {
    // metadata { name: "n", uid: "u" }, status { nodeInfo { machineID: "m", bootID: "b-1" } }
    let message = b"\x0a\x06\x0a\x01n\x2a\x01u\x1a\x0a\x3a\x08\x0a\x01m\x1a\x03b-1";
    assert_eq!(decode::node(Encoded::Protobuf(message)).unwrap().boot_id.as_deref(), Some("b-1"));
}

#[test]
fn a_rich_pod_is_read_in_full() {
    let pod = recorded("rich");
    assert_eq!((pod.path(), pod.node.as_deref()), ("encodings/rich".to_owned(), Some("encodings-1")));
    assert_eq!((pod.label("app"), pod.label("tier"), pod.labels.len()), (Some("cart"), Some(""), 4));
    assert_eq!(pod.claims, ["data-cart-0", "rich-scratch"]);
    let shape = &pod.shape;
    assert_eq!((shape.requests.milli_cpu, shape.requests.memory), (350, (128 << 20) + 1_000_000));
    assert_eq!((shape.requests.ephemeral_storage, shape.requests.other["nvidia.com/gpu"]), (1 << 30, 1));
    assert_eq!((shape.scheduler.as_deref(), shape.do_not_disrupt.as_deref()), (Some("own-scheduler"), Some("true")));
    assert!(shape.not_safe_to_evict && shape.local_storage && !shape.mirror);
    let ports: Vec<_> = shape.host_ports.iter().map(|port| (&*port.protocol, &*port.ip, port.port)).collect();
    assert_eq!(ports, [("TCP", "", 8080), ("UDP", "10.0.0.1", 9090)]);
    let seconds: Vec<_> = shape.tolerations.iter().map(|toleration| (toleration.effect, toleration.seconds)).collect();
    let (stays, leaves) = ((Some(TaintEffect::NoSchedule), None), (None, None));
    assert_eq!(seconds[..3], [stays, leaves, (Some(TaintEffect::NoExecute), Some(3600))]);
}

#[test]
fn constraints_states_and_resizes_are_read_in_full() {
    let pod = recorded("constrained");
    assert_eq!(pod.owner.as_ref().map(|owner| &*owner.kind), Some("StatefulSet"));
    let shape = pod.shape;
    assert_eq!((shape.node_selector.len(), shape.node_affinity.as_ref().map(Vec::len)), (2, Some(2)));
    assert_eq!((shape.affinity.len(), shape.anti_affinity.len(), shape.spread.len()), (1, 2, 2));
    assert_eq!(shape.anti_affinity[0].namespaces, ["a", "b"]);
    assert!(shape.anti_affinity[0].namespace_selector.is_some() && shape.anti_affinity[1].selector.is_none());
    assert_eq!((shape.spread[0].max_skew, shape.spread[0].min_domains), (2, 3));
    assert!(shape.spread[0].ignores_affinity && shape.spread[0].honors_taints && !shape.spread[1].honors_taints);
    assert!(shape.gated && shape.resource_claims);

    let pod = recorded("resizing");
    assert_eq!((pod.phase, pod.nominated.as_deref()), (PodPhase::Pending, Some("encodings-1")));
    // What the status says, since the resize is infeasible: 750m and 3 for the containers, 300m for the sidecar; the init
    // container's 2 beside the sidecar are less.
    assert_eq!(pod.shape.requests.milli_cpu, 750 + 3000 + 300);

    let shape = recorded("whole-pod").shape;
    assert_eq!((shape.requests.milli_cpu, shape.runtime_class.as_deref()), (2050, Some("heavy")));
    let pod = recorded("leaving");
    assert!(pod.deleted.is_some_and(|deleted| deleted >= pod.created));
    assert_eq!(pod.owner.map(|owner| owner.name), Some("cart-7d9c".into()));
}

#[test]
fn a_node_and_budgets_are_read_in_full() {
    let node = decode::node(Encoded::Protobuf(message(NODES[0].2))).unwrap();
    assert!(node.ready && node.unschedulable && node.max_pods == 110);
    assert_eq!(node.annotations["kubectl-rotate.dev/cordoned-by"].as_ref(), "somebody");
    assert!(node.taints.iter().any(|taint| taint.effect == TaintEffect::NoExecute && &*taint.value == "x"));
    assert_eq!(node.allocatable.other["nvidia.com/gpu"], 4);
    let half = decode::pdb(Encoded::Protobuf(message(BUDGETS[0].2))).unwrap();
    assert_eq!(half.limit, crate::cache::pdbs::Limit::MinAvailable("50%".into()));
    assert!(half.unhealthy_always && half.selector.is_some_and(|selector| selector.expressions.len() == 3));
    let one = decode::pdb(Encoded::Protobuf(message(BUDGETS[1].2))).unwrap();
    assert_eq!(one.limit, crate::cache::pdbs::Limit::MaxUnavailable("1".into()));
    assert!(one.selector.is_some_and(|selector| selector.expressions.is_empty()));
}

#[test]
fn an_object_cut_off_anywhere_is_refused_or_lacks_its_end_and_is_named_as_far_as_known() {
    for (name, _, bytes) in PODS {
        let whole = message(bytes);
        let pod = decode::pod(Encoded::Protobuf(whole)).unwrap();
        let mut boundaries = 0;
        for length in 0..whole.len() {
            match decode::pod(Encoded::Protobuf(&whole[..length])) {
                // Cut between two fields of the outermost message: what is there is read.
                Ok(part) => {
                    assert_eq!((&part.uid, &part.labels), (&pod.uid, &pod.labels));
                    boundaries += 1;
                }
                Err(DecodeError::Missing { .. }) => assert_eq!(length, 0),
                Err(DecodeError::Protobuf { object, source, .. }) => {
                    assert_eq!(source, ProtobufError::Truncated);
                    let known = whole[..length].windows(9).any(|found| found == b"encodings");
                    assert!(!known || object == format!("encodings/{name}"), "cut off after {length}: {object}");
                }
                Err(other) => panic!("{other}"),
            }
        }
        assert_eq!(boundaries, 2, "after the metadata and after the spec");
        // The envelope knows its length but at its own fields.
        assert!((0..4).all(|length| super::envelope(&bytes[..length]).is_err()));
    }
}

#[test]
fn an_object_in_json_cut_off_anywhere_is_refused_and_named_as_far_as_known() {
    let (_, json, _) = PODS[2];
    let end = json.trim_end().len();
    for length in (0..end).filter(|length| json.is_char_boundary(*length)) {
        let error = decode::pod(&json[..length]).unwrap_err();
        assert!(matches!(error, DecodeError::Malformed { .. }), "{error}");
        let known = json[..length].contains(r#""name":"rich","namespace":"encodings""#);
        assert_eq!(error.to_string().starts_with("read Pod encodings/rich: "), known, "{error}");
    }
}

// === made-up objects ===

/// A length-delimited field.
fn field(number: u8, content: &[u8]) -> Vec<u8> {
    let mut bytes = key(number, 2);
    put_number(&mut bytes, content.len() as u64);
    bytes.extend(content);
    bytes
}

/// A number.
fn number(at: u8, value: i64) -> Vec<u8> {
    let mut bytes = key(at, 0);
    put_number(&mut bytes, value.cast_unsigned());
    bytes
}

fn key(number: u8, kind: u8) -> Vec<u8> {
    let mut bytes = Vec::new();
    put_number(&mut bytes, u64::from(number) << 3 | u64::from(kind));
    bytes
}

fn put_number(bytes: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        bytes.push(value as u8 | 0x80);
        value >>= 7;
    }
    bytes.push(value as u8);
}

fn meta() -> Vec<u8> {
    [field(1, b"cart-0"), field(3, b"shop"), field(5, b"u1")].concat()
}

/// A Pod with this spec and status.
fn pod(spec: &[u8], status: &[u8]) -> Vec<u8> {
    [field(1, &meta()), field(2, spec), field(3, status)].concat()
}

/// A container that requests this.
fn requesting(name: &str, quantity: &str) -> Vec<u8> {
    let entry = [field(1, name.as_bytes()), field(2, &field(1, quantity.as_bytes()))].concat();
    field(2, &field(8, &field(2, &entry)))
}

fn refused(message: &[u8]) -> String {
    decode::pod(Encoded::Protobuf(message)).unwrap_err().to_string()
}

#[test]
fn a_bad_quantity_refuses_the_pod_and_names_it() {
    for quantity in ["1e400", "-5", "garbage", "", "1K", "9999999999999999999999999"] {
        let error = refused(&pod(&requesting("cpu", quantity), &[]));
        assert!(error.starts_with("read Pod shop/cart-0: "), "{error}");
        assert!(error.contains(quantity), "{error}");
    }
    let no_value = field(2, &field(8, &field(2, &field(1, b"cpu"))));
    assert!(refused(&pod(&no_value, &[])).starts_with("read Pod shop/cart-0: quantity"));
    assert_eq!(refused(&pod(&requesting("cpu", "-5"), &[])), "read Pod shop/cart-0: cpu is negative: -5");
}

#[test]
fn what_every_object_has_must_be_there() {
    for (number, name) in [(1, "metadata.name"), (3, "metadata.namespace"), (5, "metadata.uid")] {
        let empty = field(1, &[meta(), field(number, b"")].concat());
        let error = refused(&empty);
        assert!(error.ends_with(&format!("{name} is missing")), "{error}");
    }
    assert!(refused(&[]).ends_with("metadata.namespace is missing"));
}

#[test]
fn of_a_field_that_comes_twice_the_last_counts_and_messages_are_merged() {
    let spec = [field(10, b"n1"), number(25, 3), number(25, -7), field(10, b"n2")].concat();
    let twice = [pod(&spec, &[]), field(2, &number(11, 1)), field(1, &field(11, &field(1, b"k")))].concat();
    let read = decode::pod(Encoded::Protobuf(&twice)).unwrap();
    assert_eq!((read.node.as_deref(), read.shape.priority), (Some("n2"), -7));
    assert_eq!(read.labels, [("k".into(), "".into())], "a value that is missing is empty");
    let label = |value: &[u8]| field(11, &[field(2, value), field(1, b"k")].concat());
    let relabelled = [field(1, &[meta(), label(b"1"), label(b"2")].concat()), vec![]].concat();
    let read = decode::pod(Encoded::Protobuf(&relabelled)).unwrap();
    assert_eq!(read.labels, [("k".into(), "2".into())], "of a key that comes twice, too");
}

#[test]
fn fields_and_kinds_of_fields_that_are_not_known_are_passed_over() {
    let unknown = [
        number(90, i64::MIN),
        field(91, &[0xff; 300]),
        [key(92, 1), vec![0; 8]].concat(),
        [key(93, 5), vec![0; 4]].concat(),
        [key(94, 3), field(1, b"in a group"), key(94, 4)].concat(),
    ]
    .concat();
    let within = |message: &[u8]| [&unknown[..], message, &unknown[..]].concat();
    let container =
        within(&field(8, &within(&field(2, &within(&[field(1, b"cpu"), field(2, &field(1, b"2"))].concat())))));
    let spec = within(&field(2, &container));
    let object = within(&[field(1, &within(&meta())), field(2, &spec)].concat());
    assert_eq!(decode::pod(Encoded::Protobuf(&object)).unwrap().shape.requests.milli_cpu, 2000);
}

#[test]
fn what_means_nothing_is_refused_with_its_reason() {
    let text = |number| refused(&pod(&field(number, &[0xc3, 0x28]), &[]));
    assert_eq!(text(10), "read Pod shop/cart-0: field 10 is not UTF-8");
    assert_eq!(
        refused(&pod(&number(10, 1), &[])),
        "read Pod shop/cart-0: field 10 is encoded in another way than expected"
    );
    assert_eq!(
        refused(&pod(&field(25, b"1"), &[])),
        "read Pod shop/cart-0: field 25 is encoded in another way than expected"
    );
    let port = |number_of_port| field(2, &field(6, &number(2, number_of_port)));
    assert_eq!(refused(&pod(&port(65_536), &[])), "read Pod shop/cart-0: 65536 is no port");
    assert_eq!(refused(&pod(&port(-1), &[])), "read Pod shop/cart-0: -1 is no port");
    let expression = [field(1, b"zone"), field(2, b"Near")].concat();
    let term = field(1, &field(1, &field(1, &field(1, &expression))));
    assert_eq!(refused(&pod(&field(18, &term), &[])), r#"read Pod shop/cart-0: unknown operator "Near""#);
    let late = field(1, &[meta(), field(8, &number(1, i64::MAX))].concat());
    assert_eq!(refused(&late), "read Pod shop/cart-0: 9223372036854775807 is no time");
    let oversized = [&field(1, &meta())[..], &key(2, 2), &[0xff, 0xff, 0xff, 0xff, 0x7f]].concat();
    assert_eq!(refused(&oversized), "read Pod shop/cart-0: it ends within a field");
}

#[test]
fn a_pod_that_cannot_be_read_still_tells_its_node() {
    let broken = pod(&[requesting("cpu", "1e400"), field(10, b"n1")].concat(), &[]);
    let (identity, node) = decode::fragment(Encoded::Protobuf(&broken));
    assert_eq!((identity.path(), &*identity.uid, node.as_deref()), ("shop/cart-0".to_owned(), "u1", Some("n1")));
    let cut = &broken[..broken.len() - 1];
    assert_eq!(decode::fragment(Encoded::Protobuf(cut)).0.path(), "shop/cart-0");
    let unnamed = [field(1, &field(1, b"cart-\xff")), field(2, &field(10, b"n1"))].concat();
    assert_eq!(decode::fragment(Encoded::Protobuf(&unnamed)).1.as_deref(), Some("n1"));
    assert!(decode::identity(Encoded::Protobuf(&unnamed)).is_err());
}

#[test]
fn a_bookmark_tells_its_revision_and_whether_the_initial_state_is_complete() {
    let mark = |value: &[u8]| field(12, &[field(1, b"k8s.io/initial-events-end"), field(2, value)].concat());
    let bookmark = |meta: &[u8]| decode::bookmark(Encoded::Protobuf(&field(1, meta))).unwrap();
    let initial = bookmark(&[field(6, b"77"), mark(b"true")].concat()).unwrap();
    assert_eq!((&*initial.revision, initial.initial_end), ("77", true));
    assert!(!bookmark(&field(6, b"78")).unwrap().initial_end);
    assert_eq!(bookmark(&mark(b"true")), None);
    let json = r#"{"kind":"Pod","metadata":{"resourceVersion":"77","creationTimestamp":null,
        "annotations":{"k8s.io/initial-events-end":"true"}},"spec":{"containers":null},"status":{}}"#;
    assert_eq!(decode::bookmark(json).unwrap(), Some(initial));
}
