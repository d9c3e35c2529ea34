//! RFC 9457 problem documents: the one shape of every error answer.

use serde::{Deserialize, Serialize};

use crate::code::Code;
use crate::plan::Notice;

/// An error answer. Sent as `application/problem+json`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct Problem {
    /// The HTTP status, repeated.
    pub status: u16,
    /// The stable code.
    pub code: Code,
    /// What is wrong, in a few words that do not depend on the object.
    pub title: String,
    /// What happened, to which object, what to do next.
    pub detail: String,
    /// The live rotation, for [`Code::AlreadyRotating`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rotation: Option<String>,
    /// What stands in the way, for [`Code::Blocked`].
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub blockers: Vec<Notice>,
}

impl Problem {
    /// A problem with the code's own status and title.
    #[must_use]
    pub fn new(code: Code, detail: impl Into<String>) -> Self {
        Self {
            status: code.status(),
            code,
            title: title(code).to_owned(),
            detail: detail.into(),
            rotation: None,
            blockers: Vec::new(),
        }
    }
}

fn title(code: Code) -> &'static str {
    match code {
        Code::BadRequest => "the request cannot be understood",
        Code::Unauthenticated => "the caller is not known",
        Code::Forbidden => "the caller may not do this",
        Code::TooManyRequests => "too many requests",
        Code::NotFound => "no such object",
        Code::AlreadyRotating => "the node is being rotated already",
        Code::WrongPhase => "not possible in this phase",
        Code::NotReady => "the agent is still reading the cluster",
        Code::UpstreamFailed => "the API server did not answer as expected",
        Code::Internal => "the agent failed",
        _ => "blocked, nothing was touched",
    }
}

impl std::fmt::Display for Problem {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.detail)
    }
}

impl std::error::Error for Problem {}
