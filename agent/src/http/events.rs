//! A rotation followed: each event is the whole of it, so that a follower who missed some needs none of them.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::Extension;
use axum::extract::State;
use axum::response::sse::{Event, KeepAlive, Sse};
use futures::{FutureExt, Stream, StreamExt, future, stream};
use http::HeaderMap;
use rotate_shared::Rotation;
use tokio::sync::watch;

use super::auth::Pass;
use super::extract::{Id, Nothing, Params};
use super::problem::Refusal;
use super::state::Api;
use crate::rotation::views::{Shown, Views};

/// Idle proxies and port-forwards close connections after some minutes; a follower notices a dead agent this soon.
const KEEP_ALIVE: Duration = Duration::from_secs(15);

/// `GET /v1/rotations/{id}/events`: the present state at once (unless the follower has it, by `Last-Event-ID`), then each
/// change, several at once being told as one. Ends after a terminal state, when the record is deleted, when the caller's token
/// is no longer good, and with the agent.
pub(super) async fn follow(
    State(api): State<Api>,
    Id(id): Id,
    _: Params<Nothing>,
    pass: Option<Extension<Pass>>,
    headers: HeaderMap,
) -> Result<Sse<impl Stream<Item = Result<Event, Infallible>> + use<>>, Refusal> {
    // Whoever begins a stream has paid for a look.
    api.rotation(&id, None).await?;
    let pass = pass.map(|Extension(pass)| pass);
    let open = pass.as_ref().map(Pass::stream).transpose()?;
    let shown = api.views.subscribe();
    // Anything but the id of the present state is a gap.
    let last = headers.get("last-event-id").and_then(|last| last.to_str().ok());
    let seen = last.and_then(|last| api.views.revision_of(last));
    let views = api.views.clone();
    let events = changes(shown, id, seen).map(move |rotation| {
        let _counted = &open;
        Ok(event(&views, &rotation))
    });
    let withdrawn = pass.map_or_else(|| future::pending().boxed(), |pass| pass.withdrawn().boxed());
    let events = events.take_until(future::select(api.closing.clone().cancelled_owned().boxed(), withdrawn));
    Ok(Sse::new(events).keep_alive(KeepAlive::new().interval(KEEP_ALIVE).text("still here")))
}

fn event(views: &Views, rotation: &Rotation) -> Event {
    let json = serde_json::to_string(rotation).expect("a rotation's keys are strings");
    Event::default().id(views.event_id(rotation)).data(json)
}

struct Follower {
    shown: watch::Receiver<Shown>,
    id: String,
    seen: Option<u64>,
    ended: bool,
}

fn changes(shown: watch::Receiver<Shown>, id: String, seen: Option<u64>) -> impl Stream<Item = Arc<Rotation>> {
    stream::unfold(Follower { shown, id, seen, ended: false }, async |mut follower| {
        while !follower.ended {
            let rotation = follower.shown.borrow_and_update().as_ref()?.get(&follower.id).cloned()?;
            follower.ended = rotation.phase.is_terminal();
            if follower.seen != Some(rotation.revision) {
                follower.seen = Some(rotation.revision);
                return Some((rotation, follower));
            }
            if !follower.ended {
                follower.shown.changed().await.ok()?;
            }
        }
        None
    })
}

#[cfg(test)]
mod tests;
