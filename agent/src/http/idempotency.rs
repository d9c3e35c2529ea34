//! `Idempotency-Key`: what the same request has begun before, here or in another agent.
//!
//! What it promises: `docs/decisions/004-a-batch-is-begun-whole.md`.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use http::{HeaderMap, StatusCode};
use jiff::Timestamp;
use parking_lot::Mutex;
use rotate_shared::{Code, Options, RotationRequest};

use super::problem::Refusal;
use super::state::Api;
use crate::rotation::store::{self, Entry};

/// As other services have it; a UUID has 36.
const KEY: usize = 128;
/// How long a request that is at work may write no record: the write that it was at has ended by then.
const SILENCE: Duration = store::WRITE.saturating_add(Duration::from_secs(5));
/// Who has not asked again for so long does not.
const FORGOTTEN: Duration = Duration::from_secs(600);

/// The key of a request.
///
/// # Errors
///
/// It is no short line of visible characters.
pub(super) fn key(headers: &HeaderMap) -> Result<Option<String>, Refusal> {
    let Some(key) = headers.get("idempotency-key") else { return Ok(None) };
    let text =
        key.to_str().ok().filter(|key| (1..=KEY).contains(&key.len()) && key.bytes().all(|b| b.is_ascii_graphic()));
    let refusal = || Refusal::new(Code::BadRequest, "Idempotency-Key must be 1 to 128 characters of visible ASCII");
    text.map(|key| Some(key.to_owned())).ok_or_else(refusal)
}

/// What has come of the same request before.
#[derive(Debug)]
pub(super) enum Before {
    /// Nothing that is known.
    Nothing,
    /// All of it was begun.
    Whole(Vec<Arc<Entry>>),
    /// These rotations were begun, and then the agent died before it came to these names.
    Part(Vec<Arc<Entry>>, Vec<String>),
}

/// The rotations that requests with this key have begun.
pub(super) fn begun(api: &Api, key: Option<&str>) -> Vec<Arc<Entry>> {
    let Some(key) = key else { return Vec::new() };
    let records = api.store.subscribe();
    let records = records.borrow();
    records.iter().flat_map(|records| records.values()).filter(|entry| entry.is_begun_by(key)).cloned().collect()
}

/// What has come of the same request. Where a part of it was begun, the first request may still be at work: it is waited for
/// until no record comes or goes for longer than one write may take. Then its agent has died.
///
/// # Errors
///
/// The key was used for another request, or what became of this one cannot be told any more.
pub(super) async fn settled(
    api: &Api,
    key: Option<&str>,
    request: &RotationRequest,
    options: &Options,
) -> Result<Before, Refusal> {
    let Some(key) = key else { return Ok(Before::Nothing) };
    let mut records = api.store.subscribe();
    loop {
        records.borrow_and_update();
        let (begun, leaving) = (begun(api, Some(key)), leaving(api, key));
        if begun.is_empty() && leaving == 0 {
            return Ok(Before::Nothing);
        }
        let size = if begun.is_empty() { usize::MAX } else { size(&begun, request, options)? };
        if begun.len() >= size {
            return Ok(Before::Whole(begun));
        }
        let silent = api.settling.silent(key, begun.len(), leaving, api.clock.now());
        if let Some(left) = SILENCE.checked_sub(silent).filter(|left| !left.is_zero()) {
            tokio::select! {
                // Where nobody watches the records any more, this agent ends.
                Ok(()) = records.changed() => {}
                () = api.clock.sleep(left) => {}
            }
            continue;
        }
        if begun.is_empty() {
            return Ok(Before::Nothing);
        }
        let is_begun = |name: &&String| begun.iter().any(|entry| entry.record.node == **name);
        let missing: Vec<String> = request.nodes.iter().filter(|name| !is_begun(name)).cloned().collect();
        if missing.is_empty() {
            let kept = begun.len();
            return Err(unprocessable(format!(
                "the selector that this Idempotency-Key was used with meant {size} nodes, and {kept} were begun before the \
                 agent died: which the others were is not known; begin them by name, with another key"
            )));
        }
        return Ok(Before::Part(begun, missing));
    }
}

/// How many rotations that a request with this key had begun are still being put back.
fn leaving(api: &Api, key: &str) -> usize {
    let records = api.store.subscribe();
    let records = records.borrow();
    let is_leaving = |entry: &&Arc<Entry>| {
        entry.request.taken_back && entry.record.is_live() && entry.record.idempotency_key.as_deref() == Some(key)
    };
    records.iter().flat_map(|records| records.values()).filter(is_leaving).count()
}

/// How many nodes the request was for that has begun these.
///
/// # Errors
///
/// It was another one.
fn size(begun: &[Arc<Entry>], request: &RotationRequest, options: &Options) -> Result<usize, Refusal> {
    let first = &begun[0].record;
    let named: HashSet<&str> = request.nodes.iter().map(String::as_str).collect();
    if request.selector.is_none() {
        if let Some(other) = begun.iter().find(|entry| !named.contains(&*entry.record.node)) {
            let detail = format!("this Idempotency-Key was used for node {:?} before", other.record.node);
            return Err(unprocessable(detail));
        }
        if let Some(size) = first.batch_size.filter(|size| *size != named.len()) {
            let nodes = if size == 1 { "node" } else { "nodes" };
            return Err(unprocessable(format!("this Idempotency-Key was used for {size} {nodes} before")));
        }
    }
    // What is to become of the node is settled by its provider, where it was not asked for.
    let asked = Options { then: options.then.or(first.options.then), ..options.clone() };
    if asked != first.options {
        return Err(unprocessable("this Idempotency-Key was used with other options before".to_owned()));
    }
    Ok(first.batch_size.unwrap_or(named.len().max(begun.len())))
}

fn unprocessable(detail: String) -> Refusal {
    Refusal::new(Code::BadRequest, detail).status(StatusCode::UNPROCESSABLE_ENTITY)
}

/// What is known of requests that were begun in part, by their keys: also from one attempt of a caller to the next.
#[derive(Debug, Default)]
pub(crate) struct Settling(Mutex<HashMap<String, Seen>>);

/// How many rotations were begun, how many are being put back, and since when there are so many.
#[derive(Debug)]
struct Seen {
    begun: usize,
    leaving: usize,
    since: Timestamp,
}

impl Settling {
    /// How long so many rotations with this key were begun, and so many are being put back.
    fn silent(&self, key: &str, begun: usize, leaving: usize, now: Timestamp) -> Duration {
        let age = |since: Timestamp| now.duration_since(since).unsigned_abs();
        let mut known = self.0.lock();
        known.retain(|_, seen| age(seen.since) < FORGOTTEN);
        let seen = known.entry(key.to_owned()).or_insert(Seen { begun, leaving, since: now });
        if (seen.begun, seen.leaving) != (begun, leaving) {
            *seen = Seen { begun, leaving, since: now };
        }
        age(seen.since)
    }
}
