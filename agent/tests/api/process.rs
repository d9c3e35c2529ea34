//! The program itself: what it keeps in memory, and what it writes into its log.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::Stdio;
use std::time::Duration;

use http::Method;
use rotate_agent::clock::Clock;
use rotate_shared::names;
use rotate_sim::{Access, Identity};
use serde_json::json;
use tempfile::TempDir;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::process::{Child, Command};

use crate::guarded::{Cluster, follow, rotate, send};

/// What the agent shows the API server in these tests.
const OWN_TOKEN: &str = "the-agents-own-secret";

/// The program, its log in a file.
struct Program {
    process: Child,
    folder: TempDir,
    control: SocketAddr,
}

impl Program {
    async fn start(cluster: &Cluster, level: &str, flags: &[&str]) -> Self {
        let server = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = format!("http://{}", server.local_addr().unwrap());
        let router = cluster.sim.router();
        tokio::spawn(async move { axum::serve(server, router).await });
        let folder = TempDir::new().unwrap();
        let kubeconfig = folder.path().join("kubeconfig");
        let config = json!({
            "apiVersion": "v1", "kind": "Config", "current-context": "test",
            "clusters": [{ "name": "test", "cluster": { "server": address } }],
            "users": [{ "name": "agent", "user": { "token": OWN_TOKEN } }],
            "contexts": [{ "name": "test", "context": { "cluster": "test", "user": "agent" } }],
        });
        std::fs::write(&kubeconfig, config.to_string()).unwrap();
        let log = std::fs::File::create(folder.path().join("log")).unwrap();
        let process = Command::new(env!("CARGO_BIN_EXE_rotate-agent"))
            .env_clear()
            .env("RUST_LOG", level)
            .env("ROTATE_KUBECONFIG", kubeconfig)
            .args(["--control-addr", "127.0.0.1:0", "--ops-addr", "127.0.0.1:0"])
            .args(flags)
            .stdin(Stdio::null())
            .stderr(log)
            .kill_on_drop(true)
            .spawn()
            .unwrap();
        let mut program = Self { process, folder, control: "127.0.0.1:0".parse().unwrap() };
        program.control = program.told("control=").await;
        let ops: SocketAddr = program.told("ops=").await;
        for _ in 0..600 {
            let (status, _) = send(ops, Method::GET, "/readyz", "", "").await;
            if status == 200 {
                return program;
            }
            Clock::system().sleep(Duration::from_millis(50)).await;
        }
        panic!("it never became ready: {}", program.log());
    }

    /// An address out of its log.
    async fn told(&self, what: &str) -> SocketAddr {
        for _ in 0..600 {
            let log = self.log();
            let found = log.split_whitespace().find_map(|word| word.strip_prefix(what)?.parse().ok());
            if let Some(found) = found {
                return found;
            }
            Clock::system().sleep(Duration::from_millis(50)).await;
        }
        panic!("no {what} in its log: {}", self.log());
    }

    fn log(&self) -> String {
        std::fs::read_to_string(self.folder.path().join("log")).unwrap()
    }

    /// Resident memory in KiB.
    fn memory(&self) -> u64 {
        let path = format!("/proc/{}/status", self.process.id().unwrap());
        let status = std::fs::read_to_string(path).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
        line.trim().trim_end_matches(" kB").parse().unwrap()
    }

    /// As the kubelet ends it; the log.
    async fn end(mut self) -> String {
        let id = self.process.id().unwrap().to_string();
        assert!(Command::new("kill").args(["-TERM", &id]).status().await.unwrap().success());
        let status = tokio::time::timeout(Duration::from_secs(20), self.process.wait()).await.unwrap().unwrap();
        assert!(status.success(), "{status}");
        self.log()
    }
}

/// The agent's own token is good for everything.
fn know_the_agent(cluster: &Cluster, access: Access) {
    let agent =
        Identity { user: "system:admin".to_owned(), groups: vec!["system:masters".to_owned()], audiences: Vec::new() };
    let mut access = access;
    access.tokens.insert(OWN_TOKEN.to_owned(), agent);
    cluster.sim.set_access(access);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ten_thousand_streams_are_refused_beyond_the_bound_and_take_little_memory() {
    let cluster = Cluster::start().await;
    know_the_agent(&cluster, crate::guarded::access());
    let node = cluster.busy_node().await;
    let program = Program::start(&cluster, "info", &[]).await;
    let operator = cluster.token("rotate-operator", names::AUDIENCE).await;
    let id = rotate(program.control, &operator, &node).await;
    let mut tokens = Vec::new();
    for _ in 0..8 {
        tokens.push(cluster.token("rotate-viewer", names::AUDIENCE).await);
    }
    let before = program.memory();

    let mut callers = tokio::task::JoinSet::new();
    for caller in 0..50 {
        let (control, id, token) = (program.control, id.clone(), tokens[caller % tokens.len()].clone());
        callers.spawn(async move {
            let mut open = Vec::new();
            let mut refused = 0;
            for _ in 0..200 {
                match follow(control, &token, &id).await {
                    Ok(stream) => open.push(stream),
                    Err((429 | 503, body)) => {
                        assert!(body.contains("TooManyRequests"), "{body}");
                        refused += 1;
                    }
                    Err(other) => panic!("{other:?}"),
                }
            }
            (open, refused)
        });
    }
    let mut open = Vec::new();
    let mut refused = 0;
    while let Some(done) = callers.join_next().await {
        let (streams, no) = done.unwrap();
        open.extend(streams);
        refused += no;
    }
    assert_eq!((open.len(), open.len() + refused), (256, 10_000));
    let (status, _) = send(program.control, Method::GET, &format!("/v1/rotations/{id}"), &operator, "").await;
    assert_eq!(status, 200, "everything else goes on");
    let grown = program.memory().saturating_sub(before);
    assert!(grown < 24 << 10, "{grown} KiB more than the {before} KiB before");
    drop(open);
    program.end().await;
}

#[tokio::test]
async fn no_credential_is_written_into_the_log_or_into_an_answer() {
    let cluster = Cluster::start().await;
    know_the_agent(&cluster, crate::guarded::access());
    let node = cluster.busy_node().await;
    let (certificate, key) = certificate();
    let files = TempDir::new().unwrap();
    let (cert_file, key_file) = (files.path().join("tls.crt"), files.path().join("tls.key"));
    std::fs::write(&cert_file, certificate).unwrap();
    std::fs::write(&key_file, &key).unwrap();
    let path = |file: &PathBuf| file.to_str().unwrap().to_owned();
    let tls = ["--tls-cert", &path(&cert_file), "--tls-key", &path(&key_file), "--tls-addr", "127.0.0.1:0"];
    let program = Program::start(&cluster, "trace", &tls).await;

    let operator = cluster.token("rotate-operator", names::AUDIENCE).await;
    let viewer = cluster.token("rotate-viewer", names::AUDIENCE).await;
    let expired = cluster.token_for("rotate-operator", names::AUDIENCE, 0).await;
    let other = cluster.token("rotate-operator", "https://kubernetes.default.svc").await;
    let secrets = [&*operator, &viewer, &expired, &other, "sim.invented-secret.9999999999", "not-even-one"];
    let id = rotate(program.control, &operator, &node).await;
    let mut answers = String::new();
    for token in secrets {
        drop(follow(program.control, token, &id).await.map_err(|(_, body)| answers += &body));
        for (method, path, body) in [
            (Method::GET, "/v1/nodes", ""),
            (Method::GET, "/v1/nodes/nope", ""),
            (Method::GET, "/nowhere", ""),
            (Method::POST, "/v1/rotations", r#"{"nodes":["nope"]}"#),
            (Method::POST, "/v1/plans", "not JSON"),
            (Method::DELETE, "/v1/nodes", ""),
        ] {
            answers += &send(program.control, method, path, token, body).await.1;
        }
        for header in
            [format!("Basic {token}"), format!("Bearer {token}\r\nauthorization: Bearer {token}"), token.to_owned()]
        {
            let request =
                format!("GET /v1/nodes HTTP/1.1\r\nhost: a\r\nconnection: close\r\nauthorization: {header}\r\n\r\n");
            let mut stream = TcpStream::connect(program.control).await.unwrap();
            stream.write_all(request.as_bytes()).await.unwrap();
            stream.read_to_string(&mut answers).await.unwrap();
        }
    }
    let log = program.end().await;
    assert!(log.contains("TRACE") && log.contains("refused") && log.contains("tls="), "it logs what it can: {log}");
    assert!(answers.contains("Forbidden") && answers.contains("Unauthenticated"), "{answers}");
    let half_of_key = key.lines().nth(1).unwrap();
    for secret in secrets.into_iter().chain([OWN_TOKEN, half_of_key]) {
        assert!(!log.contains(secret), "{secret} is in the log");
        assert!(!answers.contains(secret), "{secret} is in an answer");
    }
}

fn certificate() -> (String, String) {
    let key = rcgen::KeyPair::generate().unwrap();
    let params = rcgen::CertificateParams::new(["localhost".to_owned()]).unwrap();
    (params.self_signed(&key).unwrap().pem(), key.serialize_pem())
}
