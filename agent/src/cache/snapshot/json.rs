//! Saved objects as JSON.

use serde::Deserialize;
use serde_json::value::RawValue;

use super::{Collector, SnapshotError, line_of};
use crate::cache::decode::nullable;

#[derive(Deserialize)]
struct Document<'a> {
    #[serde(default)]
    kind: Option<Box<str>>,
    #[serde(borrow, default)]
    items: Option<Items<'a>>,
}

#[derive(Deserialize)]
struct Items<'a>(#[serde(borrow, deserialize_with = "nullable")] Vec<&'a RawValue>);

/// Reads one document after another.
pub(super) fn read(text: &str, collector: &mut Collector) -> Result<(), SnapshotError> {
    let mut documents = serde_json::Deserializer::from_str(text).into_iter::<&RawValue>();
    while let Some(document) = documents.next() {
        let document = document.map_err(|error| syntax(&error))?.get();
        let start = documents.byte_offset() - document.len();
        if !document.starts_with('{') {
            return Err(SnapshotError::NotObjects { line: line_of(text.as_bytes(), start) });
        }
        let Document { kind, items } = serde_json::from_str(document).map_err(|error| syntax(&error))?;
        match items {
            Some(Items(items)) => {
                collector.any = true;
                for item in items {
                    collector.take(item.get(), kind.as_deref())?;
                }
            }
            // `"items": null` is how Go writes an empty list.
            None if kind.as_deref().is_some_and(|kind| kind.ends_with("List")) => collector.any = true,
            None => collector.take(document, None)?,
        }
    }
    Ok(())
}

fn syntax(error: &serde_json::Error) -> SnapshotError {
    let line = error.line() as u64;
    if error.is_eof() {
        return SnapshotError::Truncated { line };
    }
    SnapshotError::Syntax { line, message: error.to_string() }
}
