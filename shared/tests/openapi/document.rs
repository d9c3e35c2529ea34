//! The whole document: what the operations take and give, and the schemas of the types.

use std::collections::BTreeMap;

use rotate_shared::{
    CacheInfo, CancelRequest, NodeList, PlanList, PlanRequest, Problem, Rotation, RotationList, RotationRequest,
    VersionInfo, names,
};
use serde_json::{Value, json};
use utoipa::ToSchema;
use utoipa::openapi::{RefOr, Schema};

use crate::{answers, operations, text};

const ABOUT: &str = "Plans and begins rotations of nodes, follows and ends them, and tells what the agent knows of the \
    cluster. How to call it with curl, and what changes from version to version: docs/http.md.\n\n\
    Errors are problem documents (RFC 9457) with a stable `code`; docs/runbook.md says what each means. Fields that a \
    request may not have are refused by name; answers may have fields that are not listed here.\n\n\
    HEAD is answered wherever GET is.";

/// All of it.
pub(crate) fn whole() -> Value {
    let mut document = json!({
        "openapi": "3.1.0",
        "info": {
            "title": "kubectl-rotate",
            "description": ABOUT,
            "version": "v1",
            "license": { "name": "Apache-2.0", "identifier": "Apache-2.0" },
        },
        "servers": [
            {
                "url": format!("http://127.0.0.1:{}", names::CONTROL_PORT),
                "description": "The control port, through a port-forward.",
            },
            {
                "url": "https://{host}:8443",
                "description": "With TLS, for programs in the cluster.",
                "variables": { "host": {
                    "default": "rotate-agent.kubectl-rotate.svc",
                    "description": "A name that the agent's certificate has.",
                } },
            },
        ],
        "tags": [
            { "name": "rotations", "description": "Nodes being replaced, and how that went." },
            { "name": "plans", "description": "What a rotation would do, and what stands in its way." },
            { "name": "nodes", "description": "The fleet with its sums." },
            { "name": "agent", "description": "The agent itself." },
        ],
        "security": [{ "token": [] }],
        "paths": operations::paths(),
        "components": {
            "parameters": operations::parameters(),
            "responses": answers::components(),
            "schemas": schemas(),
            "securitySchemes": { "token": {
                "type": "http",
                "scheme": "bearer",
                "bearerFormat": "JWT",
                "description": format!(
                    "A token of a Kubernetes service account for the audience {:?}: kubectl create token rotate-operator \
                     --namespace {} --audience {}. The API server judges it (TokenReview), and then what its account may \
                     do (SubjectAccessReview).",
                    names::AUDIENCE, names::NAMESPACE, names::AUDIENCE
                ),
            } },
        },
    });
    text::tidy(&mut document);
    document
}

fn schemas() -> Value {
    let mut found = BTreeMap::new();
    add::<CacheInfo>(&mut found);
    add::<CancelRequest>(&mut found);
    add::<NodeList>(&mut found);
    add::<PlanList>(&mut found);
    add::<PlanRequest>(&mut found);
    add::<Problem>(&mut found);
    add::<Rotation>(&mut found);
    add::<RotationList>(&mut found);
    add::<RotationRequest>(&mut found);
    add::<VersionInfo>(&mut found);
    // A map has no name of its own but this, and an alias leaves no trace.
    let amounts = found.remove("BTreeMap").expect("requests are maps");
    let mut schemas = json!(found);
    rename(&mut schemas, "#/components/schemas/BTreeMap", "#/components/schemas/Amounts");
    schemas["Amounts"] = json!(amounts);
    schemas["Amounts"]["description"] = json!("Amounts by the names of resources: `cpu`, `memory`, `nvidia.com/gpu`.");
    schemas
}

fn rename(value: &mut Value, from: &str, to: &str) {
    match value {
        Value::String(text) if text == from => to.clone_into(text),
        Value::Object(fields) => fields.values_mut().for_each(|value| rename(value, from, to)),
        Value::Array(items) => items.iter_mut().for_each(|item| rename(item, from, to)),
        _ => {}
    }
}

/// A type and those that it is made of.
fn add<T: ToSchema>(found: &mut BTreeMap<String, RefOr<Schema>>) {
    let mut schemas = vec![(T::name().into_owned(), T::schema())];
    T::schemas(&mut schemas);
    found.extend(schemas);
}
