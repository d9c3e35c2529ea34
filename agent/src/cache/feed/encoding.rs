//! How objects are written on the wire, and objects that are not read yet.

use bytes::Bytes;

use crate::cache::decode::Encoded;

/// How objects are written on the wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Encoding {
    /// Text; a watch has one event a line.
    Json,
    /// Messages of Kubernetes' published `generated.proto`; a watch has the length before each event.
    Protobuf,
}

/// One object as it came, not read yet. It shares the memory of the answer that it came in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Object {
    /// The text, or the message without its envelope.
    bytes: Bytes,
    encoding: Encoding,
}

// === impl Encoding ===

impl Encoding {
    /// What an answer of this content type is written in; `None` where we read no such thing.
    pub(super) fn of(content_type: &str) -> Option<Self> {
        let media = content_type.split(';').next().unwrap_or_default().trim();
        match media {
            _ if media.eq_ignore_ascii_case("application/json") => Some(Self::Json),
            _ if media.eq_ignore_ascii_case("application/vnd.kubernetes.protobuf") => Some(Self::Protobuf),
            _ => None,
        }
    }
}

// === impl Object ===

impl Object {
    /// A part of an answer that is known to be UTF-8.
    pub(super) fn json(answer: &Bytes, part: &str) -> Self {
        Self { bytes: answer.slice_ref(part.as_bytes()), encoding: Encoding::Json }
    }

    /// A message within an answer.
    pub(super) fn protobuf(answer: &Bytes, message: &[u8]) -> Self {
        Self { bytes: answer.slice_ref(message), encoding: Encoding::Protobuf }
    }

    /// For reading it.
    pub(super) fn encoded(&self) -> Encoded<'_> {
        match self.encoding {
            Encoding::Json => Encoded::Json(std::str::from_utf8(&self.bytes).expect("JSON is checked where it is cut")),
            Encoding::Protobuf => Encoded::Protobuf(&self.bytes),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_content_type_decides() {
        for (content_type, expected) in [
            ("application/json", Some(Encoding::Json)),
            ("Application/JSON; charset=utf-8", Some(Encoding::Json)),
            ("application/json;stream=watch", Some(Encoding::Json)),
            ("application/vnd.kubernetes.protobuf", Some(Encoding::Protobuf)),
            ("application/vnd.kubernetes.protobuf;stream=watch", Some(Encoding::Protobuf)),
            ("application/cbor-seq", None),
            ("text/html", None),
            ("", None),
        ] {
            assert_eq!(Encoding::of(content_type), expected, "{content_type}");
        }
    }
}
