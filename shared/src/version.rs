//! Versions of the two programs.

use serde::{Deserialize, Serialize};

/// What a program says of itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct VersionInfo {
    /// Semantic version.
    pub version: String,
    /// The API it speaks, `v1`.
    pub api: String,
}

impl VersionInfo {
    /// The version this was built as.
    #[must_use]
    pub fn current() -> Self {
        Self { version: env!("CARGO_PKG_VERSION").to_owned(), api: "v1".to_owned() }
    }

    /// How this program and an agent of that version get on: they work together while they are of the same major version and
    /// their minor versions are at most one apart.
    #[must_use]
    pub fn skew(&self, agent: &str) -> Skew {
        let (Some(ours), Some(theirs)) = (parts(&self.version), parts(agent)) else { return Skew::Unknown };
        if ours.0 == theirs.0 && ours.1.abs_diff(theirs.1) <= 1 {
            Skew::Fits
        } else if theirs < ours {
            Skew::AgentTooOld
        } else {
            Skew::AgentTooNew
        }
    }
}

/// How far an agent's version is from this program's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Skew {
    /// They work together.
    Fits,
    /// The agent is to be upgraded.
    AgentTooOld,
    /// This program is to be upgraded.
    AgentTooNew,
    /// One of the two is no version.
    Unknown,
}

fn parts(version: &str) -> Option<(u64, u64)> {
    let mut numbers = version.split('.').map(str::parse::<u64>);
    Some((numbers.next()?.ok()?, numbers.next()?.ok()?))
}
