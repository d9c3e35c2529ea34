//! The state after any events equals a full recount.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jiff::Timestamp;
use proptest::prelude::*;

use super::{AntiAffine, Kind, Partition, State, Sum};
use crate::cache::selector::{Expression, Labels, Operator};
use crate::cache::shape::{PodTerm, Shape};
use crate::cache::{Node, Owner, Pod, PodPhase, Resources};
use crate::surge::classify;

/// A Pod in few numbers, so that cases shrink to something readable.
#[derive(Clone, Debug)]
struct Spec {
    /// Pods of one name are re-creations of each other.
    name: u8,
    generation: u8,
    node: Option<u8>,
    nominated: Option<u8>,
    shape: u8,
    owner: u8,
    phase: PodPhase,
    deleted: bool,
}

#[derive(Clone, Debug)]
enum Event {
    Apply(Spec),
    /// Changes what a known Pod requests; ignored where it is unknown.
    Resize(u8, u8, u8),
    /// Changes where a known Pod is.
    Move(u8, u8, Option<u8>),
    /// Deletes a Pod by its UID, known or not: deletions may come late.
    Delete(u8, u8),
    Node(u8, u8, u8),
    DeleteNode(u8, u8),
    /// A complete list: what is in it is all there is.
    Relist(Vec<Spec>),
    /// A list that broke off before its end and changes nothing but what it held.
    BrokenRelist(Vec<Spec>),
    RelistNodes(Vec<(u8, u8, u8)>),
}

/// The same knowledge, kept plainly.
#[derive(Debug, Default)]
struct Model {
    pods: BTreeMap<String, Pod>,
    nodes: BTreeMap<String, Node>,
}

fn spec() -> impl Strategy<Value = Spec> {
    let phase = prop_oneof![
        5 => Just(PodPhase::Running),
        1 => Just(PodPhase::Pending),
        1 => Just(PodPhase::Succeeded),
        1 => Just(PodPhase::Failed),
    ];
    let node = proptest::option::weighted(0.8, 0..4_u8);
    (0..12_u8, 0..3_u8, node, proptest::option::weighted(0.2, 0..4_u8), 0..6_u8, 0..5_u8, phase, any::<bool>())
        .prop_map(|(name, generation, node, nominated, shape, owner, phase, deleted)| Spec {
            name,
            generation,
            node,
            nominated,
            shape,
            owner,
            phase,
            deleted,
        })
}

fn event() -> impl Strategy<Value = Event> {
    let node = || (0..4_u8, 0..2_u8, 0..2_u8);
    prop_oneof![
        8 => spec().prop_map(Event::Apply),
        3 => (0..12_u8, 0..3_u8, 0..6_u8).prop_map(|(name, generation, shape)| Event::Resize(name, generation, shape)),
        3 => (0..12_u8, 0..3_u8, proptest::option::of(0..4_u8)).prop_map(|(name, generation, node)| Event::Move(name, generation, node)),
        4 => (0..12_u8, 0..3_u8).prop_map(|(name, generation)| Event::Delete(name, generation)),
        3 => node().prop_map(|(name, uid, host)| Event::Node(name, uid, host)),
        2 => (0..4_u8, 0..2_u8).prop_map(|(name, uid)| Event::DeleteNode(name, uid)),
        2 => proptest::collection::vec(spec(), 0..12).prop_map(Event::Relist),
        2 => proptest::collection::vec(spec(), 0..6).prop_map(Event::BrokenRelist),
        2 => proptest::collection::vec(node(), 0..4).prop_map(Event::RelistNodes),
    ]
}

fn shape(number: u8) -> Arc<Shape> {
    let mut shape = Shape::default();
    shape.requests.milli_cpu = 100 * i64::from(number);
    shape.requests.memory = 1 << number;
    match number {
        1 => drop(shape.requests.other.insert("nvidia.com/gpu".into(), 1)),
        // A saturating sum could not be taken back.
        2 => shape.requests.milli_cpu = i64::MAX,
        3 => {
            let host =
                Expression { key: "kubernetes.io/hostname".into(), operator: Operator::In, values: vec!["h1".into()] };
            shape.node_selector = vec![host];
        }
        4 => {
            shape.anti_affinity = vec![PodTerm {
                topology_key: "kubernetes.io/hostname".into(),
                selector: None,
                namespaces: vec![],
                namespace_selector: None,
            }];
        }
        5 => shape.mirror = true,
        _ => {}
    }
    Arc::new(shape)
}

fn uid(name: u8, generation: u8) -> String {
    format!("uid-{name}-{generation}")
}

fn pod(spec: &Spec) -> Pod {
    let name = format!("web-{}", spec.name);
    let owner = |kind: &str| Owner {
        api_version: "apps/v1".into(),
        kind: kind.into(),
        name: "owner".into(),
        uid: format!("owner-{}", spec.owner).into(),
    };
    let mut labels = Labels::from([("app", "web")]);
    if spec.owner == 2 {
        labels.insert("statefulset.kubernetes.io/pod-name", &name);
        let index = if spec.generation == 0 { "not what the name says".into() } else { spec.name.to_string() };
        labels.insert("apps.kubernetes.io/pod-index", &index);
    }
    let node = |number: u8| Arc::from(format!("n{number}"));
    Pod {
        namespace: if spec.name.is_multiple_of(2) { "even".into() } else { "odd".into() },
        uid: uid(spec.name, spec.generation).into(),
        name: name.into(),
        created: Timestamp::from_second(i64::from(spec.generation)).unwrap(),
        deleted: spec.deleted.then_some(Timestamp::UNIX_EPOCH),
        node: spec.node.map(node),
        nominated: spec.nominated.map(node),
        owner: match spec.owner {
            0 => None,
            1 => Some(owner("DaemonSet")),
            _ => Some(owner("ReplicaSet")),
        },
        phase: spec.phase,
        ready: spec.generation == 1,
        unschedulable: (spec.name == 3).then(|| "no room".into()),
        labels: Arc::new(labels),
        claims: if spec.owner == 2 { [format!("data-{}", spec.name).into()].into() } else { [].into() },
        shape: shape(spec.shape),
    }
}

fn node(name: u8, uid: u8, host: u8) -> Node {
    Node {
        name: format!("n{name}").into(),
        uid: format!("node-{name}-{uid}").into(),
        created: Timestamp::UNIX_EPOCH,
        deleting: false,
        labels: Arc::new(Labels::from([("kubernetes.io/hostname", format!("h{host}"))])),
        annotations: BTreeMap::new(),
        taints: vec![],
        unschedulable: false,
        ready: true,
        allocatable: Resources::default(),
        max_pods: 110,
        provider_id: None,
    }
}

fn play(event: &Event, state: &mut State, model: &mut Model) {
    let apply = |pod: Pod, state: &mut State, model: &mut Model| {
        model.pods.insert(pod.uid.to_string(), pod.clone());
        state.apply_pod(&pod.view());
    };
    match event {
        Event::Apply(spec) => apply(pod(spec), state, model),
        Event::Resize(name, generation, number) => {
            if let Some(mut pod) = model.pods.get(&uid(*name, *generation)).cloned() {
                pod.shape = shape(*number);
                apply(pod, state, model);
            }
        }
        Event::Move(name, generation, to) => {
            if let Some(mut pod) = model.pods.get(&uid(*name, *generation)).cloned() {
                pod.node = to.map(|number| format!("n{number}").into());
                apply(pod, state, model);
            }
        }
        Event::Delete(name, generation) => {
            model.pods.remove(&uid(*name, *generation));
            state.remove_pod(&uid(*name, *generation));
        }
        Event::Node(name, uid, host) => {
            let node = node(*name, *uid, *host);
            model.nodes.insert(node.name.to_string(), node.clone());
            state.apply_node(node);
        }
        Event::DeleteNode(name, uid) => {
            let gone = node(*name, *uid, 0);
            if model.nodes.get(&*gone.name).is_some_and(|node| node.uid == gone.uid) {
                model.nodes.remove(&*gone.name);
            }
            state.remove_node(&gone.name, &gone.uid);
        }
        Event::Relist(specs) => {
            let relist = state.begin_relist(Kind::Pods, Partition::All);
            model.pods.clear();
            for spec in specs {
                apply(pod(spec), state, model);
                state.mark_seen(&relist, &uid(spec.name, spec.generation));
            }
            state.end_relist(relist);
        }
        Event::BrokenRelist(specs) => {
            let relist = state.begin_relist(Kind::Pods, Partition::All);
            for spec in specs {
                apply(pod(spec), state, model);
                state.mark_seen(&relist, &uid(spec.name, spec.generation));
            }
        }
        Event::RelistNodes(listed) => {
            let relist = state.begin_relist(Kind::Nodes, Partition::All);
            model.nodes.clear();
            for (name, uid, host) in listed {
                let node = node(*name, *uid, *host);
                model.nodes.insert(node.name.to_string(), node.clone());
                let uid = node.uid.clone();
                state.apply_node(node);
                state.mark_seen(&relist, &uid);
            }
            state.end_relist(relist);
        }
    }
}

fn sorted(mut pods: Vec<Pod>) -> Vec<Pod> {
    pods.sort_by(|a, b| a.uid.cmp(&b.uid));
    pods
}

fn assert_same(state: &State, model: &Model) {
    let where_ = |keep: &dyn Fn(&Pod) -> bool| model.pods.values().filter(|pod| keep(pod)).cloned().collect::<Vec<_>>();
    assert_eq!(sorted(state.pods().collect()), where_(&|_| true));
    assert!(state.nodes().map(|node| &**node).eq(model.nodes.values()));
    for number in 0..5 {
        let name = format!("n{number}");
        let object = model.nodes.get(&name);
        let on = where_(&|pod| pod.node.as_deref() == Some(&*name));
        let sum = |keep: &dyn Fn(&Pod) -> bool| {
            let mut sum = Sum::default();
            for pod in on.iter().filter(|pod| keep(pod)) {
                sum.pods += 1;
                sum.requests.add(&pod.shape.requests);
            }
            sum
        };
        assert_eq!(state.usage(&name), sum(&|pod| pod.holds_room()), "usage of {name}");
        assert_eq!(state.movable(&name), sum(&|pod| classify::counts(pod, object)), "movable of {name}");
        assert_eq!(state.hosts_real_pods(&name), on.iter().any(classify::is_real), "real Pods of {name}");
        assert_eq!(sorted(state.pods_on(&name)), on, "Pods of {name}");
        let arriving =
            where_(&|pod| pod.nominated.as_deref() == Some(&*name) && pod.node.is_none() && !pod.phase.is_finished());
        assert_eq!(sorted(state.arriving_on(&name)), arriving, "arriving on {name}");
        let owner = format!("owner-{number}");
        let owned = where_(&|pod| pod.owner.as_ref().is_some_and(|found| *found.uid == *owner));
        assert_eq!(sorted(state.pods_of_owner(&owner)), owned);
    }
    for namespace in ["even", "odd", "none"] {
        assert_eq!(sorted(state.pods_in(namespace)), where_(&|pod| &*pod.namespace == namespace));
    }
    let repelling = where_(&|pod| pod.holds_room() && !pod.shape.anti_affinity.is_empty());
    let mut expected = BTreeMap::new();
    for pod in repelling {
        *expected.entry((pod.namespace, pod.shape.anti_affinity.clone())).or_insert(0) += 1;
    }
    let mut found = BTreeMap::new();
    for AntiAffine { namespace, terms, pods, .. } in state.anti_affine() {
        let terms = terms.iter().map(|term| term.map(Box::from)).collect();
        *found.entry((Arc::clone(namespace), terms)).or_insert(0) += pods;
    }
    assert_eq!(found, expected);
    let counts = state.counts();
    let distinct = |count: usize, of: &dyn Fn(&Pod) -> String| {
        assert_eq!(count, model.pods.values().map(of).collect::<BTreeSet<_>>().len());
    };
    assert_eq!((counts.pods, counts.nodes), (model.pods.len(), model.nodes.len()));
    distinct(counts.shapes, &|pod| format!("{:?}", pod.shape));
    distinct(counts.namespaces, &|pod| pod.namespace.to_string());
    assert_eq!(counts.owners, where_(&|_| true).into_iter().filter_map(|pod| pod.owner).collect::<BTreeSet<_>>().len());
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_sequence_of_events_equals_a_full_recount(events in proptest::collection::vec(event(), 1..60)) {
        let (mut state, mut model) = (State::default(), Model::default());
        for event in &events {
            play(event, &mut state, &mut model);
        }
        assert_same(&state, &model);
        // What is gone leaves nothing behind.
        for event in [Event::Relist(vec![]), Event::RelistNodes(vec![])] {
            play(&event, &mut state, &mut model);
        }
        assert_same(&state, &model);
        prop_assert_eq!(state.counts(), super::Counts::default());
    }
}
