//! Saved objects as YAML: each is written out as JSON, for the same decoders to read.
//!
//! kubectl quotes every text that would read as something else, so nothing is lost on the way. A number in the place of a
//! quantity, as people write it, is read as the API server does.

use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, Error as _, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_saphyr::Options;

use super::{Collector, SnapshotError};

/// Written by the API server about who wrote which field: as long as the object, and never read.
const SKIPPED: &str = "managedFields";

/// Reads one document after another.
pub(super) fn read(text: &str, collector: &mut Collector) -> Result<(), SnapshotError> {
    for (first_line, document) in documents(text) {
        let mut reader = Reader { collector, failed: None, end: End::Nothing };
        let result = serde_saphyr::with_deserializer_from_str_with_options(document, options(), |deserializer| {
            DocumentSeed(&mut reader).deserialize(deserializer)
        });
        let Reader { failed, end, .. } = reader;
        if let Some(error) = failed {
            return Err(error);
        }
        let lines = document.lines().count() as u64;
        if let Err(error) = result {
            let error = error.without_snippet();
            let line = error.location().map_or(1, |location| location.line());
            let mut message = error.to_string();
            // Aliases are the one thing that is bounded.
            let aliased = message.starts_with("budget breached");
            if aliased {
                "aliases (*name) are not read; kubectl writes none".clone_into(&mut message);
            }
            return Err(match end {
                End::NotObject => SnapshotError::NotObjects { line: first_line },
                _ if aliased || message.starts_with("invalid type") => {
                    SnapshotError::Syntax { line: first_line + line - 1, message }
                }
                _ if line >= lines => SnapshotError::Truncated { line: first_line + lines.saturating_sub(1) },
                _ => SnapshotError::Syntax { line: first_line + line - 1, message },
            });
        }
        match end {
            // `kind` stands behind `items`: a list that was cut off between two lines is still YAML.
            End::ListWithoutKind => {
                return Err(SnapshotError::Truncated { line: first_line + lines.saturating_sub(1) });
            }
            End::NotObject => return Err(SnapshotError::NotObjects { line: first_line }),
            End::Nothing | End::Complete => {}
        }
    }
    Ok(())
}

/// The documents of a file, each with the number of its first line. A line that begins with `---` is a separator
/// wherever it stands: what belongs to a text is indented.
fn documents(text: &str) -> Vec<(u64, &str)> {
    let mut documents = Vec::new();
    let (mut start, mut first_line) = (0, 1);
    let mut at = 0;
    for (number, line) in (1_u64..).zip(text.split_inclusive('\n')) {
        let separator =
            line.strip_prefix("---").is_some_and(|rest| rest.is_empty() || rest.starts_with(char::is_whitespace));
        if separator && at > start {
            documents.push((first_line, &text[start..at]));
            (start, first_line) = (at, number);
        }
        at += line.len();
    }
    documents.push((first_line, &text[start..]));
    documents
}

fn options() -> Options {
    // The size of the text is bounded already. What is left bounded here are aliases, which make much out of little.
    serde_saphyr::options! {
        budget: serde_saphyr::budget! {
            max_events: usize::MAX,
            max_nodes: usize::MAX,
            max_total_scalar_bytes: usize::MAX,
            max_total_comment_bytes: usize::MAX,
            max_aliases: 0,
        },
        with_snippet: false,
    }
}

/// How a document ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    /// There was nothing in it.
    Nothing,
    /// It was an object, or a list that was told to its end.
    Complete,
    /// It was a list, and did not say of what.
    ListWithoutKind,
    /// It was something else.
    NotObject,
}

struct Reader<'a> {
    collector: &'a mut Collector,
    /// An error of ours, that travels past the YAML reader.
    failed: Option<SnapshotError>,
    end: End,
}

impl Reader<'_> {
    fn take<E: serde::de::Error>(&mut self, json: &[u8], list: Option<&str>) -> Result<(), E> {
        let json = str::from_utf8(json).expect("JSON that we wrote is UTF-8");
        self.collector.take(json, list).map_err(|error| {
            self.failed = Some(error);
            E::custom("an object cannot be read")
        })
    }
}

/// A document: a list, of which each item is taken in as it comes, or an object.
struct DocumentSeed<'a, 'b>(&'a mut Reader<'b>);

impl<'de> DeserializeSeed<'de> for DocumentSeed<'_, '_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl DocumentSeed<'_, '_> {
    /// The document is a value of its own.
    fn not_object<E>(self) -> Result<(), E> {
        self.0.end = End::NotObject;
        Ok(())
    }
}

impl<'de> Visitor<'de> for DocumentSeed<'_, '_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a Kubernetes object")
    }

    fn visit_unit<E>(self) -> Result<(), E> {
        Ok(())
    }

    fn visit_bool<E: serde::de::Error>(self, _: bool) -> Result<(), E> {
        self.not_object()
    }

    fn visit_i64<E: serde::de::Error>(self, _: i64) -> Result<(), E> {
        self.not_object()
    }

    fn visit_u64<E: serde::de::Error>(self, _: u64) -> Result<(), E> {
        self.not_object()
    }

    fn visit_f64<E: serde::de::Error>(self, _: f64) -> Result<(), E> {
        self.not_object()
    }

    fn visit_str<E: serde::de::Error>(self, _: &str) -> Result<(), E> {
        self.not_object()
    }

    fn visit_seq<A: SeqAccess<'de>>(self, _: A) -> Result<(), A::Error> {
        self.0.end = End::NotObject;
        Err(A::Error::custom("a sequence"))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        let mut json = Vec::from(b"{");
        let mut is_list = false;
        let mut has_kind = false;
        while let Some(key) = map.next_key::<String>()? {
            match key.as_str() {
                "items" => {
                    is_list = true;
                    self.0.collector.any = true;
                    map.next_value_seed(ItemsSeed(self.0))?;
                }
                key => {
                    has_kind |= key == "kind";
                    write_entry(&mut json, key, &mut map)?;
                }
            }
        }
        json.push(b'}');
        self.0.end = if is_list && !has_kind { End::ListWithoutKind } else { End::Complete };
        if is_list { Ok(()) } else { self.0.take(&json, None) }
    }
}

/// The items of a list.
struct ItemsSeed<'a, 'b>(&'a mut Reader<'b>);

impl<'de> DeserializeSeed<'de> for ItemsSeed<'_, '_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for ItemsSeed<'_, '_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list of objects")
    }

    fn visit_unit<E>(self) -> Result<(), E> {
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<(), A::Error> {
        let mut json = Vec::new();
        while items.next_element_seed(ToJson(&mut json))?.is_some() {
            self.0.take(&json, None)?;
            json.clear();
        }
        Ok(())
    }
}

/// Writes whatever comes as JSON.
struct ToJson<'a>(&'a mut Vec<u8>);

impl ToJson<'_> {
    fn write<E: serde::de::Error>(self, value: impl serde::Serialize) -> Result<(), E> {
        serde_json::to_writer(self.0, &value).map_err(E::custom)
    }
}

impl<'de> DeserializeSeed<'de> for ToJson<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for ToJson<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value")
    }

    fn visit_unit<E: serde::de::Error>(self) -> Result<(), E> {
        self.write(())
    }

    fn visit_none<E: serde::de::Error>(self) -> Result<(), E> {
        self.write(())
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }

    fn visit_bool<E: serde::de::Error>(self, value: bool) -> Result<(), E> {
        self.write(value)
    }

    fn visit_i64<E: serde::de::Error>(self, value: i64) -> Result<(), E> {
        self.write(value)
    }

    fn visit_u64<E: serde::de::Error>(self, value: u64) -> Result<(), E> {
        self.write(value)
    }

    fn visit_f64<E: serde::de::Error>(self, value: f64) -> Result<(), E> {
        self.write(value)
    }

    fn visit_str<E: serde::de::Error>(self, value: &str) -> Result<(), E> {
        self.write(value)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut values: A) -> Result<(), A::Error> {
        self.0.push(b'[');
        let mut first = true;
        loop {
            let length = self.0.len();
            if !first {
                self.0.push(b',');
            }
            if values.next_element_seed(ToJson(self.0))?.is_none() {
                self.0.truncate(length);
                break;
            }
            first = false;
        }
        self.0.push(b']');
        Ok(())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        self.0.push(b'{');
        while let Some(key) = map.next_key::<String>()? {
            if key == SKIPPED {
                map.next_value::<IgnoredAny>()?;
            } else {
                write_entry(self.0, &key, &mut map)?;
            }
        }
        self.0.push(b'}');
        Ok(())
    }
}

/// Writes one entry of an object that has been begun.
fn write_entry<'de, A: MapAccess<'de>>(json: &mut Vec<u8>, key: &str, map: &mut A) -> Result<(), A::Error> {
    if json.last() != Some(&b'{') {
        json.push(b',');
    }
    ToJson(json).write(key)?;
    json.push(b':');
    map.next_value_seed(ToJson(json))
}
