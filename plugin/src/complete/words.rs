//! What may stand in the place of the last word: read off the command line's own surface. Pure.

use clap::{Arg, Command};

use super::Which;

/// What is asked, and what would answer it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Question {
    /// What would fit.
    pub(super) wanted: Vec<Wanted>,
    /// What the answer begins with.
    pub(super) prefix: String,
    /// The flags typed so far that say which cluster and agent are meant.
    pub(super) globals: Vec<String>,
}

/// Something that fits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Wanted {
    /// One of these.
    Words(Vec<Candidate>),
    /// A name of this kind out of the kubeconfig.
    Names(&'static str),
    /// A node.
    Nodes {
        /// Those that were named already.
        except: Vec<String>,
    },
    /// A rotation.
    Rotations(Which),
    /// A file.
    Files,
}

/// A word, and what it means.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Candidate {
    pub(super) word: String,
    pub(super) meaning: String,
}

impl Candidate {
    /// A word that needs no explanation.
    pub(super) fn plain(word: impl Into<String>) -> Self {
        Self { word: word.into(), meaning: String::new() }
    }
}

/// What was typed before the last word.
struct Typed<'a> {
    surface: &'a Command,
    verb: Option<&'a Command>,
    names: Vec<String>,
    given: Vec<String>,
    globals: Vec<String>,
    /// A flag whose value comes next.
    open: Option<&'a Arg>,
    only_names: bool,
}

/// Reads the words. `bare_nodes`: a node may stand where usually a verb does.
pub(super) fn read(words: &[String], surface: &Command, bare_nodes: bool) -> Question {
    let (last, before) = words.split_last().map_or(("", &[][..]), |(last, before)| (last.as_str(), before));
    let mut typed = Typed {
        surface,
        verb: None,
        names: Vec::new(),
        given: Vec::new(),
        globals: Vec::new(),
        open: None,
        only_names: false,
    };
    for word in before {
        typed.take(word, bare_nodes);
    }
    let (wanted, prefix) = typed.complete(last, bare_nodes);
    if typed.open.is_some_and(Arg::is_global_set) {
        // The value that it lacks is what is asked for.
        typed.globals.pop();
    }
    Question { wanted, prefix: prefix.to_owned(), globals: typed.globals }
}

// === impl Typed ===

impl<'a> Typed<'a> {
    fn command(&self) -> &'a Command {
        self.verb.unwrap_or(self.surface)
    }

    fn take(&mut self, word: &str, bare_nodes: bool) {
        if let Some(flag) = self.open.take() {
            if flag.is_global_set() {
                self.globals.push(word.to_owned());
            }
        } else if self.only_names || !word.starts_with('-') || word == "-" {
            match (self.verb, self.surface.find_subcommand(word)) {
                (None, Some(verb)) => self.verb = Some(verb),
                (None, None) if bare_nodes => {
                    self.verb = self.surface.find_subcommand("node");
                    self.names.push(word.to_owned());
                }
                _ => self.names.push(word.to_owned()),
            }
        } else if word == "--" {
            self.only_names = true;
        } else {
            self.take_flag(word);
        }
    }

    fn take_flag(&mut self, word: &str) {
        let Some(flag) = self.flag(word) else { return };
        self.given.push(flag.get_id().to_string());
        if flag.is_global_set() {
            self.globals.push(word.to_owned());
        }
        let has_value = word.contains('=') || (!word.starts_with("--") && word.len() > 2);
        if takes_word(flag) && !has_value {
            self.open = Some(flag);
        }
    }

    /// The flag that this word begins with.
    fn flag(&self, word: &str) -> Option<&'a Arg> {
        let flags = || self.command().get_arguments();
        match word.strip_prefix("--") {
            Some(long) => {
                let long = long.split('=').next().unwrap_or_default();
                flags().find(|flag| flag.get_long() == Some(long))
            }
            None => {
                let short = word.chars().nth(1)?;
                flags().find(|flag| flag.get_short() == Some(short))
            }
        }
    }

    fn complete<'w>(&self, last: &'w str, bare_nodes: bool) -> (Vec<Wanted>, &'w str) {
        if let Some(flag) = self.open {
            return (values(flag), last);
        }
        if self.only_names || !last.starts_with('-') {
            return (self.positional(last, bare_nodes), last);
        }
        match last.split_once('=') {
            Some((_, value)) => (self.flag(last).map(values).unwrap_or_default(), value),
            None => (vec![Wanted::Words(self.flags())], last),
        }
    }

    fn flags(&self) -> Vec<Candidate> {
        let unused = |flag: &&Arg| {
            let once = !matches!(flag.get_action(), clap::ArgAction::Append);
            !(flag.is_hide_set() || once && self.given.contains(&flag.get_id().to_string()))
        };
        let flags = self.command().get_arguments().filter(|flag| flag.get_long().is_some()).filter(unused);
        flags
            .map(|flag| Candidate {
                word: format!("--{}", flag.get_long().unwrap_or_default()),
                meaning: flag.get_help().map(ToString::to_string).unwrap_or_default(),
            })
            .collect()
    }

    fn verbs(&self) -> Vec<Candidate> {
        let shown = self.surface.get_subcommands().filter(|verb| !verb.is_hide_set());
        let about = |verb: &Command| verb.get_about().map(ToString::to_string).unwrap_or_default();
        shown.map(|verb| Candidate { word: verb.get_name().to_owned(), meaning: about(verb) }).collect()
    }

    fn positional(&self, last: &str, bare_nodes: bool) -> Vec<Wanted> {
        let nodes = || {
            let bare = |name: &String| name.rsplit('/').next().unwrap_or_default().to_owned();
            Wanted::Nodes { except: self.names.iter().map(bare).collect() }
        };
        let Some(verb) = self.verb else {
            let verbs = Wanted::Words(self.verbs());
            // The node is what a person means first, as the program is called.
            return if bare_nodes { vec![nodes(), verbs] } else { vec![verbs] };
        };
        let first = self.names.is_empty();
        match verb.get_name() {
            "plan" if first && !last.contains('/') => vec![Wanted::Words(vec![Candidate::plain("node")])],
            "plan" | "node" => vec![nodes()],
            "status" if first => vec![Wanted::Rotations(Which::All)],
            "cancel" if first => vec![Wanted::Rotations(Which::Live)],
            "pause" if first => vec![Wanted::Rotations(Which::Running)],
            "resume" if first => vec![Wanted::Rotations(Which::Paused)],
            "help" if first => vec![Wanted::Words(self.verbs())],
            _ if first => verb.get_positionals().next().map(values).unwrap_or_default(),
            _ => Vec::new(),
        }
    }
}

/// Whether a flag's value is the next word; switches take theirs only after `=`.
fn takes_word(flag: &Arg) -> bool {
    flag.get_action().takes_values() && !flag.is_require_equals_set()
}

/// What a flag may be given.
fn values(flag: &Arg) -> Vec<Wanted> {
    let words = |words: &[&str]| vec![Wanted::Words(words.iter().copied().map(Candidate::plain).collect())];
    let possible = flag.get_possible_values();
    match flag.get_id().as_str() {
        "output" => words(&["json", "name", "wide", "yaml"]),
        "context" => vec![Wanted::Names("contexts")],
        "cluster" => vec![Wanted::Names("clusters")],
        "user" => vec![Wanted::Names("users")],
        _ if !possible.is_empty() => {
            let candidate = |value: &clap::builder::PossibleValue| Candidate {
                word: value.get_name().to_owned(),
                meaning: value.get_help().map(ToString::to_string).unwrap_or_default(),
            };
            vec![Wanted::Words(possible.iter().filter(|value| !value.is_hide_set()).map(candidate).collect())]
        }
        _ => match flag.get_value_names().and_then(|names| names.first()).map(|name| name.as_str()) {
            Some("BOOL") => words(&["true", "false"]),
            Some("FILE" | "DIR") => vec![Wanted::Files],
            _ => Vec::new(),
        },
    }
}

#[cfg(test)]
mod tests;
