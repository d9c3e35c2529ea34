//! Ctrl-C at any time: the command ends with 130, and says what that means.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::process::Stdio;
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use rotate_shared::{API_VERSION, OptionsRequest};
use rotate_sim::objects;
use serde_json::json;

use crate::cluster::Cluster;
use crate::support::{file, interrupted, rotate, signal, signalled, started};

/// Somebody who answers these paths, each with this, and no other. Tells of every path that is asked for.
fn silent_but_for(answers: &[(&'static str, String)]) -> (String, Receiver<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let url = format!("http://{}", listener.local_addr().expect("it is bound"));
    let (sender, asked) = channel();
    let answers = answers.to_vec();
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let (answers, sender) = (answers.clone(), sender.clone());
            std::thread::spawn(move || {
                while let Some(path) = requested(&mut stream) {
                    let answer = answers.iter().find(|(known, _)| *known == path);
                    let _ = sender.send(path.clone());
                    if let Some((_, body)) = answer {
                        let version = env!("CARGO_PKG_VERSION");
                        let head = format!("HTTP/1.1 200 OK\r\nrotate-version: {version}\r\n");
                        let _ = write!(stream, "{head}content-length: {}\r\n\r\n{body}", body.len());
                    }
                }
            });
        }
    });
    (url, asked)
}

/// The path of the next request; `None` once nobody asks any more.
fn requested(stream: &mut TcpStream) -> Option<String> {
    let mut request = Vec::new();
    let mut byte = [0];
    while !request.ends_with(b"\r\n\r\n") {
        if stream.read(&mut byte).ok()? == 0 {
            return None;
        }
        request.push(byte[0]);
    }
    let head = String::from_utf8(request).ok()?.to_lowercase();
    let length = head.lines().find_map(|line| line.strip_prefix("content-length: ")?.parse().ok()).unwrap_or(0);
    stream.read_exact(&mut vec![0; length]).ok()?;
    head.split(' ').nth(1).map(str::to_owned)
}

fn until_asked(asked: &Receiver<String>, path: &str) {
    while asked.recv_timeout(Duration::from_secs(20)).expect("it is asked") != path {}
}

#[test]
fn while_an_agent_thinks_about_a_plan_nothing_is_begun() {
    for name in ["-INT", "-TERM"] {
        let (url, asked) = silent_but_for(&[]);
        let child = started(&["node", "w1", "--yes", "--agent-url", &url]);
        until_asked(&asked, "/v1/plans");
        let run = signalled(child, name);
        assert_eq!(
            (run.code, run.stderr.as_str()),
            (Some(130), "error: interrupted before anything was begun\n"),
            "{name}"
        );
    }
}

#[test]
fn who_only_looks_ends_without_a_word() {
    for (line, path) in [
        (&["plan", "node", "w1"][..], "/v1/plans"),
        (&["node", "w1", "--dry-run"], "/v1/plans"),
        (&["status"], "/v1/rotations"),
        (&["status", "-w"], "/v1/rotations"),
        (&["fleet"], "/v1/nodes"),
    ] {
        let (url, asked) = silent_but_for(&[]);
        let child = started(&[line, &["--agent-url", &url]].concat());
        until_asked(&asked, path);
        let run = interrupted(child);
        assert_eq!((run.code, run.stdout.as_str(), run.stderr.as_str()), (Some(130), "", ""), "{line:?}");
    }
}

/// What an agent of our version says of itself.
fn version() -> String {
    let version = rotate(&["version", "--client", "-o", "json"]).stdout;
    let version: serde_json::Value = serde_json::from_str(&version).expect("JSON");
    version["clientVersion"].to_string()
}

/// What an agent plans for the node `w1`.
fn plans() -> String {
    let cluster = Cluster::with_room(true).agent();
    cluster.rotate(&["plan", "node", "-l", "kubernetes.io/hostname=w1", "-o", "json"]).stdout
}

#[test]
fn while_a_rotation_is_begun_nobody_knows_whether_it_was_and_how_to_see_is_told() {
    let (url, asked) = silent_but_for(&[("/v1/plans", plans()), ("/version", version())]);
    let child = started(&["node", "w1", "--yes", "--agent-url", &url]);
    until_asked(&asked, "/v1/rotations");
    let run = interrupted(child);
    let told = format!("while it was begun; whether it was, kubectl rotate status --agent-url {url} shows");
    assert_eq!(run.code, Some(130), "{}", run.stderr);
    assert!(run.stderr.ends_with(&format!("error: interrupted {told}\n")), "{}", run.stderr);
}

#[test]
fn where_the_answer_is_lost_how_to_see_whether_a_rotation_was_begun_is_told() {
    let answers = [("/v1/plans", plans()), ("/version", version()), ("/v1/rotations", "<html>".to_owned())];
    let (url, _) = silent_but_for(&answers);
    let run = rotate(&["node", "w1", "--yes", "--agent-url", &url]);
    let told = format!("Whether it was begun, kubectl rotate status --agent-url {url} shows.\n");
    assert_eq!(run.code, Some(8), "{}", run.stderr);
    assert!(run.stderr.contains(&told), "{}", run.stderr);
}

/// An agent that ends whatever it is asked to end and then says nothing any more of how.
fn silent_about_the_end(ids: &[&'static str]) -> (String, Receiver<String>) {
    let rotation = |id: &str| {
        json!({"apiVersion": API_VERSION, "kind": "Rotation", "id": id, "batch": "0000000001", "node": "w1", "nodeUID": "u",
            "provider": "unmanaged", "phase": "Draining", "paused": false, "options": OptionsRequest::default().resolve(),
            "createdAt": "2026-11-30T10:00:00Z", "phases": [], "waiting": [], "requestedBy": {}, "revision": 1,
            "progress": {"toMove": 3, "reserved": 2, "evicted": 1, "landed": 1}})
    };
    let batch = json!({"apiVersion": API_VERSION, "kind": "RotationList",
        "items": ids.iter().map(|id| rotation(id)).collect::<Vec<_>>()});
    let mut answers = vec![("/version", version()), ("/v1/rotations?batch=0000000001", batch.to_string())];
    for id in ids {
        let path: &'static str = Box::leak(format!("/v1/rotations/{id}/cancel").into_boxed_str());
        answers.push((path, rotation(id).to_string()));
    }
    silent_but_for(&answers)
}

#[test]
fn how_a_cancelled_rotation_ends_is_not_waited_for_against_ones_will() {
    let (url, asked) = silent_about_the_end(&["000000000a"]);
    let child = started(&["cancel", "batch/0000000001", "--agent-url", &url]);
    until_asked(&asked, "/v1/rotations/000000000a");
    let run = interrupted(child);
    assert_eq!((run.code, run.stdout.as_str()), (Some(130), "rotation/000000000a cancelled\n"), "{}", run.stderr);
    let told = format!(
        "error: interrupted before the agent said how it ends, which kubectl rotate status batch/0000000001 --agent-url \
         {url} shows\n"
    );
    assert!(run.stderr.ends_with(&told), "{}", run.stderr);
}

#[test]
fn how_all_of_a_batch_ends_is_waited_for_together() {
    let (url, asked) = silent_about_the_end(&["000000000a", "000000000b"]);
    let run = rotate(&["cancel", "batch/0000000001", "--agent-url", &url]);
    let cancelled = "rotation/000000000a cancelled\nrotation/000000000b cancelled\n";
    assert_eq!((run.code, run.stdout.as_str()), (Some(0), cancelled), "{}", run.stderr);
    let looks =
        asked.try_iter().filter(|path| ["/v1/rotations/000000000a", "/v1/rotations/000000000b"].contains(&&**path));
    assert_eq!(looks.count(), 1, "the first is not answered, and no other is asked after it");
}

/// Waits until the kernel would tell the program of a Ctrl-C instead of ending it.
#[cfg(target_os = "linux")]
fn until_it_listens(child: &std::process::Child) {
    let listens = |status: String| {
        let caught = status.lines().find_map(|line| line.strip_prefix("SigCgt:"));
        caught.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).is_some_and(|mask| mask & 2 == 2)
    };
    while !listens(std::fs::read_to_string(format!("/proc/{}/status", child.id())).expect("it runs")) {
        std::thread::sleep(Duration::from_millis(10));
    }
}

#[cfg(target_os = "linux")]
#[test]
fn a_question_to_stdin_that_nobody_answers_is_given_up() {
    let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_kubectl-rotate"));
    command.env_clear().args(["plan", "node", "w1", "--from", "-", "-v", "6"]);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("the binary runs");
    let stdin = child.stdin.take();
    until_it_listens(&child);
    let run = interrupted(child);
    drop(stdin);
    assert_eq!((run.code, run.stderr.as_str()), (Some(130), ""));
}

/// A cluster in which an agent's Pod does not go, as nobody takes it away there.
pub(crate) fn with_a_pod_that_stays() -> Cluster {
    let cluster = Cluster::bare();
    let labels = json!({ "app.kubernetes.io/name": "kubectl-rotate", "app.kubernetes.io/component": "agent" });
    cluster.sim.create(objects::namespace("kubectl-rotate", &labels));
    let mut pod = objects::pod("rotate-agent-a", "kubectl-rotate", &objects::template("agent", "1m", "1Mi"));
    pod["metadata"]["labels"] = labels;
    cluster.sim.create(pod);
    cluster
}

#[test]
fn an_uninstallation_stops_and_the_command_to_go_on_with_leads_to_the_same_cluster() {
    let cluster = with_a_pod_that_stays();
    let line = ["uninstall", "--yes", "--server", &cluster.server];
    let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_kubectl-rotate"));
    let mut child =
        command.env_clear().args(line).stdin(Stdio::null()).stderr(Stdio::piped()).spawn().expect("it runs");
    let mut stderr = BufReader::new(child.stderr.take().expect("it is piped"));
    let mut said = String::new();
    while !said.contains("for its agents to go: pod/rotate-agent-a") {
        assert!(stderr.read_line(&mut said).expect("text") > 0, "{said}");
    }
    signal(&child, "-INT");
    assert_eq!(child.wait().expect("it ends").code(), Some(130));
    stderr.read_to_string(&mut said).expect("text");
    assert!(said.ends_with(&format!("To go on: kubectl rotate uninstall --server {}\n", cluster.server)), "{said}");
    assert!(cluster.sim.get("namespaces", "", "kubectl-rotate").is_some());
}

#[test]
fn an_uninstallation_that_takes_too_long_says_what_it_waits_for() {
    let cluster = with_a_pod_that_stays();
    let run = rotate(&["uninstall", "--yes", "--timeout", "1s", "--server", &cluster.server]);
    let told = "error: not everything is gone after 1s: it waits for its agents to go: pod/rotate-agent-a on node/";
    assert_eq!(run.code, Some(5), "{}", run.stderr);
    assert!(run.stderr.contains(told), "{}", run.stderr);
    assert!(
        run.stderr.ends_with(&format!("To go on: kubectl rotate uninstall --server {}\n", cluster.server)),
        "{}",
        run.stderr
    );
}

/// A kubeconfig with this script as its credential plugin.
fn with_plugin(script: &str) -> tempfile::NamedTempFile {
    let config = json!({
        "apiVersion": "v1", "kind": "Config", "current-context": "here",
        "clusters": [{"name": "c", "cluster": {"server": "http://127.0.0.1:1"}}],
        "contexts": [{"name": "here", "context": {"cluster": "c", "user": "u"}}],
        "users": [{"name": "u", "user": {"exec": {
            "apiVersion": "client.authentication.k8s.io/v1", "command": "/bin/sh", "args": ["-c", script],
            "interactiveMode": "Never",
        }}}],
    });
    file(&config.to_string())
}

#[test]
fn a_credential_plugin_that_does_not_listen_holds_nobody_up() {
    for name in ["-INT", "-TERM"] {
        let folder = tempfile::tempdir().expect("a temporary directory");
        let runs = folder.path().join("runs");
        let config = with_plugin(&format!("trap '' INT TERM; echo $$ > {}; exec sleep 60", runs.display()));
        let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_kubectl-rotate"));
        command.env_clear().args(["fleet", "--kubeconfig", config.path().to_str().expect("a plain path")]);
        let mut child =
            command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("it runs");
        let plugin = loop {
            match std::fs::read_to_string(&runs) {
                Ok(plugin) if plugin.ends_with('\n') => break plugin,
                _ => std::thread::sleep(Duration::from_millis(20)),
            }
        };
        signal(&child, name);
        assert_eq!(child.wait().expect("it ends").code(), Some(130), "{name}");
        let ended = std::process::Command::new("kill").args(["-KILL", plugin.trim()]).status().expect("kill runs");
        assert!(ended.success(), "the plugin was not waited for");
    }
}

#[test]
fn who_insists_is_held_up_by_nothing() {
    let folder = tempfile::tempdir().expect("a temporary directory");
    let authority = folder.path().join("ca.pem");
    // Nobody ever writes to it: reading it takes for ever.
    assert!(std::process::Command::new("mkfifo").arg(&authority).status().expect("mkfifo runs").success());
    let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_kubectl-rotate"));
    command.env_clear().args(["fleet", "--agent-url", "https://127.0.0.1:1", "--agent-ca"]).arg(&authority);
    let mut child = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("it runs");
    let (sender, opened) = channel();
    // Until somebody reads it.
    std::thread::spawn(move || sender.send(std::fs::OpenOptions::new().write(true).open(&authority)));
    let writer = opened.recv_timeout(Duration::from_secs(20)).expect("it is read").expect("it can be written");
    let pause = || std::thread::sleep(Duration::from_millis(100));
    for _ in 0..2 {
        signal(&child, "-INT");
        pause();
    }
    assert!(child.try_wait().expect("it is ours").is_none(), "the file holds it up");
    // Of signals that come close together some are lost.
    let ended = loop {
        signal(&child, "-INT");
        pause();
        if let Some(ended) = child.try_wait().expect("it is ours") {
            break ended;
        }
    };
    assert_eq!(ended.code(), Some(130));
    drop(writer);
}
