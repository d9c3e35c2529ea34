//! Evictions: the only deletion that asks the PodDisruptionBudget.

use axum::response::Response;
use http::StatusCode;
use serde_json::{Value, json};

use super::{Call, Target, delete, respond};
use crate::{
    clock,
    kind::Kind,
    log::Event,
    object,
    status::{Failure, created},
    store::{Key, Store, selector::LabelSelector},
};

pub(super) fn evict(call: &Call, target: &Target) -> Result<Response, Failure> {
    let eviction = call.json()?;
    let key = target.key();
    if object::name(&eviction) != key.1 {
        return Err(Failure::bad_request("name in URL does not match name in Eviction object"));
    }
    // `delete_options`, as a client may misspell it, is an unknown field: dropped, and with it the precondition.
    let options = eviction.get("deleteOptions").cloned().unwrap_or_default();
    let dry_run = call.dry_run() || delete::dry(&options);
    evict_pod(&mut call.sim.cluster().store(), &key, &options, dry_run)?;
    Ok(respond(StatusCode::CREATED, &created()))
}

/// Evicts a Pod, for whoever asks.
pub(crate) fn evict_pod(store: &mut Store, key: &Key, options: &Value, dry_run: bool) -> Result<(), Failure> {
    let pod = store.get(Kind::Pod, &key.0, &key.1).cloned().ok_or_else(|| Failure::not_found(Kind::Pod, &key.1))?;
    if let Some(namespace) = store.get(Kind::Namespace, "", &key.0)
        && object::terminating(namespace)
    {
        return Err(Failure::namespace_terminating(Kind::Pod, &key.1, &key.0));
    }
    let spend = budget(store, &pod)?;
    // The API server spends the budget before it looks at the preconditions.
    if let (Some(budget), false) = (&spend, dry_run) {
        disrupt(store, budget, &key.1);
    }
    delete::check(Kind::Pod, &pod, options)?;
    if !dry_run {
        let now = store.now();
        store.update(Kind::Pod, key, |pod| {
            let message = "Eviction API: evicting";
            object::set_condition(pod, "DisruptionTarget", "True", "EvictionByEvictionAPI", message, now);
        });
        store.record(Event::PodEvicted { uid: object::uid(&pod).to_owned() });
        store.delete(Kind::Pod, key, object::number(options, "/gracePeriodSeconds"));
    }
    Ok(())
}

/// The budget that this eviction spends, if it needs one.
fn budget(store: &Store, pod: &Value) -> Result<Option<Key>, Failure> {
    let phase = object::text(pod, "/status/phase");
    if matches!(phase, "Succeeded" | "Failed" | "Pending") || object::terminating(pod) {
        return Ok(None);
    }
    let mut budgets = store.iter(Kind::PodDisruptionBudget).filter(|budget| {
        object::namespace(budget) == object::namespace(pod)
            && LabelSelector::of(budget.pointer("/spec/selector")).selects(pod)
    });
    let Some(budget) = budgets.next() else { return Ok(None) };
    if budgets.next().is_some() {
        return Err(Failure::two_budgets());
    }
    let status = |key: &str| object::number(budget, &format!("/status/{key}")).unwrap_or(0);
    let (current, desired) = (status("currentHealthy"), status("desiredHealthy"));
    if !object::ready(pod) {
        let always = object::text(budget, "/spec/unhealthyPodEvictionPolicy") == "AlwaysAllow";
        if always || (current >= desired && desired > 0) {
            return Ok(None);
        }
    }
    let name = object::name(budget);
    if status("observedGeneration") < object::number(budget, "/metadata/generation").unwrap_or(0) {
        return Err(Failure::budget_unprocessed(name));
    }
    if status("disruptionsAllowed") > 0 {
        return Ok(Some((object::namespace(budget).to_owned(), name.to_owned())));
    }
    let message = if current <= desired {
        format!("The disruption budget {name} needs {desired} healthy pods and has {current} currently")
    } else {
        format!("The disruption budget {name} does not allow evicting pods currently")
    };
    Err(Failure::budget(message))
}

/// Takes one from the budget at once; its controller confirms later.
fn disrupt(store: &mut Store, budget: &Key, pod: &str) {
    let now = clock::seconds(store.now());
    store.update(Kind::PodDisruptionBudget, budget, |budget| {
        let allowed = object::number(budget, "/status/disruptionsAllowed").unwrap_or(0);
        budget["status"]["disruptionsAllowed"] = json!((allowed - 1).max(0));
        budget["status"]["disruptedPods"][pod] = json!(now);
    });
}
