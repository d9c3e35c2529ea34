//! Parts of a Pod on the wire: containers, volumes, terms, tolerations.

use std::borrow::Cow;

use smallvec::SmallVec;

use crate::cache::decode::terms::{SelectorWire, sort_expressions};
use crate::cache::decode::text::{Amounts, Items, Present, Text, items, nullable};
use crate::cache::selector::{Expression, Operator, Selector, TaintEffect, Toleration};
use crate::cache::shape::{HostPort, PodTerm, Spread};

#[derive(Debug, Default, serde::Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(in crate::cache::decode) struct ContainerWire<'a> {
    #[serde(borrow)]
    pub(in crate::cache::decode) name: Text<'a>,
    #[serde(borrow)]
    pub(in crate::cache::decode) restart_policy: Text<'a>,
    #[serde(borrow)]
    pub(in crate::cache::decode) resources: Option<Requirements<'a>>,
    #[serde(borrow, deserialize_with = "items")]
    pub(in crate::cache::decode) ports: SmallVec<[PortWire<'a>; 2]>,
}

#[derive(Debug, Default, serde::Deserialize)]
#[serde(default)]
pub(in crate::cache::decode) struct Requirements<'a> {
    #[serde(borrow)]
    pub(in crate::cache::decode) requests: Option<Amounts<'a>>,
}

#[derive(Debug, Default, serde::Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(in crate::cache::decode) struct PortWire<'a> {
    #[serde(deserialize_with = "nullable")]
    pub(in crate::cache::decode) host_port: u16,
    #[serde(deserialize_with = "nullable")]
    pub(in crate::cache::decode) container_port: u16,
    #[serde(borrow, rename = "hostIP")]
    pub(in crate::cache::decode) host_ip: Text<'a>,
    #[serde(borrow)]
    pub(in crate::cache::decode) protocol: Text<'a>,
}

#[derive(Debug, Default, serde::Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(in crate::cache::decode) struct ContainerStatus<'a> {
    #[serde(borrow)]
    pub(in crate::cache::decode) name: Text<'a>,
    #[serde(borrow)]
    pub(in crate::cache::decode) allocated_resources: Option<Amounts<'a>>,
    #[serde(borrow)]
    pub(in crate::cache::decode) resources: Option<Requirements<'a>>,
}

#[derive(Debug, Default, serde::Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(in crate::cache::decode) struct VolumeWire<'a> {
    #[serde(borrow)]
    pub(in crate::cache::decode) name: Text<'a>,
    #[serde(borrow)]
    pub(in crate::cache::decode) empty_dir: Option<EmptyDir<'a>>,
    #[serde(borrow)]
    pub(in crate::cache::decode) persistent_volume_claim: Option<ClaimRef<'a>>,
    pub(in crate::cache::decode) ephemeral: Option<Present>,
}

#[derive(Debug, Default, serde::Deserialize)]
#[serde(default)]
pub(in crate::cache::decode) struct EmptyDir<'a> {
    #[serde(borrow)]
    pub(in crate::cache::decode) medium: Text<'a>,
}

#[derive(Debug, Default, serde::Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(in crate::cache::decode) struct ClaimRef<'a> {
    #[serde(borrow)]
    pub(in crate::cache::decode) claim_name: Text<'a>,
}

/// What is read off the volumes.
#[derive(Debug, Default)]
pub(in crate::cache::decode) struct Volumes<'a> {
    claims: Vec<Cow<'a, str>>,
    /// Which of the claims are the names of ephemeral volumes.
    ephemeral: Vec<usize>,
    /// There is an emptyDir whose medium is not memory.
    pub(in crate::cache::decode) on_disk: bool,
}

#[derive(Debug, Default, serde::Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(in crate::cache::decode) struct PodTermWire<'a> {
    #[serde(borrow)]
    pub(in crate::cache::decode) topology_key: Text<'a>,
    #[serde(borrow)]
    pub(in crate::cache::decode) label_selector: Option<SelectorWire<'a>>,
    #[serde(borrow, deserialize_with = "items")]
    pub(in crate::cache::decode) namespaces: Vec<Text<'a>>,
    #[serde(borrow)]
    pub(in crate::cache::decode) namespace_selector: Option<SelectorWire<'a>>,
}

/// Terms of required Pod affinity or anti-affinity.
#[derive(Debug, Default)]
pub(in crate::cache::decode) struct Terms<'a>(pub(in crate::cache::decode) Vec<PodTerm<Cow<'a, str>>>);

#[derive(Debug, Default, serde::Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(in crate::cache::decode) struct TolerationWire<'a> {
    #[serde(borrow)]
    pub(in crate::cache::decode) key: Text<'a>,
    #[serde(borrow)]
    pub(in crate::cache::decode) operator: Text<'a>,
    #[serde(borrow)]
    pub(in crate::cache::decode) value: Text<'a>,
    #[serde(borrow)]
    pub(in crate::cache::decode) effect: Text<'a>,
    pub(in crate::cache::decode) toleration_seconds: Option<i64>,
}

/// Tolerations that we know how to read.
#[derive(Debug, Default)]
pub(in crate::cache::decode) struct Tolerations<'a>(pub(in crate::cache::decode) Vec<Toleration<Cow<'a, str>>>);

#[derive(Debug, Default, serde::Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(in crate::cache::decode) struct SpreadWire<'a> {
    #[serde(borrow)]
    pub(in crate::cache::decode) topology_key: Text<'a>,
    #[serde(deserialize_with = "nullable")]
    pub(in crate::cache::decode) max_skew: i32,
    #[serde(borrow)]
    pub(in crate::cache::decode) when_unsatisfiable: Text<'a>,
    #[serde(borrow)]
    pub(in crate::cache::decode) label_selector: Option<SelectorWire<'a>>,
    #[serde(borrow, deserialize_with = "items")]
    pub(in crate::cache::decode) match_label_keys: Vec<Text<'a>>,
    pub(in crate::cache::decode) min_domains: Option<i32>,
    #[serde(borrow)]
    pub(in crate::cache::decode) node_affinity_policy: Text<'a>,
    #[serde(borrow)]
    pub(in crate::cache::decode) node_taints_policy: Text<'a>,
}

// === containers ===

impl ContainerWire<'_> {
    /// `restartPolicy: Always`: on an init container, a sidecar.
    pub(in crate::cache::decode) fn is_restartable(&self) -> bool {
        &*self.restart_policy == "Always"
    }
}

/// Ports claimed on the node by what keeps running: containers and sidecars.
pub(in crate::cache::decode) fn host_ports<'a>(
    containers: &[ContainerWire<'a>],
    init: &[ContainerWire<'a>],
    host_network: bool,
) -> Vec<HostPort<Cow<'a, str>>> {
    let sidecars = init.iter().filter(|container| container.is_restartable());
    let mut ports: Vec<_> = containers
        .iter()
        .chain(sidecars)
        .flat_map(|container| &container.ports)
        .filter_map(|port| {
            // The API server sets hostPort to containerPort under hostNetwork; a file written by hand may lack it.
            let claimed = if port.host_port == 0 && host_network { port.container_port } else { port.host_port };
            let protocol = if port.protocol.is_empty() { Cow::Borrowed("TCP") } else { port.protocol.0.clone() };
            (claimed != 0).then(|| HostPort { protocol, ip: port.host_ip.0.clone(), port: claimed })
        })
        .collect();
    ports.sort_unstable();
    ports.dedup();
    ports
}

// === volumes ===

impl<'a> Items for Volumes<'a> {
    type Item = VolumeWire<'a>;

    fn take(&mut self, item: VolumeWire<'a>) {
        if let Some(claim) = item.persistent_volume_claim {
            self.claims.push(claim.claim_name.0);
        } else if item.ephemeral.is_some() {
            self.ephemeral.push(self.claims.len());
            self.claims.push(item.name.0);
        }
        if let Some(EmptyDir { medium }) = item.empty_dir {
            self.on_disk |= &*medium != "Memory" && !medium.starts_with("HugePages");
        }
    }
}

impl<'a> Volumes<'a> {
    /// The names of the claims.
    pub(in crate::cache::decode) fn claims(self, pod: &str) -> Vec<Cow<'a, str>> {
        let Self { mut claims, ephemeral, .. } = self;
        for at in ephemeral {
            // The claim of a generic ephemeral volume is named after the Pod and the volume.
            claims[at] = Cow::Owned(format!("{pod}-{}", claims[at]));
        }
        claims
    }
}

// === terms ===

impl<'a> Items for Terms<'a> {
    type Item = PodTermWire<'a>;

    fn take(&mut self, item: PodTermWire<'a>) {
        let mut namespaces: Vec<_> = item.namespaces.into_iter().map(|namespace| namespace.0).collect();
        namespaces.sort_unstable();
        namespaces.dedup();
        self.0.push(PodTerm {
            topology_key: item.topology_key.0,
            selector: item.label_selector.map(SelectorWire::into_selector),
            namespaces,
            namespace_selector: item.namespace_selector.map(SelectorWire::into_selector),
        });
    }
}

impl<'a> Items for Tolerations<'a> {
    type Item = TolerationWire<'a>;

    fn take(&mut self, item: TolerationWire<'a>) {
        self.0.extend(item.into_toleration());
    }
}

impl<'a> TolerationWire<'a> {
    /// `None` for an operator or an effect that we do not know: what we cannot read tolerates nothing.
    fn into_toleration(self) -> Option<Toleration<Cow<'a, str>>> {
        let exists = match &*self.operator {
            "Exists" => true,
            "" | "Equal" => false,
            _ => return None,
        };
        let effect = match &*self.effect {
            "" => None,
            effect => Some(taint_effect(effect)?),
        };
        Some(Toleration { key: self.key.0, exists, value: self.value.0, effect, seconds: self.toleration_seconds })
    }
}

/// The effect with this name.
pub(in crate::cache::decode) fn taint_effect(name: &str) -> Option<TaintEffect> {
    match name {
        "NoSchedule" => Some(TaintEffect::NoSchedule),
        "PreferNoSchedule" => Some(TaintEffect::PreferNoSchedule),
        "NoExecute" => Some(TaintEffect::NoExecute),
        _ => None,
    }
}

impl<'a> SpreadWire<'a> {
    /// `None` where it is only a preference.
    pub(in crate::cache::decode) fn into_spread<'l>(
        self,
        label: impl Fn(&str) -> Option<&'l Cow<'a, str>>,
    ) -> Option<Spread<Cow<'a, str>>>
    where
        'a: 'l,
    {
        if &*self.when_unsatisfiable != "DoNotSchedule" {
            return None;
        }
        let mut selector = self.label_selector.map(SelectorWire::into_selector);
        // Before 1.34 the API server does not merge matchLabelKeys into the selector of a spread constraint.
        if let Some(Selector { expressions }) = &mut selector {
            for key in self.match_label_keys {
                if let Some(value) = label(&key) {
                    let values = vec![value.clone()];
                    expressions.push(Expression { key: key.0, operator: Operator::In, values });
                }
            }
            sort_expressions(expressions);
        }
        Some(Spread {
            topology_key: self.topology_key.0,
            max_skew: self.max_skew,
            selector,
            min_domains: self.min_domains.unwrap_or(1),
            ignores_affinity: &*self.node_affinity_policy == "Ignore",
            honors_taints: &*self.node_taints_policy == "Honor",
        })
    }
}
