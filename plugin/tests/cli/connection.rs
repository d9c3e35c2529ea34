//! How the API server is reached: what the real binary sends, and to whom.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::os::unix::fs::PermissionsExt;
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use serde_json::json;
use tempfile::TempDir;

use crate::cluster::Cluster;
use crate::support::{Run, rotate};

/// Answers every request with an empty list of Pods, and keeps its first bytes.
struct Capture {
    address: SocketAddr,
    requests: Receiver<Vec<u8>>,
}

impl Capture {
    fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let address = listener.local_addr().expect("it is bound");
        let (sender, requests) = channel();
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let Ok(mut stream) = stream else { continue };
                let mut request = [0; 8192];
                let length = stream.read(&mut request).unwrap_or_default();
                if sender.send(request[..length].to_vec()).is_err() {
                    return;
                }
                let body = r#"{"kind":"PodList","apiVersion":"v1","metadata":{},"items":[]}"#;
                let head = format!(
                    "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {}\r\nconnection: close\r\n\r\n",
                    body.len()
                );
                let _ = stream.write_all(format!("{head}{body}").as_bytes());
            }
        });
        Self { address, requests }
    }

    fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    fn bytes(&self) -> Vec<u8> {
        self.requests.recv_timeout(Duration::from_secs(10)).expect("a request")
    }

    /// The lines of the request's head, in lower case as HTTP takes them.
    fn head(&self) -> Vec<String> {
        let text = String::from_utf8_lossy(&self.bytes()).into_owned();
        text.lines().take_while(|line| !line.is_empty()).map(str::to_lowercase).collect()
    }
}

fn kubeconfig(server: &str, cluster: serde_json::Value, user: serde_json::Value) -> tempfile::NamedTempFile {
    let mut cluster = cluster;
    cluster["server"] = server.into();
    let config = json!({
        "apiVersion": "v1", "kind": "Config", "current-context": "here",
        "clusters": [{"name": "c", "cluster": cluster}],
        "users": [{"name": "u", "user": user}],
        "contexts": [{"name": "here", "context": {"cluster": "c", "user": "u"}}],
    });
    crate::support::file(&config.to_string())
}

fn path(file: &tempfile::NamedTempFile) -> &str {
    file.path().to_str().expect("a plain path")
}

fn found_no_agent(run: &Run) {
    assert_eq!(run.code, Some(8), "{}", run.stderr);
    assert!(run.stderr.starts_with("error: no agent in namespace kubectl-rotate: "), "{}", run.stderr);
}

#[test]
fn the_agent_is_looked_for_in_its_namespace_only_and_by_its_labels() {
    let server = Capture::start();
    let file = kubeconfig(&server.url(), json!({}), json!({}));
    found_no_agent(&rotate(&["status", "--kubeconfig", path(&file), "-n", "elsewhere"]));
    let head = server.head();
    assert_eq!(
        head[0],
        "get /api/v1/namespaces/kubectl-rotate/pods?&labelselector=app.kubernetes.io%2fname%3dkubectl-rotate%2c\
         app.kubernetes.io%2fcomponent%3dagent http/1.1"
    );
    let next = server.head();
    assert_eq!(
        next[0], "get /apis/apps/v1/namespaces/kubectl-rotate/deployments/rotate-agent http/1.1",
        "is it installed?"
    );
    assert!(server.requests.try_recv().is_err(), "nothing else is asked: no discovery, and no token for nobody");
}

#[test]
fn the_token_and_impersonation_flags_are_what_the_api_server_sees() {
    let server = Capture::start();
    let file = kubeconfig(&server.url(), json!({}), json!({"token": "of-the-kubeconfig"}));
    let line = ["status", "--kubeconfig", path(&file), "--token", "of-the-line", "--as", "jane", "--as-uid", "7"];
    let more = ["--as-group", "admins", "--as-group", "ops", "--as-user-extra", "team=web"];
    found_no_agent(&rotate(&[&line[..], &more].concat()));
    let head = server.head();
    for header in [
        "authorization: bearer of-the-line",
        "impersonate-user: jane",
        "impersonate-uid: 7",
        "impersonate-group: admins",
        "impersonate-group: ops",
        "impersonate-extra-team: web",
    ] {
        assert!(head.iter().any(|line| line == header), "{header} is not in {head:#?}");
    }
}

#[test]
fn a_credential_plugin_gives_the_token_and_runs_once() {
    let server = Capture::start();
    let folder = TempDir::new().expect("a temporary directory");
    let script = folder.path().join("credential");
    let credential = json!({
        "apiVersion": "client.authentication.k8s.io/v1", "kind": "ExecCredential", "status": {"token": "of-the-script"},
    });
    let runs = folder.path().join("runs");
    let text = format!("#!/bin/sh\necho run >> '{}'\nprintf '%s' '{credential}'\n", runs.display());
    std::fs::write(&script, text).expect("it can be written");
    std::fs::set_permissions(&script, PermissionsExt::from_mode(0o755)).expect("it is ours");
    let exec = json!({
        "apiVersion": "client.authentication.k8s.io/v1", "command": script, "interactiveMode": "Never",
    });
    let file = kubeconfig(&server.url(), json!({}), json!({ "exec": exec }));
    found_no_agent(&rotate(&["status", "--kubeconfig", path(&file), "--request-timeout", "20s"]));
    assert!(server.head().contains(&"authorization: bearer of-the-script".to_owned()));
    assert_eq!(std::fs::read_to_string(runs).expect("it ran"), "run\n", "each run may take seconds");
}

#[test]
fn an_agent_that_is_installed_and_has_no_pods_is_told_apart_from_none() {
    let cluster = Cluster::bare();
    cluster.sim.create(rotate_sim::objects::namespace("kubectl-rotate", &json!({})));
    cluster.sim.create(json!({
        "apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {"name": "rotate-agent", "namespace": "kubectl-rotate"},
        "spec": {
            "replicas": 0, "selector": {"matchLabels": {"app": "a"}},
            "template": {"metadata": {"labels": {"app": "a"}}, "spec": {"containers": []}},
        },
    }));
    let run = rotate(&["status", "--server", &cluster.server]);
    let told = "error: the agent in namespace kubectl-rotate is scaled to 0: kubectl -n kubectl-rotate scale \
                deploy/rotate-agent --replicas=1 --server ";
    assert_eq!(run.code, Some(8), "{}", run.stderr);
    assert!(run.stderr.starts_with(told), "{}", run.stderr);
}

#[test]
fn a_credential_plugin_that_fails_is_named() {
    let exec = json!({
        "apiVersion": "client.authentication.k8s.io/v1", "command": "/nowhere/credential", "interactiveMode": "Never",
    });
    let file = kubeconfig("http://127.0.0.1:1", json!({}), json!({ "exec": exec }));
    let run = rotate(&["status", "--kubeconfig", path(&file)]);
    assert_eq!((run.code, run.stderr.lines().count()), (Some(1), 1), "{}", run.stderr);
    assert!(run.stderr.contains("/nowhere/credential"), "{}", run.stderr);
}

#[test]
fn what_a_credential_plugin_that_fails_has_printed_is_not_told() {
    for (text, why) in [
        ("echo the-credential; exit 3", "it ended with exit status: 3"),
        ("echo the-credential; echo 'log in first' >&2; exit 1", "it ended with exit status: 1: log in first"),
        (r#"echo '{"status": {"token": "the-credential"'"#, "what it printed is no ExecCredential"),
        (r#"echo '{"kind": "ExecCredential"}'"#, "what it printed holds no credential"),
    ] {
        let exec = json!({
            "apiVersion": "client.authentication.k8s.io/v1", "command": "/bin/sh", "args": ["-c", text],
            "interactiveMode": "Never",
        });
        let file = kubeconfig("http://127.0.0.1:1", json!({}), json!({ "exec": exec }));
        let run = rotate(&["status", "--kubeconfig", path(&file)]);
        let why = format!("the kubeconfig cannot be used: credential plugin /bin/sh: {why}\n");
        assert_eq!((run.code, run.stderr), (Some(1), format!("error: {why}")));
        let run = rotate(&["version", "--kubeconfig", path(&file)]);
        let told = format!("The version of the agent is not known: {why}");
        assert_eq!((run.code, run.stdout.lines().count(), run.stderr), (Some(0), 1, told));
    }
}

#[test]
fn a_credential_plugin_that_takes_long_is_told_of_once() {
    let exec = json!({
        "apiVersion": "client.authentication.k8s.io/v1", "command": "/bin/sh", "args": ["-c", "sleep 6; exit 3"],
        "interactiveMode": "Never",
    });
    let file = kubeconfig("http://127.0.0.1:1", json!({}), json!({ "exec": exec }));
    let run = rotate(&["status", "--kubeconfig", path(&file)]);
    let told = "Waiting for the credential plugin /bin/sh …\n\
                error: the kubeconfig cannot be used: credential plugin /bin/sh: it ended with exit status: 3\n";
    assert_eq!((run.code, run.stderr.as_str()), (Some(1), told));
}

#[test]
fn several_kubeconfigs_are_one() {
    let server = Capture::start();
    let part = |value: serde_json::Value| crate::support::file(&value.to_string());
    let one = part(json!({
        "apiVersion": "v1", "kind": "Config", "current-context": "here",
        "contexts": [{"name": "here", "context": {"cluster": "c", "user": "u"}}],
    }));
    let other = part(json!({
        "apiVersion": "v1", "kind": "Config", "current-context": "there",
        "clusters": [{"name": "c", "cluster": {"server": server.url()}}],
        "users": [{"name": "u", "user": {"token": "of-the-other"}}],
        "contexts": [{"name": "here", "context": {"cluster": "nowhere", "user": "nobody"}}],
    }));
    let list = format!("{}:{}", path(&one), path(&other));
    let mut command = assert_cmd::Command::new(env!("CARGO_BIN_EXE_kubectl-rotate"));
    let output = command.env_clear().env("KUBECONFIG", list).arg("status").output().expect("it runs");
    assert_eq!(output.status.code(), Some(8), "{output:?}");
    assert!(
        server.head().contains(&"authorization: bearer of-the-other".to_owned()),
        "the first that says a thing wins"
    );
}

#[test]
fn proxies_of_the_kubeconfig_are_gone_through() {
    let proxy = Capture::start();
    let through = |scheme: &str| {
        let cluster = json!({"proxy-url": format!("{scheme}://{}", proxy.address)});
        let file = kubeconfig("https://cluster.example:6443", cluster, json!({}));
        let run = rotate(&["status", "--kubeconfig", path(&file), "--request-timeout", "5s"]);
        assert_eq!(run.code, Some(1), "{}", run.stderr);
        proxy.bytes()
    };
    assert!(through("http").starts_with(b"CONNECT cluster.example:6443 HTTP/1.1\r\n"));
    assert_eq!(through("socks5")[0], 5, "the version of the protocol");
}

#[test]
fn what_is_on_this_machine_is_reached_without_the_proxy_of_the_environment() {
    let proxy = Capture::start();
    let cluster = Cluster::with_room(true).agent();
    let run = |line: &[&str], variable: &str| {
        let mut command = assert_cmd::Command::new(env!("CARGO_BIN_EXE_kubectl-rotate"));
        command.env_clear().env(variable, proxy.url()).args(line).output().expect("it runs")
    };
    for variable in ["HTTP_PROXY", "http_proxy", "ALL_PROXY"] {
        let output = run(&["status", "--agent-url", &cluster.agent_url], variable);
        assert_eq!(output.status.code(), Some(0), "{variable}: {output:?}");
    }
    let output = run(&["plan", "node", "w1", "--server", &cluster.server], "HTTPS_PROXY");
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    assert!(proxy.requests.try_recv().is_err(), "the proxy saw nothing, and no token");
}

#[test]
fn verbose_output_shows_requests_then_bodies_and_never_a_token() {
    let cluster = Cluster::with_room(true).guarded_agent();
    cluster.sim.create(json!({
        "apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "rotate-viewer", "namespace": "kubectl-rotate"},
    }));
    let run = |level: &str| cluster.rotate(&["status", "--server", &cluster.server, "-v", level]);
    let requests = run("6");
    assert_eq!((requests.code, requests.stdout.as_str()), (Some(0), ""), "{}", requests.stderr);
    let token = "/api/v1/namespaces/kubectl-rotate/serviceaccounts/rotate-viewer/token: 201 Created in ";
    assert!(requests.stderr.contains(&format!("POST {}{token}", cluster.server)), "{}", requests.stderr);
    assert!(requests.stderr.contains("agent /v1/rotations: 200 in "), "{}", requests.stderr);
    assert!(!requests.stderr.contains("body"), "{}", requests.stderr);
    let bodies = run("8");
    assert!(bodies.stderr.contains(r#"response body: {"apiVersion":"kubectl-rotate.dev/v1""#), "{}", bodies.stderr);
    assert!(bodies.stderr.contains(r#""token":"<masked>""#), "{}", bodies.stderr);
    assert!(bodies.stderr.contains("request body: "), "{}", bodies.stderr);
    assert!(!bodies.stderr.to_lowercase().contains("bearer"), "{}", bodies.stderr);
}

#[test]
fn an_api_server_that_is_busy_is_asked_again() {
    let cluster = Cluster::bare().guarded_agent();
    cluster.sim.create(json!({
        "apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "rotate-viewer", "namespace": "kubectl-rotate"},
    }));
    for (method, path) in [("GET", "/namespaces/kubectl-rotate/pods"), ("POST", "/token")] {
        cluster.sim.faults().fail(method, path, 429, 2);
    }
    found_no_agent(&rotate(&["status", "--server", &cluster.server]));
    let run = cluster.rotate(&["status", "--server", &cluster.server]);
    assert_eq!((run.code, run.stderr.as_str()), (Some(0), "No rotations found\n"));
}

#[test]
fn ones_own_token_is_never_shown() {
    let server = Capture::start();
    let run = rotate(&["status", "--server", &server.url(), "--token", "my-own-token", "-v", "9"]);
    assert!(server.head().contains(&"authorization: bearer my-own-token".to_owned()));
    assert!(run.stderr.contains("200 OK") && !run.stderr.contains("my-own-token"), "{}", run.stderr);
}
