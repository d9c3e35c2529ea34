//! Watches: initial state, changes, bookmarks, and what ends them.

use std::{collections::VecDeque, convert::Infallible, sync::Arc, time::Duration};

use axum::{
    body::{Body, Bytes},
    response::{IntoResponse, Response},
};
use futures::stream;
use http::{StatusCode, header};
use jiff::Timestamp;
use serde_json::{Value, json};
use tokio::sync::watch as channel;

use super::{Call, Target, read};
use crate::{
    clock,
    cluster::{Cluster, Signal},
    kind::Kind,
    object,
    status::Failure,
    store::{Change, selector::Filter},
};

struct Watch {
    cluster: Arc<Cluster>,
    kind: Kind,
    filter: Filter,
    partial: bool,
    bookmarks: bool,
    /// Everything up to this version is sent.
    cursor: u64,
    pending: VecDeque<Value>,
    changed: channel::Receiver<u64>,
    signal: channel::Receiver<Signal>,
    opened: Signal,
    ends: Timestamp,
    next_bookmark: Timestamp,
    ended: bool,
}

pub(super) fn watch(call: &Call, target: &Target) -> Result<Response, Failure> {
    let cluster = call.sim.cluster();
    let filter = read::filter(call, target)?;
    let streaming = call.flag("sendInitialEvents");
    let bookmarks = call.flag("allowWatchBookmarks");
    if streaming && call.parameter("resourceVersionMatch") != "NotOlderThan" {
        let why = "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan";
        return Err(Failure::forbidden_option("resourceVersionMatch", why));
    }
    let from = match call.parameter("resourceVersion") {
        "" | "0" => None,
        text => Some(text.parse::<u64>().map_err(|_| Failure::no_version(text))?),
    };
    let timeout = call.parameter("timeoutSeconds").parse().unwrap_or(1800);
    let now = cluster.clock.now();
    let store = cluster.store();
    let mut pending = VecDeque::new();
    let cursor = match from {
        Some(version) if !streaming => version,
        _ => {
            for object in store.iter(target.kind).filter(|object| filter.selects(object)) {
                pending.push_back(event("ADDED", object, call.partial));
            }
            if streaming && bookmarks {
                let mut bookmark = bookmark(target.kind, store.version());
                bookmark["object"]["metadata"]["annotations"] = json!({"k8s.io/initial-events-end": "true"});
                pending.push_back(bookmark);
            }
            store.version()
        }
    };
    let signal = cluster.signal.subscribe();
    let opened = *signal.borrow();
    let watch = Watch {
        cluster: cluster.clone(),
        kind: target.kind,
        filter,
        partial: call.partial,
        bookmarks,
        cursor,
        pending,
        changed: store.subscribe(),
        signal,
        opened,
        ends: clock::after(now, Duration::from_secs(timeout)),
        next_bookmark: clock::after(now, cluster.settings.bookmarks),
        ended: false,
    };
    drop(store);
    let lines = stream::unfold(watch, |mut watch| async move { watch.next().await.map(|bytes| (bytes, watch)) });
    let body = Body::from_stream(lines);
    Ok((StatusCode::OK, [(header::CONTENT_TYPE, "application/json")], body).into_response())
}

impl Watch {
    /// The next chunk; `None` at the end.
    async fn next(&mut self) -> Option<Result<Bytes, Infallible>> {
        loop {
            if *self.signal.borrow_and_update() != self.opened {
                return None;
            }
            if !self.pending.is_empty() {
                let mut chunk = Vec::new();
                for event in self.pending.drain(..) {
                    serde_json::to_writer(&mut chunk, &event).expect("JSON has a text");
                    chunk.push(b'\n');
                }
                return Some(Ok(Bytes::from(chunk)));
            }
            if self.ended {
                return None;
            }
            self.collect();
            if !self.pending.is_empty() {
                continue;
            }
            let wake = if self.bookmarks { self.ends.min(self.next_bookmark) } else { self.ends };
            tokio::select! {
                changed = self.changed.changed() => if changed.is_err() { return None },
                changed = self.signal.changed() => if changed.is_err() { return None },
                () = self.cluster.clock.sleep_until(Some(wake)) => {}
            }
        }
    }

    /// What has happened since, and what is due.
    fn collect(&mut self) {
        self.changed.mark_unchanged();
        let now = self.cluster.clock.now();
        let store = self.cluster.store();
        match store.changes(self.kind, self.cursor) {
            Ok(changes) => {
                for change in changes {
                    self.pending.extend(seen(change, &self.filter, self.partial));
                }
                self.cursor = self.cursor.max(store.version());
            }
            Err(compacted) => {
                let failure = Failure::expired(format!("too old resource version: {} ({compacted})", self.cursor));
                self.pending.push_back(json!({"type": "ERROR", "object": failure.object()}));
                self.ended = true;
                return;
            }
        }
        if self.bookmarks && now >= self.next_bookmark {
            self.pending.push_back(bookmark(self.kind, self.cursor));
            self.next_bookmark = clock::after(now, self.cluster.settings.bookmarks);
        }
        if now >= self.ends {
            self.ended = true;
        }
    }
}

/// What a change looks like through a filter.
fn seen(change: &Change, filter: &Filter, partial: bool) -> Option<Value> {
    let before = change.old.as_deref().is_some_and(|old| filter.selects(old));
    let after = !change.deleted && filter.selects(&change.new);
    let kind = match (before, after) {
        (false, false) => return None,
        (false, true) => "ADDED",
        (true, true) => "MODIFIED",
        (true, false) => "DELETED",
    };
    if kind == "DELETED" && !change.deleted {
        // It left the selection: the last state that was in it, with the version of the change.
        let mut last = change.old.as_deref().cloned().unwrap_or_default();
        last["metadata"]["resourceVersion"] = json!(object::version(&change.new));
        return Some(event(kind, &last, partial));
    }
    Some(event(kind, &change.new, partial))
}

fn event(kind: &str, object: &Value, partial: bool) -> Value {
    if partial {
        let object = json!({
            "kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": object["metadata"],
        });
        return json!({"type": kind, "object": object});
    }
    json!({"type": kind, "object": object})
}

/// As the API server writes them: with the empty fields of the kind, null lists included.
fn bookmark(kind: Kind, version: u64) -> Value {
    let mut object = json!({
        "kind": kind.name(), "apiVersion": kind.api_version(),
        "metadata": {"resourceVersion": version.to_string()},
    });
    if kind == Kind::Pod {
        object["spec"] = json!({"containers": null});
        object["status"] = json!({});
    }
    json!({"type": "BOOKMARK", "object": object})
}
