//! Plans: what rotating nodes would do, and what stands in the way.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use axum::Json;
use axum::extract::State;
use futures::{StreamExt, TryStreamExt, stream};
use rotate_shared::plan::{Notice, PlanRequest};
use rotate_shared::{API_VERSION, Code, Options, Plan, PlanList, Rotation};

use super::extract::{Body, Nothing, Params};
use super::limits::PLANNED_NODES;
use super::problem::Refusal;
use super::state::Api;
use super::targets;
use crate::cache::wanted::Hold;
use crate::cache::{Node, Partition, feed};
use crate::drain::{ask, deletion};
use crate::provider::{About, ProviderObjects};
use crate::rotation::scopes;
use crate::surge::plan::{self, Planned};

/// Nodes whose volumes are read at once: a plan of a whole fleet must not flood the API server.
const AT_ONCE: usize = 4;
/// How long Pods that are read for a plan are waited for: a namespace of ten thousand takes a second or two.
const PATIENCE: Duration = Duration::from_secs(30);

/// `POST /v1/plans`.
pub(super) async fn create(
    State(api): State<Api>,
    _: Params<Nothing>,
    Body(request): Body<PlanRequest>,
) -> Result<Json<PlanList>, Refusal> {
    let options = targets::options(request.options)?;
    let nodes = {
        let state = api.state()?;
        targets::nodes(&state, &request.nodes, request.selector.as_deref(), PLANNED_NODES)?
    };
    let mut items = plan(&api, &nodes, &options).await?;
    for (node, plan) in nodes.iter().zip(&mut items) {
        plan.blockers.extend(api.views.live(&node.uid).map(|live| already_rotating(&live)));
    }
    if request.ask_evictions {
        let asked = ask::ask(&api.client, &mut items, &options).await;
        asked.map_err(|error| Refusal::new(Code::UpstreamFailed, format!("failed to {error}")))?;
    }
    Ok(Json(PlanList { api_version: API_VERSION.to_owned(), kind: "PlanList".to_owned(), items }))
}

/// Plans each node, in order, whether it is being rotated or not.
pub(super) async fn plan(api: &Api, nodes: &[Arc<Node>], options: &Options) -> Result<Vec<Plan>, Refusal> {
    let names: Vec<_> = nodes.iter().map(|node| &*node.name).collect();
    let objects = api.reader.read_about(&About { nodes: &names, ..About::default() }).await;
    let objects = &objects.map_err(|error| Refusal::upstream("read what stands behind the nodes", &error))?;
    // A `Vec` of futures: a closure in the stream would not be general enough over its lifetimes to be `Send`.
    let plans: Vec<_> = nodes.iter().map(|node| one(api, node, objects, options)).collect();
    let mut plans: Vec<Planned> = stream::iter(plans).buffered(AT_ONCE).try_collect().await?;
    let probed = api.probe.probe(&mut plans, options).await;
    probed.map_err(|error| Refusal::new(Code::UpstreamFailed, format!("failed to {error}")))?;
    let mut plans: Vec<Plan> = plans.into_iter().map(|planned| planned.plan).collect();
    deletion::check(&api.client, &mut plans, options).await;
    Ok(plans)
}

/// Has Pods read, where not all of them are.
async fn look_at(api: &Api, scopes: BTreeSet<Partition>) -> Result<Hold, Refusal> {
    api.cache.hold(scopes, PATIENCE).await.map_err(|scope| {
        let why = api.cache.health().error_of(&scope).map(|error| format!(": failed to {error}")).unwrap_or_default();
        Refusal::new(Code::NotReady, format!("the Pods of {scope} are still being read{why}"))
    })
}

async fn one(api: &Api, node: &Node, objects: &ProviderObjects, options: &Options) -> Result<Planned, Refusal> {
    // Each for as long as the plan is made.
    let _node = look_at(api, [Partition::node(&node.name)].into()).await?;
    let pods = api.state()?.pods_on(&node.name);
    let _namespaces = look_at(api, scopes::namespaces(&pods)).await?;
    let volumes = feed::volumes(&api.client, &pods).await;
    let volumes = volumes.map_err(|error| Refusal::upstream("read the volumes of the node's Pods", &error))?;
    let planned = plan::planned(&*api.state()?, &node.name, &volumes, &objects.about(node), options, api.clock.now());
    planned.ok_or_else(|| Refusal::not_found("nodes", &node.name))
}

/// What stands in the way of another rotation of a node that has one.
fn already_rotating(live: &Rotation) -> Notice {
    Notice {
        code: Code::AlreadyRotating,
        object: format!("rotation/{}", live.id),
        message: "rotates this node already".to_owned(),
        remedy: format!("follow it with: kubectl rotate status {} -w", live.id),
    }
}
