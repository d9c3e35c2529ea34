//! Records for tests of what is read off a cluster. Pods and nodes come from [`crate::surge::testing`].

use jiff::Timestamp;
use rotate_shared::options::Options;
use rotate_shared::plan::Provider;
use rotate_shared::{Amounts, Phase};
use serde_json::{Value, json};

use super::record::{Move, NewRotation, Record, Request, RoomClass, Surge};
use super::store::Entry;
use crate::cache::{Kind, Node, Owner, Pod, State};
use crate::surge::constraints::Placement;
use crate::surge::testing;

/// When the rotation was asked for; [`testing::CREATED`] is before.
pub(super) const ASKED: &str = "2026-01-05T01:00:00Z";
/// A creation after that.
pub(super) const YOUNG: &str = "2026-01-05T01:00:10Z";

/// So many seconds after the rotation was asked for.
pub(super) fn after(seconds: i64) -> Timestamp {
    ASKED.parse::<Timestamp>().unwrap() + jiff::SignedDuration::from_secs(seconds)
}

pub(super) fn owner(kind: &str, name: &str) -> Owner {
    Owner { api_version: "apps/v1".into(), kind: kind.into(), name: name.into(), uid: name.into() }
}

/// A draining rotation of the node `cand` that moves these Pods of the ReplicaSet `web`.
pub(super) fn entry(pods: &[&str]) -> Entry {
    let new = NewRotation {
        node: "cand".to_owned(),
        node_uid: "cand".to_owned(),
        batch: None,
        batch_size: 1,
        provider: Provider::Unmanaged,
        options: Options::default(),
        requested_by: Default::default(),
        idempotency_key: None,
        created_at: after(0),
    };
    let mut record = Record::new(new, 0);
    record.enter(Phase::Surging, after(0));
    record.enter(Phase::Draining, after(5));
    let moves = pods.iter().map(|pod| moved(pod, owner("ReplicaSet", "web"))).collect();
    let classes = vec![RoomClass { id: "a".to_owned(), requests: Amounts::new(), placement: Placement::default() }];
    record.surge = Some(Surge { moves, classes, known: Vec::new() });
    Entry { record, request: Request::default(), created: after(0), version: "1".to_owned() }
}

pub(super) fn moved(pod: &str, owner: Owner) -> Move {
    Move {
        uid: pod.to_owned(),
        namespace: "shop".to_owned(),
        name: pod.to_owned(),
        owner: Some(owner),
        class: Some("a".to_owned()),
        returned: false,
    }
}

/// A Pod of `web` on the candidate from before.
pub(super) fn old(name: &str) -> Pod {
    testing::pod("shop", name, &json!({}))
}

/// A Pod of `web` created since, with what `over` says in its place; on no node unless that says so.
pub(super) fn young(name: &str, over: &Value) -> Pod {
    let mut base = json!({
        "metadata": { "creationTimestamp": YOUNG },
        "spec": { "nodeName": null },
        "status": { "phase": "Pending", "conditions": [] },
    });
    testing::merge(&mut base, over);
    testing::pod("shop", name, &base)
}

/// A replacement that runs and is Ready on this node.
pub(super) fn landed(name: &str, node: &str) -> Pod {
    let status = json!({ "phase": "Running", "conditions": [{ "type": "Ready", "status": "True" }] });
    young(name, &json!({ "spec": { "nodeName": node }, "status": status }))
}

/// A synced state with these nodes, the candidate (cordoned and marked by this rotation) among them, and Pods.
pub(super) fn cluster(entry: &Entry, others: &[&str], pods: impl IntoIterator<Item = Pod>) -> State {
    let id = &entry.record.id;
    let marks = json!({ "kubectl-rotate.dev/rotation": id, "kubectl-rotate.dev/cordoned-by": id });
    let candidate = json!({ "metadata": { "annotations": marks }, "spec": { "unschedulable": true } });
    let nodes = others.iter().map(|name| testing::node(name, &json!({})));
    let nodes: Vec<Node> = nodes.chain([testing::node("cand", &candidate)]).collect();
    let mut state = testing::state(nodes, pods);
    for kind in [Kind::Pods, Kind::Nodes, Kind::Pdbs] {
        state.set_revision(kind, "1");
    }
    state
}
