//! Which words would fit.

use clap::CommandFactory;

use super::*;
use crate::cli::Cli;

fn asked(line: &[&str]) -> Question {
    let mut surface = Cli::command();
    surface.build();
    let words: Vec<String> = line.iter().copied().map(str::to_owned).collect();
    read(&words, &surface, false)
}

fn wanted(line: &[&str]) -> Vec<Wanted> {
    asked(line).wanted
}

/// The words that fit, those that go on with what was begun.
fn words(line: &[&str]) -> Vec<String> {
    let question = asked(line);
    let mut words = Vec::new();
    for wanted in question.wanted {
        let Wanted::Words(candidates) = wanted else { panic!("no words: {wanted:?}") };
        words.extend(candidates.into_iter().map(|candidate| candidate.word));
    }
    words.retain(|word| word.starts_with(&question.prefix));
    words
}

#[test]
fn verbs_come_first_and_hidden_ones_never() {
    assert_eq!(words(&["st"]), ["status"]);
    let all = words(&[""]);
    assert!(["plan", "node", "completion", "help"].iter().all(|verb| all.contains(&(*verb).to_owned())), "{all:?}");
    assert!(!all.iter().any(|verb| verb.starts_with('_')), "{all:?}");
    assert_eq!(words(&[]), all);
    assert_eq!(words(&["help", "ver"]), ["version"]);
}

#[test]
fn nodes_are_named_but_each_only_once() {
    let nodes = |except: &[&str]| vec![Wanted::Nodes { except: except.iter().copied().map(str::to_owned).collect() }];
    assert_eq!(wanted(&["node", ""]), nodes(&[]));
    assert_eq!(wanted(&["nodes", "a", "node/b", "w"]), nodes(&["a", "b"]));
    assert_eq!(wanted(&["node", "--force", "w"]), nodes(&[]));
    assert_eq!(wanted(&["node", "--reason", "kernel", "w"]), nodes(&[]));
    assert_eq!(words(&["plan", ""]), ["node"]);
    assert_eq!(wanted(&["plan", "node", ""]), nodes(&["node"]));
    assert_eq!(wanted(&["plan", "node/"]), nodes(&[]));
}

#[test]
fn each_verb_is_offered_the_rotations_that_it_can_do_something_about() {
    for (verb, which) in
        [("status", Which::All), ("cancel", Which::Live), ("pause", Which::Running), ("resume", Which::Paused)]
    {
        assert_eq!(wanted(&[verb, ""]), [Wanted::Rotations(which)]);
        assert_eq!(wanted(&[verb, "abc", ""]), [], "{verb} takes one");
    }
}

#[test]
fn flags_are_offered_with_their_meaning_and_not_twice() {
    assert_eq!(words(&["node", "--surge"]), ["--surge", "--surge-timeout"]);
    assert_eq!(words(&["node", "--surge=none", "--surge"]), ["--surge-timeout"]);
    assert_eq!(words(&["fleet", "--conte"]), ["--context"]);
    assert_eq!(words(&["--conte"]), ["--context"]);
    let question = asked(&["node", "--force"]);
    let [Wanted::Words(flags)] = &question.wanted[..] else { panic!("{question:?}") };
    assert!(flags.iter().all(|flag| !flag.meaning.is_empty()), "{flags:?}");
}

#[test]
fn values_are_offered_after_a_space_and_after_an_equals_sign() {
    assert_eq!(words(&["node", "--then", ""]), ["delete", "keep", "uncordon"]);
    assert_eq!(words(&["node", "a", "--then=u"]), ["uncordon"]);
    assert_eq!(words(&["fleet", "-o", "w"]), ["wide"]);
    assert_eq!(words(&["node", "--dry-run="]), ["none", "client", "server"]);
    assert_eq!(words(&["node", "--force="]), ["true", "false"]);
    assert_eq!(words(&["completion", "z"]), ["zsh"]);
    assert_eq!(wanted(&["plan", "node", "a", "--from", ""]), [Wanted::Files]);
    assert_eq!(wanted(&["fleet", "--kubeconfig="]), [Wanted::Files]);
    assert_eq!(wanted(&["fleet", "--context", ""]), [Wanted::Names("contexts")]);
    assert_eq!(wanted(&["node", "--reason", ""]), []);
    assert_eq!(wanted(&["node", "--frobnicate="]), []);
}

#[test]
fn the_flags_of_the_connection_go_along_with_the_question() {
    let question = asked(&["--context", "prod", "node", "--force", "-n", "x", "--token=t", "--reason", "r", "w"]);
    assert_eq!(question.globals, ["--context", "prod", "-n", "x", "--token=t"]);
    assert_eq!(question.prefix, "w");
    assert_eq!(asked(&["--kubeconfig", "x", "fleet", "--context", "p"]).globals, ["--kubeconfig", "x"]);
}

#[test]
fn a_node_may_stand_for_the_verb_where_the_program_is_called_so() {
    let mut surface = Cli::command();
    surface.build();
    let read =
        |line: &[&str]| read(&line.iter().copied().map(str::to_owned).collect::<Vec<_>>(), &surface, true).wanted;
    assert!(matches!(&read(&[""])[..], [Wanted::Nodes { .. }, Wanted::Words(_)]));
    assert_eq!(read(&["a", ""]), [Wanted::Nodes { except: vec!["a".to_owned()] }]);
    assert_eq!(read(&["status", ""]), [Wanted::Rotations(Which::All)]);
}
