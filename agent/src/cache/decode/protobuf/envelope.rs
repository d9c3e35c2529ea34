//! What is around objects: the envelope of every answer, watch events, lists, what a refusal says.

use super::fields::{Fields, ProtobufError};

/// What every answer begins with.
const MAGIC: &[u8] = b"k8s\0";

/// An object in its envelope (`runtime.Unknown`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Envelope<'a> {
    /// Which version.
    pub api_version: &'a str,
    /// Which kind.
    pub kind: &'a str,
    /// The message itself.
    pub message: &'a [u8],
}

/// One frame of a watch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WatchEvent<'a> {
    /// `ADDED` and the like.
    pub kind: &'a str,
    /// The object.
    pub object: Envelope<'a>,
}

/// A list, or a part of one. Its items have no envelopes of their own.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct List<'a> {
    /// The resourceVersion of the whole list.
    pub revision: &'a str,
    /// How to ask for the next part; empty at the end.
    pub next: &'a str,
    /// The selector of the shard that the server confirms.
    pub shard: Option<&'a str>,
    /// The messages of the items.
    pub items: Vec<&'a [u8]>,
}

/// What a server says when it refuses (`meta/v1.Status`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Status<'a> {
    /// The HTTP status; 0 where it does not say.
    pub code: i32,
    /// `Expired` and the like.
    pub reason: &'a str,
    /// For people.
    pub message: &'a str,
    /// How long it wants to be left alone, in seconds.
    pub retry_after_seconds: i32,
}

/// Opens an envelope.
///
/// # Errors
///
/// Not one, cut off, or compressed.
pub fn envelope(bytes: &[u8]) -> Result<Envelope<'_>, ProtobufError> {
    let mut envelope = Envelope::default();
    let mut fields = Fields::of(bytes.strip_prefix(MAGIC).ok_or(ProtobufError::Magic)?);
    while let Some(field) = fields.next()? {
        match field.number {
            1 => {
                let mut fields = field.message()?;
                while let Some(field) = fields.next()? {
                    match field.number {
                        1 => envelope.api_version = field.text()?,
                        2 => envelope.kind = field.text()?,
                        _ => {}
                    }
                }
            }
            2 => envelope.message = field.bytes()?,
            3 if !field.bytes()?.is_empty() => {
                return Err(ProtobufError::Value(format!("an object encoded as {}", field.text()?).into()));
            }
            _ => {}
        }
    }
    Ok(envelope)
}

/// Reads one frame of a watch, without its length.
///
/// # Errors
///
/// Not one, or cut off.
pub fn watch_event(frame: &[u8]) -> Result<WatchEvent<'_>, ProtobufError> {
    let (mut kind, mut object) = ("", &[][..]);
    let mut fields = Fields::of(frame);
    while let Some(field) = fields.next()? {
        match field.number {
            1 => kind = field.text()?,
            2 => {
                let mut fields = field.message()?;
                while let Some(field) = fields.next()? {
                    if field.number == 1 {
                        object = field.bytes()?;
                    }
                }
            }
            _ => {}
        }
    }
    Ok(WatchEvent { kind, object: envelope(object)? })
}

/// Reads a list of any kind, out of its envelope.
///
/// # Errors
///
/// Not one, or cut off.
pub fn list(message: &[u8]) -> Result<List<'_>, ProtobufError> {
    let mut list = List::default();
    let mut fields = Fields::of(message);
    while let Some(field) = fields.next()? {
        match field.number {
            1 => {
                let mut fields = field.message()?;
                while let Some(field) = fields.next()? {
                    match field.number {
                        2 => list.revision = field.text()?,
                        3 => list.next = field.text()?,
                        5 => {
                            let shard = list.shard.get_or_insert("");
                            let mut fields = field.message()?;
                            while let Some(field) = fields.next()? {
                                if field.number == 1 {
                                    *shard = field.text()?;
                                }
                            }
                        }
                        _ => {}
                    }
                }
            }
            2 => list.items.push(field.bytes()?),
            _ => {}
        }
    }
    Ok(list)
}

/// Reads what a refusal says, out of its envelope.
///
/// # Errors
///
/// Not one, or cut off.
pub fn status(message: &[u8]) -> Result<Status<'_>, ProtobufError> {
    let mut status = Status::default();
    let mut fields = Fields::of(message);
    while let Some(field) = fields.next()? {
        match field.number {
            3 => status.message = field.text()?,
            4 => status.reason = field.text()?,
            5 => {
                let mut fields = field.message()?;
                while let Some(field) = fields.next()? {
                    if field.number == 5 {
                        status.retry_after_seconds = field.int32()?;
                    }
                }
            }
            6 => status.code = field.int32()?,
            _ => {}
        }
    }
    Ok(status)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A length-delimited field whose number and length take one byte each.
    fn field(number: u8, content: &[u8]) -> Vec<u8> {
        [&[number << 3 | 2, u8::try_from(content.len()).unwrap()], content].concat()
    }

    fn enveloped(kind: &str, message: &[u8]) -> Vec<u8> {
        let type_meta = [field(1, b"v1"), field(2, kind.as_bytes())].concat();
        [MAGIC, &field(1, &type_meta), &field(2, message), &field(3, b""), &field(4, b"")].concat()
    }

    #[test]
    fn an_event_of_a_watch_is_opened_down_to_the_message() {
        let frame = [field(1, b"ADDED"), field(2, &field(1, &enveloped("Pod", b"xyz")))].concat();
        let event = watch_event(&frame).unwrap();
        let object = Envelope { api_version: "v1", kind: "Pod", message: b"xyz" };
        assert_eq!(event, WatchEvent { kind: "ADDED", object });
        for length in 0..frame.len() {
            assert!(watch_event(&frame[..length]).is_err(), "cut off after {length}");
        }
    }

    #[test]
    fn what_is_no_envelope_or_is_compressed_is_refused() {
        assert_eq!(envelope(b"{}"), Err(ProtobufError::Magic));
        assert_eq!(envelope(b""), Err(ProtobufError::Magic));
        let compressed = [MAGIC, &field(3, b"gzip")].concat();
        assert_eq!(envelope(&compressed).unwrap_err().to_string(), "an object encoded as gzip");
    }

    #[test]
    fn a_list_tells_its_revision_its_continuation_its_shard_and_its_items() {
        let meta = [field(2, b"77"), field(3, b"token"), field(5, &field(1, b"shardRange(x)"))].concat();
        let message = [field(1, &meta), field(2, b"one"), field(2, b"two")].concat();
        let expected =
            List { revision: "77", next: "token", shard: Some("shardRange(x)"), items: vec![b"one", b"two"] };
        assert_eq!(list(&message), Ok(expected));
        let plain = list(&[]).unwrap();
        assert_eq!((plain.shard, plain.items.len()), (None, 0));
    }

    #[test]
    fn a_status_says_code_reason_message_and_how_long_to_wait() {
        let message =
            [field(3, b"too old"), field(4, b"Expired"), field(5, &[0x28, 3]), vec![0x30, 0x9a, 0x03]].concat();
        let expected = Status { code: 410, reason: "Expired", message: "too old", retry_after_seconds: 3 };
        assert_eq!(status(&message), Ok(expected));
    }
}
