//! clap's complaints in kubectl's words.

use clap::error::{ContextKind, ContextValue, ErrorKind};

/// The lines for stderr: what is wrong, and where help is.
pub(crate) fn explain(error: &clap::Error) -> String {
    let text = |kind| match error.get(kind) {
        Some(ContextValue::String(text)) => text.clone(),
        Some(ContextValue::Strings(texts)) => texts.join(", "),
        _ => String::new(),
    };
    let argument = || {
        let argument = text(ContextKind::InvalidArg);
        // clap shows `--then <delete|keep>`; kubectl only the flag. What is no flag is in brackets.
        let flag = argument.split([' ', '=', '[']).next().unwrap_or_default();
        if flag.is_empty() { argument.trim_matches(['[', ']']).to_owned() } else { flag.to_owned() }
    };
    let message = match error.kind() {
        ErrorKind::UnknownArgument => {
            let flag = argument();
            if flag.starts_with("--") {
                format!("unknown flag: {flag}")
            } else if flag.starts_with('-') {
                format!("unknown shorthand flag: '{}' in {flag}", flag.trim_start_matches('-'))
            } else {
                format!("unexpected argument: {flag}")
            }
        }
        ErrorKind::InvalidSubcommand => {
            format!("unknown command {:?} for \"kubectl rotate\"", text(ContextKind::InvalidSubcommand))
        }
        ErrorKind::InvalidValue | ErrorKind::ValueValidation => {
            let value = text(ContextKind::InvalidValue);
            let reason = std::error::Error::source(error).map(|source| format!(": {source}")).unwrap_or_default();
            let allowed = text(ContextKind::ValidValue);
            match (value.as_str(), allowed.as_str()) {
                ("", _) => format!("flag needs an argument: {}", argument()),
                (value, "") => format!("invalid argument {value:?} for {:?} flag{reason}", argument()),
                (value, allowed) => {
                    let argument = argument();
                    let flag = if argument.starts_with('-') { " flag" } else { "" };
                    format!("invalid argument {value:?} for {argument:?}{flag}: must be one of {allowed}")
                }
            }
        }
        ErrorKind::MissingRequiredArgument => missing(&text(ContextKind::InvalidArg)),
        ErrorKind::ArgumentConflict => format!("flag given twice: {}", argument()),
        _ => {
            let rendered = error.to_string();
            rendered.lines().next().unwrap_or_default().trim_start_matches("error: ").to_owned()
        }
    };
    let suggestion = match (error.kind(), argument().as_str()) {
        // kubectl has it no more than we, and most other programs have.
        (ErrorKind::UnknownArgument, "--version" | "-V") => "kubectl rotate version".to_owned(),
        _ => text(ContextKind::SuggestedSubcommand) + &text(ContextKind::SuggestedArg),
    };
    let suggestion = if suggestion.is_empty() { String::new() } else { format!("\nDid you mean {suggestion}?") };
    format!("error: {message}{suggestion}\nSee 'kubectl rotate --help' for usage.")
}

/// What has to be given and was not. clap shows it as in usage: `<ID>`.
fn missing(argument: &str) -> String {
    match argument.trim_end_matches("...").trim_matches(['<', '>']) {
        "node NAME" => "a node NAME or -l SELECTOR is needed, as in: kubectl rotate plan node NAME".to_owned(),
        "SHELL" => "a SHELL is needed, or --install".to_owned(),
        name if name.starts_with(['A', 'E', 'I', 'O', 'U']) => format!("an {name} is needed"),
        name => format!("a {name} is needed"),
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;
    use crate::cli::Cli;

    fn first_line(line: &[&str]) -> String {
        let error = Cli::try_parse_from([&["kubectl-rotate"], line].concat()).expect_err("it is refused");
        explain(&error).lines().next().unwrap_or_default().to_owned()
    }

    #[test]
    fn complaints_sound_like_kubectls() {
        for (line, message) in [
            (&["node", "a", "--foo"][..], "error: unknown flag: --foo"),
            (&["node", "a", "-x"], "error: unknown shorthand flag: 'x' in -x"),
            (&["frob"], "error: unknown command \"frob\" for \"kubectl rotate\""),
            (
                &["node", "a", "--then", "explode"],
                "error: invalid argument \"explode\" for \"--then\" flag: must be one of delete, keep, uncordon",
            ),
            (
                &["node", "a", "--timeout", "5x"],
                "error: invalid argument \"5x\" for \"--timeout\" flag: time: unknown unit \"x\" in duration \"5x\"",
            ),
            (&["node", "a", "--timeout"], "error: flag needs an argument: --timeout"),
            (&["cancel"], "error: an ID is needed"),
            (&["plan"], "error: a node NAME or -l SELECTOR is needed, as in: kubectl rotate plan node NAME"),
            (&["completion"], "error: a SHELL is needed, or --install"),
            (
                &["completion", "tcsh"],
                "error: invalid argument \"tcsh\" for \"SHELL\": must be one of bash, elvish, fish, powershell, zsh",
            ),
            (
                &["fleet", "--no-headers=maybe"],
                "error: invalid argument \"maybe\" for \"--no-headers\" flag: it is true or false",
            ),
        ] {
            assert_eq!(first_line(line), message, "{line:?}");
        }
    }

    #[test]
    fn a_near_miss_is_answered_with_the_right_word() {
        let error = Cli::try_parse_from(["kubectl-rotate", "statsu"]).expect_err("it is refused");
        assert!(explain(&error).contains("Did you mean status?"), "{}", explain(&error));
        for (line, meant) in [("--contxt", "--context"), ("--version", "kubectl rotate version")] {
            let error = Cli::try_parse_from(["kubectl-rotate", line]).expect_err("it is refused");
            assert!(explain(&error).contains(&format!("Did you mean {meant}?")), "{}", explain(&error));
        }
    }
}
