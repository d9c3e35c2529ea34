//! What the API server answers when it can't do as asked: `Status` objects.

use axum::response::{IntoResponse, Response};
use http::{HeaderValue, StatusCode, header};
use serde_json::{Value, json};

use crate::kind::Kind;

/// An error answer.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Failure {
    pub(crate) code: u16,
    pub(crate) reason: &'static str,
    pub(crate) message: String,
    pub(crate) details: Value,
    pub(crate) retry_after: Option<u32>,
}

impl Failure {
    fn new(code: u16, reason: &'static str, message: impl Into<String>) -> Self {
        Self { code, reason, message: message.into(), details: Value::Null, retry_after: None }
    }

    fn about(mut self, kind: Kind, name: &str) -> Self {
        self.details = json!({"name": name, "kind": kind.plural()});
        if !kind.group().is_empty() {
            self.details["group"] = json!(kind.group());
        }
        self
    }

    /// An answer of a test's own making.
    pub(crate) fn injected(code: u16, retry_after: Option<u32>) -> Self {
        let reason = match code {
            401 => "Unauthorized",
            403 => "Forbidden",
            404 => "NotFound",
            409 => "Conflict",
            410 => "Expired",
            422 => "Invalid",
            429 => "TooManyRequests",
            500 => "InternalError",
            503 => "ServiceUnavailable",
            504 => "Timeout",
            _ => "",
        };
        let message = match code {
            429 => "the server has received too many requests and has asked us to try again later".to_owned(),
            code => format!("the server answers {code} because a fault was asked for"),
        };
        Self { retry_after, ..Self::new(code, reason, message) }
    }

    /// An admission webhook's refusal.
    pub(crate) fn denied(message: &str) -> Self {
        Self::new(
            403,
            "Forbidden",
            format!("admission webhook \"sim.kubectl-rotate.dev\" denied the request: {message}"),
        )
    }

    pub(crate) fn not_found(kind: Kind, name: &str) -> Self {
        Self::new(404, "NotFound", format!("{} \"{name}\" not found", kind.qualified())).about(kind, name)
    }

    pub(crate) fn no_such_path() -> Self {
        let message = "the server could not find the requested resource";
        Self { details: json!({}), ..Self::new(404, "NotFound", message) }
    }

    pub(crate) fn already_exists(kind: Kind, name: &str) -> Self {
        Self::new(409, "AlreadyExists", format!("{} \"{name}\" already exists", kind.qualified())).about(kind, name)
    }

    pub(crate) fn conflict(kind: Kind, name: &str, why: &str) -> Self {
        let message = format!("Operation cannot be fulfilled on {} \"{name}\": {why}", kind.qualified());
        Self::new(409, "Conflict", message).about(kind, name)
    }

    pub(crate) fn modified(kind: Kind, name: &str) -> Self {
        let why = "the object has been modified; please apply your changes to the latest version and try again";
        Self::conflict(kind, name, why)
    }

    pub(crate) fn forbidden(kind: Kind, name: &str, why: &str) -> Self {
        Self::new(403, "Forbidden", format!("{} \"{name}\" is forbidden: {why}", kind.qualified())).about(kind, name)
    }

    /// What authorization refuses.
    pub(crate) fn unauthorised(kind: &str, name: &str, message: String) -> Self {
        Self { details: json!({"name": name, "kind": kind}), ..Self::new(403, "Forbidden", message) }
    }

    pub(crate) fn unauthenticated() -> Self {
        Self::new(401, "Unauthorized", "Unauthorized")
    }

    pub(crate) fn bad_request(message: impl Into<String>) -> Self {
        Self::new(400, "BadRequest", message)
    }

    /// Validation; `why` starts as the API server has it, `Required value` or `Invalid value: …`.
    pub(crate) fn invalid(kind: Kind, name: &str, field: &str, why: &str) -> Self {
        let group = if kind.group().is_empty() { String::new() } else { format!(".{}", kind.group()) };
        let message = format!("{}{group} \"{name}\" is invalid: {field}: {why}", kind.name());
        let reason = if why.starts_with("Required") { "FieldValueRequired" } else { "FieldValueInvalid" };
        let mut failure = Self::new(422, "Invalid", message).about(kind, name);
        failure.details["kind"] = json!(kind.name());
        failure.details["causes"] = json!([{"field": field, "message": why, "reason": reason}]);
        failure
    }

    /// A precondition of a deletion does not hold. Here the API server names the kind, not the resource.
    pub(crate) fn precondition(kind: Kind, name: &str, why: &str) -> Self {
        let message = format!("Operation cannot be fulfilled on {} \"{name}\": {why}", kind.name());
        Self { details: json!({"name": name, "kind": kind.name()}), ..Self::new(409, "Conflict", message) }
    }

    /// A version on an object to be created; upstream takes it for its own fault.
    pub(crate) fn version_set() -> Self {
        Self::new(500, "", "resourceVersion should not be set on objects to be created")
    }

    /// A query parameter that does not go with the others.
    pub(crate) fn forbidden_option(field: &str, why: &str) -> Self {
        let message = format!("ListOptions.meta.k8s.io \"\" is invalid: {field}: Forbidden: {why}");
        let cause = json!({"field": field, "message": format!("Forbidden: {why}"), "reason": "FieldValueForbidden"});
        let details = json!({"group": "meta.k8s.io", "kind": "ListOptions", "causes": [cause]});
        Self { details, ..Self::new(422, "Invalid", message) }
    }

    /// What upstream answers to a version that is no number.
    pub(crate) fn no_version(text: &str) -> Self {
        let message = format!(
            "resourceVersion: Invalid value: \"{text}\": strconv.ParseUint: parsing \"{text}\": invalid syntax"
        );
        Self::new(500, "", message)
    }

    pub(crate) fn expired(message: impl Into<String>) -> Self {
        Self::new(410, "Expired", message)
    }

    pub(crate) fn unsupported_media_type() -> Self {
        Self::new(415, "UnsupportedMediaType", "the body of the request was in an unknown format")
    }

    pub(crate) fn not_acceptable() -> Self {
        Self::new(406, "NotAcceptable", "only the following media types are accepted: application/json")
    }

    pub(crate) fn method_not_allowed() -> Self {
        let message = "the server does not allow this method on the requested resource";
        Self { details: json!({}), ..Self::new(405, "MethodNotAllowed", message) }
    }

    pub(crate) fn namespace_terminating(kind: Kind, name: &str, namespace: &str) -> Self {
        let why = format!("unable to create new content in namespace {namespace} because it is being terminated");
        let mut failure = Self::forbidden(kind, name, &why);
        failure.details["causes"] = json!([{
            "reason": "NamespaceTerminating", "message": format!("namespace {namespace} is being terminated"),
            "field": "metadata.namespace",
        }]);
        failure
    }

    /// A PodDisruptionBudget that has nothing to give; the server sends no `Retry-After` with it.
    pub(crate) fn budget(message: String) -> Self {
        let mut failure =
            Self::new(429, "TooManyRequests", "Cannot evict pod as it would violate the pod's disruption budget.");
        failure.details = json!({"causes": [{"reason": "DisruptionBudget", "message": message}]});
        failure
    }

    /// A PodDisruptionBudget that its controller has not seen yet.
    pub(crate) fn budget_unprocessed(name: &str) -> Self {
        let mut failure = Self::budget(format!("The disruption budget {name} is still being processed by the server."));
        failure.details["retryAfterSeconds"] = json!(10);
        failure.retry_after = Some(10);
        failure
    }

    pub(crate) fn two_budgets() -> Self {
        let message =
            "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support.";
        Self::new(500, "", message)
    }

    /// The `Status` object.
    pub(crate) fn object(&self) -> Value {
        let mut status = json!({
            "kind": "Status", "apiVersion": "v1", "metadata": {},
            "status": "Failure", "message": self.message, "code": self.code,
        });
        if !self.reason.is_empty() {
            status["reason"] = json!(self.reason);
        }
        if !self.details.is_null() {
            status["details"] = self.details.clone();
        }
        if let Some(after) = self.retry_after {
            status["details"]["retryAfterSeconds"] = json!(after);
        }
        status
    }
}

impl IntoResponse for Failure {
    fn into_response(self) -> Response {
        let code = StatusCode::from_u16(self.code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        let mut response = (code, axum::Json(self.object())).into_response();
        if let Some(after) = self.retry_after {
            response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from(after));
        }
        response
    }
}

/// `Status` of a deletion that went through.
pub(crate) fn success() -> Value {
    json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success"})
}

/// `Status` of an eviction or binding that went through: as something created, it has a code.
pub(crate) fn created() -> Value {
    json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201})
}
