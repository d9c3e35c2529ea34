//! Rotations begun: everything is checked for every node before the first record is written.
//!
//! Why so: `docs/decisions/004-a-batch-is-begun-whole.md`.

use std::collections::HashMap;
use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use http::StatusCode;
use http::request::Parts;
use rotate_shared::rotation::RequestedBy;
use rotate_shared::{Code, Options, Plan, Rotation, RotationList, RotationRequest, names};

use super::auth::Caller;
use super::extract::{Body, Nothing, Params};
use super::idempotency::{self, Before};
use super::limits::{PLANNED_NODES, ROTATED_NODES};
use super::problem::Refusal;
use super::rotations::rotation_list;
use super::state::Api;
use super::{plans, targets};
use crate::cache::Node;
use crate::rotation::record::NewRotation;
use crate::rotation::store::{Created, Entry, StoreError, Wish};

const NAME: usize = 256;

/// `POST /v1/rotations`: one record a node, all or none.
pub(super) async fn create(
    State(api): State<Api>,
    parts: Parts,
    _: Params<Nothing>,
    Body(request): Body<RotationRequest>,
) -> Result<(StatusCode, Json<RotationList>), Refusal> {
    let key = idempotency::key(&parts.headers)?;
    let requested_by = requested_by(request.claimed_user.clone(), parts.extensions.get::<Caller>())?;
    let options = targets::options(request.options.clone())?;
    targets::form(&request.nodes, request.selector.as_deref())?;
    api.rotations()?;

    // As named; those that a selector found by name.
    let answer = async |mut entries: Vec<Arc<Entry>>| {
        let place = |entry: &Arc<Entry>| request.nodes.iter().position(|name| *name == entry.record.node);
        entries.sort_by_cached_key(|entry| (place(entry), entry.record.node.clone()));
        Json(rotation_list(api.shown_all(&entries).await))
    };
    loop {
        let (before, names) = match idempotency::settled(&api, key.as_deref(), &request, &options).await? {
            Before::Whole(begun) => return Ok((StatusCode::OK, answer(begun).await)),
            Before::Part(begun, names) => (begun, names),
            Before::Nothing => (Vec::new(), request.nodes.clone()),
        };
        let (nodes, plans) = match check(&api, &request, &names, &options).await {
            Ok(checked) => checked,
            // What stands in the way may be what the same request has begun meanwhile.
            Err(_) if idempotency::begun(&api, key.as_deref()).len() > before.len() => continue,
            Err(refusal) => return Err(refusal.having_begun(before.len())),
        };

        let now = api.clock.now();
        let batch = match before.first() {
            Some(entry) => entry.record.batch.clone(),
            None => (nodes.len() > 1).then(|| batch_id(&nodes, now)),
        };
        let new = nodes.iter().zip(&plans).map(|(node, plan)| NewRotation {
            node: node.name.to_string(),
            node_uid: node.uid.to_string(),
            batch: batch.clone(),
            batch_size: before.len() + nodes.len(),
            provider: plan.provider,
            // Settled once: what becomes of the node must not change on the way with what its provider says that day.
            options: Options { then: plan.then, ..options.clone() },
            requested_by: requested_by.clone(),
            idempotency_key: key.clone(),
            created_at: now,
        });
        // A task of its own: a caller who hangs up must not leave half a batch behind.
        let written = tokio::spawn(write(api.clone(), new.collect(), before.clone())).await;
        let written = written.map_err(|_| Refusal::new(Code::Internal, "the records could not be written"))?;
        match written {
            Ok(Some(written)) => {
                return Ok((StatusCode::CREATED, answer(before.into_iter().chain(written).collect()).await));
            }
            // The same request, at another agent perhaps, has just begun: its end is waited for.
            Ok(None) => {}
            Err(refusal) => return Err(refusal.having_begun(before.len())),
        }
    }
}

/// Writes all records, or none. `None`: what was begun before is not what it was: another with the same key was faster by a
/// moment, or has taken back what it had written.
async fn write(
    api: Api,
    mut new: Vec<NewRotation>,
    before: Vec<Arc<Entry>>,
) -> Result<Option<Vec<Arc<Entry>>>, Refusal> {
    // Of two requests for the same, one writes the first record, and with it all.
    new.sort_by(|a, b| a.node.cmp(&b.node));
    let listed = api.store.list().await?;
    let stands = |begun: &Arc<Entry>| {
        let same = listed.iter().find(|entry| entry.record.id == begun.record.id);
        same.is_some_and(|entry| !entry.request.taken_back)
    };
    if !before.iter().all(stands) {
        return Ok(None);
    }
    let mut all = Vec::with_capacity(new.len());
    let mut written = Vec::new();
    for rotation in new {
        let node = rotation.node.clone();
        match api.store.create_after(&listed, rotation).await {
            Ok(Created::Written(entry)) => {
                let entry = Arc::new(entry);
                written.push(Arc::clone(&entry));
                all.push(entry);
            }
            Ok(Created::Found(_)) if before.is_empty() && all.is_empty() => return Ok(None),
            Ok(Created::Found(entry)) => all.push(Arc::new(entry)),
            Err(error) => {
                take_back(&api, &written).await;
                return Err(match error {
                    StoreError::AlreadyRotating(id) => already_rotating(&node, &id),
                    error => error.into(),
                });
            }
        }
    }
    Ok(Some(all))
}

/// Takes back what was written before another node of the batch was refused: deleted where the engine has not touched it,
/// so that the same request may be made again; rolled back where it has, and where it cannot be deleted: whoever runs an
/// agent of their own beside the admission policies may not delete what is live.
async fn take_back(api: &Api, written: &[Arc<Entry>]) {
    for entry in written {
        let Err(why) = api.store.delete(entry).await else { continue };
        let rotation = &*entry.record.id;
        match api.store.request(rotation, Wish::TakeBack, api.clock.now()).await {
            // Of a delete that was not answered in time, say.
            Ok(_) | Err(StoreError::NotFound(_) | StoreError::Finished { .. }) => {}
            Err(error) => {
                tracing::warn!(rotation, %why, %error, "a batch that failed could not be taken back whole: end this one");
            }
        }
    }
}

/// The nodes meant, each with its plan; a live rotation or a blocker of any refuses all.
async fn check(
    api: &Api,
    request: &RotationRequest,
    names: &[String],
    options: &Options,
) -> Result<(Vec<Arc<Node>>, Vec<Plan>), Refusal> {
    let nodes = {
        let state = api.state()?;
        targets::nodes(&state, names, request.selector.as_deref(), ROTATED_NODES)?
    };
    {
        // Not as shown, which follows the records a moment later.
        let records = api.store.subscribe();
        let records = records.borrow();
        let live = records.iter().flat_map(|records| records.values()).filter(|entry| entry.record.is_live());
        let live: HashMap<_, _> = live.map(|entry| (&*entry.record.node_uid, &*entry.record.id)).collect();
        if let Some((node, id)) = nodes.iter().find_map(|node| Some((node, live.get(&*node.uid)?))) {
            return Err(already_rotating(&node.name, id));
        }
    }
    let mut plans = Vec::with_capacity(nodes.len());
    for nodes in nodes.chunks(PLANNED_NODES) {
        // Of a thousand nodes' Pods nothing is kept: what is to be known of them is in the blockers.
        let planned = plans::plan(api, nodes, options).await?.into_iter();
        plans.extend(planned.map(|plan| Plan {
            pods: Vec::new(),
            classes: Vec::new(),
            placeholders: Vec::new(),
            ..plan
        }));
    }
    let blocked: Vec<_> = plans.iter().filter(|plan| !plan.blockers.is_empty()).collect();
    if blocked.is_empty() {
        return Ok((nodes, plans));
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

fn already_rotating(node: &str, id: &str) -> Refusal {
    let detail = format!("node {node:?} is being rotated already; follow it with: kubectl rotate status {id} -w");
    Refusal::new(Code::AlreadyRotating, detail).rotation(id)
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
    /// Rotations just written, as shown: waits a moment for the engine to take notice of all.
    async fn shown_all(&self, entries: &[Arc<Entry>]) -> Vec<Rotation> {
        self.noticed(entries).await;
        entries.iter().map(|entry| (*self.now_shown(entry)).clone()).collect()
    }
}
