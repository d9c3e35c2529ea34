//! Answers that several operations give: problems.

use rotate_shared::{Code, Problem};
use serde_json::{Map, Value, json};

/// What every operation behind the API server's judgement may refuse with.
pub(crate) const GUARDED: &[&str] = &[
    "BadRequest",
    "Unauthenticated",
    "Forbidden",
    "TooManyRequests",
    "TargetTooLong",
    "HeadTooLarge",
    "Internal",
    "UpstreamFailed",
    "Unavailable",
];
/// The same without a token.
pub(crate) const OPEN: &[&str] = &["BadRequest", "TargetTooLong", "HeadTooLarge", "Internal", "Unavailable"];
/// What one that takes a body may refuse with besides.
pub(crate) const BODY: &[&str] = &["RequestTimeout", "BodyTooLarge", "UnsupportedMediaType"];

const HEAD: &str = "the first line and the headers together are more than 32 KiB, or more than 100 headers";

/// Each by its name, with its status.
fn all() -> Vec<(&'static str, u16, &'static str, Problem)> {
    use Code::{BadRequest, Forbidden, NotFound, NotReady, TooManyRequests, Unauthenticated, UpstreamFailed};
    let problem = |code: Code, detail: &str| Problem::new(code, detail);
    let at = |status: u16, detail: &str| Problem { status, ..Problem::new(BadRequest, detail) };
    vec![
        (
            "BadRequest",
            400,
            "The request cannot be understood, or asks for what there cannot be.",
            problem(
                BadRequest,
                "the body cannot be read: unknown field `node`, expected one of `nodes`, `selector`, `options`, `claimedUser` at line 1 column 7",
            ),
        ),
        (
            "Unauthenticated",
            401,
            "There is no bearer token, or the API server does not accept it for this audience.",
            problem(Unauthenticated, "a bearer token is needed"),
        ),
        (
            "Forbidden",
            403,
            "The token's account may not do this.",
            problem(
                Forbidden,
                "user \"system:serviceaccount:kubectl-rotate:rotate-viewer\" cannot create resource \"rotations\" in API group \"kubectl-rotate.dev\"",
            ),
        ),
        ("NotFound", 404, "There is no such object.", problem(NotFound, "rotations \"0123456789\" not found")),
        ("RequestTimeout", 408, "The body did not arrive in time.", at(408, "the body did not arrive within 10 s")),
        ("BodyTooLarge", 413, "The body is too large.", at(413, "the body is larger than 1048576 bytes")),
        (
            "UnsupportedMediaType",
            415,
            "The body is not JSON in UTF-8, or is not said to be.",
            at(415, "the body must be of content type application/json, in UTF-8"),
        ),
        (
            "TooManyRequests",
            429,
            "The token was used for more than one may ask for, or has as many requests open as it may have.",
            problem(TooManyRequests, "this token was used for too many requests; try again in 1 s"),
        ),
        ("TargetTooLong", 414, "The path and the query are too long.", at(414, HEAD)),
        ("HeadTooLarge", 431, "The first line and the headers are too large.", at(431, HEAD)),
        (
            "Internal",
            500,
            "The agent itself failed; its log has the details.",
            problem(Code::Internal, "the request handler panicked; the agent's log has the details"),
        ),
        (
            "UpstreamFailed",
            502,
            "The API server did not answer as expected.",
            problem(UpstreamFailed, "failed to review the token: the API server answered 500 Internal Server Error"),
        ),
        (
            "Unavailable",
            503,
            "The agent is still reading the cluster (`NotReady`), or has as many requests or connections open as it can (`TooManyRequests`).",
            problem(NotReady, "the cluster's pods are still being read (1500 so far); try again in a moment"),
        ),
    ]
}

/// `#/components/responses`.
pub(crate) fn components() -> Value {
    let mut components = Map::new();
    for (name, status, description, example) in all() {
        assert_eq!(example.status, status, "{name}");
        let mut response = json!({ "description": description, "content": of(&example) });
        if matches!(status, 429 | 503) {
            let seconds = json!({ "type": "integer", "format": "int32", "minimum": 0 });
            response["headers"] =
                json!({ "Retry-After": { "description": "Seconds until it may be tried again.", "schema": seconds } });
        }
        if status == 401 {
            let scheme = json!({ "description": "The scheme that is understood.", "schema": { "type": "string" } });
            response["headers"] = json!({ "WWW-Authenticate": scheme });
        }
        components.insert(name.to_owned(), response);
    }
    components.into()
}

/// A problem as content.
pub(crate) fn of(example: &Problem) -> Value {
    let schema = json!({ "$ref": "#/components/schemas/Problem" });
    json!({ "application/problem+json": { "schema": schema, "example": example } })
}

/// Adds these to the answers of an operation.
pub(crate) fn add(responses: &mut Map<String, Value>, names: &[&str]) {
    let all = all();
    for name in names {
        let (_, status, ..) = all.iter().find(|(known, ..)| known == name).expect("one of the above");
        responses.insert(status.to_string(), json!({ "$ref": format!("#/components/responses/{name}") }));
    }
}
