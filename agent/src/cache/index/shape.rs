//! A shape as bytes, and back.
//!
//! What sums need comes first. The name of the Pod's own node in `matchFields`, which the controller of a `DaemonSet` writes
//! into each of its Pods, is taken out: they share one shape.

use super::codec::{Amounts, Reader, Text, Writer};
use crate::cache::Shape;
use crate::cache::selector::{Expression, NodeTerm, Operator, Selector, TaintEffect, Toleration};
use crate::cache::shape::{HostPort, PodTerm, Spread};

const NODE_NAME: &str = "metadata.name";

/// Facts that are there or not, a bit each.
const NEVER_PREEMPTS: u64 = 1;
const LOCAL_STORAGE: u64 = 1 << 1;
const GATED: u64 = 1 << 2;
const RESOURCE_CLAIMS: u64 = 1 << 3;
const POD_GROUP: u64 = 1 << 4;
const NOT_SAFE_TO_EVICT: u64 = 1 << 5;
const MIRROR: u64 = 1 << 6;

const OPERATORS: [Operator; 6] =
    [Operator::In, Operator::NotIn, Operator::Exists, Operator::DoesNotExist, Operator::Gt, Operator::Lt];
const EFFECTS: [TaintEffect; 3] = [TaintEffect::NoSchedule, TaintEffect::PreferNoSchedule, TaintEffect::NoExecute];

/// The first byte of a shape from which the node's name was taken out.
const NAMES_NODE: u8 = 1;

/// Writes a shape.
pub(super) fn write<S: Text>(to: &mut Writer<'_>, shape: &Shape<S>) {
    to.number(0);
    let Shape { requests, priority, scheduler, node_selector, node_affinity, tolerations, host_ports, .. } = shape;
    let Shape { affinity, anti_affinity, spread, runtime_class, do_not_disrupt, .. } = shape;
    to.amounts(requests);
    to.list(anti_affinity, write_pod_term);
    let flags = [
        (shape.never_preempts, NEVER_PREEMPTS),
        (shape.local_storage, LOCAL_STORAGE),
        (shape.gated, GATED),
        (shape.resource_claims, RESOURCE_CLAIMS),
        (shape.pod_group, POD_GROUP),
        (shape.not_safe_to_evict, NOT_SAFE_TO_EVICT),
        (shape.mirror, MIRROR),
    ];
    to.number(flags.into_iter().filter(|(set, _)| *set).map(|(_, flag)| flag).sum());
    to.signed(i64::from(*priority));
    let text = |to: &mut Writer<'_>, text: &S| to.text(text);
    to.option(scheduler.as_ref(), text);
    to.option(runtime_class.as_ref(), text);
    to.option(do_not_disrupt.as_ref(), text);
    to.list(node_selector, write_expression);
    to.option(node_affinity.as_ref(), |to, terms| {
        to.list(terms, |to, term| {
            to.list(&term.expressions, write_expression);
            to.list(&term.fields, write_field);
        });
    });
    to.list(tolerations, |to, toleration| {
        to.text(&toleration.key);
        let effect = toleration.effect.map_or(0, |effect| 1 + place(&EFFECTS, &effect));
        to.number(u64::from(toleration.exists) | effect << 1);
        to.text(&toleration.value);
        to.option(toleration.seconds, Writer::signed);
    });
    to.list(affinity, write_pod_term);
    to.list(spread, |to, spread| {
        to.text(&spread.topology_key);
        to.signed(i64::from(spread.max_skew));
        to.signed(i64::from(spread.min_domains));
        to.number(u64::from(spread.ignores_affinity) | u64::from(spread.honors_taints) << 1);
        to.option(spread.selector.as_ref(), write_selector);
    });
    to.list(host_ports, |to, port| {
        to.text(&port.protocol);
        to.text(&port.ip);
        to.number(u64::from(port.port));
    });
    if to.took_node() {
        to.mark_first(NAMES_NODE);
    }
}

fn write_pod_term<S: Text>(to: &mut Writer<'_>, term: &PodTerm<S>) {
    to.text(&term.topology_key);
    to.option(term.selector.as_ref(), write_selector);
    to.list(&term.namespaces, |to, namespace| to.text(namespace));
    to.option(term.namespace_selector.as_ref(), write_selector);
}

fn write_selector<S: Text>(to: &mut Writer<'_>, selector: &Selector<S>) {
    to.list(&selector.expressions, write_expression);
}

fn write_expression<S: Text>(to: &mut Writer<'_>, expression: &Expression<S>) {
    to.text(&expression.key);
    to.number(place(&OPERATORS, &expression.operator));
    to.list(&expression.values, |to, value| to.text(value));
}

fn write_field<S: Text>(to: &mut Writer<'_>, field: &Expression<S>) {
    to.text(&field.key);
    to.number(place(&OPERATORS, &field.operator));
    let by_name = &*field.key == NODE_NAME;
    to.list(&field.values, |to, value| if by_name { to.node_name(value) } else { to.text(value) });
}

fn place<T: PartialEq>(among: &[T], one: &T) -> u64 {
    among.iter().position(|found| found == one).expect("every variant is listed") as u64
}

/// Whether the name of the Pod's node belongs into a shape.
pub(super) fn names_node(bytes: &[u8]) -> bool {
    bytes[0] == NAMES_NODE
}

/// What a shape requests.
pub(super) fn requests(bytes: &[u8]) -> Amounts<'_> {
    Reader::new(&bytes[1..], "").amounts()
}

/// The required anti-affinity terms of a shape, with texts borrowed from it.
pub(super) fn anti_affinity(bytes: &[u8]) -> Vec<PodTerm<&str>> {
    let mut from = Reader::new(&bytes[1..], "");
    from.amounts();
    from.list(read_pod_term)
}

/// Whether a shape has required anti-affinity terms.
pub(super) fn repels(bytes: &[u8]) -> bool {
    let mut from = Reader::new(&bytes[1..], "");
    from.amounts();
    from.number() > 0
}

/// Reads a shape.
pub(super) fn read<'a, S: From<&'a str>>(mut from: Reader<'a>) -> Shape<S> {
    let from = &mut from;
    from.number();
    let requests = from.amounts().to_resources();
    let anti_affinity = from.list(read_pod_term);
    let flags = from.number();
    let text = |from: &mut Reader<'a>| from.text().into();
    Shape {
        requests,
        anti_affinity,
        never_preempts: flags & NEVER_PREEMPTS != 0,
        local_storage: flags & LOCAL_STORAGE != 0,
        gated: flags & GATED != 0,
        resource_claims: flags & RESOURCE_CLAIMS != 0,
        pod_group: flags & POD_GROUP != 0,
        not_safe_to_evict: flags & NOT_SAFE_TO_EVICT != 0,
        mirror: flags & MIRROR != 0,
        priority: narrow(from.signed()),
        scheduler: from.option(text),
        runtime_class: from.option(text),
        do_not_disrupt: from.option(text),
        node_selector: from.list(read_expression),
        node_affinity: from.option(|from| {
            from.list(|from| NodeTerm { expressions: from.list(read_expression), fields: from.list(read_expression) })
        }),
        tolerations: from.list(|from| {
            let key = from.text().into();
            let kind = from.number();
            Toleration {
                key,
                exists: kind & 1 != 0,
                effect: (kind >> 1).checked_sub(1).map(|at| EFFECTS[at as usize]),
                value: from.text().into(),
                seconds: from.option(Reader::signed),
            }
        }),
        affinity: from.list(read_pod_term),
        spread: from.list(|from| {
            let topology_key = from.text().into();
            let [max_skew, min_domains] = [narrow(from.signed()), narrow(from.signed())];
            let policies = from.number();
            Spread {
                topology_key,
                max_skew,
                min_domains,
                ignores_affinity: policies & 1 != 0,
                honors_taints: policies & 2 != 0,
                selector: from.option(read_selector),
            }
        }),
        host_ports: from.list(|from| HostPort {
            protocol: from.text().into(),
            ip: from.text().into(),
            port: u16::try_from(from.number()).expect("a port was written"),
        }),
    }
}

fn read_pod_term<'a, S: From<&'a str>>(from: &mut Reader<'a>) -> PodTerm<S> {
    PodTerm {
        topology_key: from.text().into(),
        selector: from.option(read_selector),
        namespaces: from.list(|from| from.text().into()),
        namespace_selector: from.option(read_selector),
    }
}

fn read_selector<'a, S: From<&'a str>>(from: &mut Reader<'a>) -> Selector<S> {
    Selector { expressions: from.list(read_expression) }
}

fn read_expression<'a, S: From<&'a str>>(from: &mut Reader<'a>) -> Expression<S> {
    Expression {
        key: from.text().into(),
        operator: OPERATORS[from.number() as usize],
        values: from.list(|from| from.text().into()),
    }
}

fn narrow(number: i64) -> i32 {
    i32::try_from(number).expect("an i32 was written")
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::surge::testing;

    fn bytes(shape: &Shape, node: Option<&str>) -> (Vec<u8>, bool) {
        let mut bytes = Vec::new();
        write(&mut Writer::new(&mut bytes, node), shape);
        let names_node = names_node(&bytes);
        (bytes, names_node)
    }

    fn rich() -> Value {
        let expression = json!({"key": "tier", "operator": "NotIn", "values": ["a", "b"]});
        let selector = json!({"matchLabels": {"app": "web"}, "matchExpressions": [expression]});
        let term = json!({"topologyKey": "kubernetes.io/hostname", "labelSelector": selector, "namespaces": ["x", "y"],
            "namespaceSelector": {}});
        let node_term = json!({"matchExpressions": [{"key": "cores", "operator": "Gt", "values": ["4"]}, expression],
            "matchFields": [{"key": "metadata.name", "operator": "In", "values": ["cand"]}]});
        json!({
            "metadata": {"annotations": {
                "karpenter.sh/do-not-disrupt": "4h", "cluster-autoscaler.kubernetes.io/safe-to-evict": "false",
                "kubernetes.io/config.mirror": "x"}, "labels": {"scheduling.x-k8s.io/pod-group": "g"}},
            "spec": {
                "priority": -5, "preemptionPolicy": "Never", "schedulerName": "own", "runtimeClassName": "kata",
                "nodeSelector": {"disk": "ssd"}, "schedulingGates": [{"name": "g"}], "resourceClaims": [{"name": "c"}],
                "volumes": [{"name": "v", "emptyDir": {}}],
                "containers": [{"name": "app", "ports": [{"hostPort": 80, "containerPort": 80, "hostIP": "10.0.0.1"}],
                    "resources": {"requests": {"cpu": "1", "memory": "1Gi", "nvidia.com/gpu": "2", "x/y": "3"}}}],
                "tolerations": [
                    {"operator": "Exists"}, {"key": "a", "operator": "Equal", "value": "b", "effect": "NoExecute"},
                    {"key": "c", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": -300},
                    {"key": "d", "operator": "Exists", "effect": "PreferNoSchedule"}],
                "affinity": {
                    "nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [node_term, {}]}},
                    "podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]},
                    "podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term, {"topologyKey": "z"}]}},
                "topologySpreadConstraints": [
                    {"topologyKey": "z", "maxSkew": 2, "whenUnsatisfiable": "DoNotSchedule", "labelSelector": selector,
                        "minDomains": 3, "nodeAffinityPolicy": "Ignore", "nodeTaintsPolicy": "Honor"},
                    {"topologyKey": "z", "maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule"}],
            }
        })
    }

    #[test]
    fn every_field_comes_back() {
        let rich = testing::pod("shop", "web", &rich()).shape;
        for shape in [&*rich, &Shape::default()] {
            let (bytes, names_node) = bytes(shape, None);
            assert!(!names_node);
            assert_eq!(read::<Box<str>>(Reader::new(&bytes, "")), *shape);
            assert_eq!(requests(&bytes).to_resources(), shape.requests);
            assert_eq!(repels(&bytes), !shape.anti_affinity.is_empty());
            let terms: Vec<_> = shape.anti_affinity.iter().map(|term| term.map(|text| text)).collect();
            assert_eq!(anti_affinity(&bytes), terms);
        }
        // Each of these is one that `rich` sets.
        assert!(!rich.host_ports.is_empty() && !rich.spread.is_empty() && rich.mirror && rich.gated && rich.pod_group);
        assert!(rich.resource_claims && rich.local_storage && rich.not_safe_to_evict && rich.do_not_disrupt.is_some());
    }

    #[test]
    fn a_borrowed_shape_writes_the_same_bytes_as_its_own() {
        let shape = testing::pod("shop", "web", &rich()).shape;
        let mut borrowed = Vec::new();
        write(&mut Writer::new(&mut borrowed, None), &shape.map(std::borrow::Cow::Borrowed));
        assert_eq!(borrowed, bytes(&shape, None).0);
    }

    #[test]
    fn pods_bound_by_their_nodes_name_share_their_shape() {
        let on = |node: &str| {
            let field = json!({"key": "metadata.name", "operator": "In", "values": [node]});
            let terms = json!({"nodeSelectorTerms": [{"matchFields": [field]}]});
            let affinity = json!({"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}});
            testing::pod("shop", "web", &json!({"spec": {"affinity": affinity}})).shape
        };
        let (one, other) = (bytes(&on("n1"), Some("n1")), bytes(&on("n2"), Some("n2")));
        assert_eq!(one, other);
        assert!(one.1);
        assert_eq!(read::<Box<str>>(Reader::new(&one.0, "n2")), *on("n2"));
        let elsewhere = bytes(&on("n1"), Some("n2"));
        assert!(!elsewhere.1 && elsewhere.0 != one.0, "only a Pod's own node is taken out");
    }
}
