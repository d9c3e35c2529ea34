//! What the API server saw: who asked for what, how often.

use std::fs;
use std::path::PathBuf;

use anyhow::Result;
use jiff::Timestamp;
use serde::Deserialize;
use serde_json::Value;

/// The audit log of one control plane.
pub(crate) struct AuditLog(PathBuf);

/// A place in the log, to count from; by default its start.
#[derive(Clone, Copy, Default)]
pub(crate) struct Mark(usize);

/// One request. A watch and a port-forward are there from when they start; anything else once it is answered.
#[derive(Deserialize, Clone, Debug)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Request {
    #[serde(rename = "auditID")]
    id: String,
    stage: String,
    /// `get`, `list`, `watch`, `create`, `update`, `patch`, `delete`, `deletecollection`, or the HTTP method in lower case.
    pub(crate) verb: String,
    /// Path and query.
    #[serde(rename = "requestURI")]
    pub(crate) uri: String,
    /// When the server got it.
    #[serde(rename = "requestReceivedTimestamp")]
    pub(crate) received: Timestamp,
    user: UserInfo,
    #[serde(default)]
    object_ref: ObjectRef,
    #[serde(default)]
    response_status: ResponseStatus,
    /// The body sent, for writes by who isn't a component.
    #[serde(default)]
    pub(crate) request_object: Value,
}

#[derive(Deserialize, Clone, Debug)]
struct UserInfo {
    username: String,
}

#[derive(Deserialize, Clone, Default, Debug)]
#[serde(default, rename_all = "camelCase")]
struct ObjectRef {
    api_group: String,
    resource: String,
    subresource: String,
    namespace: String,
    name: String,
}

#[derive(Deserialize, Clone, Default, Debug)]
#[serde(default)]
struct ResponseStatus {
    code: u16,
}

// === impl AuditLog ===

impl AuditLog {
    pub(crate) fn new(path: PathBuf) -> Self {
        Self(path)
    }

    /// The end of the log as it is now. The server writes a request's line before it answers.
    pub(crate) fn mark(&self) -> Result<Mark> {
        Ok(Mark(fs::read(&self.0)?.len()))
    }

    /// The requests since a mark, each once.
    pub(crate) fn since(&self, mark: Mark) -> Result<Vec<Request>> {
        let bytes = fs::read(&self.0)?;
        let text = String::from_utf8_lossy(&bytes[mark.0..]);
        let mut requests: Vec<Request> = Vec::new();
        // The last line may be half written.
        for line in text.split_inclusive('\n').filter(|line| line.ends_with('\n')) {
            let request: Request = serde_json::from_str(line)?;
            let complete = request.stage == "ResponseComplete";
            let is_end_of_watch = complete && request.verb == "watch";
            // The end of a forward comes when somebody is gone already, and so after a later mark.
            let is_end_of_forward = complete && request.code() == 101;
            let seen = |requests: &[Request]| requests.iter().any(|seen| seen.id == request.id);
            let is_told_already = is_end_of_forward || is_end_of_watch && seen(&requests);
            if !is_told_already {
                requests.push(request);
            }
        }
        Ok(requests)
    }

    /// The requests of one user since a mark.
    pub(crate) fn of(&self, user: &str, mark: Mark) -> Result<Vec<Request>> {
        let mut requests = self.since(mark)?;
        requests.retain(|request| request.user() == user);
        Ok(requests)
    }
}

// === impl Request ===

impl Request {
    /// Who asked.
    pub(crate) fn user(&self) -> &str {
        &self.user.username
    }

    /// The resource, with its subresource if any: `pods`, `pods/eviction`. Empty where the path names none.
    pub(crate) fn resource(&self) -> String {
        match self.object_ref.subresource.as_str() {
            "" => self.object_ref.resource.clone(),
            subresource => format!("{}/{subresource}", self.object_ref.resource),
        }
    }

    /// The API group, empty for the core.
    pub(crate) fn group(&self) -> &str {
        &self.object_ref.api_group
    }

    /// The namespace, empty where there is none.
    pub(crate) fn namespace(&self) -> &str {
        &self.object_ref.namespace
    }

    /// The object's name, empty for lists.
    pub(crate) fn name(&self) -> &str {
        &self.object_ref.name
    }

    /// The HTTP status.
    pub(crate) fn code(&self) -> u16 {
        self.response_status.code
    }

    /// Whether it asked for a change.
    pub(crate) fn is_write(&self) -> bool {
        ["create", "update", "patch", "delete", "deletecollection"].contains(&self.verb.as_str())
    }
}
