//! A Pod on the wire.

use std::borrow::Cow;
use std::collections::BTreeMap;

use jiff::Timestamp;
use rotate_shared::{Amounts, names};

use super::DecodeError;
use super::common::{
    AmountsWire, Condition, LabelMap, Meta, NodeSelectorWire, SelectorWire, Text, equalities, nullable,
    sort_expressions,
};
use crate::cache::PodPhase;
use crate::cache::pod::{MIRROR, PodView};
use crate::cache::selector::{Expression, Operator, Selector, TaintEffect, Toleration};
use crate::cache::shape::{HostPort, PodTerm, Shape, Spread};
use crate::surge::requests::{Container, Demand, effective};

const KIND: &str = "Pod";
/// Label that batch schedulers group Pods by.
const POD_GROUP: &str = "scheduling.x-k8s.io/pod-group";

#[derive(Debug, Default, serde::Deserialize)]
#[serde(default)]
pub(super) struct Wire<'a> {
    #[serde(borrow)]
    metadata: Meta<'a>,
    #[serde(borrow, deserialize_with = "nullable")]
    spec: Spec<'a>,
    #[serde(borrow, deserialize_with = "nullable")]
    status: Status<'a>,
}

#[derive(Debug, Default, serde::Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Spec<'a> {
    #[serde(borrow)]
    node_name: Option<Text<'a>>,
    #[serde(borrow)]
    scheduler_name: Option<Text<'a>>,
    #[serde(borrow)]
    runtime_class_name: Option<Text<'a>>,
    #[serde(borrow)]
    preemption_policy: Option<Text<'a>>,
    priority: Option<i32>,
    host_network: Option<bool>,
    #[serde(deserialize_with = "nullable")]
    node_selector: LabelMap,
    #[serde(deserialize_with = "nullable")]
    affinity: Affinity,
    #[serde(borrow, deserialize_with = "nullable")]
    tolerations: Vec<TolerationWire<'a>>,
    #[serde(borrow, deserialize_with = "nullable")]
    topology_spread_constraints: Vec<SpreadWire<'a>>,
    #[serde(borrow, deserialize_with = "nullable")]
    containers: Vec<ContainerWire<'a>>,
    #[serde(borrow, deserialize_with = "nullable")]
    init_containers: Vec<ContainerWire<'a>>,
    overhead: AmountsWire,
    resources: Option<Requirements>,
    #[serde(borrow, deserialize_with = "nullable")]
    volumes: Vec<VolumeWire<'a>>,
    #[serde(deserialize_with = "nullable")]
    scheduling_gates: Vec<Present>,
    #[serde(deserialize_with = "nullable")]
    resource_claims: Vec<Present>,
    workload_ref: Option<Present>,
    scheduling_group: Option<Present>,
}

/// Something of which only the presence matters.
#[derive(Debug, Default, serde::Deserialize)]
struct Present {}

#[derive(Debug, Default, serde::Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Affinity {
    node_affinity: Option<NodeAffinity>,
    pod_affinity: Option<PodAffinity>,
    pod_anti_affinity: Option<PodAffinity>,
}

#[derive(Debug, Default, serde::Deserialize)]
#[serde(default)]
struct NodeAffinity {
    #[serde(rename = "requiredDuringSchedulingIgnoredDuringExecution")]
    required: Option<NodeSelectorWire>,
}

#[derive(Debug, Default, serde::Deserialize)]
#[serde(default)]
struct PodAffinity {
    #[serde(rename = "requiredDuringSchedulingIgnoredDuringExecution", deserialize_with = "nullable")]
    required: Vec<PodTermWire>,
}

#[derive(Debug, Default, serde::Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct PodTermWire {
    topology_key: Box<str>,
    label_selector: Option<SelectorWire>,
    #[serde(deserialize_with = "nullable")]
    namespaces: Vec<Box<str>>,
    namespace_selector: Option<SelectorWire>,
}

#[derive(Debug, Default, serde::Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct TolerationWire<'a> {
    #[serde(borrow)]
    key: Option<Text<'a>>,
    #[serde(borrow)]
    operator: Option<Text<'a>>,
    #[serde(borrow)]
    value: Option<Text<'a>>,
    #[serde(borrow)]
    effect: Option<Text<'a>>,
    toleration_seconds: Option<i64>,
}

#[derive(Debug, Default, serde::Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct SpreadWire<'a> {
    topology_key: Box<str>,
    max_skew: i32,
    #[serde(borrow)]
    when_unsatisfiable: Text<'a>,
    label_selector: Option<SelectorWire>,
    #[serde(borrow, deserialize_with = "nullable")]
    match_label_keys: Vec<Text<'a>>,
    min_domains: Option<i32>,
    #[serde(borrow)]
    node_affinity_policy: Option<Text<'a>>,
    #[serde(borrow)]
    node_taints_policy: Option<Text<'a>>,
}

#[derive(Debug, Default, serde::Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct ContainerWire<'a> {
    #[serde(borrow)]
    name: Text<'a>,
    #[serde(borrow)]
    restart_policy: Option<Text<'a>>,
    resources: Option<Requirements>,
    #[serde(borrow, deserialize_with = "nullable")]
    ports: Vec<PortWire<'a>>,
}

#[derive(Debug, Default, serde::Deserialize)]
#[serde(default)]
struct Requirements {
    requests: Option<AmountsWire>,
}

#[derive(Debug, Default, serde::Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct PortWire<'a> {
    host_port: Option<u16>,
    container_port: Option<u16>,
    #[serde(borrow, rename = "hostIP")]
    host_ip: Option<Text<'a>>,
    #[serde(borrow)]
    protocol: Option<Text<'a>>,
}

#[derive(Debug, Default, serde::Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct VolumeWire<'a> {
    #[serde(borrow)]
    name: Text<'a>,
    #[serde(borrow)]
    empty_dir: Option<EmptyDir<'a>>,
    #[serde(borrow)]
    persistent_volume_claim: Option<ClaimRef<'a>>,
    ephemeral: Option<Present>,
}

#[derive(Debug, Default, serde::Deserialize)]
#[serde(default)]
struct EmptyDir<'a> {
    #[serde(borrow)]
    medium: Option<Text<'a>>,
}

#[derive(Debug, Default, serde::Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct ClaimRef<'a> {
    #[serde(borrow)]
    claim_name: Text<'a>,
}

#[derive(Debug, Default, serde::Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Status<'a> {
    #[serde(borrow)]
    phase: Option<Text<'a>>,
    #[serde(borrow)]
    nominated_node_name: Option<Text<'a>>,
    /// Says `Infeasible` on servers that do not yet report it as a condition.
    #[serde(borrow)]
    resize: Option<Text<'a>>,
    allocated_resources: Option<AmountsWire>,
    resources: Option<Requirements>,
    #[serde(borrow, deserialize_with = "nullable")]
    conditions: Vec<Condition<'a>>,
    #[serde(borrow, deserialize_with = "nullable")]
    container_statuses: Vec<ContainerStatus<'a>>,
    #[serde(borrow, deserialize_with = "nullable")]
    init_container_statuses: Vec<ContainerStatus<'a>>,
}

#[derive(Debug, Default, serde::Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct ContainerStatus<'a> {
    #[serde(borrow)]
    name: Text<'a>,
    allocated_resources: Option<AmountsWire>,
    resources: Option<Requirements>,
}

// === impl Wire ===

impl<'a> Wire<'a> {
    pub(super) fn into_view(self) -> Result<PodView<'a>, DecodeError> {
        let Self { metadata, spec, mut status } = self;
        let namespace = metadata.needed(KIND, "metadata.namespace", metadata.namespace.as_ref())?;
        let name = metadata.needed(KIND, "metadata.name", metadata.name.as_ref())?;
        let uid = metadata.needed(KIND, "metadata.uid", metadata.uid.as_ref())?;
        let revision = metadata.resource_version.as_ref().map(Text::text);
        let owner = metadata.controlling();
        let claims = spec.claims(&name);
        let node = present(spec.node_name.as_ref());
        // A scheduler's message is long and different for each Pod; only our own placeholders' is shown.
        let message = status.conditions.iter().find(|condition| condition.is("PodScheduled", "False"));
        let unschedulable = message
            .filter(|_| &*namespace == names::ROOM_NAMESPACE)
            .and_then(|condition| condition.message.as_ref())
            .map(Text::text);
        let ready = status.conditions.iter().any(|condition| condition.is("Ready", "True"));
        let phase = match status.phase.as_ref().map(|phase| &*phase.0) {
            Some("Running") => PodPhase::Running,
            Some("Succeeded") => PodPhase::Succeeded,
            Some("Failed") => PodPhase::Failed,
            Some("Unknown") => PodPhase::Unknown,
            _ => PodPhase::Pending,
        };
        let nominated = present(status.nominated_node_name.as_ref());
        let Meta { labels, annotations, .. } = metadata;
        let shape = spec.into_shape(&labels, annotations, &mut status);
        let owned = |text: &str| Cow::Owned(text.to_owned());
        Ok(PodView {
            revision,
            namespace,
            name,
            uid,
            created: metadata.creation_timestamp.unwrap_or(Timestamp::UNIX_EPOCH),
            deleted: metadata.deletion_timestamp,
            node,
            nominated,
            owner,
            phase,
            ready,
            unschedulable,
            labels: labels.iter().map(|(key, value)| (owned(key), owned(value))).collect(),
            claims,
            shape: shape.map(|text| Cow::Owned(text.to_owned())),
        })
    }
}

fn present<'a>(text: Option<&Text<'a>>) -> Option<Cow<'a, str>> {
    text.filter(|text| !text.0.is_empty()).map(Text::text)
}

// === impl Spec ===

impl<'a> Spec<'a> {
    fn claims(&self, pod: &str) -> Vec<Cow<'a, str>> {
        let claim = |volume: &VolumeWire<'a>| match (&volume.persistent_volume_claim, &volume.ephemeral) {
            (Some(claim), _) => Some(claim.claim_name.text()),
            // The claim of a generic ephemeral volume is named after the Pod and the volume.
            (None, Some(_)) => Some(Cow::Owned(format!("{pod}-{}", volume.name.0))),
            (None, None) => None,
        };
        self.volumes.iter().filter_map(claim).collect()
    }

    fn into_shape(
        self,
        labels: &LabelMap,
        mut annotations: BTreeMap<Box<str>, Box<str>>,
        status: &mut Status<'_>,
    ) -> Shape {
        let on_disk = |volume: &VolumeWire<'_>| {
            let medium = volume.empty_dir.as_ref().map(|dir| dir.medium.as_ref().map_or("", |medium| &*medium.0));
            medium.is_some_and(|medium| medium != "Memory" && !medium.starts_with("HugePages"))
        };
        let spread = self.topology_spread_constraints.into_iter().filter_map(|spread| spread.into_spread(labels));
        let terms = |affinity: Option<PodAffinity>| -> Vec<PodTerm> {
            affinity.unwrap_or_default().required.into_iter().map(PodTermWire::into_term).collect()
        };
        Shape {
            host_ports: host_ports(&self.containers, &self.init_containers, self.host_network == Some(true)),
            local_storage: self.volumes.iter().any(on_disk),
            spread: spread.collect(),
            requests: effective(&Demand {
                containers: containers(self.containers, &mut status.container_statuses),
                init_containers: containers(self.init_containers, &mut status.init_container_statuses),
                overhead: self.overhead.0,
                pod_level: requests_of(self.resources),
                pod_allocated: status.allocated_resources.take().map(|amounts| amounts.0),
                pod_actual: actual_of(status.resources.take()),
                resize_infeasible: status.resize_infeasible(),
            }),
            priority: self.priority.unwrap_or(0),
            never_preempts: self.preemption_policy.is_some_and(|policy| policy.0 == "Never"),
            scheduler: self
                .scheduler_name
                .filter(|scheduler| !scheduler.0.is_empty() && scheduler.0 != "default-scheduler")
                .map(Text::boxed),
            node_selector: equalities(self.node_selector),
            node_affinity: self
                .affinity
                .node_affinity
                .and_then(|affinity| affinity.required)
                .map(NodeSelectorWire::into_terms),
            tolerations: self.tolerations.into_iter().filter_map(TolerationWire::into_toleration).collect(),
            affinity: terms(self.affinity.pod_affinity),
            anti_affinity: terms(self.affinity.pod_anti_affinity),
            gated: !self.scheduling_gates.is_empty(),
            resource_claims: !self.resource_claims.is_empty(),
            pod_group: self.workload_ref.is_some() || self.scheduling_group.is_some() || labels.contains_key(POD_GROUP),
            runtime_class: self.runtime_class_name.filter(|class| !class.0.is_empty()).map(Text::boxed),
            do_not_disrupt: annotations.remove(names::KARPENTER_DO_NOT_DISRUPT),
            not_safe_to_evict: annotations.get(names::SAFE_TO_EVICT).is_some_and(|value| &**value == "false"),
            mirror: annotations.contains_key(MIRROR),
        }
    }
}

fn requests_of(requirements: Option<Requirements>) -> Option<Amounts> {
    requirements.and_then(|requirements| requirements.requests).map(|amounts| amounts.0)
}

/// What a status says is granted: `Some`, if empty, as soon as it says anything.
fn actual_of(resources: Option<Requirements>) -> Option<Amounts> {
    resources.map(|resources| resources.requests.unwrap_or_default().0)
}

/// Pairs containers with what their status says of them. A status is used once: names are unique in a Pod.
fn containers(specs: Vec<ContainerWire<'_>>, statuses: &mut [ContainerStatus<'_>]) -> Vec<Container> {
    let pair = |spec: ContainerWire<'_>| {
        let status = statuses.iter_mut().find(|status| status.name == spec.name).map(std::mem::take);
        let (allocated, actual) =
            status.map_or((None, None), |status| (status.allocated_resources, actual_of(status.resources)));
        Container {
            requests: requests_of(spec.resources).unwrap_or_default(),
            restartable: spec.restart_policy.is_some_and(|policy| policy.0 == "Always"),
            allocated: allocated.map(|amounts| amounts.0),
            actual,
        }
    };
    specs.into_iter().map(pair).collect()
}

/// Ports claimed on the node by what keeps running: containers and sidecars.
fn host_ports(containers: &[ContainerWire<'_>], init: &[ContainerWire<'_>], host_network: bool) -> Vec<HostPort> {
    let sidecars =
        init.iter().filter(|container| container.restart_policy.as_ref().is_some_and(|policy| policy.0 == "Always"));
    let mut ports: Vec<HostPort> = containers
        .iter()
        .chain(sidecars)
        .flat_map(|container| &container.ports)
        .filter_map(|port| {
            // The API server sets hostPort to containerPort under hostNetwork; a file written by hand may lack it.
            let claimed = port.host_port.filter(|port| *port != 0);
            let number = claimed.or(port.container_port.filter(|_| host_network)).filter(|port| *port != 0)?;
            let text = |text: &Option<Text<'_>>, default: &str| -> Box<str> {
                text.as_ref().map_or(default, |text| &*text.0).into()
            };
            Some(HostPort { protocol: text(&port.protocol, "TCP"), ip: text(&port.host_ip, ""), port: number })
        })
        .collect();
    ports.sort_unstable();
    ports.dedup();
    ports
}

// === impl Status ===

impl Status<'_> {
    fn resize_infeasible(&self) -> bool {
        let pending = self.conditions.iter().any(|condition| {
            condition.is("PodResizePending", "True")
                && condition.reason.as_ref().is_some_and(|reason| reason.0 == "Infeasible")
        });
        pending || self.resize.as_ref().is_some_and(|resize| resize.0 == "Infeasible")
    }
}

// === impl the terms ===

impl PodTermWire {
    fn into_term(self) -> PodTerm {
        let mut namespaces = self.namespaces;
        namespaces.sort_unstable();
        namespaces.dedup();
        PodTerm {
            topology_key: self.topology_key,
            selector: self.label_selector.map(SelectorWire::into_selector),
            namespaces,
            namespace_selector: self.namespace_selector.map(SelectorWire::into_selector),
        }
    }
}

impl TolerationWire<'_> {
    /// `None` for an operator or an effect that we do not know: what we cannot read tolerates nothing.
    fn into_toleration(self) -> Option<Toleration> {
        let exists = match self.operator.as_ref().map_or("", |operator| &*operator.0) {
            "Exists" => true,
            "" | "Equal" => false,
            _ => return None,
        };
        let effect = match self.effect.as_ref().map_or("", |effect| &*effect.0) {
            "" => None,
            effect => Some(taint_effect(effect)?),
        };
        Some(Toleration {
            key: self.key.unwrap_or_default().boxed(),
            exists,
            value: self.value.unwrap_or_default().boxed(),
            effect,
            seconds: self.toleration_seconds,
        })
    }
}

/// The effect with this name.
pub(super) fn taint_effect(name: &str) -> Option<TaintEffect> {
    match name {
        "NoSchedule" => Some(TaintEffect::NoSchedule),
        "PreferNoSchedule" => Some(TaintEffect::PreferNoSchedule),
        "NoExecute" => Some(TaintEffect::NoExecute),
        _ => None,
    }
}

impl SpreadWire<'_> {
    /// `None` where it is only a preference.
    fn into_spread(self, labels: &LabelMap) -> Option<Spread> {
        if self.when_unsatisfiable.0 != "DoNotSchedule" {
            return None;
        }
        let mut selector = self.label_selector.map(SelectorWire::into_selector);
        // Before 1.34 the API server does not merge matchLabelKeys into the selector of a spread constraint.
        if let Some(Selector { expressions }) = &mut selector {
            for key in &self.match_label_keys {
                if let Some(value) = labels.get(&*key.0) {
                    let values = vec![value.clone()];
                    expressions.push(Expression { key: (&*key.0).into(), operator: Operator::In, values });
                }
            }
            sort_expressions(expressions);
        }
        Some(Spread {
            topology_key: self.topology_key,
            max_skew: self.max_skew,
            selector,
            min_domains: self.min_domains.unwrap_or(1),
            ignores_affinity: self.node_affinity_policy.is_some_and(|policy| policy.0 == "Ignore"),
            honors_taints: self.node_taints_policy.is_some_and(|policy| policy.0 == "Honor"),
        })
    }
}
