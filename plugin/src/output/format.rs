//! `-o`: which formats there are, and objects written in them.

use std::str::FromStr;

use serde::Serialize;
use serde_json::ser::PrettyFormatter;

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

/// Not a format, in kubectl's words.
#[derive(Clone, Debug, thiserror::Error)]
#[error("unable to match a printer suitable for the output format {0:?}, allowed formats are: json,name,wide,yaml")]
pub(crate) struct UnknownFormat(String);

impl FromStr for Format {
    type Err = UnknownFormat;

    fn from_str(text: &str) -> Result<Self, UnknownFormat> {
        match text {
            "wide" => Ok(Self::Wide),
            "json" => Ok(Self::Json),
            "yaml" => Ok(Self::Yaml),
            "name" => Ok(Self::Name),
            _ => Err(UnknownFormat(text.to_owned())),
        }
    }
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
