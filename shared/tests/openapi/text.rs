//! Documentation comments, made readable for those who do not read Rust.

use rotate_shared::API_VERSION;
use serde_json::{Value, json};

/// Rewrites every description, and puts it where it is looked for; what is `Always` the same becomes the only value, and
/// numbers have bounds.
pub(crate) fn tidy(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            // What may be left out is described with the type that it has if it is there.
            let inner = fields.get_mut("oneOf").and_then(Value::as_array_mut);
            let inner =
                inner.and_then(|types| types.iter_mut().find_map(|one| one.as_object_mut()?.remove("description")));
            fields.extend(inner.map(|text| ("description".to_owned(), text)));
            if let Some(Value::String(text)) = fields.get_mut("description") {
                *text = plain(text);
                let only = text.strip_prefix("Always `").and_then(|rest| rest.strip_suffix("`."));
                if let Some(only) = only.map(|only| json!([only])) {
                    fields.insert("enum".to_owned(), only);
                }
            }
            if let Some(Value::String(format)) = fields.get_mut("format") {
                // As the registry of formats spells them. Not everybody knows them; a bound everybody does.
                *format = format.replace("u-int", "uint");
                let maximum = match &**format {
                    "uint16" => Some(json!(u16::MAX)),
                    "uint32" => Some(json!(u32::MAX)),
                    "uint64" => Some(json!(u64::MAX)),
                    _ => None,
                };
                fields.extend(maximum.map(|maximum| ("maximum".to_owned(), maximum)));
            }
            fields.values_mut().for_each(tidy);
        }
        Value::Array(items) => items.iter_mut().for_each(tidy),
        _ => {}
    }
}

/// Lines joined within paragraphs, links without what they lead to.
fn plain(text: &str) -> String {
    let paragraphs = text.split("\n\n").map(|paragraph| paragraph.split_whitespace().collect::<Vec<_>>().join(" "));
    let text = paragraphs.collect::<Vec<_>>().join("\n\n");
    let mut parts = text.split("[`");
    let mut plain = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let (link, rest) = part.split_once("`]").unwrap_or((part, ""));
        plain.push('`');
        plain.push_str(&name(link));
        plain.push('`');
        plain.push_str(rest);
    }
    plain
}

/// The last part of a path, spelled as on the wire.
fn name(link: &str) -> String {
    let last = link.rsplit("::").next().unwrap_or(link);
    if last == "API_VERSION" {
        return API_VERSION.to_owned();
    }
    let mut words = last.split('_');
    let mut name = words.next().unwrap_or_default().to_owned();
    for word in words {
        let mut letters = word.chars();
        name.extend(letters.next().map(|first| first.to_ascii_uppercase()));
        name.extend(letters);
    }
    name
}

#[test]
fn links_of_comments_become_names_as_on_the_wire() {
    assert_eq!(plain("Always\n[`crate::API_VERSION`]."), format!("Always `{API_VERSION}`."));
    assert_eq!(
        plain("of ([`NodeSummary::pods_revision`]), for [`Code::Blocked`]"),
        "of (`podsRevision`), for `Blocked`"
    );
    let mut value = json!({ "kind": { "type": "string", "description": "Always `Plan`." } });
    tidy(&mut value);
    assert_eq!(value["kind"]["enum"], json!(["Plan"]));
}
