//! What is around objects: lists, watch events, and what a server says when it refuses.
//!
//! ```text
//! list:   {"metadata": …, "items": [object …]}            k8s\0 Unknown{2: List{1: ListMeta, 2: object …}}
//! event:  {"type": …, "object": object}                   WatchEvent{1: type, 2: RawExtension{1: k8s\0 Unknown{2: object}}}
//! ```
//!
//! Objects are cut out, not read.

use std::borrow::Cow;
use std::error::Error;
use std::time::Duration;

use bytes::Bytes;
use serde::Deserialize;
use serde_json::value::RawValue;

use super::encoding::{Encoding, Object};
use super::{Event, Page};
use crate::cache::decode::{self, Bookmark, Encoded, protobuf};

/// Why an answer is not what it should be.
pub(super) type Unexpected = Box<dyn Error + Send + Sync>;

/// `meta/v1.Status`: why a server refuses, as far as it says.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub(super) struct Status {
    pub(super) code: Option<u16>,
    pub(super) reason: Option<String>,
    pub(super) message: Option<String>,
    details: Option<StatusDetails>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct StatusDetails {
    retry_after_seconds: u32,
}

/// A frame of a watch.
#[derive(Debug)]
pub(super) enum Frame {
    /// Something to take in.
    Event(Event),
    /// The watch ends with this.
    Error(Status),
}

#[derive(Deserialize)]
struct ListWire<'a> {
    #[serde(default)]
    metadata: ListMeta,
    /// Never missing: an object, or a table, has a resourceVersion too.
    #[serde(borrow, deserialize_with = "decode::nullable")]
    items: Vec<&'a RawValue>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct ListMeta {
    resource_version: Box<str>,
    #[serde(rename = "continue")]
    next: String,
    shard_info: Option<ShardInfo>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct ShardInfo {
    selector: Box<str>,
}

#[derive(Deserialize)]
struct EventWire<'a> {
    #[serde(borrow, rename = "type")]
    kind: Cow<'a, str>,
    #[serde(borrow)]
    object: &'a RawValue,
}

/// The answer to a list.
pub(super) fn page(encoding: Encoding, answer: &Bytes) -> Result<Page, Unexpected> {
    let (objects, meta) = match encoding {
        Encoding::Json => {
            let list: ListWire<'_> = serde_json::from_str(std::str::from_utf8(answer)?)?;
            (list.items.into_iter().map(|item| Object::json(answer, item.get())).collect(), list.metadata)
        }
        Encoding::Protobuf => {
            let envelope = protobuf::envelope(answer)?;
            // An empty list has no items here: only the kind tells it from an object.
            if !envelope.kind.ends_with("List") {
                return Err(format!("it is no list: it is of the kind {:?}", envelope.kind).into());
            }
            let list = protobuf::list(envelope.message)?;
            let shard_info = list.shard.map(|selector| ShardInfo { selector: selector.into() });
            let meta = ListMeta { resource_version: list.revision.into(), next: list.next.to_owned(), shard_info };
            (list.items.into_iter().map(|item| Object::protobuf(answer, item)).collect(), meta)
        }
    };
    // Every list has one. Anything else, taken for an empty list, would empty the cache.
    if meta.resource_version.is_empty() {
        return Err("it is no list: it has no resourceVersion".into());
    }
    Ok(Page {
        objects,
        revision: meta.resource_version,
        next: Some(meta.next).filter(|next| !next.is_empty()),
        shard: meta.shard_info.map(|info| info.selector),
    })
}

/// One frame of a watch.
pub(super) fn frame(encoding: Encoding, frame: &Bytes) -> Result<Frame, Unexpected> {
    match encoding {
        Encoding::Json => {
            let event: EventWire<'_> = serde_json::from_str(std::str::from_utf8(frame)?)?;
            let object = event.object.get();
            Ok(match &*event.kind {
                "BOOKMARK" => bookmark(Encoded::Json(object))?,
                "ERROR" => Frame::Error(serde_json::from_str(object).unwrap_or_default()),
                kind => change(kind, Object::json(frame, object)),
            })
        }
        Encoding::Protobuf => {
            let event = protobuf::watch_event(frame)?;
            let message = event.object.message;
            match event.kind {
                "BOOKMARK" => bookmark(Encoded::Protobuf(message)),
                "ERROR" => Ok(Frame::Error(status_of(message))),
                kind => Ok(change(kind, Object::protobuf(frame, message))),
            }
        }
    }
}

/// What a refusal says; nothing where it is not what API servers say.
pub(super) fn status(encoding: Encoding, answer: &[u8]) -> Status {
    match encoding {
        Encoding::Json => serde_json::from_slice(answer).unwrap_or_default(),
        Encoding::Protobuf => {
            protobuf::envelope(answer).map(|envelope| status_of(envelope.message)).unwrap_or_default()
        }
    }
}

fn status_of(message: &[u8]) -> Status {
    let said = protobuf::status(message).unwrap_or_default();
    let text = |text: &str| (!text.is_empty()).then(|| text.to_owned());
    Status {
        code: u16::try_from(said.code).ok().filter(|code| *code != 0),
        reason: text(said.reason),
        message: text(said.message),
        details: u32::try_from(said.retry_after_seconds)
            .ok()
            .map(|seconds| StatusDetails { retry_after_seconds: seconds }),
    }
}

fn change(kind: &str, object: Object) -> Frame {
    Frame::Event(match kind {
        "ADDED" | "MODIFIED" => Event::Applied(object),
        "DELETED" => Event::Deleted(object),
        kind => Event::Unknown(kind.into()),
    })
}

fn bookmark(object: Encoded<'_>) -> Result<Frame, Unexpected> {
    let Bookmark { revision, initial_end } = decode::bookmark(object)?.ok_or("a bookmark without a resourceVersion")?;
    Ok(Frame::Event(Event::Bookmark { revision, initial_end }))
}

// === impl Status ===

impl Status {
    /// Whether the server has forgotten what was asked from.
    pub(super) fn is_gone(&self) -> bool {
        self.code == Some(410) || matches!(self.reason.as_deref(), Some("Expired" | "Gone"))
    }

    /// How long the server wants to be left alone.
    pub(super) fn retry_after(&self) -> Option<Duration> {
        let seconds = self.details.as_ref().map(|details| details.retry_after_seconds).filter(|seconds| *seconds > 0);
        seconds.map(|seconds| Duration::from_secs(seconds.into()))
    }
}

#[cfg(test)]
mod tests;
