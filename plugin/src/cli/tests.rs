//! The surface as a whole, and the reference that is made of it.

use clap::CommandFactory;

use super::*;

#[test]
fn the_surface_is_consistent() {
    Cli::command().debug_assert();
}

#[test]
fn booleans_can_be_switched_off_as_in_kubectl() {
    let cli = Cli::try_parse_from(["kubectl-rotate", "node", "a", "--wait=false", "--ignore-daemonsets=false"])
        .expect("the command line is well formed");
    let Some(Verb::Node(node)) = cli.verb else { panic!("not node: {:?}", cli.verb) };
    assert!(!node.wait);
    assert_eq!(node.rotation.ignore_daemonsets, Some(false));
    assert_eq!(node.rotation.force, None);
}

#[test]
fn a_switch_does_not_swallow_the_name_that_follows_it() {
    let cli = Cli::try_parse_from(["kubectl-rotate", "node", "--force", "a"]).expect("well formed");
    let Some(Verb::Node(node)) = cli.verb else { panic!("not node") };
    assert_eq!(node.names, ["a"]);
}

#[test]
fn connection_flags_are_accepted_before_and_after_the_verb() {
    for line in [["kubectl-rotate", "--context", "x", "fleet"], ["kubectl-rotate", "fleet", "--context", "x"]] {
        let cli = Cli::try_parse_from(line).expect("well formed");
        assert_eq!(cli.connection.context.as_deref(), Some("x"));
    }
}

#[test]
fn of_a_flag_given_twice_the_last_counts_as_in_kubectl() {
    let typed = ["kubectl-rotate", "node", "a", "--yes", "--yes=false", "-o", "json", "-o", "yaml", "--as-group", "g"];
    let cli =
        Cli::try_parse_from(typed.iter().chain(&["--as-group", "h", "--context", "x", "--context", "y"])).unwrap();
    assert_eq!((cli.connection.as_group.len(), cli.connection.context.as_deref()), (2, Some("y")));
    let Some(Verb::Node(args)) = cli.verb else { panic!("it is node") };
    assert_eq!((args.yes, args.output.output.as_deref()), (false, Some("yaml")));
}

#[test]
fn the_agents_namespace_never_becomes_another_path() {
    let of = |name: &str| {
        Cli::try_parse_from(["kubectl-rotate", "status", "--agent-namespace", name])
            .map(|cli| cli.agent.agent_namespace)
    };
    assert_eq!(of("tools-1").unwrap(), "tools-1");
    assert_eq!(of("").unwrap(), rotate_shared::names::NAMESPACE);
    for name in ["../kube-system", "a/b", "a?b", "A", "-a", "a-", "a.b", &"a".repeat(64)] {
        assert!(of(name).is_err(), "{name}");
    }
}

/// Every verb's help, as `docs/cli.md` has it.
fn reference() -> String {
    let mut command = Cli::command();
    command.build();
    let mut text = String::from(
        "# Command line\n\nWhat `--help` says. Made by `UPDATE_DOCS=1 cargo test -p kubectl-rotate the_reference`; do not edit.\n",
    );
    let mut add = |name: &str, command: &mut clap::Command| {
        let help = command.render_long_help().to_string();
        let lines: Vec<&str> = help.lines().map(str::trim_end).collect();
        text.push_str(&format!("\n## {name}\n\n```text\n{}\n```\n", lines.join("\n").trim_end()));
    };
    add("kubectl rotate", &mut command.clone());
    for verb in command.get_subcommands_mut().filter(|verb| verb.get_name() != "help") {
        add(&format!("kubectl rotate {}", verb.get_name()), &mut without_common_flags(verb));
    }
    text
}

/// The flags that every verb has are told once, at the top.
fn without_common_flags(verb: &clap::Command) -> clap::Command {
    let common: Vec<String> = Cli::command().get_arguments().map(|flag| flag.get_id().to_string()).collect();
    let mut verb = verb.clone();
    for flag in common {
        if verb.get_arguments().any(|own| own.get_id() == flag.as_str()) {
            verb = verb.mut_arg(flag, |own| own.hide(true));
        }
    }
    verb
}

#[test]
fn the_reference_is_what_help_says() {
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/cli.md");
    if std::env::var_os("UPDATE_DOCS").is_some() {
        std::fs::write(&path, reference()).expect("docs can be written");
    }
    let committed = std::fs::read_to_string(&path).expect("docs/cli.md is there");
    assert!(committed == reference(), "docs/cli.md is old: UPDATE_DOCS=1 cargo test -p kubectl-rotate the_reference");
}
