//! Lists and watch events around encoded objects.

use serde_json::json;

use super::protobuf::put_varint;
use super::{Piece, Widths, protobuf};

/// An encoding of the API server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Encoding {
    /// `application/json`.
    Json,
    /// `application/vnd.kubernetes.protobuf`.
    Protobuf,
}

impl Encoding {
    /// What the answer to a list or a get says it is.
    #[must_use]
    pub fn content_type(self) -> &'static str {
        match self {
            Self::Json => "application/json",
            Self::Protobuf => "application/vnd.kubernetes.protobuf",
        }
    }

    /// What the answer to a watch says it is.
    #[must_use]
    pub fn watch_type(self) -> &'static str {
        match self {
            Self::Json => "application/json",
            Self::Protobuf => "application/vnd.kubernetes.protobuf;stream=watch",
        }
    }

    /// Encodes an object without gaps.
    #[must_use]
    pub fn encode(self, object: &serde_json::Value) -> Vec<u8> {
        match self {
            Self::Json => Piece::json(object, Widths::default()).whole(),
            Self::Protobuf => Piece::protobuf(object, Widths::default()).whole(),
        }
    }
}

/// Appends the watch event that says that this object is new.
pub fn added(encoding: Encoding, object: &[u8], out: &mut Vec<u8>) {
    event(encoding, "ADDED", object, out);
}

/// Appends the watch event that says that this object has changed.
pub fn modified(encoding: Encoding, object: &[u8], out: &mut Vec<u8>) {
    event(encoding, "MODIFIED", object, out);
}

/// Appends the watch event that says that this object is gone.
pub fn deleted(encoding: Encoding, object: &[u8], out: &mut Vec<u8>) {
    event(encoding, "DELETED", object, out);
}

/// Appends a bookmark. `complete`: the initial state has been told.
pub fn bookmark(encoding: Encoding, api_version: &str, kind: &str, revision: &str, complete: bool, out: &mut Vec<u8>) {
    let mut metadata = json!({ "resourceVersion": revision, "creationTimestamp": null });
    if complete {
        metadata["annotations"] = json!({ "k8s.io/initial-events-end": "true" });
    }
    let object = json!({ "apiVersion": api_version, "kind": kind, "metadata": metadata });
    event(encoding, "BOOKMARK", &encoding.encode(&object), out);
}

fn event(encoding: Encoding, kind: &str, object: &[u8], out: &mut Vec<u8>) {
    match encoding {
        Encoding::Json => {
            out.extend_from_slice(b"{\"type\":\"");
            out.extend_from_slice(kind.as_bytes());
            out.extend_from_slice(b"\",\"object\":");
            out.extend_from_slice(object);
            out.extend_from_slice(b"}\n");
        }
        Encoding::Protobuf => {
            let start = out.len();
            out.extend_from_slice(&[0; 4]);
            put_field(out, 1, kind.as_bytes());
            let mut head = Vec::new();
            put_varint(&mut head, 1 << 3 | 2);
            put_varint(&mut head, object.len() as u64);
            put_varint(out, 2 << 3 | 2);
            put_varint(out, (head.len() + object.len()) as u64);
            out.extend_from_slice(&head);
            out.extend_from_slice(object);
            let length = u32::try_from(out.len() - start - 4).expect("a frame is smaller than 4 GiB");
            out[start..start + 4].copy_from_slice(&length.to_be_bytes());
        }
    }
}

/// A list of these objects, each as [`Encoding::encode`] writes it.
#[must_use]
pub fn list<'a>(
    encoding: Encoding,
    api_version: &str,
    kind: &str,
    revision: &str,
    next: &str,
    objects: impl Iterator<Item = &'a [u8]>,
) -> Vec<u8> {
    let mut out = Vec::new();
    match encoding {
        Encoding::Json => {
            let metadata = json!({ "resourceVersion": revision, "continue": next });
            let head = format!(
                "{{\"kind\":\"{kind}List\",\"apiVersion\":\"{api_version}\",\"metadata\":{metadata},\"items\":["
            );
            out.extend_from_slice(head.as_bytes());
            for (place, object) in objects.enumerate() {
                if place > 0 {
                    out.push(b',');
                }
                out.extend_from_slice(object);
            }
            out.extend_from_slice(b"]}");
        }
        Encoding::Protobuf => {
            let mut message = Vec::new();
            let mut metadata = Vec::new();
            put_field(&mut metadata, 1, b"");
            put_field(&mut metadata, 2, revision.as_bytes());
            put_field(&mut metadata, 3, next.as_bytes());
            put_field(&mut message, 1, &metadata);
            objects.for_each(|object| put_field(&mut message, 2, protobuf::message_of(object)));
            out.extend_from_slice(b"k8s\0");
            put_field(&mut out, 1, &protobuf::type_meta(api_version, &format!("{kind}List")));
            put_field(&mut out, 2, &message);
            put_field(&mut out, 3, b"");
            put_field(&mut out, 4, b"");
        }
    }
    out
}

fn put_field(out: &mut Vec<u8>, number: u64, bytes: &[u8]) {
    put_varint(out, number << 3 | 2);
    put_varint(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}
