//! The program itself, and what tests on it share.

use std::net::SocketAddr;
use std::process::Stdio;
use std::time::Duration;

use http::Method;
use rotate_agent::clock::Clock;
use rotate_sim::{Access, Identity};
use serde_json::json;
use tempfile::TempDir;
use tokio::net::TcpListener;
use tokio::process::{Child, Command};

use crate::guarded::{Cluster, send};

/// What the agent shows the API server in these tests.
pub(crate) const OWN_TOKEN: &str = "the-agents-own-secret";

/// The program, its log in a file.
pub(crate) struct Program {
    process: Child,
    folder: TempDir,
    pub(crate) control: SocketAddr,
    pub(crate) ops: SocketAddr,
}

impl Program {
    pub(crate) async fn start(cluster: &Cluster, level: &str, flags: &[&str]) -> Self {
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
        let unknown: SocketAddr = "127.0.0.1:0".parse().unwrap();
        let mut program = Self { process, folder, control: unknown, ops: unknown };
        program.control = program.told("control=").await;
        program.ops = program.told("ops=").await;
        for _ in 0..600 {
            let (status, _) = send(program.ops, Method::GET, "/readyz", "", "").await;
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

    pub(crate) fn log(&self) -> String {
        std::fs::read_to_string(self.folder.path().join("log")).unwrap()
    }

    /// Resident memory in KiB.
    pub(crate) fn memory(&self) -> u64 {
        let path = format!("/proc/{}/status", self.process.id().unwrap());
        let status = std::fs::read_to_string(path).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
        line.trim().trim_end_matches(" kB").parse().unwrap()
    }

    /// As the kubelet ends it; the log.
    pub(crate) async fn end(mut self) -> String {
        let id = self.process.id().unwrap().to_string();
        assert!(Command::new("kill").args(["-TERM", &id]).status().await.unwrap().success());
        let status = tokio::time::timeout(Duration::from_secs(20), self.process.wait()).await.unwrap().unwrap();
        assert!(status.success(), "{status}");
        self.log()
    }
}

/// The agent's own token is good for everything.
pub(crate) fn know_the_agent(cluster: &Cluster, access: Access) {
    let agent =
        Identity { user: "system:admin".to_owned(), groups: vec!["system:masters".to_owned()], audiences: Vec::new() };
    let mut access = access;
    access.tokens.insert(OWN_TOKEN.to_owned(), agent);
    cluster.sim.set_access(access);
}
