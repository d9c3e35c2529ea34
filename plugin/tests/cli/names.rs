//! The program under the name that krew's central index gives it.

use std::path::{Path, PathBuf};

use assert_cmd::Command;

use crate::cluster::Cluster;
use crate::support::rotate;

/// The program as krew links it for a plugin named `rotate-node`, for one test alone.
fn rotate_node(test: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(test);
    std::fs::create_dir_all(&folder).expect("a folder");
    let link = folder.join("kubectl-rotate_node");
    let _ = std::fs::remove_file(&link);
    std::fs::hard_link(env!("CARGO_BIN_EXE_kubectl-rotate"), &link).expect("a link to the binary");
    link
}

#[test]
fn as_rotate_node_a_node_is_rotated_without_a_verb_and_commands_are_told_as_they_can_be_typed() {
    let cluster = Cluster::with_room(false).agent();
    let program = rotate_node("verb");
    let run = |line: &[&str]| {
        let output = Command::new(&program).env_clear().args(line).args(["--agent-url", &cluster.agent_url]).output();
        let output = output.expect("the binary runs");
        let text = |bytes| String::from_utf8(bytes).expect("text");
        (output.status.code(), text(output.stdout), text(output.stderr))
    };
    let (code, _, stderr) = run(&["w1", "--yes", "--timeout", "300ms"]);
    assert_eq!(code, Some(5), "{stderr}");
    assert!(stderr.contains("Follow it with: kubectl rotate-node status "), "{stderr}");
    let (code, status, stderr) = run(&["status", "node/w1"]);
    assert_eq!(code, Some(0), "{stderr}");
    assert!(status.contains("Phase:       Surging\n"), "{status}");
    let (_, help, _) = run(&["--help"]);
    assert!(help.contains("Usage: kubectl rotate-node ") && !help.contains("kubectl rotate "), "{help}");
}

#[test]
fn what_is_installed_is_the_same_whatever_the_program_is_called() {
    let program = rotate_node("manifests");
    for line in [&["install", "--with", "ha"][..], &["install", "-o", "json"], &["version", "--client", "-o", "yaml"]] {
        let output = Command::new(&program).env_clear().args(line).output().expect("the binary runs");
        assert_eq!(String::from_utf8(output.stdout).expect("text"), rotate(line).stdout, "{line:?}");
    }
}
