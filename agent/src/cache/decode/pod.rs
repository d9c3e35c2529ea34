//! A Pod on the wire, and what it means.

mod parts;

use std::mem::take;
use std::ops::DerefMut;

use jiff::Timestamp;
use rotate_shared::names;
use smallvec::SmallVec;

pub(super) use parts::{
    ClaimRef, ContainerStatus, ContainerWire, EmptyDir, PodTermWire, PortWire, Requirements, SpreadWire,
    TolerationWire, VolumeWire, taint_effect,
};

use self::parts::{Terms, Tolerations, Volumes, host_ports};
use super::DecodeError;
use super::meta::{Condition, Meta};
use super::terms::{NodeSelectorWire, equalities};
use super::text::{Amounts, Items, Pairs, Present, Text, items, nullable};
use crate::cache::PodPhase;
use crate::cache::pod::{MIRROR, PodView};
use crate::cache::shape::Shape;
use crate::surge::do_not_disrupt::dated;
use crate::surge::requests::{Container, Demand, Exact, effective};

pub(super) const KIND: &str = "Pod";
/// Label that batch schedulers group Pods by.
const POD_GROUP: &str = "scheduling.x-k8s.io/pod-group";

#[derive(Debug, Default, serde::Deserialize)]
#[serde(default)]
pub(super) struct Wire<'a> {
    #[serde(borrow)]
    pub(super) metadata: Meta<'a>,
    #[serde(borrow, deserialize_with = "nullable")]
    pub(super) spec: Spec<'a>,
    #[serde(borrow, deserialize_with = "nullable")]
    pub(super) status: Status<'a>,
}

#[derive(Debug, Default, serde::Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct Spec<'a> {
    #[serde(borrow)]
    pub(super) node_name: Text<'a>,
    #[serde(borrow)]
    pub(super) scheduler_name: Text<'a>,
    #[serde(borrow)]
    pub(super) runtime_class_name: Text<'a>,
    #[serde(borrow)]
    pub(super) preemption_policy: Text<'a>,
    #[serde(deserialize_with = "nullable")]
    pub(super) priority: i32,
    #[serde(deserialize_with = "nullable")]
    pub(super) host_network: bool,
    #[serde(borrow)]
    pub(super) node_selector: Pairs<'a>,
    #[serde(borrow, deserialize_with = "nullable")]
    pub(super) affinity: Affinity<'a>,
    #[serde(borrow, deserialize_with = "items")]
    pub(super) tolerations: Tolerations<'a>,
    #[serde(borrow, deserialize_with = "items")]
    pub(super) topology_spread_constraints: Vec<SpreadWire<'a>>,
    #[serde(borrow, deserialize_with = "items")]
    pub(super) containers: SmallVec<[ContainerWire<'a>; 2]>,
    #[serde(borrow, deserialize_with = "items")]
    pub(super) init_containers: Vec<ContainerWire<'a>>,
    #[serde(borrow)]
    pub(super) overhead: Amounts<'a>,
    #[serde(borrow)]
    pub(super) resources: Option<Requirements<'a>>,
    #[serde(borrow, deserialize_with = "items")]
    pub(super) volumes: Volumes<'a>,
    #[serde(deserialize_with = "items")]
    pub(super) scheduling_gates: Vec<Present>,
    #[serde(deserialize_with = "items")]
    pub(super) resource_claims: Vec<Present>,
    pub(super) workload_ref: Option<Present>,
    pub(super) scheduling_group: Option<Present>,
}

#[derive(Debug, Default, serde::Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct Affinity<'a> {
    #[serde(borrow, deserialize_with = "nullable")]
    pub(super) node_affinity: NodeAffinity<'a>,
    #[serde(borrow, deserialize_with = "nullable")]
    pub(super) pod_affinity: PodAffinity<'a>,
    #[serde(borrow, deserialize_with = "nullable")]
    pub(super) pod_anti_affinity: PodAffinity<'a>,
}

#[derive(Debug, Default, serde::Deserialize)]
#[serde(default)]
pub(super) struct NodeAffinity<'a> {
    #[serde(borrow, rename = "requiredDuringSchedulingIgnoredDuringExecution")]
    pub(super) required: Option<NodeSelectorWire<'a>>,
}

#[derive(Debug, Default, serde::Deserialize)]
#[serde(default)]
pub(super) struct PodAffinity<'a> {
    #[serde(borrow, rename = "requiredDuringSchedulingIgnoredDuringExecution", deserialize_with = "items")]
    pub(super) required: Terms<'a>,
}

#[derive(Debug, Default, serde::Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct Status<'a> {
    #[serde(borrow)]
    pub(super) phase: Text<'a>,
    #[serde(borrow)]
    pub(super) nominated_node_name: Text<'a>,
    pub(super) start_time: Option<Timestamp>,
    /// Says `Infeasible` on servers that do not yet report it as a condition.
    #[serde(borrow)]
    pub(super) resize: Text<'a>,
    #[serde(borrow)]
    pub(super) allocated_resources: Option<Amounts<'a>>,
    #[serde(borrow)]
    pub(super) resources: Option<Requirements<'a>>,
    #[serde(borrow, deserialize_with = "items")]
    pub(super) conditions: Conditions<'a>,
    #[serde(borrow, deserialize_with = "items")]
    pub(super) container_statuses: Statuses<SmallVec<[ContainerStatus<'a>; 2]>>,
    #[serde(borrow, deserialize_with = "items")]
    pub(super) init_container_statuses: Statuses<Vec<ContainerStatus<'a>>>,
}

/// What is read off the conditions.
#[derive(Debug, Default)]
pub(super) struct Conditions<'a> {
    ready: bool,
    /// The message of the first False `PodScheduled`.
    unscheduled: Option<Text<'a>>,
    resize_infeasible: bool,
}

/// Statuses of containers, but for those that say nothing about resources.
#[derive(Debug, Default)]
pub(super) struct Statuses<L>(L);

impl<'a> Items for Conditions<'a> {
    type Item = Condition<'a>;

    fn take(&mut self, item: Condition<'a>) {
        self.ready |= item.is("Ready", "True");
        self.resize_infeasible |= item.is("PodResizePending", "True") && &*item.reason == "Infeasible";
        if self.unscheduled.is_none() && item.is("PodScheduled", "False") {
            self.unscheduled = Some(item.message);
        }
    }
}

impl<'a, L: Items<Item = ContainerStatus<'a>> + DerefMut<Target = [ContainerStatus<'a>]>> Items for Statuses<L> {
    type Item = ContainerStatus<'a>;

    fn take(&mut self, item: ContainerStatus<'a>) {
        // Without them, upstream believes nothing else of it.
        if item.resources.is_some() {
            self.0.take(item);
        }
    }
}

impl<'a, L: Items<Item = ContainerStatus<'a>> + DerefMut<Target = [ContainerStatus<'a>]>> Statuses<L> {
    /// A new one, to be filled in place: they are large.
    pub(super) fn begin(&mut self) -> &mut ContainerStatus<'a> {
        // The last one may have turned out to say nothing about resources.
        if self.0.last().is_none_or(|last| last.resources.is_some()) {
            self.0.take(ContainerStatus::default());
        }
        let last = self.0.last_mut().expect("there is one");
        *last = ContainerStatus::default();
        last
    }
}

// === impl Wire ===

impl<'a> Wire<'a> {
    /// What it means. Takes out of the wire struct what it needs: moving all of that, which is some kilobytes, takes longer
    /// than reading a Pod from protobuf.
    pub(super) fn take_view(&mut self) -> Result<PodView<'a>, DecodeError> {
        let Self { metadata, spec, status } = self;
        let namespace = metadata.required(KIND, "metadata.namespace", &metadata.namespace)?;
        let name = metadata.required(KIND, "metadata.name", &metadata.name)?;
        let uid = metadata.required(KIND, "metadata.uid", &metadata.uid)?;
        // A scheduler's message is long and different for each Pod; only our own placeholders' is shown.
        let unschedulable =
            status.conditions.unscheduled.take().filter(|_| namespace == names::ROOM_NAMESPACE).and_then(Text::present);
        let phase = match &*status.phase {
            "Running" => PodPhase::Running,
            "Succeeded" => PodPhase::Succeeded,
            "Failed" => PodPhase::Failed,
            "Unknown" => PodPhase::Unknown,
            _ => PodPhase::Pending,
        };
        let labels = take(&mut metadata.labels).sorted();
        let label = |key: &str| labels.iter().find(|(found, _)| found == key).map(|(_, value)| value);
        let (volumes, affinity) = (take(&mut spec.volumes), take(&mut spec.affinity));
        let shape = Shape {
            host_ports: host_ports(&spec.containers, &spec.init_containers, spec.host_network),
            local_storage: volumes.on_disk,
            spread: take(&mut spec.topology_spread_constraints)
                .into_iter()
                .filter_map(|spread| spread.into_spread(label))
                .collect(),
            requests: effective(&Demand {
                containers: pair(&mut spec.containers, &mut status.container_statuses.0),
                init_containers: pair(&mut spec.init_containers, &mut status.init_container_statuses.0),
                overhead: take(&mut spec.overhead.0),
                pod_level: spec.resources.take().and_then(|resources| resources.requests).map(|amounts| amounts.0),
                pod_allocated: status.allocated_resources.take().map(|amounts| amounts.0),
                pod_actual: actual(status.resources.take()),
                resize_infeasible: status.conditions.resize_infeasible || &*status.resize == "Infeasible",
            }),
            priority: spec.priority,
            never_preempts: &*spec.preemption_policy == "Never",
            scheduler: take(&mut spec.scheduler_name).present().filter(|scheduler| scheduler != "default-scheduler"),
            node_selector: equalities(take(&mut spec.node_selector)),
            node_affinity: affinity.node_affinity.required.map(NodeSelectorWire::into_terms),
            tolerations: take(&mut spec.tolerations.0),
            affinity: affinity.pod_affinity.required.0,
            anti_affinity: affinity.pod_anti_affinity.required.0,
            gated: !spec.scheduling_gates.is_empty(),
            resource_claims: !spec.resource_claims.is_empty(),
            pod_group: spec.workload_ref.is_some() || spec.scheduling_group.is_some() || label(POD_GROUP).is_some(),
            runtime_class: take(&mut spec.runtime_class_name).present(),
            do_not_disrupt: metadata
                .annotations
                .get(names::KARPENTER_DO_NOT_DISRUPT)
                .map(|value| dated(value.clone(), status.start_time)),
            not_safe_to_evict: metadata.annotations.get(names::SAFE_TO_EVICT).is_some_and(|value| value == "false"),
            mirror: metadata.annotations.get(MIRROR).is_some(),
        };
        Ok(PodView {
            claims: volumes.claims(&name),
            namespace,
            name,
            uid,
            revision: take(&mut metadata.resource_version).present(),
            created: metadata.creation_timestamp.unwrap_or(Timestamp::UNIX_EPOCH),
            deleted: metadata.deletion_timestamp,
            node: take(&mut spec.node_name).present(),
            nominated: take(&mut status.nominated_node_name).present(),
            owner: take(&mut metadata.owner_references).into_owner(),
            phase,
            ready: status.conditions.ready,
            unschedulable,
            labels,
            shape,
        })
    }
}

/// What a status says is granted: `Some`, if empty, as soon as it says anything.
fn actual(resources: Option<Requirements<'_>>) -> Option<Exact<'_>> {
    resources.map(|resources| resources.requests.unwrap_or_default().0)
}

/// Pairs containers with what their status says of them. A status is used once: names are unique in a Pod.
fn pair<'a, C: FromIterator<Container<'a>>>(
    specs: &mut [ContainerWire<'a>],
    statuses: &mut [ContainerStatus<'a>],
) -> C {
    let pair = |spec: &mut ContainerWire<'a>| {
        let status =
            statuses.iter_mut().find(|status| status.resources.is_some() && status.name == spec.name).map(take);
        let (allocated, actual) =
            status.map_or((None, None), |status| (status.allocated_resources, actual(status.resources)));
        Container {
            restartable: spec.is_restartable(),
            requests: spec.resources.take().and_then(|resources| resources.requests).unwrap_or_default().0,
            allocated: allocated.map(|amounts| amounts.0),
            actual,
        }
    };
    specs.iter_mut().map(pair).collect()
}
