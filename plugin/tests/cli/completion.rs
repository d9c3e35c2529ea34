//! Completion: the program that kubectl asks, and the scripts for shells.

use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::Command;

use rotate_sim::{Access, Identity, Rule};
use tempfile::TempDir;

use crate::cluster::Cluster;
use crate::support::rotate;

/// A folder with the program in it, as kubectl finds it in `PATH`.
fn installed() -> (TempDir, PathBuf) {
    let directory = TempDir::new().expect("a temporary directory");
    let program = directory.path().join("kubectl-rotate");
    std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_kubectl-rotate"), &program).expect("a link can be made");
    (directory, program)
}

/// What a program answers; it must complain of nothing, for that would be written between a person's words.
fn answer(program: &Path, line: &[&str]) -> String {
    let output = Command::new(program).env_clear().args(line).output().expect("it runs");
    assert_eq!((output.status.code(), String::from_utf8(output.stderr).as_deref()), (Some(0), Ok("")), "{line:?}");
    String::from_utf8(output.stdout).expect("text")
}

/// What is answered to these words, under the name that kubectl looks for.
fn completed(line: &[&str]) -> String {
    let (directory, program) = installed();
    let completes = directory.path().join("kubectl_complete-rotate");
    std::os::unix::fs::symlink(&program, &completes).expect("a link can be made");
    answer(&completes, line)
}

#[test]
fn verbs_flags_and_values_are_completed_without_a_cluster() {
    assert_eq!(completed(&["sta"]), "status\tShow rotations, or one of them in detail\n:4\n");
    assert_eq!(completed(&["node", "a", "--then=un"]), "uncordon\tThe node stays and is uncordoned\n:4\n");
    assert_eq!(completed(&["plan", "node", "a", "--from", ""]), ":0\n", "files");
    let own = rotate(&["__complete", "node", "--max-c"]);
    let wanted = "--max-concurrent\tHow many nodes may be in work at once [default: 1]\n:4\n";
    assert_eq!((own.code, own.stdout.as_str(), own.stderr.as_str()), (Some(0), wanted, ""));
}

#[test]
fn nodes_are_completed_by_one_small_list() {
    let cluster = Cluster::with_room(true);
    let flags = ["--server", &cluster.server];
    let ask = |words: &[&str]| completed(&[&flags[..], words].concat());
    assert_eq!(ask(&["node", ""]), "w1\nw2\nw3\n:4\n");
    let requests: Vec<_> =
        cluster.sim.requests().iter().map(|asked| format!("{}?{}", asked.path, asked.query)).collect();
    assert_eq!(requests, ["/api/v1/nodes?limit=1000"]);
    assert_eq!(ask(&["node", "w1", "w"]), "w2\nw3\n:4\n");
    assert_eq!(ask(&["plan", "node/w"]), "node/w1\nnode/w2\nnode/w3\n:4\n");
    assert_eq!(ask(&["plan", "node", "x"]), ":4\n");
}

#[test]
fn who_may_not_list_nodes_is_told_their_names_by_the_agent() {
    let cluster = Cluster::with_room(true).agent();
    let nobody = Identity { user: "nobody".to_owned(), groups: Vec::new(), audiences: Vec::new() };
    cluster.sim.set_access(Access {
        tokens: [("nobody".to_owned(), nobody)].into(),
        rules: vec![Rule::all("system:admin")],
        ..Access::default()
    });
    let flags = ["--server", &cluster.server, "--token", "nobody"];
    assert_eq!(completed(&[&flags[..], &["--embedded", "node", ""]].concat()), ":4\n");
    let flags = [&flags[..], &["--agent-url", &cluster.agent_url]].concat();
    assert_eq!(completed(&[&flags[..], &["node", ""]].concat()), "w1\nw2\nw3\n:4\n");
}

#[test]
fn rotations_are_completed_that_the_verb_can_do_something_about() {
    let cluster = Cluster::with_room(false).agent();
    let begun = cluster.rotate(&["node", "w1", "--yes", "--wait=false", "-o", "name"]).stdout;
    let id = begun.trim().strip_prefix("rotation/").expect("a name").to_owned();
    let ask = |verb: &str| completed(&["--agent-url", &cluster.agent_url, verb, ""]);
    for verb in ["status", "cancel", "pause"] {
        let answer = ask(verb);
        assert!(answer.starts_with(&format!("{id}\tnode/w1 ")) && answer.contains("\nnode/w1\t"), "{verb}: {answer}");
    }
    assert_eq!(ask("resume"), ":4\n");
}

#[test]
fn contexts_are_completed_out_of_the_kubeconfig() {
    let contexts = "contexts: [{name: test, context: {cluster: a}}, {name: prod, context: {cluster: a}}]\n";
    let file = crate::support::file(&format!("clusters: []\n{contexts}"));
    let path = file.path().to_str().expect("a plain path");
    assert_eq!(completed(&["--kubeconfig", path, "fleet", "--context", ""]), "test\nprod\n:4\n");
    assert_eq!(completed(&["--kubeconfig", path, "fleet", "--context=p"]), "prod\n:4\n");
}

#[test]
fn a_cluster_that_is_broken_or_silent_is_not_waited_for_and_not_complained_of() {
    // The system takes the connection; nobody accepts it.
    let silent = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let silent = format!("http://{}", silent.local_addr().expect("it is bound"));
    for server in [&silent, "http://127.0.0.1:9"] {
        assert_eq!(completed(&["--server", server, "node", ""]), ":4\n");
        assert_eq!(completed(&["--agent-url", server, "status", ""]), ":4\n");
    }
    let file = crate::support::file("clusters: [");
    assert_eq!(completed(&["--kubeconfig", file.path().to_str().expect("a plain path"), "node", ""]), ":4\n");
}

#[test]
fn what_kubectl_asks_is_installed_beside_the_program() {
    let (directory, program) = installed();
    let link = directory.path().join("kubectl_complete-rotate");
    let install = || {
        let mut command = Command::new(&program);
        let output = command.env_clear().env("PATH", directory.path()).args(["completion", "--install"]).output();
        let output = output.expect("it runs");
        assert_eq!((output.status.code(), String::from_utf8(output.stderr).as_deref()), (Some(0), Ok("")));
        String::from_utf8(output.stdout).expect("text")
    };
    assert_eq!(install(), format!("{} created\n", link.display()));
    assert_eq!(install(), format!("{} unchanged\n", link.display()));
    assert!(answer(&link, &["fle"]).starts_with("fleet\t"));
}

#[test]
fn what_is_there_already_is_not_written_over() {
    let (directory, program) = installed();
    let link = directory.path().join("kubectl_complete-rotate");
    std::fs::write(&link, "somebody's own").expect("it can be written");
    let output = Command::new(&program).env_clear().args(["completion", "--install"]).output().expect("it runs");
    let stderr = String::from_utf8(output.stderr).expect("text");
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(stderr, format!("error: {} is there already, and not ours: remove it first\n", link.display()));
}

#[test]
fn each_shell_gets_a_script_and_bash_completes_with_it() {
    for shell in ["bash", "zsh", "fish", "powershell"] {
        let run = rotate(&["completion", shell]);
        assert_eq!((run.code, run.stderr.as_str()), (Some(0), ""), "{shell}");
        assert!(run.stdout.contains("kubectl-rotate") && run.stdout.contains("max-concurrent"), "{shell}");
        assert!(!run.stdout.contains("\\u{"), "{shell}: it is printed as it is");
    }
    let script = crate::support::file(&rotate(&["completion", "bash"]).stdout);
    let asked = r#"source "$1"; COMP_WORDS=(kubectl-rotate sta); COMP_CWORD=1
                  "$(complete -p kubectl-rotate | sed 's/.*-F \([^ ]*\).*/\1/')" kubectl-rotate sta kubectl-rotate
                  echo "${COMPREPLY[@]}""#;
    let output = Command::new("bash").args(["-c", asked, "bash"]).arg(script.path()).output().expect("bash runs");
    assert_eq!(String::from_utf8(output.stdout).expect("text"), "status\n", "{:?}", output.stderr);
    let run = rotate(&["completion"]);
    assert_eq!(run.code, Some(2));
}
