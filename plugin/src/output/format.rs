//! `-o`: which formats there are, and objects written in them.

use serde::Serialize;
use serde_json::ser::PrettyFormatter;

use crate::failure::Failure;

/// How objects are printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Format {
    /// For people: a table, or text.
    Table,
    /// A table with more columns.
    Wide,
    /// JSON.
    Json,
    /// YAML.
    Yaml,
    /// `kind/name` only.
    Name,
}

/// The formats of what is listed.
pub(crate) const LISTS: &[(&str, Format)] =
    &[("json", Format::Json), ("name", Format::Name), ("wide", Format::Wide), ("yaml", Format::Yaml)];
/// Those of objects that are written.
pub(crate) const OBJECTS: &[(&str, Format)] = &[("json", Format::Json), ("name", Format::Name), ("yaml", Format::Yaml)];
/// Those of objects that go.
pub(crate) const NAMES: &[(&str, Format)] = &[("name", Format::Name)];

/// The one of these formats that is called so.
///
/// # Errors
///
/// None of them is, in kubectl's words.
pub(crate) fn among(allowed: &[(&str, Format)], text: &str) -> Result<Format, Failure> {
    let found = allowed.iter().find(|(name, _)| *name == text).map(|(_, format)| *format);
    found.ok_or_else(|| {
        let names = allowed.iter().map(|(name, _)| *name).collect::<Vec<_>>().join(",");
        Failure::Usage(format!(
            "unable to match a printer suitable for the output format {text:?}, allowed formats are: {names}"
        ))
    })
}

/// JSON, indented as kubectl's.
pub(crate) fn json<T: Serialize>(object: &T) -> String {
    let mut bytes = Vec::new();
    let mut writer = serde_json::Serializer::with_formatter(&mut bytes, PrettyFormatter::with_indent(b"    "));
    object.serialize(&mut writer).expect("wire types have string keys and no failing serializer");
    bytes.push(b'\n');
    String::from_utf8(bytes).expect("serde_json writes UTF-8")
}

/// JSON on one line.
pub(crate) fn json_line<T: Serialize>(object: &T) -> String {
    let mut line = serde_json::to_string(object).expect("wire types have string keys and no failing serializer");
    line.push('\n');
    line
}

/// YAML.
pub(crate) fn yaml<T: Serialize>(object: &T) -> String {
    let mut text = serde_saphyr::to_string(object).expect("wire types can be written as YAML");
    if !text.ends_with('\n') {
        text.push('\n');
    }
    text
}
