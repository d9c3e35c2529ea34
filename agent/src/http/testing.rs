//! What the tests of this module share.

use std::sync::Arc;

use kube::Client;
use kube::client::Body;
use rotate_shared::plan::Provider;
use rotate_shared::rotation::{Progress, RequestedBy};
use rotate_shared::{API_VERSION, Options, Phase, Rotation, names};
use tokio_util::sync::CancellationToken;

use super::state::Api;
use crate::cache::index::Kind;
use crate::cache::{Cache, Node, Resources, State};
use crate::clock::Clock;
use crate::rotation::store::Store;
use crate::rotation::views::Views;

/// An API over a cluster that was not read yet, whose API server answers nothing but 404.
pub(super) fn api() -> Api {
    let nothing = tower::service_fn(async |_: http::Request<Body>| {
        Ok::<_, std::convert::Infallible>(http::Response::builder().status(404).body(Body::empty()).expect("valid"))
    });
    with_client(Client::new(nothing, "default"))
}

/// An API over a cluster that was not read yet.
pub(super) fn with_client(client: Client) -> Api {
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

/// An API over an empty cluster.
pub(super) fn synced() -> Api {
    let api = api();
    api.cache.write(|state| [Kind::Pods, Kind::Nodes, Kind::Pdbs].map(|kind| state.set_revision(kind, "1")));
    api.views.publish([]);
    api
}

/// Adds a node.
pub(super) fn node(api: &Api, name: &str, labels: &[(&str, &str)]) {
    let node = Node {
        name: name.into(),
        uid: format!("uid-{name}").into(),
        created: jiff::Timestamp::UNIX_EPOCH,
        deleting: false,
        labels: Arc::new(labels.iter().map(|(key, value)| ((*key).into(), (*value).into())).collect()),
        annotations: std::collections::BTreeMap::new(),
        taints: Vec::new(),
        unschedulable: false,
        ready: true,
        allocatable: Resources { milli_cpu: 4000, memory: 8 << 30, ..Resources::default() },
        max_pods: 110,
        provider_id: None,
    };
    api.cache.write(|state| state.apply_node(node));
}

/// A rotation as shown.
pub(super) fn rotation(id: &str, node: &str, phase: Phase) -> Rotation {
    Rotation {
        api_version: API_VERSION.to_owned(),
        kind: "Rotation".to_owned(),
        id: id.to_owned(),
        batch: None,
        node: node.to_owned(),
        node_uid: format!("uid-{node}"),
        provider: Provider::Unmanaged,
        phase,
        paused: false,
        cancelling: false,
        options: Options::default(),
        created_at: jiff::Timestamp::UNIX_EPOCH,
        phases: Vec::new(),
        progress: Progress::default(),
        waiting: Vec::new(),
        warnings: Vec::new(),
        moved: Vec::new(),
        outcome: None,
        requested_by: RequestedBy::default(),
        revision: 0,
    }
}
