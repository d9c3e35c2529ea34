//! Text that may go nowhere but where it is meant for.

use std::borrow::Cow;
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

/// An address as it may be repeated: without the user and the password that it may hold. It need not be an address at all.
pub(crate) fn without_credentials(address: &str) -> Cow<'_, str> {
    let of_scheme = |c: char| c.is_ascii_alphanumeric() || "+-.".contains(c);
    let split = address.split_once("://").filter(|(scheme, _)| scheme.chars().all(of_scheme));
    let (scheme, rest) = split.unwrap_or(("", address));
    match rest.rsplit_once('@') {
        None => address.into(),
        Some((_, rest)) if scheme.is_empty() => format!("…@{rest}").into(),
        Some((_, rest)) => format!("{scheme}://…@{rest}").into(),
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::without_credentials;
    use crate::cli::Cli;

    #[test]
    fn of_an_address_the_user_and_the_password_are_not_repeated() {
        for (address, repeated) in [
            ("https://proxy.corp:3128/x", "https://proxy.corp:3128/x"),
            ("https://user:pass@proxy.corp:3128", "https://…@proxy.corp:3128"),
            ("user:pass@proxy.corp", "…@proxy.corp"),
            ("http://user:p@ss w@rd@proxy.corp", "http://…@proxy.corp"),
            ("http://user:p://@x", "http://…@x"),
            ("user:pa://ss@x", "…@x"),
            ("", ""),
        ] {
            assert_eq!(without_credentials(address), repeated);
        }
    }

    #[test]
    fn a_token_is_not_in_what_is_printed_for_debugging() {
        let cli = Cli::try_parse_from(["kubectl-rotate", "fleet", "--token", "hidden"]).expect("clap takes it");
        assert_eq!(cli.connection.token.as_deref(), Some("hidden"));
        assert!(!format!("{cli:?}").contains("hidden"), "{cli:?}");
    }
}
