//! One object in the two encodings of the API server, with gaps for what each Pod has of its own.
//!
//! ```text
//! serde_json::Value ──json──────▶ Piece { bytes, gaps } ──fill──▶ the bytes of one Pod
//!  (marks in strings) ──protobuf──▶ Piece { bytes, gaps } ──fill──▶
//! ```
//!
//! A million Pods of 7.5 KB cannot be kept encoded, and encoding one takes longer than decoding it. Siblings differ only
//! in strings of the same length: a piece is encoded once, and each Pod is a copy with its gaps filled.

mod frame;
mod protobuf;

pub use frame::{Encoding, added, bookmark, deleted, list, modified};
pub use protobuf::message_of;

use serde_json::Value;

/// What a Pod has of its own. In a string of a template, [`Own::mark`] stands for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Own {
    /// The random end of the name.
    Suffix,
    /// The number in the name, of a `StatefulSet` or an indexed Job.
    Ordinal,
    /// `metadata.uid`.
    Uid,
    /// The node's name.
    Node,
    /// The Pod's address.
    PodIp,
    /// The node's address.
    HostIp,
    /// The time it was created.
    Created,
    /// The time its containers started.
    Started,
    /// The time its containers ended.
    Ended,
    /// `metadata.resourceVersion`.
    Revision,
    /// The UID of an owner that has only this Pod.
    OwnerUid,
    /// The minute in the name of a CronJob's Job.
    Minute,
    /// The random end of the name of its token volume.
    Token,
    /// The id of its first container.
    FirstContainer,
    /// The id of its second container.
    SecondContainer,
}

/// A place to fill.
#[derive(Clone, Copy, Debug)]
struct Gap {
    at: u32,
    width: u32,
    own: Own,
    form: Form,
}

/// How a gap is filled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    /// With text.
    Text,
    /// With the seconds of a time, as protobuf writes a number.
    Seconds,
}

/// An encoded object with gaps.
#[derive(Clone, Debug, Default)]
pub struct Piece {
    bytes: Vec<u8>,
    gaps: Vec<Gap>,
}

/// What fills the gaps.
pub trait Fill {
    /// The text, as long as [`Widths`] promised.
    fn text(&self, own: Own) -> &[u8];
    /// The same as seconds since 1970, where it is a time.
    fn seconds(&self, own: Own) -> u64;
}

/// How long the texts are that differ in length from one template to another.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Widths {
    /// Digits of [`Own::Ordinal`].
    pub ordinal: usize,
}

/// Marks are characters of the private use area.
const FIRST_MARK: u32 = 0xE000;
const MARKS: [Own; 15] = [
    Own::Suffix,
    Own::Ordinal,
    Own::Uid,
    Own::Node,
    Own::PodIp,
    Own::HostIp,
    Own::Created,
    Own::Started,
    Own::Ended,
    Own::Revision,
    Own::OwnerUid,
    Own::Minute,
    Own::Token,
    Own::FirstContainer,
    Own::SecondContainer,
];

impl Own {
    /// What stands for it in a string of a template.
    #[must_use]
    pub fn mark(self) -> char {
        char::from_u32(FIRST_MARK + self as u32).expect("the private use area is all characters")
    }

    fn marked(character: char) -> Option<Self> {
        let at = u32::from(character).checked_sub(FIRST_MARK)?;
        MARKS.get(at as usize).copied()
    }

    /// How long its text is.
    #[must_use]
    pub fn width(self, widths: Widths) -> usize {
        match self {
            Self::Suffix | Self::Token => 5,
            Self::Ordinal => widths.ordinal,
            Self::Uid | Self::OwnerUid => 36,
            Self::Node => 36,
            Self::PodIp | Self::HostIp => 14,
            Self::Created | Self::Started | Self::Ended => 20,
            Self::Revision => 10,
            Self::Minute => 8,
            Self::FirstContainer | Self::SecondContainer => 64,
        }
    }
}

impl Piece {
    /// Encodes an object as JSON.
    #[must_use]
    pub fn json(object: &Value, widths: Widths) -> Self {
        let mut piece = Self::default();
        piece.put_json(object, widths);
        piece
    }

    /// Encodes an object as protobuf, as the API server stores it: with the envelope that says its kind.
    ///
    /// # Panics
    ///
    /// If it has a field that `schema.txt` does not list.
    #[must_use]
    pub fn protobuf(object: &Value, widths: Widths) -> Self {
        protobuf::object(object, widths)
    }

    /// How many bytes it has.
    #[must_use]
    pub fn len(&self) -> usize {
        self.bytes.len()
    }

    /// Whether it has none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// Appends a copy whose gaps are filled.
    pub fn fill(&self, own: &impl Fill, out: &mut Vec<u8>) {
        let start = out.len();
        out.extend_from_slice(&self.bytes);
        for gap in &self.gaps {
            let from = start + gap.at as usize;
            let place = &mut out[from..from + gap.width as usize];
            match gap.form {
                Form::Text => place.copy_from_slice(own.text(gap.own)),
                Form::Seconds => protobuf::write_varint(place, own.seconds(gap.own)),
            }
        }
    }

    /// The bytes of an object without gaps.
    ///
    /// # Panics
    ///
    /// If it has gaps.
    #[must_use]
    pub fn whole(self) -> Vec<u8> {
        assert!(self.gaps.is_empty(), "a piece with gaps must be filled");
        self.bytes
    }

    fn gap(&mut self, own: Own, form: Form, width: usize) {
        let small = |size: usize| u32::try_from(size).expect("objects are smaller than 4 GiB");
        self.gaps.push(Gap { at: small(self.bytes.len()), width: small(width), own, form });
        self.bytes.resize(self.bytes.len() + width, b'?');
    }

    fn append(&mut self, other: &Self) {
        let shift = u32::try_from(self.bytes.len()).expect("objects are smaller than 4 GiB");
        self.bytes.extend_from_slice(&other.bytes);
        self.gaps.extend(other.gaps.iter().map(|gap| Gap { at: gap.at + shift, ..*gap }));
    }

    /// Text with its marks made gaps, each other character written by `put`.
    fn put_marked(&mut self, text: &str, widths: Widths, put: impl Fn(&mut Vec<u8>, char)) {
        for character in text.chars() {
            match Own::marked(character) {
                Some(own) => self.gap(own, Form::Text, own.width(widths)),
                None => put(&mut self.bytes, character),
            }
        }
    }

    fn put_json(&mut self, value: &Value, widths: Widths) {
        match value {
            Value::Null => self.bytes.extend_from_slice(b"null"),
            Value::Bool(is) => self.bytes.extend_from_slice(if *is { b"true" } else { b"false" }),
            Value::Number(number) => self.bytes.extend_from_slice(number.to_string().as_bytes()),
            Value::String(text) => self.put_json_text(text, widths),
            Value::Array(items) => self.put_json_list(b'[', items, b']', |piece, item| piece.put_json(item, widths)),
            Value::Object(fields) => self.put_json_list(b'{', fields, b'}', |piece, (key, value)| {
                piece.put_json_text(key, widths);
                piece.bytes.push(b':');
                piece.put_json(value, widths);
            }),
        }
    }

    fn put_json_list<T>(
        &mut self,
        open: u8,
        items: impl IntoIterator<Item = T>,
        close: u8,
        put: impl Fn(&mut Self, T),
    ) {
        self.bytes.push(open);
        for (place, item) in items.into_iter().enumerate() {
            if place > 0 {
                self.bytes.push(b',');
            }
            put(self, item);
        }
        self.bytes.push(close);
    }

    fn put_json_text(&mut self, text: &str, widths: Widths) {
        self.bytes.push(b'"');
        self.put_marked(text, widths, |bytes, character| match character {
            '"' | '\\' => bytes.extend_from_slice(&[b'\\', character as u8]),
            '\n' => bytes.extend_from_slice(b"\\n"),
            _ => bytes.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes()),
        });
        self.bytes.push(b'"');
    }
}
