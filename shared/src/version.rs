//! Versions of the two programs.

use serde::{Deserialize, Serialize};

/// What a program says of itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
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

    /// Whether two programs can work together: same major version, minor versions at most one apart.
    #[must_use]
    pub fn compatible_with(&self, other: &Self) -> bool {
        let parts = |text: &str| -> Option<(u64, u64)> {
            let mut numbers = text.split('.').map(str::parse::<u64>);
            Some((numbers.next()?.ok()?, numbers.next()?.ok()?))
        };
        match (parts(&self.version), parts(&other.version)) {
            (Some((major, minor)), Some((other_major, other_minor))) => {
                major == other_major && minor.abs_diff(other_minor) <= 1
            }
            _ => false,
        }
    }
}
