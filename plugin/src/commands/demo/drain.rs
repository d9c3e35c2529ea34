//! What `kubectl drain` does, in a few lines: cordon, ask for every eviction, ask again after five seconds.

use std::time::Duration;

use futures::StreamExt;
use k8s_openapi::api::core::v1::{Node, Pod};
use k8s_openapi::api::policy::v1::Eviction;
use kube::api::{Api, ListParams, Patch, PatchParams};
use kube::{Client, ResourceExt};
use rotate_agent::clock::Clock;
use rotate_sim::Figures;
use serde_json::json;

use super::act::{self, Teller};
use super::world::{CANDIDATE, World};
use crate::failure::Failure;

/// As in kubectl.
const RETRY: Duration = Duration::from_secs(5);
/// Between two looks at whether a Pod is gone, as in kubectl.
const LOOK: Duration = Duration::from_secs(1);

/// Drains the candidate and waits until the workload is whole again.
pub(super) async fn drain(world: &World, clock: Clock, tell: Teller<'_>) -> Result<Figures, Failure> {
    let client = world.client();
    let work = async move {
        plain(&client, clock).await.map_err(|error| Failure::Other(format!("drain the simulated node: {error}")))?;
        Ok(Some(format!("{CANDIDATE} is empty, kubectl drain is done. That is not yet the end of it:")))
    };
    act::told(world, futures::stream::once(work).boxed(), tell).await
}

async fn plain(client: &Client, clock: Clock) -> kube::Result<()> {
    let nodes: Api<Node> = Api::all(client.clone());
    let cordon = json!({"spec": {"unschedulable": true}});
    nodes.patch(CANDIDATE, &PatchParams::default(), &Patch::Merge(&cordon)).await?;
    let everywhere: Api<Pod> = Api::all(client.clone());
    let here = ListParams::default().fields(&format!("spec.nodeName={CANDIDATE}"));
    let mut left: Vec<Pod> = everywhere.list(&here).await?.items;
    left.retain(|pod| !pod.owner_references().iter().any(|owner| owner.kind == "DaemonSet"));
    let mut going = Vec::new();
    while !left.is_empty() {
        let mut refused = Vec::new();
        for pod in left {
            if evicted(client, &pod).await? {
                going.push(pod);
            } else {
                refused.push(pod);
            }
        }
        left = refused;
        if !left.is_empty() {
            clock.sleep(RETRY).await;
        }
    }
    for pod in going {
        let pods: Api<Pod> = Api::namespaced(client.clone(), &pod.namespace().unwrap_or_default());
        while pods.get_opt(&pod.name_any()).await?.is_some_and(|found| found.uid() == pod.uid()) {
            clock.sleep(LOOK).await;
        }
    }
    Ok(())
}

/// Whether the API server let it go; `false` where a PodDisruptionBudget has nothing to give.
async fn evicted(client: &Client, pod: &Pod) -> kube::Result<bool> {
    let pods: Api<Pod> = Api::namespaced(client.clone(), &pod.namespace().unwrap_or_default());
    let mut eviction = Eviction::default();
    eviction.metadata.name = Some(pod.name_any());
    eviction.metadata.namespace = pod.namespace();
    let params = kube::api::PostParams::default();
    let created: kube::Result<serde_json::Value> =
        pods.create_subresource("eviction", &pod.name_any(), &params, &eviction).await;
    match created {
        Ok(_) => Ok(true),
        Err(kube::Error::Api(status)) if status.code == 429 => Ok(false),
        Err(kube::Error::Api(status)) if status.code == 404 => Ok(true),
        Err(error) => Err(error),
    }
}
