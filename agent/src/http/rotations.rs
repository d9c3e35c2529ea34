//! Rotations: listed, shown, paused, resumed, cancelled.

use axum::extract::State;
use axum::{Extension, Json};
use rotate_shared::{API_VERSION, CancelRequest, Rotation, RotationList};
use serde::Deserialize;

use super::auth::Purse;
use super::extract::{BodyOrDefault, Id, Nothing, Params};
use super::problem::Refusal;
use super::state::Api;
use crate::rotation::store::Wish;

/// Which rotations; all that are given must hold.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Filter {
    batch: Option<String>,
    node: Option<String>,
}

impl Filter {
    fn matches(&self, rotation: &Rotation) -> bool {
        self.node.as_ref().is_none_or(|node| *node == rotation.node)
            && (self.batch.is_none() || self.batch == rotation.batch)
    }
}

/// `GET /v1/rotations`.
pub(super) async fn list(
    State(api): State<Api>,
    Params(filter): Params<Filter>,
) -> Result<Json<RotationList>, Refusal> {
    let shown = api.rotations()?.list().into_iter().filter(|rotation| filter.matches(rotation));
    Ok(Json(rotation_list(shown.map(|rotation| (*rotation).clone()).collect())))
}

/// `GET /v1/rotations/{id}`.
pub(super) async fn show(
    State(api): State<Api>,
    Id(id): Id,
    purse: Option<Extension<Purse>>,
    _: Params<Nothing>,
) -> Result<Json<Rotation>, Refusal> {
    api.rotation(&id, purse.as_deref()).await.map(|rotation| Json((*rotation).clone()))
}

/// `POST /v1/rotations/{id}/pause`. Pausing twice is pausing once.
pub(super) async fn pause(State(api): State<Api>, Id(id): Id, _: Params<Nothing>) -> Result<Json<Rotation>, Refusal> {
    ask(&api, &id, Wish::Pause).await
}

/// `POST /v1/rotations/{id}/resume`.
pub(super) async fn resume(State(api): State<Api>, Id(id): Id, _: Params<Nothing>) -> Result<Json<Rotation>, Refusal> {
    ask(&api, &id, Wish::Resume).await
}

/// `POST /v1/rotations/{id}/cancel`; without a body with all defaults.
pub(super) async fn cancel(
    State(api): State<Api>,
    Id(id): Id,
    _: Params<Nothing>,
    BodyOrDefault(request): BodyOrDefault<CancelRequest>,
) -> Result<Json<Rotation>, Refusal> {
    ask(&api, &id, Wish::Cancel(request)).await
}

async fn ask(api: &Api, id: &str, wish: Wish) -> Result<Json<Rotation>, Refusal> {
    let entry = api.store.request(id, wish, api.clock.now()).await?;
    api.taken_in(&entry).await;
    Ok(Json(api.show(&entry)))
}

pub(super) fn rotation_list(items: Vec<Rotation>) -> RotationList {
    RotationList { api_version: API_VERSION.to_owned(), kind: "RotationList".to_owned(), items }
}
