//! Protobuf as the API server writes it, driven by the field numbers in `schema.txt`.
//!
//! What is written here was compared with Kubernetes' own serializer: Pods of each workload, nodes and budgets are equal
//! byte for byte, as long as quantities are written as Go would.
//!
//! `schema.txt` is taken from the Go types of Kubernetes 1.36.3. A line is a message: `name=number:type`; `[]` repeated, `{}` a map with
//! keys of text, `..` a message whose fields JSON has inline, `!` a field that is written even if it is empty (Go has no
//! pointer there).

use std::collections::HashMap;
use std::sync::LazyLock;

use serde_json::{Map, Value};

use super::{Form, Own, Piece, Widths};

type Fields = Vec<Field>;

#[derive(Debug)]
struct Field {
    /// `None`: its fields are inline.
    name: Option<&'static str>,
    number: u64,
    many: Many,
    kind: &'static str,
    always: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Many {
    One,
    List,
    Map,
}

static SCHEMA: LazyLock<HashMap<&'static str, Fields>> = LazyLock::new(|| {
    let mut schema: HashMap<&'static str, Fields> = HashMap::new();
    let mut message = "";
    for line in include_str!("schema.txt").lines() {
        let mut words = line.split_whitespace();
        if !line.starts_with(' ') {
            message = words.next().expect("a line without indentation names a message");
        }
        schema.entry(message).or_default().extend(words.map(field));
    }
    schema
});

fn field(word: &'static str) -> Field {
    let (name, rest) = word.split_once('=').expect("name=number:type");
    let (number, kind) = rest.split_once(':').expect("number:type");
    let always = kind.ends_with('!');
    let kind = kind.trim_end_matches('!');
    let (many, kind) = match kind.get(..2) {
        Some("[]") => (Many::List, &kind[2..]),
        Some("{}") => (Many::Map, &kind[2..]),
        _ => (Many::One, kind),
    };
    let number = number.parse().expect("a field has a number");
    Field { name: (name != "..").then_some(name), number, many, kind, always }
}

/// An object in the API server's envelope: `k8s\0`, then its kind and the message itself.
pub(super) fn object(object: &Value, widths: Widths) -> Piece {
    let text = |field| object.get(field).and_then(Value::as_str).expect("an object says what it is");
    let kind = text("kind");
    let mut fields = object.as_object().expect("an object is an object").clone();
    fields.remove("kind");
    fields.remove("apiVersion");
    let mut message = Piece::default();
    put_message(&mut message, kind, &fields, widths);
    let mut piece = Piece::default();
    piece.bytes.extend_from_slice(b"k8s\0");
    piece.put_bytes(1, &type_meta(text("apiVersion"), kind));
    piece.put_piece(2, &message);
    piece.put_bytes(3, b"");
    piece.put_bytes(4, b"");
    piece
}

/// What says the kind of an object or a list.
pub(super) fn type_meta(api_version: &str, kind: &str) -> Vec<u8> {
    let mut meta = Piece::default();
    meta.put_bytes(1, api_version.as_bytes());
    meta.put_bytes(2, kind.as_bytes());
    meta.whole()
}

/// The message within the envelope of an object: members of a list come without.
///
/// # Panics
///
/// If there is no such envelope.
#[must_use]
pub fn message_of(object: &[u8]) -> &[u8] {
    let mut rest = &object[4..];
    let mut field = || {
        let tag = take_varint(&mut rest);
        let length = usize::try_from(take_varint(&mut rest)).expect("a length fits memory");
        let (bytes, after) = rest.split_at(length);
        rest = after;
        (tag >> 3, bytes)
    };
    let (meta, (message, bytes)) = (field(), field());
    assert!((meta.0, message) == (1, 2), "an envelope has its message second");
    bytes
}

fn take_varint(bytes: &mut &[u8]) -> u64 {
    let length = 1 + bytes.iter().position(|byte| byte & 0x80 == 0).expect("a number ends");
    let (number, rest) = bytes.split_at(length);
    *bytes = rest;
    number.iter().rev().fold(0, |value, byte| value << 7 | u64::from(byte & 0x7F))
}

fn put_message(piece: &mut Piece, kind: &str, fields: &Map<String, Value>, widths: Widths) {
    let schema = SCHEMA.get(kind).unwrap_or_else(|| panic!("schema.txt has no message {kind}"));
    for name in fields.keys() {
        assert!(has(schema, name), "schema.txt has no {name} in {kind}");
    }
    for field in schema {
        match field.name {
            None => {
                let mut inner = Piece::default();
                let theirs = &SCHEMA[field.kind];
                let own = fields.iter().filter(|(name, _)| has(theirs, name));
                put_message(
                    &mut inner,
                    field.kind,
                    &own.map(|(name, value)| (name.clone(), value.clone())).collect(),
                    widths,
                );
                piece.put_piece(field.number, &inner);
            }
            Some(name) => put_field(piece, field, fields.get(name).unwrap_or(&Value::Null), widths),
        }
    }
}

fn has(schema: &Fields, name: &str) -> bool {
    schema.iter().any(|field| match field.name {
        Some(field) => field == name,
        None => has(&SCHEMA[field.kind], name),
    })
}

fn put_field(piece: &mut Piece, field: &Field, value: &Value, widths: Widths) {
    match (field.many, value) {
        (Many::One, Value::Null) if !field.always => {}
        (Many::One, value) => put_value(piece, field.number, field.kind, value, widths),
        (Many::List, Value::Array(items)) => {
            items.iter().for_each(|item| put_value(piece, field.number, field.kind, item, widths));
        }
        (Many::Map, Value::Object(entries)) => {
            for (key, value) in entries {
                let mut entry = Piece::default();
                entry.put_text(1, key, widths);
                put_value(&mut entry, 2, field.kind, value, widths);
                piece.put_piece(field.number, &entry);
            }
        }
        (_, Value::Null) => {}
        (_, value) => panic!("{value} is no value of field {:?}", field.name),
    }
}

fn put_value(piece: &mut Piece, number: u64, kind: &str, value: &Value, widths: Widths) {
    match kind {
        "string" => piece.put_text(number, value.as_str().unwrap_or_default(), widths),
        // Negative numbers are sign-extended, as protobuf has it.
        "int" => piece.put_number(number, value.as_i64().unwrap_or_default().cast_unsigned()),
        "bool" => piece.put_number(number, u64::from(value.as_bool().unwrap_or_default())),
        "Quantity" => {
            let mut inner = Piece::default();
            inner.put_text(1, value.as_str().expect("a quantity is text"), widths);
            piece.put_piece(number, &inner);
        }
        "Time" => {
            let mut inner = Piece::default();
            if let Some(text) = value.as_str() {
                put_time(&mut inner, text);
            }
            piece.put_piece(number, &inner);
        }
        "IntOrString" => {
            let mut inner = Piece::default();
            inner.put_number(1, u64::from(value.is_string()));
            inner.put_number(2, value.as_u64().unwrap_or_default());
            inner.put_text(3, value.as_str().unwrap_or_default(), widths);
            piece.put_piece(number, &inner);
        }
        "FieldsV1" => {
            let mut inner = Piece::default();
            inner.put_piece(1, &Piece::json(value, widths));
            piece.put_piece(number, &inner);
        }
        "nothing" => piece.put_bytes(number, b""),
        message => {
            let mut inner = Piece::default();
            match value {
                Value::Null => put_message(&mut inner, message, &Map::new(), widths),
                Value::Object(fields) => put_message(&mut inner, message, fields, widths),
                other => panic!("{other} is no {message}"),
            }
            piece.put_piece(number, &inner);
        }
    }
}

fn put_time(piece: &mut Piece, text: &str) {
    let mut characters = text.chars();
    match (characters.next().and_then(Own::marked), characters.next()) {
        (Some(own), None) => {
            put_varint(&mut piece.bytes, 1 << 3);
            piece.gap(own, Form::Seconds, SECONDS_WIDTH);
        }
        _ => {
            let time: jiff::Timestamp = text.parse().expect("a time is written as RFC 3339");
            piece.put_number(1, time.as_second().cast_unsigned());
        }
    }
    piece.put_number(2, 0);
}

/// Bytes of a time's seconds between 1978 and 3058.
const SECONDS_WIDTH: usize = 5;

impl Piece {
    fn put_number(&mut self, number: u64, value: u64) {
        put_varint(&mut self.bytes, number << 3);
        put_varint(&mut self.bytes, value);
    }

    pub(super) fn put_bytes(&mut self, number: u64, bytes: &[u8]) {
        put_varint(&mut self.bytes, number << 3 | 2);
        put_varint(&mut self.bytes, bytes.len() as u64);
        self.bytes.extend_from_slice(bytes);
    }

    fn put_piece(&mut self, number: u64, piece: &Self) {
        put_varint(&mut self.bytes, number << 3 | 2);
        put_varint(&mut self.bytes, piece.bytes.len() as u64);
        self.append(piece);
    }

    fn put_text(&mut self, number: u64, text: &str, widths: Widths) {
        let mut inner = Self::default();
        inner.put_marked(text, widths, |bytes, character| {
            bytes.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes());
        });
        self.put_piece(number, &inner);
    }
}

/// A number, as short as it can be.
pub(super) fn put_varint(bytes: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        bytes.push((value & 0x7F) as u8 | 0x80);
        value >>= 7;
    }
    bytes.push((value & 0x7F) as u8);
}

/// A number that fills this place.
pub(super) fn write_varint(place: &mut [u8], mut value: u64) {
    let last = place.len() - 1;
    for (at, byte) in place.iter_mut().enumerate() {
        *byte = (value & 0x7F) as u8 | if at < last { 0x80 } else { 0 };
        value >>= 7;
    }
    assert!(value == 0, "a time out of range");
}
