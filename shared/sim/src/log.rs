//! What happened in the cluster, in order: the base of every figure about a run.

use jiff::Timestamp;
use serde_json::Value;

use crate::{kind::Kind, object};

/// Something that happened, and when.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogEntry {
    /// By the cluster's clock.
    pub at: Timestamp,
    /// What.
    pub event: Event,
}

/// What can happen. UIDs name Pods, since a name can come back.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the fields are what they are called")]
pub enum Event {
    /// A Pod exists. `owner` is the UID of its controller, `owner_kind` that controller's kind.
    PodCreated {
        namespace: String,
        name: String,
        uid: String,
        owner: Option<String>,
        owner_kind: Option<String>,
        priority: i32,
    },
    /// A Pod has its node.
    PodBound { uid: String, node: String },
    /// A Pod's containers run.
    PodRunning { uid: String },
    /// A Pod serves.
    PodReady { uid: String },
    /// A Pod that served serves no more.
    PodUnready { uid: String },
    /// A Pod ended by itself, `Succeeded` or `Failed`.
    PodFinished { uid: String, phase: String },
    /// No node takes this Pod, not even by preemption; once for each new message.
    PodUnschedulable { uid: String, message: String },
    /// The scheduler made room for this Pod by preemption, or is about to bind it.
    PodNominated { uid: String, node: String },
    /// The Eviction API let this Pod go.
    PodEvicted { uid: String },
    /// A Pod is on its way out.
    PodTerminating { uid: String },
    /// A Pod is gone.
    PodDeleted { uid: String },
    /// A Pod had to go for another.
    Preempted { victim: String, by: String },
    /// A node joined.
    NodeRegistered { node: String },
    /// A node became Ready.
    NodeReady { node: String },
    /// A node is no longer Ready.
    NodeNotReady { node: String },
    /// A node takes no new Pods.
    NodeCordoned { node: String },
    /// A node takes Pods again.
    NodeUncordoned { node: String },
    /// A node is gone.
    NodeDeleted { node: String },
}

/// What a change of one object means for the log.
pub(crate) fn events(kind: Kind, old: Option<&Value>, new: Option<&Value>) -> Vec<Event> {
    match kind {
        Kind::Pod => pod_events(old, new),
        Kind::Node => node_events(old, new),
        _ => Vec::new(),
    }
}

fn pod_events(old: Option<&Value>, new: Option<&Value>) -> Vec<Event> {
    let mut events = Vec::new();
    let Some(pod) = new else {
        return old.map(|pod| Event::PodDeleted { uid: object::uid(pod).to_owned() }).into_iter().collect();
    };
    let uid = || object::uid(pod).to_owned();
    if old.is_none() {
        let owner = object::controller(pod);
        events.push(Event::PodCreated {
            namespace: object::namespace(pod).to_owned(),
            name: object::name(pod).to_owned(),
            uid: uid(),
            owner: owner.map(|owner| object::text(owner, "/uid").to_owned()),
            owner_kind: owner.map(|owner| object::text(owner, "/kind").to_owned()),
            priority: object::priority(pod),
        });
    }
    let nothing = Value::Null;
    let old = old.unwrap_or(&nothing);
    let became = |pointer: &str| {
        let text = object::text(pod, pointer);
        (!text.is_empty() && object::text(old, pointer) != text).then(|| text.to_owned())
    };
    if let Some(node) = became("/status/nominatedNodeName") {
        events.push(Event::PodNominated { uid: uid(), node });
    }
    if let Some(node) = became("/spec/nodeName") {
        events.push(Event::PodBound { uid: uid(), node });
    }
    match became("/status/phase").as_deref() {
        Some("Running") => events.push(Event::PodRunning { uid: uid() }),
        Some(phase @ ("Succeeded" | "Failed")) => {
            events.push(Event::PodFinished { uid: uid(), phase: phase.to_owned() });
        }
        _ => {}
    }
    match (object::ready(old), object::ready(pod)) {
        (false, true) => events.push(Event::PodReady { uid: uid() }),
        (true, false) => events.push(Event::PodUnready { uid: uid() }),
        _ => {}
    }
    if object::terminating(pod) && !object::terminating(old) {
        events.push(Event::PodTerminating { uid: uid() });
    }
    events
}

fn node_events(old: Option<&Value>, new: Option<&Value>) -> Vec<Event> {
    let mut events = Vec::new();
    let Some(node) = new else {
        return old.map(|node| Event::NodeDeleted { node: object::name(node).to_owned() }).into_iter().collect();
    };
    let name = || object::name(node).to_owned();
    if old.is_none() {
        events.push(Event::NodeRegistered { node: name() });
    }
    let nothing = Value::Null;
    let old = old.unwrap_or(&nothing);
    match (object::ready(old), object::ready(node)) {
        (false, true) => events.push(Event::NodeReady { node: name() }),
        (true, false) => events.push(Event::NodeNotReady { node: name() }),
        _ => {}
    }
    let cordoned = |node: &Value| node["spec"]["unschedulable"] == true;
    match (cordoned(old), cordoned(node)) {
        (false, true) => events.push(Event::NodeCordoned { node: name() }),
        (true, false) => events.push(Event::NodeUncordoned { node: name() }),
        _ => {}
    }
    events
}
