//! What rotations have left: records, marks on nodes, cordons.

use std::collections::BTreeMap;

use rotate_agent::rotation::take_all_off;
use rotate_shared::{Phase, names};
use serde::Deserialize;
use serde_json::Value;

use super::text;
use crate::connect::objects::Objects;
use crate::failure::Failure;
use crate::manifests::Kind;
use crate::output::{Console, escape};
use crate::session::Session;

/// Of all rotations that there are records of.
#[derive(Debug, Default)]
pub(super) struct Left {
    /// How many records there are.
    pub(super) records: usize,
    /// Live rotations, each with its node and phase; and what cannot be read and may be live.
    live: Vec<String>,
    /// The id of the last one of these that has one.
    id: Option<String>,
    /// Nodes that carry marks, with the patch that takes them off.
    pub(super) marked: Vec<(String, Value)>,
    /// Nodes that a finished rotation left cordoned.
    cordoned: Vec<String>,
}

/// What is needed of a record.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Record {
    id: String,
    node: String,
    #[serde(rename = "nodeUID")]
    node_uid: String,
    phases: Vec<Span>,
}

#[derive(Debug, Deserialize)]
struct Span {
    phase: Phase,
}

impl Left {
    /// Reads records and nodes.
    pub(super) async fn read(server: &Objects) -> Result<Self, Failure> {
        let records = format!("/api/v1/namespaces/{}/configmaps", names::NAMESPACE);
        let maps = server.list(&records, names::ROTATION).await?;
        let nodes = server.list("/api/v1/nodes", "").await?;
        Ok(Self::of(&maps, &nodes))
    }

    fn of(maps: &[Value], nodes: &[Value]) -> Self {
        let mut left = Self { records: maps.len(), ..Self::default() };
        let mut over: BTreeMap<String, Record> = BTreeMap::new();
        for map in maps {
            let record: Result<Record, _> = serde_json::from_str(text(map, "/data/record"));
            match record {
                Ok(record) => match record.phases.last() {
                    Some(span) if span.phase.is_terminal() => drop(over.insert(record.id.clone(), record)),
                    Some(span) => {
                        left.id = Some(record.id.clone());
                        left.live.push(format!("rotation/{} of node/{} ({:?})", record.id, record.node, span.phase));
                    }
                    None => left.live.push(format!("{}, which has no phase", text(map, "/metadata/name"))),
                },
                // Another version may have written it, and may be rotating.
                Err(_) => left.live.push(format!("{}, which cannot be read", text(map, "/metadata/name"))),
            }
        }
        for node in nodes {
            let (name, uid) = (text(node, "/metadata/name"), text(node, "/metadata/uid"));
            let patch = take_all_off(node, |rotation| over.contains_key(rotation));
            let uncordoned = patch.as_ref().is_some_and(|patch| patch["spec"].is_object());
            let rotated = over.values().any(|record| record.node_uid == uid);
            if node["spec"]["unschedulable"] == true && (rotated || patch.is_some()) && !uncordoned {
                left.cordoned.push(name.to_owned());
            }
            left.marked.extend(patch.map(|patch| (name.to_owned(), patch)));
        }
        left
    }

    /// Ends here where a rotation would be left to itself.
    pub(super) fn nothing_is_live(&self, again: &str) -> Result<(), Failure> {
        match &self.live[..] {
            [] => Ok(()),
            live => {
                let which = match (live, self.id.as_deref()) {
                    ([_], Some(id)) => format!("it first with: kubectl rotate cancel {id}"),
                    _ => "them first, as in: kubectl rotate cancel ID".to_owned(),
                };
                Err(Failure::Blocked(format!("not over: {}; end {which}{again}; nothing was changed", live.join(", "))))
            }
        }
    }

    /// Whether the caller may take marks off.
    pub(super) async fn may_unmark(&self, server: &Objects) -> Result<bool, Failure> {
        server.may_patch_nodes().await
    }

    /// Takes the marks off.
    pub(super) async fn unmark(&self, console: &Console, server: &Objects) -> Result<(), Failure> {
        for (node, patch) in &self.marked {
            server.patch(&format!("/api/v1/nodes/{node}"), patch).await?;
            console.note(&format!("node/{node}: marks of a rotation that nobody ended are taken off"));
        }
        Ok(())
    }

    /// Says what stays.
    pub(super) fn tell(&self, session: &Session) {
        let again = session.cluster_again();
        for node in &self.cordoned {
            session.console.note(&format!(
                "node/{node} stays cordoned, as its rotation left it; to lift that: kubectl uncordon {node}{again}"
            ));
        }
    }
}

/// The agents that still run, each with its node.
pub(super) async fn agents(server: &Objects) -> Result<Vec<String>, Failure> {
    let pods = server.agents().await?;
    let told = |pod: &Value| {
        let (name, node) = (text(pod, "/metadata/name"), text(pod, "/spec/nodeName"));
        escape::line(&format!("pod/{name} on node/{node}"))
    };
    Ok(pods.iter().map(told).collect())
}

/// The namespaces that are still there, each with what Kubernetes says of it.
pub(super) async fn namespaces(server: &Objects) -> Result<Vec<String>, Failure> {
    let kind = Kind::named("Namespace").expect("it is installed");
    let mut there = Vec::new();
    for name in [names::NAMESPACE, names::ROOM_NAMESPACE] {
        let Some(namespace) = server.get(&kind.path(None, name)).await? else { continue };
        // One that is not labelled is not ours and stays.
        if namespace["metadata"]["deletionTimestamp"].is_null() {
            continue;
        }
        let mut told = kind.told(name);
        for condition in namespace["status"]["conditions"].as_array().into_iter().flatten() {
            let said = text(condition, "/message");
            if condition["status"] == "True" && !said.is_empty() {
                told.push_str(&format!(": {}", escape::line(said)));
            }
        }
        there.push(told);
    }
    Ok(there)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn map(id: &str, phase: &str) -> Value {
        let record = json!({
            "id": id, "node": "w1", "nodeUID": "uid-w1",
            "phases": [{ "phase": "Queued", "startedAt": "2026-01-01T00:00:00Z" }, { "phase": phase }],
        });
        json!({ "metadata": { "name": format!("rotation-{id}") }, "data": { "record": record.to_string() } })
    }

    fn node(annotations: Value, cordoned: bool) -> Value {
        json!({
            "metadata": { "name": "w1", "uid": "uid-w1", "resourceVersion": "1", "annotations": annotations },
            "spec": { "unschedulable": cordoned },
        })
    }

    #[test]
    fn live_rotations_are_named_and_what_cannot_be_read_may_be_live() {
        let odd = json!({ "metadata": { "name": "rotation-odd" }, "data": { "record": "{" } });
        let left = Left::of(&[map("abc", "Draining"), map("def", "Succeeded"), odd], &[]);
        assert_eq!(
            left.nothing_is_live(" --context blue").unwrap_err().to_string(),
            "not over: rotation/abc of node/w1 (Draining), rotation-odd, which cannot be read; end them first, as in: kubectl \
             rotate cancel ID --context blue; nothing was changed"
        );
        let one = Left::of(&[map("abc", "Draining"), map("def", "Succeeded")], &[]).nothing_is_live(" --context blue");
        assert_eq!(
            one.unwrap_err().to_string(),
            "not over: rotation/abc of node/w1 (Draining); end it first with: kubectl rotate cancel abc --context blue; \
             nothing was changed"
        );
        assert!(Left::of(&[map("abc", "Stopped")], &[]).nothing_is_live("").is_ok());
    }

    #[test]
    fn a_cordon_that_a_finished_rotation_left_stays_and_is_told() {
        let left = Left::of(&[map("abc", "Succeeded")], &[node(json!({}), true)]);
        assert_eq!((left.cordoned, left.marked), (vec!["w1".to_owned()], vec![]));
        let left = Left::of(&[], &[node(json!({}), true)]);
        assert!(left.cordoned.is_empty(), "somebody else's is none of our business");
        let left = Left::of(&[map("abc", "Succeeded")], &[node(json!({}), false)]);
        assert!(left.cordoned.is_empty());
    }

    #[test]
    fn marks_of_dead_rotations_are_taken_off_and_their_cordon_with_them() {
        let marks = json!({ names::ROTATION: "dead", names::CORDONED_BY: "dead" });
        let left = Left::of(&[], &[node(marks.clone(), true)]);
        assert_eq!(left.marked[0].1["spec"], json!({ "unschedulable": null }));
        assert!(left.cordoned.is_empty());
        // Of one that has a record, it is known that it was to end so.
        let left = Left::of(&[map("dead", "Stopped")], &[node(marks, true)]);
        assert!(left.marked[0].1["spec"].is_null());
        assert_eq!(left.cordoned, ["w1"]);
    }
}
