//! Completion as kubectl asks plugins for it: a program `kubectl_complete-rotate` is called with the words after
//! `kubectl rotate`, and prints what may stand in the last one's place, a line each, then `:DIRECTIVE`.
//!
//! ```text
//! words ──▶ words::read ──▶ Wanted ─┬─ fixed ──────────────────────────────▶ filtered, printed
//!                                   └─ names of the cluster ──▶ a process of our own, given up in time
//! ```
//!
//! Nothing may hang, and nothing may be written between a person's words. So the cluster is asked by a second process,
//! whose complaints, and those of whatever fetches credentials for it, nobody sees, and which is ended when it is late.

mod words;

use std::ffi::OsString;
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use clap::CommandFactory;
use rotate_shared::{RotationList, exit};

use crate::cli::Cli;
use crate::output::{Console, escape};
use words::{Candidate, Question, Wanted};

/// The verb that asks for completion when the program is called by its own name, as cobra has it.
const COMPLETE: &str = "__complete";
/// The hidden verb of the second process.
pub(crate) const NAMES: &str = "__names";
/// The name that kubectl looks for, without what follows for other names of ours.
pub(crate) const PROGRAM: &str = "kubectl_complete-rotate";
/// Longer than this nobody waits for a tab.
const PATIENCE: Duration = Duration::from_secs(2);

/// cobra's `ShellCompDirectiveDefault`: files, where nothing else fits.
const FILES: u8 = 0;
/// cobra's `ShellCompDirectiveNoFileComp`.
const NO_FILES: u8 = 4;

/// Which rotations are of use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Which {
    /// All.
    All,
    /// Those that are not over.
    Live,
    /// Those that are not over and not paused.
    Running,
    /// Those that are paused.
    Paused,
}

/// Completes where the program was called for that. Gives the exit code; `None`: it was called for something else.
pub(crate) fn asked(line: &[OsString], console: Console) -> Option<u8> {
    let stem = line.first().and_then(|program| Path::new(program).file_stem()?.to_str())?;
    let named = stem.starts_with(PROGRAM);
    let words = match (named, line.get(1)) {
        (true, _) => &line[1..],
        (false, Some(verb)) if verb == COMPLETE => &line[2..],
        _ => return None,
    };
    // What is no text is no name of ours either.
    let words: Vec<String> = words.iter().map(|word| word.to_string_lossy().into_owned()).collect();
    let mut surface = Cli::command();
    surface.build();
    let question = words::read(&words, &surface, stem.ends_with("rotate_node"));
    let answer = answer(&question);
    // A shell that hangs up has seen enough.
    let _ = console.raw(&answer);
    Some(exit::DONE)
}

fn answer(question: &Question) -> String {
    let mut candidates = Vec::new();
    let mut directive = NO_FILES;
    for wanted in &question.wanted {
        match wanted {
            Wanted::Words(words) => candidates.extend(words.iter().cloned()),
            Wanted::Files => directive = FILES,
            Wanted::Names(kind) => candidates.extend(lines(&question.globals, &[NAMES, kind]).map(Candidate::plain)),
            Wanted::Nodes { except } => {
                let names = lines(&question.globals, &[NAMES, "nodes"]);
                let prefix = question.prefix.split_once('/').map_or("", |(kind, _)| kind);
                candidates.extend(names.filter(|name| !except.contains(name)).map(|name| match prefix {
                    "" => Candidate::plain(name),
                    kind => Candidate::plain(format!("{kind}/{name}")),
                }));
            }
            Wanted::Rotations(which) => {
                let list = output(&question.globals, &["status", "-o", "json"]);
                let list = serde_json::from_str::<RotationList>(&list);
                candidates.extend(list.map(|list| rotations(&list, *which)).unwrap_or_default());
            }
        }
    }
    let mut text = String::new();
    for candidate in candidates.iter().filter(|candidate| candidate.word.starts_with(&question.prefix)) {
        text.push_str(&escape::line(&candidate.word));
        if !candidate.meaning.is_empty() {
            text.push('\t');
            text.push_str(&escape::line(&candidate.meaning));
        }
        text.push('\n');
    }
    text.push_str(&format!(":{directive}\n"));
    text
}

/// Rotations by id, and by their nodes and batches.
fn rotations(list: &RotationList, which: Which) -> Vec<Candidate> {
    let fits = |rotation: &&rotate_shared::Rotation| match which {
        Which::All => true,
        Which::Live => !rotation.phase.is_terminal(),
        Which::Running => !rotation.phase.is_terminal() && !rotation.paused,
        Which::Paused => !rotation.phase.is_terminal() && rotation.paused,
    };
    let mut candidates: Vec<Candidate> = Vec::new();
    let mut add = |word: String, meaning: String| {
        if !candidates.iter().any(|known| known.word == word) {
            candidates.push(Candidate { word, meaning });
        }
    };
    for rotation in list.items.iter().filter(fits) {
        add(rotation.id.clone(), format!("node/{} {}", rotation.node, rotation.phase));
        add(format!("node/{}", rotation.node), rotation.phase.to_string());
        if let Some(batch) = &rotation.batch {
            add(format!("batch/{batch}"), "all of its rotations".to_owned());
        }
    }
    candidates
}

fn lines(globals: &[String], line: &[&str]) -> impl Iterator<Item = String> + use<> {
    let output = output(globals, line);
    output.lines().map(str::to_owned).collect::<Vec<_>>().into_iter()
}

/// What another process of this program prints; nothing where it fails or is late.
fn output(globals: &[String], line: &[&str]) -> String {
    let Ok(program) = std::env::current_exe() else { return String::new() };
    let Ok(runtime) = tokio::runtime::Builder::new_current_thread().enable_all().build() else { return String::new() };
    runtime.block_on(async {
        let mut command = tokio::process::Command::new(program);
        command.args(line).args(globals).kill_on_drop(true);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
        match tokio::time::timeout(PATIENCE, command.output()).await {
            Ok(Ok(output)) if output.status.success() => String::from_utf8(output.stdout).unwrap_or_default(),
            _ => String::new(),
        }
    })
}
