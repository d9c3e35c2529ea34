//! Bad input to the real binary: one clear line on stderr, the documented exit code, nothing on stdout.

use std::io::{Read, Write};
use std::net::TcpListener;

use crate::support::{Run, rotate};

fn refused(line: &[&str], code: i32, message: &str) {
    let run = rotate(line);
    assert_eq!((run.code, run.stderr.as_str()), (Some(code), &*format!("{message}\n")), "{line:?}");
    assert_eq!(run.stdout, "", "{line:?}");
}

/// A port that nobody listens on.
fn nobody() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    format!("http://{}", listener.local_addr().expect("it is bound"))
}

/// Somebody who answers every request alike.
fn somebody(status: &'static str, body: &'static str) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let url = format!("http://{}", listener.local_addr().expect("it is bound"));
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let Ok(mut stream) = stream else { continue };
            let mut request = [0; 4096];
            let _ = stream.read(&mut request);
            let head = format!("HTTP/1.1 {status}\r\ncontent-length: {}\r\nconnection: close\r\n\r\n", body.len());
            let _ = stream.write_all(format!("{head}{body}").as_bytes());
        }
    });
    url
}

#[test]
fn a_node_name_with_shell_characters_goes_nowhere() {
    for name in ["a;reboot", "$(reboot)", "`reboot`", "a|b", "../a", "a b"] {
        refused(
            &["node", name, "--yes"],
            2,
            &format!("error: {name:?} is not the name of a node: lower case letters, digits, '-' and '.', at most 253"),
        );
    }
}

#[test]
fn no_agent_says_how_to_get_to_one() {
    let cluster = crate::cluster::Cluster::bare();
    for line in [&["fleet"][..], &["status"], &["cancel", "abc"], &["pause", "abc"], &["node", "a", "--yes"]] {
        refused(
            &[line, &["--server", &cluster.server, "--agent-namespace", "ours"]].concat(),
            8,
            &format!(
                "error: no agent in namespace ours: install it with kubectl rotate install --apply --server {}, or run one \
                 inside this command with --embedded",
                cluster.server
            ),
        );
    }
}

/// As kubectl says it.
fn not_listening(url: &str) -> String {
    let at = url.trim_start_matches("http://");
    format!("error: the connection to the server {at} was refused - did you specify the right host or port?")
}

#[test]
fn no_cluster_is_told_apart_from_no_agent() {
    refused(
        &["status"],
        1,
        "error: no kubeconfig was found ($KUBECONFIG, ~/.kube/config), and this is not a Pod of a cluster: give \
         --kubeconfig FILE or --server URL",
    );
    let nobody = nobody();
    refused(&["status", "--server", &nobody], 1, &not_listening(&nobody));
    // A password in the address is for the server alone, also where requests are shown.
    let run = rotate(&["status", "--server", &nobody.replace("://", "://someone:secret@"), "-v", "8"]);
    assert!(run.stderr.contains("the connection to the server …@127.0.0.1:"), "{}", run.stderr);
    assert!(!(run.stdout + &run.stderr).contains("secret"));
}

#[test]
fn an_agent_that_does_not_answer_is_unreachable() {
    let url = nobody();
    let run = rotate(&["node", "a", "--yes", "--agent-url", &url]);
    assert_eq!(run.code, Some(8));
    assert!(
        run.stderr.starts_with(&format!("error: no agent answered at {url}: Connection refused")),
        "{}",
        run.stderr
    );
    assert!(run.stderr.contains("kubectl -n kubectl-rotate port-forward"), "{}", run.stderr);
    assert_eq!(run.stderr.lines().count(), 1);
}

#[test]
fn an_agent_of_another_version_is_refused_with_advice() {
    let url = somebody("200 OK", r#"{"version":"7.3.1","api":"v1"}"#);
    refused(
        &["node", "a", "--yes", "--agent-url", &url],
        1,
        "error: the agent is version 7.3.1, this is kubectl-rotate 0.1.0: at most one minor version may lie between them. \
         Upgrade this program: kubectl krew upgrade rotate",
    );
    let run = rotate(&["version", "--agent-url", &url]);
    assert_eq!((run.code, run.stdout.as_str()), (Some(0), "Client Version: v0.1.0\nAgent Version: v7.3.1\n"));
}

#[test]
fn something_else_than_an_agent_is_told_apart() {
    let url = somebody("200 OK", "<html>");
    let run = rotate(&["fleet", "--agent-url", &url]);
    assert_eq!(run.code, Some(8));
    assert!(run.stderr.starts_with("error: what answered is not the agent: expected value"), "{}", run.stderr);
    let url = somebody("502 Bad Gateway", "a proxy's page");
    let run = rotate(&["fleet", "--agent-url", &url]);
    assert!(run.stderr.starts_with("error: what answered is not the agent: HTTP status 502"), "{}", run.stderr);
}

#[test]
fn the_ops_port_of_the_agent_is_told_apart() {
    let problem =
        r#"{"status":404,"code":"NotFound","title":"no such object","detail":"path \"/v1/nodes\" not found"}"#;
    refused(
        &["fleet", "--agent-url", &somebody("404 Not Found", problem)],
        8,
        "error: the agent has no /v1/nodes there: it is its ops port, and what is meant is its control port, 8470 unless told \
         otherwise",
    );
}

#[test]
fn a_port_that_takes_connections_and_never_answers_is_given_up() {
    // The system takes the connection; nobody accepts it.
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let url = format!("http://{}", listener.local_addr().expect("it is bound"));
    let run = rotate(&["fleet", "--agent-url", &url, "--request-timeout=300ms"]);
    assert_eq!(run.code, Some(8), "{}", run.stderr);
    assert_eq!(run.stderr.lines().count(), 1, "{}", run.stderr);
}

#[test]
fn nobody_is_followed_to_another_address() {
    let elsewhere = somebody("200 OK", r#"{"version":"0.1.0","api":"v1"}"#);
    let head = format!("302 Found\r\nlocation: {elsewhere}/version");
    let url = somebody(head.leak(), "");
    let run = rotate(&["version", "--agent-url", &url]);
    assert_eq!((run.code, run.stderr.as_str()), (Some(8), "error: what answered is not the agent: HTTP status 302\n"),);
    assert_eq!(run.stdout, "Client Version: v0.1.0\n", "its own it knows all the same");
}

#[test]
fn an_empty_address_is_none() {
    let run = rotate(&["version", "--agent-url", ""]);
    assert_eq!((run.code, run.stdout.as_str()), (Some(0), "Client Version: v0.1.0\n"));
    let why = "The version of the agent is not known: no kubeconfig was found ";
    assert!(run.stderr.starts_with(why) && run.stderr.lines().count() == 1, "{}", run.stderr);
}

#[test]
fn an_agent_that_does_not_know_the_caller_is_not_authorised() {
    let url = somebody(
        "401 Unauthorized",
        r#"{"status":401,"code":"Unauthenticated","title":"the caller is not known","detail":"a bearer token is needed"}"#,
    );
    refused(
        &["fleet", "--agent-url", &url],
        7,
        "error: the agent asks for a token, and the API server cannot be asked for one: no kubeconfig was found \
         ($KUBECONFIG, ~/.kube/config), and this is not a Pod of a cluster: give --kubeconfig FILE or --server URL",
    );
}

#[test]
fn an_agent_that_does_not_answer_in_time_is_given_up() {
    // Connections wait in its backlog, and nobody takes them.
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let url = format!("http://{}", listener.local_addr().expect("it is bound"));
    let run = rotate(&["fleet", "--agent-url", &url, "--request-timeout", "200ms"]);
    assert_eq!(run.code, Some(8), "{}", run.stderr);
    assert!(run.stderr.starts_with("error: the agent did not answer within 0.2 s"), "{}", run.stderr);
    // No agent is reached before the API server says where it is.
    let run = rotate(&["fleet", "--server", &url, "--request-timeout", "200ms"]);
    let told = format!("error: the API server at {url}/ did not answer ");
    assert!(run.code == Some(1) && run.stderr.starts_with(&told), "{}", run.stderr);
}

#[test]
fn an_address_that_is_none_is_a_usage_error() {
    for url in ["8470", "ftp://127.0.0.1", "http://"] {
        let run = rotate(&["fleet", "--agent-url", url]);
        assert_eq!(run.code, Some(2), "{url}: {}", run.stderr);
        assert!(run.stderr.starts_with(&format!("error: the agent's address {url:?} is not one: ")), "{}", run.stderr);
    }
}

#[test]
fn a_broken_kubeconfig_is_one_clear_line() {
    let file = crate::support::file("apiVersion: v1\nclusters: [");
    let path = file.path().to_str().expect("a plain path");
    let run = rotate(&["node", "a", "--yes", "--embedded", "--kubeconfig", path]);
    assert_eq!(run.code, Some(1));
    assert!(run.stderr.starts_with(&format!("error: the kubeconfig cannot be used: {path}: ")), "{}", run.stderr);
    assert!(!run.stderr.contains("\\n"), "{}", run.stderr);
    assert_eq!(run.stderr.lines().count(), 1, "{}", run.stderr);
}

#[test]
fn of_several_kubeconfigs_one_that_is_not_there_is_passed_over() {
    let url = nobody();
    let context = "contexts: [{name: a, context: {cluster: a}}]\ncurrent-context: a\n";
    let file = crate::support::file(&format!("clusters: [{{name: a, cluster: {{server: '{url}'}}}}]\n{context}"));
    let list = format!("/nowhere/config:{}", file.path().display());
    let mut command = assert_cmd::Command::new(env!("CARGO_BIN_EXE_kubectl-rotate"));
    let output = command.env_clear().env("KUBECONFIG", list).args(["plan", "node", "a"]).output().expect("it runs");
    let stderr = String::from_utf8(output.stderr).expect("text");
    assert!(stderr.contains(&not_listening(&url)), "{stderr}");
}

#[test]
fn a_kubeconfig_that_is_not_there_is_named() {
    let run = rotate(&["node", "a", "--yes", "--embedded", "--kubeconfig", "/nowhere/config"]);
    assert_eq!(run.code, Some(1));
    assert!(run.stderr.contains("/nowhere/config"), "{}", run.stderr);
    refused(
        &["node", "a", "--yes", "--embedded"],
        1,
        "error: no kubeconfig was found ($KUBECONFIG, ~/.kube/config), and this is not a Pod of a cluster: give \
         --kubeconfig FILE or --server URL",
    );
}

#[test]
fn a_cluster_that_does_not_answer_is_named() {
    let url = nobody();
    refused(&["node", "a", "--yes", "--embedded", "--server", &url], 1, &not_listening(&url));
}

#[test]
fn contradictions_on_the_command_line_are_usage_errors() {
    refused(&["node", "a", "-l", "x=y"], 2, "error: NAME and -l together are not clear: give one of them");
    refused(
        &["node", "a", "--embedded", "--wait=false"],
        2,
        "error: --embedded with --wait=false would end the agent at once: nothing would happen",
    );
    refused(
        &["fleet", "--embedded", "--agent-url", "http://127.0.0.1:1"],
        2,
        "error: --agent-url and --embedded together are not clear: give one of them",
    );
    refused(
        &["status", "--pod-cache=scoped", "--agent-url", "http://127.0.0.1:1"],
        2,
        "error: --pod-cache says how an agent inside this command reads: it goes with --embedded",
    );
    refused(
        &["status", "--agent-ca", "ca.pem"],
        2,
        "error: --agent-ca says by which certificate the agent at an address is known: it goes with --agent-url",
    );
    refused(
        &["fleet", "-o", "x"],
        2,
        "error: unable to match a printer suitable for the output format \"x\", allowed formats are: json,name,wide,yaml",
    );
}

#[test]
fn what_clap_refuses_ends_with_two_and_points_to_help() {
    let run = rotate(&["node", "a", "--frobnicate"]);
    assert_eq!(
        (run.code, run.stderr.as_str()),
        (Some(2), "error: unknown flag: --frobnicate\nSee 'kubectl rotate --help' for usage.\n")
    );
}

#[test]
fn help_is_an_answer_and_no_mistake() {
    for line in [&[][..], &["--help"], &["node", "-h"], &["help", "plan"]] {
        let Run { code, stdout, stderr } = rotate(line);
        assert_eq!((code, stderr.as_str()), (Some(0), ""), "{line:?}");
        assert!(stdout.contains("Usage: kubectl rotate"), "{line:?}: {stdout}");
    }
}

#[test]
fn a_reader_that_has_seen_enough_is_no_failure() {
    let mut child = crate::support::started(&["--help"]);
    drop(child.stdout.take());
    let output = child.wait_with_output().expect("it ends");
    assert_eq!((output.status.code(), output.stderr.as_slice()), (Some(0), &b""[..]));
}

#[test]
fn a_full_disk_is_told_and_not_taken_for_success() {
    for line in [&["--help"][..], &["version", "--client"], &["completion", "bash"]] {
        let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_kubectl-rotate"));
        let full = std::fs::OpenOptions::new().write(true).open("/dev/full").expect("Linux has it");
        let output = command.env_clear().args(line).stdout(full).output().expect("it runs");
        let stderr = String::from_utf8(output.stderr).expect("text");
        assert_eq!(
            (output.status.code(), stderr.as_str()),
            (Some(1), "error: write the output: No space left on device (os error 28)\n"),
            "{line:?}"
        );
    }
}

#[test]
fn a_log_that_nobody_can_read_ends_nothing() {
    let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_kubectl-rotate"));
    let full = std::fs::OpenOptions::new().write(true).open("/dev/full").expect("Linux has it");
    let address = somebody("200 OK", "{}");
    let line = ["version", "-v", "8", "--agent-url", address.as_str()];
    let status = command.env_clear().args(line).stdout(std::process::Stdio::null()).stderr(full).status();
    assert_eq!(status.expect("it runs").code(), Some(8), "and not that of a panic");
}

#[test]
#[cfg(unix)]
fn what_is_no_text_is_refused_in_one_line() {
    use std::os::unix::ffi::OsStrExt;
    let no_text = std::ffi::OsStr::from_bytes(b"w\xff1");
    for line in [[std::ffi::OsStr::new("node"), no_text], [no_text, no_text]] {
        let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_kubectl-rotate"));
        let output = command.env_clear().args(line).output().expect("it runs");
        let stderr = String::from_utf8(output.stderr).expect("text");
        assert_eq!(output.status.code(), Some(2), "{stderr}");
        assert!(stderr.starts_with("error: ") && stderr.lines().count() == 2, "{stderr}");
    }
}

#[test]
fn pods_are_selected_by_something_that_can_be_meant() {
    refused(
        &["node", "a", "--pod-selector", ""],
        2,
        "error: the Pod selector is empty: it would mean every Pod; leave --pod-selector out for that",
    );
    refused(
        &["plan", "node", "a", "--pod-selector", "app=web", "--then=delete"],
        2,
        "error: --pod-selector leaves Pods on the node, which --then=delete would take along: use --then=keep or \
         --then=uncordon",
    );
    let run = rotate(&["node", "a", "--pod-selector", "app in"]);
    assert_eq!(run.code, Some(2));
    assert!(run.stderr.starts_with("error: the Pod selector \"app in\" cannot be read: "), "{}", run.stderr);
}

#[test]
fn no_verb_prints_an_object_in_a_format_that_does_not_exist() {
    let message = "error: unable to match a printer suitable for the output format \"go-template\", allowed formats \
                   are: json,name,wide,yaml";
    for verb in [
        &["plan", "node", "a"][..],
        &["node", "a"],
        &["status"],
        &["cancel", "abc"],
        &["pause", "abc"],
        &["resume", "abc"],
        &["fleet"],
        &["version"],
    ] {
        refused(&[verb, &["-o", "go-template"]].concat(), 2, message);
    }
    refused(&["version", "-o", "wide"], 2, "error: --output must be 'yaml' or 'json'");
}

#[test]
fn a_thousand_names_and_names_like_flags_are_names() {
    let names: Vec<String> = (0..1000).map(|number| format!("worker-{number}")).collect();
    let mut line: Vec<&str> = vec!["node", "--yes", "--agent-url", "http://127.0.0.1:9"];
    line.extend(names.iter().map(String::as_str));
    line.extend(names.iter().map(String::as_str));
    let run = rotate(&line);
    assert_eq!((run.code, run.stderr.lines().count()), (Some(8), 1), "{}", run.stderr);
    let run = rotate(&["node", "--", "-a"]);
    assert!(run.stderr.starts_with("error: \"-a\" is not the name of a node"), "{}", run.stderr);
}
