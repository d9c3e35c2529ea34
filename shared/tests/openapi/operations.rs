//! Every operation: what it takes, what it answers.
//!
//! That none is missing is checked where the routes are, in `agent/src/http/openapi.rs`.

use rotate_shared::{Problem, VersionInfo, names};
use serde::Serialize;
use serde_json::{Map, Value, json};

use crate::answers::{self, BODY, GUARDED, OPEN};
use crate::examples;

/// An operation in the making.
struct Operation(Value);

/// `#/paths`.
pub(crate) fn paths() -> Value {
    let ops = json!([{ "url": "http://{pod}:8471", "description": "The ops port.", "variables": {
        "pod": { "default": "127.0.0.1", "description": "The address of an agent's Pod." }
    } }]);
    let mut paths = json!({
        "/v1/plans": { "post": create_plans().0 },
        "/v1/rotations": { "get": list_rotations().0, "post": create_rotations().0 },
        "/v1/rotations/{id}": { "get": show_rotation().0 },
        "/v1/rotations/{id}/events": { "get": follow_rotation().0 },
        "/v1/rotations/{id}/pause": { "post": pause_rotation().0 },
        "/v1/rotations/{id}/resume": { "post": resume_rotation().0 },
        "/v1/rotations/{id}/cancel": { "post": cancel_rotation().0 },
        "/v1/nodes": { "get": list_nodes().0 },
        "/v1/nodes/{name}": { "get": show_node().0 },
        "/v1/cache": { "get": cache().0 },
        "/openapi/v1.json": { "get": description().0 },
        "/livez": { "get": live().0 },
        "/version": { "get": version().0 },
        "/readyz": { "get": ready().0 },
        "/metrics": { "get": metrics().0 },
    });
    for path in ["/readyz", "/metrics"] {
        paths[path]["servers"] = ops.clone();
    }
    paths
}

/// `#/components/parameters`.
pub(crate) fn parameters() -> Value {
    json!({
        "RotationId": {
            "name": "id", "in": "path", "required": true, "description": "The id of a rotation: ten hexadecimal digits.",
            "schema": { "type": "string", "pattern": "^[0-9a-f]{10}$" }, "example": examples::ID,
        }
    })
}

// === rotations ===

fn create_rotations() -> Operation {
    let shown = json!({ "Shown": {
        "operationId": "showRotation", "parameters": { "id": "$response.body#/items/0/id" },
        "description": "The first of the rotations.",
    } });
    let key = json!({
        "name": "Idempotency-Key", "in": "header", "required": false,
        "description": "Kept in the records: what is asked again with the same key is not begun again, but shown.",
        "schema": { "type": "string", "minLength": 1, "maxLength": 128, "pattern": "^[!-~]+$" },
    });
    let mut operation = Operation::new("createRotations", "rotations", "Begin to rotate nodes")
        .describe(
            "One rotation for each node, all or none: each is planned first, and what a plan is blocked by refuses all of \
             them. Nodes are named, or selected by their labels.",
        )
        .takes(&key)
        .body("RotationRequest", true, &[
            ("named", json!(examples::rotation_request())),
            ("selected", json!(examples::selecting())),
        ])
        .answers(201, "Begun; those with names in their order, those selected by name.", "RotationList", &examples::rotations())
        .answers(200, "Begun before with the same `Idempotency-Key`.", "RotationList", &examples::rotations())
        .refuses(GUARDED)
        .refuses(BODY)
        .refuses(&["NotFound"])
        .problem(409, "A node is being rotated already (`AlreadyRotating`); `rotation` says by which.", &examples::already_rotating())
        .problem(
            422,
            "Something stands in the way (`Blocked`), listed in `blockers`; or the `Idempotency-Key` was used for other nodes.",
            &examples::blocked(),
        );
    operation.0["responses"]["201"]["links"] = shown;
    operation
}

fn list_rotations() -> Operation {
    Operation::new("listRotations", "rotations", "List rotations")
        .describe("Those that go on first, then the newest. All that is asked for must hold.")
        .query("batch", "Only those of this batch.")
        .query("node", "Only those of this node.")
        .answers(200, "The rotations.", "RotationList", &examples::rotations())
        .refuses(GUARDED)
}

fn show_rotation() -> Operation {
    Operation::of_one("showRotation", "Show a rotation")
        .describe("Where it stands, how far it is, and what it waits for.")
        .answers(200, "The rotation.", "Rotation", &examples::rotation())
        .refuses(GUARDED)
        .refuses(&["NotFound"])
}

fn follow_rotation() -> Operation {
    let last = json!({
        "name": "Last-Event-ID", "in": "header", "required": false,
        "description": "The id of the last event that was seen: the present state is not told again. Anything else is taken \
            for a gap.",
        "schema": { "type": "string" },
    });
    let rotation = serde_json::to_string(&examples::rotation()).expect("its keys are strings");
    let text = |description: &str| json!({ "type": "string", "description": description });
    let mut data = text("A whole `Rotation`, as JSON.");
    data["contentMediaType"] = json!("application/json");
    // Before OpenAPI 3.2 there is no word for it: what is described is each event.
    let events = json!({ "text/event-stream": {
        "schema": {
            "type": "object",
            "description": "An event. Between them there are comments that keep the connection open.",
            "required": ["id", "data"],
            "properties": { "id": text("What to send as `Last-Event-ID`."), "data": data },
        },
        "example": format!("id: 1b08ddb55ecaf0e9-7\ndata: {rotation}\n\n"),
    } });
    let mut operation = Operation::of_one("followRotation", "Follow a rotation")
        .describe(
            "Server-sent events. The `data` of each is a whole `Rotation`: the present state at once, then one for every \
             change, several at once being told as one. Ends when the rotation does, when its record is deleted, when the \
             token is no longer good, and with the agent.",
        )
        .takes(&last)
        .refuses(GUARDED)
        .refuses(&["NotFound"]);
    operation.response(200, "The events.", &events);
    operation
}

fn pause_rotation() -> Operation {
    changed(
        "pauseRotation",
        "Pause a rotation",
        "Nothing more is begun until it is resumed. Pausing twice is pausing once.",
    )
}

fn resume_rotation() -> Operation {
    changed(
        "resumeRotation",
        "Resume a rotation",
        "It goes on where it was paused; one that is not paused just goes on.",
    )
}

fn cancel_rotation() -> Operation {
    let text = "Before the first eviction everything is undone; after it, nothing more is evicted and the node stays cordoned \
        unless `uncordon` is asked for. Without a body, all defaults hold.";
    changed("cancelRotation", "End a rotation", text)
        .body("CancelRequest", false, &[("uncordon", json!({ "uncordon": true }))])
        .refuses(BODY)
}

fn changed(id: &str, summary: &str, description: &str) -> Operation {
    Operation::of_one(id, summary)
        .describe(description)
        .answers(200, "The rotation, with what was asked for.", "Rotation", &examples::rotation())
        .refuses(GUARDED)
        .refuses(&["NotFound"])
        .problem(409, "It is over (`WrongPhase`).", &examples::over())
}

// === plans and nodes ===

fn create_plans() -> Operation {
    Operation::new("createPlans", "plans", "Plan to rotate nodes")
        .describe(
            "What rotating each node would do, and what stands in the way. Nothing is changed and nothing is kept.",
        )
        .body("PlanRequest", true, &[("named", json!(examples::plan_request()))])
        .answers(200, "One plan for each node.", "PlanList", &examples::plans())
        .refuses(GUARDED)
        .refuses(BODY)
        .refuses(&["NotFound"])
}

fn list_nodes() -> Operation {
    Operation::new("listNodes", "nodes", "List nodes")
        .describe("Each with the sums of what its Pods request.")
        .query_of(
            "selector",
            "A label selector, as kubectl's `-l`; all nodes without one.",
            &json!({ "type": "string", "format": "label-selector" }),
        )
        .answers(200, "The nodes, by name.", "NodeList", &examples::nodes())
        .refuses(GUARDED)
}

fn show_node() -> Operation {
    let name = json!({
        "name": "name", "in": "path", "required": true, "description": "The name of a node.",
        "schema": { "type": "string", "minLength": 1, "maxLength": 253 }, "example": examples::node().name,
    });
    Operation::new("showNode", "nodes", "Show a node")
        .describe("With the sums of what its Pods request.")
        .takes(&name)
        .answers(200, "The node.", "NodeSummary", &examples::node())
        .refuses(GUARDED)
        .refuses(&["NotFound"])
}

// === the agent itself ===

fn cache() -> Operation {
    Operation::new("showCache", "agent", "Show what the agent has read")
        .describe("Counts of what it holds, and how fresh it is.")
        .answers(200, "The cache.", "CacheInfo", &examples::cache())
        .refuses(GUARDED)
}

fn description() -> Operation {
    let schema = json!({ "type": "object", "description": "An OpenAPI document." });
    Operation::open("describe", "This document").describe("Needs no token: it tells nothing of the cluster.").gives(
        200,
        "The document.",
        &json!({ "application/json": { "schema": schema } }),
    )
}

fn live() -> Operation {
    Operation::open("live", "Whether the agent runs").describe("Answered on the ops port, too.").gives(
        200,
        "It does.",
        &text("text/plain; charset=utf-8", "ok"),
    )
}

fn version() -> Operation {
    Operation::open("showVersion", "Show the agent's version").describe("Answered on the ops port, too.").answers(
        200,
        "The version.",
        "VersionInfo",
        &VersionInfo { version: "1.4.2".to_owned(), api: "v1".to_owned() },
    )
}

fn ready() -> Operation {
    let why = "[-] the cluster's pods are still being read (1500 so far)\n";
    let mut operation = Operation::open("ready", "Whether the agent knows enough to answer")
        .describe("On the ops port only. One that does not lead is ready, too.")
        .gives(200, "It does.", &text("text/plain; charset=utf-8", "ok\n"));
    operation.response(503, "It does not; one reason a line.", &text("text/plain; charset=utf-8", why));
    operation
}

fn metrics() -> Operation {
    let example = "# TYPE rotate_cache_pods gauge\nrotate_cache_pods 4000\n";
    Operation::open("metrics", "Show metrics")
        .describe("On the ops port only, for Prometheus. Names no node and no Pod.")
        .gives(200, "The metrics.", &text("text/plain; version=0.0.4; charset=utf-8", example))
}

fn text(kind: &str, example: &str) -> Value {
    json!({ kind: { "schema": { "type": "string" }, "example": example } })
}

// === impl Operation ===

impl Operation {
    fn new(id: &str, tag: &str, summary: &str) -> Self {
        Self(json!({ "operationId": id, "tags": [tag], "summary": summary, "responses": {} }))
    }

    /// One of a rotation.
    fn of_one(id: &str, summary: &str) -> Self {
        Self::new(id, "rotations", summary).takes(&json!({ "$ref": "#/components/parameters/RotationId" }))
    }

    /// One that needs no token.
    fn open(id: &str, summary: &str) -> Self {
        let mut operation = Self::new(id, "agent", summary).refuses(OPEN);
        operation.0["security"] = json!([]);
        operation
    }

    fn describe(mut self, text: &str) -> Self {
        self.0["description"] = json!(text);
        self
    }

    fn takes(mut self, parameter: &Value) -> Self {
        match self.0["parameters"].as_array_mut() {
            Some(parameters) => parameters.push(parameter.clone()),
            None => self.0["parameters"] = json!([parameter]),
        }
        self
    }

    fn query(self, name: &str, description: &str) -> Self {
        self.query_of(name, description, &json!({ "type": "string" }))
    }

    fn query_of(self, name: &str, description: &str, schema: &Value) -> Self {
        self.takes(
            &json!({ "name": name, "in": "query", "required": false, "description": description, "schema": schema }),
        )
    }

    fn body(mut self, schema: &str, required: bool, examples: &[(&str, Value)]) -> Self {
        let examples: Map<_, _> =
            examples.iter().map(|(name, value)| ((*name).to_owned(), json!({ "value": value }))).collect();
        let schema = json!({ "$ref": format!("#/components/schemas/{schema}") });
        let content = json!({ "application/json": { "schema": schema, "examples": examples } });
        self.0["requestBody"] = json!({ "required": required, "content": content });
        self
    }

    fn response(&mut self, status: u16, description: &str, content: &Value) {
        let version = json!({
            "description": "The version of the agent.", "schema": { "type": "string" },
        });
        let mut response = json!({ "description": description, "content": content });
        if status < 300 {
            response["headers"] = json!({ names::VERSION_HEADER: version });
        }
        self.0["responses"][status.to_string()] = response;
    }

    fn gives(mut self, status: u16, description: &str, content: &Value) -> Self {
        self.response(status, description, content);
        self
    }

    fn answers(self, status: u16, description: &str, schema: &str, example: &impl Serialize) -> Self {
        let schema = json!({ "$ref": format!("#/components/schemas/{schema}") });
        self.gives(status, description, &json!({ "application/json": { "schema": schema, "example": example } }))
    }

    fn problem(self, status: u16, description: &str, example: &Problem) -> Self {
        self.gives(status, description, &answers::of(example))
    }

    fn refuses(mut self, names: &[&str]) -> Self {
        answers::add(self.0["responses"].as_object_mut().expect("made above"), names);
        self
    }
}
