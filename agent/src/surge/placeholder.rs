//! Placeholders: low-priority Pods that hold room until the workload takes it.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{
    Affinity, Capabilities, Container, ContainerPort, NodeAffinity, NodeSelector, NodeSelectorRequirement,
    NodeSelectorTerm, Pod as ApiPod, PodAffinity, PodAffinityTerm, PodAntiAffinity, PodSecurityContext, PodSpec,
    ResourceRequirements, SeccompProfile, SecurityContext, Toleration as ApiToleration,
};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity as ApiQuantity;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, LabelSelectorRequirement, ObjectMeta};
use rotate_shared::{Amounts, Options, names};

use super::constraints::Placement;
use crate::cache::Resources;
use crate::cache::selector::{Expression, NodeTerm, Selector, TaintEffect, Toleration};
use crate::cache::shape::{HostPort, PodTerm};

/// Any user but root: an image that names none would be refused by `runAsNonRoot`.
const NOBODY: i64 = 65532;

/// A placeholder to be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Placeholder {
    /// Its name, see [`rotate_shared::names::placeholder_name`].
    pub name: String,
    /// The rotation it belongs to.
    pub rotation: String,
    /// The class of the Pod.
    pub class: String,
    /// The UID of the Pod.
    pub pod_uid: String,
    /// Effective requests of the Pod.
    pub requests: Resources,
    /// Where it may be.
    pub placement: Placement,
    /// Seconds after which the kubelet ends it, so that leftovers end without us.
    pub deadline_seconds: i64,
    /// The image it pauses in: started with the argument `pause`, which the agent's own image understands and a plain
    /// pause image ignores.
    pub image: String,
}

/// Seconds after which a placeholder ends by itself. It outlives every wait of its rotation by an hour, so that one that is
/// held for long by a closed budget is not lost, and one that we forget ends. The API server takes 31 bits.
#[must_use]
pub fn deadline_seconds(options: &Options) -> i64 {
    let waits = options.surge_timeout_seconds.saturating_add(options.settle_timeout_seconds);
    i32::try_from(waits.saturating_add(3600)).unwrap_or(i32::MAX).into()
}

/// The object to create. It has no owner reference: nothing in the cluster outlives a rotation that could own it, and
/// the deadline ends it.
#[must_use]
pub fn manifest(placeholder: &Placeholder) -> ApiPod {
    let placement = &placeholder.placement;
    let mut labels: BTreeMap<_, _> =
        placement.labels.iter().map(|(key, value)| (key.to_string(), value.to_string())).collect();
    labels.extend([
        (names::ROTATION.to_owned(), placeholder.rotation.clone()),
        (names::CLASS.to_owned(), placeholder.class.clone()),
        (names::POD_UID.to_owned(), placeholder.pod_uid.clone()),
    ]);
    // A node that holds only placeholders looks empty to the autoscalers.
    let annotations = BTreeMap::from([
        (names::KARPENTER_DO_NOT_DISRUPT.to_owned(), "true".to_owned()),
        (names::SAFE_TO_EVICT.to_owned(), "false".to_owned()),
    ]);
    ApiPod {
        metadata: ObjectMeta {
            name: Some(placeholder.name.clone()),
            namespace: Some(names::ROOM_NAMESPACE.to_owned()),
            labels: Some(labels),
            annotations: Some(annotations),
            ..ObjectMeta::default()
        },
        spec: Some(PodSpec {
            active_deadline_seconds: Some(placeholder.deadline_seconds),
            affinity: affinity(placement),
            automount_service_account_token: Some(false),
            containers: vec![container(placeholder)],
            enable_service_links: Some(false),
            node_selector: node_selector(&placement.node_selector),
            // Both as the class has them: where it has become another one since the plan, the API server refuses a
            // placeholder that could preempt what runs, and not make room for what is to come.
            preemption_policy: Some("Never".to_owned()),
            priority: Some(names::PLACEHOLDER_PRIORITY),
            priority_class_name: Some(names::PRIORITY_CLASS.to_owned()),
            security_context: Some(PodSecurityContext {
                run_as_non_root: Some(true),
                run_as_user: Some(NOBODY),
                run_as_group: Some(NOBODY),
                seccomp_profile: Some(SeccompProfile {
                    type_: "RuntimeDefault".to_owned(),
                    ..SeccompProfile::default()
                }),
                ..PodSecurityContext::default()
            }),
            // Whoever preempts it should not wait for it.
            termination_grace_period_seconds: Some(0),
            tolerations: some(placement.tolerations.iter().map(toleration).collect()),
            ..PodSpec::default()
        }),
        status: None,
    }
}

fn container(placeholder: &Placeholder) -> Container {
    Container {
        name: "room".to_owned(),
        image: Some(placeholder.image.clone()),
        args: Some(vec!["pause".to_owned()]),
        ports: some(placeholder.placement.host_ports.iter().map(port).collect()),
        resources: Some(resources(&placeholder.requests)),
        security_context: Some(SecurityContext {
            allow_privilege_escalation: Some(false),
            capabilities: Some(Capabilities { add: None, drop: Some(vec!["ALL".to_owned()]) }),
            read_only_root_filesystem: Some(true),
            ..SecurityContext::default()
        }),
        ..Container::default()
    }
}

/// Extended resources and huge pages cannot be overcommitted: the API server demands limits equal to the requests.
fn resources(requests: &Resources) -> ResourceRequirements {
    let written = |amounts: Amounts| -> Option<BTreeMap<String, ApiQuantity>> {
        let amounts: BTreeMap<_, _> =
            amounts.into_iter().map(|(name, amount)| (name, ApiQuantity(amount.to_string()))).collect();
        Some(amounts).filter(|amounts| !amounts.is_empty())
    };
    let limits = Resources { other: requests.other.clone(), ..Resources::default() };
    ResourceRequirements {
        requests: written(requests.to_amounts()),
        limits: written(limits.to_amounts()),
        ..ResourceRequirements::default()
    }
}

fn port(port: &HostPort) -> ContainerPort {
    ContainerPort {
        container_port: i32::from(port.port),
        host_port: Some(i32::from(port.port)),
        host_ip: Some(port.ip.to_string()).filter(|ip| !ip.is_empty()),
        protocol: Some(port.protocol.to_string()),
        ..ContainerPort::default()
    }
}

fn affinity(placement: &Placement) -> Option<Affinity> {
    let node_affinity = placement.node_affinity.as_ref().map(|terms| NodeAffinity {
        required_during_scheduling_ignored_during_execution: Some(NodeSelector {
            node_selector_terms: terms.iter().map(node_term).collect(),
        }),
        ..NodeAffinity::default()
    });
    let terms: Option<Vec<_>> = some(placement.anti_affinity.iter().map(pod_term).collect());
    let pod_anti_affinity = terms.map(|terms| PodAntiAffinity {
        required_during_scheduling_ignored_during_execution: Some(terms),
        ..PodAntiAffinity::default()
    });
    let terms: Option<Vec<_>> = some(placement.affinity.iter().map(pod_term).collect());
    let pod_affinity = terms.map(|terms| PodAffinity {
        required_during_scheduling_ignored_during_execution: Some(terms),
        ..PodAffinity::default()
    });
    let affinity = Affinity { node_affinity, pod_affinity, pod_anti_affinity };
    (affinity != Affinity::default()).then_some(affinity)
}

fn node_selector(expressions: &[Expression]) -> Option<BTreeMap<String, String>> {
    let pairs = expressions.iter().filter_map(|expression| {
        expression.values.first().map(|value| (expression.key.to_string(), value.to_string()))
    });
    let selector: BTreeMap<_, _> = pairs.collect();
    Some(selector).filter(|selector| !selector.is_empty())
}

fn node_term(term: &NodeTerm) -> NodeSelectorTerm {
    let requirements = |expressions: &[Expression]| {
        let requirement = |expression: &Expression| NodeSelectorRequirement {
            key: expression.key.to_string(),
            operator: format!("{:?}", expression.operator),
            values: strings(&expression.values),
        };
        some(expressions.iter().map(requirement).collect())
    };
    NodeSelectorTerm { match_expressions: requirements(&term.expressions), match_fields: requirements(&term.fields) }
}

fn pod_term(term: &PodTerm) -> PodAffinityTerm {
    PodAffinityTerm {
        label_selector: term.selector.as_ref().map(label_selector),
        namespaces: strings(&term.namespaces),
        namespace_selector: term.namespace_selector.as_ref().map(label_selector),
        topology_key: term.topology_key.to_string(),
        ..PodAffinityTerm::default()
    }
}

fn label_selector(selector: &Selector) -> LabelSelector {
    let requirement = |expression: &Expression| LabelSelectorRequirement {
        key: expression.key.to_string(),
        operator: format!("{:?}", expression.operator),
        values: strings(&expression.values),
    };
    LabelSelector {
        match_expressions: some(selector.expressions.iter().map(requirement).collect()),
        match_labels: None,
    }
}

fn toleration(toleration: &Toleration) -> ApiToleration {
    let text = |text: &str| Some(text.to_owned()).filter(|text| !text.is_empty());
    ApiToleration {
        key: text(&toleration.key),
        operator: Some(if toleration.exists { "Exists" } else { "Equal" }.to_owned()),
        value: text(&toleration.value),
        effect: toleration.effect.map(|effect| {
            match effect {
                TaintEffect::NoSchedule => "NoSchedule",
                TaintEffect::PreferNoSchedule => "PreferNoSchedule",
                TaintEffect::NoExecute => "NoExecute",
            }
            .to_owned()
        }),
        toleration_seconds: toleration.seconds,
    }
}

fn strings(values: &[Box<str>]) -> Option<Vec<String>> {
    some(values.iter().map(ToString::to_string).collect())
}

/// An empty list is left out.
fn some<T>(list: Vec<T>) -> Option<Vec<T>> {
    Some(list).filter(|list| !list.is_empty())
}

#[cfg(test)]
mod tests;
