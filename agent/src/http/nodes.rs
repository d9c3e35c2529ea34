//! The fleet: each node with its sums.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use rotate_shared::{API_VERSION, NodeList, NodeSummary};
use serde::Deserialize;

use super::extract::{NodeName, Params};
use super::problem::Refusal;
use super::state::Api;
use super::targets;
use crate::cache::index::Tally;
use crate::cache::{self, Kind, Node};
use crate::provider::{self, ProviderObjects};

/// Which nodes.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Filter {
    /// A label selector; all nodes without one.
    selector: Option<String>,
}

/// Nodes that are told of under one lock: some hundred microseconds in which neither the feeds nor the engine go on.
const AT_ONCE: usize = 64;

/// `GET /v1/nodes`.
pub(super) async fn list(
    State(api): State<Arc<Api>>,
    Params(filter): Params<Filter>,
) -> Result<Json<NodeList>, Refusal> {
    let nodes = targets::select(&*api.state()?, filter.selector.as_deref())?;
    let providers = api.reader.known();
    let mut items = Vec::with_capacity(nodes.len());
    for nodes in nodes.chunks(AT_ONCE) {
        items.extend(summaries(&api, &providers, nodes));
        tokio::task::yield_now().await;
    }
    Ok(Json(NodeList { api_version: API_VERSION.to_owned(), kind: "NodeList".to_owned(), items }))
}

/// Those of the nodes that are still there, all of one moment.
fn summaries(api: &Api, providers: &ProviderObjects, nodes: &[Arc<Node>]) -> Vec<NodeSummary> {
    let state = api.cache.read();
    let present = nodes.iter().filter_map(|node| state.node(&node.name));
    present.map(|node| summary(api, providers, &state, node)).collect()
}

/// `GET /v1/nodes/{name}`.
pub(super) async fn show(State(api): State<Arc<Api>>, NodeName(name): NodeName) -> Result<Json<NodeSummary>, Refusal> {
    let state = api.state()?;
    let node = state.node(&name).ok_or_else(|| Refusal::not_found("nodes", &name))?;
    Ok(Json(summary(&api, &api.reader.known(), &state, node)))
}

fn summary(api: &Api, providers: &ProviderObjects, state: &cache::State, node: &Node) -> NodeSummary {
    let known = state.covers_node(&node.name);
    // Volumes are not read for a whole fleet: what they pin shows in a plan.
    let Tally { pods, movable, blocked } = state.tally(&node.name, api.clock.now());
    let unreadable = u32::try_from(state.unreadable_on(&node.name).count()).unwrap_or(u32::MAX);
    NodeSummary {
        name: node.name.to_string(),
        created_at: node.created,
        ready: node.ready,
        schedulable: !node.unschedulable && !node.deleting,
        provider: provider::detect(node, providers),
        movable_pods: known.then_some(movable.pods),
        pods: known.then_some(pods),
        movable: known.then(|| movable.requests.to_amounts()),
        allocatable: node.allocatable.to_amounts(),
        blockers: known.then(|| blocked.saturating_add(unreadable)),
        rotation: api.views.live(&node.uid).map(|rotation| rotation.id.clone()),
        // Feeds of scopes are not equally far.
        pods_revision: state.revision(Kind::Pods).filter(|_| state.covers_cluster()).map(ToOwned::to_owned),
    }
}
