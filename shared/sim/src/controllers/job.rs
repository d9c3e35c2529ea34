//! Jobs: Pods until enough of them succeeded.

use std::sync::Arc;

use jiff::Timestamp;
use serde_json::{Value, json};

use super::{create, key, pod_of, pods_by_owner, report};
use crate::{kind::Kind, object, store::Store};

pub(super) fn reconcile(store: &mut Store) -> Option<Timestamp> {
    let now = store.now();
    let jobs: Vec<Arc<Value>> = store.iter(Kind::Job).cloned().collect();
    let owned = pods_by_owner(store);
    for job in jobs.iter().filter(|job| !object::terminating(job) && !over(job)) {
        let pods = owned.get(object::uid(job)).map_or(&[][..], Vec::as_slice);
        let number = |path: &str, default: usize| {
            object::number(job, path).and_then(|n| usize::try_from(n).ok()).unwrap_or(default)
        };
        let phase = |phase: &str| pods.iter().filter(|pod| object::text(pod, "/status/phase") == phase).count();
        let active = pods.iter().filter(|pod| object::active(pod)).count();
        let succeeded = phase("Succeeded").max(number("/status/succeeded", 0));
        let failed = phase("Failed").max(number("/status/failed", 0));
        let completions = number("/spec/completions", 1);
        report(store, Kind::Job, job, &json!({"active": active, "succeeded": succeeded, "failed": failed}));
        let end = if succeeded >= completions {
            Some(("Complete", ""))
        } else if failed > number("/spec/backoffLimit", 6) {
            Some(("Failed", "BackoffLimitExceeded"))
        } else {
            None
        };
        if let Some((condition, reason)) = end {
            store.update(Kind::Job, &key(job), |job| object::set_condition(job, condition, "True", reason, "", now));
            continue;
        }
        let wanted = number("/spec/parallelism", 1).min(completions - succeeded);
        for _ in active..wanted {
            create(store, Kind::Pod, pod_of(job));
        }
    }
    None
}

fn over(job: &Value) -> bool {
    ["Complete", "Failed"].iter().any(|condition| object::condition(job, condition) == Some("True"))
}
