//! On a terminal: made by `script` of util-linux, which is on every Linux.

use std::io::{Read, Write};
use std::process::{Child, Command, Stdio};

use crate::cluster::Cluster;

/// Starts the program on a terminal of its own; its end is the end of what is read of it.
fn on_a_terminal(line: &[&str], environment: &[(&str, &str)]) -> Child {
    let program = std::iter::once(env!("CARGO_BIN_EXE_kubectl-rotate")).chain(line.iter().copied());
    let typed: Vec<String> = program.map(|word| format!("'{word}'")).collect();
    // The shell outlives the interruption, which is sent to it too.
    let typed = format!("trap : INT; stty rows 24 columns 80; {}; echo ended with $?", typed.join(" "));
    let mut command = Command::new("script");
    command.args(["--quiet", "--return", "--command", &typed, "/dev/null"]);
    command.env_clear().env("SHELL", "/bin/sh").env("PATH", std::env::var_os("PATH").unwrap_or_default());
    command.envs(environment.iter().copied());
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
    command.spawn().expect("util-linux is there")
}

/// Everything that it writes up to this.
fn until(child: &mut Child, wanted: &str) -> String {
    let stdout = child.stdout.as_mut().expect("it is piped");
    let mut seen = Vec::new();
    let mut byte = [0];
    while stdout.read(&mut byte).expect("it can be read") == 1 {
        seen.push(byte[0]);
        if seen.ends_with(wanted.as_bytes()) {
            break;
        }
    }
    String::from_utf8_lossy(&seen).into_owned()
}

fn typed(child: &mut Child, keys: &[u8]) {
    child.stdin.as_mut().expect("it is piped").write_all(keys).expect("it is read");
}

#[test]
fn a_person_is_asked_and_an_answer_other_than_yes_is_no() {
    let cluster = Cluster::with_room(true).agent();
    for (keys, end) in [(&b"n\n"[..], "ended with 2"), (b"\n", "ended with 2"), (b"\x03", "ended with 130")] {
        let mut child = on_a_terminal(&["node", "w1", "--agent-url", &cluster.agent_url], &[("TERM", "xterm")]);
        let asked = until(&mut child, "[y/N] ");
        assert!(asked.contains("Rotate node/w1?"), "{asked}");
        typed(&mut child, keys);
        let said = until(&mut child, end);
        assert!(said.ends_with(end), "{keys:?}: {said}");
        child.wait().expect("it ends");
    }
    assert!(!cluster.is_cordoned("w1"));
}

#[test]
fn ctrl_c_at_the_question_gives_the_lease_up() {
    let cluster = Cluster::with_room(true);
    assert_eq!(cluster.embedded(&["node", "w2", "--yes"]).code, Some(0));
    let mut child = on_a_terminal(&["node", "w1", "--embedded", "--server", &cluster.server], &[("TERM", "xterm")]);
    until(&mut child, "[y/N] ");
    typed(&mut child, b"\x03");
    let said = until(&mut child, "ended with 130");
    assert!(said.contains("error: interrupted before anything was begun"), "{said}");
    child.wait().expect("it ends");
    let leases = cluster.sim.list("leases");
    let holder = |lease: &serde_json::Value| lease["spec"]["holderIdentity"].as_str().unwrap_or_default().to_owned();
    assert!(leases.iter().all(|lease| holder(lease).is_empty()), "{leases:#?}");
}

#[test]
fn who_wants_out_at_the_second_question_is_told_what_the_first_has_created() {
    for (keys, end) in [(&b"\x03"[..], "ended with 130"), (b"n\n", "ended with 2")] {
        let cluster = Cluster::with_room(true);
        let mut child = on_a_terminal(&["node", "w1", "--embedded", "--server", &cluster.server], &[("TERM", "xterm")]);
        until(&mut child, "Create them? [y/N] ");
        typed(&mut child, b"y\n");
        until(&mut child, "Rotate node/w1? [y/N] ");
        typed(&mut child, keys);
        let said = until(&mut child, end);
        child.wait().expect("it ends");
        let said: Vec<_> = said.split_whitespace().collect();
        let said = said.join(" ");
        assert!(said.contains("the objects that the agent needs were created and stay"), "{said}");
        assert!(!said.contains("anything was begun") && !said.contains("nothing was touched"), "{said}");
    }
}

#[test]
fn the_time_to_wait_begins_with_the_answer() {
    let cluster = crate::interrupts::with_a_pod_that_stays();
    let line = ["uninstall", "--timeout", "1s", "--server", &cluster.server];
    let mut child = on_a_terminal(&line, &[("TERM", "xterm")]);
    until(&mut child, "[y/N] ");
    std::thread::sleep(std::time::Duration::from_millis(1500));
    typed(&mut child, b"y\n");
    let said = until(&mut child, "ended with 5");
    child.wait().expect("it ends");
    assert!(said.contains("error: not everything is gone after 1s: "), "{said}");
}

#[test]
fn lines_change_in_place_only_where_the_terminal_can_and_may() {
    for (environment, changes) in [
        (&[("TERM", "xterm")][..], true),
        (&[("TERM", "dumb")], false),
        (&[], false),
        (&[("TERM", "xterm"), ("NO_COLOR", "1")], false),
    ] {
        let cluster = Cluster::with_room(true).agent();
        let line = ["node", "w2", "w3", "--yes", "--max-concurrent=2", "--agent-url", &cluster.agent_url];
        let mut child = on_a_terminal(&line, environment);
        let said = until(&mut child, "ended with 0");
        child.wait().expect("it ends");
        assert!(said.contains("node/w2 rotated"), "{said}");
        assert_eq!(said.contains('\u{1b}'), changes, "{environment:?}: {said:?}");
        assert_eq!(said.contains("] 2 nodes: "), changes, "{environment:?}: {said:?}");
        // What lasts is a line either way.
        assert!(said.contains("node/w2 succeeded after "), "{said}");
    }
}
