//! Events in few numbers, so that cases shrink to something readable, and what they make happen.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::Timestamp;
use proptest::prelude::*;

use super::super::{Kind, Partition, Relist, ShardRange, State};
use super::model::Model;
use crate::cache::selector::{Expression, Labels, NodeTerm, Operator};
use crate::cache::shape::{PodTerm, Shape};
use crate::cache::{Node, Owner, Pod, PodPhase, Resources};

/// How many names there are.
pub(super) const NAMES: u8 = 12;
const SHAPES: u8 = 16;
/// When the mark of a Pod ends that is not to be disrupted until then.
const MARKED_UNTIL: &str = "2026-01-01T00:00:00Z";
/// What begins or ends otherwise than names do, is no short code, or is like another.
const ODD_NAMES: [&str; 6] = ["owner", "owner-", "OWNER-ä", "a-thirteen-letters-and-more", "web--1", "-"];
/// Relists that may be open at once.
const SLOTS: u8 = 3;

/// A Pod in few numbers.
#[derive(Clone, Debug)]
pub(super) struct Spec {
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

/// Something that a feed does. `u8`s that pick a Pod pick among those that are known.
#[derive(Clone, Debug)]
pub(super) enum Event {
    Apply(Spec),
    Resize(u8, u8),
    Move(u8, Option<u8>),
    Status(u8, PodPhase, bool),
    /// A new Pod with the name of a known one, whose deletion is late.
    Recreate(u8),
    /// Deletes a Pod by its UID, known or not: deletions may come late, or twice.
    Delete(u8, u8),
    DeleteKnown(u8),
    Node(u8, u8, u8),
    DeleteNode(u8, u8),
    RelistNodes(Vec<(u8, u8, u8)>),
    /// A complete list: what is in it is all there is in its partition.
    Relist(Partition, Vec<Spec>),
    /// A list that breaks off before its end and changes nothing but what it held.
    BrokenRelist(Partition, Vec<Spec>),
    /// A list during which other things happen. One that is open in the same slot is given up.
    Begin(u8, Partition),
    Listed(u8, Spec),
    End(u8),
    /// Only these partitions are read any more.
    Keep(Vec<Partition>),
}

/// What an event came to, given what was known.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Happened {
    Add,
    Move,
    Resize,
    Recreation,
    OutOfOrderDelete,
    Relist,
}

/// Lists that are being read, with what they have held so far.
#[derive(Debug, Default)]
pub(super) struct OpenLists(BTreeMap<u8, (Relist, Partition)>);

impl Happened {
    pub(super) const ALL: [Self; 6] =
        [Self::Add, Self::Move, Self::Resize, Self::Recreation, Self::OutOfOrderDelete, Self::Relist];
}

impl Event {
    pub(super) fn relist_of_nothing() -> Self {
        Self::Relist(Partition::All, vec![])
    }
}

fn phase() -> impl Strategy<Value = PodPhase> {
    prop_oneof![
        5 => Just(PodPhase::Running),
        1 => Just(PodPhase::Pending),
        1 => Just(PodPhase::Succeeded),
        1 => Just(PodPhase::Failed),
        1 => Just(PodPhase::Unknown),
    ]
}

fn spec() -> impl Strategy<Value = Spec> {
    let node = proptest::option::weighted(0.8, 0..4_u8);
    let nominated = proptest::option::weighted(0.2, 0..4_u8);
    let numbers = (0..NAMES, 0..3_u8, 0..SHAPES, 0..6_u8);
    (numbers, node, nominated, phase(), any::<bool>()).prop_map(
        |((name, generation, shape, owner), node, nominated, phase, deleted)| Spec {
            name,
            generation,
            node,
            nominated,
            shape,
            owner,
            phase,
            deleted,
        },
    )
}

fn partition() -> impl Strategy<Value = Partition> {
    const HALF: u64 = u64::MAX / 2;
    prop_oneof![
        2 => Just(Partition::All),
        2 => (0..4_u8).prop_map(|number| Partition::Node(format!("n{number}").into())),
        1 => any::<bool>().prop_map(|even| Partition::Namespace(namespace(u8::from(!even)).into())),
        1 => Just(Partition::Shard(ShardRange { first: 0, last: HALF })),
        1 => Just(Partition::Shard(ShardRange { first: HALF + 1, last: u64::MAX })),
    ]
}

pub(super) fn any_event() -> impl Strategy<Value = Event> {
    let node = || (0..4_u8, 0..2_u8, 0..2_u8);
    let pick = any::<u8>;
    let specs = |most: usize| proptest::collection::vec(spec(), 0..most);
    prop_oneof![
        10 => spec().prop_map(Event::Apply),
        5 => (pick(), 0..SHAPES).prop_map(|(pod, shape)| Event::Resize(pod, shape)),
        6 => (pick(), proptest::option::of(0..4_u8)).prop_map(|(pod, node)| Event::Move(pod, node)),
        2 => (pick(), phase(), any::<bool>()).prop_map(|(pod, phase, ready)| Event::Status(pod, phase, ready)),
        5 => pick().prop_map(Event::Recreate),
        5 => (0..NAMES, 0..3_u8).prop_map(|(name, generation)| Event::Delete(name, generation)),
        1 => pick().prop_map(Event::DeleteKnown),
        3 => node().prop_map(|(name, uid, host)| Event::Node(name, uid, host)),
        1 => (0..4_u8, 0..2_u8).prop_map(|(name, uid)| Event::DeleteNode(name, uid)),
        1 => proptest::collection::vec(node(), 0..4).prop_map(Event::RelistNodes),
        2 => (partition(), specs(10)).prop_map(|(partition, specs)| Event::Relist(partition, specs)),
        1 => (partition(), specs(6)).prop_map(|(partition, specs)| Event::BrokenRelist(partition, specs)),
        2 => (0..SLOTS, partition()).prop_map(|(slot, partition)| Event::Begin(slot, partition)),
        4 => (0..SLOTS, spec()).prop_map(|(slot, spec)| Event::Listed(slot, spec)),
        2 => (0..SLOTS).prop_map(Event::End),
        1 => proptest::collection::vec(partition(), 0..3).prop_map(Event::Keep),
    ]
}

fn namespace(number: u8) -> &'static str {
    if number.is_multiple_of(2) { "even" } else { "odd" }
}

/// UUIDs, UUIDs that look like a mark, and texts of all kinds.
pub(super) fn uid(name: u8, generation: u8) -> String {
    match (name % 3, generation) {
        (0, _) => format!("uid-{name}-{generation}"),
        (1, 2) => format!("ffffffff-0000-0000-0000-{name:012x}"),
        _ => format!("4f1c2a7e-0000-4000-{generation:04x}-{name:012x}"),
    }
}

/// Two owners have one UID.
pub(super) fn owner_uid(owner: u8) -> String {
    if owner == 5 { "odd".to_owned() } else { format!("0b2f0000-0000-4000-8000-{:012x}", owner.min(3)) }
}

fn name(number: u8) -> String {
    match ODD_NAMES.get(usize::from(number).wrapping_sub(6)) {
        Some(name) => (*name).to_owned(),
        None => format!("web-{number}"),
    }
}

fn shape(number: u8, node: Option<u8>) -> Arc<Shape> {
    let mut shape = Shape::default();
    shape.requests.milli_cpu = 100 * i64::from(number);
    shape.requests.memory = 1 << number;
    let among = |key: &str, value: String| Expression {
        key: key.into(),
        operator: Operator::In,
        values: vec![value.into_boxed_str()],
    };
    match number {
        1 => drop(shape.requests.other.insert("nvidia.com/gpu".into(), i64::MAX)),
        // A saturating sum could not be taken back.
        2 => (shape.requests.milli_cpu, shape.requests.memory) = (i64::MAX, i64::MAX),
        3 => shape.node_selector = vec![among("kubernetes.io/hostname", "h1".to_owned())],
        4 => {
            shape.anti_affinity = vec![PodTerm {
                topology_key: "kubernetes.io/hostname".into(),
                selector: None,
                namespaces: vec![],
                namespace_selector: None,
            }];
        }
        5 => shape.mirror = true,
        // As the controller of a DaemonSet writes it: before the Pod is bound it is for a node already.
        6 => {
            let fields = vec![among("metadata.name", format!("n{}", node.unwrap_or(3)))];
            shape.node_affinity = Some(vec![NodeTerm { expressions: vec![], fields }]);
        }
        // What stands in the way of a rotation, for good or for a while.
        8 => shape.scheduler = Some("volcano".into()),
        9 => shape.pod_group = true,
        10 => shape.gated = true,
        11 => shape.local_storage = true,
        12 => shape.not_safe_to_evict = true,
        13 => shape.do_not_disrupt = Some("true".into()),
        14 => shape.do_not_disrupt = Some(MARKED_UNTIL.into()),
        15 => shape.do_not_disrupt = Some("false".into()),
        _ => {}
    }
    Arc::new(shape)
}

/// Before and after the mark of some Pods has ended.
pub(super) fn moments() -> [Timestamp; 2] {
    ["2025-12-31T23:59:59Z", MARKED_UNTIL].map(|moment| moment.parse().unwrap())
}

fn owner(number: u8) -> Option<Owner> {
    let (api_version, kind, name) = match number {
        0 => return None,
        1 => ("apps/v1", "DaemonSet", "owner"),
        2 => ("apps/v1", "StatefulSet", "web"),
        3 => ("batch/v1", "Job", "web"),
        4 => ("example.com/v1", "Job", "another"),
        _ => ("v1", "Node", "n1"),
    };
    Some(Owner { api_version: api_version.into(), kind: kind.into(), name: name.into(), uid: owner_uid(number).into() })
}

pub(super) fn pod(spec: &Spec) -> Pod {
    let name = name(spec.name);
    let owner = owner(spec.owner);
    let mut labels = Labels::from([("app", "web")]);
    match &owner {
        Some(owner) if &*owner.kind == "StatefulSet" => {
            labels.insert("statefulset.kubernetes.io/pod-name", &name);
            let index = if spec.generation == 0 { "not what the name says".to_owned() } else { spec.name.to_string() };
            labels.insert("apps.kubernetes.io/pod-index", &index);
        }
        Some(owner) if &*owner.kind == "Job" => {
            labels.insert("controller-uid", if spec.generation == 0 { "another" } else { &owner.uid });
            labels.insert("job-name", "web");
        }
        _ => {}
    }
    let node = |number: u8| Arc::from(format!("n{number}"));
    let claims = [format!("data-{name}"), "shared".to_owned(), format!("{name}-scratch")];
    Pod {
        namespace: namespace(spec.name).into(),
        uid: uid(spec.name, spec.generation).into(),
        created: Timestamp::from_second([-1, 1_700_000_000, 5_000_000_000][usize::from(spec.generation)]).unwrap(),
        deleted: spec.deleted.then_some(Timestamp::UNIX_EPOCH),
        node: spec.node.map(node),
        nominated: spec.nominated.map(node),
        phase: spec.phase,
        ready: spec.generation == 1,
        unschedulable: (spec.name == 3).then(|| "no room".into()),
        labels: Arc::new(labels),
        claims: claims.into_iter().filter(|_| spec.owner == 2).map(String::into_boxed_str).collect(),
        shape: shape(spec.shape, spec.node),
        name: name.into(),
        owner,
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
        pod_addresses: None,
        boot_id: None,
        provider_id: None,
    }
}

/// A Pod of the list of this partition, if it can be on it.
fn listed(partition: &Partition, spec: &Spec) -> Option<Pod> {
    let mut spec = spec.clone();
    if let Partition::Node(name) = partition {
        spec.node = name.strip_prefix('n').and_then(|number| number.parse().ok());
    }
    let pod = pod(&spec);
    Model::is_held(partition, &pod).then_some(pod)
}

/// Plays an event on both. Answers what happened.
pub(super) fn play(event: &Event, state: &mut State, model: &mut Model, open: &mut OpenLists) -> Vec<Happened> {
    let mut happened = Vec::new();
    let mut apply = |pod: Pod, state: &mut State, model: &mut Model| {
        state.apply_pod(&pod.view());
        happened.extend(model.apply(pod));
    };
    match event {
        Event::Apply(spec) => apply(pod(spec), state, model),
        Event::Resize(pick, number) => {
            if let Some(mut pod) = model.pick(*pick) {
                pod.shape = shape(*number, None);
                apply(pod, state, model);
            }
        }
        Event::Move(pick, to) => {
            if let Some(mut pod) = model.pick(*pick) {
                pod.node = to.map(|number| format!("n{number}").into());
                apply(pod, state, model);
            }
        }
        Event::Status(pick, phase, ready) => {
            if let Some(mut pod) = model.pick(*pick) {
                (pod.phase, pod.ready) = (*phase, *ready);
                apply(pod, state, model);
            }
        }
        Event::Recreate(pick) => {
            if let Some(mut pod) = model.pick(*pick) {
                let others = (0..NAMES).flat_map(|name| (0..3).map(move |generation| (name, generation)));
                let mut others = others
                    .filter(|(number, _)| *name(*number) == *pod.name)
                    .map(|(name, generation)| uid(name, generation));
                if let Some(uid) = others.find(|uid| !model.pods.contains_key(uid)) {
                    pod.uid = uid.into();
                    apply(pod, state, model);
                }
            }
        }
        Event::Delete(name, generation) => {
            state.remove_pod(&uid(*name, *generation));
            happened.extend(model.remove(&uid(*name, *generation)));
        }
        Event::DeleteKnown(pick) => {
            if let Some(pod) = model.pick(*pick) {
                state.remove_pod(&pod.uid);
                model.remove(&pod.uid);
            }
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
        Event::RelistNodes(nodes) => {
            let relist = state.begin_relist(Kind::Nodes, Partition::All);
            model.nodes.clear();
            for (name, uid, host) in nodes {
                let node = node(*name, *uid, *host);
                model.nodes.insert(node.name.to_string(), node.clone());
                let uid = Arc::clone(&node.uid);
                state.apply_node(node);
                state.mark_seen(&relist, &uid);
            }
            state.end_relist(relist);
        }
        Event::Relist(partition, specs) | Event::BrokenRelist(partition, specs) => {
            let relist = state.begin_relist(Kind::Pods, partition.clone());
            model.begin(SLOTS);
            for pod in specs.iter().filter_map(|spec| listed(partition, spec)) {
                let uid = Arc::clone(&pod.uid);
                apply(pod, state, model);
                state.mark_seen(&relist, &uid);
                model.mark(SLOTS, &uid);
            }
            if matches!(event, Event::Relist(..)) {
                assert_eq!(state.end_relist(relist), model.end(SLOTS, partition));
            }
            happened.push(Happened::Relist);
        }
        Event::Begin(slot, partition) => {
            open.0.insert(*slot, (state.begin_relist(Kind::Pods, partition.clone()), partition.clone()));
            model.begin(*slot);
        }
        Event::Listed(slot, spec) => {
            if let Some((relist, partition)) = open.0.get(slot)
                && let Some(pod) = listed(partition, spec)
            {
                let uid = Arc::clone(&pod.uid);
                apply(pod, state, model);
                state.mark_seen(relist, &uid);
                model.mark(*slot, &uid);
            }
        }
        Event::End(slot) => {
            if let Some((relist, partition)) = open.0.remove(slot) {
                assert_eq!(state.end_relist(relist), model.end(*slot, &partition));
                happened.push(Happened::Relist);
            }
        }
        Event::Keep(partitions) => {
            assert_eq!(state.drop_uncovered(partitions), model.keep(partitions));
        }
    }
    happened
}
