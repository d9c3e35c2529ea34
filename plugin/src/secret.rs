//! Text that may go nowhere but where it is meant for.

use std::fmt;
use std::ops::Deref;

/// A credential: it has no `Display`, and its `Debug` shows nothing of it.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Secret(String);

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret")
    }
}

impl From<String> for Secret {
    fn from(text: String) -> Self {
        Self(text)
    }
}

impl Deref for Secret {
    type Target = str;

    fn deref(&self) -> &str {
        &self.0
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use crate::cli::Cli;

    #[test]
    fn a_token_is_not_in_what_is_printed_for_debugging() {
        let cli = Cli::try_parse_from(["kubectl-rotate", "fleet", "--token", "hidden"]).expect("clap takes it");
        assert_eq!(cli.connection.token.as_deref(), Some("hidden"));
        assert!(!format!("{cli:?}").contains("hidden"), "{cli:?}");
    }
}
