//! Whether ResourceQuotas leave room for all placeholders together: a dry run sees one of them at a time.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{ResourceQuota, ResourceQuotaSpec, ScopedResourceSelectorRequirement};
use kube::ResourceExt;
use rotate_shared::plan::Notice;
use rotate_shared::{Code, Quantity, names};

use crate::cache::Resources;
use crate::surge::plan::Rooms;

/// What the quotas are too small for.
pub(super) fn short(quotas: &[ResourceQuota], rooms: &[Rooms<'_>]) -> Vec<Notice> {
    quotas.iter().filter_map(|quota| short_of(quota, rooms)).collect()
}

fn short_of(quota: &ResourceQuota, rooms: &[Rooms<'_>]) -> Option<Notice> {
    let spec = quota.spec.clone().unwrap_or_default();
    let counted: Vec<_> = rooms.iter().filter(|rooms| counts(&spec, rooms)).collect();
    let mut need: BTreeMap<String, Quantity> = BTreeMap::new();
    for rooms in counted {
        for _ in 0..rooms.count {
            for (name, amount) in charged(&rooms.class.requests) {
                let sum = need.entry(name).or_insert(Quantity::ZERO);
                *sum = *sum + amount;
            }
        }
    }
    let status = quota.status.clone().unwrap_or_default();
    let used = status.used.unwrap_or_default();
    let parse = |text: &str| text.parse::<Quantity>().unwrap_or(Quantity::ZERO);
    // What the controller has not counted yet is taken from what was asked for.
    let hard = status.hard.filter(|hard| !hard.is_empty()).or(spec.hard).unwrap_or_default();
    let short = hard.iter().filter_map(|(name, hard)| {
        let (need, hard) = (*need.get(name)?, parse(&hard.0));
        let used = used.get(name).map_or(Quantity::ZERO, |used| parse(&used.0));
        (used + need > hard).then(|| format!("{name} is {hard}, {used} are used and {need} are needed"))
    });
    let short: Vec<_> = short.collect();
    if short.is_empty() {
        return None;
    }
    let (room, name) = (names::ROOM_NAMESPACE, quota.name_any());
    Some(Notice {
        code: Code::PlaceholderRefused,
        object: format!("ResourceQuota {room}/{name}"),
        message: format!("has no room for all placeholders: {}", short.join("; ")),
        remedy: format!("kubectl -n {room} delete resourcequota {name}; or raise it"),
    })
}

/// What a Pod with these requests is charged, under every name that quotas have for it.
fn charged(requests: &Resources) -> Vec<(String, Quantity)> {
    let one = Quantity::from_units(1);
    let mut charged = vec![("pods".to_owned(), one), ("count/pods".to_owned(), one)];
    for (name, amount) in requests.to_amounts() {
        if matches!(name.as_str(), "cpu" | "memory" | "ephemeral-storage") || name.starts_with("hugepages-") {
            charged.push((name.clone(), amount));
        }
        charged.push((format!("requests.{name}"), amount));
    }
    charged
}

/// Whether a quota counts such a placeholder: all of its scopes must hold.
fn counts(spec: &ResourceQuotaSpec, rooms: &Rooms<'_>) -> bool {
    let selected = spec.scope_selector.iter().flat_map(|selector| selector.match_expressions.iter().flatten());
    spec.scopes.iter().flatten().all(|scope| in_scope(scope, rooms))
        && selected.into_iter().all(|requirement| meets(requirement, rooms))
}

fn in_scope(scope: &str, rooms: &Rooms<'_>) -> bool {
    // Placeholders have no limits on CPU and memory: without requests they are best effort.
    let best_effort = rooms.class.requests.milli_cpu == 0 && rooms.class.requests.memory == 0;
    match scope {
        "NotTerminating" => false,
        "BestEffort" => best_effort,
        "NotBestEffort" => !best_effort,
        "CrossNamespacePodAffinity" => {
            let placement = &rooms.class.placement;
            let mut terms = placement.anti_affinity.iter().chain(&placement.affinity);
            terms.any(|term| !term.namespaces.is_empty() || term.namespace_selector.is_some())
        }
        // `Terminating`: they all have a deadline. What is not known counts, to be safe.
        _ => true,
    }
}

fn meets(requirement: &ScopedResourceSelectorRequirement, rooms: &Rooms<'_>) -> bool {
    if requirement.scope_name != "PriorityClass" {
        return in_scope(&requirement.scope_name, rooms);
    }
    let ours = requirement.values.iter().flatten().any(|value| value == names::PRIORITY_CLASS);
    match requirement.operator.as_str() {
        "In" => ours,
        "NotIn" => !ours,
        "DoesNotExist" => false,
        _ => true,
    }
}
