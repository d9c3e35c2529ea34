//! Managed fields: who wrote what, as the API server tells it.

use serde_json::{Map, Value, json};

use crate::wire::Own;

/// Lists whose members the API server knows by these fields; others are one field.
const KEYED: [(&str, &[&str]); 8] = [
    ("conditions", &["type"]),
    ("containers", &["name"]),
    ("env", &["name"]),
    ("ownerReferences", &["uid"]),
    ("podIPs", &["ip"]),
    ("ports", &["containerPort", "protocol"]),
    ("volumeMounts", &["mountPath"]),
    ("volumes", &["name"]),
];

/// An entry that says that this manager wrote these fields.
pub(super) fn written(manager: &str, subresource: Option<&str>, time: Own, fields: &Value) -> Value {
    let mut entry = json!({
        "apiVersion": "v1",
        "fieldsType": "FieldsV1",
        "fieldsV1": names(fields, ""),
        "manager": manager,
        "operation": "Update",
        "time": time.mark(),
    });
    if let Some(subresource) = subresource {
        entry["subresource"] = json!(subresource);
    }
    entry
}

/// What a controller writes of a spec: without what the scheduler and admission put in, who leave no trace.
pub(super) fn by_controller(spec: &Value) -> Value {
    const BY_OTHERS: [&str; 4] = ["nodeName", "preemptionPolicy", "priority", "tolerations"];
    let mut spec = spec.clone();
    let fields = spec.as_object_mut().expect("a spec is an object");
    fields.retain(|name, _| !BY_OTHERS.contains(&name.as_str()));
    without_token(&mut fields["volumes"]);
    for container in fields["containers"].as_array_mut().into_iter().flatten() {
        without_token(&mut container["volumeMounts"]);
    }
    spec
}

fn without_token(list: &mut Value) {
    let by_admission = |item: &Value| item["name"].as_str().is_some_and(|name| name.starts_with("kube-api-access"));
    if let Some(items) = list.as_array_mut() {
        items.retain(|item| !by_admission(item));
    }
}

fn names(value: &Value, name: &str) -> Value {
    match value {
        Value::Object(fields) => {
            let field = |(name, value): (&String, &Value)| (format!("f:{name}"), names(value, name));
            fields.iter().map(field).collect::<Map<_, _>>().into()
        }
        Value::Array(items) => match KEYED.iter().find(|(list, _)| *list == name) {
            Some((_, keys)) => {
                let mut members: Map<String, Value> =
                    items.iter().map(|item| (key(item, keys), member(item))).collect();
                members.insert(".".into(), json!({}));
                members.into()
            }
            None => json!({}),
        },
        _ => json!({}),
    }
}

fn member(item: &Value) -> Value {
    let mut fields = names(item, "");
    fields["."] = json!({});
    fields
}

fn key(item: &Value, keys: &[&str]) -> String {
    let key: Map<String, Value> = keys.iter().map(|key| ((*key).to_owned(), item[*key].clone())).collect();
    format!("k:{}", Value::from(key))
}
