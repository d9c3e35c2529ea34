//! Rotations begun: everything is checked for every node before the first record is written.
//!
//! Why so: `docs/decisions/004-a-batch-is-begun-whole.md`.

use std::sync::Arc;
use std::time::Duration;

use axum::Json;
use axum::extract::State;
use http::request::Parts;
use http::{HeaderMap, StatusCode};
use rotate_shared::rotation::RequestedBy;
use rotate_shared::{CancelRequest, Code, Options, Plan, Rotation, RotationList, RotationRequest, names};

use super::auth::Caller;
use super::extract::{Body, Nothing, Params};
use super::limits::{PLANNED_NODES, ROTATED_NODES};
use super::problem::Refusal;
use super::rotations::rotation_list;
use super::state::Api;
use super::{plans, targets};
use crate::cache::Node;
use crate::rotation::record::NewRotation;
use crate::rotation::store::{self, Created, Entry, StoreError, Wish};

/// As other services have it; a UUID has 36.
const KEY: usize = 128;
const NAME: usize = 256;
/// How long the same request is waited for that writes no record: the write that it was at has ended by then.
const SILENCE: Duration = store::WRITE.saturating_add(Duration::from_secs(5));

/// `POST /v1/rotations`: one record a node, all or none.
pub(super) async fn create(
    State(api): State<Api>,
    parts: Parts,
    _: Params<Nothing>,
    Body(request): Body<RotationRequest>,
) -> Result<(StatusCode, Json<RotationList>), Refusal> {
    let key = idempotency_key(&parts.headers)?;
    let requested_by = requested_by(request.claimed_user.clone(), parts.extensions.get::<Caller>())?;
    let options = targets::options(request.options.clone())?;
    api.rotations()?;

    // As named; those that a selector found by name.
    let answer = async |mut entries: Vec<Arc<Entry>>| {
        let place = |entry: &Arc<Entry>| request.nodes.iter().position(|name| *name == entry.record.node);
        entries.sort_by_cached_key(|entry| (place(entry), entry.record.node.clone()));
        Json(rotation_list(api.shown_all(&entries).await))
    };
    loop {
        let (before, names) = settled(&api, key.as_deref(), &request).await?;
        if !before.is_empty() && names.is_empty() {
            return Ok((StatusCode::OK, answer(before).await));
        }
        let (nodes, plans) = match check(&api, &request, &names, &options).await {
            Ok(checked) => checked,
            // What stands in the way may be what the same request has begun meanwhile.
            Err(_) if api.with_key(key.as_deref()).len() > before.len() => continue,
            Err(refusal) => return Err(refusal.having_begun(before.len())),
        };

        let now = api.clock.now();
        let batch = match before.first() {
            Some(entry) => entry.record.batch.clone(),
            None => (nodes.len() > 1).then(|| batch_id(&nodes, key.as_deref(), now)),
        };
        let new = nodes.iter().zip(&plans).map(|(node, plan)| NewRotation {
            node: node.name.to_string(),
            node_uid: node.uid.to_string(),
            batch: batch.clone(),
            provider: plan.provider,
            // Settled once: what becomes of the node must not change on the way with what its provider says that day.
            options: Options { then: plan.then, ..options.clone() },
            requested_by: requested_by.clone(),
            idempotency_key: key.clone(),
            created_at: now,
        });
        // A task of its own: a caller who hangs up must not leave half a batch behind.
        let written = tokio::spawn(write(api.clone(), new.collect(), before.is_empty())).await;
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

/// What requests with this key have begun, and the names of this one that none of them has. As long as some are missing
/// the first request may still be at work, here or in another agent: it is waited for until no record comes or goes for
/// longer than one write may take. Then its agent has died.
async fn settled(
    api: &Api,
    key: Option<&str>,
    request: &RotationRequest,
) -> Result<(Vec<Arc<Entry>>, Vec<String>), Refusal> {
    let mut records = api.store.subscribe();
    let mut known = 0;
    let mut silence = Box::pin(api.clock.sleep(SILENCE));
    loop {
        records.borrow_and_update();
        let before = api.with_key(key);
        let names = still_to_begin(request, &before)?;
        if before.is_empty() || names.is_empty() {
            return Ok((before, names));
        }
        if before.len() != known {
            known = before.len();
            silence = Box::pin(api.clock.sleep(SILENCE));
        }
        tokio::select! {
            // Where nobody watches the records any more, this agent ends.
            Ok(()) = records.changed() => {}
            () = &mut silence => return Ok((before, names)),
        }
    }
}

/// The names of a request that no earlier one with the same key has begun. None of a selector: what it meant was settled
/// the first time, nodes that came since were never meant.
fn still_to_begin(request: &RotationRequest, before: &[Arc<Entry>]) -> Result<Vec<String>, Refusal> {
    if request.selector.is_some() && !before.is_empty() {
        return Ok(Vec::new());
    }
    if let Some(other) = before.iter().find(|entry| !request.nodes.contains(&entry.record.node)) {
        let detail = format!("this Idempotency-Key was used for node {:?} before", other.record.node);
        return Err(Refusal::new(Code::BadRequest, detail).status(StatusCode::UNPROCESSABLE_ENTITY));
    }
    let begun = |name: &&String| before.iter().any(|entry| entry.record.node == **name);
    Ok(request.nodes.iter().filter(|name| !begun(name)).cloned().collect())
}

/// Writes all records, or none. `None`: where nothing was begun before, another with the same key was faster by a moment.
async fn write(api: Api, mut new: Vec<NewRotation>, first: bool) -> Result<Option<Vec<Arc<Entry>>>, Refusal> {
    // Of two requests for the same, one writes the first record, and with it all.
    new.sort_by(|a, b| a.node.cmp(&b.node));
    let listed = api.store.list().await?;
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
            Ok(Created::Found(_)) if first && all.is_empty() => return Ok(None),
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
        let (rotation, wish) = (&*entry.record.id, Wish::Cancel(CancelRequest::default()));
        match api.store.request(rotation, wish, api.clock.now()).await {
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
    for node in &nodes {
        if let Some(live) = api.views.live(&node.uid) {
            return Err(already_rotating(&node.name, &live.id));
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

/// The same for the same request, whoever writes which of its records.
fn batch_id(nodes: &[Arc<Node>], key: Option<&str>, now: jiff::Timestamp) -> String {
    let request = key.map_or_else(
        || {
            let uids: Vec<_> = nodes.iter().map(|node| &*node.uid).collect();
            format!("{now}/{}", uids.join("/"))
        },
        ToOwned::to_owned,
    );
    format!("{:010x}", names::fnv1a(&request) >> 24)
}

impl Api {
    /// What requests with this key have begun.
    fn with_key(&self, key: Option<&str>) -> Vec<Arc<Entry>> {
        let records = self.store.subscribe();
        let records = records.borrow();
        let with_key = |entry: &&Arc<Entry>| key.is_some() && entry.record.idempotency_key.as_deref() == key;
        records.iter().flat_map(|records| records.values()).filter(with_key).cloned().collect()
    }

    /// Rotations just written, as shown: waits a moment for the engine to take notice of all.
    async fn shown_all(&self, entries: &[Arc<Entry>]) -> Vec<Rotation> {
        self.noticed(entries).await;
        entries.iter().map(|entry| (*self.now_shown(entry)).clone()).collect()
    }
}
