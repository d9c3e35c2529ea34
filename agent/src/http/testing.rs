//! What the tests of this module share.

use kube::Client;
use kube::client::Body;
use rotate_shared::names;
use tokio_util::sync::CancellationToken;

use super::state::Api;
use crate::cache::{Cache, State};
use crate::clock::Clock;
use crate::rotation::store::Store;
use crate::rotation::views::Views;

/// An API over an empty cluster whose API server answers nothing but 404.
pub(super) fn api() -> Api {
    let nothing = tower::service_fn(async |_: http::Request<Body>| {
        Ok::<_, std::convert::Infallible>(http::Response::builder().status(404).body(Body::empty()).expect("valid"))
    });
    let client = Client::new(nothing, "default");
    let clock = Clock::system();
    Api {
        cache: Cache::new(State::default()),
        views: Views::default(),
        store: Store::new(client.clone(), names::NAMESPACE, clock),
        client,
        clock,
        closing: CancellationToken::new(),
    }
}
