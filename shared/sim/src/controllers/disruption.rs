//! PodDisruptionBudgets: how many Pods may go.

use std::{collections::HashMap, sync::Arc, time::Duration};

use jiff::Timestamp;
use serde_json::{Map, Value, json};

use super::{key, replicas};
use crate::{
    clock,
    kind::Kind,
    object,
    store::{Store, selector::LabelSelector},
};

/// How long an eviction is believed to be under way.
const UNDER_WAY: Duration = Duration::from_secs(120);

/// The numbers of a budget.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Numbers {
    pub(super) expected: i64,
    pub(super) desired: i64,
    pub(super) healthy: i64,
    pub(super) allowed: i64,
}

pub(super) fn reconcile(store: &mut Store) -> Option<Timestamp> {
    let now = store.now();
    let budgets: Vec<Arc<Value>> = store.iter(Kind::PodDisruptionBudget).cloned().collect();
    if budgets.is_empty() {
        return None;
    }
    let mut scales: HashMap<String, i64> = HashMap::new();
    for kind in [Kind::ReplicaSet, Kind::StatefulSet] {
        for owner in store.iter(kind) {
            scales.insert(object::uid(owner).to_owned(), i64::try_from(replicas(owner)).unwrap_or(i64::MAX));
        }
    }
    let mut wake: Option<Timestamp> = None;
    for budget in &budgets {
        let selector = LabelSelector::of(budget.pointer("/spec/selector"));
        let pods: Vec<&Arc<Value>> = store
            .iter(Kind::Pod)
            .filter(|pod| object::namespace(pod) == object::namespace(budget) && selector.selects(pod))
            .collect();
        let (disrupted, until) = under_way(budget, &pods, now);
        let numbers = numbers(budget, &pods, &scales, &disrupted);
        if let Some(until) = until {
            wake = Some(wake.map_or(until, |at| at.min(until)));
        }
        write(store, budget, numbers, disrupted, now);
    }
    wake
}

/// Evictions that the API server let through and whose Pods are not gone yet; and when the first is no longer believed.
fn under_way(budget: &Value, pods: &[&Arc<Value>], now: Timestamp) -> (Map<String, Value>, Option<Timestamp>) {
    let mut disrupted = Map::new();
    let mut until = None;
    for (name, since) in object::map(budget, "/status/disruptedPods").into_iter().flatten() {
        let end = since.as_str().and_then(clock::parse).map(|since| clock::after(since, UNDER_WAY));
        let there = pods.iter().any(|pod| object::name(pod) == name && !object::terminating(pod));
        if let Some(end) = end.filter(|end| there && *end > now) {
            until = Some(until.map_or(end, |at: Timestamp| at.min(end)));
            disrupted.insert(name.clone(), since.clone());
        }
    }
    (disrupted, until)
}

fn numbers(
    budget: &Value,
    pods: &[&Arc<Value>],
    scales: &HashMap<String, i64>,
    disrupted: &Map<String, Value>,
) -> Numbers {
    let count = |n: usize| i64::try_from(n).unwrap_or(i64::MAX);
    let mut owners: Vec<&str> = pods.iter().map(|pod| object::controller_uid(pod)).collect();
    owners.sort_unstable();
    owners.dedup();
    let scale: i64 = owners.iter().filter_map(|owner| scales.get(*owner)).sum();
    let (expected, desired) = match (budget["spec"].get("maxUnavailable"), budget["spec"].get("minAvailable")) {
        (Some(max), _) => (scale, (scale - share(max, scale)).max(0)),
        (None, Some(Value::Number(min))) => (count(pods.len()), min.as_i64().unwrap_or(0)),
        (None, Some(min)) => (scale, share(min, scale)),
        (None, None) => (count(pods.len()), 0),
    };
    let healthy = pods
        .iter()
        .filter(|pod| !object::terminating(pod) && !disrupted.contains_key(object::name(pod)) && object::ready(pod));
    let healthy = count(healthy.count());
    let allowed = if expected <= 0 { 0 } else { (healthy - desired).max(0) };
    Numbers { expected, desired, healthy, allowed }
}

/// A number, or a percentage of `of` rounded up.
fn share(value: &Value, of: i64) -> i64 {
    if let Some(number) = value.as_i64() {
        return number;
    }
    let percent = value.as_str().and_then(|text| text.strip_suffix('%')).and_then(|text| text.parse::<i64>().ok());
    percent.map_or(0, |percent| (of * percent + 99) / 100)
}

fn write(store: &mut Store, budget: &Value, numbers: Numbers, disrupted: Map<String, Value>, now: Timestamp) {
    store.update(Kind::PodDisruptionBudget, &key(budget), |object| {
        let status = &mut object["status"];
        status["currentHealthy"] = json!(numbers.healthy);
        status["desiredHealthy"] = json!(numbers.desired);
        status["expectedPods"] = json!(numbers.expected);
        status["disruptionsAllowed"] = json!(numbers.allowed);
        status["observedGeneration"] = budget["metadata"]["generation"].clone();
        if disrupted.is_empty() {
            object::remove(object, "/status", "disruptedPods");
        } else {
            status["disruptedPods"] = Value::Object(disrupted);
        }
        let (status, reason) =
            if numbers.allowed > 0 { ("True", "SufficientPods") } else { ("False", "InsufficientPods") };
        object::set_condition(object, "DisruptionAllowed", status, reason, "", now);
        let conditions = object["status"]["conditions"].as_array_mut().expect("one was just set");
        for condition in conditions {
            condition["message"] = json!("");
            condition["observedGeneration"] = budget["metadata"]["generation"].clone();
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_numbers_or_percentages_rounded_up() {
        for (value, of, expected) in
            [(json!(2), 10, 2), (json!("50%"), 7, 4), (json!("100%"), 3, 3), (json!("0%"), 9, 0)]
        {
            assert_eq!(share(&value, of), expected, "{value} of {of}");
        }
    }
}
