//! Rotations begun: everything is checked for every node before the first record is written.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use http::request::Parts;
use http::{HeaderMap, StatusCode};
use rotate_shared::rotation::RequestedBy;
use rotate_shared::{CancelRequest, Code, Options, Plan, Rotation, RotationList, RotationRequest, names};

use super::auth::Caller;
use super::extract::Body;
use super::problem::Refusal;
use super::rotations::rotation_list;
use super::state::Api;
use super::{plans, targets};
use crate::cache::Node;
use crate::rotation::record::NewRotation;
use crate::rotation::store::{Entry, StoreError, Wish};

/// As other services have it; a UUID has 36.
const KEY: usize = 128;
const NAME: usize = 256;

/// `POST /v1/rotations`: one record a node, all or none.
pub(super) async fn create(
    State(api): State<Api>,
    parts: Parts,
    Body(request): Body<RotationRequest>,
) -> Result<(StatusCode, Json<RotationList>), Refusal> {
    let key = idempotency_key(&parts.headers)?;
    let requested_by = requested_by(request.claimed_user.clone(), parts.extensions.get::<Caller>())?;
    let options = targets::options(request.options.clone())?;
    api.rotations()?;

    let before = key.as_deref().map(|key| api.with_key(key)).unwrap_or_default();
    // What a selector meant was settled the first time; nodes that came since were never meant.
    if !before.is_empty() && request.selector.is_some() {
        return Ok((StatusCode::OK, Json(rotation_list(api.shown_all(&before).await))));
    }
    let nodes = {
        let state = api.state()?;
        targets::nodes(&state, &request.nodes, request.selector.as_deref())?
    };
    if let Some(other) = before.iter().find(|entry| !nodes.iter().any(|node| *node.name == *entry.record.node)) {
        let detail = format!("this Idempotency-Key was used for node {:?} before", other.record.node);
        return Err(Refusal::new(Code::BadRequest, detail).status(StatusCode::UNPROCESSABLE_ENTITY));
    }
    let known = |node: &Node| before.iter().find(|entry| *entry.record.node_uid == *node.uid);
    let new: Vec<_> = nodes.iter().filter(|node| known(node).is_none()).cloned().collect();
    let plans = check(&api, &new, &options).await?;

    let now = api.clock.now();
    let batch = before
        .first()
        .map_or_else(|| (nodes.len() > 1).then(|| batch_id(&nodes, now)), |entry| entry.record.batch.clone());
    let mut created = Vec::new();
    for (node, plan) in new.iter().zip(&plans) {
        let rotation = NewRotation {
            node: node.name.to_string(),
            node_uid: node.uid.to_string(),
            batch: batch.clone(),
            provider: plan.provider,
            options: options.clone(),
            requested_by: requested_by.clone(),
            idempotency_key: key.clone(),
            created_at: now,
        };
        match api.store.create(rotation).await {
            Ok(entry) => created.push(Arc::new(entry)),
            Err(error) => {
                take_back(&api, &created).await;
                return Err(refuse(error));
            }
        }
    }
    let status = if created.is_empty() { StatusCode::OK } else { StatusCode::CREATED };
    let in_order = nodes.iter().filter_map(|node| {
        created.iter().chain(&before).find(|entry| *entry.record.node_uid == *node.uid).map(Arc::clone)
    });
    let entries: Vec<_> = in_order.collect();
    Ok((status, Json(rotation_list(api.shown_all(&entries).await))))
}

/// Plans each node; a live rotation or a blocker of any refuses all.
async fn check(api: &Api, nodes: &[Arc<Node>], options: &Options) -> Result<Vec<Plan>, Refusal> {
    for node in nodes {
        if let Some(live) = api.views.live(&node.uid) {
            return Err(already_rotating(&node.name, &live.id));
        }
    }
    let plans = plans::plan(api, nodes, options).await?;
    let blocked: Vec<_> = plans.iter().filter(|plan| !plan.blockers.is_empty()).collect();
    if blocked.is_empty() {
        return Ok(plans);
    }
    let said = blocked.iter().map(|plan| {
        let more = plan.blockers.len() - 1;
        let first = &plan.blockers[0];
        let rest = if more > 0 { format!(", and {more} more") } else { String::new() };
        format!("node {} cannot be rotated: {}: {}{rest}", plan.node, first.object, first.message)
    });
    let detail = said.collect::<Vec<_>>().join("; ");
    Err(Refusal::new(Code::Blocked, detail).blockers(blocked.iter().flat_map(|plan| plan.blockers.clone()).collect()))
}

/// All or none: what was begun before another node of the batch was refused is cancelled. None of it was touched, or
/// what was is rolled back.
async fn take_back(api: &Api, created: &[Arc<Entry>]) {
    for entry in created {
        let wish = Wish::Cancel(CancelRequest::default());
        if let Err(error) = api.store.request(&entry.record.id, wish, api.clock.now()).await {
            tracing::warn!(rotation = entry.record.id, error = %error, "a batch that failed could not be taken back whole");
        }
    }
}

fn already_rotating(node: &str, id: &str) -> Refusal {
    let detail = format!("node {node:?} is being rotated already: rotation/{id}");
    Refusal::new(Code::AlreadyRotating, detail).rotation(id)
}

pub(super) fn refuse(error: StoreError) -> Refusal {
    match &error {
        StoreError::AlreadyRotating(id) => {
            Refusal::new(Code::AlreadyRotating, format!("the node is being rotated already: rotation/{id}"))
                .rotation(id)
        }
        StoreError::NotFound(id) => Refusal::not_found("rotations", id),
        StoreError::Finished(id) => Refusal::new(Code::WrongPhase, format!("rotation {id:?} is over")).rotation(id),
        StoreError::Conflict(_) | StoreError::TimedOut(_) | StoreError::Api { .. } => {
            Refusal::new(Code::UpstreamFailed, format!("failed to {error}"))
        }
        StoreError::Malformed { .. } => Refusal::new(Code::Internal, format!("failed to {error}")),
    }
}

fn idempotency_key(headers: &HeaderMap) -> Result<Option<String>, Refusal> {
    let Some(key) = headers.get("idempotency-key") else { return Ok(None) };
    let text = key.to_str().ok().filter(|key| !key.is_empty() && key.len() <= KEY);
    let refusal = || Refusal::new(Code::BadRequest, "Idempotency-Key must be 1 to 128 characters of visible ASCII");
    text.map(|key| Some(key.to_owned())).ok_or_else(refusal)
}

fn requested_by(claimed: Option<String>, caller: Option<&Caller>) -> Result<RequestedBy, Refusal> {
    if claimed.as_ref().is_some_and(|name| name.len() > NAME) {
        return Err(Refusal::new(Code::BadRequest, "claimedUser must be at most 256 bytes"));
    }
    Ok(RequestedBy { claimed, credential_id: caller.and_then(|caller| caller.credential_id.clone()) })
}

fn batch_id(nodes: &[Arc<Node>], now: jiff::Timestamp) -> String {
    let uids: Vec<_> = nodes.iter().map(|node| &*node.uid).collect();
    format!("{:010x}", names::fnv1a(&format!("{now}/{}", uids.join("/"))) >> 24)
}

impl Api {
    fn with_key(&self, key: &str) -> Vec<Arc<Entry>> {
        let records = self.store.subscribe();
        let records = records.borrow();
        let with_key = |entry: &&Arc<Entry>| entry.record.idempotency_key.as_deref() == Some(key);
        records.iter().flat_map(|records| records.values()).filter(with_key).cloned().collect()
    }

    async fn shown_all(&self, entries: &[Arc<Entry>]) -> Vec<Rotation> {
        let mut shown = Vec::with_capacity(entries.len());
        for entry in entries {
            shown.push((*self.shown(entry).await).clone());
        }
        shown
    }
}
