//! What is meant by what was typed.

use clap::Parser;

use super::*;
use crate::cli::{Cli, Verb};

fn node(line: &[&str]) -> Result<Node, Failure> {
    let cli = Cli::try_parse_from([&["kubectl-rotate", "node"], line].concat()).expect("clap takes it");
    let Some(Verb::Node(args)) = cli.verb else { panic!("not node") };
    args.resolve()
}

fn plan(line: &[&str]) -> Result<Plan, Failure> {
    let cli = Cli::try_parse_from([&["kubectl-rotate", "plan"], line].concat()).expect("clap takes it");
    let Some(Verb::Plan(args)) = cli.verb else { panic!("not plan") };
    args.resolve()
}

fn refusal<T: std::fmt::Debug>(result: Result<T, Failure>) -> String {
    let failure = result.expect_err("it is refused");
    assert_eq!(failure.exit_code(), 2);
    failure.to_string()
}

#[test]
fn a_name_given_twice_is_meant_once() {
    let node = node(&["b", "node/a", "b", "a"]).expect("fine");
    assert_eq!(node.target.names(), ["b", "a"]);
    assert!(!node.target.is_single());
}

#[test]
fn a_name_with_a_selector_is_refused() {
    assert_eq!(refusal(node(&["a", "-l", "x=y"])), "NAME and -l together are not clear: give one of them");
}

#[test]
fn neither_name_nor_selector_says_what_to_type() {
    assert!(refusal(node(&[])).contains("kubectl rotate node NAME"));
    assert!(refusal(plan(&["node"])).contains("kubectl rotate plan node NAME"));
}

#[test]
fn an_empty_selector_does_not_mean_every_node() {
    assert!(refusal(node(&["-l", " "])).contains("every node"));
}

#[test]
fn shell_and_path_characters_are_no_node_name() {
    for name in ["a;rm -rf", "$(id)", "../secrets", "a/b", "A", "", "-a", "a..b", "a b", "a%2fb", &"a".repeat(254)] {
        assert!(NodeName::parse(name).is_err(), "{name}");
    }
    for name in ["a", "worker-1", "ip-10-0-0-1.eu-west-1.compute.internal", &"a".repeat(253)] {
        assert!(NodeName::parse(name).is_ok(), "{name}");
    }
}

#[test]
fn plan_takes_a_kind_and_names_or_kind_slash_name() {
    assert_eq!(plan(&["node", "a", "b"]).expect("fine").target.names(), ["a", "b"]);
    assert_eq!(plan(&["node/a"]).expect("fine").target.names(), ["a"]);
    assert_eq!(plan(&["node", "node/a"]).expect("fine").target.names(), ["a"]);
    assert_eq!(plan(&["node", "-l", "x"]).expect("fine").target, Target::Selector("x".to_owned()));
    assert_eq!(plan(&["-l", "x"]).expect("fine").target, Target::Selector("x".to_owned()));
    assert!(refusal(plan(&["web-1"])).contains("kubectl rotate plan node web-1"));
}

#[test]
fn options_that_were_not_given_are_left_out_of_the_request() {
    assert_eq!(node(&["a"]).expect("fine").options, OptionsRequest::default());
    let options = node(&["a", "--surge=none", "--surge-timeout", "1h30m", "--force", "--grace-period=-1"]);
    let wanted = OptionsRequest {
        surge: Some(SurgeMode::None),
        surge_timeout_seconds: Some(5400),
        force: Some(true),
        grace_period_seconds: Some(-1),
        ..OptionsRequest::default()
    };
    assert_eq!(options.expect("fine").options, wanted);
}

#[test]
fn a_timeout_of_nought_is_none() {
    assert_eq!(node(&["a"]).expect("fine").timeout, None);
    assert_eq!(node(&["a", "--timeout=0"]).expect("fine").timeout, None);
    assert_eq!(node(&["a", "--timeout=90s"]).expect("fine").timeout, Some(Duration::from_secs(90)));
}

#[test]
fn an_unknown_format_is_refused_as_kubectl_does() {
    assert_eq!(
        refusal(node(&["a", "-o", "x"])),
        "unable to match a printer suitable for the output format \"x\", allowed formats are: json,name,wide,yaml"
    );
}

#[test]
fn rotations_are_named_by_id_batch_or_node() {
    assert_eq!(RotationRef::parse("ab12").ok(), Some(RotationRef::Id("ab12".to_owned())));
    assert_eq!(RotationRef::parse("rotation/ab12").ok(), Some(RotationRef::Id("ab12".to_owned())));
    assert_eq!(RotationRef::parse("batch/ab12").ok(), Some(RotationRef::Batch("ab12".to_owned())));
    assert_eq!(RotationRef::parse("node/a").ok(), NodeName::parse("a").ok().map(RotationRef::Node));
    for text in ["", "../x", "a/b", "batch/", "rotation/a?b", "a b"] {
        assert!(RotationRef::parse(text).is_err(), "{text}");
    }
}

#[test]
fn a_selector_is_quoted_for_the_command_to_type_next() {
    assert_eq!(Target::Selector("a in (b, c)".to_owned()).to_string(), "-l 'a in (b, c)'");
    assert_eq!(Target::Selector("a='b".to_owned()).to_string(), r"-l 'a='\''b'");
}
