//! The API's description: made of the wire types, committed as docs/openapi.json, which the agent serves.

// clippy takes helpers for parts of tests only within what is marked as such.
#[cfg(test)]
mod answers;
#[cfg(test)]
mod document;
#[cfg(test)]
mod examples;
#[cfg(test)]
mod operations;
#[cfg(test)]
mod text;

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::path::Path;

    use serde_json::Value;
    use utoipa::openapi::OpenApi;

    use super::document;

    /// What is written in `docs/`.
    fn committed() -> String {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/openapi.json");
        let written = format!("{:#}\n", document::whole());
        if std::env::var_os("UPDATE_DOCS").is_some() {
            std::fs::write(&path, &written).unwrap();
        }
        std::fs::read_to_string(&path).unwrap_or_default()
    }

    /// Every value of this key, wherever it stands.
    fn all<'a>(value: &'a Value, key: &str, found: &mut Vec<&'a Value>) {
        match value {
            Value::Object(fields) => {
                found.extend(fields.get(key));
                fields.values().for_each(|value| all(value, key, found));
            }
            Value::Array(items) => items.iter().for_each(|item| all(item, key, found)),
            _ => {}
        }
    }

    /// Where two values are not the same.
    fn differ(one: &Value, other: &Value, at: &str, found: &mut Vec<String>) {
        match (one, other) {
            (Value::Object(ones), Value::Object(others)) => {
                for key in ones.keys().chain(others.keys()).collect::<BTreeSet<_>>() {
                    differ(&one[key], &other[key], &format!("{at}/{key}"), found);
                }
            }
            _ if one != other => found.push(format!("{at}: {one} {other}")),
            _ => {}
        }
    }

    #[test]
    fn the_committed_description_is_what_the_types_say() {
        let written = format!("{:#}\n", document::whole());
        assert!(
            committed() == written,
            "docs/openapi.json is not up to date: UPDATE_DOCS=1 cargo test -p rotate-shared --features openapi --test openapi"
        );
        assert!(written.len() < 200_000, "{} bytes", written.len());
    }

    #[test]
    fn it_is_a_whole_openapi_document() {
        let document = document::whole();
        let read: OpenApi = serde_json::from_value(document.clone()).unwrap();
        let mut lost = Vec::new();
        differ(&document, &serde_json::to_value(&read).unwrap(), "", &mut lost);
        assert!(lost.is_empty(), "these have no place in one:\n{}", lost.join("\n"));
        let mut references = Vec::new();
        all(&document, "$ref", &mut references);
        assert!(references.len() > 100, "references are not found: {references:?}");
        for reference in references {
            assert!(document.pointer(&reference.as_str().unwrap()[1..]).is_some(), "{reference} leads nowhere");
        }
    }

    #[test]
    fn nothing_in_it_is_described_twice_or_used_nowhere() {
        let document = document::whole();
        let mut references = Vec::new();
        all(&document, "$ref", &mut references);
        let used: BTreeSet<_> = references.into_iter().filter_map(Value::as_str).collect();
        for kind in ["schemas", "responses", "parameters"] {
            for name in document["components"][kind].as_object().unwrap().keys() {
                assert!(used.contains(&*format!("#/components/{kind}/{name}")), "{kind}: {name}");
            }
        }
        let mut ids = Vec::new();
        all(&document["paths"], "operationId", &mut ids);
        let operations = document["paths"].as_object().unwrap().values().map(|path| path.as_object().unwrap().len());
        // Each is told of by the link that leads to it, too.
        let distinct: BTreeSet<_> = ids.iter().map(|id| id.as_str()).collect();
        assert!(distinct.len() >= 15 && distinct.len() <= operations.sum(), "{distinct:?}");
    }

    #[test]
    fn everything_is_described_and_nothing_as_rustdoc_has_it() {
        let document = document::whole();
        for (name, schema) in document["components"]["schemas"].as_object().unwrap() {
            assert!(schema["description"].is_string(), "{name}");
            for (field, property) in schema["properties"].as_object().into_iter().flatten() {
                assert!(property["description"].is_string(), "{name}.{field}");
            }
        }
        let mut texts = Vec::new();
        all(&document, "description", &mut texts);
        for text in texts.iter().map(|text| text.as_str().unwrap()) {
            assert!(!text.is_empty() && !text.contains("[`") && !text.contains("::"), "{text}");
        }
    }

    #[test]
    fn requests_refuse_what_they_do_not_know_and_answers_may_grow() {
        let document = document::whole();
        let mut closed = BTreeSet::new();
        for (name, schema) in document["components"]["schemas"].as_object().unwrap() {
            if schema["additionalProperties"] == false {
                closed.insert(name.as_str());
            }
        }
        assert_eq!(closed, BTreeSet::from(["CancelRequest", "OptionsRequest", "PlanRequest", "RotationRequest"]));
    }
}
