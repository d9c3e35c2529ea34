//! The fleet: each node with its sums.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use rotate_shared::{API_VERSION, NodeList, NodeSummary, Options};
use serde::Deserialize;

use super::extract::{NodeName, Params};
use super::problem::Refusal;
use super::state::Api;
use super::targets;
use crate::cache::index::Builder;
use crate::cache::{self, Kind, Node, Volumes};
use crate::provider;
use crate::surge::classify::{self, Context};

/// Which nodes.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Filter {
    /// A label selector; all nodes without one.
    selector: Option<String>,
}

/// Nodes that are summed up under one lock: with the 110 Pods that a node usually takes, a millisecond or two in which
/// neither the feeds nor the engine go on.
const AT_ONCE: usize = 8;

/// `GET /v1/nodes`.
pub(super) async fn list(State(api): State<Api>, Params(filter): Params<Filter>) -> Result<Json<NodeList>, Refusal> {
    let nodes = targets::select(&*api.state()?, filter.selector.as_deref())?;
    let mut items = Vec::with_capacity(nodes.len());
    for nodes in nodes.chunks(AT_ONCE) {
        items.extend(summaries(&api, nodes));
        tokio::task::yield_now().await;
    }
    Ok(Json(NodeList { api_version: API_VERSION.to_owned(), kind: "NodeList".to_owned(), items }))
}

/// Those of the nodes that are still there, all of one moment.
fn summaries(api: &Api, nodes: &[Arc<Node>]) -> Vec<NodeSummary> {
    let state = api.cache.read();
    let mut pods = state.builder();
    let present = nodes.iter().filter_map(|node| state.node(&node.name));
    present.map(|node| summary(api, &state, &mut pods, node)).collect()
}

/// `GET /v1/nodes/{name}`.
pub(super) async fn show(State(api): State<Api>, NodeName(name): NodeName) -> Result<Json<NodeSummary>, Refusal> {
    let state = api.state()?;
    let node = state.node(&name).ok_or_else(|| Refusal::not_found("nodes", &name))?;
    Ok(Json(summary(&api, &state, &mut state.builder(), node)))
}

fn summary(api: &Api, state: &cache::State, pods: &mut Builder<'_>, node: &Node) -> NodeSummary {
    let known = state.covers_node(&node.name);
    let movable = state.movable(&node.name);
    // Volumes are not read for a whole fleet: what they pin shows in a plan.
    let (volumes, options) = (Volumes::default(), Options::default());
    let context = Context { node, volumes: &volumes, options: &options, now: api.clock.now() };
    let verdicts = classify::classify_all(pods.pods_on(&node.name), &context);
    let blocked = verdicts.iter().filter(|(_, verdict)| !verdict.blockers.is_empty()).count();
    let unreadable = state.unreadable_on(&node.name).count();
    let count = |number: usize| u32::try_from(number).unwrap_or(u32::MAX);
    NodeSummary {
        name: node.name.to_string(),
        created_at: node.created,
        ready: node.ready,
        schedulable: !node.unschedulable && !node.deleting,
        provider: provider::detect(node, &api.reader.known()),
        movable_pods: known.then_some(movable.pods),
        pods: known.then(|| count(verdicts.len())),
        movable: known.then(|| movable.requests.to_amounts()),
        allocatable: node.allocatable.to_amounts(),
        blockers: known.then(|| count(blocked + unreadable)),
        rotation: api.views.live(&node.uid).map(|rotation| rotation.id.clone()),
        // Feeds of scopes are not equally far.
        pods_revision: state.revision(Kind::Pods).filter(|_| state.covers_cluster()).map(ToOwned::to_owned),
    }
}
