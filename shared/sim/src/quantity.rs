//! Quantities and effective requests, by this crate's own few lines so that a test can compare them with the agent's.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::object;

/// Amounts by resource: milli-CPU, and whole units of everything else.
pub type Amounts = BTreeMap<String, i64>;

/// In billionths, rounded up; `None` where it is not a quantity.
pub(crate) fn nanos(text: &str) -> Option<i128> {
    let (sign, text) = match text.as_bytes().first()? {
        b'-' => (-1, &text[1..]),
        b'+' => (1, &text[1..]),
        _ => (1, text),
    };
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, suffix) = text.split_at(end);
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    if (whole.is_empty() && fraction.is_empty()) || fraction.contains('.') {
        return if suffix == "m" && number.is_empty() { Some(0) } else { None };
    }
    let digits: i128 = format!("{whole}{fraction}").parse().ok()?;
    let scale = 10_i128.checked_pow(u32::try_from(fraction.len()).ok()?)?;
    let (times, over) = factor(suffix)?;
    let value = digits.checked_mul(times)?.checked_mul(1_000_000_000)?;
    let divisor = scale.checked_mul(over)?;
    Some(sign * ((value + divisor - 1) / divisor))
}

/// Numerator and denominator of a suffix.
fn factor(suffix: &str) -> Option<(i128, i128)> {
    Some(match suffix {
        "" => (1, 1),
        "n" => (1, 1_000_000_000),
        "u" => (1, 1_000_000),
        "m" => (1, 1000),
        "k" => (1000, 1),
        "M" => (1_000_000, 1),
        "G" => (1_000_000_000, 1),
        "T" => (1_000_000_000_000, 1),
        "P" => (1_000_000_000_000_000, 1),
        "E" => (1_000_000_000_000_000_000, 1),
        "Ki" => (1 << 10, 1),
        "Mi" => (1 << 20, 1),
        "Gi" => (1 << 30, 1),
        "Ti" => (1 << 40, 1),
        "Pi" => (1 << 50, 1),
        "Ei" => (1 << 60, 1),
        exponent => {
            let power: i32 = exponent.strip_prefix(['e', 'E'])?.parse().ok()?;
            let ten = 10_i128.checked_pow(power.unsigned_abs())?;
            if power < 0 { (1, ten) } else { (ten, 1) }
        }
    })
}

/// As the scheduler counts it: `cpu` in thousandths, the rest in units, rounded up.
pub(crate) fn amount(resource: &str, value: &Value) -> i64 {
    let text = match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    };
    let unit = if resource == "cpu" { 1_000_000 } else { 1_000_000_000 };
    let nanos = nanos(&text).unwrap_or(0);
    i64::try_from((nanos + unit - 1).div_euclid(unit)).unwrap_or(i64::MAX)
}

/// A map of quantities.
pub(crate) fn amounts(value: Option<&Value>) -> Amounts {
    let map = value.and_then(Value::as_object);
    map.into_iter().flatten().map(|(resource, value)| (resource.clone(), amount(resource, value))).collect()
}

pub(crate) fn add(sum: &mut Amounts, more: &Amounts) {
    for (resource, amount) in more {
        *sum.entry(resource.clone()).or_default() += amount;
    }
}

fn raise(sum: &mut Amounts, other: &Amounts) {
    for (resource, amount) in other {
        let present = sum.entry(resource.clone()).or_default();
        *present = (*present).max(*amount);
    }
}

/// What a Pod takes from its node, as the scheduler counts it.
#[must_use]
pub fn requests(pod: &Value) -> Amounts {
    let statuses = |list: &str| object::list(pod, list);
    let infeasible = object::list(pod, "/status/conditions")
        .iter()
        .any(|c| c["type"] == "PodResizePending" && c["reason"] == "Infeasible");
    let of = |container: &Value, list: &str| {
        let mut asked = amounts(container.pointer("/resources/requests"));
        if let Some(status) = statuses(list).iter().find(|status| status["name"] == container["name"]) {
            let mut held = amounts(status.get("allocatedResources"));
            raise(&mut held, &amounts(status.pointer("/resources/requests")));
            if !held.is_empty() {
                if infeasible {
                    asked = held;
                } else {
                    raise(&mut asked, &held);
                }
            }
        }
        asked
    };
    let mut total = Amounts::new();
    for container in object::list(pod, "/spec/containers") {
        add(&mut total, &of(container, "/status/containerStatuses"));
    }
    let (mut sidecars, mut peak) = (Amounts::new(), Amounts::new());
    for container in object::list(pod, "/spec/initContainers") {
        let asked = of(container, "/status/initContainerStatuses");
        if container["restartPolicy"] == "Always" {
            add(&mut total, &asked);
            add(&mut sidecars, &asked);
            raise(&mut peak, &sidecars);
        } else {
            let mut while_it_runs = sidecars.clone();
            add(&mut while_it_runs, &asked);
            raise(&mut peak, &while_it_runs);
        }
    }
    raise(&mut total, &peak);
    for (resource, amount) in amounts(pod.pointer("/spec/resources/requests")) {
        if matches!(resource.as_str(), "cpu" | "memory") || resource.starts_with("hugepages-") {
            total.insert(resource, amount);
        }
    }
    add(&mut total, &amounts(pod.pointer("/spec/overhead")));
    total
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn quantities_are_exact_and_round_up() {
        for (text, expected) in [
            ("2.5Gi", Some(2_684_354_560)),
            ("0.1Gi", Some(107_374_183)),
            (".5", Some(1)),
            ("100m", Some(1)),
            ("1E", Some(1_000_000_000_000_000_000)),
            ("12E6", Some(12_000_000)),
            ("1e-3", Some(1)),
        ] {
            assert_eq!(nanos(text).map(|n| (n + 999_999_999) / 1_000_000_000), expected, "{text}");
        }
        for text in ["1K", "1Zi", "1mi", "0x10", ""] {
            assert_eq!(nanos(text), None, "{text}");
        }
        assert_eq!(amount("cpu", &json!("100m")), 100);
        assert_eq!(amount("cpu", &json!(2)), 2000);
    }

    #[test]
    fn a_sidecar_counts_beside_the_app_and_below_later_init_containers() {
        let container = |cpu: &str| json!({"resources": {"requests": {"cpu": cpu}}});
        let mut sidecar = container("200m");
        sidecar["restartPolicy"] = json!("Always");
        let pod = json!({"spec": {"containers": [container("500m")], "initContainers": [sidecar, container("1")]}});
        assert_eq!(requests(&pod)["cpu"], 1200);
    }
}
