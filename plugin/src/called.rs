//! Under which name the program was called: `kubectl rotate`, or `kubectl rotate-node` where krew's central index installed it.
//!
//! It is one program and one set of verbs. As `rotate-node`, what a kubectl user types first is the node, so that
//! `kubectl rotate-node NAME` is `kubectl rotate node NAME`; every verb is there besides (`kubectl rotate-node status`), and
//! commands that are told are told as they can be typed.

use std::borrow::Cow;
use std::ffi::{OsStr, OsString};
use std::path::Path;

use clap::{Arg, Command};

/// The name that kubectl knows the plugin by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Called {
    /// `kubectl rotate`.
    Rotate,
    /// `kubectl rotate-node`.
    RotateNode,
}

impl Called {
    /// From the first word of a command line.
    pub(crate) fn by(program: Option<&OsString>) -> Self {
        let stem = program.and_then(|program| Path::new(program).file_stem()).and_then(OsStr::to_str);
        match stem {
            // kubectl looks for `rotate-node` under a name with underscores; `kubectl-rotate-node` would be `kubectl rotate node`.
            Some("kubectl-rotate_node") => Self::RotateNode,
            _ => Self::Rotate,
        }
    }

    /// The command line that is meant: with the verb `node` where none was typed.
    pub(crate) fn meant(self, mut line: Vec<OsString>, surface: &Command) -> Vec<OsString> {
        if self == Self::RotateNode && names_a_node(line.get(1..).unwrap_or_default(), surface) {
            line.insert(1, "node".into());
        }
        line
    }

    /// A text for a person, with our own commands as this person can type them.
    pub(crate) fn worded(self, text: &str) -> Cow<'_, str> {
        const SAID: [&str; 2] = ["kubectl rotate", "krew upgrade rotate"];
        if self == Self::Rotate || !SAID.iter().any(|said| text.contains(said)) {
            return Cow::Borrowed(text);
        }
        Cow::Owned(SAID.iter().fold(text.to_owned(), |text, said| named(&text, said)))
    }
}

/// A text in which this is followed by the rest of our name.
fn named(text: &str, said: &str) -> String {
    let mut pieces = text.split(said);
    let mut named = pieces.next().unwrap_or_default().to_owned();
    for after in pieces {
        named.push_str(said);
        // Another word that only begins like ours; or the heading of a column, which would move.
        let other = after.starts_with(|next: char| next.is_alphanumeric() || "-_".contains(next));
        if !other && !after.starts_with("  ") {
            named.push_str("-node");
        }
        named.push_str(after);
    }
    named
}

/// Whether the first word that is neither a flag of every verb nor its value is something else than a verb.
fn names_a_node(typed: &[OsString], surface: &Command) -> bool {
    let mut surface = surface.clone();
    surface.build();
    let mut rest = typed.iter();
    while let Some(word) = rest.next() {
        let Some(word) = word.to_str() else { return true };
        if !word.starts_with('-') {
            return surface.find_subcommand(word).is_none();
        }
        let Some(flag) = flag_of(&surface, word) else { return true };
        if flag.get_id() == "help" {
            return false;
        }
        if value_follows(flag, word) {
            rest.next();
        }
    }
    false
}

/// The flag that a word is, if it is one of every verb.
fn flag_of<'surface>(surface: &'surface Command, word: &str) -> Option<&'surface Arg> {
    let mut flags = surface.get_arguments();
    match word.strip_prefix("--") {
        Some(long) => {
            let name = long.split('=').next();
            flags.find(|flag| flag.get_long() == name)
        }
        None => flags.find(|flag| flag.get_short() == word.chars().nth(1)),
    }
}

/// Whether the value of a flag is the next word, and not in this one or left out.
fn value_follows(flag: &Arg, word: &str) -> bool {
    let alone = if word.starts_with("--") { !word.contains('=') } else { word.chars().count() == 2 };
    alone && flag.get_action().takes_values() && !flag.is_require_equals_set()
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;
    use crate::cli::Cli;

    fn meant(called: Called, typed: &[&str]) -> String {
        let line = ["kubectl-rotate"].iter().chain(typed).map(OsString::from).collect();
        let words: Vec<String> =
            called.meant(line, &Cli::command()).iter().map(|word| word.to_string_lossy().into_owned()).collect();
        words[1..].join(" ")
    }

    #[test]
    fn the_name_is_that_of_the_file_wherever_it_is() {
        for (program, called) in [
            ("kubectl-rotate", Called::Rotate),
            ("/usr/local/bin/kubectl-rotate", Called::Rotate),
            ("/usr/local/bin/kubectl-rotate_node", Called::RotateNode),
            ("kubectl-rotate_node.exe", Called::RotateNode),
            // kubectl runs this one for `kubectl rotate node`, and has taken both words away.
            ("kubectl-rotate-other", Called::Rotate),
        ] {
            assert_eq!(Called::by(Some(&program.into())), called, "{program}");
        }
        assert_eq!(Called::by(None), Called::Rotate);
    }

    #[test]
    fn as_rotate_node_the_verb_may_be_left_out() {
        for (typed, line) in [
            (&["worker-1"][..], "node worker-1"),
            (&["node/worker-1", "--yes"], "node node/worker-1 --yes"),
            (&["-l", "pool=web"], "node -l pool=web"),
            (&["--context", "blue", "worker-1"], "node --context blue worker-1"),
            (&["--context=blue", "-s", "status", "worker-1"], "node --context=blue -s status worker-1"),
            (&["-v6", "--embedded", "worker-1"], "node -v6 --embedded worker-1"),
            (&["--", "status"], "node -- status"),
            (&["worker-1", "--help"], "node worker-1 --help"),
        ] {
            assert_eq!(meant(Called::RotateNode, typed), line, "{typed:?}");
            assert_eq!(meant(Called::Rotate, typed), typed.join(" "), "{typed:?}");
        }
    }

    #[test]
    fn as_rotate_node_every_verb_is_there_too() {
        for typed in [
            &["status"][..],
            &["--context", "blue", "status"],
            &["--embedded", "node", "worker-1"],
            &["nodes", "worker-1"],
            &["plan", "node", "worker-1"],
            &["help", "node"],
            &["--help"],
            &["-h"],
            &["--context", "blue"],
            &[],
        ] {
            assert_eq!(meant(Called::RotateNode, typed), typed.join(" "), "{typed:?}");
        }
    }

    #[test]
    fn commands_are_told_as_they_can_be_typed() {
        let told = "See 'kubectl rotate --help' for \"kubectl rotate\", kubectl rotate-node and kubectl rotates:\nkubectl rotate";
        assert_eq!(Called::Rotate.worded(told), told);
        assert_eq!(
            Called::RotateNode.worded(told),
            "See 'kubectl rotate-node --help' for \"kubectl rotate-node\", kubectl rotate-node and kubectl rotates:\nkubectl rotate-node"
        );
        assert_eq!(Called::RotateNode.worded("  kubectl rotate   kubectl drain"), "  kubectl rotate   kubectl drain");
        // krew knows each plugin by its own name.
        assert_eq!(Called::RotateNode.worded("kubectl krew upgrade rotate"), "kubectl krew upgrade rotate-node");
    }
}
