//! Whether Pods may be deleted past the Eviction API, as `--disable-eviction` asks: the agent's own rights, those of the
//! manifests, do not go so far, and it is to be known before anything is touched.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use kube::Client;
use rotate_shared::plan::Notice;
use rotate_shared::{Code, Options, Plan};

use crate::access;

/// It is an answer out of memory.
const PATIENCE: Duration = Duration::from_secs(5);

/// Adds to each plan what its Pods may not be deleted by. Where the API server does not say, it will when they are.
pub async fn check(client: &Client, plans: &mut [Plan], options: &Options) {
    if !options.disable_eviction {
        return;
    }
    let namespaces: BTreeSet<String> = plans.iter().flat_map(of_pods_to_delete).collect();
    if namespaces.is_empty() || may_delete(client, None).await != Some(false) {
        return;
    }
    let mut may = BTreeMap::new();
    for namespace in namespaces {
        let allowed = may_delete(client, Some(&namespace)).await.unwrap_or(true);
        may.insert(namespace, allowed);
    }
    for plan in plans {
        let forbidden = of_pods_to_delete(plan).into_iter().filter(|namespace| may.get(namespace) == Some(&false));
        plan.blockers.extend(forbidden.map(|namespace| blocker(&namespace)));
    }
}

fn of_pods_to_delete(plan: &Plan) -> BTreeSet<String> {
    plan.pods.iter().filter(|pod| pod.is_to_evict()).map(|pod| pod.namespace.clone()).collect()
}

fn blocker(namespace: &str) -> Notice {
    Notice {
        code: Code::EvictionRefused,
        object: format!("Namespace {namespace}"),
        message: "the agent may evict Pods there, and not delete them as --disable-eviction asks".to_owned(),
        remedy:
            "leave --disable-eviction out, or let the agent delete Pods there: the runbook has the commands, under \
                 EvictionRefused"
                .to_owned(),
    }
}

/// Whether we may delete Pods, everywhere or in a namespace; `None`: the API server does not say.
async fn may_delete(client: &Client, namespace: Option<&str>) -> Option<bool> {
    match tokio::time::timeout(PATIENCE, access::may(client, "delete", "", "pods", namespace)).await {
        Ok(Ok(allowed)) => allowed,
        Ok(Err(error)) => {
            tracing::debug!(%error, "whether Pods may be deleted is not known");
            None
        }
        Err(_) => None,
    }
}
